"""CS_DiffRec by hand: what its network reads, the way back, where items begin, and its size."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.errors import TacitError
from tacit.methods import METHODS
from tacit.methods.content_references import RANKED_ITEMS, network_of
from tacit.methods.cs_diffrec import CsDiffRec, RowDenoiser, interaction_rows
from tacit.parts.diffusion.process import Schedule, drawn_rows

WIDE = torch.float64
COLD = among_cold_items(CLEAN)


def test_the_network_by_hand() -> None:
    """Two people, one number of content: row, step and content stand side by side."""
    denoiser = RowDenoiser(users=2, features=1, hidden=1, content_width=1)
    p = {name: torch.zeros_like(value) for name, value in denoiser.begin(0, WIDE).items()}
    p["time.w"] = torch.eye(10, dtype=WIDE)
    p["content.w"] = torch.tensor([[2.0]], dtype=WIDE)
    hidden = torch.zeros(13, 1, dtype=WIDE)
    hidden[0], hidden[1], hidden[2], hidden[12] = 0.5, -1.0, 0.25, 0.75
    p["hidden.w"] = hidden
    p["out.w"] = torch.tensor([[3.0, -1.0]], dtype=WIDE)
    p["out.b"] = torch.tensor([0.0, 0.5], dtype=WIDE)
    row, content = torch.tensor([[1.0, 0.2]], dtype=WIDE), torch.tensor([[0.4]], dtype=WIDE)
    step = torch.tensor([3.0])
    # the first of the step's ten numbers is its fastest cosine
    state = math.tanh(0.5 * 1.0 - 0.2 + 0.25 * math.cos(3.0) + 0.75 * 2.0 * 0.4)
    found = denoiser.guess(p, row, step, content)
    assert found[0].tolist() == pytest.approx([3 * state, 0.5 - state], abs=1e-12)
    kept = torch.tensor([[0.0, 2.0]], dtype=WIDE)
    dropped = math.tanh(-0.4 + 0.25 * math.cos(3.0) + 0.6)
    assert denoiser.guess(p, row, step, content, kept)[0, 0].item() == pytest.approx(3 * dropped)


def test_scores_are_the_rows_at_the_end_of_the_way_back() -> None:
    """The last hidden layer times the last linear layer is what `drawn_rows` walks to."""
    denoiser, schedule = RowDenoiser(users=4, features=3, hidden=5), Schedule(steps=4)
    p = denoiser.begin(0, WIDE)
    generator = torch.Generator().manual_seed(0)
    begin = torch.randn(6, 4, generator=generator, dtype=WIDE)
    content = torch.randn(6, 3, generator=generator, dtype=WIDE)
    expected = drawn_rows(denoiser, schedule, p, content, begin[:, None])
    state = denoiser.last_states(p, schedule, begin, content)
    assert torch.allclose(state @ p["out.w"] + p["out.b"], expected, rtol=0, atol=1e-12)
    other = denoiser.last_states(p, schedule, begin, -content)
    assert (other - state).abs().max() > 1e-3  # content is read on the way


def test_where_items_begin() -> None:
    train = split_dataset(planted_dataset(), COLD).train
    item_C = np.array([5, 9])
    gaussian, matched = CsDiffRec(), CsDiffRec(start_from="matched")
    found = gaussian.noise(train, item_C, seed=0, draw=0)
    assert found.shape == (2, train.n_users)
    assert found.std().item() == pytest.approx(1.0, abs=0.1)
    size = math.sqrt(1 - gaussian.schedule.abar_T[-1])
    assert size == pytest.approx(0.01)
    assert torch.allclose(matched.noise(train, item_C, 0, 0), size * found)
    alone = gaussian.noise(train, np.array([9]), seed=0, draw=0)
    assert torch.equal(alone[0], found[1])  # whoever else begins with it
    assert not torch.equal(gaussian.noise(train, item_C, 0, draw=1), found)


def test_touched_items_begin_at_their_rows_and_others_at_the_mean_of_their_draws() -> None:
    method = CsDiffRec(hidden=6, draws=2, optimiser=METHODS["cs_diffrec"].method("tuned").optimiser)  # type: ignore[union-attr]
    train = split_dataset(planted_dataset(), COLD).train
    p, _ = method.epoch(method.start(train, 0, WIDE), train, 0, 1)
    network, feature_IF = network_of(p), torch.from_numpy(method.feature_rows(train)).to(WIDE)
    denoiser = RowDenoiser(train.n_users, feature_IF.shape[1], 6, method.content_width)
    warm = int(train.warm_W[7])  # type: ignore[index]
    row = interaction_rows(train.existing())[7:8].to(WIDE)
    expected = denoiser.last_states(network, method.schedule, row, feature_IF[warm : warm + 1])
    assert torch.allclose(p[RANKED_ITEMS][warm, :-1], expected[0], atol=1e-12)
    cold = int(np.setdiff1d(np.arange(train.n_items), train.warm_W)[3])  # type: ignore[arg-type]
    content = feature_IF[cold : cold + 1]
    draws = [
        denoiser.last_states(
            network, method.schedule, method.noise(train, np.array([cold]), 0, draw), content
        )
        for draw in (0, 1)
    ]
    assert torch.allclose(p[RANKED_ITEMS][cold, :-1], (draws[0] + draws[1])[0] / 2, atol=1e-12)
    scores = method.score(p, [], np.array([4]))[0]
    assert scores[warm] == pytest.approx(
        (expected @ network["out.w"] + network["out.b"])[0, 4].item(), abs=1e-12
    )


def test_how_many_numbers_it_learns() -> None:
    method = CsDiffRec(hidden=7, content_width=3)
    train = split_dataset(planted_dataset(), COLD).train
    p = network_of(method.start(train, 0))
    counted = sum(v.numel() for n, v in p.items() if not n.startswith("adam."))
    users = train.n_users
    time, content = 10 * 10 + 10, 3 * 3 + 3
    expected = time + content + (users + 10 + 3 + 1) * 7 + (7 + 1) * users
    assert counted == expected == 4_720
    assert p["adam.first"].shape == (expected,)


def test_settings_of_the_paper() -> None:
    method = METHODS["cs_diffrec"].method("paper")
    assert isinstance(method, CsDiffRec)
    assert (method.hidden, method.batch, method.dropout, method.loss) == (
        1000,
        400,
        0.5,
        "weighted",
    )
    assert method.optimiser.rate == 5e-5
    schedule = method.schedule
    assert (schedule.steps, schedule.scale, schedule.low, schedule.high) == (5, 0.01, 0.001, 0.01)
    assert schedule.beta_T[0] == pytest.approx(1e-5)  # what released code sets it to by hand
    assert schedule.weight_T[1] == pytest.approx(1 / 1e-5 - 1 / 3.25e-5)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TacitError, match="draws is 0; it must be at least 1"):
        CsDiffRec(draws=0)
    with pytest.raises(TacitError, match=r"dropout is 1\.0; it must be at least 0 and below 1"):
        replace(CsDiffRec(), dropout=1.0)
