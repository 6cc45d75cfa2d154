"""A denoising diffusion over rows: noise schedule, training, and the way back from noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit.core.optim import Optimiser
from tacit.core.types import Params
from tacit.errors import TacitError, nearest
from tacit.parts.diffusion.denoiser import Descent, Guesses

# How much noise stands in a row at each step, and what follows from it. Suffix T: steps.

_KINDS = ("linear_variance", "cosine")
_LARGEST_BETA = 0.999  # a step that erased everything could not be undone
_COSINE_OFFSET = 0.008  # Nichol and Dhariwal: keeps the first step from being too small


@dataclass(frozen=True)
class Schedule:
    """Noise that grows over `steps`; entry 0 of an array belongs to the cleanest step.

    `linear_variance` is DiffRec's: the noise variance goes from scale * low to scale * high in
    equal parts. At the defaults it ends at 0.002, so a row is never truly noisy. `cosine` ends in
    almost pure noise, and reads neither scale nor low nor high.

    >>> Schedule().snr_T[[0, 9]].round().tolist()
    [99999.0, 499.0]
    """

    steps: int = 10
    scale: float = 0.1
    low: float = 1e-4
    high: float = 0.02
    kind: Literal["linear_variance", "cosine"] = "linear_variance"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise TacitError(f"schedule.steps is {self.steps}; it must be at least 1.")
        if self.kind not in _KINDS:
            ending = nearest(self.kind, _KINDS)
            raise TacitError(f"schedule.kind is {self.kind!r}; {ending}")
        if not self.scale > 0:
            raise TacitError(f"schedule.scale is {self.scale}; it must be above 0.")
        if not 0 < self.low < self.high:
            raise TacitError(
                f"schedule.low is {self.low} and schedule.high is {self.high}; low must be above 0 "
                "and below high."
            )
        if not self.scale * self.high < 1:
            raise TacitError(
                f"schedule.scale * schedule.high is {self.scale * self.high:g}; it is a share of "
                "noise, so it must be below 1."
            )

    @property
    def beta_T(self) -> np.ndarray:
        """The variance of the noise that a step adds.

        >>> Schedule(steps=1).beta_T.round(7).tolist()
        [1e-05]
        """
        if self.kind == "cosine":
            part_T = np.arange(self.steps + 1) / self.steps
            angle_T = (part_T + _COSINE_OFFSET) / (1 + _COSINE_OFFSET) * np.pi / 2
            kept_T = np.cos(angle_T) ** 2
        else:
            noise_T = self.scale * np.linspace(self.low, self.high, self.steps)
            kept_T = np.concatenate([[1.0], 1.0 - noise_T])
        return np.minimum(1.0 - kept_T[1:] / kept_T[:-1], _LARGEST_BETA)

    @property
    def abar_T(self) -> np.ndarray:
        """The share of the clean row's variance that is left after a step.

        >>> (1 - Schedule().abar_T[-1]).round(6).item()
        0.002
        """
        return np.cumprod(1.0 - self.beta_T)

    @property
    def snr_T(self) -> np.ndarray:
        """Signal over noise, as variances.

        >>> bool((np.diff(Schedule(kind="cosine").snr_T) < 0).all())
        True
        """
        return self.abar_T / (1.0 - self.abar_T)

    @property
    def weight_T(self) -> np.ndarray:
        """The weight of a step in the variational loss: how much signal-to-noise it costs, and 1
        at the first.

        >>> Schedule().weight_T[:3].round().tolist()
        [1.0, 95673.0, 2116.0]
        """
        return np.concatenate([[1.0], -np.diff(self.snr_T)])

    @property
    def posterior_clean_T(self) -> np.ndarray:
        """What the guess of the clean row weighs in the mean of the row one step before.

        >>> Schedule().posterior_clean_T[[0, 9]].round(3).tolist()
        [1.0, 0.111]
        """
        return np.sqrt(self._abar_before_T) * self.beta_T / (1.0 - self.abar_T)

    @property
    def posterior_noisy_T(self) -> np.ndarray:
        """What the noisy row itself weighs in that mean.

        >>> Schedule().posterior_noisy_T[[0, 9]].round(3).tolist()
        [0.0, 0.889]
        """
        left_T = np.sqrt(1.0 - self.beta_T)
        return left_T * (1.0 - self._abar_before_T) / (1.0 - self.abar_T)

    @property
    def posterior_variance_T(self) -> np.ndarray:
        """How far the row one step before spreads around that mean.

        >>> bool(Schedule().posterior_variance_T.max() < 2e-4)
        True
        """
        return self.beta_T * (1.0 - self._abar_before_T) / (1.0 - self.abar_T)

    @property
    def _abar_before_T(self) -> np.ndarray:
        return np.concatenate([[1.0], self.abar_T[:-1]])


# The way back: from noise to rows. Suffixes: C items, N rows of noise for each, D width.


def noise_rows(schedule: Schedule, reverse_noise: bool) -> int:
    """How many rows of noise one draw of one item takes: the start, and a row for each step back
    but the last, which has no noise.

    >>> noise_rows(Schedule(), reverse_noise=False), noise_rows(Schedule(), reverse_noise=True)
    (1, 10)
    """
    return schedule.steps if reverse_noise else 1


def drawn_rows(
    denoiser: Guesses,
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
    >>> from tacit.parts.diffusion.denoiser import Denoiser
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


# How a denoiser learns: rows are made noisy, and it guesses what they were.


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
    kept_ND = torch.from_numpy(generator.random(clean_ND.shape, dtype=np.float32) >= dropout)
    abar_N1 = torch.from_numpy(schedule.abar_T[step_N]).to(clean_ND)[:, None]
    noisy_ND = abar_N1.sqrt() * clean_ND + (1 - abar_N1).sqrt() * torch.from_numpy(noise_ND).to(
        clean_ND
    )
    step = torch.from_numpy(step_N).to(clean_ND.device)
    keep_ND = kept_ND.to(clean_ND.device).to(clean_ND.dtype) * (1 / (1 - dropout))
    return Noised(clean_ND, feature_NF, step, noisy_ND, keep_ND)


def loss_of(
    denoiser: Guesses, schedule: Schedule, p: Params, batch: Noised, weighted: bool
) -> Tensor:
    """The mean squared error of the guesses; weighted, each row counts by the step it stands at.

    >>> from tacit.parts.diffusion.denoiser import Denoiser
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
    denoiser: Guesses,
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
    """The parameters after one pass over the rows, in shuffled batches.

    >>> from tacit.core.optim import Sgd
    >>> from tacit.parts.diffusion.denoiser import Denoiser
    >>> denoiser, generator = Denoiser(width=4, feature_width=2), np.random.default_rng(0)
    >>> p, rows = denoiser.init(generator), torch.ones(9, 4)
    >>> after = trained(denoiser, Schedule(), Sgd(), p, rows, torch.ones(9, 2),
    ...                 rate=0.1, weighted=False, batch=4, generator=generator)
    >>> bool((after["time.w"] != p["time.w"]).any())
    True
    """
    order_N = torch.from_numpy(generator.permutation(len(row_ND))).to(row_ND.device)
    descent = Descent(optimiser, p)
    for chosen in order_N.split(batch):
        drawn = noised(schedule, row_ND[chosen], feature_NF[chosen], denoiser.dropout, generator)

        def loss(parameters: Params, drawn: Noised = drawn) -> Tensor:
            return loss_of(denoiser, schedule, parameters, drawn, weighted)

        descent.step(loss, rate)
    return descent.whole
