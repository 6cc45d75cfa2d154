"""The readable reference: one client after another, through one function.

`local_update` is the definition of right. Other engines are held equal to it, and a deployed client
calls it on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from tacit.core.compose import Algorithm
from tacit.core.parts import TableRule, Viewed
from tacit.core.types import ITEMS, PAST, PAST_WEIGHT, Batch, Params, Upload
from tacit.data.batches import BlockDraws, draw_block, past_of_block
from tacit.data.sampling import samples_per_user
from tacit.data.views import TrainView
from tacit.engines.base import Totals, begin_round, play_round, upload_factor
from tacit.engines.guidance import gather_tables, guide
from tacit.engines.participation import Participants, everybody
from tacit.engines.state import State, initial_state


@dataclass(frozen=True, eq=False)
class ClientResult:
    """What a client has after local training: what it keeps, and what it may send."""

    private: Params
    rows: Params  # the rows it tuned, of items `upload.item_R`
    upload: Upload
    moments: Params
    loss_sum: float


def local_update(
    algorithm: Algorithm,
    shared: Params,
    private: Params,
    moments: Params,
    draws: BlockDraws,
    round_number: int,
    frozen: frozenset[str] = frozenset(),
    past: tuple[np.ndarray, np.ndarray] | None = None,
) -> ClientResult:
    """One client's round: take the rows it touches, train them, return the differences.

    `frozen` leaves stand still: a person who joins after training fits only what is private. Held
    leaves stand still too, and their gradients are returned. `past` says where the client's own
    history lies among its rows, for item encoders that look at it.
    """
    row_leaves = algorithm.row_leaves
    item_R = torch.from_numpy(draws.item_BR[0])
    start = {**shared, **private}
    dtype = next(iter(start.values())).dtype
    start |= {leaf: table[item_R].to(dtype) for leaf, table in algorithm.content.items()}
    for leaf in (*row_leaves, *algorithm.held_rows):
        start[leaf] = start[leaf][item_R]
    p = dict(start)
    slots = _first_slots(algorithm, p, moments)
    summed = {leaf: torch.zeros_like(p[leaf]) for leaf in algorithm.held}
    loss_sum = 0.0
    for epoch, batch in _batches(draws):
        for number, phase in enumerate(algorithm.method.local.phases(epoch)):
            named = [leaf for group in phase.groups for leaf in algorithm.leaves(group)]
            leaves = [leaf for leaf in named if leaf not in frozen]
            if not leaves:
                continue
            loss, gradients = _gradients(algorithm, p, leaves, batch, round_number, past)
            if number == 0:
                loss_sum += loss * len(batch.label_N)
            for leaf, gradient in zip(leaves, gradients, strict=True):
                if leaf in algorithm.held:
                    last = algorithm.method.local.sends == "last_gradient"
                    summed[leaf] = gradient if last else summed[leaf] + gradient
                    continue
                optimiser = algorithm.optimiser(leaf)
                rate = optimiser.rate_at(round_number, algorithm.task.n_items)
                p[leaf], slots[leaf] = optimiser.update(p[leaf], gradient, slots[leaf], rate)
    change = {
        leaf: summed[leaf] if leaf in summed else p[leaf] - start[leaf]
        for leaf in algorithm.uploads
    }
    return ClientResult(
        private={leaf: p[leaf] for leaf in algorithm.model_leaves if leaf in private},
        rows={leaf: p[leaf] for leaf in row_leaves},
        upload=_through_channel(algorithm, Upload(item_R, change)),
        moments={f"{leaf}/{slot}": v for leaf in slots for slot, v in slots[leaf].items()},
        loss_sum=loss_sum,
    )


def _batches(draws: BlockDraws) -> list[tuple[int, Batch]]:
    """The one client's batches over all epochs, each with its epoch, without padding."""
    batches = []
    for epoch in range(draws.row_TSBW.shape[0]):
        for step in range(int(draws.steps_B[0])):
            real = draws.weight_SBW[step, 0] > 0
            batch = Batch(
                torch.from_numpy(draws.row_TSBW[epoch, step, 0][real]),
                torch.from_numpy(draws.label_TSBW[epoch, step, 0][real]),
                torch.from_numpy(draws.weight_SBW[step, 0][real]),
            )
            batches.append((epoch, batch))
    return batches


def _gradients(
    algorithm: Algorithm,
    p: Params,
    leaves: list[str],
    batch: Batch,
    round_number: int,
    past: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[float, list[torch.Tensor]]:
    """Loss and its gradients; each row's gradient is summed over the samples that read it."""
    free = {leaf: p[leaf].detach().requires_grad_() for leaf in leaves}
    tables = {**p, **free}
    by_row = (*algorithm.row_leaves, *algorithm.content)
    read = {leaf: tables[leaf].index_select(0, batch.row_N) for leaf in by_row}
    if past is not None:
        row_H, weight_H = (torch.from_numpy(part[0]) for part in past)
        read |= {f"{leaf}{PAST}": tables[leaf].index_select(0, row_H) for leaf in by_row}
        read[PAST_WEIGHT] = weight_H
    loss = algorithm.loss({**tables, **read}, batch, round_number)
    total = loss
    if algorithm.table_penalty is not None and set(leaves) & set(algorithm.row_leaves):
        total = loss + algorithm.table_penalty(tables)
    gradients = list(torch.autograd.grad(total, list(free.values()), materialize_grads=True))
    bound = algorithm.method.local.gradient_clip
    if bound is not None:
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))  # type: ignore[arg-type]
        scale = (bound / norm.clamp(min=1e-30)).clamp(max=1.0)
        gradients = [scale * g for g in gradients]
    return float(loss.detach()), gradients


def _first_slots(algorithm: Algorithm, p: Params, moments: Params) -> dict[str, Params]:
    slots: dict[str, Params] = {}
    for leaf in {*algorithm.model_leaves, *algorithm.row_leaves} - algorithm.held:
        kept = {
            name.split("/")[1]: value
            for name, value in moments.items()
            if name.split("/")[0] == leaf
        }
        slots[leaf] = kept or algorithm.optimiser(leaf).init(p[leaf], 0)
    return slots


def _through_channel(algorithm: Algorithm, upload: Upload) -> Upload:
    factor = upload_factor(algorithm, upload.change) if upload.change else None
    if factor is None:
        return upload
    return Upload(
        upload.item_R, {leaf: (v.double() * factor).to(v) for leaf, v in upload.change.items()}
    )


@dataclass(frozen=True)
class LoopEngine:
    """One client at a time. Slow, plain, and the standard that the fast engines are held to."""

    dtype: torch.dtype = torch.float32
    frozen: frozenset[str] = frozenset()

    def describe(self, algorithm: Algorithm) -> str:
        return "loop: one client after another (the readable reference)"

    def start(self, algorithm: Algorithm, train: TrainView, seed: int) -> State:
        return initial_state(algorithm, train, seed, self.dtype)

    def round(
        self,
        algorithm: Algorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        def train_clients(running: Algorithm, who: Participants) -> Totals:
            return self._train(running, train, state, who, seed)

        play_round(
            algorithm,
            train,
            state,
            participants,
            seed,
            train_clients,
            gather=partial(gather_tables, algorithm, train, state),
            guide=partial(guide, algorithm, train, state, seed, block=1),
            lift=_views_are_sent(algorithm),
        )

    def train_alone(self, algorithm: Algorithm, train: TrainView, state: State, seed: int) -> None:
        """A round of local training of which nothing is sent, and nothing comes back."""
        everyone = everybody(train)
        begin_round(algorithm, train, state, everyone, seed)
        if state.broadcast is not None:
            state.broadcast = state.shared[ITEMS].clone()
        self._train(algorithm, train, state, everyone, seed)
        state.fresh_U[:] = True
        state.round_number += 1

    def _train(
        self,
        algorithm: Algorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> Totals:
        local = algorithm.method.local
        totals = Totals.empty(algorithm)
        round_number = state.round_number + 1
        samples_U = samples_per_user(train, algorithm.method.sampling)
        persistent = local.model.lifetime == "persistent"
        for user, reports in zip(participants.user_P, participants.reports_P, strict=True):
            draws = draw_block(
                train,
                np.array([user]),
                samples_U,
                algorithm.method.sampling,
                batch=local.batch,
                epochs=local.epochs,
                seed=seed,
                round_number=round_number,
                dtype=np.float64 if self.dtype == torch.float64 else np.float32,
                all_rows=algorithm.method.sync.rows == "all",
            )
            past = None
            if algorithm.method.items.reads_history:
                past = past_of_block(train, np.array([user]), draws)
            private = {leaf: value[user] for leaf, value in state.private.items()}
            moments = {name: value[user] for name, value in state.moments.items()}
            result = local_update(
                algorithm, state.shared, private, moments, draws, round_number, self.frozen, past
            )
            for leaf, value in result.private.items():
                state.private[leaf][user] = value
            if persistent:
                for name in state.moments:
                    state.moments[name][user] = result.moments[name]
            for leaf, row_RD in result.rows.items():
                if leaf in state.private:
                    state.private[leaf][user][result.upload.item_R] = row_RD
            if state.tuned is not None:
                state.tuned.write(int(user), draws.item_BR[0], result.rows[ITEMS])
            totals.loss_sum += result.loss_sum
            totals.samples += int(draws.samples_B[0]) * local.epochs
            if reports:
                n_positives = int(train.positives.size_U[user])
                _collect(totals, result.upload, algorithm, n_positives)
        return totals


def _views_are_sent(algorithm: Algorithm) -> bool:
    """The reference makes views where the method says; the fast engine where it is cheaper."""
    encoder = algorithm.method.items
    return isinstance(encoder, Viewed) and encoder.placement == "server"


def _collect(totals: Totals, upload: Upload, algorithm: Algorithm, n_positives: int) -> None:
    server = algorithm.method.server
    weight = 1.0 if isinstance(server, TableRule) else server.weight(n_positives)
    totals.weight += weight
    totals.clients += 1
    for leaf, change in upload.change.items():
        value = weight * change.double().numpy()
        if leaf in algorithm.row_leaves:
            totals.change[leaf][upload.item_R.numpy()] += value  # items are distinct
        else:
            totals.change[leaf] += value
