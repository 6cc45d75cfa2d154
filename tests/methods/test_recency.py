"""Recency on one method of each kind: the battery, no gain without order, a gain with it, names on
the command line, refusals, newcomers, what the record says, and a run that is continued."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import tacit
from tacit.core.fit import CompositionError
from tacit.core.recency import Recency
from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History, TrainView
from tacit.engines.newcomer import newcomer_scores
from tacit.engines.select import newcomer_of, scorer_of
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.experiment.resolve import override, resolve
from tacit.experiment.toml import dumps, loads
from tacit.methods import METHODS, Ease, FedEase, fedmf, fedncf, gpfedrec, pfedrec
from tacit.plugins.fedrkg import fedrkg
from tacit.plugins.fusion import fedmr
from tacit.plugins.recency import weighs_histories
from tacit.testing import CustomTests, FederatedTests, MethodTests
from tacit.testing.paths import assert_paths_agree, small_train
from tacit.testing.play import play
from tacit.testing.synthetic import ragged


class TestEase(MethodTests):
    name, plugins = "ease", ("recency:half_life=4",)


class TestEasePerUser(MethodTests):
    name, plugins = "ease", ("recency:half_life=4,per_user=true",)
    noise_rounds = 2


class TestFedEase(CustomTests):
    name, plugins = "fedease", ("recency:half_life=4",)


class TestFedMF(FederatedTests):
    name, plugins = "fedmf", ("recency:half_life=8",)


class TestRouter(FederatedTests):
    name, content = "fcf", True
    plugins = ("fedmr:id_width=16,encoder_rate=0.01", "recency:half_life=8")
    checkerboard_sets = ("local.inner.model.rate=1", "server.items.rate=1")
    noise_rounds = 15
    engine_sets = (
        "local.inner.batch=16",
        "local.inner.epochs=2",
        "backbone.dim=6",
        "items.width=6",
    )

    def train(self) -> TrainView:
        """More rows than others need: Adam divides a gradient by its own size, so an entry that is
        nearly zero in float32 moves by its rounding, and with few rows there is one."""
        return split_dataset(self.with_its_content(ragged(n_users=16, n_items=36)), CLEAN).train

    @pytest.mark.slow
    def test_checkerboard(self) -> None:
        super().test_checkerboard()

    @pytest.mark.slow
    def test_noise(self) -> None:
        super().test_noise()


# All paths play the same, whichever of them claims the method.


@pytest.mark.parametrize(
    "method",
    [fedncf(dim=4), fedrkg(pfedrec(dim=4), every=1), gpfedrec(dim=4), fedmr(pfedrec(dim=4))],
    ids=["perceptron", "guidance", "table penalty", "views"],
)
def test_loop_blocks_and_kernels_agree(method: tacit.Method) -> None:
    train = small_train(content=True)
    found = assert_paths_agree(replace(method, recency=Recency(2.0)), train)
    plain = assert_paths_agree(method, train)
    assert any(not np.array_equal(found.end[name], plain.end[name]) for name in plain.end)


@pytest.mark.parametrize(
    "method",
    [fedmf(dim=4), pytest.param(fedncf(dim=4), marks=pytest.mark.slow), fedmr(pfedrec(dim=4))],
)
def test_a_very_long_half_life_trains_as_without(method: tacit.Method) -> None:
    train = small_train(content=True)
    plain = assert_paths_agree(method, train)
    found = assert_paths_agree(replace(method, recency=Recency(1e12)), train)
    for name, value in plain.end.items():
        assert np.allclose(value, found.end[name], rtol=0, atol=1e-9), name
    assert found.state.loss == pytest.approx(plain.state.loss, rel=1e-9)


# Data in which people move on, and the same data in another order.


def drifting(shuffled: bool, n_users: int = 120, seed: int = 3) -> Dataset:
    """Everybody touches 8 items of one group, then 8 of another; the latest two are held out. With
    `shuffled` the same train items come in any order."""
    generator = np.random.default_rng(seed)
    users, items = [], []
    for user in range(n_users):
        first, second = generator.permutation(4)[:2]
        own = [*(15 * first + generator.permutation(15)[:8])]
        later = [*(15 * second + generator.permutation(15)[:8])]
        train = [*own, *later[:-2]]
        if shuffled:
            train = list(generator.permutation(train))
        chosen = [*train, *later[-2:]]
        users += [user] * len(chosen)
        items += [int(item) for item in chosen]
    return Dataset("drifting", Interactions.from_ids(users, items, time=np.arange(len(users))))


@pytest.mark.parametrize("build", [Ease, FedEase])
@pytest.mark.parametrize("per_user", [False, True])
def test_recency_helps_by_order_and_by_nothing_else(build: type, per_user: bool) -> None:
    found = {}
    for shuffled in (False, True):
        for recency in (None, Recency(2.0, per_user)):
            method = build(ridges=(10.0,), recency=recency)
            ranks = play(method, drifting(shuffled), rounds=1)
            found[shuffled, recency is not None] = metric(ranks.full, "HR@10")
    assert found[False, True] >= found[False, False] + 0.15, found
    noise = 2 * np.sqrt(0.25 / 120)  # two standard errors of a share over so many people
    assert found[True, True] <= found[True, False] + noise, found


def test_training_follows_the_recent_items() -> None:
    settings = ("backbone.dim=8", "local.items.rate=0.3", "local.model.rate=0.3")
    hits = []
    for plugins in ((), ("recency:half_life=2",)):
        method = resolve("fedmf", plugins=plugins, sets=settings).method
        hits.append(metric(play(method, drifting(False), rounds=40).full, "HR@10"))
    assert hits[1] > hits[0], hits


# Names, settings and refusals


@pytest.mark.parametrize("per_user", [False, True])
def test_an_old_item_of_a_long_history_stays_in_it(per_user: bool) -> None:
    """Its weight is too small for a number of 32 bits, and what weighs 0 is padding."""
    recency, order_H = Recency(half_life=4.0, per_user=per_user), torch.arange(900)
    real_H = torch.ones(900)
    real_H[-1] = 0.0
    weight_H = recency.of_order(order_H, real_H)
    assert (weight_H > 0).tolist() == [True] * 899 + [False]
    weight_GKH = recency.trials(order_H, real_H)
    assert (weight_GKH[:, 0] > 0).sum(1).tolist() == [898] * len(weight_GKH)


def test_it_is_spelled_like_any_plugin_and_its_fields_like_any_field() -> None:
    for name in ("ease", "pure_svd", "fedease", "fedspectral", "fcf_als", "fedmf", "fedrecon"):
        made = resolve(name, plugins=["recency:half_life=6"], sets=["recency.half_life=8"])
        assert made.method.recency == Recency(8.0)
        assert loads(dumps(made)) == made
        later = override(resolve(name), plugins=["recency:half_life=8"])
        assert later.method == made.method
    own = resolve("ease", plugins=["recency:per_user=true"]).method.recency
    assert own == Recency(4.0, per_user=True)


def test_every_method_takes_it_or_says_why_not() -> None:
    refused = {name for name in METHODS if not weighs_histories(METHODS[name].method("paper"))}
    for name in METHODS:
        if name not in refused:
            assert resolve(name, plugins=["recency"]).method.recency == Recency()
            continue
        with pytest.raises(CompositionError, match="recency weighs the items of a history, and"):
            resolve(name, plugins=["recency"])
    assert refused >= {"popularity", "random", "mf", "feddae", "metamf", "fedpergnn"}
    assert not refused & {"ease", "pure_svd", "fedease", "fedspectral", "fcf_als", "fedrecon"}


@pytest.mark.parametrize(
    ("name", "plugin", "said"),
    [
        ("popularity", "recency", "recency weighs the items of a history, and popularity has no"),
        (
            "fedmf",
            "recency:per_user=true",
            "here clients train on theirs; take one half-life for all",
        ),
        ("ease", "recency:half_life=0", "half_life is 0.0; it is a number of items above 0."),
        ("ease", "clip", "ease has no parts to plug into; drop"),
    ],
)
def test_bad_input_gets_a_sentence(name: str, plugin: str, said: str) -> None:
    with pytest.raises(TacitError) as caught:
        resolve(name, plugins=[plugin])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parts_are_asked_for_by_name() -> None:
    with pytest.raises(CompositionError, match="tries half-lives by ranking"):
        resolve("fedmf", plugins=["recency"], sets=["recency.per_user=true"])
    with pytest.raises(CompositionError) as caught:
        resolve("ease", plugins=["recency", "clip"])
    assert str(caught.value) == "ease has no parts to plug into; drop plugins=['clip']."


# Newcomers


def test_the_order_of_a_newcomers_items_counts() -> None:
    train = split_dataset(drifting(False), CLEAN).train
    person = {"name": 5, "seed": 0, "rounds": 2}
    item_H = np.array([1, 2, 3, 16, 17, 18])
    ease = Ease((10.0,), Recency(1.0)).algorithm(Task.of(train))
    state = State({}, {}, round_number=1)
    first, second = (
        newcomer_of(ease, train, state, History(order_H), **person)
        for order_H in (item_H, item_H[::-1].copy())
    )
    assert first[15:30].mean() > first[:15].mean()  # the group of the latest items leads
    assert second[15:30].mean() < second[:15].mean()
    known = scorer_of(ease, train, state, 0)(np.array([4]))[0]
    same = newcomer_of(ease, train, state, train.history(4), **person)
    assert np.allclose(known, same)
    method = replace(fedmf(dim=4), recency=Recency(0.5))
    algorithm = method.algorithm(Task.of(train))
    generator = np.random.default_rng(0)
    shared = {"items": torch.from_numpy(generator.normal(size=(train.n_items, 4)))}
    one, two = (
        newcomer_scores(algorithm, shared, History(order_H), **person)
        for order_H in (item_H, item_H[::-1].copy())
    )
    assert one[18] > two[18]
    assert two[1] > one[1]


# Records, and runs that are continued


@pytest.mark.parametrize(
    ("name", "rounds"), [("ease", None), ("fedease", None), ("pfedrec", 3)], ids=str
)
def test_the_record_says_what_the_order_is(tmp_path: Path, name: str, rounds: int | None) -> None:
    plain = tacit.run(tacit.resolve(name, rounds=rounds), tmp_path / "plain")
    read = tacit.run(tacit.resolve(name, rounds=rounds, plugins=["recency"]), tmp_path / "recency")
    assert plain.order is not None
    assert not plain.order.read
    assert read.order is not None
    assert read.order == plain.order.model_copy(update={"read": True})
    assert read.order.by == "time"
    assert read.notes[-1] == read.order.text
    assert read.order.text.startswith("The method reads the order of histories: it is by time")
    assert plain.order.text not in plain.notes
    assert read.cost == plain.cost
    assert read.privacy == plain.privacy


@pytest.mark.parametrize("name", ["fedease", "pfedrec"])
def test_a_run_that_is_continued_ends_with_the_same_numbers(tmp_path: Path, name: str) -> None:
    whole = tacit.resolve(name, rounds=6, plugins=["recency:half_life=3"])
    alone = tacit.run(whole, tmp_path / "alone")

    class Stop(tacit.Callback):
        def round(self, number: int, loss: float | None) -> None:
            if number == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tacit.run(whole, tmp_path / "broken", checkpoint_seconds=0.0, callbacks=Stop())
    resumed = tacit.run(whole, tmp_path / "broken", resume=True)
    measured = {"seconds", "cpu_seconds", "threads", "run", "engine"}
    numbers = [json.loads(one.json_text) for one in (alone, resumed)]
    for one in numbers:
        for key in measured:
            del one[key]
    assert numbers[0] == numbers[1]
