"""How much noise stands in a row at each step, and what follows from it. Suffix T: steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.errors import TacitError, nearest

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
