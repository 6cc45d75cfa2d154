"""How a denoiser learns: rows are made noisy, and it guesses what they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.core.optim import Optimiser
from tacit.core.types import Params
from tacit.diffusion.denoiser import Denoiser
from tacit.diffusion.descent import descended
from tacit.diffusion.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Noised:
    """Rows of one batch, the step that each was taken to, and how it looks there."""

    clean_ND: Tensor
    feature_NF: Tensor
    step_N: Tensor
    noisy_ND: Tensor
    keep_ND: Tensor


def noised(
    schedule: Schedule,
    clean_ND: Tensor,
    feature_NF: Tensor,
    dropout: float,
    generator: np.random.Generator,
) -> Noised:
    """A batch with drawn steps, noise and dropout.

    >>> generator = np.random.default_rng(0)
    >>> batch = noised(Schedule(), torch.ones(3, 4), torch.ones(3, 2), 0.0, generator)
    >>> bool((batch.noisy_ND - 1).abs().max() < 0.2), batch.keep_ND.unique().tolist()
    (True, [1.0])
    """
    count = len(clean_ND)
    step_N = generator.integers(schedule.steps, size=count)
    noise_ND = generator.standard_normal(clean_ND.shape, dtype=np.float32)
    keep_ND = (generator.random(clean_ND.shape, dtype=np.float32) >= dropout) / (1 - dropout)
    abar_N1 = torch.from_numpy(schedule.abar_T[step_N]).to(clean_ND)[:, None]
    noisy_ND = abar_N1.sqrt() * clean_ND + (1 - abar_N1).sqrt() * torch.from_numpy(noise_ND).to(
        clean_ND
    )
    step = torch.from_numpy(step_N).to(clean_ND.device)
    return Noised(clean_ND, feature_NF, step, noisy_ND, torch.from_numpy(keep_ND).to(clean_ND))


def loss_of(
    denoiser: Denoiser, schedule: Schedule, p: Params, batch: Noised, weighted: bool
) -> Tensor:
    """The mean squared error of the guesses; weighted, each row counts by the step it stands at.

    >>> denoiser = Denoiser(width=4, feature_width=2)
    >>> p = denoiser.init(np.random.default_rng(0))
    >>> p |= {"tower3.w": torch.zeros(2, 4), "tower3.b": torch.zeros(4)}
    >>> rows, generator = torch.full((5, 4), 2.0), np.random.default_rng(0)
    >>> batch = noised(Schedule(), rows, torch.ones(5, 2), 0.1, generator)
    >>> loss_of(denoiser, Schedule(), p, batch, weighted=False).item()
    4.0
    """
    guess_ND = denoiser.guess(p, batch.noisy_ND, batch.step_N, batch.feature_NF, batch.keep_ND)
    error_N = ((guess_ND - batch.clean_ND) ** 2).mean(dim=1)
    if weighted:
        error_N = error_N * torch.from_numpy(schedule.weight_T).to(error_N)[batch.step_N]
    return error_N.mean()


def trained(
    denoiser: Denoiser,
    schedule: Schedule,
    optimiser: Optimiser,
    p: Params,
    row_ND: Tensor,
    feature_NF: Tensor,
    *,
    rate: float,
    weighted: bool,
    batch: int,
    generator: np.random.Generator,
) -> Params:
    """The leaves after one pass over the rows, in shuffled batches.

    >>> from tacit.core.optim import Sgd
    >>> denoiser, generator = Denoiser(width=4, feature_width=2), np.random.default_rng(0)
    >>> p, rows = denoiser.init(generator), torch.ones(9, 4)
    >>> after = trained(denoiser, Schedule(), Sgd(), p, rows, torch.ones(9, 2),
    ...                 rate=0.1, weighted=False, batch=4, generator=generator)
    >>> bool((after["time.w"] != p["time.w"]).any())
    True
    """
    order_N = torch.from_numpy(generator.permutation(len(row_ND))).to(row_ND.device)
    for chosen in order_N.split(batch):
        drawn = noised(schedule, row_ND[chosen], feature_NF[chosen], denoiser.dropout, generator)

        def loss(leaves: Params, drawn: Noised = drawn) -> Tensor:
            return loss_of(denoiser, schedule, leaves, drawn, weighted)

        p = descended(optimiser, p, loss, rate)
    return p
