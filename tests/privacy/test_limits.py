"""Where a claim would end without a word: uploads that are no numbers, more rounds than planned,
channels that come to nothing, generators beside a claim, and a seed that others know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tacit.core.parts import Transform
from tacit.core.protection import row_factor
from tacit.core.types import ITEMS, OWN_ITEMS, Params, Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.round import with_noise
from tacit.errors import TacitError
from tacit.experiment.claims import assumptions
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.parts.channel import Clip, Dense
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


# Claims that would come to nothing.


@dataclass(frozen=True)
class Louder(Transform):
    """A link that makes uploads larger, and says nothing of bounds."""

    @property
    def order(self) -> int:
        return 2

    def factor(self, norm: torch.Tensor) -> torch.Tensor:
        return torch.full_like(norm, 100.0)


def test_a_claim_that_promises_nothing_is_refused() -> None:
    """What was asked for would else run, without a guarantee and without a word."""
    claimed = resolve("fedmf", plugins=["private"])
    method = replace(claimed.method, channel=(Dense(), Clip(0.5), Louder()))  # type: ignore[type-var]
    with pytest.raises(TacitError, match="nothing can"):
        Trainer(replace(claimed, method=method), histories())
    after = replace(claimed.method, channel=(Dense(), Louder(), Clip(0.5)))  # type: ignore[type-var]
    assert Trainer(replace(claimed, method=after), histories()).guarantee() is not None


def test_no_round_is_played_beyond_those_that_noise_was_made_for() -> None:
    trainer = trainer_of("fedmf", "private", rounds=2)
    for _ in range(2):
        trainer.run_round()
    found = trainer.guarantee()
    assert found is not None
    assert found.releases == 2
    with pytest.raises(TacitError, match="made for 2 rounds"):
        trainer.run_round()
    free = trainer_of("fedmf", rounds=2)
    for _ in range(3):
        free.run_round()
    assert free.state.round_number == 3


@pytest.mark.parametrize("generator", ["ridge", "nearest", "mdifffr", "ifedrec:strength=0.1"])
def test_links_by_hand_promise_nothing_beside_a_generator(generator: str) -> None:
    """Without a claim it learns from items that somebody has touched, which no noise covers."""
    by_hand = ("clip", "gaussian:sigma=4")
    task = Task(9, 24)
    alone = resolve("fedmf", plugins=by_hand).method.algorithm(task)
    assert alone.guarantee(1) is not None
    beside = resolve("fedmf", plugins=[generator, *by_hand]).method.algorithm(task)
    assert beside.guarantee(1) is None
    claimed = resolve("fedmf", plugins=[generator, "private"]).method
    assert claimed.algorithm(replace(task, releases=1)).guarantee(1) is not None


# A seed that others know.


def released(train: TrainView, seed: int, epsilon: float = 0.5) -> tuple[Trainer, np.ndarray]:
    """A run of one round, and the noisy sum as an outsider works it out from two tables."""
    asked = f"private:epsilon={epsilon},clip=0.1"
    experiment = resolve("fedmf", plugins=[asked], rounds=1, seed=seed, sets=["precision=float64"])
    trainer = Trainer(experiment, train)
    first_ID = trainer.state.shared[ITEMS].clone()
    trainer.run_round()
    return trainer, (trainer.state.shared[ITEMS] - first_ID).numpy() * train.n_users


def test_who_knows_the_seed_takes_the_noise_off() -> None:
    trainer, noisy_ID = released(histories(), seed=5)
    _, quiet_ID = released(histories(), seed=5, epsilon=1e8)
    noises = [
        with_noise(trainer.algorithm, ITEMS, np.zeros_like(noisy_ID), 9, seed, 1) for seed in (5, 6)
    ]
    known, guessed = (np.abs(noisy_ID - noise - quiet_ID).max() for noise in noises)
    assert known < 0.01 < 1 < guessed


def test_two_runs_with_one_seed_have_no_noise_between_them() -> None:
    """The same people again, one of whom has one item more."""
    lists = histories().positives
    start = lists.start_U1 + (np.arange(len(lists) + 1) > TARGET)
    new = np.setdiff1d(np.arange(24), lists[TARGET])[:1]
    items = np.insert(lists.item_N, lists.start_U1[TARGET + 1], new)
    later = replace(histories(), positives=Lists(start, items), time_N=None)
    before_ID = released(histories(), seed=0)[1]
    same, other = (np.linalg.norm(released(later, seed)[1] - before_ID) for seed in (0, 1))
    assert 0 < same <= 2 * 0.1
    assert other > 100 * same


def test_a_claim_says_what_a_seed_gives_away() -> None:
    told = assumptions(trainer_of("fedmf", "private").guarantee())
    assert any("seed" in one and "second run" in one for one in told)
    assert any("folder" in one and "seed" in one for one in told)
    assert not any("seed of the noise is secret" in one for one in told)
