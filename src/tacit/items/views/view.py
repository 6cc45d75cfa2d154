"""What a view is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from tacit.core.types import Init, Params


def xavier(*shape: int) -> Init:
    """A matrix at the scale that keeps variances in both directions (Glorot, normal).

    >>> xavier(2, 6).scale
    0.5
    """
    return Init(shape, "normal", (2 / (shape[0] + shape[1])) ** 0.5)


@runtime_checkable
class View(Protocol):
    """One operator F_j: from the inputs of an item (id, text, image, …), each (N, D), to (N, D).

    It works item by item, so that the server can make a view of the whole catalogue.
    """

    @property
    def name(self) -> str:
        """Its leaves are called view.NAME.…"""
        ...

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]: ...
    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor: ...
