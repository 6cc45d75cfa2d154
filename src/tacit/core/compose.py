"""compose(method, task): check that the parts fit, and give engines the one thing they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from tacit.core.fit import check
from tacit.core.method import Method
from tacit.core.optim import Optimiser
from tacit.core.parts import Guided, Penalised, TablePenalised, TableRule
from tacit.core.types import ITEMS, Batch, Init, Params, Task


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
    check(algorithm)
    return algorithm
