"""One input, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from tacit.core.types import Init, Params


@dataclass(frozen=True)
class SingleView:
    """The projected input `modality` alone: the router's weight is then the weight of a modality.

    >>> SingleView("text").name
    'single_text'
    """

    modality: str = "id"

    @property
    def name(self) -> str:
        return f"single_{self.modality}"

    def shared(self, width: int, inputs: tuple[str, ...]) -> dict[str, Init]:
        return {}

    def view(self, p: Params, x: Mapping[str, Tensor]) -> Tensor:
        return x[self.modality]
