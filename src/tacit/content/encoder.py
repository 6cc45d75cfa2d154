"""What an encoder is: content in, one row of numbers per piece of content out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Modality = Literal["text", "image"]
Content = Sequence[str] | Sequence["Image"]  # texts, or RGB pictures


@dataclass(frozen=True)
class About:
    """Everything about an encoder that decides what its numbers are.

    >>> About("ngrams", preprocessing={"case": "folded"}).as_dict()["weights"]
    {}
    """

    encoder: str
    weights: Mapping[str, str] = field(default_factory=dict)  # file name -> SHA-256
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)  # name -> version

    def as_dict(self) -> dict[str, Any]:
        return {
            "encoder": self.encoder,
            "weights": dict(self.weights),
            "preprocessing": dict(self.preprocessing),
            "packages": dict(self.packages),
        }


class Encoder(Protocol):
    """One encoder for one modality; the same content in the same batch gives the same bytes."""

    @property
    def about(self) -> About: ...

    @property
    def width(self) -> int: ...

    def encode(self, content: Any) -> np.ndarray:
        """Float32 rows of length 1, one per text or picture."""
        ...


def unit_rows(value_ND: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; a row of zeros stays.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    length_N1 = np.linalg.norm(value_ND.astype(np.float64), axis=1, keepdims=True)
    return (value_ND / np.where(length_N1 > 0, length_N1, 1.0)).astype(np.float32)
