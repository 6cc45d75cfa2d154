"""A run that is trained again goes through the rounds that it went through before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.analysis.clouds import expected_seconds, replay, snapshot_rounds
from tacit.analysis.finished import finished_runs
from tacit.core.types import ITEMS
from tacit.errors import TacitError
from tacit.experiment.add_items import load_cold_model
from tacit.experiment.callbacks import Callback


class Counting(Callback):
    def __init__(self):
        self.seen = []

    def begin(self, experiment, rounds, engine):
        self.seen.append(("begin", rounds))

    def round(self, number, loss):
        self.seen.append((number, loss))

    def end(self, record):
        self.seen.append(("end", None))


def test_rounds_are_spread_evenly_and_end_at_the_selected_one():
    assert snapshot_rounds(1) == [1]
    assert snapshot_rounds(6) == [1, 2, 3, 4, 5, 6]
    assert snapshot_rounds(11) == [1, 3, 5, 7, 9, 11]
    assert snapshot_rounds(8) == [1, 2, 4, 5, 7, 8]


def test_snapshots_are_those_of_the_run(cold_runs):
    (run,) = finished_runs([cold_runs / "cold"])
    selected = run.record.selected_round
    assert selected > 1  # or there would be no round that the run did not keep
    found = replay(run)
    assert [one.round_number for one in found.snapshots] == list(range(1, selected + 1))
    # the last is the model that the run kept, the first that of a run of one round
    for snapshot, name in ((found.snapshots[-1], "cold"), (found.snapshots[0], "first")):
        model = load_cold_model(cold_runs / name)
        assert model.state.round_number == snapshot.round_number
        assert np.array_equal(snapshot.warm_WD, model.state.shared[ITEMS].numpy())
        assert np.array_equal(snapshot.cold_CD, model.rows(found.cold_C))
        assert np.array_equal(found.cold_C, model.cold_C)
    split = run.prepared.split
    assert np.array_equal(found.warm_W, split.train.warm_W)
    assert np.array_equal(found.cold_C, split.test.among_C)


def test_items_that_are_ranked_among_all_are_cold_too(cold_runs):
    (run,) = finished_runs([cold_runs / "together"])
    found = replay(run)
    both = np.sort(np.concatenate([found.warm_W, found.cold_C]))
    assert np.array_equal(both, np.arange(run.prepared.split.train.n_items))


def test_who_watches_sees_every_round(cold_runs):
    (run,) = finished_runs([cold_runs / "cold"])
    watch, selected = Counting(), run.record.selected_round
    replay(run, threads=2, callbacks=watch)
    losses = [(line.round, line.loss) for line in run.rounds[:selected]]
    assert watch.seen == [("begin", selected), *losses, ("end", None)]


def test_long_work_is_said_before(cold_runs):
    (run,) = finished_runs([cold_runs / "first"])
    said: list[str] = []
    # 10 of 40 rounds: a quarter of the time
    some = {"selected_round": 10, "rounds_run": 40, "seconds": 240.0}
    assert expected_seconds(replace(run, record=run.record.model_copy(update=some))) == 60.0
    short = run.record.model_copy(update={"seconds": 60.0})
    replay(replace(run, record=short), warn=said.append)
    assert said == []
    long = run.record.model_copy(update={"seconds": 90.0})
    replay(replace(run, record=long), warn=said.append)
    assert said == [
        "pfedrec + mdifffr is trained again up to round 1: about 1 min 30 s, as the run itself "
        "took."
    ]


def test_runs_without_generated_rows(cold_runs, runs):
    for folder, sentence in (
        (runs / "pfedrec", "pfedrec makes no rows for new items; give a run with a generator"),
        (cold_runs / "popularity", "popularity makes no rows for new items"),
        (cold_runs / "warm", "trained on all items, so none of them is cold; .* --split cold"),
    ):
        with pytest.raises(TacitError, match=sentence):
            replay(finished_runs([folder])[0])
