"""Perceptrons in the fused kernel: the loop's numbers, with and without guidance, in tiles too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.accelerators import why_not_fused
from tacit.engines.accelerators.networks import FlatNetwork
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.round import Engine
from tacit.engines.scoring import Scorer
from tacit.engines.state import initial_state
from tacit.methods import fedncf, pfedrec
from tacit.parts.backbones import MlpHead, SharedMlp
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.local import Reconstruct
from tacit.plugins import dual_personalised, fedrkg, personal_table
from tacit.plugins.personal import with_private_scorer
from tacit.testing.play import Trace, algorithm_for, same_to, trace
from tacit.testing.synthetic import ragged
from tacit.testing.threads import assert_threads_change_nothing

WIDE = torch.float64
TRAIN = split_dataset(ragged(n_users=16, n_items=24), CLEAN).train
TOWER = fedncf(dim=5, layers=(4, 3, 1))
HEAD = replace(pfedrec(dim=5), backbone=MlpHead(5, (3, 1)))
PLAIN = {
    "fedncf": TOWER,
    "fedncf of one layer": fedncf(dim=5, layers=(1,)),
    "fedncf, private scorer": with_private_scorer(TOWER, "fedrkg"),
    "fedncf + dual": dual_personalised(TOWER),
    "fedncf, tables never aggregated": personal_table(TOWER),
    "fedncf, fitted anew": replace(TOWER, local=Reconstruct(Sgd(0.5), Sgd(0.5, per_item=4.0))),
    "pfedrec, perceptron": HEAD,
}


def short(method: Method) -> Method:
    return replace(method, local=replace(method.local, batch=16))  # type: ignore[type-var]


def guided(method: Method, at: str) -> Method:
    return short(fedrkg(method, beta=0.5, every=2, gate_rate=0.5, at=at))  # type: ignore[arg-type]


GUIDED = {
    f"{name} + fedrkg, {at}": guided(method, at)
    for name, method in (("fedncf", TOWER), ("pfedrec, perceptron", HEAD))
    for at in ("same", "next")
}
# post-tuning under guidance: PFedRec's order of steps on a host whose scorer is private
GUIDED["fedncf + dual + fedrkg"] = replace(
    GUIDED["fedncf + fedrkg, same"], local=short(dual_personalised(TOWER)).local
)
EVERY = {name: short(method) for name, method in PLAIN.items()} | GUIDED


def assert_same(reference: Trace, found: Trace) -> None:
    for name, value in reference.end.items():
        assert same_to(value, found.end[name], 1e-10 * reference.change(name)), name
    assert found.state.loss == pytest.approx(reference.state.loss, rel=1e-10)
    tuned, other = reference.state.tuned, found.state.tuned
    assert (tuned is None) == (other is None)
    if tuned is not None and other is not None:
        assert np.array_equal(tuned.count_U, other.count_U)
        assert np.array_equal(tuned.item_C, other.item_C)
        assert torch.allclose(tuned.value_CD, other.value_CD, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_fused_is_the_loop(name: str) -> None:
    method = EVERY[name]
    reference = trace(method, TRAIN, LoopEngine(WIDE))
    for parameter in algorithm_for(method, TRAIN).model_parameters:
        assert reference.change(parameter) > 0, f"{parameter} never moved: nothing is compared"
    if name in GUIDED:
        assert reference.change("gate.w") > 0
    assert_same(reference, trace(method, TRAIN, CohortEngine(WIDE, fused="always")))


@pytest.mark.parametrize("name", ["fedncf", "fedncf + dual + fedrkg"])
def test_a_bound_on_the_gradient_counts_repeated_rows_once(name: str) -> None:
    """Positives that are listed twice give one row two gradients; their sum is what is bounded."""
    doubled = Lists.from_pairs(
        np.repeat(np.arange(TRAIN.n_users), 2 * TRAIN.positives.size_U),
        np.repeat(TRAIN.positives.item_N, 2),
        TRAIN.n_users,
    )
    train = replace(TRAIN, positives=doubled, time_N=None)
    local = replace(EVERY[name].local, gradient_clip=0.05)  # type: ignore[type-var]
    method = replace(EVERY[name], local=local)
    found = trace(method, train, CohortEngine(WIDE, fused="always"))
    assert_same(trace(method, train, LoopEngine(WIDE)), found)
    free = trace(EVERY[name], train, CohortEngine(WIDE, fused="always"))
    assert not same_to(free.end["user"], found.end["user"], 1e-3)


@pytest.mark.parametrize("name", ["fedncf", "fedncf + dual", "fedncf + fedrkg, same"])
def test_a_batch_of_several_tiles(name: str) -> None:
    """300 positives give a batch of 1,500 samples; a tile has 256."""
    items = np.concatenate([np.arange(300), np.arange(280, 400)])
    lists = Lists(np.array([0, 300, 420]), items)
    train = TrainView(420, lists, np.array([11, 12], dtype=np.uint64), Lists.empty(2))
    method = EVERY[name]
    method = replace(method, local=replace(method.local, batch=4096))  # type: ignore[type-var]
    reference = trace(method, train, LoopEngine(WIDE))
    assert_same(reference, trace(method, train, CohortEngine(WIDE, fused="always")))


@pytest.mark.parametrize(
    "name", ["fedncf", "pfedrec, perceptron", "fedncf + dual", "pfedrec, perceptron + fedrkg, same"]
)
def test_threads_change_not_a_bit(name: str) -> None:
    many = split_dataset(ragged(n_users=150, n_items=40), CLEAN).train
    assert_threads_change_nothing(lambda engine: trace(EVERY[name], many, engine, rounds=2))


@pytest.mark.parametrize("name", EVERY)
def test_scores_are_those_of_the_backbone(name: str) -> None:
    method = EVERY[name]
    algorithm, engine = algorithm_for(method, TRAIN), CohortEngine(WIDE, fused="always")
    state = trace(method, TRAIN, engine).state
    found = Scorer(algorithm, state)(np.arange(TRAIN.n_users))
    assert state.fresh_U.any()
    assert not state.fresh_U.all()
    for user in range(TRAIN.n_users):
        p = {
            **state.shared,
            **{parameter: value[user] for parameter, value in state.private.items()},
        }
        if state.tuned is not None and state.broadcast is not None:
            item_R, row_RD = state.tuned.of(user)
            table = state.broadcast if state.fresh_U[user] else state.shared[ITEMS]
            p[ITEMS] = table.clone()
            p[ITEMS][torch.from_numpy(item_R.astype(np.int64))] = row_RD
        assert np.allclose(found[user], algorithm.logits(p).numpy(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("backbone", [SharedMlp(3, (2, 1)), SharedMlp(3, (2, 1), scorer="private")])
def test_flat_and_back_is_the_identity(backbone: SharedMlp) -> None:
    algorithm = algorithm_for(replace(TOWER, backbone=backbone), TRAIN)
    state = initial_state(algorithm, TRAIN, 0)
    network, users = FlatNetwork.of(backbone), np.array([3, 1])
    assert network is not None
    net_PN = network.read(state, users)
    assert net_PN.shape[1] == network.size
    for name, value in network.parameters(net_PN).items():
        if backbone.scorer == "shared":
            assert np.array_equal(value[0], state.shared[name].numpy())
        else:
            assert np.array_equal(value, state.private[name].numpy()[users])


def test_a_shared_perceptron_beside_personal_tables_is_left_to_blocks() -> None:
    method = replace(TOWER, sync=AdaptiveGuidance(every=1))
    algorithm = algorithm_for(method, TRAIN)
    said = why_not_fused(algorithm, "cpu")
    assert said == "a shared perceptron goes with the shared item table only"
    engine: Engine = CohortEngine()
    assert engine.describe(algorithm).text.startswith("cohort")
    assert OWN_ITEMS in algorithm.private
