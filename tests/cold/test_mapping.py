"""IFedRec's map: one step against torch, and its bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tacit.parts.cold.mapping import Mapping


def test_a_round_is_one_full_batch_step_of_adam(toy: Any) -> None:
    mapping = Mapping()
    p = mapping.begin(8, 6, np.random.default_rng(0))
    assert p["out.w"].abs().max() <= 6**-0.5
    layer = torch.nn.Linear(6, 8)
    with torch.no_grad():
        layer.weight.copy_(p["out.w"].T)
        layer.bias.copy_(p["out.b"])
    adam = torch.optim.Adam(layer.parameters(), 5e-3)
    for number in (1, 2, 3):  # the moments last from round to round
        p = mapping.fit(p, toy.warm_WD, toy.feature_WF, number, np.random.default_rng(1))
        adam.zero_grad()
        rows = torch.tanh(layer(toy.feature_WF))
        torch.nn.functional.mse_loss(rows, toy.warm_WD).backward()
        adam.step()
    torch.testing.assert_close(p["out.w"], layer.weight.detach().T)
    torch.testing.assert_close(p["out.b"], layer.bias.detach())


def test_steps_of_a_round_follow_one_another(toy: Any) -> None:
    p = Mapping().begin(8, 6, np.random.default_rng(0))
    generator = np.random.default_rng(1)
    twice = Mapping(steps=2).fit(p, toy.warm_WD, toy.feature_WF, 1, generator)
    for _ in range(2):
        p = Mapping().fit(p, toy.warm_WD, toy.feature_WF, 1, generator)
    assert all(torch.equal(twice[name], p[name]) for name in p)


def test_only_a_bounded_map_is_bounded() -> None:
    feature, noise = torch.full((1, 6), 100.0), torch.zeros(1, 0, 8)
    p = Mapping().begin(8, 6, np.random.default_rng(0))
    assert Mapping().generate(p, feature, noise).abs().max() <= 1
    assert Mapping(bounded=False).generate(p, feature, noise).abs().max() > 10
