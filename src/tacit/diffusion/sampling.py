"""The way back: from noise to rows. Suffixes: C items, N rows of noise for each, D width."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tacit.core.types import Params
from tacit.diffusion.denoiser import Denoiser
from tacit.diffusion.schedule import Schedule
from tacit.errors import TacitError


def noise_rows(schedule: Schedule, reverse_noise: bool) -> int:
    """How many rows of noise one draw of one item takes: the start, and a row for each step back
    but the last, which has no noise.

    >>> noise_rows(Schedule(), reverse_noise=False), noise_rows(Schedule(), reverse_noise=True)
    (1, 10)
    """
    return schedule.steps if reverse_noise else 1


def drawn_rows(
    denoiser: Denoiser,
    schedule: Schedule,
    p: Params,
    feature_CF: Tensor,
    noise_CND: Tensor,
    *,
    start: Literal["gaussian", "matched"] = "gaussian",
    reverse_noise: bool = False,
    steps: int | None = None,
) -> Tensor:
    """One row (C, D) for each item, from its noise.

    `start="gaussian"` begins at standard noise, as released; `matched` at noise of the size that
    training saw there. `steps` walks the last so many steps only. Row 0 of the noise is the start.

    >>> import numpy as np
    >>> denoiser = Denoiser(width=8, feature_width=3)
    >>> p = denoiser.init(np.random.default_rng(0))
    >>> drawn_rows(denoiser, Schedule(), p, torch.zeros(5, 3), torch.zeros(5, 1, 8)).shape
    torch.Size([5, 8])
    """
    steps = schedule.steps if steps is None else steps
    if not 1 <= steps <= schedule.steps:
        raise TacitError(
            f"A draw of {steps} steps was asked for; the schedule has 1 to {schedule.steps}."
        )
    row_CD = noise_CND[:, 0]
    if start == "matched":
        row_CD = row_CD * float(1 - schedule.abar_T[steps - 1]) ** 0.5
    clean_T, noisy_T = schedule.posterior_clean_T, schedule.posterior_noisy_T
    spread_T = schedule.posterior_variance_T**0.5
    with torch.no_grad():
        for step in range(steps - 1, -1, -1):
            step_C = torch.full((len(row_CD),), step, device=row_CD.device)
            guess_CD = denoiser.guess(p, row_CD, step_C, feature_CF)
            row_CD = float(clean_T[step]) * guess_CD + float(noisy_T[step]) * row_CD
            if reverse_noise and step > 0:
                row_CD = row_CD + float(spread_T[step]) * noise_CND[:, step]
    return row_CD
