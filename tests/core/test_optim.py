"""Optimisers: descent by hand, Adam beside torch's own, rates as functions of the round."""

from __future__ import annotations

import pytest
import torch

from tacit.core.capabilities import is_plain_descent
from tacit.core.optim import Adam, Momentum, Sgd, scheduled_rate


def test_sgd_with_weight_decay_by_hand() -> None:
    value = torch.tensor([2.0, -4.0], dtype=torch.float64)
    gradient = torch.tensor([1.0, 3.0], dtype=torch.float64)
    # 2 - 0.5 (1 + 0.25 * 2) = 1.25 and -4 - 0.5 (3 - 0.25 * 4) = -5
    stepped, state = Sgd(weight_decay=0.25).update(value, gradient, {}, 0.5)
    assert stepped.tolist() == [1.25, -5.0]
    assert state == {}
    assert value.tolist() == [2.0, -4.0]


def test_sgd_is_plain_descent_unless_it_decays() -> None:
    assert is_plain_descent(Sgd())
    assert not is_plain_descent(Sgd(weight_decay=1e-9))
    assert not is_plain_descent(Adam())


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_adam_steps_as_torch_does(weight_decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    theirs = ours.clone().requires_grad_()
    library = torch.optim.Adam([theirs], lr=0.05, weight_decay=weight_decay)
    adam = Adam(weight_decay=weight_decay)
    state = adam.init(ours, 0)
    for _ in range(7):
        gradient = torch.randn(3, 2, generator=generator, dtype=torch.float64)
        theirs.grad = gradient.clone()
        library.step()
        ours, state = adam.update(ours, gradient, state, 0.05)
    assert torch.allclose(ours, theirs.detach(), rtol=0, atol=1e-13)
    assert state["steps"].item() == 7


def test_momentum_steps_as_torch_does() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    theirs = ours.clone().requires_grad_()
    library = torch.optim.SGD([theirs], lr=0.05, momentum=0.9)
    heavy = Momentum()
    state = heavy.init(ours, 0)
    for _ in range(5):
        gradient = torch.randn(3, 2, generator=generator, dtype=torch.float64)
        theirs.grad = gradient.clone()
        library.step()
        ours, state = heavy.update(ours, gradient, state, 0.05)
    assert torch.allclose(ours, theirs.detach(), rtol=0, atol=1e-14)
    assert not is_plain_descent(heavy)


def test_adam_in_single_precision_is_good_to_its_last_digits() -> None:
    """1 - 0.999 taken in float32 would be off by 5e-5, and the first steps with it."""
    ours = torch.tensor([0.5, -1.0])
    theirs = ours.clone().requires_grad_()
    library = torch.optim.Adam([theirs], lr=1.0)
    adam = Adam()
    state = adam.init(ours, 0)
    for gradient in (torch.tensor([0.3, 2.0]), torch.tensor([-0.2, 1.0])):
        theirs.grad = gradient.clone()
        library.step()
        ours, state = adam.update(ours, gradient, state, 1.0)
        assert torch.allclose(ours, theirs.detach(), rtol=0, atol=4e-7)
    assert ours.dtype == torch.float32


def test_a_block_of_clients_with_different_step_counts_steps_as_each_alone() -> None:
    """Clients 0, 1, 2 have taken 5, 2 and 0 steps before the block takes one more together."""
    generator = torch.Generator().manual_seed(1)
    adam, before = Adam(), (5, 2, 0)
    values, states = [], []
    for steps in before:
        value = torch.randn(2, 4, generator=generator, dtype=torch.float64)
        state = adam.init(value, 0)
        for _ in range(steps):
            gradient = torch.randn(2, 4, generator=generator, dtype=torch.float64)
            value, state = adam.update(value, gradient, state, 0.1)
        values.append(value)
        states.append(state)
    block = torch.stack(values)
    together = {key: torch.stack([state[key] for state in states]) for key in states[0]}
    assert together["steps"].shape == adam.init(block, 1)["steps"].shape == (3,)
    gradient = torch.randn(3, 2, 4, generator=generator, dtype=torch.float64)
    stepped, after = adam.update(block, gradient, together, 0.1)
    assert after["steps"].tolist() == [6.0, 3.0, 1.0]
    for client in range(3):
        alone, _ = adam.update(values[client], gradient[client], states[client], 0.1)
        assert torch.allclose(stepped[client], alone, rtol=0, atol=1e-15)


def test_scheduled_rate_by_hand() -> None:
    assert scheduled_rate(0.2, None, 1.0, 9, 50) == 0.2
    assert scheduled_rate(0.2, None, 0.5, 1, 50) == 0.2
    assert scheduled_rate(0.2, None, 0.5, 4, 50) == pytest.approx(0.2 / 8, rel=1e-15)
    assert scheduled_rate(0.1, 3.0, 0.5, 2, 40) == pytest.approx(6.0, rel=1e-15)


def test_rates_are_functions_of_the_round_alone() -> None:
    """Asked in another order, a round has the same rate: nothing is multiplied in place."""
    for optimiser in (Sgd(0.1, per_item=2.0, decay=0.9), Adam(0.1, per_item=2.0, decay=0.9)):
        backwards = [optimiser.rate_at(number, 10) for number in (3, 2, 1)]
        forwards = [optimiser.rate_at(number, 10) for number in (1, 2, 3)]
        assert backwards[::-1] == forwards
        assert forwards[1] == pytest.approx(0.1 * 20 * 0.9, rel=1e-15)


def test_lifetimes() -> None:
    assert Sgd().lifetime == Adam().lifetime == "round"
    assert Adam(lifetime="persistent").lifetime == "persistent"
