"""The slope of CoFedRec's contrast by the rows of one table.

With z the rows on the unit sphere, E the exponentials of (z·z' − 1) / τ off the diagonal, and c one
over (its row's sum · τ) for items that have a positive, the slope by z is (E ∘ (c + c')) z less
twice the mean of an item's positives over τ. E is symmetric, so only strips above the diagonal are
made, and each is used for its rows and for its columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.engines.kernels.exponential import exp_in_place
from tacit.engines.kernels.linear_cpu import _FAST

_STRIP = 64  # rows of a strip


class Contrast(NamedTuple):
    """The items of a round's contrast, and room for it."""

    item_S: np.ndarray
    label_S: np.ndarray  # clusters from 0; where there is none, the one after the last
    positives_S: np.ndarray  # one over how many others are in the cluster; 0 where nobody is
    unit_SD: np.ndarray
    norm_S: np.ndarray
    slope_SD: np.ndarray
    sum_KD: np.ndarray
    total_S: np.ndarray
    strips: np.ndarray  # E, strip after strip
    products: np.ndarray  # of one strip with the rows

    @classmethod
    def of(cls, item_S: np.ndarray, label_S: np.ndarray, width: int, dtype: np.dtype) -> Contrast:
        """`label_S` counts clusters from 1; 0 is no cluster.

        >>> labels = np.array([2, 1, 2, 0, 2])
        >>> Contrast.of(np.arange(5), labels, 4, np.dtype(np.float64)).positives_S.tolist()
        [0.5, 0.0, 0.5, 0.0, 0.5]
        """
        size, none = len(item_S), int(label_S.max(initial=0))
        others_S = np.bincount(label_S, minlength=none + 1)[label_S] - 1
        has_S = (label_S > 0) & (others_S > 0)
        strips = sum(min(_STRIP, size - low) * (size - low) for low in range(0, size, _STRIP))
        return cls(
            item_S,
            np.where(label_S > 0, label_S - 1, none),
            (has_S / np.maximum(others_S, 1)).astype(dtype),
            np.empty((size, width), dtype),
            np.empty(size, dtype),
            np.empty((size, width), dtype),
            np.empty((none + 1, width), dtype),
            np.empty(size, dtype),
            np.empty(strips, dtype),
            np.empty(size * width, dtype),
        )


@compiled(fastmath=_FAST, error_model="numpy")
def contrast_slope(table, contrast, inverse, tiny, least, exponential):  # type: ignore[no-untyped-def]
    """The slope of the sum over items by the rows of `table`, left in `contrast.slope_SD`.

    `inverse` is 1 / τ; sums are at least `tiny`, and norms at least `least`.
    """
    unit, slope, total = contrast.unit_SD, contrast.slope_SD, contrast.total_S
    size, width = unit.shape
    zero = tiny - tiny
    one = inverse / inverse
    for s in range(size):
        row, square = table[contrast.item_S[s]], zero
        for d in range(width):
            square += row[d] * row[d]
        contrast.norm_S[s] = max(np.sqrt(square), least)
        for d in range(width):
            unit[s, d] = row[d] / contrast.norm_S[s]
    total[:] = zero
    at = 0
    for low in range(0, size, _STRIP):
        rows, columns = min(_STRIP, size - low), size - low
        flat = contrast.strips[at : at + rows * columns]
        strip = flat.reshape(rows, columns)
        np.dot(unit[low : low + rows], unit[low:].T, strip)
        exp_in_place(flat, one, inverse, exponential)
        for s in range(rows):
            strip[s, s] = zero  # an anchor does not meet itself
            row, summed, beyond = strip[s], zero, total[low:]
            for j in range(columns):
                summed += row[j]
            for j in range(rows, columns):
                beyond[j] += row[j]
            total[low + s] += summed
        at += rows * columns
    for s in range(size):
        has = one if contrast.positives_S[s] > zero else zero
        total[s] = has * inverse / max(total[s], tiny)  # from here on c
    _positives(contrast, inverse)
    at = 0
    for low in range(0, size, _STRIP):
        rows, columns = min(_STRIP, size - low), size - low
        strip = contrast.strips[at : at + rows * columns].reshape(rows, columns)
        for s in range(rows):
            row, here, there = strip[s], total[low + s], total[low:]
            for j in range(columns):
                row[j] *= here + there[j]
            for j in range(rows):  # it is used from both sides
                row[j] *= one / (one + one)
        part = contrast.products[: rows * width].reshape(rows, width)
        np.dot(strip, unit[low:], part)
        for s in range(rows):
            for d in range(width):
                slope[low + s, d] += part[s, d]
        part = contrast.products[: columns * width].reshape(columns, width)
        np.dot(strip.T, unit[low : low + rows], part)
        for s in range(columns):
            for d in range(width):
                slope[low + s, d] += part[s, d]
        at += rows * columns
    for s in range(size):  # from the sphere to the rows
        along = zero
        for d in range(width):
            along += unit[s, d] * slope[s, d]
        for d in range(width):
            slope[s, d] = (slope[s, d] - along * unit[s, d]) / contrast.norm_S[s]


@compiled(fastmath=_FAST, error_model="numpy")
def _positives(contrast, inverse):  # type: ignore[no-untyped-def]
    """slope = −2 / τ · the mean of each item's positives."""
    unit, sums = contrast.unit_SD, contrast.sum_KD
    size, width = unit.shape
    sums[:] = inverse - inverse
    for s in range(size):
        for d in range(width):
            sums[contrast.label_S[s], d] += unit[s, d]
    for s in range(size):
        factor = -(inverse + inverse) * contrast.positives_S[s]
        for d in range(width):
            contrast.slope_SD[s, d] = factor * (sums[contrast.label_S[s], d] - unit[s, d])
