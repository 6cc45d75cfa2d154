"""What must hold of every central reference for cold items: no leak, content is what it reads."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.core.types import Params
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods.central_trained import Mf
from tacit.methods.content_references import (
    RANKED_ITEMS,
    RANKED_USER,
    ContentReference,
    RanksByVectors,
    network_of,
)
from tacit.methods.cs_diffrec import CsDiffRec, interaction_rows
from tacit.methods.heater import Heater
from tacit.testing import noise
from tacit.testing.synthetic import with_content

COLD = among_cold_items(CLEAN)
TABLES = ("factors.dim=16", "factor_epochs=8", "factors.optimiser.rate=0.01")
# how each is trained on the planted dataset, and for how many rounds
SMALL: dict[str, tuple[tuple[str, ...], int]] = {
    "heater": ((*TABLES, "batch=256", "optimiser.rate=0.02"), 18),
    "gar": ((*TABLES, "batch=256", "hidden=32"), 14),
    "aldi": ((*TABLES, "batch=256", "hidden=32"), 18),
    "cs_diffrec": (("hidden=64", "optimiser.rate=0.005", "start_from=matched"), 20),
}
FACTORED = [name for name in SMALL if name != "cs_diffrec"]  # which have a stage of factors
PERMUTATIONS = 40


def experiment(name: str, rounds: int | None = None) -> Experiment:
    sets, known = SMALL[name]
    return resolve(name, sets=sets, rounds=known if rounds is None else rounds)


def trained(name: str, dataset: Dataset, rounds: int | None = None) -> Trainer:
    trainer = Trainer(experiment(name, rounds), split_dataset(dataset, COLD).train)
    for _ in range(trainer.rounds):
        trainer.run_round()
    return trainer


@cache
def trained_on_planted(name: str) -> Trainer:
    """For tests that read a trained model and leave it as it is."""
    return trained(name, planted_dataset())


def test_every_reference_is_tested_here() -> None:
    from tacit.methods import METHODS

    found = {n for n in METHODS if isinstance(METHODS[n].method(), RanksByVectors)}
    assert found == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_the_default_split_is_cold(name: str) -> None:
    assert resolve(name).protocol.split.kind == "cold"
    assert resolve(name, data="citeulike-a").protocol.split.kind == "cold_published"
    assert resolve(name, protocol="paper").protocol.name == "mdifffr"
    assert resolve(name, split="time").protocol.split.kind == "leave_one_out"


@pytest.mark.parametrize("name", SMALL)
def test_who_touched_a_cold_item_changes_nothing(name: str) -> None:
    """Canaries: held-out interactions of cold items get other users, and no score is another."""
    dataset = planted_dataset()
    train = split_dataset(dataset, COLD).train
    assert train.warm_W is not None
    rows = dataset.interactions
    is_cold_N = ~np.isin(rows.item_N, train.warm_W)
    user_N = rows.user_N.copy()
    user_N[is_cold_N] = np.random.default_rng(0).permutation(user_N[is_cold_N])
    other = replace(dataset, interactions=replace(rows, user_N=user_N))
    splits = [split_dataset(one, COLD) for one in (dataset, other)]
    assert not np.array_equal(splits[0].test.relevant.item_N, splits[1].test.relevant.item_N)
    one, two = (trained(name, data, 10) for data in (dataset, other))  # two after the factors
    for parameter, value in one.state.shared.items():
        assert torch.equal(value, two.state.shared[parameter]), parameter


@torch.no_grad()
def vectors(method: RanksByVectors, p: Params, train: TrainView) -> torch.Tensor:
    """What items are ranked by after training, if content were as it is in this view."""
    if isinstance(method, ContentReference):
        return method.item_vectors(network_of(p), method.known(p, train))
    assert isinstance(method, CsDiffRec)
    feature_IF = torch.from_numpy(method.feature_rows(train))
    row_WU = interaction_rows(train.existing())
    return method.item_vectors(network_of(p), train, row_WU, feature_IF, seed=0)


def test_feature_rows_are_those_of_the_view_and_the_width_that_are_asked() -> None:
    """Those of a view are kept from epoch to epoch, and no others are taken for them."""
    train = split_dataset(planted_dataset(), COLD).train
    narrow, wide = (Heater(factors=Mf(dim)) for dim in (3, 4))
    first_IF = narrow.feature_rows(train)
    assert narrow.feature_rows(train) is first_IF
    assert wide.feature_rows(train).shape[1] == 4
    assert np.array_equal(narrow.feature_rows(train), first_IF)
    turned = {
        name: FeatureTable(table.value_IF[::-1], table.present_I[::-1])
        for name, table in train.content.items()
    }
    other = replace(train, content=Modalities(turned))
    assert not np.array_equal(narrow.feature_rows(other), first_IF)


def recalls(trainer: Trainer, train: TrainView, held_out: object, draws: int) -> list[float]:
    """Recall@20 after the content of cold items changed places, again and again."""
    method, p = trainer.experiment.method, trainer.state.shared
    assert isinstance(method, RanksByVectors)
    assert train.warm_W is not None
    cold_C = np.setdiff1d(np.arange(train.n_items), train.warm_W)
    found = []
    for draw in range(draws):
        moved_I = np.arange(train.n_items)
        moved_I[cold_C] = np.random.default_rng(draw).permutation(cold_C)
        tables = {
            name: FeatureTable(table.value_IF[moved_I], table.present_I[moved_I])
            for name, table in train.content.items()
        }
        other = replace(train, content=Modalities(tables))
        table: Params = p | {RANKED_ITEMS: vectors(method, p, other)}

        def scores(user_B: np.ndarray, table: Params = table) -> np.ndarray:
            return method.score(table, [], user_B)

        found.append(metric(rank(scores, held_out).full, "Recall@20"))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("name", SMALL)
def test_it_is_above_chance_by_content_and_at_chance_with_that_of_others(name: str) -> None:
    dataset = planted_dataset()
    split, trainer = split_dataset(dataset, COLD), trained_on_planted(name)
    expected = metric(chance(split.test).full, "Recall@20")
    found = metric(rank(trainer.scores(), split.test).full, "Recall@20")
    values = recalls(trainer, split.train, split.test, PERMUTATIONS)
    error = np.std(values, ddof=1) / np.sqrt(PERMUTATIONS)
    assert 0 < error < 0.02
    assert abs(np.mean(values) - expected) <= 3 * error
    assert found > max(values)  # above every one of the permutations
    assert found > 1.15 * expected


@pytest.mark.parametrize("name", SMALL)
def test_noise_is_at_chance_among_cold_items(name: str) -> None:
    dataset = with_content(noise())
    split, trainer = split_dataset(dataset, COLD), trained(name, dataset)
    expected = metric(chance(split.test).full, "Recall@20")
    found = metric(rank(trainer.scores(), split.test).full, "Recall@20")
    error = np.sqrt(expected * (1 - expected) / len(split.test.relevant.item_N))
    assert expected == pytest.approx(20 / 60)
    assert abs(found - expected) < 4 * error


@pytest.mark.parametrize("name", FACTORED)
def test_factors_come_first_and_then_stay(name: str) -> None:
    split = split_dataset(planted_dataset(), COLD)
    trainer = Trainer(experiment(name, 10), split.train)
    before = dict(trainer.state.shared)
    for _ in range(8):
        trainer.run_round()
    factors = dict(trainer.state.shared)
    assert not trainer.scores()(np.arange(3)).any()  # nothing is ranked yet
    assert not torch.equal(before["items"], factors["items"])
    trainer.run_round()
    after = trainer.state.shared
    assert all(torch.equal(after[n], factors[n]) for n in ("user", "items", "items/first", "warm"))
    assert after[RANKED_ITEMS].shape[0] == split.train.n_items
    assert after["items"].shape[0] == len(split.train.warm_W)  # type: ignore[arg-type]
    assert after[RANKED_USER].any()


@pytest.mark.parametrize("name", SMALL)
def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(name: str, tmp_path: Path) -> None:
    split = split_dataset(planted_dataset(), COLD)
    whole, first, second = (Trainer(experiment(name, 11), split.train) for _ in range(3))
    for _ in range(11):
        whole.run_round()
    for _ in range(9):
        first.run_round()
    first.save(tmp_path / "last", {"selected_round": 0})
    second.restore(tmp_path)
    for _ in range(2):
        second.run_round()
    for parameter, value in whole.state.shared.items():
        assert torch.equal(value, second.state.shared[parameter]), parameter
    assert whole.state.loss == second.state.loss


@pytest.mark.parametrize("name", SMALL)
def test_a_newcomer_with_the_same_history_is_ranked_for_alike(name: str) -> None:
    """Factors of a newcomer are fitted by themselves, so lists agree in tendency alone."""
    trainer = trained_on_planted(name)
    method, train, p = trainer.experiment.method, trainer.train, trainer.state.shared
    assert isinstance(method, RanksByVectors)
    cold_C = np.setdiff1d(np.arange(train.n_items), train.warm_W)  # type: ignore[arg-type]
    alike = []
    for user in range(4):
        known_I = method.score(p, [], np.array([user]))[0]
        new_I = method.score_newcomer(p, train.history(user), name=user, seed=0, epochs=30)
        assert new_I.shape == (train.n_items,)
        alike.append(np.corrcoef(known_I[cold_C], new_I[cold_C])[0, 1])
    assert np.mean(alike) > 0.5


@pytest.mark.parametrize("name", SMALL)
def test_a_run_is_written_down_and_recommends(name: str, tmp_path: Path) -> None:
    result = run(experiment(name, 9), tmp_path / "one")
    assert result.cold is not None
    assert result.cold.draws is None
    assert result.counts.warm_items == 144
    best = recommend(tmp_path / "one", user="user-3", k=5)
    assert len({line.item for line in best}) == 5


@pytest.mark.parametrize("name", FACTORED)
def test_untouched_items_are_ranked_by_content_under_any_split(name: str) -> None:
    """Of two items that nobody has in train, equal content means equal scores, whatever drifted."""
    method = experiment(name).method
    assert isinstance(method, ContentReference)
    train = split_dataset(with_content(noise(n_users=30, n_items=40, history=6)), CLEAN).train
    lists = train.positives.within(np.arange(38))  # nobody has the last two
    tables = {}
    for key, table in train.content.items():
        value_IF, present_I = table.value_IF.copy(), table.present_I.copy()
        value_IF[39], present_I[39] = value_IF[38], present_I[38]
        tables[key] = FeatureTable(value_IF, present_I)
    train = replace(train, positives=lists, time_N=None, content=Modalities(tables))
    p = method.start(train, 0, torch.float64)
    for number in range(1, 11):
        p, _ = method.epoch(p, train, 0, number)
    score_BI = method.score(p, [], np.arange(30))
    assert np.array_equal(score_BI[:, 38], score_BI[:, 39])
    assert np.abs(score_BI[:, 37] - score_BI[:, 38]).max() > 1e-6
    assert not torch.equal(p["items"][38], p["items"][39])


@pytest.mark.parametrize("name", SMALL)
def test_data_without_content_is_refused_in_a_sentence(name: str) -> None:
    train = split_dataset(noise(n_users=20, n_items=30, history=5), COLD).train
    with pytest.raises(TacitError, match="text"):
        Trainer(experiment(name), train)
