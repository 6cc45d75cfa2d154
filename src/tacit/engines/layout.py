"""The sums of an exchange as one vector, for secure sums: both sides lay it out in the same way.

Parameters stand in the order of their names, each flattened row by row. Values are in units of the
bound that a claim estimates, as its noise is. Where uploads have weights of their own, the weight
comes last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tacit.core.algorithm import Algorithm, Exchange
from tacit.core.types import BOUND
from tacit.errors import TacitError


@dataclass(frozen=True)
class VectorLayout:
    """Which parameters a vector holds, in order, with their shapes.

    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> layout = VectorLayout.of(fedmf(dim=2).algorithm(Task(9, 3)), Exchange())
    >>> layout.shapes, layout.length
    ((('items', (3, 2)),), 6)
    >>> vector_N = layout.flat({"items": np.ones((3, 2))}, weight=1.0)
    >>> layout.apart(vector_N)[0]["items"].tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    has_weight: bool = False

    @classmethod
    def of(cls, algorithm: Algorithm, exchange: Exchange) -> VectorLayout:
        """The layout of what clients send in an exchange; `algorithm` is the clients' half."""
        shapes = dict(algorithm.summed(exchange))
        if algorithm.custom is not None:
            names = exchange.parameters
            if names is None:
                names = algorithm.custom.uploads
            shapes = {name: algorithm.shared[name].shape for name in names if name != BOUND}
        if BOUND in algorithm.shared:
            shapes[BOUND] = ()
        return cls(tuple(sorted(shapes.items())), algorithm.tells_examples)

    @property
    def length(self) -> int:
        numbers = sum(math.prod(shape) for _, shape in self.shapes)
        return numbers + (1 if self.has_weight else 0)

    def flat(self, sums: Mapping[str, np.ndarray], weight: float, unit: float = 1.0) -> np.ndarray:
        """One vector in float64; a parameter that is not there counts as zeros."""
        strange = sorted(sums.keys() - dict(self.shapes).keys())
        if strange:
            raise TacitError(f"A vector has no room for the parameter {strange[0]!r}.")
        parts = []
        for name, shape in self.shapes:
            value = np.asarray(sums.get(name, np.zeros(shape)), dtype=np.float64)
            if value.shape != shape:
                raise TacitError(f"The parameter {name!r} has shape {value.shape}, not {shape}.")
            parts.append(value.reshape(-1) / (1.0 if name == BOUND else unit))
        if self.has_weight:
            parts.append(np.array([weight]))
        return np.concatenate(parts)

    def apart(
        self, vector_N: np.ndarray, unit: float = 1.0
    ) -> tuple[dict[str, np.ndarray], float | None]:
        """The sums of a vector and, where it has one, the weight."""
        if vector_N.shape != (self.length,):
            raise TacitError(f"A vector has shape {vector_N.shape}, not ({self.length},).")
        found, begin = {}, 0
        for name, shape in self.shapes:
            end = begin + math.prod(shape)
            found[name] = vector_N[begin:end].reshape(shape) * (1.0 if name == BOUND else unit)
            begin = end
        return found, float(vector_N[-1]) if self.has_weight else None


def bounded_length(algorithm: Algorithm, length: int) -> int:
    """Of how many numbers the bound of a claim speaks, where one upload has `length`: of those of
    all uploads of a run, where it holds for them together as one vector.

    >>> from tacit.core.types import Task
    >>> from tacit.methods import FedEase, FedPop
    >>> from tacit.plugins.private import private
    >>> claims, task = [private(FedEase()), private(FedPop())], Task(9, 3, releases=1)
    >>> [bounded_length(method.algorithm(task), 3) for method in claims]
    [12, 3]
    """
    bound, claim = algorithm.bound, algorithm.protection
    if bound is None or not bound.together or claim is None or claim.clips:
        return length
    assert algorithm.max_rounds is not None
    return sum(
        VectorLayout.of(algorithm, exchange).length
        for number in range(1, algorithm.max_rounds + 1)
        for exchange in algorithm.exchanges(number)
        if exchange.sends
    )
