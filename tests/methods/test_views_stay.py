"""Training and ranking leave what devices and evaluators hold as it was."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace

import numpy as np
import pytest

from tacit.data.views import HeldOut, Lists, TrainView
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.methods import METHODS


def digest(value: TrainView | HeldOut | Lists) -> dict[str, str]:
    """A digest of every array of a view."""
    found: dict[str, str] = {}
    for field in fields(value):
        held = getattr(value, field.name)
        if isinstance(held, np.ndarray):
            found[field.name] = hashlib.sha256(np.ascontiguousarray(held).tobytes()).hexdigest()
        elif isinstance(held, Lists):
            found |= {f"{field.name}.{name}": told for name, told in digest(held).items()}
    return found


@pytest.fixture(scope="module")
def planted() -> Prepared:
    """People whose items are not in the order of their codes, so that a sort would be seen."""
    prepared = prepare(resolve("popularity"))
    positives = prepared.split.train.positives
    assert any((np.diff(positives[user]) < 0).any() for user in range(len(positives)))
    return prepared


@pytest.mark.parametrize("name", METHODS)
def test_a_round_and_a_ranking_change_no_view(planted: Prepared, name: str) -> None:
    experiment = resolve(name, rounds=1)
    prepared = prepare(experiment) if experiment.protocol.split.is_cold else planted
    few = np.arange(12)
    train = prepared.split.train.take(few)
    held = prepared.split.test
    some = np.isin(held.user_E, few)
    held = replace(
        held,
        user_E=held.user_E[some],
        relevant=held.relevant.take(np.flatnonzero(some)),
        masked=held.masked.take(np.flatnonzero(some)),
        sampled=held.sampled.take(np.flatnonzero(some)),
    )
    before, before_held = digest(train), digest(held)
    history = train.history(3).item_H.copy()
    trainer = Trainer(experiment, train)
    trainer.run_round()
    rank(trainer.scores(), held)
    assert digest(train) == before
    assert digest(held) == before_held
    assert np.array_equal(train.history(3).item_H, history)
