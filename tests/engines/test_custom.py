"""The engine for custom algorithms, against sums made by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.core.algorithm import ClientData, Exchange
from tacit.core.custom import CustomMethod
from tacit.core.types import Initializer, Params, Task
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.views import History, Lists, TrainView
from tacit.engines.clients import ClientDraws
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import custom_newcomer_scores
from tacit.engines.participation import Participants

HISTORIES = [[0, 2], [1], [2, 1, 0], [3]]


@dataclass(frozen=True)
class Tally(CustomMethod):
    """Counts: each client adds its place plus one to the rows of its history, and one to a dense
    parameter; it remembers how often it played."""

    speaks: int = 99  # rounds up to this one send
    sampling: Sampling | None = None

    reads = "sum"
    row_parameters = frozenset({"table"})

    def shared(self, task: Task) -> dict[str, Initializer]:
        return {
            "table": Initializer((task.n_items, 1)),
            "clients": Initializer(()),
            "steps": Initializer(()),
        }

    def private(self, task: Task) -> dict[str, Initializer]:
        return {"played": Initializer((1,))}

    def noise(self, task: Task) -> dict[str, Initializer]:
        return {"coin": Initializer((3,), "normal"), "flat": Initializer((2,), "uniform", 0.5)}

    def sends(self, round_number: int) -> bool:
        return round_number <= self.speaks

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {"table": shared["table"]}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        # nothing here is zero on padding: the engine has to take it out
        rows = (data.user + 1).to(data.real_H).expand(len(data.history_H), 1)
        return {"played": private["played"] + 1}, {
            "table": rows,
            "clients": data.real_H.new_ones(()),
        }

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        assert all(
            parameter.dtype == torch.float64 for parameter in (*shared.values(), *total.values())
        )
        steps = shared["steps"] + 1
        if not total:
            return {**shared, "steps": steps}
        assert float(total["clients"]) == n_clients
        return {"table": total["table"], "clients": total["clients"], "steps": steps}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        assert data.item_N.shape[-1] == 0
        assert not data.noise
        return received["table"][:, 0] + 100 * private["played"] + data.real_H.sum()

    def interpretation(self) -> list[str]:
        return ["everything"]


def small_train() -> TrainView:
    users = np.repeat(np.arange(4), [len(history) for history in HISTORIES])
    lists = Lists.from_pairs(users, np.concatenate(HISTORIES), n_lists=4)
    return TrainView(5, lists, np.array([11, 12, 13, 14], np.uint64), Lists.empty(4))


def everybody() -> Participants:
    return Participants(np.arange(4), np.ones(4, dtype=bool))


@pytest.mark.parametrize("block", [1, 2, 64, None])
def test_rows_are_added_where_they_belong(block: int | None) -> None:
    train, engine = small_train(), CustomEngine(torch.float32, block)
    state = engine.start(Tally().algorithm(Task.of(train)), train, seed=0)
    engine.round(Tally().algorithm(Task.of(train)), train, state, everybody(), seed=0)
    # item 0: users 0 and 2; item 1: users 1 and 2; item 2: users 0 and 2; item 3: user 3
    assert state.shared["table"][:, 0].tolist() == [1 + 3, 2 + 3, 1 + 3, 4, 0]
    assert state.shared["table"].dtype == torch.float32
    assert state.round_number == 1


@pytest.mark.parametrize("block", [1, 64])
def test_who_drops_out_has_played_but_is_not_counted(block: int) -> None:
    train, engine = small_train(), CustomEngine(block=block)
    state = engine.start(Tally().algorithm(Task.of(train)), train, seed=0)
    some = Participants(np.array([0, 1, 2]), np.array([True, True, False]))
    engine.round(Tally().algorithm(Task.of(train)), train, state, some, seed=0)
    assert state.shared["table"][:, 0].tolist() == [1, 2, 1, 0, 0]
    assert state.shared["clients"].item() == 2
    assert state.private["played"][:, 0].tolist() == [1, 1, 1, 0]
    assert state.fresh_U.tolist() == [True, True, True, False]


def test_a_server_that_nobody_answers_does_not_step() -> None:
    train, engine = small_train(), CustomEngine()
    state = engine.start(Tally().algorithm(Task.of(train)), train, seed=0)
    engine.round(
        Tally().algorithm(Task.of(train)),
        train,
        state,
        Participants(np.arange(2), np.zeros(2, bool)),
        seed=0,
    )
    assert state.shared["steps"].item() == 0
    assert state.round_number == 1


def test_in_a_silent_round_the_server_steps_alone() -> None:
    train, engine, method = small_train(), CustomEngine(), Tally(speaks=1)
    state = engine.start(method.algorithm(Task.of(train)), train, seed=0)
    for _ in range(3):
        engine.round(method.algorithm(Task.of(train)), train, state, everybody(), seed=0)
    assert state.shared["steps"].item() == 3
    assert state.shared["table"][0].item() == 4  # of the first round, and not again
    assert state.private["played"][:, 0].tolist() == [3] * 4


def test_samples_are_those_of_the_readable_draw() -> None:
    train, method = small_train(), Tally(sampling=Sampling(negatives=2))
    columns = ClientDraws.of(
        method.algorithm(Task.of(train)), Exchange(), train, 7, 3, torch.float64
    ).block(np.arange(4))
    assert method.sampling is not None
    for user in range(4):
        item_N, label_N = draw_samples(
            train, user, method.sampling, seed=7, round_number=3, epoch=0
        )
        real = columns[5][user] > 0
        assert columns[3][user][real].tolist() == item_N.tolist()
        assert columns[4][user][real].tolist() == label_N.tolist()
        assert columns[5][user][real].tolist() == [1 / len(item_N)] * len(item_N)


def test_noise_belongs_to_a_client_and_a_round() -> None:
    train = small_train()

    def drawn(round_number: int, users: list[int]) -> Params:
        data = ClientDraws.of(
            Tally().algorithm(Task.of(train)), Exchange(), train, 0, round_number, torch.float64
        )
        return data.block(np.array(users))[6]

    together, alone = drawn(1, [0, 1]), drawn(1, [1])
    assert torch.equal(together["coin"][1], alone["coin"][0])
    assert not torch.equal(together["coin"][0], together["coin"][1])
    assert not torch.equal(drawn(2, [1])["coin"], alone["coin"])
    assert drawn(1, [0])["flat"].abs().max() <= 0.5
    assert drawn(1, [0])["flat"].shape == (1, 2)


def test_scores_read_the_history_and_the_clients_own_parameters() -> None:
    train, engine = small_train(), CustomEngine()
    state = engine.start(Tally().algorithm(Task.of(train)), train, seed=0)
    engine.round(Tally().algorithm(Task.of(train)), train, state, everybody(), seed=0)
    for block in (1, 3):
        score_BI = CustomScorer(Tally().algorithm(Task.of(train)), train, state, block)(
            np.array([2, 1])
        )
        assert score_BI[0].tolist() == [107, 108, 107, 107, 103]
        assert score_BI[1].tolist() == [105, 106, 105, 105, 101]


def test_a_newcomer_plays_alone_and_moves_nothing() -> None:
    train, engine = small_train(), CustomEngine()
    state = engine.start(Tally().algorithm(Task.of(train)), train, seed=0)
    engine.round(Tally().algorithm(Task.of(train)), train, state, everybody(), seed=0)
    before = {name: value.clone() for name, value in state.shared.items()}
    score_I = custom_newcomer_scores(
        Tally().algorithm(Task.of(train)),
        state.shared,
        History(np.array([4, 1])),
        name=99,
        seed=0,
        rounds=3,
    )
    assert score_I.tolist() == [306, 307, 306, 306, 302]
    assert all(torch.equal(before[name], value) for name, value in state.shared.items())


def test_large_parameters_make_small_blocks() -> None:
    task = Task(n_users=4, n_items=2**21)
    assert CustomEngine().block_size(Tally().algorithm(task)) == 7
    assert "blocks of 7 clients" in CustomEngine().describe(Tally().algorithm(task)).text
    assert (
        "one client after another" in CustomEngine(block=1).describe(Tally().algorithm(task)).text
    )


@dataclass(frozen=True)
class LatestFirst(CustomMethod):
    """Scores an item of the history by its position in time, plus one."""

    reads_order = True

    def shared(self, task: Task) -> dict[str, Initializer]:
        return {"table": Initializer((task.n_items,))}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        return {}, {"table": self.score(received, private, data)}

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        return total

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        assert data.order_H is not None
        position_H = (data.order_H + 1) * data.real_H
        return torch.zeros_like(received["table"]).index_add(0, data.history_H, position_H)


@pytest.mark.parametrize("block", [1, 3])
def test_the_order_of_a_history_is_given_where_it_is_asked_for(block: int) -> None:
    plain = small_train()
    times = np.array([9, 3, 5, 1, 2, 0, 7])  # histories are [0, 2], [1], [2, 1, 0], [3]
    train = TrainView(5, plain.positives, plain.user_key_U, Lists.empty(4), time_N=times)
    algorithm = LatestFirst().algorithm(Task.of(train))
    engine = LoopEngine() if block == 1 else CustomEngine(block=block)
    state = engine.start(algorithm, train, seed=0)
    engine.round(algorithm, train, state, everybody(), seed=0)
    # 0 is the later of user 0's two and the earliest of user 2's three, and so on
    assert state.shared["table"].tolist() == [2 + 1, 1 + 3, 1 + 2, 1, 0]
    score_BI = CustomScorer(algorithm, train, state, block)(np.array([0, 2]))
    assert score_BI.tolist() == [[2, 0, 1, 0, 0], [1, 3, 2, 0, 0]]
