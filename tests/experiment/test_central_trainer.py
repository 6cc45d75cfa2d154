"""Runs of central methods that are trained by epochs: selection, interruption, recommendation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from tacit.core.central import TrainedCentralMethod
from tacit.core.types import Params
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.sampling import draw_samples
from tacit.data.split import split_dataset
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.evaluation.ranking import rank
from tacit.experiment.callbacks import Callback
from tacit.experiment.checkpoint import load_state
from tacit.experiment.prepare import prepare
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.result import read_ranks
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer

CONTENT = ("vbpr", "bm3", "mgcn", "pgl")
NAMES = ("mf", "ncf", "neumf", "sasrec", "gru4rec", *CONTENT)
MEASURED = {"seconds", "cpu_seconds", "threads", "run", "engine"}


def small(name: str, plays: Path, *sets: str, rounds: int = 5) -> Experiment:
    """A dozen batches an epoch, on data that has content where the method reads it."""
    data, batch = ("planted", 512) if name in CONTENT else (str(plays), 32)
    fixed = ("dim=4", "optimiser.rate=0.01", f"batch={batch}")
    return resolve(name, data=data, sets=[*fixed, *sets], rounds=rounds)


class Stopper(Callback):
    """Raises when a given round is over: a run that dies without a word."""

    def __init__(self, at: int) -> None:
        self.at = at

    def round(self, number: int, loss: float | None) -> None:
        if number == self.at:
            raise RuntimeError("killed")


@pytest.mark.parametrize("name", NAMES)
def test_interrupted_runs_end_with_the_same_numbers(name: str, plays: Path, tmp_path: Path) -> None:
    experiment = small(name, plays)
    alone, broken = tmp_path / "alone", tmp_path / "broken"
    whole = run(experiment, alone)
    for at in (2, 4):
        with pytest.raises(RuntimeError, match="killed"):
            run(experiment, broken, resume=True, callbacks=Stopper(at), checkpoint_seconds=0.0)
    found = run(experiment, broken, resume=True)
    assert found.model_dump(exclude=MEASURED) == whole.model_dump(exclude=MEASURED)
    for file in ("metrics.jsonl", "ranks.parquet"):
        assert (alone / file).read_bytes() == (broken / file).read_bytes()
    one, two = load_state(alone / "model"), load_state(broken / "model")
    assert one is not None
    assert two is not None
    assert one[0].shared.keys() == two[0].shared.keys()
    assert all(
        torch.equal(value, two[0].shared[parameter]) for parameter, value in one[0].shared.items()
    )


def test_the_selected_epoch_is_kept_with_its_moments(plays: Path, tmp_path: Path) -> None:
    experiment = small("mf", plays, rounds=8)
    result = run(experiment, tmp_path / "one")
    text = (tmp_path / "one" / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    values = [line["valid"]["full"]["NDCG@10"] for line in lines]
    assert values[result.selected_round - 1] == max(values)
    assert lines[-1]["loss"] < lines[0]["loss"]
    saved = load_state(tmp_path / "one" / "model")
    assert saved is not None
    assert saved[0].round_number == result.selected_round
    assert {"user", "items", "user/first", "items/steps"} <= set(saved[0].shared)
    method, prepared = experiment.method, prepare(experiment)
    assert isinstance(method, TrainedCentralMethod)
    expected = rank(lambda user_B: method.score(saved[0].shared, [], user_B), prepared.split.test)
    found = read_ranks(tmp_path / "one" / "ranks.parquet")
    assert np.array_equal(found.full.above_H, expected.full.above_H)
    assert result.privacy.server_reads[-1] == "every history in full: this is a central method"


def test_a_checkpoint_of_another_width_is_refused(plays: Path, tmp_path: Path) -> None:
    one, two = small("mf", plays), small("mf", plays, "dim=6")
    trainers = []
    for experiment in (one, two):
        assert isinstance(experiment.method, TrainedCentralMethod)
        train = prepare(experiment).split.train
        trainers.append(Trainer(experiment, train))
    trainers[0].run_round()
    trainers[0].save(tmp_path / "last", {"selected_round": 0})
    with pytest.raises(TacitError, match="belongs to another experiment"):
        trainers[1].restore(tmp_path)


def test_what_was_drawn_is_known(plays: Path) -> None:
    experiment = small("mf", plays)
    assert isinstance(experiment.method, TrainedCentralMethod)
    train = prepare(experiment).split.train
    drawn = Trainer(experiment, train).drawn(3)
    expected_UI = np.zeros((train.n_users, train.n_items), bool)
    for user in range(train.n_users):
        for number in (1, 2, 3):
            item_N, label_N = draw_samples(
                train, user, experiment.method.sampling, seed=0, round_number=number, epoch=0
            )
            expected_UI[user, item_N[label_N == 0]] = 1
    assert np.array_equal(drawn.rounds_BI(np.arange(train.n_users)) > 0, expected_UI)


def test_other_devices_are_refused(plays: Path, tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="CPU only"):
        run(small("mf", plays, "device=cuda"), tmp_path / "one")


@pytest.mark.parametrize("name", NAMES)
def test_lists_for_known_people_and_newcomers(name: str, plays: Path, tmp_path: Path) -> None:
    experiment = small(name, plays, rounds=2)
    run(experiment, tmp_path / "one")
    saved, prepared = load_state(tmp_path / "one" / "model"), prepare(experiment)
    assert saved is not None
    assert isinstance(experiment.method, TrainedCentralMethod)
    rows = prepared.dataset.interactions
    history_3 = prepared.split.train.history(3)
    score_I = experiment.method.score(saved[0].shared, [history_3], np.array([3]))[0]
    for line in recommend(tmp_path / "one", user=rows.users[3], k=4):
        assert line.score == score_I[rows.items.index(line.item)]
    history = tmp_path / "history.txt"
    history.write_text("\n".join(rows.items[:4]), encoding="utf-8")
    best = recommend(tmp_path / "one", history=history, k=5)
    assert len(best) == 5
    assert not {line.item for line in best} & set(rows.items[:4])
    assert recommend(tmp_path / "one", history=history, k=5) == best


@dataclass(frozen=True)
class ByContent(TrainedCentralMethod):
    """Counts what exists in training, and scores the whole catalogue by one number of content."""

    ranks_unseen: ClassVar[bool] = True

    def start(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        return {
            "seen": torch.zeros(train.existing().n_items, dtype=dtype),
            "score": torch.zeros(train.n_items, dtype=dtype),
        }

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        seen = torch.from_numpy(train.existing().popularity_I()).to(parameters["seen"])
        score = torch.from_numpy(train.content["text"].value_IF[:, 0]).to(parameters["score"])
        return {"seen": seen, "score": score}, 0.0

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        return np.tile(parameters["score"].numpy(), (len(user_B), 1))


class Forgets(ByContent):
    ranks_unseen: ClassVar[bool] = False


def test_a_trained_central_method_can_rank_items_that_nobody_has_touched() -> None:
    """It sees the whole catalogue, trains on what exists, and draws nothing that does not."""
    protocol = among_cold_items(CLEAN)
    train = split_dataset(planted_dataset(), protocol).train
    assert train.warm_W is not None
    cold_C = np.setdiff1d(np.arange(train.n_items), train.warm_W)
    trainer = Trainer(Experiment("own", ByContent(), 2, protocol=protocol), train)
    trainer.run_round()
    assert trainer.state.shared["seen"].shape == (len(train.warm_W),)
    score_BI = trainer.scores()(np.array([0, 5]))
    assert score_BI.shape == (2, train.n_items)
    assert np.array_equal(score_BI[0], train.content["text"].value_IF[:, 0])
    drawn_UI = trainer.drawn(2).rounds_BI(np.arange(train.n_users))
    assert drawn_UI.shape == (train.n_users, train.n_items)
    assert drawn_UI[:, train.warm_W].any()
    assert not drawn_UI[:, cold_C].any()
    with pytest.raises(TacitError, match="cannot rank items that nobody has touched"):
        Trainer(Experiment("own", Forgets(), 2, protocol=protocol), train)
