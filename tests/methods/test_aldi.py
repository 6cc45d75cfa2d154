"""ALDI by hand: its three distillations, the weights of items, and its size."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.types import Params
from tacit.data.views import Lists, TrainView
from tacit.errors import TacitError
from tacit.methods import METHODS
from tacit.methods.aldi import Aldi, Batch, distilled, distinctness, sureness
from tacit.methods.central_trained import Mf

WIDE = torch.float64


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def cross_entropy(logit: float, target: float) -> float:
    said = sigmoid(logit)
    return -target * math.log(said) - (1 - target) * math.log(1 - said)


def test_a_distillation_is_a_weighed_cross_entropy_with_soft_targets() -> None:
    logits, teachers, weights = ([0.5, -2.0], [1.0, 0.3], [1.0, 0.25])
    expected = np.mean(
        [
            weight * cross_entropy(logit, sigmoid(teacher))
            for logit, teacher, weight in zip(logits, teachers, weights, strict=True)
        ]
    )
    found = distilled(*(torch.tensor(one, dtype=WIDE) for one in (logits, teachers, weights)))
    assert found.item() == pytest.approx(expected, abs=1e-12)


def test_distinctness_by_hand() -> None:
    rows = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=WIDE)
    others = torch.tensor([[1.0, 0.0], [3.0, -2.0]], dtype=WIDE)
    assert distinctness(rows, others).tolist() == [5 - (1 - 1) / 2, 1 - (0 - 2) / 2]


def test_weights_grow_with_how_surely_an_item_is_known() -> None:
    """Two people: one has items 0 and 1, the other item 0 alone; nobody has item 2."""
    lists = Lists(np.array([0, 2, 3]), np.array([0, 1, 0]))
    train = TrainView(3, lists, np.arange(2, dtype=np.uint64), Lists.empty(2))
    steep = 4 * 3 / 2
    expected = [math.tanh(4), min(math.tanh(steep / 2), math.tanh(4)), 0.0]
    assert sureness(train).tolist() == pytest.approx(expected, abs=1e-12)
    assert expected[1] == math.tanh(3) < math.tanh(4) < math.tanh(1.5 * steep)


def teaching(student_is_teacher: bool) -> tuple[Aldi, Params, Params, Batch]:
    """One wide. Students say 10 tanh(x / 10 / sqrt(1 + 1e-3)), which is nearly x, or half of it."""
    method = Aldi(factors=Mf(1), hidden=1, decay=0.0)
    p = method.begin(1, 0, WIDE)
    scale = math.sqrt(1 + 1e-3)  # undoes the norm
    for tower in ("user", "item"):
        p[f"{tower}.first.w"] = torch.full((1, 1), 1e-4 * scale, dtype=WIDE)
        out = 1e4 if student_is_teacher else 0.5e4
        p[f"{tower}.last.w"] = torch.full((1, 1), out, dtype=WIDE)
    statistics = {n: v for n, v in p.items() if n.endswith((".mean", ".variance"))}
    moving = {n: v for n, v in p.items() if n not in statistics and not n.startswith("adam.")}
    values = ([1.0, 2.0], [0.5, -1.0], [0.2, 1.5])
    user, item, negative = (torch.tensor(one, dtype=WIDE)[:, None] for one in values)
    batch = Batch(user, item, negative, item, negative, torch.tensor([1.0, 0.5], dtype=WIDE))
    return method, moving, statistics, batch


def test_the_loss_by_hand() -> None:
    """Students that say half of the factors: their scores are a quarter of the teacher's."""
    method, p, statistics, batch = teaching(student_is_teacher=False)
    users, items, negatives, weights = [1.0, 2.0], [0.5, -1.0], [0.2, 1.5], [1.0, 0.5]
    middle = sum(negatives) / 2
    chosen, ranking, identification, rating = 0.0, 0.0, 0.0, 0.0
    for u, i, j, weight in zip(users, items, negatives, weights, strict=True):
        known, known_negative = u * i, u * j
        said, said_negative = known / 4, known_negative / 4
        chosen += math.log1p(math.exp(-(said - said_negative))) / 2
        target = sigmoid(known - known_negative)
        ranking += weight * cross_entropy(said - said_negative, target) / 2
        own = i * i - i * middle
        identification += weight * cross_entropy(own / 4, sigmoid(own)) / 2
        rating += (abs(known - said) + abs(known_negative - said_negative)) / 2
    expected = chosen + 0.9 * ranking + 0.05 * identification + 0.1 * rating
    found = method.loss(p, statistics, batch, None)
    assert found.item() == pytest.approx(expected, abs=1e-6)
    for name, part in (("alpha", ranking), ("beta", identification), ("gamma", rating)):
        without = replace(method, **{name: 0.0}).loss(p, statistics, batch, None)
        weight = getattr(method, name)
        assert (found - without).item() == pytest.approx(weight * part, abs=1e-6), name
    heavy = replace(method, decay=0.5).loss(p, statistics, batch, None)
    squares = 2 * (0.5e4**2 + (1e-4**2) * (1 + 1e-3))
    assert (heavy - found).item() == pytest.approx(0.5 * squares / 2, rel=1e-9)


def test_a_student_that_is_its_teacher_has_no_distance_in_ratings() -> None:
    method, p, statistics, batch = teaching(student_is_teacher=True)
    full = method.loss(p, statistics, batch, None)
    without = replace(method, gamma=0.0).loss(p, statistics, batch, None)
    assert (full - without).item() == pytest.approx(0.0, abs=1e-6)


def test_how_many_numbers_it_learns() -> None:
    width, content, hidden = 6, 5, 4
    p = Aldi(factors=Mf(width), hidden=hidden).begin(content, 0, torch.float32)
    counted = {
        name: value.numel()
        for name, value in p.items()
        if not name.endswith((".mean", ".variance")) and not name.startswith("adam.")
    }
    towers = [(inputs + 1) * hidden + 2 * hidden + (hidden + 1) * width for inputs in (6, 5)]
    assert sum(counted.values()) == sum(towers) == 128
    assert p["adam.first"].shape == (128,)


def test_settings_of_the_paper() -> None:
    method = METHODS["aldi"].method("paper")
    assert isinstance(method, Aldi)
    assert (method.alpha, method.beta, method.gamma, method.decay) == (0.9, 0.05, 0.1, 1e-4)
    assert (method.batch, method.hidden, method.width, method.weighted) == (1024, 200, 200, False)
    narrow = METHODS["aldi"].method("narrow")
    assert isinstance(narrow, Aldi)
    assert narrow.width == 64


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TacitError, match=r"gamma is -1\.0; it must not be below 0"):
        Aldi(gamma=-1.0)
    with pytest.raises(TacitError, match="hidden is 0; it must be at least 1"):
        Aldi(hidden=0)
