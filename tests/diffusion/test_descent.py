"""One step of named parameters is torch's own step, and the memory travels with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tacit.core.optim import Adam, Optimiser, Sgd
from tacit.core.types import Params
from tacit.parts.diffusion.denoiser import Descent, with_memory


def _loss(p: Params) -> Tensor:
    return ((p["w"] @ torch.tensor([1.0, -2.0]) + p["b"]) ** 2).sum()


@pytest.mark.parametrize("optimiser", [Sgd(0.01, weight_decay=0.1), Adam(0.01)])
def test_steps_are_torchs_own(optimiser: Optimiser, tmp_path: Path) -> None:
    first = {"w": torch.tensor([[1.0, 2.0], [3.0, -1.0]]), "b": torch.tensor(0.5)}
    mine = with_memory(optimiser, first)
    theirs = {name: parameter.clone().requires_grad_() for name, parameter in first.items()}
    if isinstance(optimiser, Sgd):
        rule: torch.optim.Optimizer = torch.optim.SGD(theirs.values(), 0.01, weight_decay=0.1)
    else:
        rule = torch.optim.Adam(theirs.values(), 0.01)
    for _ in range(5):
        descent = Descent(optimiser, mine)
        descent.step(_loss, 0.01)
        save_file(descent.whole, tmp_path / "leaves")
        mine = load_file(tmp_path / "leaves")  # which may come back in another order
        rule.zero_grad()
        _loss(theirs).backward()
        rule.step()
    for name, parameter in theirs.items():
        torch.testing.assert_close(mine[name], parameter.detach())


def test_a_step_changes_nothing_that_went_in_and_ignores_outer_settings() -> None:
    first = with_memory(Adam(), {"w": torch.ones(2, 2), "b": torch.tensor(0.5)})
    copy = {name: parameter.clone() for name, parameter in first.items()}
    descent = Descent(Adam(), first)
    with torch.no_grad():
        descent.step(_loss, 0.1)
    after = descent.whole
    assert all(torch.equal(first[name], copy[name]) for name in copy)
    assert not torch.equal(after["w"], first["w"])
    assert not any(parameter.requires_grad for parameter in after.values())


def test_steps_in_a_row_are_those_of_one_after_another() -> None:
    """Also where the parameters were looked at between them, or taken away and brought back."""
    alone = together = with_memory(Adam(), {"w": torch.ones(2, 2), "b": torch.tensor(0.5)})
    descent = Descent(Adam(), together)
    for number in range(3):
        descent.step(_loss, 0.1 / (1 + number))
        once = Descent(Adam(), alone)
        once.step(_loss, 0.1 / (1 + number))
        alone = once.whole
        assert all(torch.equal(alone[name], value) for name, value in descent.parameters.items())
    assert sorted(descent.parameters) == ["b", "w"]
    assert all(torch.equal(value, alone[name]) for name, value in descent.whole.items())
