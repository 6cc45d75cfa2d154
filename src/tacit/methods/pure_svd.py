"""PureSVD (Cremonesi et al., 2010): scores x V Vᵀ from the leading right singular vectors of the
train matrix; a central bar. The width is chosen on validation among `widths`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse.linalg

from tacit import streams
from tacit.data.views import TrainView
from tacit.methods.ease import history_rows, train_matrix
from tacit.methods.entry import METHODS, Entry


@dataclass(frozen=True, eq=False)
class Subspace:
    basis_ID: np.ndarray

    def score(self, histories: list[np.ndarray], key_B: np.ndarray) -> np.ndarray:
        row_BI = history_rows(histories, len(self.basis_ID))
        return (row_BI @ self.basis_ID) @ self.basis_ID.T


@dataclass(frozen=True)
class PureSvd:
    """PureSVD with a grid of widths.

    >>> PureSvd(widths=(8, 16)).settings
    2
    """

    widths: tuple[int, ...] = (4, 8, 16, 32, 64, 128)

    @property
    def settings(self) -> int:
        return len(self.widths)

    def fit(self, train: TrainView, setting: int, seed: int) -> Subspace:
        matrix = train_matrix(train)
        width = min(self.widths[setting], min(matrix.shape) - 1)
        start = streams.numpy_generator(seed, streams.INIT, 0).standard_normal(min(matrix.shape))
        _, _, right_DI = scipy.sparse.linalg.svds(matrix, k=width, v0=start)
        return Subspace(np.ascontiguousarray(right_DI.T))


METHODS["pure_svd"] = Entry(
    build=PureSvd,
    summary="central bar: leading singular vectors of the train matrix",
    rounds=len(PureSvd().widths),
)
