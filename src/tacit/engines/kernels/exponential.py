"""exp over an array, in place, as passes of plain arithmetic that the compiler makes wide.

exp(x) = 2^n · exp(r) with |r| at most ln 2 / 2: n comes from adding a number so large that only
whole numbers are left beside it, exp(r) from its series, 2^n from the bits of a float.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled

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
