"""The engine for methods that speak for themselves, against sums made by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.core.custom import ClientData, DirectMethod
from tacit.core.types import Init, Params, Task
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.views import Lists, TrainView
from tacit.engines.custom import DirectEngine, DirectScorer
from tacit.engines.newcomer import direct_newcomer_scores
from tacit.engines.participation import Participants
from tacit.engines.ragged import RoundData

HISTORIES = [[0, 2], [1], [2, 1, 0], [3]]


@dataclass(frozen=True)
class Tally:
    """Counts: each client adds its place plus one to the rows of its history, and one to a dense
    leaf; it remembers how often it played."""

    speaks: int = 99  # rounds up to this one send
    sampling: Sampling | None = None

    reads = "sum"
    row_leaves = frozenset({"rows"})

    def shared(self, task: Task) -> dict[str, Init]:
        return {"table": Init((task.n_items, 1)), "clients": Init(()), "steps": Init(())}

    def private(self, task: Task) -> dict[str, Init]:
        return {"played": Init((1,))}

    def noise(self, task: Task) -> dict[str, Init]:
        return {"coin": Init((3,), "normal"), "flat": Init((2,), "uniform", 0.5)}

    def sends(self, round_number: int) -> bool:
        return round_number <= self.speaks

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {"table": shared["table"]}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        # nothing here is zero on padding: the engine has to take it out
        rows = (data.user + 1).to(data.real_H).expand(len(data.history_H), 1)
        return {"played": private["played"] + 1}, {"rows": rows, "one": data.real_H.new_ones(())}

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        assert all(leaf.dtype == torch.float64 for leaf in (*shared.values(), *total.values()))
        steps = shared["steps"] + 1
        if not total:
            return {**shared, "steps": steps}
        assert float(total["one"]) == n_clients
        return {"table": total["rows"], "clients": total["one"], "steps": steps}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        assert data.item_N.shape[-1] == 0
        assert not data.noise
        return received["table"][:, 0] + 100 * private["played"] + data.real_H.sum()

    def says(self) -> list[str]:
        return ["everything"]


def small_train() -> TrainView:
    users = np.repeat(np.arange(4), [len(history) for history in HISTORIES])
    lists = Lists.from_pairs(users, np.concatenate(HISTORIES), n_lists=4)
    return TrainView(5, lists, np.array([11, 12, 13, 14], np.uint64), Lists.empty(4))


def everybody() -> Participants:
    return Participants(np.arange(4), np.ones(4, dtype=bool))


def test_the_toy_is_a_direct_method() -> None:
    assert isinstance(Tally(), DirectMethod)


@pytest.mark.parametrize("block", [1, 2, 64, None])
def test_rows_are_added_where_they_belong(block: int | None) -> None:
    train, engine = small_train(), DirectEngine(torch.float32, block)
    state = engine.start(Tally(), train, seed=0)
    engine.round(Tally(), train, state, everybody(), seed=0)
    # item 0: users 0 and 2; item 1: users 1 and 2; item 2: users 0 and 2; item 3: user 3
    assert state.shared["table"][:, 0].tolist() == [1 + 3, 2 + 3, 1 + 3, 4, 0]
    assert state.shared["table"].dtype == torch.float32
    assert state.round_number == 1


@pytest.mark.parametrize("block", [1, 64])
def test_who_drops_out_has_played_but_is_not_counted(block: int) -> None:
    train, engine = small_train(), DirectEngine(block=block)
    state = engine.start(Tally(), train, seed=0)
    some = Participants(np.array([0, 1, 2]), np.array([True, True, False]))
    engine.round(Tally(), train, state, some, seed=0)
    assert state.shared["table"][:, 0].tolist() == [1, 2, 1, 0, 0]
    assert state.shared["clients"].item() == 2
    assert state.private["played"][:, 0].tolist() == [1, 1, 1, 0]
    assert state.fresh_U.tolist() == [True, True, True, False]


def test_a_server_that_nobody_answers_does_not_step() -> None:
    train, engine = small_train(), DirectEngine()
    state = engine.start(Tally(), train, seed=0)
    engine.round(Tally(), train, state, Participants(np.arange(2), np.zeros(2, bool)), seed=0)
    assert state.shared["steps"].item() == 0
    assert state.round_number == 1


def test_in_a_silent_round_the_server_steps_alone() -> None:
    train, engine, method = small_train(), DirectEngine(), Tally(speaks=1)
    state = engine.start(method, train, seed=0)
    for _ in range(3):
        engine.round(method, train, state, everybody(), seed=0)
    assert state.shared["steps"].item() == 3
    assert state.shared["table"][0].item() == 4  # of the first round, and not again
    assert state.private["played"][:, 0].tolist() == [3] * 4


def test_samples_are_those_of_the_readable_draw() -> None:
    train, method = small_train(), Tally(sampling=Sampling(negatives=2))
    columns = RoundData.begin(method, train, 7, 3, torch.float64).block(np.arange(4))
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
        data = RoundData.begin(Tally(), train, 0, round_number, torch.float64)
        return data.block(np.array(users))[6]

    together, alone = drawn(1, [0, 1]), drawn(1, [1])
    assert torch.equal(together["coin"][1], alone["coin"][0])
    assert not torch.equal(together["coin"][0], together["coin"][1])
    assert not torch.equal(drawn(2, [1])["coin"], alone["coin"])
    assert drawn(1, [0])["flat"].abs().max() <= 0.5
    assert drawn(1, [0])["flat"].shape == (1, 2)


def test_scores_read_the_history_and_the_clients_own_leaves() -> None:
    train, engine = small_train(), DirectEngine()
    state = engine.start(Tally(), train, seed=0)
    engine.round(Tally(), train, state, everybody(), seed=0)
    for block in (1, 3):
        score_BI = DirectScorer(Tally(), train, state, block)(np.array([2, 1]))
        assert score_BI[0].tolist() == [107, 108, 107, 107, 103]
        assert score_BI[1].tolist() == [105, 106, 105, 105, 101]


def test_a_newcomer_plays_alone_and_moves_nothing() -> None:
    train, engine = small_train(), DirectEngine()
    state = engine.start(Tally(), train, seed=0)
    engine.round(Tally(), train, state, everybody(), seed=0)
    before = {leaf: value.clone() for leaf, value in state.shared.items()}
    score_I = direct_newcomer_scores(
        Tally(), state.shared, np.array([4, 1]), n_items=5, name=99, seed=0, rounds=3
    )
    assert score_I.tolist() == [306, 307, 306, 306, 302]
    assert all(torch.equal(before[leaf], value) for leaf, value in state.shared.items())


def test_large_leaves_make_small_blocks() -> None:
    task = Task(n_users=4, n_items=2**21)
    assert DirectEngine().block_size(Tally(), task) == 7
    assert "blocks of 7 clients" in DirectEngine().describe(Tally(), task)
    assert "one client after another" in DirectEngine(block=1).describe(Tally(), task)
