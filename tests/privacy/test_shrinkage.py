"""Estimates from noisy sums, against numbers by other means and draws of their own model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from tacit.privacy.shrinkage import (
    groups_by_count,
    shrunken_pairs,
    spike_and_slab,
    symmetric,
    without_negative_directions,
)


def test_posterior_means_are_those_of_the_model() -> None:
    """Many draws of a spike (80 %) and a slab of variance 9, with noise of 1.5: the estimate of p
    and v is near, and so are the posterior means under the true ones."""
    generator = np.random.default_rng(0)
    true = np.where(generator.random(200_000) < 0.2, 3.0 * generator.standard_normal(200_000), 0.0)
    seen = true + 1.5 * generator.standard_normal(len(true))
    found = spike_and_slab(torch.from_numpy(seen), 1.5).numpy()
    slab = 0.2 * norm.pdf(seen, scale=np.sqrt(9 + 2.25))
    weight = slab / (slab + 0.8 * norm.pdf(seen, scale=1.5))
    exact = weight * seen * 9 / (9 + 2.25)
    assert np.abs(found - exact).max() < 0.25
    errors = [((estimate - true) ** 2).mean() for estimate in (found, exact, seen, 0 * seen)]
    assert errors[0] < 1.01 * errors[1]
    assert errors[0] < min(errors[2:]) / 1.5


def test_noise_alone_is_taken_for_next_to_nothing() -> None:
    generator = torch.Generator().manual_seed(1)
    seen = torch.randn(300, 300, generator=generator, dtype=torch.float64)
    assert float(spike_and_slab(seen, 1.0).square().mean()) < 0.01


def test_pairs_are_drawn_to_the_product_of_counts() -> None:
    """Pairs that are such products stay as they are, but for their noise."""
    generator = torch.Generator().manual_seed(2)
    count_I = torch.linspace(1, 12, 80, dtype=torch.float64)
    true_II = (0.3 * count_I[:, None] * count_I).fill_diagonal_(0.0)
    noise_II = torch.randn(80, 80, generator=generator, dtype=torch.float64)
    noisy_II = (true_II + 5 * symmetric(noise_II) * 2**0.5).fill_diagonal_(0.0)
    found_II = shrunken_pairs(noisy_II, 5.0, count_I)
    error, before = ((one - true_II).square().mean() for one in (found_II, noisy_II))
    assert error < before / 5
    assert torch.equal(found_II.diagonal(), torch.zeros(80, dtype=torch.float64))
    assert torch.allclose(found_II, found_II.T)


def test_groups_hold_every_item_once() -> None:
    count_I = torch.rand(333, generator=torch.Generator().manual_seed(0))
    groups = groups_by_count(count_I)
    assert sorted(torch.cat(groups).tolist()) == list(range(333))
    means = [float(count_I[group].mean()) for group in groups]
    assert means == sorted(means, reverse=True)


def test_the_nearest_positive_table_by_hand() -> None:
    """Eigenvalues 3 and -1: the second goes."""
    found = without_negative_directions(torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64))
    assert found.tolist() == [pytest.approx([1.5, 1.5]), pytest.approx([1.5, 1.5])]
