"""Where a claim would end without a word: uploads that are no numbers, more rounds than planned,
channels that come to nothing, generators beside a claim, and a seed that others know."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from tacit.core.protection import row_factor
from tacit.core.types import ITEMS, OWN_ITEMS, Params
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.parts.channel import Clip
from tacit.testing.synthetic import ragged

TARGET = 4


@cache
def histories() -> TrainView:
    return split_dataset(ragged(n_users=9, n_items=24), CLEAN).train


def trainer_of(name: str, *plugins: str, **more: Any) -> Trainer:
    given = {"rounds": 2, "sets": ["precision=float64"], **more}
    return Trainer(resolve(name, plugins=plugins, **given), histories())


# Uploads that are no numbers.


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("asked", ["private:clip=0.1", "private:clip=0.1,quantile=0.5"])
@pytest.mark.parametrize(
    ("name", "plugins", "private", "engine"),
    [
        ("fedmf", (), "user", "auto"),
        ("fedmf", (), "user", "cohort"),
        ("fedmf", (), "user", "loop"),
        ("fedncf", (), "user", "auto"),
        ("fedncf", (), "user", "cohort"),
        ("fedmf", ("fedrkg:every=1",), OWN_ITEMS, "auto"),
        ("fedmf", ("fedrkg:every=1",), OWN_ITEMS, "loop"),
        ("feddae", (), "local.w1", "auto"),
        ("feddae", (), "local.w1", "loop"),
    ],
)
def test_an_upload_that_is_no_number_is_nothing(
    name: str, plugins: tuple[str, ...], private: str, engine: str, asked: str, value: float
) -> None:
    """A device whose training overflows would else be seen in the sum through any noise."""
    sent: list[Params] = []
    for target in (value, None):
        trainer = trainer_of(name, *plugins, asked, engine=engine)
        if target is not None:
            trainer.state.private[private][TARGET] = target
        trainer.run_round()
        sent.append(trainer.state.shared)
    broken, sound = sent
    for parameter, table in broken.items():
        assert torch.isfinite(table).all(), parameter
    assert any(not torch.equal(broken[parameter], sound[parameter]) for parameter in broken)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_lost_upload_that_is_no_number_is_nothing(value: float) -> None:
    """Its weight is 0, and 0 times no number is no number."""
    for engine in ("auto", "cohort", "loop"):
        trainer = trainer_of("fedmf", "private:clip=0.1", engine=engine)
        trainer.state.private["user"][TARGET] = value
        drawn = trainer.participants(1)
        lost = replace(drawn, reports_P=drawn.user_P != TARGET)
        trainer.engine.round(trainer.algorithm, trainer.train, trainer.state, lost, 0)
        assert torch.isfinite(trainer.state.shared[ITEMS]).all(), engine


def test_rows_that_are_no_numbers_are_nothing() -> None:
    rows = {"items": torch.tensor([[1.0], [float("nan")]])}
    known = (rows, {"items"}, torch.tensor([0, 1]), torch.ones(2), 3)
    assert row_factor((Clip(1.0),), *known).item() == 0.0
