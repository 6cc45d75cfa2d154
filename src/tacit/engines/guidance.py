"""Personal tables are averaged, and the mean is mixed back into each, one block of users at a time.

Only one set of tables is ever held: a block is read, fitted, mixed and written in place.
"""

from __future__ import annotations

import numpy as np
import torch

from tacit.core.algorithm import TABLES, Exchange, Total
from tacit.core.client import fit_gates, mix_tables, upload_factor
from tacit.core.compose import ComposedAlgorithm
from tacit.core.parts import Guided
from tacit.core.types import BOUND, ITEMS, OWN_ITEMS
from tacit.data.batches import BlockDraws, counted, draw_block, history_of_block
from tacit.data.sampling import samples_per_user
from tacit.data.views import TrainView
from tacit.engines.accelerators.sums import sum_tables
from tacit.engines.device import halved
from tacit.engines.participation import everybody
from tacit.engines.round import weights_of
from tacit.engines.state import State

_BLOCK_BYTES = 64 * 2**20  # of one block's tables, while they are mixed


def gather_tables(algorithm: ComposedAlgorithm, train: TrainView, state: State) -> Total:
    """The sum over all users of how their tables differ from the last global one."""
    total = Total.zeros(algorithm.summed(Exchange(TABLES)))
    protection = algorithm.protection
    unit = 1.0 if protection is None else protection.unit(state.shared)
    own_UID, table_ID = state.private[OWN_ITEMS], state.shared[ITEMS]
    for user_B in _blocks(algorithm, train, state, block=64):
        weight_B = weights_of(algorithm, train, user_B)
        total.weight += float(weight_B.sum())
        total.clients += len(user_B)
        if any(link.order is not None for link in algorithm.channel):
            change_BID = own_UID[torch.from_numpy(user_B)] - table_ID
            known = (algorithm.channel, {ITEMS: change_BID})
            factor_B = upload_factor(*known, batch_dims=1, unit=unit)
            if protection is not None and protection.estimates and factor_B is not None:
                bit_B = protection.bit(factor_B).cpu().numpy()
                total.add(BOUND, (weight_B * bit_B).sum())
            weight_B *= 1.0 if factor_B is None else factor_B.cpu().numpy()
        if own_UID.is_cuda:
            change_BID = (own_UID[torch.from_numpy(user_B)] - table_ID).double()
            weight = torch.from_numpy(weight_B).to(change_BID)
            change_BID[weight == 0] = 0.0  # whatever stood there
            total.sums[ITEMS] += torch.tensordot(weight, change_BID, 1).cpu().numpy()
        else:
            sum_tables(user_B, weight_B, table_ID.numpy(), own_UID.numpy(), total.sums[ITEMS])
    return total


def guide(
    algorithm: ComposedAlgorithm, train: TrainView, state: State, seed: int, block: int
) -> None:
    """Every user trains its gate on the round's samples, then mixes the global table in."""
    guided = algorithm.method.sync.guidance
    assert guided is not None
    samples_U = samples_per_user(train, algorithm.method.sampling)
    recency = algorithm.method.recency
    count_N = None if recency is None else recency.of_positives(train)
    if guided.epochs:
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
                epochs=guided.epochs,
                seed=seed,
                round_number=state.round_number + 1,
                dtype=np.float64 if _is_double(state) else np.float32,
            )
            draws = counted(draws, train.positives, user_B, count_N)
            history = None
            if algorithm.method.items.reads_history:
                row_BH, weight_BH = history_of_block(train, user_B, draws, count_N)
                history = torch.from_numpy(row_BH), torch.from_numpy(weight_BH)
            try:
                _fit_block(algorithm, guided, state, user_B, draws, history)
            except torch.OutOfMemoryError:  # of a GPU; no gate of the block was written yet
                block = halved(block, str(state.private[OWN_ITEMS].device))
                continue
            longest_first_P = longest_first_P[len(user_B) :]
    for user_B in _blocks(algorithm, train, state, block):
        users = torch.from_numpy(user_B)
        own = {name: state.private[name][users] for name in (OWN_ITEMS, *guided.gate_parameters)}
        state.private[OWN_ITEMS][users] = mix_tables(guided, own, state.shared[ITEMS])


def _fit_block(
    algorithm: ComposedAlgorithm,
    guided: Guided,
    state: State,
    user_B: np.ndarray,
    draws: BlockDraws,
    history: tuple[torch.Tensor, torch.Tensor] | None,
) -> None:
    """The gates of a block of users, fitted and written; only the rows that are read are copied."""
    private = state.private
    here = private[OWN_ITEMS].device
    users, item_BR = (torch.from_numpy(x).to(here) for x in (user_B, draws.item_BR))
    read = (*algorithm.model_parameters, *guided.gate_parameters)
    own = {name: private[name][users] for name in read if name in private}
    rows = {OWN_ITEMS: private[OWN_ITEMS][users[:, None], item_BR]}
    number = state.round_number + 1
    gates = fit_gates(algorithm, guided, state.shared, own, draws, number, history, rows)
    for name, value in gates.items():
        private[name][users] = value


def _blocks(
    algorithm: ComposedAlgorithm, train: TrainView, state: State, block: int
) -> list[np.ndarray]:
    """Users with data, in the order of their keys, as many at a time as fit into little memory."""
    user_P = everybody(train).user_P
    user_P = user_P[np.argsort(train.user_key_U[user_P], kind="stable")]
    width = state.private[OWN_ITEMS].element_size() * algorithm.shared[ITEMS].count
    size = min(block, max(1, _BLOCK_BYTES // (4 * width)))
    return [user_P[begin : begin + size] for begin in range(0, len(user_P), size)]


def _is_double(state: State) -> bool:
    return state.private[OWN_ITEMS].dtype == torch.float64
