"""The table of poisoning: its clean column is training as always, and its page is its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab import poisoned, poisoning
from tacit.core.types import ITEMS
from tacit.engines.participation import Participants
from tacit.engines.round import server_step
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poisoned, "DATA", "planted")
    monkeypatch.setattr(poisoned, "ROUNDS", 1)


def stepped(attack: str, rule: str) -> np.ndarray:
    """The item table after one round."""
    experiment = poisoned.experiment(0)
    trainer = Trainer(experiment, prepare(experiment).split.train)
    bad = poisoned.attackers(trainer, 0)
    [exchange] = trainer.algorithm.exchanges(1)
    sent = list(poisoned.uploads_of(trainer, 1, attack, bad))
    total = poisoned.RULES[rule].total(sent, trainer.algorithm.summed(exchange))
    server_step(trainer.algorithm, trainer.state, total, 0, exchange)
    return trainer.state.shared[ITEMS].numpy()


@pytest.mark.usefixtures("small")
def test_without_an_attack_the_mean_is_training_as_always() -> None:
    experiment = resolve(poisoned.METHOD, data="planted", rounds=1, seed=0)
    trainer = Trainer(experiment, prepare(experiment).split.train)
    trainer.run_round()
    wanted_ID = trainer.state.shared[ITEMS].numpy()
    np.testing.assert_allclose(stepped(poisoned.CLEAN, "mean"), wanted_ID, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("small")
def test_an_attack_moves_the_mean_further_than_a_bounded_one() -> None:
    clean_ID = stepped(poisoned.CLEAN, "mean")
    for attack in poisoning.ASKED:
        far = np.linalg.norm(stepped(attack, "mean") - clean_ID)
        near = np.linalg.norm(stepped(attack, "norm bound") - clean_ID)
        assert far > 2.0 * near, attack


@pytest.mark.usefixtures("small")
def test_uploads_of_a_block_are_those_of_clients_alone() -> None:
    experiment = poisoned.experiment(0)
    trainer = Trainer(experiment, prepare(experiment).split.train)
    [exchange] = trainer.algorithm.exchanges(1)
    changes = list(poisoned.changes_of(trainer, 1))
    assert sorted(user for user, _, _ in changes) == trainer.participants(1).user_P.tolist()
    fresh = Trainer(experiment, prepare(experiment).split.train)
    for user, weight, change_ID in changes:
        alone = Participants(np.array([user]), np.ones(1, dtype=bool))
        known: Any = (fresh.algorithm, fresh.train, fresh.state, 0, exchange, alone)
        total = fresh.engine.play(*known)  # type: ignore[attr-defined]
        assert (total.weight, total.clients) == (weight, 1)
        np.testing.assert_allclose(change_ID, total.sums[ITEMS], rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("small")
def test_a_stopped_table_goes_on(tmp_path: Path) -> None:
    kept, said = tmp_path / "kept.jsonl", list[str]()
    prepared = prepare(poisoned.experiment(0))
    cells = poisoned.candidate_cells()[:2]
    first = poisoned.played(cells[:1], prepared, kept, said.append)
    both = poisoned.played(cells, prepared, kept, said.append)
    assert both[0] == first[0]
    assert [line.split(":")[0] for line in said] == [
        "valid, seed 10, mean, none",
        "valid, seed 10, norm bound",
    ]
    other = cells[0]._replace(rule=poisoned.RULES["norm bound"])
    assert not any(other.is_of(run) for run in both)


def test_shares_are_of_means_over_seeds() -> None:
    def run(rule: str, attack: str, seed: int, hits: float) -> poisoned.Run:
        about = {"part": "test", "made_with": "", "sampled": hits}
        return poisoned.Run(rule=rule, attack=attack, seed=seed, hits=hits, **about)  # type: ignore[arg-type]

    runs = poisoning.Runs(
        (
            run("mean", "none", 0, 0.1),
            run("mean", "none", 1, 0.3),
            run("median", "flipped", 1, 0.15),
            run("median", "flipped", 0, 0.2),
            run("norm bound", "none", 1, 0.24),
        )
    )
    assert runs.share("median", "flipped", "hits", "mean") == pytest.approx(0.35 / 0.4)
    assert runs.shares("median", "flipped", "hits", "mean") == pytest.approx([2.0, 0.5])
    assert not runs.holds("median", "flipped", "hits")
    assert runs.holds("mean", "none", "sampled")
    # of the seed that it has, alone
    assert runs.share("norm bound", "none", "hits", "mean") == pytest.approx(0.8)


def test_the_page_is_its_numbers() -> None:
    text = (RESULTS / "poisoning.json").read_text(encoding="utf-8")
    found = poisoned.Poisoning.model_validate_json(text)
    page = (RESULTS / "poisoning.md").read_text(encoding="utf-8")
    assert poisoning.as_markdown(found) == page
    assert {one.rule for one in found.runs} == set(poisoned.RULES)
    assert {one.rule for one in found.candidates} == set(poisoned.CANDIDATES)
    assert {one.part for one in found.candidates} == {"valid"}
    assert not {one.seed for one in found.candidates} & {one.seed for one in found.runs}
