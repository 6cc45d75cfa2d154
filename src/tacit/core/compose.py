"""compose(method, task): check that the parts fit, and give engines the one thing they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from tacit.core.method import Method
from tacit.core.optim import Optimiser
from tacit.core.parts import Guided, Penalised, TablePenalised, TableRule
from tacit.core.types import ITEMS, OWN_ITEMS, Batch, Init, Params, Task
from tacit.errors import TacitError


@dataclass(frozen=True)
class Algorithm:
    """A method on a catalogue of known size: all that an engine knows.

    `loss` and `score` are for ONE client; the row leaf arrives as the rows that are asked about.
    """

    method: Method
    task: Task

    @cached_property
    def shared(self) -> dict[str, Init]:
        """The leaves that the server holds and that may leave a device as a change."""
        method, table = self.method, self._table()
        leaves = {**method.items.shared(), **method.backbone.shared(), **method.sync.shared(table)}
        if isinstance(method.server, TableRule):
            leaves |= method.server.shared(table)
        return leaves

    @cached_property
    def private(self) -> dict[str, Init]:
        """The leaves that never leave a device; a personal table only as the rule says."""
        method, table = self.method, self._table()
        own = method.sync.private(table)
        leaves = {**method.items.private(), **method.backbone.private(), **own}
        if isinstance(method.server, TableRule):
            leaves |= method.server.private(table)
        return leaves

    def _table(self) -> Init:
        row = self.method.backbone.item_init()
        return replace(row, shape=(self.task.n_items, *row.shape))

    @property
    def row_leaves(self) -> tuple[str, ...]:
        """The tables whose rows local training moves."""
        return self.method.sync.trains

    @cached_property
    def held_rows(self) -> tuple[str, ...]:
        """Other tables of a client that a rule over the whole table looks at while it trains."""
        if self.method.sync.rows == "touched":
            return ()
        shape = self._table().shape
        tables = [leaf for leaf, init in self.private.items() if init.shape == shape]
        return tuple(leaf for leaf in tables if leaf not in self.row_leaves)

    @cached_property
    def model_leaves(self) -> tuple[str, ...]:
        """What the scorer and the item encoder learn besides the item rows, in a fixed order."""
        backbone, items = self.method.backbone, self.method.items
        parts = (backbone.shared(), backbone.private(), items.shared(), items.private())
        return tuple(sorted(leaf for part in parts for leaf in part))

    @cached_property
    def uploads(self) -> tuple[str, ...]:
        """The shared leaves that a client changes, and so sends the change of."""
        return tuple(
            leaf for leaf in self.shared if leaf in self.row_leaves or leaf in self.model_leaves
        )

    def leaves(self, group: Literal["model", "items"]) -> tuple[str, ...]:
        return self.row_leaves if group == "items" else self.model_leaves

    def optimiser(self, leaf: str) -> Optimiser:
        local = self.method.local
        return local.items if leaf in self.row_leaves else local.model

    def score(self, p: Params) -> Tensor:
        """Logits of one client for the rows in `p`'s row leaves."""
        method = self.method
        return method.backbone.score(p, method.items.encode(p, method.sync.read(p)))

    def loss(self, p: Params, batch: Batch, round_number: int = 1) -> Tensor:
        """Loss of one client on one batch; row leaves hold one row per sample."""
        method = self.method
        value = method.objective.loss(self.score(p), batch.label_N, batch.weight_N)
        if isinstance(method.sync, Penalised):
            value = value + method.sync.penalty(p, batch.weight_N, round_number)
        return value

    @cached_property
    def table_penalty(self) -> Callable[[Params], Tensor] | None:
        """The rule's term over whole tables, of one client; None where there is none."""
        sync = self.method.sync
        return sync.table_penalty if isinstance(sync, TablePenalised) else None

    @property
    def communicates(self) -> bool:
        sync = self.method.sync
        return isinstance(sync, Guided) or sync.sends(1)

    def exchanges(self, round_number: int, participants: int) -> int:
        """How many clients send in a round: the participants, or at a guidance everybody."""
        if not self.method.sync.sends(round_number):
            return 0
        return self.task.n_users if isinstance(self.method.sync, Guided) else participants

    @property
    def floats_up(self) -> int:
        """How many numbers a client sends when it sends."""
        if not self.communicates:
            return 0
        if self.uploads:
            return sum(self.shared[leaf].count for leaf in self.uploads)
        return self._table().count  # a personal table goes whole

    @property
    def floats_down(self) -> int:
        """How many numbers a client receives for that."""
        if isinstance(self.method.server, TableRule):
            return self.method.server.floats_down(self._table())
        return self.floats_up

    @property
    def floats_on_client(self) -> int:
        """How many numbers a client holds: its private leaves and its copy of the shared ones. A
        global table that it neither trains nor restarts from is not held."""
        held = ITEMS in self.row_leaves or self.method.sync.restarts
        shared = [init for leaf, init in self.shared.items() if leaf != ITEMS or held]
        return sum(init.count for init in (*shared, *self.private.values()))

    @property
    def floats_at_peak(self) -> int:
        """How many numbers a client holds at most: at a guidance the global table comes on top."""
        received = self._table().count if isinstance(self.method.sync, Guided) else 0
        return self.floats_on_client + received


def compose(method: Method, task: Task) -> Algorithm:
    """Check the parts against each other, and refuse with a sentence what cannot work.

    >>> from tacit.methods import fedmf
    >>> compose(fedmf(dim=4), Task(n_users=2, n_items=3)).floats_up
    12
    """
    algorithm = Algorithm(method, task)
    _check_numbers(method)
    _check_leaves(algorithm)
    _check_channel(method)
    _check_optimisers(algorithm)
    return algorithm


def _check_numbers(method: Method) -> None:
    local = method.local
    for name, value, low in (
        ("backbone.dim", method.backbone.dim, 1),
        ("local.epochs", local.epochs, 1),
        ("local.batch", local.batch, 1),
        ("sampling.negatives", method.sampling.negatives, 1),
    ):
        if value < low:
            raise TacitError(f"{name} is {value}; it must be at least {low}.")
    if local.gradient_clip is not None and not local.gradient_clip > 0:
        raise TacitError(
            f"local.gradient_clip is {local.gradient_clip}; it must be positive, or left out."
        )


def _check_leaves(algorithm: Algorithm) -> None:
    both = algorithm.shared.keys() & algorithm.private.keys()
    if both:
        raise TacitError(
            f"Leaf {min(both)!r} is made both as shared and as private; a leaf is one or the "
            "other: rename it in one of the two parts."
        )
    sync = type(algorithm.method.sync).__name__
    if algorithm.uploads and not algorithm.method.sync.sends(1):
        raise TacitError(
            f"{sync} sends no changes after a round, so what clients learn of the shared leaf "
            f"{min(algorithm.uploads)!r} would be lost; use a backbone without shared leaves "
            "(scorer='private'), or Replace()."
        )
    reads_each = isinstance(algorithm.method.server, TableRule)
    if reads_each and (OWN_ITEMS not in algorithm.private or algorithm.uploads):
        raise TacitError(
            f"{type(algorithm.method.server).__name__} reads personal item tables and nothing "
            f"else, but {sync} and the backbone give it something else; use a rule with a personal "
            "table and a backbone without shared leaves."
        )
    if isinstance(algorithm.method.sync, TablePenalised):
        for leaf in algorithm.method.sync.needs:
            if leaf not in algorithm.shared and leaf not in algorithm.private:
                raise TacitError(
                    f"{sync} looks at {leaf!r}, which {type(algorithm.method.server).__name__} "
                    "does not make; use the server that goes with it (Proximal with GraphMean, "
                    "GroupKept with ClusterMean)."
                )
    sends_alone = algorithm.method.sync.sends(1) and not algorithm.uploads
    if sends_alone and not reads_each and not isinstance(algorithm.method.sync, Guided):
        raise TacitError(
            f"{sync} sends whole personal tables, but {type(algorithm.method.server).__name__} "
            "adds changes up; use a server that reads single tables (GraphMean, ClusterMean)."
        )


def _check_channel(method: Method) -> None:
    given: set[str] = set()
    for link in method.channel:
        name = type(link).__name__
        if link.order is not None and "noise" in given:
            raise TacitError(
                f"{name} stands after noise in the channel, so it would cut the noise as well; put "
                f"{name} before the noise."
            )
        missing = link.needs - given
        if "bounded_norm" in missing:
            raise TacitError(
                f"{name} needs a bounded norm and nothing before it gives one; put Clip(bound) "
                "first."
            )
        if missing:
            raise TacitError(
                f"{name} needs a dense update before it; begin the channel with Dense()."
            )
        given |= link.gives
    if "noise" in given and not (isinstance(method.sync, Guided) or method.sync.sends(1)):
        raise TacitError(
            f"{type(method.sync).__name__} sends nothing, so noise in the channel protects "
            "nothing; drop the noise, or use Replace()."
        )
    if isinstance(method.server, TableRule):
        if any(link.order is not None for link in method.channel) or "noise" in given:
            raise TacitError(
                f"{type(method.server).__name__} reads single tables, for which the channel knows "
                "no clip and no noise yet; use Mean, or leave them out."
            )
        return
    if "noise" in given and method.server.weight(1) != method.server.weight(2):
        raise TacitError(
            "Noise in the channel is drawn for clients that count alike, but the server weights "
            "them by their examples; use Mean(weights='uniform')."
        )


def _check_optimisers(algorithm: Algorithm) -> None:
    local = algorithm.method.local
    if local.items.lifetime == "persistent":
        raise TacitError(
            "local.items keeps its optimiser state for ever, but a client's item rows change from "
            "round to round; use lifetime='round' for local.items."
        )
    for name, optimiser in (("model", local.model), ("items", local.items)):
        for round_number in (1, 2):  # the second one shows a decay that makes no sense
            rate = optimiser.rate_at(round_number, algorithm.task.n_items)
            if not 0 <= rate < float("inf"):
                raise TacitError(
                    f"local.{name} has a rate of {rate} in round {round_number}; it must be finite "
                    "and not negative."
                )
