"""Binary cross-entropy: values and slopes by hand, and the released code's saturation."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import vmap
from torch.nn.functional import binary_cross_entropy

from tacit.parts.objectives import BinaryCrossEntropy


def slopes(
    objective: BinaryCrossEntropy, logit_N: torch.Tensor, label_N: torch.Tensor
) -> torch.Tensor:
    free = logit_N.clone().requires_grad_()
    (slope_N,) = torch.autograd.grad(objective.loss(free, label_N, torch.ones_like(free)), [free])
    return slope_N


@pytest.mark.parametrize("on", ["logits", "probabilities"])
def test_values_by_hand(on) -> None:
    logit_N = torch.tensor([0.0, math.log(3.0), math.log(3.0)], dtype=torch.float64)
    label_N = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    weight_N = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    # probabilities 1/2, 3/4, 3/4: losses ln 2, ln 4/3, ln 4
    expected = 0.5 * math.log(2) + 0.25 * math.log(4 / 3) + 0.25 * math.log(4)
    loss = BinaryCrossEntropy(on).loss(logit_N, label_N, weight_N)
    assert loss.item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("on", ["logits", "probabilities"])
def test_large_logits_have_finite_values(on) -> None:
    logit_N = torch.tensor([800.0, -800.0], dtype=torch.float64)
    label_N = torch.tensor([0.0, 1.0], dtype=torch.float64)
    loss = BinaryCrossEntropy(on).loss(logit_N, label_N, torch.ones(2, dtype=torch.float64))
    assert loss.item() == 1600.0


def test_slope_on_logits_is_sigmoid_minus_label() -> None:
    logit_N = torch.tensor([-60.0, -21.0, -2.0, 0.0, 1.0, 25.0, 60.0], dtype=torch.float64)
    for label in (0.0, 1.0):
        label_N = torch.full_like(logit_N, label)
        expected = torch.sigmoid(logit_N) - label_N
        found = slopes(BinaryCrossEntropy(), logit_N, label_N)
        # sigmoid - 1 itself is only good to a unit in the last place of 1
        assert torch.allclose(found, expected, rtol=0, atol=2.3e-16)


def test_saturated_probabilities_have_no_slope_in_float32() -> None:
    """The sigmoid of 30 is 1 in float32: a wrong answer of that size is never unlearnt."""
    logit_N, label_N = torch.tensor([30.0]), torch.tensor([0.0])
    assert slopes(BinaryCrossEntropy("probabilities"), logit_N, label_N).item() == 0.0
    assert slopes(BinaryCrossEntropy("logits"), logit_N, label_N).item() == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_have_the_slopes_of_the_library_loss(dtype: torch.dtype) -> None:
    logit_N = torch.linspace(-12, 12, 97, dtype=dtype)
    for label in (0.0, 1.0):
        label_N = torch.full_like(logit_N, label)
        free = logit_N.clone().requires_grad_()
        library = binary_cross_entropy(torch.sigmoid(free), label_N, reduction="sum")
        (expected,) = torch.autograd.grad(library, [free])
        found = slopes(BinaryCrossEntropy("probabilities"), logit_N, label_N)
        tolerance = 1e-6 if dtype == torch.float32 else 1e-14
        assert torch.allclose(found, expected, rtol=0, atol=tolerance)


def test_the_fading_slopes_are_those_of_the_library_loss_too() -> None:
    """Between 27.6 and 36.7 in float64 the library divides by its floor instead of p(1 - p)."""
    logit_N = torch.linspace(27, 40, 53, dtype=torch.float64)
    label_N = torch.zeros_like(logit_N)
    free = logit_N.clone().requires_grad_()
    library = binary_cross_entropy(torch.sigmoid(free), label_N, reduction="sum")
    (expected,) = torch.autograd.grad(library, [free])
    found = slopes(BinaryCrossEntropy("probabilities"), logit_N, label_N)
    assert found[0] > 0.99
    assert found[-1] == 0.0
    # the library keeps its floor of 1e-12 in single precision: 4e-9 below ours
    assert torch.allclose(found, expected, rtol=5e-9, atol=0)


@pytest.mark.parametrize("on", ["logits", "probabilities"])
def test_maps_over_clients(on) -> None:
    objective = BinaryCrossEntropy(on)
    generator = torch.Generator().manual_seed(0)
    logit_BN = 20 * torch.randn(3, 5, generator=generator, dtype=torch.float64)
    label_BN = (torch.rand(3, 5, generator=generator) < 0.5).double()
    weight_BN = torch.full((3, 5), 0.2, dtype=torch.float64)
    free = logit_BN.clone().requires_grad_()
    loss_B = vmap(objective.loss)(free, label_BN, weight_BN)
    (slope_BN,) = torch.autograd.grad(loss_B.sum(), [free])
    for client in range(3):
        alone = logit_BN[client].clone().requires_grad_()
        loss = objective.loss(alone, label_BN[client], weight_BN[client])
        (slope_N,) = torch.autograd.grad(loss, [alone])
        assert loss_B[client].item() == pytest.approx(loss.item(), rel=1e-14)
        assert torch.allclose(slope_BN[client], slope_N, rtol=1e-14, atol=0)
