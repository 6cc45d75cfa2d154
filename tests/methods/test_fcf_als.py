"""FCF's least squares against numbers by hand and against the gradient of its objective."""

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData
from tacit.core.optim import Adam
from tacit.data.views import Lists
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.methods import FcfAls
from tacit.methods.fcf_als import ragged_pull, ragged_vectors


def client(history: list[int], real: list[float]) -> ClientData:
    nothing = torch.zeros(0)
    return ClientData(
        torch.tensor(0),
        torch.tensor(history),
        torch.tensor(real, dtype=torch.float64),
        nothing.long(),
        nothing,
        nothing,
    )


def test_one_dimension_by_hand() -> None:
    """Items 1 and 2, the first one liked; α = 3, λ = 1: x = 4·1 / (4·1 + 1·4 + 1) = 4/9."""
    method = FcfAls(dim=1, confidence=3.0, ridge=1.0)
    item_ID = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    data = client([0], [1.0])
    x = 4 / 9
    assert method.solve(item_ID, data).tolist() == pytest.approx([x])
    _, upload = method.update({"items": item_ID}, {}, data, 1)
    assert upload["items"][:, 0].tolist() == pytest.approx([4 * (1 - x) * x, (0 - 2 * x) * x])
    assert method.score({"items": item_ID}, {}, data).tolist() == pytest.approx([x, 2 * x])


def objective(item_ID: torch.Tensor, user_D: torch.Tensor, method: FcfAls) -> torch.Tensor:
    has_I = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    weighted = (1 + method.confidence * has_I) * (has_I - item_ID @ user_D) ** 2
    return weighted.sum() + method.ridge * (user_D.square().sum() + item_ID.square().sum())


def test_the_solution_is_the_minimum_and_the_upload_its_slope() -> None:
    method = FcfAls(dim=3, confidence=2.0, ridge=0.5)
    generator = torch.Generator().manual_seed(0)
    item_ID = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    data = client([0, 2, 0], [1.0, 1.0, 0.0])  # the last entry is padding
    user_D = method.solve(item_ID, data)
    slope_D = torch.func.grad(lambda x: objective(item_ID, x, method))(user_D)
    assert slope_D.abs().max() < 1e-12
    _, upload = method.update({"items": item_ID}, {}, data, 1)
    slope_ID = torch.func.grad(lambda y: objective(y, user_D, method))(item_ID)
    assert torch.allclose(-2 * upload["items"] + 2 * method.ridge * item_ID, slope_ID)


def test_an_item_taken_twice_is_wanted_once_and_weighs_more() -> None:
    """Item 1 twice, α = 3, λ = 1: c = 7 and p = 1, so x = 7·1 / (7·1 + 1·4 + 1) = 7/12."""
    method = FcfAls(dim=1, confidence=3.0, ridge=1.0)
    item_ID = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    x = 7 / 12
    pulls = [7 * (1 - x) * x, (0 - 2 * x) * x]
    data = client([0, 0], [1.0, 1.0])
    assert method.solve(item_ID, data).tolist() == pytest.approx([x])
    _, upload = method.update({"items": item_ID}, {}, data, 1)
    assert upload["items"][:, 0].tolist() == pytest.approx(pulls)
    history = Lists(np.array([0, 2, 3]), np.array([0, 0, 0]))
    user_PD = ragged_vectors(item_ID, history, confidence=3.0, ridge=1.0)
    assert user_PD[:, 0].tolist() == pytest.approx([x, 4 / 9])
    twice = history.take(np.array([0, 0]))
    pull_ID = ragged_pull(item_ID, user_PD[[0, 0]], twice, confidence=3.0)
    assert pull_ID[:, 0].tolist() == pytest.approx([2 * pull for pull in pulls])


def test_the_first_server_step_is_one_rate_downhill() -> None:
    """Adam's first step is the rate times the sign of the gradient, whatever its size."""
    method = FcfAls(dim=1, ridge=1.0, server=Adam(rate=0.1))
    zeros = torch.zeros((2, 1), dtype=torch.float64)
    shared = {
        "items": torch.tensor([[1.0], [1.0]], dtype=torch.float64),
        "moments.first": zeros,
        "moments.second": zeros,
        "moments.steps": torch.zeros((), dtype=torch.float64),
    }
    total = {"items": torch.tensor([[5.0], [-5.0]], dtype=torch.float64)}
    stepped = method.step(shared, total, 3, 1)
    assert stepped["items"][:, 0].tolist() == pytest.approx([1.1, 0.9])
    assert stepped["moments.first"][:, 0].tolist() == pytest.approx([-0.8, 1.2])
    assert stepped["moments.steps"].item() == 1


def test_moments_stay_on_the_server() -> None:
    shared = {"items": torch.zeros(2, 1), "moments.first": torch.zeros(2, 1)}
    assert set(FcfAls(dim=1).broadcast(shared, torch.tensor(0))) == {"items"}


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TacitError, match="ridge 0"):
        resolve("fcf_als", sets=["ridge=0.0"])
    with pytest.raises(TacitError, match="dim is 0"):
        resolve("fcf_als", sets=["dim=0"])
