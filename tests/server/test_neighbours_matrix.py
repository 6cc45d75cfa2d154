"""The two ways of summing over neighbours agree, for every width and number of layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.parts import graph


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("wide", [1, 5, 64])
def test_it_is_the_compiled_sum(wide: int, layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "_WIDE_ON_DEVICE", wide)  # with a last part that is smaller
    generator = torch.Generator().manual_seed(wide)
    table = torch.randn(11, 24, generator=generator, dtype=torch.float64)
    start = torch.randn(24, generator=generator, dtype=torch.float64)
    users = torch.tensor([7, 0, 5, 2, 8, 10, 3])
    linked = torch.rand(7, 7, generator=generator) < 0.4
    linked.fill_diagonal_(True)
    expected = graph.products(table.numpy(), users.numpy())
    assert np.allclose(graph.products_on_device(table, users), expected, rtol=0, atol=1e-12)
    guide, other = torch.full_like(table, 4.0), torch.full_like(table, 4.0)
    mean = graph.mean_changes_on_device(linked, users, table, start, layers, guide)
    same = graph.mean_changes(
        linked.numpy(), users.numpy(), table.numpy(), start.numpy(), layers, other.numpy()
    )
    assert np.allclose(mean, same, rtol=0, atol=1e-12)
    assert torch.allclose(guide, other, rtol=0, atol=1e-12)
    assert (guide[[1, 4, 6, 9]] == 4.0).all()  # nobody else's
