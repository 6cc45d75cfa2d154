"""Who lives on a node, and what its owner has agreed to."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tacit.errors import TacitError, shown
from tacit.node.store import Content, Store
from tacit.privacy.accounting import require_delta
from tacit.wire.messages import RefusalReason, RunPlan

BOX_NAME = "settings"


class NotAnsweredError(TacitError):
    """A node will not answer a request: the sentence says why, and `reason` names the kind."""

    def __init__(self, reason: RefusalReason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason: RefusalReason = reason


@dataclass(frozen=True)
class Agreement:
    """What the owner asks of a run before the node takes part in it.

    With `most_epsilon` a run has to promise an epsilon of at most that, and the node computes the
    promise by itself. With `total_epsilon` all runs together may spend that; a server could
    otherwise begin one run after another. Either is meant at a delta of at most `most_delta`: with
    a large one a small epsilon needs hardly any noise. With `only_secure` uploads have to be added
    up under masks. `imports` allows a plan to name Python modules of this machine; a server could
    choose what is run by that. `allow_tables` sends a person's whole item table to servers that
    read single ones; it tells much of the history.

    >>> Agreement(most_epsilon=-1.0)
    Traceback (most recent call last):
    tacit.errors.TacitError: The largest epsilon is -1.0; it must be above 0, or left out.
    """

    most_epsilon: float | None = None
    only_secure: bool = False
    imports: bool = False
    allow_tables: bool = False
    total_epsilon: float | None = None
    most_delta: float = 1e-5

    def __post_init__(self) -> None:
        require_delta(self.most_delta)
        for most in (self.most_epsilon, self.total_epsilon):
            if most is not None and not 0 < most < math.inf:
                raise TacitError(
                    f"The largest epsilon is {shown(most)}; it must be above 0, or left out."
                )

    def require_masks(self, plan: RunPlan) -> None:
        if self.only_secure and not plan.secure:
            raise NotAnsweredError(
                "not agreed", "The owner sends uploads under masks only, and this run has none."
            )

    def require_tables(self, plan: RunPlan, people: int, name: str) -> None:
        """Refuse a server that reads single tables, unless the owner sends them."""
        if not self.allow_tables:
            raise NotAnsweredError(
                "not agreed",
                f"The server of {name} reads single tables of people, and the owner sends none.",
            )
        if self.only_secure or plan.secure or plan.promise:
            raise NotAnsweredError(
                "not agreed", f"{name} sends single tables, which no mask and no promise covers."
            )
        if people != 1:
            raise NotAnsweredError(
                "unknown run", f"{name} sends single tables, and this node has {people} people."
            )

    def require_epsilon(self, epsilon: float | None) -> None:
        """Refuse a run that promises less than the owner asks for; None is no promise at all."""
        most = self.most_epsilon
        if most is None:
            return
        if epsilon is None or epsilon > most * (1 + 1e-6):
            found = "nothing" if epsilon is None else f"epsilon {epsilon:.4g}"
            raise NotAnsweredError(
                "not agreed",
                f"The owner asks for an epsilon of at most {most:g}, and this run promises "
                f"{found}.",
            )

    @property
    def asks_for_epsilon(self) -> bool:
        return self.most_epsilon is not None or self.total_epsilon is not None

    def require_small_delta(self, delta: float) -> None:
        """Refuse a promise whose epsilon is small because its delta is large."""
        if self.asks_for_epsilon and delta > self.most_delta * (1 + 1e-6):
            raise NotAnsweredError(
                "not agreed",
                f"The owner asks for a delta of at most {self.most_delta:g}, and this run promises "
                f"its epsilon at {delta:g}.",
            )

    def require_open_hits(self) -> None:
        """Refuse to tell hits without noise where the owner asks for an epsilon at all."""
        if self.asks_for_epsilon:
            raise NotAnsweredError(
                "not agreed", "The owner asks for an epsilon, and hits in the open have none."
            )

    def require_total(self, epsilon: float | None) -> None:
        """Refuse an upload with which all runs would have spent that; None is no promise at all."""
        most = self.total_epsilon
        if most is None:
            return
        if epsilon is None or epsilon > most * (1 + 1e-6):
            raise NotAnsweredError(
                "not agreed",
                f"The owner allows an epsilon of {most:g} for all runs together, which this upload "
                "would exceed.",
            )


@dataclass(frozen=True)
class Settings:
    """People, keys and agreement of a node. `number` and `directory` are for secure sums: the
    node's own number, and the public keys of all nodes by theirs."""

    people: tuple[str, ...]
    deployment: str = ""  # "": the first that sends a request
    number: int = 0
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    directory: Mapping[int, bytes] = field(default_factory=dict)
    agreement: Agreement = Agreement()

    def __post_init__(self) -> None:
        if not self.people:
            raise TacitError("A node needs at least one person; name one with --user.")
        if len(set(self.people)) != len(self.people) or "" in self.people:
            raise TacitError("The people of a node need names, each of its own.")

    @classmethod
    def of(cls, people: Sequence[str], **others: Any) -> Settings:
        """With these people; without any, one with a random name. Names decide what a person draws
        at random, so two devices must not have people of the same name."""
        return cls(tuple(people) or (f"person-{secrets.token_hex(8)}",), **others)

    def require_deployment(self, deployment: str) -> None:
        if self.deployment and deployment != self.deployment:
            raise NotAnsweredError(
                "another deployment", "This node belongs to another deployment than the request."
            )

    def write(self, store: Store) -> None:
        values = asdict(self)
        values["secret"] = self.secret.hex()
        values["directory"] = {str(k): public.hex() for k, public in self.directory.items()}
        store.write(BOX_NAME, Content(values))

    @classmethod
    def read(cls, store: Store) -> Settings:
        content = store.read(BOX_NAME)
        if content is None:
            raise TacitError(
                f"The node at {str(store.folder)!r} has lost its settings; bring back a copy of "
                "its folder."
            )
        known = content.values
        directory = {int(k): bytes.fromhex(public) for k, public in known["directory"].items()}
        return cls(
            tuple(known["people"]),
            known["deployment"],
            known["number"],
            bytes.fromhex(known["secret"]),
            directory,
            Agreement(**known["agreement"]),
        )

    def joined(self, deployment: str) -> Settings:
        return replace(self, deployment=deployment)
