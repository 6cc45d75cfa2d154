"""What a node ever sent: one encrypted row for each message, written before the message leaves.

A row is known by its moment. A message that is sent again has the same row, so nothing is counted
twice; a row may stand for a message that was lost on its way, never the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tacit.node.store import Rows, Store

FILE = "ledger.sqlite"
UPLOADS, MASKED_HITS = ("upload", "masked upload"), "masked hits"
PLAIN_HITS = ("hits of valid", "hits of test")  # no epsilon covers them


@dataclass(frozen=True)
class SentParameter:
    """One array of a message: its name, its shape, and its bytes."""

    name: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Entry:
    """One message that left, or was about to.

    `releases` counts the uploads of this run so far, this one included, and `epsilon` is what they
    spent together with all hits under masks; None where nothing was promised.
    """

    deployment: str
    run: str
    round_number: int
    exchange: int
    kind: str  # one of `UPLOADS`, `MASKED_HITS` or one of `PLAIN_HITS`
    parameters: tuple[SentParameter, ...]
    releases: int = 0
    epsilon: float | None = None
    clients: int = 1

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.parameters)

    @property
    def text(self) -> str:
        """One line for people.

        >>> sent = SentParameter("items", (240, 8), 7680)
        >>> Entry("shop", "a", 3, 0, "upload", (sent,), releases=3).text
        'run a, round 3, exchange 0: upload of items (240 × 8), 7,680 bytes, nothing promised'
        """
        what = ", ".join(
            f"{one.name} ({' × '.join(map(str, one.shape)) or '1'})" for one in self.parameters
        )
        spent = "nothing promised" if self.epsilon is None else f"epsilon {self.epsilon:.4g} so far"
        where = f"run {self.run}, round {self.round_number}, exchange {self.exchange}"
        return f"{where}: {self.kind} of {what}, {self.bytes:,} bytes, {spent}"


class SentLedger:
    """The ledger of one node."""

    def __init__(self, store: Store) -> None:
        self._store, self._rows = store, Rows(store, FILE)

    def write(self, entry: Entry) -> None:
        """Write an entry; one of the same message takes its place."""
        key = json.dumps([entry.deployment, entry.run, entry.round_number, entry.exchange])
        name = self._store.digest(f"{key}:{entry.kind}".encode())
        self._rows.append(0, json.dumps(asdict(entry), ensure_ascii=False).encode(), name)

    def read(self) -> list[Entry]:
        """All entries, the earliest first."""
        return [_entry(json.loads(row.text)) for row in self._rows.read()]

    def counted(
        self, deployment: str, run: str
    ) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """Round and exchange of all uploads of a run, and of all its hits under masks."""
        own = [one for one in self.read() if (one.deployment, one.run) == (deployment, run)]
        uploads = {(one.round_number, one.exchange) for one in own if one.kind in UPLOADS}
        hits = {(one.round_number, one.exchange) for one in own if one.kind == MASKED_HITS}
        return uploads, hits


def _entry(known: dict[str, object]) -> Entry:
    parameters = tuple(
        SentParameter(one["name"], tuple(one["shape"]), one["bytes"])
        for one in known["parameters"]  # type: ignore[attr-defined]
    )
    return Entry(**{**known, "parameters": parameters})  # type: ignore[arg-type]


def spent(entries: Sequence[Entry]) -> dict[str, float | None]:
    """The epsilon of each run; runs compose by adding up. None: something left without a promise.

    >>> one = Entry("shop", "a", 1, 0, "upload", (), 1, 0.5)
    >>> spent([one, Entry("shop", "a", 2, 0, "upload", (), 2, 0.75)])
    {'a': 0.75}
    """
    found: dict[str, float | None] = {}
    for entry in entries:
        if entry.kind in PLAIN_HITS:
            continue
        before = found.get(entry.run, 0.0)
        if before is None or entry.epsilon is None:
            found[entry.run] = None
        else:
            found[entry.run] = max(before, entry.epsilon)
    return found


def spent_by_all(entries: Sequence[Entry]) -> float | None:
    """The epsilon of all runs together, None where something left without a promise.

    >>> one = Entry("shop", "a", 1, 0, "upload", (), 1, 0.5)
    >>> spent_by_all([one, Entry("shop", "b", 1, 0, "upload", (), 1, 0.75)])
    1.25
    """
    each = spent(entries).values()
    promised = [epsilon for epsilon in each if epsilon is not None]
    return sum(promised) if len(promised) == len(each) else None
