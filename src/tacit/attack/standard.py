"""Columns with mean zero and variance one, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Standard:
    """Mean and deviation of the rows that an attacker knows; a constant column stays as it is.

    >>> standard = Standard.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> standard.apply(np.array([[4.0, 6.0]])).tolist()
    [[2.0, 1.0]]
    >>> standard.undo(np.array([[2.0, 1.0]])).tolist()
    [[4.0, 6.0]]
    """

    mean_D: np.ndarray
    deviation_D: np.ndarray

    @classmethod
    def of(cls, known_KD: np.ndarray) -> Standard:
        mean_D, deviation_D = known_KD.mean(axis=0), known_KD.std(axis=0)
        # of equal numbers rounding may leave a deviation that is not quite zero
        constant_D = deviation_D <= 1e-12 * np.abs(known_KD).max(axis=0)
        return cls(mean_D, np.where(constant_D, 1.0, deviation_D))

    def apply(self, value_ND: np.ndarray) -> np.ndarray:
        return np.asarray((value_ND - self.mean_D) / self.deviation_D)

    def undo(self, value_ND: np.ndarray) -> np.ndarray:
        return np.asarray(value_ND * self.deviation_D + self.mean_D)
