"""No row is zeros, whatever was learnt."""

from __future__ import annotations

from typing import Any

import torch

from tacit.parts.cold.simple import NoRow


def test_zeros(toy: Any) -> None:
    assert torch.equal(toy.rows(NoRow(), fits=2), torch.zeros(100, 8))
