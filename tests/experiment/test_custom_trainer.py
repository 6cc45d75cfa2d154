"""Whole runs of custom algorithms: cost, checkpoints, refusals, recommendations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.core.custom import CustomMethod
from tacit.core.types import Task
from tacit.engines.custom import CustomScorer
from tacit.errors import TacitError
from tacit.experiment.callbacks import Callback
from tacit.experiment.checkpoint import load_state
from tacit.experiment.prepare import prepare
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import override, resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer

SETS = {"fedspectral": ["width=3"], "fedease": [], "fcf_als": ["dim=4"], "fednext": []}
MEASURED = {"seconds", "cpu_seconds", "threads", "run", "engine"}


def small(name: str, plays: Path, **more: Any) -> Experiment:
    return resolve(name, data=str(plays), sets=SETS[name], rounds=4, **more)


class Stopper(Callback):
    """Raises when round 2 is over: a run that dies without a word."""

    def round(self, number: int, loss: float | None) -> None:
        if number == 2:
            raise RuntimeError("killed")


def trainer(experiment: Experiment) -> Trainer:
    found = Trainer(experiment, prepare(experiment).split.train, threads=1)
    assert isinstance(found, Trainer)
    return found


@pytest.mark.parametrize("name", SETS)
def test_a_run_that_was_killed_goes_on_bit_for_bit(name: str, plays: Path, tmp_path: Path) -> None:
    experiment = small(name, plays, participation=0.6)
    whole = run(experiment, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="killed"):
        run(experiment, tmp_path / "broken", callbacks=Stopper(), checkpoint_seconds=0.0)
    again = run(experiment, tmp_path / "broken", resume=True, checkpoint_seconds=0.0)
    assert again.model_dump(exclude=MEASURED) == whole.model_dump(exclude=MEASURED)


def test_a_checkpoint_of_another_width_is_refused(plays: Path, tmp_path: Path) -> None:
    one = trainer(small("fedspectral", plays))
    one.run_round()
    one.save(tmp_path / "last", {"selected_round": 0})
    other = trainer(resolve("fedspectral", data=str(plays), sets=["width=4"]))
    with pytest.raises(TacitError, match="belongs to another experiment"):
        other.restore(tmp_path)


def test_cost_of_fedspectral_by_hand(plays: Path) -> None:
    """50 items, a basis of 6 columns: 300 floats up and down; 24 clients in 3 rounds."""
    one = trainer(small("fedspectral", plays))
    assert one.cost(3) == {
        "bytes_up": 1200,
        "bytes_down": 1200,
        "exchanges": 72,
        "bytes_total_to_selected_round": 72 * 2400,
        "client_bytes": 1200,
    }


def test_fedease_sends_once(plays: Path) -> None:
    """50 · 50 floats each way, in the first round alone; the sum itself never comes down."""
    cost = trainer(small("fedease", plays)).cost(4)
    assert cost["bytes_up"] == cost["bytes_down"] == 50 * 50 * 4
    assert cost["exchanges"] == 24


def test_moments_of_the_server_cost_nothing(plays: Path) -> None:
    cost = trainer(small("fcf_als", plays)).cost(1)
    assert cost["bytes_up"] == cost["bytes_down"] == 50 * 4 * 4


def test_loop_and_blocks_select_the_same(plays: Path, tmp_path: Path) -> None:
    loop = run(small("fedspectral", plays, engine="loop"), tmp_path / "loop")
    blocks = run(small("fedspectral", plays, engine="cohort"), tmp_path / "blocks")
    assert loop.engine.text == "loop: one client after another (the readable reference)"
    assert blocks.engine.text == "custom: blocks of 64 clients on cpu"
    assert loop.metrics == blocks.metrics
    assert loop.privacy.server_reads == blocks.privacy.server_reads != ()


def test_what_such_methods_cannot_do_is_refused(plays: Path) -> None:
    with pytest.raises(TacitError, match="The fused engine cannot run fedspectral"):
        trainer(small("fedspectral", plays, engine="fused"))
    with pytest.raises(TacitError, match="runs on the CPU only"):
        trainer(small("fedspectral", plays, device="cuda"))
    with pytest.raises(TacitError, match="no parts to plug into"):
        small("fedspectral", plays, plugins=["clip:bound=1"])
    with pytest.raises(TacitError, match="no parts to plug into"):
        override(small("fedspectral", plays), plugins=["clip:bound=1"])


@pytest.mark.parametrize("name", SETS)
def test_recommendations_for_a_known_person_and_a_new_one(
    name: str, plays: Path, tmp_path: Path
) -> None:
    experiment = small(name, plays)
    run(experiment, tmp_path / "one")
    prepared = prepare(experiment)
    rows, train = prepared.dataset.interactions, prepared.split.train
    saved = load_state(tmp_path / "one" / "model")
    assert saved is not None
    assert isinstance(experiment.method, CustomMethod)
    score_I = CustomScorer(experiment.method.algorithm(Task.of(train)), train, saved[0])(
        np.array([3])
    )[0]
    best = recommend(tmp_path / "one", user=rows.users[3], k=5)
    assert len(best) == 5
    for line in best:
        assert line.score == score_I[rows.items.index(line.item)]
    # somebody with the train history of a known person gets that person's scores: all that is the
    # client's own is solved from the history
    written = tmp_path / "history.txt"
    written.write_text("\n".join(rows.items[i] for i in train.positives[3]), encoding="utf-8")
    for line in recommend(tmp_path / "one", history=written, k=50):
        expected = score_I[rows.items.index(line.item)]
        assert line.score == pytest.approx(expected, rel=1e-4, abs=1e-5)
