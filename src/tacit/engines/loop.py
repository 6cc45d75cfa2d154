"""The readable reference: one client after another, through one function.

`local_update` is the definition of right. Other engines are held equal to it, and a deployed client
calls it on the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tacit.core.compose import Algorithm
from tacit.core.types import Batch, Params, Upload
from tacit.data.sampling import samples_per_user
from tacit.data.views import TrainView
from tacit.engines.base import Totals, finish_round, upload_factor
from tacit.engines.draws import BlockDraws, draw_block
from tacit.engines.participation import Participants
from tacit.engines.state import State, initial_state


@dataclass(frozen=True, eq=False)
class ClientResult:
    """What a client has after local training: what it keeps, and what it may send."""

    private: Params
    row_RD: torch.Tensor  # the rows it tuned, of items `upload.item_R`
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
) -> ClientResult:
    """One client's round: take the rows it touches, train them, return the differences.

    `frozen` leaves stand still: a person who joins after training fits only what is private.
    """
    row_leaf = algorithm.row_leaf
    item_R = torch.from_numpy(draws.item_BR[0])
    table = shared[row_leaf] if row_leaf in shared else private[row_leaf]
    start = {**shared, **private, row_leaf: table[item_R]}
    p = dict(start)
    slots = _first_slots(algorithm, p, moments)
    loss_sum = 0.0
    for batch in _batches(draws):
        for number, phase in enumerate(algorithm.method.local.phases):
            named = [leaf for group in phase.groups for leaf in algorithm.leaves(group)]
            leaves = [leaf for leaf in named if leaf not in frozen]
            if not leaves:
                continue
            loss, gradients = _gradients(algorithm, p, leaves, batch)
            if number == 0:
                loss_sum += loss * len(batch.label_N)
            for leaf, gradient in zip(leaves, gradients, strict=True):
                optimiser = algorithm.optimiser(leaf)
                rate = optimiser.rate_at(round_number, algorithm.task.n_items)
                p[leaf], slots[leaf] = optimiser.update(p[leaf], gradient, slots[leaf], rate)
    change = {leaf: p[leaf] - start[leaf] for leaf in shared}
    return ClientResult(
        private={leaf: p[leaf] for leaf in private if leaf != row_leaf},
        row_RD=p[row_leaf],
        upload=_through_channel(algorithm, Upload(item_R, change)),
        moments={f"{leaf}/{slot}": v for leaf in slots for slot, v in slots[leaf].items()},
        loss_sum=loss_sum,
    )


def _batches(draws: BlockDraws) -> list[Batch]:
    """The one client's batches over all epochs, without padding."""
    batches = []
    for epoch in range(draws.row_TSBW.shape[0]):
        for step in range(int(draws.steps_B[0])):
            real = draws.weight_SBW[step, 0] > 0
            batches.append(
                Batch(
                    torch.from_numpy(draws.row_TSBW[epoch, step, 0][real]),
                    torch.from_numpy(draws.label_TSBW[epoch, step, 0][real]),
                    torch.from_numpy(draws.weight_SBW[step, 0][real]),
                )
            )
    return batches


def _gradients(
    algorithm: Algorithm, p: Params, leaves: list[str], batch: Batch
) -> tuple[float, list[torch.Tensor]]:
    """Loss and its gradients; each row's gradient is summed over the samples that read it."""
    free = {leaf: p[leaf].detach().requires_grad_() for leaf in leaves}
    q = {**p, **free}
    q[algorithm.row_leaf] = q[algorithm.row_leaf].index_select(0, batch.row_N)
    loss = algorithm.loss(q, batch)
    gradients = list(torch.autograd.grad(loss, list(free.values())))
    bound = algorithm.method.local.gradient_clip
    if bound is not None:
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))  # type: ignore[arg-type]
        scale = (bound / norm.clamp(min=1e-30)).clamp(max=1.0)
        gradients = [scale * g for g in gradients]
    return float(loss.detach()), gradients


def _first_slots(algorithm: Algorithm, p: Params, moments: Params) -> dict[str, Params]:
    slots: dict[str, Params] = {}
    for leaf in (*algorithm.model_leaves, algorithm.row_leaf):
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
        local, row_leaf = algorithm.method.local, algorithm.row_leaf
        totals = Totals.empty(state)
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
            )
            private = {leaf: value[user] for leaf, value in state.private.items()}
            moments = {name: value[user] for name, value in state.moments.items()}
            result = local_update(
                algorithm, state.shared, private, moments, draws, round_number, self.frozen
            )
            for leaf, value in result.private.items():
                state.private[leaf][user] = value
            if persistent:
                for name in state.moments:
                    state.moments[name][user] = result.moments[name]
            if row_leaf in state.private:
                state.private[row_leaf][user][result.upload.item_R] = result.row_RD
            if state.tuned is not None:
                state.tuned.write(int(user), draws.item_BR[0], result.row_RD)
            totals.loss_sum += result.loss_sum
            totals.samples += int(draws.samples_B[0]) * local.epochs
            if reports:
                n_positives = int(train.positives.size_U[user])
                _collect(totals, result.upload, algorithm, n_positives)
        finish_round(algorithm, state, participants, totals, seed)


def _collect(totals: Totals, upload: Upload, algorithm: Algorithm, n_positives: int) -> None:
    weight = algorithm.method.server.weight(n_positives)
    totals.weight += weight
    totals.clients += 1
    for leaf, change in upload.change.items():
        value = weight * change.double().numpy()
        if leaf == algorithm.row_leaf:
            totals.change[leaf][upload.item_R.numpy()] += value  # items are distinct
        else:
            totals.change[leaf] += value
