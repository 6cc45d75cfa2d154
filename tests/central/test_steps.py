"""Steps in place, against the definition of the optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.central.steps import adam_at_once, step_tables
from tacit.core.capabilities import written_step
from tacit.core.optim import Adam, Momentum, Optimiser, Sgd, stepped, with_optimizer_state
from tacit.core.types import Params

GENERATOR = np.random.default_rng(0)
SHAPES = {"table": (1003, 33), "weight": (5, 3), "bias": (3,), "alone": ()}


def drawn(dtype: torch.dtype) -> Params:
    """Numbers of all sizes, and zeros."""
    found = {}
    for name, shape in SHAPES.items():
        size = np.exp(3 * GENERATOR.normal(size=shape)) * (GENERATOR.random(shape) < 0.8)
        found[name] = torch.from_numpy(np.asarray(size * GENERATOR.normal(size=shape))).to(dtype)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("adam", [Adam(), Adam(weight_decay=0.03, beta1=0.7, beta2=0.95)])
def test_adam_in_place_has_the_bits_of_its_definition(adam: Adam, dtype: torch.dtype) -> None:
    expected = with_optimizer_state(drawn(dtype), adam)
    found = {name: value.clone() for name, value in expected.items()}
    for rate in (0.1, 0.01, 0.001, 0.3, 0.02, 0.005):
        gradient = drawn(dtype)
        gradient["weight"] = gradient["weight"].T.contiguous().T  # as gradients of products lie
        expected = stepped(expected, gradient, adam, rate)
        assert step_tables(found, gradient, adam, rate) is found
        for name, value in expected.items():
            assert torch.equal(found[name], value), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_tables_at_once_agree_to_rounding(dtype: torch.dtype) -> None:
    """What a GPU does, played on the CPU."""
    adam = Adam(weight_decay=0.03, beta1=0.7, beta2=0.95)
    step = written_step(adam)
    assert step is not None
    expected = with_optimizer_state(drawn(dtype), adam)
    found = {name: value.clone() for name, value in expected.items()}
    for rate in (0.1, 0.01, 0.3):
        gradient = drawn(dtype)
        gradient["weight"] = gradient["weight"].T.contiguous().T
        expected = stepped(expected, gradient, adam, rate)
        adam_at_once(found, gradient, step, rate)
    exact = 1e-12 if dtype is torch.float64 else 1e-5
    for name, value in expected.items():
        assert found[name].dtype is dtype
        torch.testing.assert_close(found[name], value, rtol=exact, atol=exact)


class Hasty(Adam):
    def update(
        self, value: torch.Tensor, gradient: torch.Tensor, state: Params, rate: float
    ) -> tuple[torch.Tensor, Params]:
        return value - 2 * rate * gradient, state


@pytest.mark.parametrize("optimiser", [Sgd(weight_decay=0.1), Momentum(), Hasty()])
def test_other_optimisers_are_asked_themselves(optimiser: Optimiser) -> None:
    before = with_optimizer_state(drawn(torch.float64), optimiser)
    kept = {name: value.clone() for name, value in before.items()}
    gradient = drawn(torch.float64)
    found = step_tables(before, gradient, optimiser, 0.1)
    for name, value in stepped(kept, gradient, optimiser, 0.1).items():
        assert torch.equal(found[name], value)
        assert torch.equal(before[name], kept[name])
