"""What must hold of cold-start methods whatever their numbers are."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.compose import compose
from tacit.core.optim import Sgd
from tacit.core.types import ITEMS, Task
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods.cold_start import cold_pfedrec
from tacit.plugins import cold
from tacit.plugins.entry import apply_plugin

COLD = among_cold_items(CLEAN)
DRAWS = 50


@pytest.mark.parametrize(
    "plugin", ["random_rows", "mdifffr:guidance=zero", "mdifffr:guidance=none"]
)
def test_rows_that_know_nothing_are_at_chance_over_draws(plugin: str):
    split = split_dataset(planted_dataset(), COLD)
    method = apply_plugin(cold_pfedrec(8), plugin)
    trainer = Trainer(Experiment("x", method, 5, protocol=COLD), split.train, 1)
    for _ in range(5):
        trainer.run_round()
    trainer.keep_best()
    scores = [trainer.draw_scores(draw) for draw in range(DRAWS)]
    values = [metric(rank(one, split.test).full, "Recall@20") for one in scores]
    expected = metric(chance(split.test).full, "Recall@20")
    assert expected == pytest.approx(20 / 72)
    error = np.std(values, ddof=1) / np.sqrt(DRAWS)
    assert abs(np.mean(values) - expected) <= 3 * error


def test_a_row_that_one_client_touched_moves_by_its_share_of_the_change():
    positives = Lists(np.array([0, 1, 2, 3]), np.array([0, 1, 2]))
    train = TrainView(50, positives, np.arange(3, dtype=np.uint64), Lists.empty(3))
    alone = TrainView(50, positives.take(np.array([0])), train.user_key_U[:1], Lists.empty(1))
    method = replace(cold_pfedrec(4), sampling=Sampling(negatives=1))
    drawn = [draw_samples(train, u, Sampling(1), seed=0, round_number=1, epoch=0) for u in (1, 2)]
    assert all(0 not in items for items, _ in drawn)  # the first row is the first client's alone
    changes = []
    for view in (train, alone):
        algorithm = compose(method, Task.of(view))
        engine = LoopEngine(torch.float64)
        state = engine.start(algorithm, view, 0)
        before = state.shared[ITEMS].clone()
        engine.round(algorithm, view, state, everybody(view), 0)
        changes.append((state.shared[ITEMS] - before)[0])
    assert changes[1].abs().max() > 0
    torch.testing.assert_close(changes[0], changes[1] / 3)


def test_laplace_noise_of_n_clients_has_the_deviation_of_a_mean():
    scale, split = 2.0, split_dataset(planted_dataset(), COLD)
    method = apply_plugin(cold.ridge(cold_pfedrec(64)), f"laplace:scale={scale}")
    still = replace(method.local, model=Sgd(0.0), items=Sgd(0.0))
    method = replace(method, local=still)
    trainer = Trainer(Experiment("x", method, 1, protocol=COLD), split.train, 1)
    before = trainer.state.shared[ITEMS].clone()
    trainer.run_round()
    found = (trainer.state.shared[ITEMS] - before).std().item()
    expected = np.sqrt(2) * scale / np.sqrt(split.train.n_users)
    assert found == pytest.approx(expected, rel=0.03)


def test_the_default_split_of_a_method_with_a_generator_is_cold():
    assert resolve("mdifffr").protocol.split.kind == "cold"
    assert resolve("mdifffr").protocol.is_clean
    assert resolve("mdifffr", data="citeulike-a").protocol.split.kind == "cold_published"
    assert resolve("mdifffr", split="time").protocol.split.kind == "leave_one_out"
    assert resolve("mdifffr", protocol="paper").protocol.name == "mdifffr"
    together = resolve("mdifffr", split="cold_together").protocol
    assert (together.valid_mask, together.test_mask) == ("train", "train+valid")
    assert resolve("mean_profile", split="cold").protocol.test_mask == "others"


def test_a_result_says_what_stands_beside_it(tmp_path):
    result = run(resolve("mdifffr", rounds=2, sets=["backbone.dim=8"]), tmp_path / "one")
    beside = result.cold
    assert set(beside.metrics) == {
        f"{name}@{k}" for name in ("Recall", "Precision", "NDCG") for k in (20, 50, 100)
    }
    assert beside.draws.number == 5
    assert beside.draws["Recall@20"].deviation > 0
    assert 0 < beside.top_shares["top1"] < beside.top_shares["top20"] <= 1
    assert result.counts.warm_items == 144
    assert result.reference.full.popularity["Recall@20"] == pytest.approx(20 / 72)
    assert result.cost.bytes_up == 144 * 8 * 4  # cold items are not paid for
    same = run(resolve("mean_profile", split="cold"), tmp_path / "two")
    assert same.cold.draws is None
