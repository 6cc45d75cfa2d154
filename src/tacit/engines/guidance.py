"""Personal tables meet their mean: gathered, and mixed back, one block of users at a time.

Only one set of tables is ever held: a block is read, fitted, mixed and written in place.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.func import vmap

from tacit.core.capabilities import stacked_slots, steps_entrywise
from tacit.core.compose import Algorithm
from tacit.core.parts import Guided, TableRule
from tacit.core.types import ITEMS, OWN_ITEMS, PAST, PAST_WEIGHT, Params
from tacit.data.batches import BlockDraws, draw_block, past_of_block
from tacit.data.sampling import samples_per_user
from tacit.data.views import TrainView
from tacit.engines.base import Totals, upload_factor
from tacit.engines.device import halved
from tacit.engines.kernels.gates_cpu import sum_tables
from tacit.engines.participation import everybody
from tacit.engines.state import State

_BLOCK_BYTES = 64 * 2**20  # of one block's tables, while they are mixed


def gather_tables(algorithm: Algorithm, train: TrainView, state: State) -> Totals:
    """The sum over all users of how their tables differ from the last global one."""
    server = algorithm.method.server
    assert not isinstance(server, TableRule)
    totals = Totals({ITEMS: np.zeros(algorithm.shared[ITEMS].shape)})
    own_UID, table_ID = state.private[OWN_ITEMS], state.shared[ITEMS]
    for user_B in _blocks(algorithm, train, state, block=64):
        weight_B = np.array([server.weight(int(n)) for n in train.positives.size_U[user_B]])
        totals.weight += float(weight_B.sum())
        totals.clients += len(user_B)
        if any(link.order is not None for link in algorithm.method.channel):
            change_BID = own_UID[torch.from_numpy(user_B)] - table_ID
            factor_B = upload_factor(algorithm, {ITEMS: change_BID}, batch_dims=1)
            weight_B *= 1.0 if factor_B is None else factor_B.cpu().numpy()
        if own_UID.is_cuda:
            change_BID = (own_UID[torch.from_numpy(user_B)] - table_ID).double()
            weight = torch.from_numpy(weight_B).to(change_BID)
            totals.change[ITEMS] += torch.tensordot(weight, change_BID, 1).cpu().numpy()
        else:
            sum_tables(user_B, weight_B, table_ID.numpy(), own_UID.numpy(), totals.change[ITEMS])
    return totals


def guide(algorithm: Algorithm, train: TrainView, state: State, seed: int, block: int) -> None:
    """Every user trains its gate on the round's samples, then mixes the global table in."""
    round_number = state.round_number + 1
    sync = algorithm.method.sync
    assert isinstance(sync, Guided)
    samples_U = samples_per_user(train, algorithm.method.sampling)
    if sync.epochs:
        user_P = everybody(train).user_P
        longest_first_P = user_P[np.argsort(-samples_U[user_P], kind="stable")]
        while len(longest_first_P):
            user_B = longest_first_P[:block]
            draws = draw_block(
                train,
                user_B,
                samples_U,
                algorithm.method.sampling,
                batch=algorithm.method.local.batch,
                epochs=sync.epochs,
                seed=seed,
                round_number=round_number,
                dtype=np.float64 if _is_double(state) else np.float32,
            )
            past = None
            if algorithm.method.items.reads_history:
                past = past_of_block(train, user_B, draws)
            try:
                _fit_gates(algorithm, state, user_B, draws, round_number, past)
            except torch.OutOfMemoryError:  # of a GPU; no gate of the block was written yet
                block = halved(block, str(state.private[OWN_ITEMS].device))
                continue
            longest_first_P = longest_first_P[len(user_B) :]
    for user_B in _blocks(algorithm, train, state, block):
        users = torch.from_numpy(user_B)
        leaves = (OWN_ITEMS, *sync.gate_leaves)
        private = {leaf: state.private[leaf][users] for leaf in leaves}
        table_ID = state.shared[ITEMS]
        mixed = vmap(lambda p, table=table_ID: sync.mix({**p, ITEMS: table}))(private)
        state.private[OWN_ITEMS][users] = mixed


def _fit_gates(
    algorithm: Algorithm,
    state: State,
    user_B: np.ndarray,
    draws: BlockDraws,
    round_number: int,
    past: tuple[np.ndarray, np.ndarray] | None,
) -> None:
    """Descent on the gates alone, through the mixed table; each client may stop by itself."""
    sync, method = algorithm.method.sync, algorithm.method
    assert isinstance(sync, Guided)
    here = state.private[OWN_ITEMS].device
    users, item_BR = (torch.from_numpy(x).to(here) for x in (user_B, draws.item_BR))
    rows = {
        OWN_ITEMS: state.private[OWN_ITEMS][users[:, None], item_BR],
        ITEMS: state.shared[ITEMS][item_BR],
    }
    dtype = rows[ITEMS].dtype
    rows |= {leaf: table.to(here, dtype)[item_BR] for leaf, table in algorithm.content.items()}
    encoder = {leaf: state.shared[leaf] for leaf in algorithm.uploads}  # what else is shared
    model = {
        leaf: state.private[leaf][users] for leaf in algorithm.model_leaves if leaf in state.private
    }
    gates = {leaf: state.private[leaf][users] for leaf in sync.gate_leaves}
    slots = {leaf: stacked_slots(sync.gate_optimiser, value) for leaf, value in gates.items()}
    rate = sync.gate_optimiser.rate_at(round_number, algorithm.task.n_items)

    def loss(
        gate: Params, p: Params, read: Params, label_N: torch.Tensor, weight_N: torch.Tensor
    ) -> torch.Tensor:
        logit_N = algorithm.score_with({**encoder, **p, **read, **gate}, sync.mix)
        return method.objective.loss(logit_N, label_N, weight_N)

    mapped = vmap(loss)
    drawn = (draws.row_TSBW, draws.label_TSBW, draws.weight_SBW, draws.steps_B)
    row_TSBW, label_TSBW, weight_SBW, steps_B = (torch.from_numpy(x).to(here) for x in drawn)
    before_B = torch.full((len(user_B),), float("inf"), dtype=torch.float64, device=here)
    alive_B = torch.ones(len(user_B), dtype=torch.bool, device=here)
    for epoch in range(row_TSBW.shape[0]):
        loss_B = torch.zeros_like(before_B)
        for step in range(row_TSBW.shape[1]):
            b = ((steps_B > step) & alive_B).nonzero().squeeze(1)
            if not len(b):
                break
            row_BN = row_TSBW[epoch, step, b]
            read = {leaf: value[b[:, None], row_BN] for leaf, value in rows.items()}
            if past is not None:
                row_BH, weight_BH = (torch.from_numpy(part).to(here)[b] for part in past)
                read |= {f"{leaf}{PAST}": v[b[:, None], row_BH] for leaf, v in rows.items()}
                read[PAST_WEIGHT] = weight_BH
            gate = {leaf: value[b].requires_grad_() for leaf, value in gates.items()}
            value_B = mapped(
                gate,
                {leaf: value[b] for leaf, value in model.items()},
                read,
                label_TSBW[epoch, step, b],
                weight_SBW[step, b],
            )
            gradients = torch.autograd.grad(value_B.sum(), list(gate.values()))
            loss_B[b] += value_B.detach().double() * (weight_SBW[step, b] > 0).sum(1)
            for leaf, gradient in zip(gate, gradients, strict=True):
                state_b = {slot: value[b] for slot, value in slots[leaf].items()}
                value_b = gate[leaf].detach()
                if not steps_entrywise(sync.gate_optimiser):  # the block is one client
                    value_b, gradient = value_b[0], gradient[0]
                    state_b = {slot: value[0] for slot, value in state_b.items()}
                new, state_b = sync.gate_optimiser.update(value_b, gradient, state_b, rate)
                gates[leaf][b] = new
                for slot, value in state_b.items():
                    slots[leaf][slot][b] = value
        alive_B &= (before_B - loss_B).abs() >= sync.tolerance * before_B.clamp(max=1e300)
        before_B = loss_B
    for leaf, value in gates.items():
        state.private[leaf][users] = value


def _blocks(algorithm: Algorithm, train: TrainView, state: State, block: int) -> list[np.ndarray]:
    """Users with data, in the order of their keys, as many at a time as fit into little memory."""
    user_P = everybody(train).user_P
    user_P = user_P[np.argsort(train.user_key_U[user_P], kind="stable")]
    width = state.private[OWN_ITEMS].element_size() * algorithm.shared[ITEMS].count
    size = min(block, max(1, _BLOCK_BYTES // (4 * width)))
    return [user_P[begin : begin + size] for begin in range(0, len(user_P), size)]


def _is_double(state: State) -> bool:
    return state.private[OWN_ITEMS].dtype == torch.float64
