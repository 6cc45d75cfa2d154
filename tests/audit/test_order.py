"""What the audit says of order, on data in which the answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tacit.audit.order import n_common, neighbours, shuffled_order
from tacit.audit.subject import Subject
from tacit.core.central import CentralMethod, HistoryScorer, SettingsAlgorithm
from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, Protocol, SplitRule
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment
from tacit.methods import Popularity
from tacit.testing.synthetic import noise


@dataclass(frozen=True)
class InOrder(SettingsAlgorithm):
    @property
    def reads_order(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Follows:
    count_II: np.ndarray

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        return np.stack([self.count_II[history.item_H[-1]] for history in histories])


@dataclass(frozen=True)
class Chain(CentralMethod):
    """What came one or two steps after the latest item, for anybody."""

    def algorithm(self, task: Task) -> SettingsAlgorithm:
        return InOrder(task, self)

    def fit(self, train: TrainView, setting: int, seed: int) -> HistoryScorer:
        count_II = np.zeros((train.n_items, train.n_items))
        items = train.histories.items
        for user in range(len(items)):
            np.add.at(count_II, (items[user][:-1], items[user][1:]), 1.0)
        return Follows(count_II + count_II @ count_II)


def round_trip(n_users: int = 60, n_items: int = 40, length: int = 12) -> Dataset:
    """Everybody walks along the same circle of items, each from a place of their own."""
    start_U = np.random.default_rng(1).integers(0, n_items, n_users)
    items = (start_U[:, None] + np.arange(length)) % n_items
    rows = Interactions.from_ids(
        np.repeat(np.arange(n_users), length), items.ravel(), time=np.arange(items.size)
    )
    return Dataset("circle", rows)


def subject_of(dataset: Dataset, method=None, protocol: Protocol = CLEAN) -> Subject:
    experiment = Experiment("test", method or Popularity(), rounds=1, protocol=protocol)
    return Subject(experiment, Prepared(dataset, split_dataset(dataset, protocol)))


def test_a_chain_lives_by_order_and_the_control_shows_it() -> None:
    found = shuffled_order(subject_of(round_trip(), Chain()))
    assert found.verdict == "note"
    numbers = found.numbers
    assert numbers["HR@10"] > 0.9  # the test item is two steps after the latest train item
    assert numbers["HR@10"] > numbers["HR@10, shuffled"]
    gain = numbers["HR@10"] - numbers["HR@10, shuffled"]
    assert numbers["HR@10, gain"] == pytest.approx(gain)
    assert 0 < numbers["HR@10, gain from"] <= gain <= numbers["HR@10, gain to"]
    assert found.text.startswith(f"HR@10 is {numbers['HR@10']:.4f} with the true order and ")
    assert f"order gives {gain:+.4f} (95% interval" in found.text
    assert "HR@10, ties at random" not in numbers  # there are none


def test_no_gain_where_nothing_follows_from_anything() -> None:
    found = shuffled_order(subject_of(noise(n_users=150, n_items=60, history=10), Chain()))
    assert found.numbers["HR@10, gain from"] <= 0 <= found.numbers["HR@10, gain to"]
    assert found.text.endswith("which cannot be told from nothing.")


def test_without_a_look_at_order_nothing_is_trained() -> None:
    subject = subject_of(round_trip())
    subject.without_order = lambda: pytest.fail("trained")  # type: ignore[method-assign]
    assert shuffled_order(subject).text == (
        "Does not apply: the method does not look at the order of a history."
    )
    control = replace(CLEAN, name="shuffled_order", history="shuffled")
    again = subject_of(round_trip(), Chain(), control)
    again.without_order = subject.without_order  # type: ignore[method-assign]
    assert shuffled_order(again).text == "Does not apply: histories are shuffled already."


def lists(*words: str) -> Lists:
    items = [ord(letter) - ord("a") for word in words for letter in word]
    start = np.concatenate([[0], np.cumsum([len(word) for word in words])]).astype(np.int64)
    return Lists(start, np.array(items, np.int64))


@pytest.mark.parametrize(
    ("histories", "common"),
    [
        (("abc", "abd", "xab"), 3),  # a -> b for three people: three pairs of them
        (("abc", "bcd", "cba"), 1),  # b -> c twice; c -> b and b -> a are other steps
        (("abab", "ab"), 1),  # twice in one history is one person
        (("aab", "aab"), 1),  # an item after itself is no step
        (("a", "b", "ab"), 0),  # nobody's last item is followed by somebody else's first
    ],
)
def test_common_neighbours_by_hand(histories: tuple[str, ...], common: int) -> None:
    assert n_common(lists(*histories)) == common


def test_a_common_order_is_said_and_a_shuffled_one_is_not() -> None:
    found = neighbours(subject_of(round_trip()))
    assert found.verdict == "note"
    assert found.numbers["ratio"] > 2
    assert "people share an order" in found.text
    assert found.numbers["tied with a neighbour"] == 0
    control = replace(CLEAN, name="shuffled_order", history="shuffled")
    silent = neighbours(subject_of(round_trip(), protocol=control))
    assert silent.verdict == "pass"
    assert "people share no order" in silent.text
    assert neighbours(subject_of(noise())).verdict == "pass"


def test_few_common_neighbours_are_chance() -> None:
    # one pair in common where shuffled histories have none: many times as often, and nothing
    rows = "a1 a2 a3 a4 a5 a6 a7 a8 b1 b2 c3 b9 bx by bz bw"
    users, items = zip(*(row for row in rows.split() if row[0] != "c"), strict=True)
    data = Dataset("few", Interactions.from_ids(users, items, time=np.arange(len(users))))
    found = neighbours(subject_of(data))
    assert found.numbers["common neighbours"] == 1
    assert found.verdict == "pass"


def test_the_order_of_a_file_among_equal_times_is_told_apart() -> None:
    """All times are equal and the file is sorted by item: the order is the file's alone."""
    generator = np.random.default_rng(0)
    users = np.repeat(np.arange(60), 12)
    items = np.concatenate([np.sort(generator.permutation(30)[:12]) for _ in range(60)])
    tied = Interactions.from_ids(users, items, time=np.zeros(len(users), np.int64))
    subject = subject_of(Dataset("tied", tied))
    found = neighbours(subject)
    assert found.verdict == "note"
    assert found.numbers["tied with a neighbour"] == 1.0
    assert found.numbers["ratio, ties at random"] == pytest.approx(1.0, abs=0.3)
    assert "Most of it is the order of rows in the file" in found.text
    # a chain that reads this order reads the file, and the control for ties shows it
    chain = shuffled_order(subject_of(Dataset("tied", tied), Chain())).numbers
    assert chain["HR@10"] > chain["HR@10, ties at random"] + 0.1
    assert chain["HR@10, ties at random"] == chain["HR@10, shuffled"]  # all times are equal
    without = Interactions.from_ids(users, items)
    by_row = replace(CLEAN, split=SplitRule(order="row"))
    said = neighbours(subject_of(Dataset("rows", without), protocol=by_row)).text
    assert said.endswith("there are no times, so this is the order of the file.")
