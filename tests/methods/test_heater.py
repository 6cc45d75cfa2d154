"""Heater by hand: experts, the switch between content and factors, the loss, and its size."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.methods import METHODS
from tacit.methods.central_trained import Mf
from tacit.methods.heater import Batch, Heater, by_content, mixture, standardised

WIDE = torch.float64


def test_experts_are_weighed_by_a_tanh_of_a_linear_layer_and_not_by_a_softmax() -> None:
    p = {
        "experts.w": torch.tensor([[1.0, 0.0, -2.0, 0.5]], dtype=WIDE),  # two experts, two wide
        "experts.b": torch.tensor([0.0, 0.3, 0.0, 0.0], dtype=WIDE),
        "gate.w": torch.tensor([[0.5, -1.0]], dtype=WIDE),
        "gate.b": torch.tensor([0.1, 0.0], dtype=WIDE),
    }
    content = 0.8
    weights = math.tanh(0.5 * content + 0.1), math.tanh(-content)
    first = math.tanh(content), math.tanh(0.3)
    second = math.tanh(-2 * content), math.tanh(0.5 * content)
    expected = [
        math.tanh(weights[0] * one + weights[1] * two)
        for one, two in zip(first, second, strict=True)
    ]
    found = mixture(p, torch.tensor([[content]], dtype=WIDE), experts=2)
    assert found[0].tolist() == pytest.approx(expected, abs=1e-12)
    assert weights[0] + weights[1] != pytest.approx(1)  # a softmax would give one


def test_a_share_of_a_batch_rounded_down_is_trained_by_content() -> None:
    for count, share, expected in ((7, 0.5, 3), (8, 0.25, 2), (3, 1.0, 3), (1, 0.5, 0)):
        assert by_content(count, share, np.random.default_rng(0)).sum() == expected
    generator = np.random.default_rng(1)
    often = np.mean([by_content(4, 0.5, generator) for _ in range(2000)], axis=0)
    assert np.abs(often - 0.5).max() < 0.05  # any row, as often as another


def plain(method: Heater, **changed: torch.Tensor) -> tuple[Params, Params]:
    """Parameters of width 1 whose towers are tanh(x) / sqrt(1 + 1e-3) outside of training."""
    network = method.begin(1, 0, WIDE)
    ones = {name: torch.ones_like(value) for name, value in network.items() if ".w" in name}
    p = network | ones | changed
    statistics = {n: value for n, value in p.items() if n.endswith((".mean", ".variance"))}
    moving = {n: v for n, v in p.items() if n not in statistics and not n.startswith("adam.")}
    return moving, statistics


def test_the_loss_by_hand() -> None:
    """One row by its factor and one by content, of an item whose content is 2."""
    method = Heater(factors=Mf(1), experts=1, similarity=0.25, decay=0.125)
    gate = {"gate.w": torch.full((1, 1), 3.0, dtype=WIDE), "gate.b": torch.ones(1, dtype=WIDE)}
    p, statistics = plain(method, **gate)
    batch = Batch(
        user_ND=torch.tensor([[0.5], [-0.4]], dtype=WIDE),
        item_ND=torch.tensor([[0.7], [0.7]], dtype=WIDE),
        content_RF=torch.tensor([[2.0]], dtype=WIDE),
        row_N=torch.tensor([0, 0]),
        label_N=torch.tensor([1.0, 0.0], dtype=WIDE),
        by_content_N=torch.tensor([False, True]),
    )

    def tower(value: float) -> float:
        return math.tanh(value / math.sqrt(1 + 1e-3))

    made = math.tanh(math.tanh(7.0) * math.tanh(2.0))
    scores = tower(0.5) * tower(0.7), tower(-0.4) * tower(made)
    error = ((scores[0] - 1) ** 2 + scores[1] ** 2) / 2
    squares = 1 + 9 + 1 + 4  # experts.w, gate.w, gate.b and four weights of towers
    expected = error + 0.25 * 2 * (made - 0.7) ** 2 + 0.125 * squares
    found = method.loss(p, statistics, batch, training=None)
    assert found.item() == pytest.approx(expected, abs=1e-12)


def test_rows_that_go_on_with_factors_teach_experts_only_to_be_near_them() -> None:
    method = Heater(factors=Mf(3), experts=2, similarity=0.0, decay=0.0)
    network = method.begin(4, 0, WIDE)
    statistics = {n: v for n, v in network.items() if n.endswith((".mean", ".variance"))}
    generator = torch.Generator().manual_seed(0)

    def slopes(by_content_N: list[bool], similarity: float) -> torch.Tensor:
        batch = Batch(
            *(torch.randn(5, 3, generator=generator, dtype=WIDE) for _ in range(2)),
            torch.randn(5, 4, generator=generator, dtype=WIDE),
            torch.arange(5),
            torch.ones(5, dtype=WIDE),
            torch.tensor(by_content_N),
        )
        moving = {
            n: v.requires_grad_()
            for n, v in network.items()
            if n not in statistics and not n.startswith("adam.")
        }
        one = Heater(factors=Mf(3), experts=2, similarity=similarity, decay=0.0)
        loss = one.loss(moving, statistics, batch, np.random.default_rng(0))
        found = torch.autograd.grad(loss, moving["experts.w"], materialize_grads=True)[0]
        return found

    assert slopes([False] * 5, 0.0).abs().max() == 0
    assert slopes([False] * 5, 1.0).abs().max() > 0
    assert slopes([True] + [False] * 4, 0.0).abs().max() > 0


def test_factors_are_clipped_in_units_of_their_columns() -> None:
    table = torch.tensor([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]], dtype=WIDE)
    size = math.sqrt(8 / 3)
    found = standardised(table, table, 1.0)
    assert found[:, 0].tolist() == pytest.approx([-1.0, 0.0, 1.0])  # 2 / size is above 1
    assert found[:, 1].tolist() == [0.0, 0.0, 0.0]
    assert standardised(table, table, 5.0)[2, 0].item() == pytest.approx(2 / size)


def test_how_many_numbers_it_learns() -> None:
    """Experts, gate, and two towers: two linear layers, a gain and a shift each."""
    width, content, experts = 6, 5, 3
    p = Heater(factors=Mf(width), experts=experts).begin(content, 0, torch.float32)
    learnt = {n: v for n, v in p.items() if not n.endswith((".mean", ".variance", "velocity"))}
    tower = 2 * (width * width + width) + 2 * width
    expected = (content + 1) * experts * width + (content + 1) * experts + 2 * tower
    assert sum(value.numel() for value in learnt.values()) == expected == 318
    assert p["adam.velocity"].shape == (expected,)


def test_settings_of_the_paper() -> None:
    method = METHODS["heater"].method("paper")
    assert isinstance(method, Heater)
    assert (method.experts, method.mixing, method.similarity, method.decay) == (5, 0.5, 1e-4, 1e-4)
    assert (method.batch, method.width, method.sampling.negatives) == (1024, 200, 5)
    rates = [method.optimiser.rate_at(number, 1) for number in (1, 11)]
    assert rates[0] == 0.005
    assert rates[1] == pytest.approx(0.8 * rates[0], rel=1e-3)
    narrow = METHODS["heater"].method("narrow")
    assert isinstance(narrow, Heater)
    assert narrow.width == 64


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"experts": 0}, "experts is 0; it must be at least 1"),
        ({"mixing": 0.0}, "mixing is 0.0; it must be above 0 and at most 1"),
        ({"batch": 0}, "batch is 0; it must be at least 1"),
        ({"factor_epochs": 0}, "factor_epochs is 0; it must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, float], text: str) -> None:
    with pytest.raises(TacitError, match=text):
        Heater(**setting)  # type: ignore[arg-type]
