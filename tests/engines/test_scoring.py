"""Which table a client ranks with, by hand, and that the fast paths give the same logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.method import Method
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.methods import fedmf, fedncf, local_only, pfedrec
from tacit.parts.sync import Replace
from tacit.testing.play import algorithm_for
from tacit.testing.synthetic import ragged

EVERYBODY = np.arange(6)
FIRST, LATER = np.array([0, 1, 2, 3]), np.array([0, 1])  # 2 and 3 sat out, 4 and 5 never came
TRAIN = split_dataset(ragged(n_users=6, n_items=30), CLEAN).train


def played(method: Method) -> tuple[State, list[State]]:
    """Two rounds, the second with fewer people, and the states between."""
    engine, algorithm = LoopEngine(torch.float64), algorithm_for(method, TRAIN)
    state = engine.start(algorithm, TRAIN, 0)
    between = [state.copy()]
    for users in (FIRST, LATER):
        everybody_reports = np.ones(len(users), dtype=bool)
        engine.round(algorithm, TRAIN, state, Participants(users, everybody_reports), 0)
        between.append(state.copy())
    return state, between


def scores(method: Method, state: State) -> np.ndarray:
    return Scorer(algorithm_for(method, TRAIN), state)(EVERYBODY)


def overlaid(table: torch.Tensor, state: State, user: int) -> np.ndarray:
    assert state.tuned is not None
    rows = table.numpy().copy()
    item_R, row_RD = state.tuned.of(user)
    rows[item_R] = row_RD.numpy()
    return rows


def test_tuned_clients_rank_with_the_table_they_really_have() -> None:
    method = pfedrec(dim=4)
    state, (begin, middle, _) = played(method)
    found = scores(method, state)
    broadcast, current = middle.shared["items"], state.shared["items"]
    assert (broadcast - current).abs().max() > 0.1
    for user in EVERYBODY:
        vector = state.private["head.w"][user].numpy()
        bias = state.private["head.b"][user].numpy()
        if user in LATER:  # the table it was sent, with the rows it tuned
            table = overlaid(broadcast, state, user)
        elif user in FIRST:  # today's table, with the rows it tuned a round ago
            table = overlaid(current, state, user)
            assert torch.equal(state.private["head.w"][user], middle.private["head.w"][user])
        else:  # today's table and the first head
            table = current.numpy()
            assert torch.equal(state.private["head.w"][user], begin.private["head.w"][user])
        assert np.allclose(found[user], table @ vector + bias, rtol=0, atol=1e-12)


def test_the_tuned_rows_of_who_sat_out_are_those_of_its_own_round() -> None:
    state, (_, middle, _) = played(pfedrec(dim=4))
    assert state.tuned is not None
    assert middle.tuned is not None
    for user in (2, 3):
        assert np.array_equal(state.tuned.of(user)[0], middle.tuned.of(user)[0])
        assert torch.equal(state.tuned.of(user)[1], middle.tuned.of(user)[1])
    assert not np.array_equal(state.tuned.of(0)[0], middle.tuned.of(0)[0])
    assert len(state.tuned.of(5)[0]) == 0


def test_fedmf_ranks_with_the_current_global_table() -> None:
    method = fedmf(dim=4)
    state, _ = played(method)
    expected = state.private["user"].numpy() @ state.shared["items"].numpy().T
    assert np.allclose(scores(method, state), expected, rtol=0, atol=1e-12)


def test_isolated_clients_rank_with_their_own_table() -> None:
    method = local_only(dim=4)
    state, _ = played(method)
    found = scores(method, state)
    for user in EVERYBODY:
        own = state.private["items.own"][user].numpy()
        expected = (
            own @ state.private["head.w"][user].numpy() + state.private["head.b"][user].numpy()
        )
        assert np.allclose(found[user], expected, rtol=0, atol=1e-12)


def test_a_perceptron_over_tuned_rows_scores_as_row_by_row() -> None:
    method = replace(fedncf(dim=4, layers=(3, 1)), sync=Replace(keep=True))
    state, (_, middle, _) = played(method)
    found = scores(method, state)
    weights = {name: value.numpy() for name, value in state.shared.items() if name != "items"}
    for user in EVERYBODY:
        table = middle.shared["items"] if user in LATER else state.shared["items"]
        rows = overlaid(table, state, user)
        for item in range(len(rows)):
            x = np.concatenate([state.private["user"][user].numpy(), rows[item]])
            hidden = np.maximum(x @ weights["mlp.w0"] + weights["mlp.b0"], 0)
            logit = hidden @ weights["mlp.w1"] + weights["mlp.b1"]
            assert found[user, item] == pytest.approx(logit.item(), abs=1e-12)


@pytest.mark.parametrize("method", [fedmf(dim=4), pfedrec(dim=4), local_only(dim=4)])
def test_blocks_and_order_of_users_change_nothing(method: Method) -> None:
    state, _ = played(method)
    algorithm = algorithm_for(method, TRAIN)
    whole = Scorer(algorithm, state)(EVERYBODY)
    small = Scorer(algorithm, state, block=2)(EVERYBODY)
    assert np.allclose(whole, small, rtol=0, atol=1e-13)
    order = np.array([4, 0, 2])
    assert np.allclose(Scorer(algorithm, state)(order), whole[order], rtol=0, atol=1e-13)


def test_scoring_writes_nothing_into_the_state() -> None:
    method = pfedrec(dim=4)
    state, _ = played(method)
    before = state.copy()
    first = scores(method, state)
    first[:] = 0.0  # nor can who asked
    assert scores(method, state).any()
    for name in state.shared:
        assert torch.equal(state.shared[name], before.shared[name])
    for name in state.private:
        assert torch.equal(state.private[name], before.private[name])
