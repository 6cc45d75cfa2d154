"""What a method sees of a history: its order and its times, and never what is held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, SplitRule, among_cold_items
from tacit.data.split import TRAIN, part_of_rows, split_dataset
from tacit.data.views import HistoryOrder, Lists, TrainView
from tacit.errors import TacitError
from tacit.testing.synthetic import ragged

BOTH = pytest.mark.parametrize("ties", ["first_row", "last_row"])


def make(rows: str, time: list[float] | None = None) -> Dataset:
    users, items = zip(*rows.split(), strict=True)
    return Dataset("hand", Interactions.from_ids(list(users), list(items), time=time))


def told(dataset: Dataset, train: TrainView, name: str) -> str:
    """One user's history as a word, by the original names."""
    rows = dataset.interactions
    history = train.history(rows.users.index(name))
    return "".join(rows.items[item] for item in history.item_H)


def test_times_order_a_history_and_positives_keep_the_order_of_the_file() -> None:
    data = make("ua vb ub uc vc ud va vd ue ve", [9, 1, 2, 8, 4, 1, 3, 2, 0, 6])
    train = split_dataset(data, CLEAN).train
    assert [told(data, train, name) for name in "uv"] == ["edb", "bda"]
    rows = data.interactions
    own = [rows.items[item] for item in train.positives[rows.users.index("u")]]
    assert own == ["b", "d", "e"]
    assert train.history(0).time_H.tolist() == [0, 1, 2]
    assert train.order_N.tolist() == [2, 1, 0, 0, 2, 1]
    assert train.histories.order == HistoryOrder("time", ties=0)


def test_without_times_the_order_is_that_of_the_file_and_said_so() -> None:
    data = make("ub ua vc uc va vb ud")
    train = split_dataset(data, replace(CLEAN, split=SplitRule(order="row"))).train
    assert [told(data, train, name) for name in "uv"] == ["ba", "c"]
    assert train.history(0).time_H is None
    assert train.order_N.tolist() == [0, 1, 0]
    assert train.histories.order == HistoryOrder("file")


@pytest.mark.parametrize(
    "time", [["x", "b", "a", "c"], [1.0, np.nan, 3.0, 0.0]], ids=["text", "missing"]
)
def test_times_that_give_no_whole_order_are_as_none(time: list[object]) -> None:
    data = make("ua ub uc ud", time)  # type: ignore[arg-type]
    train = split_dataset(data, replace(CLEAN, split=SplitRule(order="row"))).train
    assert told(data, train, "u") == "ab"
    assert train.histories.order == HistoryOrder("file")


def test_dates_are_numbers() -> None:
    days = np.array(["2024-01-03", "2024-01-01", "2024-01-09", "2024-01-08"], "datetime64[D]")
    train = split_dataset(make("ua ub uc ud", days), CLEAN).train  # type: ignore[arg-type]
    assert np.diff(train.history(0).time_H).tolist() == [2]


@BOTH
def test_tied_rows_stand_as_the_split_orders_them(ties: str) -> None:
    data = make("ua ub uc ud ue uf", [5, 5, 5, 5, 5, 1])
    rule = SplitRule(ties=ties)  # type: ignore[arg-type]
    split = split_dataset(data, replace(CLEAN, split=rule))
    held = [data.interactions.items[part.relevant[0][0]] for part in (split.valid, split.test)]
    whole = told(data, split.train, "u") + "".join(held)
    assert whole == {"last_row": "fabcde", "first_row": "fedcba"}[ties]
    assert split.train.histories.order == HistoryOrder("time", ties=2)  # of f e d c


def test_ties_of_different_users_are_none() -> None:
    train = split_dataset(make("ua ub uc va vb vc", [1, 2, 3, 1, 2, 3]), CLEAN).train
    assert train.histories.order == HistoryOrder("time", ties=0)


def test_a_view_needs_one_time_for_each_entry() -> None:
    lists = Lists(np.array([0, 2]), np.array([0, 1]))
    keys = np.zeros(1, np.uint64)
    with pytest.raises(TacitError, match="3 times for 2 train interactions"):
        TrainView(2, lists, keys, Lists.empty(1), time_N=np.zeros(3))


def test_users_that_are_moved_keep_their_histories() -> None:
    train = split_dataset(ragged(), CLEAN).train
    order_T = np.random.default_rng(3).permutation(train.n_users)[: train.n_users // 2]
    moved = train.take(order_T)
    assert moved.histories.order.by == train.histories.order.by == "time"
    packed = train.histories.take(order_T)
    for new, old in enumerate(order_T):
        for one in (moved.history(new), packed[new]):
            assert one.item_H.tolist() == train.history(old).item_H.tolist()
            assert one.time_H.tolist() == train.history(old).time_H.tolist()


def test_items_that_do_not_exist_yet_leave_the_order_of_the_others() -> None:
    lists = Lists(np.array([0, 4, 6]), np.array([6, 1, 3, 2, 3, 6]))
    time_N = np.array([8, 7, 5, 5, 2, 1])
    view = TrainView(
        8,
        lists,
        np.arange(2, dtype=np.uint64),
        Lists.empty(2),
        time_N=time_N,
        warm_W=np.arange(2, 7),
    )
    assert view.order_N.tolist() == [3, 2, 0, 1, 1, 0]
    there = view.existing()
    assert there.order_N.tolist() == [2, 0, 1, 1, 0]
    assert [there.history(user).item_H.tolist() for user in (0, 1)] == [[1, 0, 4], [4, 1]]
    assert [there.history(user).time_H.tolist() for user in (0, 1)] == [[5, 5, 8], [1, 2]]
    assert there.histories.order == HistoryOrder("time", ties=1)


def test_a_cold_split_keeps_times_and_holds_no_cold_item() -> None:
    data = ragged()
    split = split_dataset(data, among_cold_items(CLEAN))
    there = split.train.existing()
    assert there.histories.order.by == "time"
    warm_W = split.train.warm_W
    for user in range(there.n_users):
        whole, some = split.train.history(user), there.history(user)
        assert warm_W[some.item_H].tolist() == whole.item_H.tolist()
        assert some.time_H.tolist() == whole.time_H.tolist()
        assert (np.diff(some.time_H) >= 0).all()


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5)), min_size=8)


def dataset_of(rows: list[tuple[int, int, int]]) -> Dataset:
    user, item, time = zip(*rows, strict=True)
    names = [f"u{one}" for one in user], [f"i{one}" for one in item]
    return Dataset("drawn", Interactions.from_ids(*names, time=time))


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, ties=st.sampled_from(["first_row", "last_row"]))
def test_a_history_is_the_train_rows_sorted_and_nothing_held_out(
    rows: list[tuple[int, int, int]], ties: str
) -> None:
    """Against a sort in plain Python, for any rows, repeated and tied ones included."""
    data = dataset_of(rows)
    protocol = replace(CLEAN, split=SplitRule(ties=ties), duplicates="keep")  # type: ignore[arg-type]
    try:
        train = split_dataset(data, protocol).train
    except TacitError:  # nobody has three interactions
        return
    part_N = part_of_rows(data, protocol.split)
    names = data.interactions
    sign = 1 if ties == "last_row" else -1
    for user, name in enumerate(names.users):
        own = [
            (time, sign * row, f"i{item}")
            for row, (who, item, time) in enumerate(rows)
            if f"u{who}" == name and part_N[row] == TRAIN
        ]
        history = train.history(user)
        assert [names.items[item] for item in history.item_H] == [item for *_, item in sorted(own)]
        assert history.time_H.tolist() == sorted(time for time, *_ in own)
        first, last = train.positives.start_U1[user : user + 2]
        position = np.empty(len(history), np.int64)
        position[train.order_N[first:last]] = train.positives[user]
        assert position.tolist() == history.item_H.tolist()


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000))
def test_shuffled_lines_of_a_file_change_no_history_where_times_are_distinct(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = [
        (n % 3, item, int(time))
        for n, (item, time) in enumerate(
            zip(generator.permutation(24) % 9, generator.permutation(24), strict=True)
        )
    ]
    moved = [rows[place] for place in generator.permutation(len(rows))]
    protocol = replace(CLEAN, duplicates="keep")
    one, two = dataset_of(rows), dataset_of(moved)
    here, there = (split_dataset(data, protocol).train for data in (one, two))
    for name in one.interactions.users:
        assert told(one, here, name) == told(two, there, name)
