"""What is left of a block's round: some stays on the devices, some leaves them."""

from __future__ import annotations

import numpy as np
import torch

from tacit.core.types import Params
from tacit.engines.base import Totals, upload_factor
from tacit.engines.block import BlockRun
from tacit.engines.kernels.rows import add_rows
from tacit.engines.state import State


def keep(run: BlockRun, state: State) -> None:
    """What stays on the devices: private leaves, personal rows, persistent moments."""
    for leaf in run.p:
        if leaf in state.private:
            state.private[leaf][run.user_B] = run.p[leaf].to(state.private[leaf].device)
    for name, value in state.moments.items():
        leaf, slot = name.split("/")
        value[run.user_B] = run.slots[leaf][slot].to(value.device)
    for leaf in run.algorithm.row_leaves:
        if run.in_place or (leaf not in state.private and state.tuned is None):
            continue
        if leaf in state.private:
            own_UID = state.private[leaf]
            row_BRD, item_BR = run.rows[leaf].to(own_UID.device), run.item_BR.to(own_UID.device)
            place_BR = run.user_B.to(own_UID.device)[:, None] * own_UID.shape[1] + item_BR
            real_BR = _real_rows(run).to(own_UID.device)
            own_UID.flatten(0, 1).index_copy_(0, place_BR[real_BR], row_BRD[real_BR])
        elif state.tuned is not None:
            row_BRD = run.rows[leaf].cpu()
            for b, user in enumerate(run.user_B.tolist()):
                count = int(run.draws.rows_B[b])
                state.tuned.write(user, run.draws.item_BR[b, :count], row_BRD[b, :count])


def _real_rows(run: BlockRun) -> torch.Tensor:
    """Which rows are touched by their client, and not only there to fill the block."""
    width = run.item_BR.shape[1]
    return torch.arange(width) < torch.from_numpy(run.draws.rows_B)[:, None]


def send(run: BlockRun, totals: Totals, weight_B: np.ndarray) -> None:
    """What leaves them: changes of shared leaves, through the channel, summed in float64."""
    change: Params = {}
    for leaf, value in run.pooled.items():
        totals.change[leaf] += value.double().cpu().numpy()
    for leaf in run.algorithm.uploads:
        if leaf in run.still:
            continue
        if leaf in run.summed:
            change[leaf] = run.summed[leaf]
            continue
        if leaf not in run.rows:
            change[leaf] = run.p[leaf] - run.shared[leaf]
            continue
        start = run.shared[leaf].index_select(0, run.item_BR.view(-1))
        moved_BRD = run.rows[leaf] - start.view_as(run.rows[leaf])
        change[leaf] = moved_BRD * _real_rows(run)[..., None].to(run.device)
    factor_B = upload_factor(run.algorithm, change, batch_dims=1)
    weight = torch.from_numpy(weight_B).to(run.device)
    for leaf, value in change.items():
        scaled = value.double()
        spread = [1] * (value.dim() - 1)
        if factor_B is not None:
            scaled = (scaled * factor_B.view(-1, *spread)).to(value).double()
        sent = scaled * weight.view(-1, *spread)
        if sent.is_cuda:  # added up there: the sum is small, what all clients send is not
            totals.change[leaf] += _sum_on_device(run, leaf, sent).cpu().numpy()
        elif leaf in run.rows:
            add_rows(totals.change[leaf], run.draws.item_BR, run.draws.rows_B, sent.numpy())
        else:
            totals.change[leaf] += sent.numpy().sum(0)


def _sum_on_device(run: BlockRun, leaf: str, sent: torch.Tensor) -> torch.Tensor:
    if leaf not in run.rows:
        return sent.sum(0)
    total_ID = sent.new_zeros(run.shared[leaf].shape)
    return total_ID.index_add_(0, run.item_BR.view(-1), sent.flatten(0, 1))
