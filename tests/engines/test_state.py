"""The first state: keyed by the user's id, equal where it must be, and copied whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.optim import Adam
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.engines.state import initial_state
from tacit.errors import TacitError
from tacit.methods import fedmf, fedncf, local_only, pfedrec
from tacit.testing.play import algorithm_for
from tacit.testing.synthetic import ragged


def dataset() -> TrainView:
    return split_dataset(ragged(), CLEAN).train


def test_a_users_first_values_follow_its_id_and_not_its_place() -> None:
    train = dataset()
    order_U = np.arange(train.n_users)[::-1].copy()
    turned = train.take(order_U)
    algorithm = algorithm_for(fedmf(dim=4), train)
    here, there = initial_state(algorithm, train, 3), initial_state(algorithm, turned, 3)
    assert torch.equal(here.private["user"][torch.from_numpy(order_U)], there.private["user"])
    assert torch.equal(here.shared["items"], there.shared["items"])
    assert len(torch.unique(here.private["user"], dim=0)) == train.n_users


def test_parameters_marked_same_begin_equal_for_all_and_in_memory_of_their_own() -> None:
    train = dataset()
    state = initial_state(algorithm_for(pfedrec(dim=4), train), train, 0)
    assert torch.equal(state.private["head.w"], state.private["head.w"][:1].expand(24, 4))
    assert torch.equal(state.private["head.b"], state.private["head.b"][:1].expand(24))
    assert state.private["head.w"].abs().max() <= 0.5  # within 1 / sqrt(4)
    state.private["head.w"][0] += 1
    assert not torch.equal(state.private["head.w"][0], state.private["head.w"][1])


def test_an_own_table_begins_as_the_shared_one_would_distribution_and_all() -> None:
    train = dataset()
    own = initial_state(algorithm_for(local_only(dim=64), train), train, 0).private["items.own"]
    assert own.shape == (24, 50, 64)
    assert torch.equal(own[0], own[23])
    assert own[0].std() == pytest.approx(1.0, abs=0.05)


def test_distributions_and_scales() -> None:
    train = dataset()
    shared = initial_state(algorithm_for(fedncf(dim=32), train), train, 0).shared
    assert shared["items"].std() == pytest.approx(0.1, rel=0.1)
    weight = shared["mlp.w0"]
    bound = (6 / 64) ** 0.5
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.95 * bound
    assert not shared["mlp.b0"].any()
    other = shared["mlp.w1"] / (6 / 32) ** 0.5  # each parameter has a stream of its own
    assert not torch.allclose(other.flatten()[:8], weight.flatten()[:8] / bound, atol=1e-3)


def test_seeds_differ_and_precision_does_not_change_the_draw() -> None:
    train = dataset()
    algorithm = algorithm_for(fedmf(dim=4), train)
    single, double = initial_state(algorithm, train, 0), None
    double = initial_state(algorithm, train, 0, torch.float64)
    assert torch.equal(single.shared["items"], double.shared["items"].float())
    assert not torch.equal(
        single.shared["items"], initial_state(algorithm, train, 1).shared["items"]
    )


def test_only_methods_that_rank_with_tuned_rows_keep_them() -> None:
    train = dataset()
    plain = initial_state(algorithm_for(fedmf(dim=4), train), train, 0)
    assert plain.tuned is None
    assert plain.broadcast is None
    tuned = initial_state(algorithm_for(pfedrec(dim=4), train), train, 0)
    assert tuned.tuned is not None
    assert tuned.broadcast is not None
    assert torch.equal(tuned.broadcast, tuned.shared["items"])
    assert not tuned.tuned.count_U.any()
    # room for what one round can touch, and never more than the catalogue
    sizes = train.positives.size_U
    assert tuned.tuned.room_U[0] == min(50, sizes[0] * 5)
    assert tuned.tuned.room_U.max() <= 50
    assert len(tuned.tuned.value_CD) == 0  # nobody took part yet


def test_persistent_moments_have_a_step_count_per_client() -> None:
    train = dataset()
    method = fedncf(dim=4, layers=(2, 1))
    method = replace(method, local=replace(method.local, model=Adam(lifetime="persistent")))
    state = initial_state(algorithm_for(method, train), train, 0)
    assert state.optimizer["user/first"].shape == (24, 4)
    assert state.optimizer["mlp.w0/second"].shape == (24, 8, 2)
    assert state.optimizer["mlp.b1/steps"].shape == (24,)
    assert "items/first" not in state.optimizer


def test_a_copy_shares_nothing() -> None:
    train = dataset()
    algorithm = algorithm_for(pfedrec(dim=4), train)
    engine = LoopEngine()
    state = engine.start(algorithm, train, 0)
    engine.round(algorithm, train, state, Participation(ratio=0.5).draw(train, 0, 1), 0)
    copy = state.copy()
    assert copy.round_number == 1
    assert copy.loss == state.loss
    before = copy.copy()
    for number in (2, 3):
        engine.round(algorithm, train, state, Participation().draw(train, 0, number), 0)
    assert torch.equal(copy.shared["items"], before.shared["items"])
    assert not torch.equal(copy.shared["items"], state.shared["items"])
    assert torch.equal(copy.private["head.w"], before.private["head.w"])
    assert np.array_equal(copy.fresh_U, before.fresh_U)
    assert not copy.fresh_U.all()
    assert copy.tuned is not None
    assert before.tuned is not None
    assert torch.equal(copy.tuned.value_CD, before.tuned.value_CD)
    assert np.array_equal(copy.tuned.item_C, before.tuned.item_C)


def test_tables_that_do_not_fit_are_refused(monkeypatch) -> None:
    monkeypatch.setattr("tacit.engines.state.available_bytes", lambda: 24 * 50 * 64 * 4)
    train = dataset()
    with pytest.raises(
        TacitError, match=r"What 24 clients keep \(64 wide\) needs .* backbone.dim=62 would fit"
    ):
        initial_state(algorithm_for(local_only(dim=64), train), train, 0)
    initial_state(algorithm_for(local_only(dim=60), train), train, 0)
