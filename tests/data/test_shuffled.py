"""The control without order: shuffled histories, marked wherever their numbers stand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, SplitRule, among_cold_items
from tacit.data.replay import DrawnNegatives
from tacit.data.sampling import Sampling
from tacit.data.split import SHUFFLED, split_dataset
from tacit.data.views import HistoryOrder
from tacit.errors import TacitError
from tacit.experiment.resolve import override, resolve
from tacit.streams import HISTORY_ORDER, uniforms
from tacit.testing.synthetic import ragged

CONTROL = replace(CLEAN, name="shuffled_order", history="shuffled")


def test_each_history_is_permuted_by_its_own_stream() -> None:
    train = split_dataset(ragged(), CLEAN).train
    other = train.shuffled(seed=4)
    moved = 0
    for user in range(train.n_users):
        own, new = train.positives[user], other.history(user)
        drawn = uniforms(4, HISTORY_ORDER, 0, train.user_key_U[user : user + 1], len(own))[0]
        assert new.item_H.tolist() == own[np.argsort(drawn)].tolist()
        assert new.time_H.tolist() == train.history(user).time_H.tolist()
        moved += new.item_H.tolist() != train.history(user).item_H.tolist()
    assert moved > train.n_users // 2
    assert other.histories.order == HistoryOrder("shuffled")
    start_N = np.repeat(train.positives.start_U1[:-1], train.positives.size_U)
    again = other.positives.item_N[np.argsort(start_N + other.order_N)]
    assert again.tolist() == other.histories.items.item_N.tolist()


def test_nothing_but_the_order_changes() -> None:
    one, two = split_dataset(ragged(), CLEAN), split_dataset(ragged(), CONTROL)
    assert one.train.positives.item_N.tolist() == two.train.positives.item_N.tolist()
    for part in ("valid", "test"):
        for lists in ("relevant", "masked", "sampled"):
            first, second = (getattr(getattr(split, part), lists) for split in (one, two))
            assert first.item_N.tolist() == second.item_N.tolist()
    drawn = [
        DrawnNegatives.of(
            split.train, Sampling(2), seed=0, rounds=[(1, np.arange(24))], epochs=1
        ).rounds_BI(np.arange(24))
        for split in (one, two)
    ]
    assert np.array_equal(*drawn)


def test_tied_and_absent_times_are_shuffled_too() -> None:
    users, items = ["u"] * 9, list("abcdefghi")
    for time, rule in (([5] * 9, SplitRule()), (None, SplitRule(order="row"))):
        data = Dataset("flat", Interactions.from_ids(users, items, time=time))
        found = {
            tuple(
                split_dataset(data, replace(CONTROL, split=replace(rule, seed=seed)))
                .train.history(0)
                .item_H
            )
            for seed in range(5)
        }
        assert len(found) == 5


def test_ties_alone_are_shuffled_within_their_time() -> None:
    data = Dataset(
        "t", Interactions.from_ids("uuuuuuuu", "abcdefgh", time=[1, 2, 2, 2, 2, 3, 8, 9])
    )
    train = split_dataset(data, CLEAN).train
    seen = {
        "".join("abcdefgh"[i] for i in train.ties_shuffled(s).history(0).item_H) for s in range(9)
    }
    assert len(seen) > 4
    assert {(word[0], "".join(sorted(word[1:5])), word[5]) for word in seen} == {("a", "bcde", "f")}
    assert train.ties_shuffled(0).history(0).time_H.tolist() == [1, 2, 2, 2, 2, 3]
    by_row = split_dataset(
        Dataset("r", Interactions.from_ids("uuuu", "abcd")),
        replace(CLEAN, split=SplitRule(order="row")),
    ).train
    assert by_row.ties_shuffled(0) is by_row


def test_moved_users_and_missing_items_keep_their_shuffled_order() -> None:
    train = split_dataset(ragged(), CONTROL).train
    some = np.array([7, 2, 11])
    moved, packed = train.take(some), train.histories.take(some)
    for new, old in enumerate(some):
        for one in (moved.history(new), packed[new]):
            assert one.item_H.tolist() == train.history(old).item_H.tolist()
    assert moved.histories.order == packed.order == HistoryOrder("shuffled")
    cold = replace(among_cold_items(CONTROL), name="shuffled_order")
    view = split_dataset(ragged(), cold).train
    assert view.warm_W is not None
    there = view.existing()
    for user in range(view.n_users):
        assert (
            view.warm_W[there.history(user).item_H].tolist() == view.history(user).item_H.tolist()
        )


def test_the_control_is_never_called_clean() -> None:
    setting = "protocol.history=shuffled"
    control = resolve("popularity", sets=[setting])
    assert (control.protocol.name, control.protocol.is_clean) == ("shuffled_order", False)
    assert resolve("pfedrec", protocol="paper", sets=[setting]).protocol.name == (
        "pfedrec_shuffled_order"
    )
    both = resolve("popularity", sets=[setting, "protocol.duplicates=keep"])
    assert both.protocol.name == "custom_shuffled_order"
    assert override(control, seed=3).protocol.name == "shuffled_order"
    assert override(resolve("popularity"), sets=[setting]).protocol == control.protocol
    with pytest.raises(TacitError, match=r"named 'clean' but .* shuffles histories"):
        replace(control, protocol=replace(control.protocol, name="clean")).check()


def test_a_run_of_the_control_says_so_everywhere(tmp_path) -> None:
    record = tacit.run(resolve("popularity", sets=["protocol.history=shuffled"]), tmp_path / "one")
    assert (record.protocol, record.clean) == ("shuffled_order", False)
    assert SHUFFLED in record.cautions
    assert SHUFFLED in record.notes
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert "Not comparable with clean numbers: this is a control, in which the order" in page
    clean = tacit.run(resolve("popularity"), tmp_path / "two")
    assert record.metrics == clean.metrics  # popularity reads no order
