"""`Node`: one device. It answers requests, records what its people touch, and recommends.

`answer` is the one entry for every transport, and it never raises: what a node will not or cannot
do is a `Refused`, and its state is then as before.

What a request has to bring: `arrays` are the shared parameters, by name and in the precision of the
experiment. Where the server makes the views of items (`views_sent`), they are those of the clients'
half (`with_server_views`): in `Play` of a training exchange, in `Rank` and in `Deliver`. An answer
to `Play` has the sums of uploads under the names of shared parameters; it is empty for exchanges in
which nobody sends. Noise of links on uploads is in it already; noise on sums is the server's or, in
a secure sum, every node's share.

Hits under masks are those of validation where the moment's exchange is the number of exchanges of
the round, and those of the test part where it is one more.

A node ranks with its private state of now. So a server that selects a round tells nodes when a
round is the best so far (`Deliver`), and once more at the end with `final`: a node then keeps to
what it ranked with in that round.

torch is loaded by the first request. Recording and recommending go without.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import TacitError, loggable, nearest, shown
from tacit.node.agreement import Agreement, NotAnsweredError, Settings
from tacit.node.catalogue import Catalogue
from tacit.node.history import Histories, HistoryFile
from tacit.node.ledger import SentLedger
from tacit.node.ranking import Line, Ranking, best_items
from tacit.node.store import HEADER, Store
from tacit.wire.messages import (
    Answer,
    CatalogueUpdate,
    Deliver,
    Give,
    Play,
    Rank,
    Received,
    Refused,
    Request,
    SumRequest,
)

if TYPE_CHECKING:
    from tacit.node.answers import Answers

LOG = logging.getLogger("tacit.node")
FAILED = "The node could not do what was asked; its state is as before."


class Node:
    """One device with its people. Use `Node.init` once, and `Node.open` from then on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     node = Node.init(Path(place, "node"), bytes(32), Catalogue(("a", "b")), users=["ada"])
    ...     node.record("a", time=3)
    ...     Node.open(Path(place, "node"), bytes(32)).history()
    [('ada', 'a', 3)]
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.settings = Settings.read(store)
        self.catalogue = Catalogue.read(store)
        self.ledger = SentLedger(store)
        self._history = HistoryFile(store, self.settings.people)
        self._answers: Answers | None = None

    def __repr__(self) -> str:
        return f"Node({str(self.store.folder)!r}, {len(self.settings.people)} people)"

    @classmethod
    def init(
        cls,
        folder: str | Path,
        key: bytes,
        catalogue: Catalogue,
        *,
        users: Sequence[str] = (),
        deployment: str = "",
        agreement: Agreement | None = None,
        number: int = 0,
        secret: bytes | None = None,
        directory: Mapping[int, bytes] | None = None,
        key_file: Path | None = None,
    ) -> Node:
        """A new node in a new folder. `number`, `secret` and `directory` (the public keys of all
        nodes by number) are for secure sums; a secret is drawn where none is given."""
        others: dict[str, Any] = {} if secret is None else {"secret": secret}
        settings = Settings.of(
            users,
            deployment=deployment,
            number=number,
            directory=dict(directory or {}),
            agreement=agreement or Agreement(),
            **others,
        )
        with Store.create(Path(folder), key, key_file) as store:
            settings.write(store)
            catalogue.write(store)
        return cls(store)

    @classmethod
    def open(cls, folder: str | Path, key: bytes | None = None) -> Node:
        """The node in a folder. Without a key it is the one in the environment, or in the file that
        was named when the node was made."""
        return cls(Store.open(Path(folder), key))

    @property
    def people(self) -> tuple[str, ...]:
        return self.settings.people

    @property
    def public_key(self) -> bytes:
        """What the directory of nodes holds for this one."""
        from tacit.privacy.secure_sum.primitives import NodeKey

        return NodeKey(self.settings.number, self.settings.secret).public

    def set_directory(self, directory: Mapping[int, bytes]) -> None:
        """The public keys of all nodes by number, from somebody other than the server."""
        with self.store.alone():
            self.settings = replace(Settings.read(self.store), directory=dict(directory))
            self.settings.write(self.store)

    # What people do

    def record(self, item: str, time: int | float | None = None, user: str | None = None) -> None:
        """An interaction of now, or of a time. A repeated item is recorded again; by default the
        earliest counts."""
        self.record_all([(item, time, user)])

    def record_all(self, rows: Iterable[tuple[str, int | float | None, str | None]]) -> None:
        """Interactions (item, time, person), all of them or none."""
        kept = []
        for item, time, user in rows:
            if item not in self.catalogue.code_of:
                self.catalogue = Catalogue.read(self.store)  # a newer one may have come
            if item not in self.catalogue.code_of:
                some = self.catalogue.ids[:500]
                raise TacitError(f"No item {shown(item)} in the catalogue; {nearest(item, some)}")
            kept.append((self._history.number_of(user), item, time))
        self._history.record_all(kept)

    def history(self) -> list[tuple[str, str, int | float]]:
        """Person, item and time of all interactions, in the order in which they were recorded."""
        touched = self._history.touched()
        return [(self.people[one.person], one.item, one.time) for one in touched]

    def histories(self) -> Histories:
        """The same in codes."""
        return self._history.read(self.catalogue.code_of)

    def recommend(
        self, k: int = 10, user: str | None = None, ranking: Ranking | None = None
    ) -> list[Line]:
        """The best k items that a person does not have yet, from local state alone; `ranking` is
        what this node ranks with, where somebody has read it already."""
        person = self._history.number_of(user)
        ranking = ranking or Ranking.read(self.store)
        return best_items(ranking, self.catalogue, self.histories(), person, k)

    def leave(self) -> None:
        """Delete everything; the node answers nothing from then on."""
        Store.delete_at(self.store.folder)

    # What a server asks

    def answer(self, request: Request) -> Answer:
        """The answer to any request; it never raises."""
        try:
            self._require_member()
            with self.store.alone():
                self._require_member()  # the lock may have been waited for
                return self._answer(request)
        except NotAnsweredError as error:
            return Refused(error.reason, str(error))
        except Exception as error:
            LOG.warning("a request failed: %s", loggable(error))
            return Refused("failed", FAILED)

    def _require_member(self) -> None:
        if not (self.store.folder / HEADER).is_file():
            raise NotAnsweredError("left", "The owner has left the federation.")

    def _answer(self, request: Request) -> Answer:
        # another process may have changed both
        self.settings, self.catalogue = Settings.read(self.store), Catalogue.read(self.store)
        if isinstance(request, CatalogueUpdate):
            self._join(request.deployment)
            return self._update(request)
        if not isinstance(request, Play | SumRequest | Rank | Deliver | Give):
            raise NotAnsweredError("unreadable", "This is no request that a node answers.")
        self._join(request.moment.deployment)
        if self._answers is None:
            from tacit.node.answers import Answers

            self._answers = Answers(self)
        return self._answers.answer(request)

    def _join(self, deployment: str) -> None:
        """A node that belongs to nobody yet belongs to the first deployment that it hears of."""
        self.settings.require_deployment(deployment)
        if not self.settings.deployment:
            self.settings = self.settings.joined(deployment)
            self.settings.write(self.store)

    def _update(self, request: CatalogueUpdate) -> Received:
        held = self.catalogue
        if request.version > held.version or request.digest != held.digest:
            if request.version < held.version:
                raise NotAnsweredError("stale", "This node has a later catalogue already.")
            try:
                new = Catalogue.of_message(request)
            except TacitError as error:
                raise NotAnsweredError("unreadable", str(error)) from error
            if not new.continues(held):
                raise NotAnsweredError(
                    "not agreed", "A catalogue does not begin with the items of the one before."
                )
            new.write(self.store)
            self.catalogue = held = new
        return Received(request.deployment, held.version)
