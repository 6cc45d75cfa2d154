"""Steps of the rows that a batch reads."""

import numpy as np
import pytest
import torch

from tacit.central.rows import StepRule, step_rows, with_row_state
from tacit.core.optim import Adam, Sgd


def test_adam_agrees_with_torch_where_every_batch_reads_every_row() -> None:
    generator = np.random.default_rng(0)
    start = torch.from_numpy(generator.normal(size=(3, 5)))
    theirs = start.clone().requires_grad_()
    torch_adam = torch.optim.Adam([theirs], lr=0.01, weight_decay=0.1)
    adam = Adam(rate=0.01, weight_decay=0.1)
    parameters = with_row_state({"items": start.clone()}, adam)
    row_N = np.array([2, 0, 1, 0])
    for _ in range(5):
        gradient_ND = generator.normal(size=(4, 5))
        step_rows(parameters, "items", row_N, gradient_ND, StepRule.of(adam, 0.01, np.float64))
        theirs.grad = torch.zeros(3, 5, dtype=torch.float64)
        theirs.grad.index_add_(0, torch.from_numpy(row_N), torch.from_numpy(gradient_ND))
        torch_adam.step()
    assert torch.allclose(parameters["items"], theirs.detach(), rtol=0, atol=1e-14)


def test_rows_that_nobody_reads_stand_still_with_their_moments() -> None:
    adam = Adam(rate=0.1)
    parameters = with_row_state({"items": torch.ones(2, 1)}, adam)
    step_rule, one = StepRule.of(adam, 0.1, np.float32), np.ones((1, 1), np.float32)
    step_rows(parameters, "items", np.array([0]), one, step_rule)
    step_rows(parameters, "items", np.array([0]), one, step_rule)
    assert parameters["items/steps"].tolist() == [2, 0]
    assert parameters["items"][1].item() == 1.0
    assert parameters["items/second"][1].item() == 0.0
    # its first read is a first step, however late it comes
    step_rows(parameters, "items", np.array([1]), one, step_rule)
    assert parameters["items"][1].item() == pytest.approx(0.9, abs=1e-6)


def test_decay_of_plain_descent_by_hand() -> None:
    parameters = {"items": torch.tensor([[2.0], [3.0]])}
    step_rule = StepRule.of(Sgd(weight_decay=0.5), 0.1, np.float32)
    step_rows(parameters, "items", np.array([0, 0]), np.ones((2, 1), np.float32), step_rule)
    # 2 - 0.1 * (1 + 1 + 0.5 * 2)
    assert parameters["items"].flatten().tolist() == pytest.approx([1.7, 3.0])
