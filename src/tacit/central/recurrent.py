"""A layer of gated recurrent units over whole windows, with a way back of its own.

What the rows alone decide is computed once for every row that is read, however often, and gradients
of weights and rows once for all places: only what hangs on the state before goes from place to
place. Automatic differentiation of one cell after another does all of it place by place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Units(torch.autograd.Function):
    """With the gates r (reset) and u (update), and v that the candidate n has of the state before:

        n = tanh(row's part + r v),   state = n + u (state before - n)

    Of a place's sums inside of v, r, u and n (F is these four side by side, G three of them), every
    gradient is that of its state times a factor that is known beforehand.
    """

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        read_BL: Tensor,
        item_GD: Tensor,
        state_GD: Tensor,
        item_bias_G: Tensor,
        state_bias_G: Tensor,
    ) -> Tensor:
        rows, places = read_BL.shape
        dim = state_GD.shape[1]
        gate_LBG = torch.addmm(item_bias_G, row_RD, item_GD.T)[read_BL.T]
        recalled_LBD = row_RD.new_empty((places, rows, dim))
        state_LBD = row_RD.new_zeros((places + 1, rows, dim))  # with the empty one before all
        for before_BD, after_BD, gate_BG, recalled_BD in zip(
            state_LBD, state_LBD[1:], gate_LBG, recalled_LBD, strict=False
        ):
            opened_BG, candidate_BD = gate_BG[:, : 2 * dim], gate_BG[:, 2 * dim :]
            by_state_BG = torch.addmm(state_bias_G, before_BD, state_GD.T)
            recalled_BD.copy_(by_state_BG[:, 2 * dim :])
            reset_BD, update_BD = opened_BG.add_(by_state_BG[:, : 2 * dim]).sigmoid_().split(dim, 1)
            candidate_BD.addcmul_(reset_BD, recalled_BD).tanh_()
            torch.lerp(candidate_BD, before_BD, update_BD, out=after_BD)
        kept = (row_RD, read_BL, item_GD, state_GD, recalled_LBD, gate_LBG, state_LBD)
        ctx.save_for_backward(*kept)
        return state_LBD[1:].transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, slope_BLD: Tensor) -> tuple[Tensor | None, ...]:
        row_RD, read_BL, item_GD, state_GD, recalled_LBD, gate_LBG, state_LBD = ctx.saved_tensors
        places, rows, dim = recalled_LBD.shape
        slope_LBD = slope_BLD.transpose(0, 1)
        reset_LBD, update_LBD, candidate_LBD = gate_LBG.split(dim, 2)
        by_LBF = gate_LBG.new_empty((places, rows, 4 * dim))
        by_recalled_LBD, by_reset_LBD, by_update_LBD, inside_LBD = by_LBF.split(dim, 2)
        torch.mul(1 - update_LBD, 1 - candidate_LBD.square(), out=inside_LBD)
        torch.mul(inside_LBD, reset_LBD, out=by_recalled_LBD)
        torch.mul(by_recalled_LBD, recalled_LBD, out=by_reset_LBD).mul_(1 - reset_LBD)
        torch.sub(state_LBD[:-1], candidate_LBD, out=by_update_LBD)
        by_update_LBD.mul_(update_LBD).mul_(1 - update_LBD)
        turned_GD = torch.cat([state_GD[2 * dim :], state_GD[: 2 * dim]])  # v, r, u
        carried_BD = slope_LBD[-1]
        for place in range(places - 1, -1, -1):
            by_LBF[place].view(rows, 4, dim).mul_(carried_BD[:, None])
            if place:
                carried_BD = torch.addcmul(slope_LBD[place - 1], carried_BD, update_LBD[place])
                carried_BD.addmm_(by_LBF[place, :, : 3 * dim], turned_GD)
        by_NF = by_LBF.flatten(0, 1)
        by_turned_GD = by_NF[:, : 3 * dim].T @ state_LBD[:-1].flatten(0, 1)
        by_row_RG = by_NF.new_zeros((len(row_RD), 3 * dim))
        by_row_RG.index_add_(0, read_BL.T.flatten(), by_NF[:, dim:])
        by_F = by_NF.sum(0)
        return (
            by_row_RG @ item_GD,
            None,
            by_row_RG.T @ row_RD,
            torch.cat([by_turned_GD[dim:], by_turned_GD[:dim]]),
            by_F[dim:],
            torch.cat([by_F[dim : 3 * dim], by_F[:dim]]),
        )


def recurrent_states(
    row_RD: Tensor,
    read_BL: Tensor,
    item_GD: Tensor,
    state_GD: Tensor,
    item_bias_G: Tensor,
    state_bias_G: Tensor,
) -> Tensor:
    """(B, L, D) the state at each place, from an empty one on. `read_BL` says which row a place
    reads; weights and biases of the gates stand as `torch.gru_cell` has them.

    >>> gates = torch.ones(3, 1), torch.ones(3, 1), torch.zeros(3), torch.zeros(3)
    >>> cell = torch.gru_cell(torch.ones(1, 1), torch.zeros(1, 1), *gates)
    >>> found = recurrent_states(torch.ones(1, 1), torch.tensor([[0]]), *gates)
    >>> torch.allclose(found[0], cell)
    True
    """
    gates = (item_GD, state_GD, item_bias_G, state_bias_G)
    states: Tensor = _Units.apply(row_RD, read_BL, *gates)
    return states
