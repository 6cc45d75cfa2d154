"""The way back: pure, dependent on its noise, and as the posterior says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.parts.diffusion.denoiser import Denoiser
from tacit.parts.diffusion.process import Schedule, drawn_rows, noise_rows

DENOISER = Denoiser(8, 3)


def noise(seed: int, rows: int = 1) -> Tensor:
    drawn = np.random.default_rng(seed).normal(size=(6, rows, 8))
    return torch.from_numpy(drawn.astype(np.float32))


def parameters() -> Params:
    return DENOISER.init(np.random.default_rng(0))


def constant(value: float) -> Params:
    """A network that guesses the same number everywhere."""
    return parameters() | {"tower3.w": torch.zeros(4, 8), "tower3.b": torch.full((8,), value)}


def test_the_same_noise_gives_the_same_rows_and_other_noise_others() -> None:
    feature = torch.ones(6, 3)
    one = drawn_rows(DENOISER, Schedule(), parameters(), feature, noise(1))
    assert torch.equal(one, drawn_rows(DENOISER, Schedule(), parameters(), feature, noise(1)))
    other = drawn_rows(DENOISER, Schedule(), parameters(), feature, noise(2))
    assert (one - other).abs().max() > 1e-3


def test_the_last_step_returns_the_guess() -> None:
    for schedule in (Schedule(), Schedule(1), Schedule(kind="cosine"), Schedule(1, kind="cosine")):
        rows = drawn_rows(DENOISER, schedule, constant(2.5), torch.ones(6, 3), noise(1))
        torch.testing.assert_close(rows, torch.full((6, 8), 2.5))


def test_one_step_is_the_network_itself() -> None:
    feature, start = torch.ones(6, 3), noise(1)
    guess = DENOISER.guess(parameters(), start[:, 0], torch.zeros(6), feature)
    rows = drawn_rows(DENOISER, Schedule(), parameters(), feature, start, steps=1)
    torch.testing.assert_close(rows, guess)


def test_a_matched_start_has_the_noise_of_the_last_step() -> None:
    feature, start = torch.ones(6, 3), noise(1)
    matched = drawn_rows(DENOISER, Schedule(), parameters(), feature, start, start="matched")
    by_hand = drawn_rows(DENOISER, Schedule(), parameters(), feature, start * 0.002**0.5)
    torch.testing.assert_close(matched, by_hand)


def test_reverse_noise_moves_rows_by_so_much() -> None:
    """Two steps, by hand: the guess g is constant, so only the middle row carries noise, and the
    last step forgets it; the noise shows through the network alone."""
    schedule = Schedule(steps=3, kind="cosine")
    assert noise_rows(schedule, reverse_noise=True) == 3
    rows = noise(1, rows=3)
    seen: list[Tensor] = []

    class Watched(Denoiser):
        def guess(self, p: Params, noisy_ND: Tensor, *rest: object) -> Tensor:  # type: ignore[override]
            seen.append(noisy_ND)
            return torch.full_like(noisy_ND, 2.0)

    last = drawn_rows(Watched(8, 3), schedule, {}, torch.ones(6, 3), rows, reverse_noise=True)
    torch.testing.assert_close(last, torch.full((6, 8), 2.0))
    clean, noisy = schedule.posterior_clean_T, schedule.posterior_noisy_T
    spread = schedule.posterior_variance_T**0.5
    torch.testing.assert_close(seen[0], rows[:, 0])
    torch.testing.assert_close(
        seen[1], 2.0 * clean[2] + noisy[2] * rows[:, 0] + spread[2] * rows[:, 2]
    )
    torch.testing.assert_close(
        seen[2], 2.0 * clean[1] + noisy[1] * seen[1] + spread[1] * rows[:, 1]
    )


@pytest.mark.parametrize("steps", [0, 11])
def test_steps_beyond_the_schedule_are_refused(steps: int) -> None:
    with pytest.raises(TacitError, match="the schedule has 1 to 10"):
        drawn_rows(DENOISER, Schedule(), parameters(), torch.ones(6, 3), noise(1), steps=steps)
