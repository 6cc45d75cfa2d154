"""A recurrent layer with a way back of its own, against cells under automatic differentiation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tacit.central.recurrent import recurrent_states

ROWS, WIDTH, DIM = 5, 3, 4


def leaves(generator: torch.Generator) -> list[Tensor]:
    """Rows, and weights and biases of the gates."""
    shapes = ((ROWS, WIDTH), (3 * DIM, WIDTH), (3 * DIM, DIM), (3 * DIM,), (3 * DIM,))
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


def by_cells(row_RD: Tensor, read_BL: Tensor, *gates: Tensor) -> Tensor:
    state_BD, states = row_RD.new_zeros((len(read_BL), DIM)), []
    for read_B in read_BL.T:
        state_BD = torch.gru_cell(row_RD[read_B], state_BD, *gates)
        states.append(state_BD)
    return torch.stack(states, dim=1)


@pytest.mark.parametrize("places", [1, 2, 7])
def test_states_and_gradients_are_those_of_one_cell_after_another(places: int) -> None:
    """Rows are read several times, and some by nobody."""
    generator = torch.Generator().manual_seed(places)
    row_RD, *gates = leaves(generator)
    read_BL = torch.randint(0, ROWS - 1, (6, places), generator=generator)
    expected_BLD = by_cells(row_RD, read_BL, *gates)
    found_BLD = recurrent_states(row_RD, read_BL, *gates)
    assert torch.allclose(found_BLD, expected_BLD, rtol=0, atol=1e-14)
    slope_BLD = torch.randn(expected_BLD.shape, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad(expected_BLD, [row_RD, *gates], slope_BLD)
    found = torch.autograd.grad(found_BLD, [row_RD, *gates], slope_BLD)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-13)
    assert not found[0][ROWS - 1].any()


def test_the_way_back_can_be_taken_again() -> None:
    """What was kept of the way there is not spoiled by it."""
    row_RD, *gates = leaves(torch.Generator().manual_seed(0))
    found_BLD = recurrent_states(row_RD, torch.tensor([[0, 1, 1]]), *gates)
    first = torch.autograd.grad(found_BLD.sum(), row_RD, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(found_BLD.sum(), row_RD)[0], first)
