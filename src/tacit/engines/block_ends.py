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
        home = state.private[leaf].device if leaf in state.private else torch.device("cpu")
        row_BRD, item_BR = run.rows[leaf].to(home), run.item_BR.to(home)
        for b, user in enumerate(run.user_B.tolist()):
            count = int(run.draws.rows_B[b])
            if leaf in state.private:
                state.private[leaf][user].index_copy_(0, item_BR[b, :count], row_BRD[b, :count])
            elif state.tuned is not None:
                state.tuned.write(user, run.draws.item_BR[b, :count], row_BRD[b, :count])


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
        width = run.item_BR.shape[1]
        real = torch.arange(width) < torch.from_numpy(run.draws.rows_B)[:, None]
        moved_BRD = run.rows[leaf] - start.view_as(run.rows[leaf])
        change[leaf] = moved_BRD * real[..., None].to(run.device)
    factor_B = upload_factor(run.algorithm, change, batch_dims=1)
    weight = torch.from_numpy(weight_B).to(run.device)
    for leaf, value in change.items():
        scaled = value.double()
        spread = [1] * (value.dim() - 1)
        if factor_B is not None:
            scaled = (scaled * factor_B.view(-1, *spread)).to(value).double()
        sent = (scaled * weight.view(-1, *spread)).cpu().numpy()
        if leaf in run.rows:
            add_rows(totals.change[leaf], run.draws.item_BR, run.draws.rows_B, sent)
        else:
            totals.change[leaf] += sent.sum(0)
