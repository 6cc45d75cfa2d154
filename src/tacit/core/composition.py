"""What a method over parts is made of: its parameters, what moves them, and its channel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import torch

from tacit.core.algorithm import Algorithm, Kind
from tacit.core.client import Links
from tacit.core.method import Method
from tacit.core.optim import Optimiser
from tacit.core.parts import ColdStart, TableRule, Transform
from tacit.core.protection import DELTA, Protection, promised, vouched_bound
from tacit.core.types import CONTENT, Initializer, Params, Task
from tacit.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Composition(Algorithm):
    """A method and its task, with what its parts declare together.

    `frozen` shared parameters stand still: a person who joins after training fits only what is
    private.
    """

    method: Method
    task: Task
    frozen: frozenset[str] = frozenset()
    kind: ClassVar[Kind] = "composed"

    @property
    @abstractmethod
    def with_server_views(self) -> Composition | None:
        """The clients' half where the views of items are made on the server; None where a device
        must make them."""

    # Parameters

    @property
    def composed(self) -> Method:
        return self.method

    @property
    def cold(self) -> ColdStart | None:
        return self.method.cold

    @cached_property
    def shared(self) -> dict[str, Initializer]:
        """The parameters that the server holds and that may leave a device as a change."""
        method, table = self.method, self._table
        parameters = {
            **self._encoder_shared,
            **method.backbone.shared(),
            **method.sync.shared(table),
        }
        if method.server.tables is not None:
            parameters |= method.server.tables.shared(table)
        if self.protection is not None:
            parameters |= self.protection.shared
        return parameters

    @cached_property
    def private(self) -> dict[str, Initializer]:
        """The parameters that never leave a device; a personal table only as the rule says."""
        method, table = self.method, self._table
        own = method.sync.private(table)
        parameters = {**self._encoder_private, **method.backbone.private(), **own}
        if method.server.tables is not None:
            parameters |= method.server.tables.private(table)
        return parameters | self.waiting

    @cached_property
    def waiting(self) -> dict[str, Initializer]:
        """What links of the channel keep on a device of changes that were not sent yet."""
        kept: dict[str, Initializer] = {}
        for link in self.links.coding:
            kept |= link.private(self.sent)
        return kept

    @cached_property
    def declared_by(self) -> dict[str, tuple[str, ...]]:
        """The parameters that each slot's part declares, shared or private."""
        method, table = self.method, self._table
        tables = method.server.tables
        made = {} if tables is None else {**tables.shared(table), **tables.private(table)}
        return {
            "backbone": (*method.backbone.shared(), *method.backbone.private()),
            "items": (*self._encoder_shared, *self._encoder_private),
            "sync": (*method.sync.shared(table), *method.sync.private(table)),
            "server": tuple(made),
        }

    @cached_property
    def _encoder_shared(self) -> dict[str, Initializer]:
        return self.method.items.shared(self.method.backbone.dim, self.task.content)

    @cached_property
    def _encoder_private(self) -> dict[str, Initializer]:
        return self.method.items.private(self.method.backbone.dim, self.task.content)

    @cached_property
    def content(self) -> Params:
        """The constant tables over items that the encoder reads, by parameter."""
        tables = self.method.items.content(self.task.content)
        return {f"{CONTENT}{name}": torch.from_numpy(table) for name, table in tables.items()}

    @property
    def reads_content(self) -> bool:
        """Whether an item is more than its row of the table: the encoder has parameters or content,
        or looks at a history."""
        made = self._encoder_shared or self._encoder_private or self.content
        return bool(made) or self.method.items.reads_history

    @cached_property
    def _table(self) -> Initializer:
        row = self.method.items.row(self.method.backbone.item_init())
        return replace(row, shape=(self.task.n_items, *row.shape))

    @property
    def table_width(self) -> int:
        """The width of an item's row, which may be another than the backbone's."""
        return self._table.shape[-1]

    # What is trained

    @property
    def row_parameters(self) -> tuple[str, ...]:
        """The tables whose rows local training moves."""
        return self.method.sync.trains

    @cached_property
    def frozen_tables(self) -> tuple[str, ...]:
        """Other tables of a client that a rule over the whole table looks at while it trains."""
        if self.method.sync.rows == "touched":
            return ()
        tables = [name for name, init in self.private.items() if init.shape == self._table.shape]
        others = {*self.row_parameters, *self.waiting}
        return tuple(name for name in tables if name not in others)

    @cached_property
    def constant_parameters(self) -> tuple[str, ...]:
        """What the rule declares beside tables and gates: it is read, and nothing moves it."""
        sync, table = self.method.sync, self._table
        gates = sync.guidance.gate_parameters if sync.guidance is not None else ()
        moved = {*self.row_parameters, *self.model_parameters, *gates}
        declared = {**sync.shared(table), **sync.private(table)}
        return tuple(
            name
            for name, init in declared.items()
            if name not in moved and init.shape != table.shape
        )

    @cached_property
    def model_parameters(self) -> tuple[str, ...]:
        """What the scorer and the item encoder learn besides the item rows, in a fixed order."""
        backbone = self.method.backbone
        parts = (
            backbone.shared(),
            backbone.private(),
            self._encoder_shared,
            self._encoder_private,
        )
        return tuple(sorted(name for part in parts for name in part))

    @cached_property
    def gradients_only(self) -> frozenset[str]:
        """The parameters of the item side that stand still on a device: it sends their
        gradients."""
        if self.method.local.sends == "change":
            return frozenset()
        tables = [name for name in self.row_parameters if name in self.shared]
        return frozenset((*tables, *self._encoder_shared))

    @cached_property
    def uploads(self) -> tuple[str, ...]:
        """The shared parameters that a client changes, and so sends the change of."""
        return tuple(
            name
            for name in self.shared
            if name in self.row_parameters or name in self.model_parameters
        )

    def parameters(self, group: Literal["model", "items"]) -> tuple[str, ...]:
        """Item rows and the shared encoder are the item side; all else is the model."""
        encoder = self._encoder_shared
        if group == "items":
            return (*self.row_parameters, *sorted(encoder))
        return tuple(name for name in self.model_parameters if name not in encoder)

    def optimiser(self, name: str) -> Optimiser:
        local = self.method.local
        return local.items if name in self.row_parameters else local.model

    @cached_property
    def sent(self) -> dict[str, Initializer]:
        """The shared parameters that a client sends after training, as it holds them."""
        running: Composition = self
        if self.views_travel is not None and self.with_server_views is not None:
            running = self.with_server_views  # a table of views in the place of the item table
        return {name: running.shared[name] for name in running.uploads}

    @property
    def views_travel(self) -> int | None:
        """How many numbers the views are, where the server makes them."""
        encoder = self.method.items.viewed
        if encoder is None or encoder.placement == "client":
            return None
        if self.with_server_views is None:
            return None
        return self.task.n_items * encoder.view_width(self.method.backbone.dim)

    # The channel

    @cached_property
    def protection(self) -> Protection | None:
        request = self.method.privacy
        if request is None:
            return None
        bounds = [vouched_bound(link) for link in self.method.channel]
        own = min((bound.value for bound in bounds if bound is not None), default=None)
        return Protection.of(request, own, self.task.releases)

    @cached_property
    def channel(self) -> tuple[Transform, ...]:
        own = self.method.channel
        return own if self.protection is None else (*own, *self.protection.links)

    def guarantee(self, releases: int) -> Guarantee | None:
        """A server that reads tables, or is told how many interactions a client has, learns more
        than what passes the channel; so does a generator that learns from touched items, which it
        does unless privacy is claimed."""
        touched = self.method.cold is not None and self.protection is None
        told = self.reads_tables is not None or self.tells_examples or touched
        if told or self.largest_weight is None or self.largest_weight > 1 or not releases:
            return None
        delta = DELTA if self.method.privacy is None else self.method.privacy.delta
        found = promised(self.channel, None, releases, delta)
        # to publish the whole history of somebody drawn by lot would keep such a delta
        asked = self.method.privacy is not None  # then it was looked at beforehand
        if found is None or asked or found.delta * self.task.n_users < 1:
            return found
        return None

    @cached_property
    def links(self) -> Links:
        """The channel in three stretches; `check` has seen that what encodes stands together."""
        return Links.of(self.channel)

    @property
    def tells_examples(self) -> bool:
        return self.method.server.tells_examples

    @property
    def largest_weight(self) -> float | None:
        return self.method.server.largest_weight

    @property
    def reads_tables(self) -> TableRule | None:
        return self.method.server.tables
