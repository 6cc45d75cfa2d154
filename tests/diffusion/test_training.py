"""What training sees, and that the weights of the loss are the schedule's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.core.optim import Sgd
from tacit.parts.diffusion.denoiser import Denoiser
from tacit.parts.diffusion.process import Noised, Schedule, loss_of, noised, trained


def test_rows_are_as_noisy_as_the_schedule_says() -> None:
    schedule = Schedule(steps=2, kind="cosine")
    clean = torch.full((4000, 8), 3.0)
    batch = noised(schedule, clean, torch.zeros(4000, 1), 0.25, np.random.default_rng(0))
    assert set(batch.step_N.tolist()) == {0, 1}
    assert batch.keep_ND.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert batch.keep_ND.mean().item() == pytest.approx(1.0, abs=0.02)
    for step in (0, 1):
        rows = batch.noisy_ND[batch.step_N == step].double()
        assert rows.mean().item() == pytest.approx(3 * schedule.abar_T[step] ** 0.5, abs=0.05)
        assert rows.var().item() == pytest.approx(1 - schedule.abar_T[step], rel=0.05)


def test_the_loss_by_hand() -> None:
    """A network that always says 0 errs by the mean square of the row."""
    denoiser, schedule = Denoiser(4, 2), Schedule()
    p = denoiser.init(np.random.default_rng(0))
    p |= {"tower3.w": torch.zeros(2, 4), "tower3.b": torch.zeros(4)}
    clean = torch.tensor([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 0.0, 0.0]])
    batch = Noised(clean, torch.zeros(2, 2), torch.tensor([0, 9]), clean, torch.ones(2, 4))
    assert loss_of(denoiser, schedule, p, batch, weighted=False).item() == 1.5
    weighted = (1.0 * 1 + 2.0 * schedule.weight_T[9]) / 2
    loss = loss_of(denoiser, schedule, p, batch, weighted=True).item()
    assert loss == pytest.approx(weighted, rel=1e-5)


def test_a_pass_sees_every_row_once() -> None:
    """With plain descent and a tower cut off, each batch moves the last bias by its mean row."""
    denoiser = Denoiser(4, 2)
    p = denoiser.init(np.random.default_rng(0))
    p |= {"tower3.w": torch.zeros(2, 4), "tower2.w": torch.zeros(4, 2)}  # tanh(0) feeds the last
    rows = torch.arange(10.0)[:, None].repeat(1, 4)
    after = trained(
        denoiser,
        Schedule(),
        Sgd(),
        p,
        rows,
        torch.zeros(10, 2),
        rate=1e-4,
        weighted=False,
        batch=5,
        generator=np.random.default_rng(1),
    )
    # gradient of mean_N mean_D (b - x)^2 in b is 2/4 (b - mean x): two batches, b near 0
    moved = 1e-4 * 2 / 4 * rows.mean() * 2
    torch.testing.assert_close(after["tower3.b"], moved.repeat(4), rtol=1e-3, atol=0.0)
