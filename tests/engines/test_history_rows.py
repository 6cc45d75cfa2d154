"""Tables that are kept as the rows of histories: nothing is lost, and nothing else is read."""

import numpy as np
import pytest
import torch

from tacit.core.algorithm import Exchange
from tacit.core.types import Initializer, Params, Task, draw_parameter
from tacit.data.views import Lists, TrainView
from tacit.engines.clients import ClientDraws, one_client, put, taken
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.participation import Participants
from tacit.engines.state import first_history_rows
from tacit.methods import FedDAE, FedSpectral
from tacit.streams import INIT, name_of

# the second user has item 4 twice
HISTORIES = Lists(np.array([0, 2, 5]), np.array([1, 3, 4, 0, 4]))
TRAIN = TrainView(6, HISTORIES, np.array([7, 9], np.uint64), Lists.empty(2))
SMALL = FedDAE(hidden=4, latent=2, gate=3, epochs=2)


def dense(method: FedDAE, seed: int) -> Params:
    """Whole private tables, as the method declares them: (U, ...)."""
    return {
        name: draw_parameter(init, seed, INIT, name_of(name), TRAIN.user_key_U, torch.float64)
        for name, init in method.private(Task.of(TRAIN)).items()
    }


@pytest.mark.parametrize("block", [1, 64])
def test_rows_give_what_whole_tables_give(block: int) -> None:
    """Three rounds of the engine, beside three rounds that keep a whole table for each client."""
    engine = CustomEngine(torch.float64, block)
    state = engine.start(SMALL.algorithm(Task.of(TRAIN)), TRAIN, seed=3)
    whole = dense(SMALL, seed=3)
    for number in range(1, 4):
        shared = {name: value.clone() for name, value in state.shared.items()}
        for user in range(2):
            data = ClientDraws.of(
                SMALL.algorithm(Task.of(TRAIN)), Exchange(), TRAIN, 3, number, torch.float64
            ).block(np.array([user]))
            own = {name: value[user] for name, value in whole.items()}
            client = one_client(data)
            kept, _ = SMALL.update(SMALL.broadcast(shared, client.user), own, client, number)
            for name, value in kept.items():
                whole[name][user] = value
        everybody = Participants(np.arange(2), np.ones(2, dtype=bool))
        engine.round(SMALL.algorithm(Task.of(TRAIN)), TRAIN, state, everybody, seed=3)
    found = taken(SMALL.algorithm(Task.of(TRAIN)), TRAIN, state.private, np.arange(2))
    for name, value in whole.items():
        for user in range(2):
            rows = np.unique(HISTORIES[user]) if name in SMALL.history_parameters else slice(None)
            assert torch.allclose(found[name][user][rows], value[user][rows], atol=1e-12), name
    scores = CustomScorer(SMALL.algorithm(Task.of(TRAIN)), TRAIN, state, block)(np.arange(2))
    for user in range(2):
        own = {name: value[user] for name, value in whole.items()}
        client = one_client(
            ClientDraws.of(
                SMALL.algorithm(Task.of(TRAIN)), Exchange(), TRAIN, 3, 1, torch.float64
            ).block(np.array([user]))
        )
        expected = SMALL.score(SMALL.broadcast(state.shared, client.user), own, client)
        assert np.allclose(scores[user], expected.numpy(), atol=1e-12)


def test_only_the_rows_of_histories_are_kept() -> None:
    state = CustomEngine().start(SMALL.algorithm(Task.of(TRAIN)), TRAIN, seed=0)
    assert state.private["local.rows"].shape == (5, 4)
    assert state.private["gate.rows"].shape == (5, 3)
    assert state.private["local.w1"].shape == (2, 4, 4)
    first = state.private["local.rows"]
    assert torch.equal(first[2], first[4])  # the same item begins the same


def test_a_repeated_item_has_one_row() -> None:
    private = CustomEngine().start(SMALL.algorithm(Task.of(TRAIN)), TRAIN, seed=0).private
    kept = taken(SMALL.algorithm(Task.of(TRAIN)), TRAIN, private, np.array([1]))
    assert kept["gate.rows"][0, [1, 2, 3, 5]].abs().max() == 0.0
    kept["gate.rows"][0, 4] = 8.0
    before = private["gate.rows"].clone()
    put(SMALL.algorithm(Task.of(TRAIN)), TRAIN, private, np.array([1]), kept)
    assert private["gate.rows"][2].tolist() == [8.0, 8.0, 8.0]
    assert torch.equal(private["gate.rows"][[0, 1, 3, 4]], before[[0, 1, 3, 4]])
    assert (
        taken(SMALL.algorithm(Task.of(TRAIN)), TRAIN, private, np.array([1]))["gate.rows"][
            0, 4
        ].tolist()
        == [8.0] * 3
    )


def test_tables_that_differ_from_the_start_cannot_be_kept_so() -> None:
    with pytest.raises(ValueError, match="begin the same"):
        first_history_rows(Initializer((6, 1), "normal"), torch.zeros(6, 1), HISTORIES)


def test_methods_without_such_parameters_are_as_before() -> None:
    private = {"user": torch.arange(4.0).view(2, 2)}
    only = taken(FedSpectral().algorithm(Task.of(TRAIN)), TRAIN, private, np.array([1]))
    assert only["user"].tolist() == [[2.0, 3.0]]
