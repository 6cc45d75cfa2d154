"""Bounded vectors as whole numbers of steps, and whole numbers in a ring.

A secure sum adds integers modulo 2^32 or 2^64. A vector is first scaled down to its bound in the
Euclidean norm, then every entry is divided by the step and rounded toward zero. Rounding toward
zero makes no entry larger, so it never lifts a vector over its bound; rounding to the nearest could
lift the norm by half a step per entry, that is by sqrt(length) / 2 steps. The price is an error of
less than one step in each entry of each contribution, toward zero.

Steps are powers of two. A division by one is exact in floating point, and so is the way back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError, shown

Bits = Literal[32, 64]
Units = NDArray[np.int64]  # whole numbers of steps
Ring = NDArray[np.unsignedinteger[Any]]  # the same, modulo 2^bits

MOST_UNITS = 2.0**52  # above this, floating point no longer holds every whole number
SHRINK = 1.0 - 2.0**-40


@dataclass(frozen=True)
class FixedPoint:
    """Vectors of `length` numbers with Euclidean norm at most `bound`, in steps of size `step`.

    >>> code = FixedPoint(bound=1.0, step=2**-4, length=3)
    >>> code.encode(np.array([0.3, -0.3, 0.0]))
    array([ 4, -4,  0])
    >>> code.decode(code.encode(np.array([3.0, -4.0, 0.0])))  # longer than 1: scaled down first
    array([ 0.5625, -0.75  ,  0.    ])
    """

    bound: float
    step: float
    length: int

    def __post_init__(self) -> None:
        if not 0 < self.bound < math.inf:
            raise TacitError(f"The bound is {shown(self.bound)}; it must be above 0 and finite.")
        if not 0 < self.step < math.inf or math.frexp(self.step)[0] != 0.5:
            raise TacitError(
                f"The step is {shown(self.step)}; it must be a power of two, such as 2**-20."
            )
        if self.length < 1:
            raise TacitError(f"The length is {shown(self.length)}; a vector has at least 1 number.")
        if not 1 <= self.bound / self.step < MOST_UNITS:
            raise TacitError(
                f"The bound {shown(self.bound)} is {self.bound / self.step:.3g} steps; "
                "take a step with which it is between 1 and 2**52."
            )

    @property
    def l2(self) -> float:
        """The largest Euclidean norm of an encoded vector, in steps."""
        return self.bound / self.step

    @property
    def most_squared(self) -> int:
        """The largest sum of squares of an encoded vector: exact, as a whole number."""
        return math.floor(Fraction(self.l2) ** 2)

    @property
    def l1(self) -> float:
        """The largest sum of absolute values of an encoded vector, in steps.

        It is at most sqrt(length) times the Euclidean norm. Entries are whole numbers, each at most
        its own square, so it is also at most the sum of squares.

        >>> FixedPoint(1.0, 2**-3, length=10**6).l1, FixedPoint(1.0, 2**-3, length=4).l1
        (64.0, 16.0)
        """
        return min(math.sqrt(self.length) * self.l2, float(self.most_squared))

    @property
    def largest(self) -> int:
        """The largest absolute value of one encoded entry."""
        return math.floor(self.l2)

    def encode(self, value_N: NDArray[np.floating[Any]]) -> Units:
        """Scale a vector down to its bound if it is longer, and round toward zero."""
        value_N = np.asarray(value_N)
        if value_N.dtype.kind not in "fiu":
            raise TacitError(f"A sum needs vectors of numbers, not of type {value_N.dtype}.")
        value_N = value_N.astype(np.float64, copy=False)
        if value_N.shape != (self.length,):
            raise TacitError(
                f"A vector of shape {value_N.shape} was given to a sum of vectors of shape "
                f"({self.length},); flatten it, or plan the sum for its length."
            )
        peak = float(np.max(np.abs(value_N)))
        if not math.isfinite(peak):
            raise TacitError("A vector has entries that are not finite; a sum needs numbers.")
        if peak == 0.0:
            return np.zeros(self.length, dtype=np.int64)
        relative_N = value_N / peak  # so that huge entries do not overflow when they are squared
        norm = float(np.linalg.norm(relative_N))
        clipped_N = relative_N * (self.bound / norm) if peak * norm > self.bound else value_N
        units_N = np.trunc(clipped_N / self.step)
        while self._is_over(units_N):  # the last bits of the scaling above
            clipped_N = clipped_N * SHRINK
            units_N = np.trunc(clipped_N / self.step)
        return units_N.astype(np.int64)

    def decode(self, units_N: Units) -> NDArray[np.float64]:
        """Whole numbers of steps as values; also of sums, which may be longer than the bound."""
        return units_N.astype(np.float64) * self.step

    def _is_over(self, units_N: NDArray[np.float64]) -> bool:
        """Whether whole numbers are over the bound: exact, and fast where it is not close."""
        squared = float(np.dot(units_N, units_N))
        margin = 1.0 + self.length * 2.0**-50  # more than rounding can be wrong
        if squared * margin <= self.most_squared:
            return False
        return sum(int(unit) ** 2 for unit in units_N[units_N != 0]) > self.most_squared


def ring_bits(reach: float) -> Bits:
    """The ring in which sums with absolute values up to `reach` do not wrap around.

    >>> ring_bits(2.0**31 - 1), ring_bits(2.0**31)
    (32, 64)
    """
    if reach < 2.0**31:
        return 32
    if reach < 2.0**63:
        return 64
    raise TacitError(f"A sum of up to {reach:.3g} steps fits no ring; take a larger step.")


def ring_type(bits: Bits) -> np.dtype[Any]:
    """Numbers of the ring, little-endian as they are sent."""
    return np.dtype("<u4" if bits == 32 else "<u8")


def into_ring(units_N: Units, bits: Bits) -> Ring:
    """Whole numbers modulo 2^bits.

    >>> into_ring(np.array([1, -1]), 32)
    array([         1, 4294967295], dtype=uint32)
    """
    return units_N.astype("<i8").view("<u8").astype(ring_type(bits))


def out_of_ring(ring_N: Ring) -> Units:
    """The whole numbers of smallest absolute value that a ring's numbers stand for.

    >>> out_of_ring(into_ring(np.array([5, -7]), 64))
    array([ 5, -7])
    """
    signed = np.dtype("<i4" if ring_N.dtype.itemsize == 4 else "<i8")
    return ring_N.view(signed).astype(np.int64)
