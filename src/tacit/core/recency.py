"""How much less an item of a history counts the longer ago it was touched.

A device applies these weights to its own history when it ranks or trains. They cost no byte, and
nobody else learns anything from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tacit.core.registry import register
from tacit.errors import TacitError, shown


@register("recency")
@dataclass(frozen=True)
class Recency:
    """Weights that halve with every `half_life` items that came later; the latest item has 1.

    Distance is counted in items, not in seconds: it is known wherever there is an order.

    >>> Recency(half_life=2.0).of_ages(np.array([0, 2, 4])).tolist()
    [1.0, 0.5, 0.25]
    """

    half_life: float = 4.0

    def __post_init__(self) -> None:
        if not self.half_life > 0:
            raise TacitError(
                f"half_life is {shown(self.half_life)}; it is a number of items above 0."
            )

    def of_ages(self, age_H: np.ndarray) -> np.ndarray:
        """The weight of items after which `age_H` others came."""
        weight_H: np.ndarray = np.exp2(-np.asarray(age_H, dtype=np.float64) / self.half_life)
        return weight_H

    def of_history(self, length: int) -> np.ndarray:
        """The weights of a history of so many items, the earliest first.

        >>> Recency(half_life=1.0).of_history(3).tolist()
        [0.25, 0.5, 1.0]
        """
        return self.of_ages(np.arange(length)[::-1])

    def of_order(self, order_H: Tensor, real_H: Tensor) -> Tensor:
        """The same from positions in time, 0 the earliest; padding, where `real_H` is 0, has 0.

        >>> import torch
        >>> order_H, real_H = torch.tensor([1, 0, 0]), torch.tensor([1.0, 1.0, 0.0])
        >>> Recency(half_life=1.0).of_order(order_H, real_H).tolist()
        [1.0, 0.5, 0.0]
        """
        age_H = real_H.sum() - 1 - order_H
        return (-age_H / self.half_life).exp2() * real_H
