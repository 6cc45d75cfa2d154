"""compose(method, task): check that the parts fit, and give engines the one thing they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from tacit.core.algorithm import (
    FIT,
    GUIDE,
    TABLES,
    TRAIN,
    Algorithm,
    Bound,
    ClientData,
    ClientState,
    Declared,
    Disclosure,
    Draws,
    Exchange,
    Kind,
    Sample,
    Sent,
    ServerState,
    Total,
    Traffic,
    Update,
)
from tacit.core.capabilities import is_ground, split_views
from tacit.core.client import guide_client, local_update, table_upload
from tacit.core.fit import check
from tacit.core.method import Method
from tacit.core.optim import Optimiser
from tacit.core.parts import ColdStart, HistoryRows, ServerSideViews, TableRule, Transform
from tacit.core.protection import DELTA, Protection, promised, vouched_bound
from tacit.core.types import (
    BOUND,
    CONTENT,
    HISTORY_WEIGHT,
    ITEMS,
    OF_HISTORY,
    OWN_ITEMS,
    Batch,
    Initializer,
    Params,
    Task,
    Upload,
)
from tacit.data.views import History
from tacit.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class ComposedAlgorithm(Algorithm):
    """The contract of a method that is an expression over parts.

    `loss` and `logits` are for ONE client; row parameters arrive as the rows that are asked about.
    `frozen` shared parameters stand still: a person who joins after training fits only what is
    private.
    """

    method: Method
    task: Task
    frozen: frozenset[str] = frozenset()
    kind: ClassVar[Kind] = "composed"

    @property
    def composition(self) -> ComposedAlgorithm:
        return self

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
        return parameters

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

    # One round

    def exchanges(self, round_number: int) -> tuple[Exchange, ...]:
        """Training; then, where personal tables are aggregated, those of everybody, and their
        guidance."""
        guided, local = self.method.sync.guidance, self.method.local
        sends = self.sends_changes(round_number)
        played = [Exchange(TRAIN, sends=sends)]
        guide = Exchange(GUIDE, everybody=True, sends=False)
        if guided is not None and guided.at == "next" and guided.sends(round_number - 1):
            played.insert(0, guide)
        if guided is not None and guided.sends(round_number):
            played.append(Exchange(TABLES, everybody=True))
            if guided.at == "same":
                played.append(guide)
        if local.forgets and self.method.sync.scores_with == "global":
            # nobody keeps a model between rounds: to rank with the new table, everybody fits one
            played.append(Exchange(FIT, everybody=True, sends=False))
        return tuple(played)

    def draws(self, exchange: Exchange) -> Draws:
        method, local = self.method, self.method.local
        history = method.items.reads_history
        if exchange.name == TABLES:
            return Draws()
        if exchange.name == GUIDE:
            assert method.sync.guidance is not None
            epochs = method.sync.guidance.epochs
            return Draws(
                method.sampling, local.batch, epochs, history_rows=history, recency=method.recency
            )
        if exchange.name == FIT:
            local = self.fitting.method.local
        every = method.sync.rows == "all"
        return Draws(
            method.sampling, local.batch, local.epochs, every, history, recency=method.recency
        )

    @property
    def reads_order(self) -> bool:
        return self.method.recency is not None

    def restarts(self, exchange: Exchange) -> bool:
        return exchange.name in (TRAIN, FIT) and self.method.sync.restarts

    def forgets(self, exchange: Exchange) -> bool:
        return exchange.name in (TRAIN, FIT) and self.method.local.forgets

    @property
    def forgotten(self) -> tuple[str, ...]:
        return tuple(name for name in self.model_parameters if name in self.private)

    @property
    def restores(self) -> bool:
        return self.method.local.restores

    def update(
        self,
        exchange: Exchange,
        received: Params,
        client: ClientState,
        data: ClientData,
        round_number: int,
    ) -> Update:
        guided = self.method.sync.guidance
        if exchange.name == TABLES:
            return Update({}, table_upload(self, received, client))
        if exchange.name == GUIDE and guided is not None:
            kept = guide_client(self, guided, received, client, data, round_number)
            return Update(kept, Upload(data.history_H, {}))
        running = self.fitting if exchange.name == FIT else self
        return local_update(running, received, client, data, round_number, self.frozen)

    @cached_property
    def fitting(self) -> ComposedAlgorithm:
        """The same method, training its private model alone."""
        fitting = self.method.local.fitting
        assert fitting is not None
        return compose(replace(self.method, local=fitting), self.task)

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
        than what passes the channel."""
        told = self.reads_tables is not None or self.tells_examples
        if told or self.largest_weight is None or self.largest_weight > 1 or not releases:
            return None
        delta = DELTA if self.method.privacy is None else self.method.privacy.delta
        return promised(self.channel, None, releases, delta)

    @property
    def tells_examples(self) -> bool:
        return self.method.server.tells_examples

    def weight(self, declared: Declared) -> float:
        weight, most = self.method.server.weight(declared), self.largest_weight
        return weight if most is None else min(weight, most)

    @property
    def largest_weight(self) -> float | None:
        return self.method.server.largest_weight

    def sends(self, round_number: int) -> bool:
        read = self.reads_tables is not None
        return read or any(exchange.sends for exchange in self.exchanges(round_number))

    @property
    def bound(self) -> Bound | None:
        bounds = [
            Bound(link.order, link.bound * self.largest_weight)
            for link in self.channel
            if link.order is not None and link.bound is not None and self.largest_weight is not None
            if not link.in_units  # which says nothing before the unit is known
        ]
        return max(bounds, key=lambda bound: bound.norm, default=None)  # L2 where there are both

    @property
    def reads_tables(self) -> TableRule | None:
        return self.method.server.tables

    @property
    def made_by_server(self) -> tuple[str, ...]:
        tables = self.method.server.tables
        return () if tables is None else tuple(tables.private(self._table))

    @property
    def views_sent(self) -> ComposedAlgorithm | None:
        """Views are made where the method says; a fast engine makes them where it is cheaper."""
        encoder = self.method.items.viewed
        made = encoder is not None and encoder.placement == "server"
        return self if made and self.with_server_views is not None else None

    def summed(self, exchange: Exchange) -> dict[str, tuple[int, ...]]:
        parameters = (ITEMS,) if exchange.name == TABLES else self.uploads
        bits = {BOUND: ()} if BOUND in self.shared else {}
        return {**{name: self.shared[name].shape for name in parameters}, **bits}

    @property
    def sent_by_row(self) -> frozenset[str]:
        return frozenset((*self.row_parameters, ITEMS))

    def step(self, server: ServerState, total: Total, round_number: int) -> ServerState:
        """The server's rule, parameter by parameter; along mean gradients by its own optimizer."""
        sums, gradients = self.method.server.sums, self.method.server.gradients
        assert sums is not None
        parameters, optimizer = dict(server.parameters), dict(server.optimizer)
        for name, value in total.sums.items():
            old = parameters[name]
            if name == BOUND and self.protection is not None:
                parameters[name] = self.protection.next_bound(old, float(value), total.clients)
                continue
            if name in self.gradients_only and gradients is not None:
                optimiser = gradients.optimiser(name in self.row_parameters)
                rate = optimiser.rate_at(round_number, self.task.n_items)
                prefix = f"{name}/"
                kept = {
                    k.removeprefix(prefix): v for k, v in optimizer.items() if k.startswith(prefix)
                }
                mean = torch.from_numpy(value / total.weight).to(old)
                parameters[name], kept = optimiser.update(old, mean, kept, rate)
                optimizer |= {f"{prefix}{key}": new for key, new in kept.items()}
                continue
            with np.errstate(over="ignore", invalid="ignore"):  # divergence is said when ranked
                stepped = sums.step(old.cpu().numpy().astype(np.float64), value, total.weight)
            parameters[name] = torch.from_numpy(np.asarray(stepped)).to(old)
        return ServerState(parameters, optimizer)

    def score(self, received: Params, client: ClientState, data: ClientData) -> Tensor:
        """Logits over the catalogue with the table that the client ranks with."""
        p: Params = {**received, **client.parameters}
        if client.item_R is not None and client.row_RD is not None:
            p[ITEMS] = received[ITEMS].clone()
            p[ITEMS][client.item_R] = client.row_RD
        table = next(iter(p.values()))
        p |= {name: value.to(table) for name, value in self.content.items()}
        if self.method.items.reads_history:
            items, weight_H = self.history_weights(_in_time(data))
            rows = (*self.row_parameters, *self.content)
            p |= {f"{name}{OF_HISTORY}": p[name][items] for name in rows}
            p[HISTORY_WEIGHT] = weight_H.to(table)
        return self.logits(p)

    def history_weights(self, history: History) -> tuple[Tensor, Tensor]:
        """The distinct items of a history in the order of their codes, and how much of it each
        is."""
        if self.method.recency is None:
            items = np.unique(history.item_H)
            weight_H = np.full(len(items), 1.0 / max(1, len(items)))
        else:
            items, weight_H = self.method.recency.of_items(history)
        return torch.from_numpy(items), torch.from_numpy(weight_H)

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
        return tuple(name for name in tables if name not in self.row_parameters)

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

    def logits(self, p: Params) -> Tensor:
        """Logits of one client for the rows in `p`'s row parameters."""
        return self.score_with(p, self.method.sync.read)

    def score_with(self, p: Params, read: Callable[[Params], Tensor]) -> Tensor:
        """Logits where the client reads its tables in another way than its rule says."""
        return self.method.backbone.score(p, self.encoded(p, read))

    def encoded(self, p: Params, read: Callable[[Params], Tensor]) -> Tensor:
        """What the backbone of one client reads of the items in `p`'s row parameters."""
        return self.method.items.encode(p, read(p), self.history_rows(p, read))

    def history_rows(self, p: Params, read: Callable[[Params], Tensor]) -> HistoryRows | None:
        """The client's own history, where the item encoder looks at it."""
        if not self.method.items.reads_history:
            return None
        was = {name.removesuffix(OF_HISTORY): p[name] for name in p if name.endswith(OF_HISTORY)}
        old = {**p, **was}
        return HistoryRows(old, read(old), p[HISTORY_WEIGHT])

    def loss(self, p: Params, batch: Batch, round_number: int = 1) -> Tensor:
        """Loss of one client on one batch; row parameters hold one row per sample."""
        method = self.method
        value = method.objective.loss(self.logits(p), batch.label_N, batch.weight_N)
        penalty = method.sync.penalty(p, batch.weight_N, round_number)
        return value if penalty is None else value + penalty

    @cached_property
    def table_penalty(self) -> Callable[[Params], Tensor] | None:
        """The rule's term over whole tables, of one client; None where there is none."""
        sync = self.method.sync
        return sync.table_penalty if sync.penalises_tables else None

    @property
    def communicates(self) -> bool:
        sync = self.method.sync
        return sync.guidance is not None or sync.sends(1)

    def sends_changes(self, round_number: int) -> bool:
        """Whether participants send their uploads: a guided table is aggregated now and then, what
        else is shared goes in every round."""
        sync = self.method.sync
        return bool(self.uploads) and (sync.guidance is not None or sync.sends(round_number))

    def _answers(self, round_number: int, participants: int) -> int:
        """How many clients send in a round: the participants, or at a guidance everybody."""
        sync = self.method.sync
        if sync.guidance is not None and sync.sends(round_number):
            return self.task.n_users
        return participants if self.sends_changes(round_number) or sync.sends(round_number) else 0

    def _floats(self, round_number: int, participants: int) -> int:
        """How many numbers cross the network in a round, both ways, for all clients together."""
        sync = self.method.sync
        if sync.guidance is None:
            each = self.floats_up + self.floats_down
            return self._answers(round_number, participants) * each
        tables = self.task.n_users * self._table.count if sync.sends(round_number) else 0
        others = participants * sum(self.shared[name].count for name in self.uploads)
        senders = (self.task.n_users if sync.sends(round_number) else 0) + (
            participants if self.uploads else 0
        )
        return 2 * (tables + others) + 3 * self._bits * senders

    def traffic(
        self, sample: Callable[[], Sample], participants: Sequence[int], width: int
    ) -> Traffic:
        rounds = list(enumerate(participants, 1)) if self.floats_up else []
        return Traffic(
            self.floats_up * width,
            self.floats_down * width,
            sum(self._answers(number, count) for number, count in rounds),
            sum(self._floats(number, count) for number, count in rounds) * width,
            self.floats_on_client * width,
            self.floats_once * width,
            self.floats_at_peak * width,
        )

    def disclosure(self, sample: Callable[[], Sample]) -> Disclosure:
        if not self.communicates:
            return Disclosure()
        noise = any("noise" in link.gives for link in self.channel)
        # the plain sentence of a dense update is not true under noise, nor is its opposite
        speak = [link for link in self.channel if not (noise and "dense" in link.gives)]
        told = [sentence for link in speak if (sentence := link.interpretation())]
        if noise and self.guarantee(releases=1) is None:
            told.append("nothing is promised of what the noise hides")
        each = self.reads_tables is not None
        whole = each or self.method.sync.guidance is not None or not self.uploads
        sent = [Sent(name, self.shared[name].count) for name in self.uploads]
        if BOUND in self.shared:
            sent.append(Sent(BOUND, 1))
        if whole and ITEMS not in self.uploads:
            sent.append(Sent(OWN_ITEMS, self._table.count))
        views = self._views_travel
        if views is not None and self.with_server_views is not None:
            others = [name for name in self.with_server_views.uploads if name != ITEMS]
            sent = [Sent(name, self.with_server_views.shared[name].count) for name in others]
            sent += [Sent(BOUND, 1)] if BOUND in self.shared else []
            sent.append(Sent("gradients of views", views))
        return Disclosure(tuple(sent), "each" if each else "sum", self.tells_examples, tuple(told))

    @property
    def floats_up(self) -> int:
        """How many numbers a client sends when it sends everything that it ever does."""
        if not self.communicates:
            return 0
        views = self._views_travel
        if views is not None:  # in the place of the table and of what makes the views
            assert self.with_server_views is not None
            return (
                views
                + self._bits
                + sum(
                    self.with_server_views.shared[name].count
                    for name in self.with_server_views.uploads
                    if name != ITEMS
                )
            )
        sent = self._bits + sum(self.shared[name].count for name in self.uploads)
        whole = self.method.sync.guidance is not None or not self.uploads
        whole = whole or self.method.server.tables is not None
        return sent + (self._table.count if whole else 0)  # a personal table goes whole

    @property
    def _views_travel(self) -> int | None:
        """How many numbers the views are, where the server makes them."""
        encoder = self.method.items.viewed
        if encoder is None or encoder.placement == "client":
            return None
        if self.with_server_views is None:
            return None
        return self.task.n_items * encoder.view_width(self.method.backbone.dim)

    @property
    def floats_down(self) -> int:
        """How many numbers a client receives for that."""
        tables = self.method.server.tables
        if tables is not None:
            others = sum(self.shared[name].count for name in self.uploads)
            return tables.floats_down(self._table) + others
        # what a penalty looks at was made by the server; an estimated bound is one number more
        needs = sum(self.shared[name].count for name in self.method.sync.needs)
        return self.floats_up + self._bits + needs

    @property
    def _bits(self) -> int:
        """How many numbers a client sends for a bound that is estimated on the way."""
        return 1 if BOUND in self.shared else 0

    @property
    def floats_once(self) -> int:
        """How many numbers of content a client receives once, before the first round."""
        if self._views_travel is not None:
            return 0
        return sum(table.numel() for table in self.content.values())

    @property
    def floats_on_client(self) -> int:
        """How many numbers a client holds: its private parameters and its copy of the shared ones.
        A global table that it neither trains nor restarts from is not held."""
        private = sum(init.count for init in self.private.values())
        views = self._views_travel
        if views is not None:
            assert self.with_server_views is not None
            others = [init for name, init in self.with_server_views.shared.items() if name != ITEMS]
            return private + views + sum(init.count for init in others)
        stores_table = ITEMS in self.row_parameters or self.method.sync.restarts
        shared = [init for name, init in self.shared.items() if name != ITEMS or stores_table]
        return private + sum(init.count for init in shared) + self.floats_once

    @property
    def floats_at_peak(self) -> int:
        """How many numbers a client holds at most: at a guidance the global table comes on top."""
        received = self._table.count if self.method.sync.guidance is not None else 0
        return self.floats_on_client + received

    @cached_property
    def with_server_views(self) -> ComposedAlgorithm | None:
        """The clients' half where the views of items are made on the server; None where a device
        must make them.

        The views take the place of the item table, they stand still, and their gradients come
        back; the chain rule does the rest on the server. It gives the same numbers wherever the
        item side is the same for all clients and rows are read as they stand, unless gradients or
        uploads of another shape are bounded.
        """
        method = self.method
        encoder = split_views(method.items)
        if encoder is None or ITEMS not in self.gradients_only or not is_ground(method.sync):
            return None
        bounds = method.local.gradient_clip is not None or any(
            link.order is not None for link in self.channel
        )
        if bounds and encoder.placement == "client":
            return None
        task = replace(self.task, content=None)
        return ComposedAlgorithm(replace(method, items=ServerSideViews(encoder)), task)


def _in_time(data: ClientData) -> History:
    """The history that one client ranks with; in the order of time, where somebody asked for it."""
    item_H, order_H = data.history_H.numpy(), data.order_H
    if order_H is None or len(order_H) != len(item_H):
        return History(item_H)
    return History(item_H[np.argsort(order_H.numpy())])


def compose(method: Method, task: Task) -> ComposedAlgorithm:
    """Check the parts against each other, and refuse with a sentence what cannot work.

    >>> from tacit.methods import fedmf
    >>> compose(fedmf(dim=4), Task(n_users=2, n_items=3)).floats_up
    12
    """
    algorithm = ComposedAlgorithm(method, task)
    check(algorithm)
    return algorithm
