"""A generator's leaves, brought to where its numbers are."""

from __future__ import annotations

from torch import Tensor

from tacit.core.types import Params


def like(p: Params, value: Tensor) -> Params:
    """The leaves in the precision and on the device of a table or of features.

    >>> import torch
    >>> like({"w": torch.zeros(2)}, torch.zeros(1, dtype=torch.float64))["w"].dtype
    torch.float64
    """
    return {name: leaf.to(value) for name, leaf in p.items()}
