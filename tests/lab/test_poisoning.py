"""The table of poisoning: its clean column is training as always, and its page is its numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab import poisoning
from tacit.core.types import ITEMS
from tacit.engines.round import server_step
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poisoning, "DATA", "planted")
    monkeypatch.setattr(poisoning, "ROUNDS", 1)


def stepped(attack: str, rule: str) -> np.ndarray:
    """The item table after one round."""
    experiment = poisoning.experiment(0)
    trainer = Trainer(experiment, prepare(experiment).split.train)
    bad = poisoning.attackers(trainer, 0)
    [exchange] = trainer.algorithm.exchanges(1)
    sent = list(poisoning.uploads_of(trainer, 1, attack, bad))
    total = poisoning.RULES[rule].total(sent, trainer.algorithm.summed(exchange))
    server_step(trainer.algorithm, trainer.state, total, 0, exchange)
    return trainer.state.shared[ITEMS].numpy()


@pytest.mark.usefixtures("small")
def test_without_an_attack_the_mean_is_training_as_always() -> None:
    experiment = resolve(poisoning.METHOD, data="planted", rounds=1, seed=0)
    trainer = Trainer(experiment, prepare(experiment).split.train)
    trainer.run_round()
    wanted_ID = trainer.state.shared[ITEMS].numpy()
    np.testing.assert_allclose(stepped(poisoning.CLEAN, "mean"), wanted_ID, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("small")
def test_an_attack_moves_the_mean_further_than_a_bounded_one() -> None:
    clean_ID = stepped(poisoning.CLEAN, "mean")
    for attack in poisoning.ATTACKS:
        far = np.linalg.norm(stepped(attack, "mean") - clean_ID)
        near = np.linalg.norm(stepped(attack, "norm bound") - clean_ID)
        assert far > 2.0 * near, attack


def test_the_page_is_its_numbers() -> None:
    text = (RESULTS / "poisoning.json").read_text(encoding="utf-8")
    found = poisoning.Poisoning.model_validate_json(text)
    page = (RESULTS / "poisoning.md").read_text(encoding="utf-8")
    assert poisoning.as_markdown(found) == page
    assert {one.rule for one in found.runs} == set(poisoning.RULES)
