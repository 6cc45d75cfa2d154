"""compose(method, task): check that the parts fit, and give engines the one thing they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from tacit.core.capabilities import splits_views
from tacit.core.fit import check
from tacit.core.method import Method
from tacit.core.optim import Optimiser
from tacit.core.parts import Guided, Past, Penalised, TablePenalised, TableRule, Viewed
from tacit.core.types import CONTENT, ITEMS, PAST, PAST_WEIGHT, Batch, Init, Params, Task
from tacit.parts.items import Received
from tacit.parts.sync import Replace


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
        method, table = self.method, self._table
        leaves = {**self._encoder_shared, **method.backbone.shared(), **method.sync.shared(table)}
        if isinstance(method.server, TableRule):
            leaves |= method.server.shared(table)
        return leaves

    @cached_property
    def private(self) -> dict[str, Init]:
        """The leaves that never leave a device; a personal table only as the rule says."""
        method, table = self.method, self._table
        own = method.sync.private(table)
        leaves = {**self._encoder_private, **method.backbone.private(), **own}
        if isinstance(method.server, TableRule):
            leaves |= method.server.private(table)
        return leaves

    @cached_property
    def _encoder_shared(self) -> dict[str, Init]:
        return self.method.items.shared(self.method.backbone.dim, self.task.content)

    @cached_property
    def _encoder_private(self) -> dict[str, Init]:
        return self.method.items.private(self.method.backbone.dim, self.task.content)

    @cached_property
    def content(self) -> Params:
        """The constant tables over items that the encoder reads, by leaf."""
        tables = self.method.items.content(self.task.content)
        return {f"{CONTENT}{name}": torch.from_numpy(table) for name, table in tables.items()}

    @property
    def reads_content(self) -> bool:
        """Whether an item is more than its row of the table: the encoder has leaves or content, or
        looks at a history."""
        made = self._encoder_shared or self._encoder_private or self.content
        return bool(made) or self.method.items.reads_history

    @cached_property
    def _table(self) -> Init:
        row = self.method.items.row(self.method.backbone.item_init())
        return replace(row, shape=(self.task.n_items, *row.shape))

    @property
    def table_width(self) -> int:
        """The width of an item's row, which may be another than the backbone's."""
        return self._table.shape[-1]

    @property
    def row_leaves(self) -> tuple[str, ...]:
        """The tables whose rows local training moves."""
        return self.method.sync.trains

    @cached_property
    def held_rows(self) -> tuple[str, ...]:
        """Other tables of a client that a rule over the whole table looks at while it trains."""
        if self.method.sync.rows == "touched":
            return ()
        tables = [leaf for leaf, init in self.private.items() if init.shape == self._table.shape]
        return tuple(leaf for leaf in tables if leaf not in self.row_leaves)

    @cached_property
    def constant_leaves(self) -> tuple[str, ...]:
        """What the rule declares beside tables and gates: it is read, and nothing moves it."""
        sync, table = self.method.sync, self._table
        gates = sync.gate_leaves if isinstance(sync, Guided) else ()
        moved = {*self.row_leaves, *self.model_leaves, *gates}
        declared = {**sync.shared(table), **sync.private(table)}
        return tuple(
            leaf
            for leaf, init in declared.items()
            if leaf not in moved and init.shape != table.shape
        )

    @cached_property
    def model_leaves(self) -> tuple[str, ...]:
        """What the scorer and the item encoder learn besides the item rows, in a fixed order."""
        backbone = self.method.backbone
        parts = (
            backbone.shared(),
            backbone.private(),
            self._encoder_shared,
            self._encoder_private,
        )
        return tuple(sorted(leaf for part in parts for leaf in part))

    @cached_property
    def held(self) -> frozenset[str]:
        """The leaves of the item side that stand still on a device: it sends their gradients."""
        if self.method.local.sends == "change":
            return frozenset()
        tables = [leaf for leaf in self.row_leaves if leaf in self.shared]
        return frozenset((*tables, *self._encoder_shared))

    @cached_property
    def uploads(self) -> tuple[str, ...]:
        """The shared leaves that a client changes, and so sends the change of."""
        return tuple(
            leaf for leaf in self.shared if leaf in self.row_leaves or leaf in self.model_leaves
        )

    def leaves(self, group: Literal["model", "items"]) -> tuple[str, ...]:
        """Item rows and the shared encoder are the item side; all else is the model."""
        encoder = self._encoder_shared
        if group == "items":
            return (*self.row_leaves, *sorted(encoder))
        return tuple(leaf for leaf in self.model_leaves if leaf not in encoder)

    def optimiser(self, leaf: str) -> Optimiser:
        local = self.method.local
        return local.items if leaf in self.row_leaves else local.model

    def score(self, p: Params) -> Tensor:
        """Logits of one client for the rows in `p`'s row leaves."""
        return self.score_with(p, self.method.sync.read)

    def score_with(self, p: Params, read: Callable[[Params], Tensor]) -> Tensor:
        """Logits where the client reads its tables in another way than its rule says."""
        return self.method.backbone.score(p, self.encoded(p, read))

    def encoded(self, p: Params, read: Callable[[Params], Tensor]) -> Tensor:
        """What the backbone of one client reads of the items in `p`'s row leaves."""
        return self.method.items.encode(p, read(p), self.past(p, read))

    def past(self, p: Params, read: Callable[[Params], Tensor]) -> Past | None:
        """The client's own history, where the item encoder looks at it."""
        if not self.method.items.reads_history:
            return None
        was = {leaf.removesuffix(PAST): p[leaf] for leaf in p if leaf.endswith(PAST)}
        old = {**p, **was}
        return Past(old, read(old), p[PAST_WEIGHT])

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

    def sends_changes(self, round_number: int) -> bool:
        """Whether participants send their uploads: a guided table meets now and then, what else is
        shared goes in every round."""
        sync = self.method.sync
        return bool(self.uploads) and (isinstance(sync, Guided) or sync.sends(round_number))

    def exchanges(self, round_number: int, participants: int) -> int:
        """How many clients send in a round: the participants, or at a guidance everybody."""
        sync = self.method.sync
        if isinstance(sync, Guided) and sync.sends(round_number):
            return self.task.n_users
        return participants if self.sends_changes(round_number) or sync.sends(round_number) else 0

    def traffic(self, round_number: int, participants: int) -> int:
        """How many numbers cross the network in a round, both ways, for all clients together."""
        sync = self.method.sync
        if not isinstance(sync, Guided):
            each = self.floats_up + self.floats_down
            return self.exchanges(round_number, participants) * each
        tables = self.task.n_users * self._table.count if sync.sends(round_number) else 0
        others = participants * sum(self.shared[leaf].count for leaf in self.uploads)
        return 2 * (tables + others)

    @property
    def floats_up(self) -> int:
        """How many numbers a client sends when it sends everything that it ever does."""
        if not self.communicates:
            return 0
        views = self._views_travel
        if views is not None:  # in the place of the table and of what makes the views
            assert self.lifted is not None
            return views + sum(
                self.lifted.shared[leaf].count for leaf in self.lifted.uploads if leaf != ITEMS
            )
        sent = sum(self.shared[leaf].count for leaf in self.uploads)
        whole = isinstance(self.method.sync, Guided) or not self.uploads
        whole = whole or isinstance(self.method.server, TableRule)
        return sent + (self._table.count if whole else 0)  # a personal table goes whole

    @property
    def _views_travel(self) -> int | None:
        """How many numbers the views are, where the server makes them."""
        encoder = self.method.items
        if not isinstance(encoder, Viewed) or encoder.placement == "client":
            return None
        if self.lifted is None:
            return None
        return self.task.n_items * encoder.view_width(self.method.backbone.dim)

    @property
    def floats_down(self) -> int:
        """How many numbers a client receives for that."""
        if isinstance(self.method.server, TableRule):
            others = sum(self.shared[leaf].count for leaf in self.uploads)
            return self.method.server.floats_down(self._table) + others
        sync = self.method.sync
        read = sync.needs if isinstance(sync, TablePenalised) else ()  # made by the server
        return self.floats_up + sum(self.shared[leaf].count for leaf in read)

    @property
    def floats_once(self) -> int:
        """How many numbers of content a client receives once, before the first round."""
        if self._views_travel is not None:
            return 0
        return sum(table.numel() for table in self.content.values())

    @property
    def floats_on_client(self) -> int:
        """How many numbers a client holds: its private leaves and its copy of the shared ones. A
        global table that it neither trains nor restarts from is not held."""
        private = sum(init.count for init in self.private.values())
        views = self._views_travel
        if views is not None:
            assert self.lifted is not None
            others = [init for leaf, init in self.lifted.shared.items() if leaf != ITEMS]
            return private + views + sum(init.count for init in others)
        held = ITEMS in self.row_leaves or self.method.sync.restarts
        shared = [init for leaf, init in self.shared.items() if leaf != ITEMS or held]
        return private + sum(init.count for init in shared) + self.floats_once

    @property
    def floats_at_peak(self) -> int:
        """How many numbers a client holds at most: at a guidance the global table comes on top."""
        received = self._table.count if isinstance(self.method.sync, Guided) else 0
        return self.floats_on_client + received

    @cached_property
    def lifted(self) -> Algorithm | None:
        """The clients' half where the views of items are made on the server; None where a device
        must make them.

        The views take the place of the item table, they stand still, and their gradients come
        back; the chain rule does the rest on the server. It gives the same numbers wherever the
        item side is the same for all clients and rows are read as they stand, unless gradients or
        uploads of another shape are bounded.
        """
        method = self.method
        encoder = method.items
        if not splits_views(encoder) or ITEMS not in self.held or type(method.sync) is not Replace:
            return None
        bounds = method.local.gradient_clip is not None or any(
            link.order is not None for link in method.channel
        )
        if bounds and encoder.placement == "client":
            return None
        task = replace(self.task, content=None)
        return Algorithm(replace(method, items=Received(encoder)), task)


def compose(method: Method, task: Task) -> Algorithm:
    """Check the parts against each other, and refuse with a sentence what cannot work.

    >>> from tacit.methods import fedmf
    >>> compose(fedmf(dim=4), Task(n_users=2, n_items=3)).floats_up
    12
    """
    algorithm = Algorithm(method, task)
    check(algorithm)
    return algorithm
