"""compose(method, task): check that the parts fit, and give engines the one thing they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tacit.core.algorithm import (
    FIT,
    GUIDE,
    TABLES,
    TRAIN,
    Bound,
    ClientData,
    ClientState,
    Declared,
    Draws,
    Exchange,
    ServerState,
    Total,
    Update,
    require_as_written,
)
from tacit.core.capabilities import encodes, is_ground, split_views
from tacit.core.client import guide_client, local_update, table_upload
from tacit.core.communication import Communication
from tacit.core.fit import check
from tacit.core.method import Method
from tacit.core.parts import HistoryRows, ServerSideViews
from tacit.core.types import (
    BOUND,
    HISTORY_WEIGHT,
    ITEMS,
    OF_HISTORY,
    Batch,
    Params,
    Task,
    Upload,
)
from tacit.data.views import History


@dataclass(frozen=True)
class ComposedAlgorithm(Communication):
    """The contract of a method that is an expression over parts.

    `loss` and `logits` are for ONE client; row parameters arrive as the rows that are asked about.
    """

    def __init_subclass__(cls) -> None:
        require_as_written(cls, ComposedAlgorithm, "write a part, or a CustomMethod")

    @property
    def composition(self) -> ComposedAlgorithm:
        return self

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
        return local_update(
            running, received, client, data, round_number, self.frozen, exchange.sends
        )

    @cached_property
    def fitting(self) -> ComposedAlgorithm:
        """The same method, training its private model alone."""
        fitting = self.method.local.fitting
        assert fitting is not None
        return compose(replace(self.method, local=fitting), self.task)

    def weight(self, declared: Declared) -> float:
        weight, most = self.method.server.weight(declared), self.largest_weight
        return weight if most is None else min(weight, most)

    def sends(self, round_number: int) -> bool:
        read = self.reads_tables is not None
        return read or any(exchange.sends for exchange in self.exchanges(round_number))

    @property
    def bound(self) -> Bound | None:
        bounds = [
            Bound(link.order, link.bound * self.largest_weight)
            for link in (self.links.after if self.links.coding else self.channel)
            if link.order is not None and link.bound is not None and self.largest_weight is not None
            if not link.in_units  # which says nothing before the unit is known
        ]
        return max(bounds, key=lambda bound: bound.norm, default=None)  # L2 where there are both

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

    @cached_property
    def with_server_views(self) -> ComposedAlgorithm | None:
        """The clients' half where the views of items are made on the server; None where a device
        must make them.

        The views take the place of the item table, they stand still, and their gradients come
        back; the chain rule does the rest on the server. It gives the same numbers wherever the
        item side is the same for all clients and rows are read as they stand, unless gradients or
        uploads of another shape are bounded or encoded.
        """
        method = self.method
        encoder = split_views(method.items)
        if encoder is None or ITEMS not in self.gradients_only or not is_ground(method.sync):
            return None
        bounds = method.local.gradient_clip is not None or any(
            link.order is not None or encodes(link) for link in self.channel
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
