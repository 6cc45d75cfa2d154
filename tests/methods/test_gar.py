"""GAR by hand: the losses of both halves, which half moves when, and its size."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.methods import METHODS
from tacit.methods.central_trained import Mf
from tacit.methods.gar import Batch, Gar, generator_loss, recommender_loss
from tacit.parts.diffusion.denoiser import Descent

WIDE = torch.float64


def softplus(value: float) -> float:
    return math.log1p(math.exp(value))


def test_the_recommender_puts_real_rows_above_made_and_drawn_ones() -> None:
    real, made, drawn = ([2.0, -1.0], [0.5, 0.0], [1.0, 4.0])
    expected = np.mean(
        [softplus(-(r - 0.9 * m - 0.1 * n)) for r, m, n in zip(real, made, drawn, strict=True)]
    )
    scores = (torch.tensor(one, dtype=WIDE) for one in (real, made, drawn))
    assert recommender_loss(*scores, beta=0.1).item() == pytest.approx(expected, abs=1e-12)


def test_the_generator_is_ranked_as_real_rows_are_and_stays_near_them() -> None:
    rows = torch.tensor([[1.0, -1.0], [0.5, 2.0]], dtype=WIDE)
    real_rows = torch.tensor([[0.0, -1.5], [0.5, 0.0]], dtype=WIDE)
    ranked = (softplus(-(0.3 - 2.0)) + softplus(-(1.0 + 1.0))) / 2
    expected = 0.95 * ranked + 0.05 * (1.0 + 0.5 + 0.0 + 2.0) / 4
    real, made = torch.tensor([2.0, -1.0], dtype=WIDE), torch.tensor([0.3, 1.0], dtype=WIDE)
    found = generator_loss(real, made, rows, real_rows, alpha=0.05)
    assert found.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("beta", [0.1, 0.9])
def test_beta_is_the_share_of_drawn_items_in_what_the_recommender_is_told(beta: float) -> None:
    """With the released 0.1 a step is nine times as much about made rows as about drawn items."""
    real, made, drawn = (
        torch.tensor([value], dtype=WIDE, requires_grad=True) for value in (0.0, 0.0, 0.0)
    )
    recommender_loss(real, made, drawn, beta).backward()
    # the slope of softplus at zero is one half
    slopes = [one.grad.item() for one in (real, made, drawn) if one.grad is not None]
    assert slopes == pytest.approx([-0.5, 0.5 * (1 - beta), 0.5 * beta], abs=1e-12)


def halves(method: Gar, feature_width: int) -> tuple[Params, Params, Params, Params]:
    """(generator, its statistics, recommender, its statistics)."""
    p = method.begin(feature_width, 0, WIDE)
    found = []
    for prefix in ("generator:", "recommender:"):
        own = {n.removeprefix(prefix): v for n, v in p.items() if n.startswith(prefix)}
        statistics = {n: v for n, v in own.items() if n.endswith((".mean", ".variance"))}
        found += [{n: v for n, v in own.items() if n not in statistics}, statistics]
    return found[0], found[1], found[2], found[3]


def drawn_batch(width: int, feature_width: int, rows: int = 6) -> Batch:
    generator = torch.Generator().manual_seed(1)
    sizes = (width, width, width, feature_width)
    return Batch(*(torch.randn(rows, size, generator=generator, dtype=WIDE) for size in sizes))


def test_both_losses_of_a_batch_are_those_of_its_scores_and_decayed_weights() -> None:
    method, batch = Gar(factors=Mf(3), hidden=4, decay=0.25), drawn_batch(3, 5)
    making, making_statistics, judging, judging_statistics = halves(method, 5)
    recommender = judging | judging_statistics
    made_ND = method._generator(5)(making | making_statistics, batch.content_NF, None)

    def scores(rows: torch.Tensor) -> torch.Tensor:
        return method.scores(recommender, batch.user_ND, rows, None)

    def squares(p: Params) -> float:
        return sum(v.square().sum().item() for n, v in p.items() if n.endswith(".w")) / 2

    real_N, made_N, drawn_N = map(scores, (batch.item_ND, made_ND, batch.negative_ND))
    expected = recommender_loss(real_N, made_N, drawn_N, 0.1).item() + 0.25 * squares(judging)
    found = method.recommender_step(judging, judging_statistics, made_ND, batch, None)
    assert found.item() == pytest.approx(expected, abs=1e-12)
    expected = generator_loss(real_N, made_N, made_ND, batch.item_ND, 0.05).item()
    found = method.generator_step(making, making_statistics, recommender, batch, None)
    assert found.item() == pytest.approx(expected + 0.25 * squares(making), abs=1e-12)


def test_a_step_of_one_half_leaves_the_other_as_it_was() -> None:
    """Statistics too: they move where their own half is trained, and nowhere else."""
    method, batch = Gar(factors=Mf(3), hidden=4), drawn_batch(3, 5)
    making, making_statistics, judging, judging_statistics = halves(method, 5)
    training = np.random.default_rng(0)

    def copies() -> list[Params]:
        known = (making, making_statistics, judging, judging_statistics)
        return [{n: v.clone() for n, v in one.items()} for one in known]

    def same(one: Params, two: Params) -> bool:
        return all(torch.equal(value, two[name]) for name, value in one.items())

    def a_step_down(p: Params, loss: Callable[[Params], torch.Tensor]) -> Params:
        descent = Descent(method.optimiser, p)
        descent.step(loss, 0.1)
        return descent.whole

    before = copies()
    made_ND = method._generator(5)(making | making_statistics, batch.content_NF, None)

    def judge(p: Params) -> torch.Tensor:
        return method.recommender_step(p, judging_statistics, made_ND, batch, training)

    judged = a_step_down(judging, judge)
    after = copies()
    assert same(after[0], before[0])
    assert same(after[1], before[1])
    assert not same(judged, before[2])
    assert not same(after[3], before[3])

    def make(p: Params) -> torch.Tensor:
        recommender = judged | judging_statistics
        return method.generator_step(p, making_statistics, recommender, batch, training)

    made = a_step_down(making, make)
    last = copies()
    assert not same(made, before[0])
    assert not same(last[1], before[1])
    assert same(last[3], after[3])


def test_how_many_numbers_it_learns() -> None:
    width, content, hidden = 6, 5, 4
    p = Gar(factors=Mf(width), hidden=hidden).begin(content, 0, torch.float32)
    counted = {
        name: value.numel()
        for name, value in p.items()
        if not name.endswith((".mean", ".variance")) and ":adam." not in name
    }
    generator = (content + 1) * hidden + 2 * hidden + (hidden + 1) * width
    tower = width + (width + 1) * hidden + 2 * hidden + (hidden + 1) * width
    assert sum(counted.values()) == generator + 2 * tower == 206
    assert p["generator:adam.first"].shape == (generator,)
    assert p["recommender:adam.first"].shape == (2 * tower,)


def test_settings_of_the_paper() -> None:
    method = METHODS["gar"].method("paper")
    assert isinstance(method, Gar)
    assert (method.alpha, method.beta, method.decay) == (0.05, 0.1, 1e-3)
    assert (method.batch, method.hidden, method.width) == (1024, 200, 200)
    assert (method._generator(9).dropout, method._recommender()[0].dropout) == (0.1, 0.5)
    narrow = METHODS["gar"].method("narrow")
    assert isinstance(narrow, Gar)
    assert narrow.width == 64


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TacitError, match=r"alpha is 2\.0; it must lie between 0 and 1"):
        Gar(alpha=2.0)
    with pytest.raises(TacitError, match="hidden is 0; it must be at least 1"):
        Gar(hidden=0)
