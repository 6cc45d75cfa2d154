"""Values of leaves, drawn by the law that declares them and keyed by whose they are."""

from __future__ import annotations

import numpy as np
import torch

from tacit import streams
from tacit.core.types import Init


def draw_leaf(
    init: Init, seed: int, purpose: int, stream: int, name_U: np.ndarray, dtype: torch.dtype
) -> torch.Tensor:
    """One value for each name, stacked: (U, ...). `stream` tells leaves (and rounds) apart.

    With `same=True` the value belongs to nobody and is the same for every name.

    >>> two = draw_leaf(Init((3,), "normal"), 0, 1, 5, np.array([7, 9], np.uint64), torch.float64)
    >>> one = draw_leaf(Init((3,), "normal"), 0, 1, 5, np.array([9], np.uint64), torch.float64)
    >>> bool((two[1] == one[0]).all())
    True
    """
    shape = (len(name_U), *init.shape)
    if init.law == "zeros":
        return torch.zeros(shape, dtype=dtype)
    drawn_U = np.zeros(1, dtype=np.uint64) if init.same else name_U
    if init.law == "normal":
        value = streams.normals(seed, purpose, stream, drawn_U, init.count) * init.scale
    else:
        unit = streams.uniforms(seed, purpose, stream, drawn_U, init.count)
        value = (2.0 * unit - 1.0) * init.scale
    drawn = torch.from_numpy(value.reshape(len(drawn_U), *init.shape)).to(dtype)
    return drawn.expand(shape).clone() if init.same else drawn
