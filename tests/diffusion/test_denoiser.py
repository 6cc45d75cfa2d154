"""The network: its size, its parts against torch's own, and what may reach its output."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.parts.diffusion.denoiser import Denoiser


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def parameters_of(denoiser: Denoiser) -> Params:
    return denoiser.init(np.random.default_rng(5))


@pytest.mark.parametrize(
    ("mode", "fusion", "guidance"),
    list(product(["released", "residual"], ["attention", "concatenated"], [True, False])),
)
def test_output_has_the_shape_of_the_input(mode: Any, fusion: Any, guidance: bool) -> None:
    denoiser = Denoiser(12, 7, mode, fusion, guidance)
    guess = denoiser.guess(parameters_of(denoiser), drawn(5, 12), torch.arange(5), drawn(5, 7))
    assert guess.shape == (5, 12)
    assert guess.dtype == torch.float32


def test_parameters_as_printed() -> None:
    count = sum(parameter.numel() for parameter in parameters_of(Denoiser(64, 64)).values())
    assert count == 34_689 == 42_946 - 8_256 - 1


def test_first_values_follow_their_distributions() -> None:
    p = parameters_of(Denoiser(64, 64))
    assert p["modality.w"].std().item() == pytest.approx(0.125, rel=0.05)  # sqrt(2 / 128)
    assert p["time.w"].std().item() == pytest.approx((2 / 80) ** 0.5, rel=0.1)
    bound = (6 / 256) ** 0.5
    assert 0.98 * bound < p["attention.in.w"].abs().max().item() <= bound
    assert p["gain"].item() == pytest.approx(0.1)
    assert all(
        (parameter == 0).all() for name, parameter in p.items() if name.endswith((".b", ".shift"))
    )


def test_attention_is_torchs_own() -> None:
    """All of the released network again, written with torch's modules."""
    denoiser = Denoiser(8, 5)
    p = {
        name: parameter + 0.1 * drawn(*parameter.shape, seed=3)
        for name, parameter in parameters_of(denoiser).items()
    }
    noisy, feature, step = drawn(6, 8), drawn(6, 5, seed=1), torch.arange(6)
    attention = torch.nn.MultiheadAttention(8, 4, batch_first=True)
    with torch.no_grad():
        attention.in_proj_weight.copy_(p["attention.in.w"].T)
        attention.in_proj_bias.copy_(p["attention.in.b"])
        attention.out_proj.weight.copy_(p["attention.out.w"].T)
        attention.out_proj.bias.copy_(p["attention.out.b"])
        angle = step[:, None] / 10000 ** (torch.arange(8) / 8)
        waves = torch.cat([angle.cos(), angle.sin()], 1)
        time = torch.tanh(waves @ p["time.w"] + p["time.b"])
        modality = torch.tanh(feature @ p["modality.w"] + p["modality.b"])
        token = torch.tanh(torch.stack([time, modality], 1) @ p["token.w"] + p["token.b"])
        normed = torch.nn.functional.layer_norm(noisy, (8,), p["query.scale"], p["query.shift"])
        value = attention(normed[:, None], token, token)[0][:, 0] * (1 + p["gain"])
        value = torch.nn.functional.layer_norm(value, (8,), p["norm.scale"], p["norm.shift"])
        for number in range(4):
            value = value @ p[f"tower{number}.w"] + p[f"tower{number}.b"]
            value = torch.tanh(value) if number < 3 else value
        torch.testing.assert_close(denoiser.guess(p, noisy, step, feature), value)


def _reach(denoiser: Denoiser, p: Params) -> float:
    """How much the guess changes when the noisy row is another one."""
    feature, step = drawn(20, 5, seed=1), torch.full((20,), 3)
    one = denoiser.guess(p, drawn(20, 8, seed=2), step, feature)
    two = denoiser.guess(p, drawn(20, 8, seed=4), step, feature)
    return float((one - two).abs().max())


@pytest.mark.parametrize(("mode", "reaches"), [("released", False), ("residual", True)])
def test_the_noisy_row_reaches_the_output_in_residual_mode_only(mode: Any, reaches: bool) -> None:
    denoiser = Denoiser(8, 5, mode)
    p = parameters_of(denoiser)
    assert _reach(denoiser, p) > 0.01  # through the attention's weights at least
    blind = p["attention.in.w"].clone()
    blind[:, 8:16] = 0.0  # all keys alike: the weights are a half each, whatever asks
    assert (_reach(denoiser, {**p, "attention.in.w": blind}) > 0.01) == reaches
    alone = Denoiser(8, 5, mode, guidance=False)  # one token: its weight is 1
    assert (_reach(alone, parameters_of(alone)) > 0.01) == reaches


def test_without_guidance_features_are_not_read() -> None:
    for fusion in ("attention", "concatenated"):
        told, untold = (Denoiser(8, 5, fusion=fusion, guidance=g) for g in (True, False))
        for denoiser, same in ((told, False), (untold, True)):
            p = parameters_of(denoiser)
            noisy, step = drawn(4, 8), torch.zeros(4)
            one = denoiser.guess(p, noisy, step, drawn(4, 5, seed=1))
            two = denoiser.guess(p, noisy, step, drawn(4, 5, seed=2))
            assert torch.equal(one, two) == same


def test_width_must_divide_into_heads() -> None:
    with pytest.raises(TacitError, match="30 wide; the denoiser has 4 heads"):
        Denoiser(30, 30)
