"""MDiffFR's generator: when it learns, what its noise does, and the space it learns in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tacit.core.optim import Adam
from tacit.parts.cold.diffusion import Diffusion
from tacit.parts.diffusion.process import Schedule


def test_generating_is_fixed_by_the_noise_alone(toy: Any) -> None:
    part = Diffusion()
    p = part.begin(8, 6, np.random.default_rng(0))
    one, two = (torch.from_numpy(_noise(seed)) for seed in (1, 2))
    first = part.generate(p, toy.feature_CF, one)
    assert torch.equal(first, part.generate(p, toy.feature_CF, one))
    assert not torch.allclose(first, part.generate(p, toy.feature_CF, two))


def _noise(seed: int, rows: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(100, rows, 8)).astype(np.float32)


def test_the_light_variant_learns_in_every_other_round(toy: Any) -> None:
    light = Diffusion(every=2)
    p = light.begin(8, 6, np.random.default_rng(0))
    for number, learns in ((1, True), (2, False), (3, True), (4, False)):
        after = light.fit(p, toy.warm_WD, toy.feature_WF, number, np.random.default_rng(1))
        assert torch.equal(after["time.w"], p["time.w"]) != learns


def test_epochs_are_passes_one_after_another(toy: Any) -> None:
    once, twice = Diffusion(), Diffusion(epochs=2)
    p = once.begin(8, 6, np.random.default_rng(0))
    generator = np.random.default_rng(1)
    steps = once.fit(p, toy.warm_WD, toy.feature_WF, 1, generator)
    steps = once.fit(steps, toy.warm_WD, toy.feature_WF, 1, generator)
    both = twice.fit(p, toy.warm_WD, toy.feature_WF, 1, np.random.default_rng(1))
    assert all(torch.equal(both[name], steps[name]) for name in both)


def test_a_row_is_the_mean_over_draws(toy: Any) -> None:
    one = Diffusion(reverse_noise=True)
    three = Diffusion(reverse_noise=True, draws=3)
    assert (one.noise, three.noise) == (10, 30)
    p = one.begin(8, 6, np.random.default_rng(0))
    noise = torch.from_numpy(_noise(1, rows=30))
    alone = [one.generate(p, toy.feature_CF, part) for part in noise.split(10, dim=1)]
    torch.testing.assert_close(
        three.generate(p, toy.feature_CF, noise), torch.stack(alone).mean(0), rtol=1e-5, atol=1e-6
    )


def test_a_standardised_space_does_not_care_where_the_table_lies(toy: Any) -> None:
    """The table moved and made ten times as large gives the same rows, moved and enlarged."""
    part = Diffusion(standardise=True, loss="unweighted", optimiser=Adam(1e-3))
    first = part.begin(8, 6, np.random.default_rng(0))
    shift = torch.arange(8.0)
    noise = torch.from_numpy(_noise(1))
    rows = []
    for table in (toy.warm_WD, 10 * toy.warm_WD + shift):
        p = part.fit(first, table, toy.feature_WF, 1, np.random.default_rng(1))
        rows.append(part.generate(p, toy.feature_CF, noise))
    torch.testing.assert_close(rows[1], 10 * rows[0] + shift, rtol=1e-3, atol=1e-3)
    distribution = part.fit(first, toy.warm_WD, toy.feature_WF, 1, np.random.default_rng(1))
    torch.testing.assert_close(distribution["table.mean"], toy.warm_WD.mean(0))
    spread = (toy.warm_WD - toy.warm_WD.mean(0)).square().mean().sqrt()
    torch.testing.assert_close(distribution["table.deviation"], spread)


def test_a_table_without_spread_is_no_division_by_zero(toy: Any) -> None:
    part = Diffusion(standardise=True)
    p = part.begin(8, 6, np.random.default_rng(0))
    p = part.fit(p, torch.full((20, 8), 3.0), toy.feature_WF[:20], 1, np.random.default_rng(1))
    assert p["table.deviation"].item() == 1.0
    rows = part.generate(p, toy.feature_CF, torch.from_numpy(_noise(1)))
    assert torch.isfinite(rows).all()


LEARNT = {"loss": "unweighted", "optimiser": Adam(1e-2), "batch": 64, "standardise": True}
NOISY = Schedule(kind="cosine")


def test_without_guidance_it_finds_nothing_and_without_attention_it_does(toy: Any) -> None:
    found = toy.explained(toy.rows(Diffusion(schedule=NOISY, guidance=False, **LEARNT), 40))
    assert found < 0.1
    part = Diffusion(schedule=NOISY, fusion="concatenated", **LEARNT)
    assert toy.explained(toy.rows(part, 40)) > 0.8


def test_a_network_that_sees_the_row_needs_a_noisy_schedule(toy: Any) -> None:
    """Rows that are almost clean teach it to copy, and from pure noise it copies noise."""
    clear = toy.rows(Diffusion(mode="residual", **LEARNT), 40)
    noisy = toy.rows(Diffusion(schedule=NOISY, mode="residual", **LEARNT), 40)
    assert toy.explained(noisy) > toy.explained(clear) + 0.15
