"""CoFedRec: a contrast draws the rows of a personal table together, for linear scorers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import OWN_ITEMS
from tacit.engines.accelerators.blocks import Block, plain_block, unwritten
from tacit.engines.accelerators.claims import Claim, LinearParameters
from tacit.engines.accelerators.logistic import FAST, add_loss, dot, slope_of
from tacit.parts.contrast import LABEL, NORM_FLOOR, SAMPLE, GroupKept
from tacit.parts.local import Alternate
from tacit.parts.objectives import BinaryCrossEntropy

_STRIP = 64  # rows of a strip


def claims(algorithm: ComposedAlgorithm) -> Claim[DrawnTogether]:
    """The kernel that descends for a block of clients.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import cofedrec
    >>> claims(compose(cofedrec(dim=4), Task(2, 3))).name
    'contrast'
    """
    method, plain = algorithm.method, plain_block(algorithm)
    if plain.kernel is None:
        return Claim(None, plain.reason)
    parameters = LinearParameters.of(method.backbone)
    known = (
        type(method.local) is Alternate and parameters is not None and parameters.bias is not None
    )
    if not known or parameters is None or type(method.sync) is not GroupKept:
        return Claim(None, unwritten(algorithm))
    return Claim(DrawnTogether(parameters, method.sync, plain.kernel.loss))


@dataclass(frozen=True)
class DrawnTogether:
    """A claimed method, whose blocks descend."""

    parameters: LinearParameters
    sync: GroupKept
    loss: BinaryCrossEntropy
    name: ClassVar[str] = "contrast"

    def descend(self, block: Block) -> float:
        """Train the block in place; returns the sum of its losses."""
        own_UID, label_I = block.tables[OWN_ITEMS].numpy(), block.shared[LABEL].numpy()
        label_I = label_I.astype(np.int64)
        item_S = np.arange(len(label_I))
        if SAMPLE in block.shared:
            item_S = block.shared[SAMPLE].numpy().astype(np.int64)
        loss: float = contrast_descent(
            block.drawn,
            block.user_B,
            own_UID,
            self.parameters.scorer(block.p),
            block.rates,
            Contrast.of(self.sync, item_S, label_I[item_S], own_UID.shape[2], block.kind),
            block.logistic(self.loss),
        )
        return loss


@compiled(fastmath=FAST, error_model="numpy")
def contrast_descent(drawn, user_B, own_UID, scorer, rates, contrast, loss):  # type: ignore[no-untyped-def]
    """Trains in place, the scorer and then the rows of each batch; returns the sum of losses."""
    row_TSBW, label_TSBW, samples_B = drawn.row_TSBW, drawn.label_TSBW, drawn.samples_B
    vector_BD, bias_B = scorer.vector_UD, scorer.bias_U
    model_rate, item_rate, has_contrast = rates.model, rates.items, contrast.has_positives
    epochs, _, clients, batch = row_TSBW.shape
    zero = loss.zero
    width = vector_BD.shape[1]
    gradient = np.empty(width, vector_BD.dtype)
    slope = np.empty(batch, vector_BD.dtype)
    loss_sum = 0.0
    for b in range(clients):
        own, vector = own_UID[user_B[b]], vector_BD[b]
        for epoch in range(epochs):
            for step in range(-(-samples_B[b] // batch)):
                size = min(batch, samples_B[b] - step * batch)
                where = row_TSBW[epoch, step, b, :size]
                labels = label_TSBW[epoch, step, b, :size]
                share = drawn.weight_SBW[step, b, 0]
                gradient[:] = zero
                bias_gradient, product = zero, 1.0
                for t in range(size):
                    row, label = own[where[t]], labels[t]
                    logit = dot(row, vector, width) + bias_B[b]
                    decay = np.exp(-logit)
                    loss_sum, product = add_loss(loss_sum, product, logit, label, decay, t)
                    part = slope_of(decay, label, loss) * share
                    bias_gradient += part
                    for d in range(width):
                        gradient[d] += part * row[d]
                loss_sum += np.log(product)
                for d in range(width):
                    vector[d] -= model_rate * gradient[d]
                bias_B[b] -= model_rate * bias_gradient
                for t in range(size):
                    decay = np.exp(-(dot(own[where[t]], vector, width) + bias_B[b]))
                    slope[t] = slope_of(decay, labels[t], loss) * share
                if has_contrast:  # of the rows as they are: before anything moves them
                    contrast_slope(own, contrast)
                for t in range(size):
                    row, way = own[where[t]], item_rate * slope[t]
                    for d in range(width):
                        row[d] -= way * vector[d]
                if has_contrast:
                    for s in range(len(contrast.item_S)):
                        row, moved = own[contrast.item_S[s]], contrast.slope_SD[s]
                        for d in range(width):
                            row[d] -= item_rate * (contrast.weight * moved[d])
    return loss_sum


# exp over an array, in place, as passes of plain arithmetic that the compiler makes wide.
#
# exp(x) = 2^n · exp(r) with |r| at most ln 2 / 2: n comes from adding a number so large that only
# whole numbers are left beside it, exp(r) from its series, 2^n from the bits of a float.

_CHUNK = 256  # numbers at a time: all passes stay in the first cache
_SINGLE, _DOUBLE = 8, 14  # terms of the series that either precision takes


class Exponential(NamedTuple):
    """Room for one chunk, and the numbers of one kind of float."""

    shifted: np.ndarray
    shifted_bits: np.ndarray  # the same memory as whole numbers
    power: np.ndarray
    power_bits: np.ndarray
    rest: np.ndarray
    series: np.ndarray  # of exp, the last term first
    constants: np.ndarray  # the large number, 1 / ln 2, ln 2 in two parts, where exp is 0
    mantissa: int  # bits of it
    bias: int  # of the exponent

    @classmethod
    def of(cls, dtype: np.dtype) -> Exponential:
        """For float32 or float64, to a few units in the last place.

        >>> value = np.array([0.0, -1.0, -1e4], dtype=np.float32)
        >>> exp_in_place(value, np.float32(0), np.float32(1), Exponential.of(value.dtype))
        >>> value.round(4).tolist()
        [1.0, 0.367900013923645, 0.0]
        """
        single = dtype == np.float32
        mantissa, bias, terms = (23, 127, _SINGLE) if single else (52, 1023, _DOUBLE)
        whole = np.int32 if single else np.int64
        high = 0.693359375 if single else 0.693147180369123816490  # few bits: n · high is exact
        low = -2.1219444005469057e-4 if single else 1.90821492927058770002e-10
        limits = [1.5 * 2.0**mantissa, 1 / math.log(2), high, low, -87.0 if single else -708.0]
        shifted, power = np.empty(_CHUNK, dtype), np.empty(_CHUNK, dtype)
        return cls(
            shifted,
            shifted.view(whole),
            power,
            power.view(whole),
            np.empty(_CHUNK, dtype),
            np.array([1 / math.factorial(k) for k in range(terms - 1, -1, -1)], dtype),
            np.array(limits, dtype),
            mantissa,
            bias,
        )


# Products and sums may be one operation; nothing else may be moved, or the large number is lost.
@compiled(fastmath={"contract"}, error_model="numpy")
def exp_in_place(value, offset, factor, room):  # type: ignore[no-untyped-def]
    """value = exp((value − offset) · factor), where the exponent is at most 0; what would be
    denormal is 0."""
    c = room.series
    large, inverse, high = room.constants[0], room.constants[1], room.constants[2]
    low, least, zero = room.constants[3], room.constants[4], c[0] - c[0]
    single = len(c) == _SINGLE
    for begin in range(0, len(value), _CHUNK):
        x = value[begin : begin + _CHUNK]
        n = len(x)
        shifted, power, rest = room.shifted[:n], room.power[:n], room.rest[:n]
        shifted_bits, power_bits = room.shifted_bits[:n], room.power_bits[:n]
        for i in range(n):
            x[i] = (x[i] - offset) * factor
            shifted[i] = max(x[i], least) * inverse + large
        for i in range(n):
            power_bits[i] = (shifted_bits[i] << room.mantissa) + (room.bias << room.mantissa)
        for i in range(n):
            whole = shifted[i] - large
            r = (max(x[i], least) - whole * high) - whole * low
            rest[i] = r
            e = (((c[0] * r + c[1]) * r + c[2]) * r + c[3]) * r + c[4]
            shifted[i] = ((e * r + c[5]) * r + c[6]) * r + c[7]
        if not single:
            for i in range(n):
                r = rest[i]
                e = ((shifted[i] * r + c[8]) * r + c[9]) * r + c[10]
                shifted[i] = ((e * r + c[11]) * r + c[12]) * r + c[13]
        for i in range(n):
            x[i] = shifted[i] * power[i] if x[i] >= least else zero


# The slope of the contrast.


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
    has_positives: bool  # any of them
    weight: np.floating  # of the sum over items in the loss
    inverse: np.floating  # 1 / τ
    tiny: np.floating  # sums are at least this
    least: np.floating  # and norms at least this
    exponential: Exponential

    @classmethod
    def of(
        cls, rule: GroupKept, item_S: np.ndarray, label_S: np.ndarray, width: int, dtype: np.dtype
    ) -> Contrast:
        """`label_S` counts clusters from 1; 0 is no cluster.

        >>> labels, wide = np.array([2, 1, 2, 0, 2]), np.dtype(np.float64)
        >>> Contrast.of(GroupKept(), np.arange(5), labels, 4, wide).positives_S.tolist()
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
            bool(has_S.any()),
            dtype.type(rule.factor / size),
            dtype.type(1 / rule.temperature),
            np.finfo(dtype).tiny,
            dtype.type(NORM_FLOOR),
            Exponential.of(dtype),
        )


@compiled(fastmath=FAST, error_model="numpy")
def contrast_slope(table, contrast):  # type: ignore[no-untyped-def]
    """The slope of the sum over items by the rows of `table`, left in `contrast.slope_SD`.

    With z the rows on the unit sphere, E the exponentials of (z·z' − 1) / τ off the diagonal, and c
    one over (its row's sum · τ) for items that have a positive, the slope by z is (E ∘ (c + c')) z
    less twice the mean of an item's positives over τ. E is symmetric, so only strips above the
    diagonal are made, and each is used for its rows and for its columns.
    """
    inverse, tiny, least = contrast.inverse, contrast.tiny, contrast.least
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
        exp_in_place(flat, one, inverse, contrast.exponential)
        for s in range(rows):
            strip[s, s] = zero  # an anchor is not contrasted with itself
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


@compiled(fastmath=FAST, error_model="numpy")
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
