"""Draws of training samples: what may be drawn, how evenly, and on what a draw depends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, PFEDREC, SplitRule
from tacit.data.replay import DrawnNegatives
from tacit.data.sampling import (
    Sampling,
    client_keys,
    draw_client,
    draw_ordered,
    draw_samples,
    samples_per_user,
)
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.errors import TacitError


def view(
    positives: list[list[int]],
    n_items: int,
    hidden: list[list[int]] | None = None,
    keys: list[int] | None = None,
) -> TrainView:
    def packed(lists: list[list[int]]) -> Lists:
        user = np.repeat(np.arange(len(lists)), [len(items) for items in lists])
        flat = np.array([item for items in lists for item in items], dtype=np.int64)
        return Lists.from_pairs(user, flat, len(lists))

    user_keys = np.array(keys or range(100, 100 + len(positives)), dtype=np.uint64)
    return TrainView(
        n_items, packed(positives), user_keys, packed(hidden or [[] for _ in positives])
    )


def ordered(
    positives: list[int], hidden: list[int], n_items: int, n_negatives: int, key: int = 7
) -> tuple[list[int], list[int], np.ndarray]:
    most = len(positives) * (1 + n_negatives)
    item, label = np.full(most, -9, np.int64), np.full(most, 9, np.uint8)
    blocked = np.zeros(n_items, np.uint8)
    n = draw_ordered(
        np.uint64(key),
        np.array(positives, np.int64),
        np.array(hidden, np.int64),
        n_items,
        n_negatives,
        item,
        label,
        blocked,
    )
    return item[:n].tolist(), label[:n].tolist(), blocked


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_items=st.integers(1, 40), n_negatives=st.integers(0, 6))
def test_every_draw_keeps_the_rules(data: st.DataObject, n_items: int, n_negatives: int) -> None:
    items = st.integers(0, n_items - 1)
    positives = data.draw(st.lists(items, min_size=1, max_size=30))  # may repeat: kept duplicates
    hidden = data.draw(st.lists(items, max_size=10))
    key = data.draw(st.integers(0, 2**64 - 1))
    drawn, label, blocked = ordered(positives, hidden, n_items, n_negatives, key)
    pool = set(range(n_items)) - set(positives) - set(hidden)
    width = 1 + min(n_negatives, len(pool))
    assert len(drawn) == len(positives) * width
    assert drawn[::width] == positives
    assert label == ([1] + [0] * (width - 1)) * len(positives)
    for j in range(len(positives)):
        negatives = drawn[j * width + 1 : (j + 1) * width]
        assert set(negatives) <= pool
        assert len(set(negatives)) == len(negatives)
    assert not blocked.any()  # the bitmap goes back as it came


def test_negatives_are_uniform_over_the_pool() -> None:
    positives = list(range(20))
    count = np.zeros(50)
    for key in range(300):
        drawn, label, _ = ordered(positives, [20, 21], 50, 4, key)
        count += np.bincount(np.array(drawn)[np.array(label) == 0], minlength=50)
    assert count[:22].sum() == 0
    expected = 300 * 20 * 4 / 28
    chi_square = ((count[22:] - expected) ** 2 / expected).sum()
    assert chi_square < 55.5  # 0.999 quantile, 27 degrees of freedom
    assert chi_square > 5.0  # and not suspiciously even (below the 1e-6 quantile)


def test_nearly_full_user_ends_and_stays_uniform() -> None:
    # 4,990 of 5,000 items are positives: 64 refusals in a row are the rule, the exact choice draws.
    positives = list(range(4990))
    drawn, label, _ = ordered(positives, [], 5000, 4)
    negatives = np.array(drawn)[np.array(label) == 0]
    count = np.bincount(negatives, minlength=5000)[4990:]
    assert count.sum() == 4990 * 4
    expected = 4990 * 4 / 10
    assert ((count - expected) ** 2 / expected).sum() < 27.9  # 0.999 quantile, 9 degrees of freedom


def test_small_and_empty_pools() -> None:
    drawn, label, _ = ordered([0, 1, 2], [3], 6, 4)
    assert label == [1, 0, 0] * 3
    assert [sorted(drawn[j + 1 : j + 3]) for j in (0, 3, 6)] == [[4, 5]] * 3
    drawn, label, _ = ordered([0, 1], [2], 3, 4)
    assert (drawn, label) == ([0, 1], [1, 1])


def test_samples_per_user() -> None:
    train = view([[0, 1], [0, 1, 2, 3], [4], [2, 2], []], 5, [[], [], [0, 1, 2], [2, 3], []])
    # Pools: 3, 1, 1, 3 (item 2 is both positive and hidden), 5.
    assert samples_per_user(train, Sampling(2)).tolist() == [6, 8, 2, 6, 0]
    assert samples_per_user(train, Sampling(0)).tolist() == [2, 4, 1, 2, 0]
    for user in range(5):
        item, _ = draw_samples(train, user, Sampling(2), seed=0, round_number=1, epoch=0)
        assert len(item) == samples_per_user(train, Sampling(2))[user]


def test_shuffle_is_a_permutation_of_the_ordered_draw() -> None:
    train = view([list(range(30))], 200)
    item, label = draw_samples(train, 0, Sampling(4), seed=3, round_number=2, epoch=0)
    key, _ = client_keys(3, 2, 0, 0, train.user_key_U[0])
    plain_item, plain_label, _ = ordered(list(range(30)), [], 200, 4, int(key))
    assert sorted(zip(item.tolist(), label.tolist(), strict=True)) == sorted(
        zip(plain_item, plain_label, strict=True)
    )
    assert item.tolist() != plain_item


def test_shuffle_reaches_every_order_equally_often() -> None:
    count: dict[tuple[int, ...], int] = {}
    out_item, out_label = np.empty(4, np.int64), np.empty(4, np.uint8)
    blocked, nothing = np.zeros(4, np.uint8), np.zeros(0, np.int64)
    for n in range(12_000):
        keys = [np.uint64(key) for key in client_keys(0, n, 0, 0, np.uint64(5))]
        draw_client(*keys, np.arange(4), nothing, 4, 0, out_item, out_label, blocked)
        count[tuple(out_item.tolist())] = count.get(tuple(out_item.tolist()), 0) + 1
    assert len(count) == 24
    assert sum((c - 500) ** 2 / 500 for c in count.values()) < 49.7  # 0.999, 23 degrees of freedom


def test_a_draw_belongs_to_the_person_not_to_the_position() -> None:
    here = view([[0, 1, 2], [5, 6]], 60, keys=[11, 22])
    there = view([[5, 6], [9], [0, 1, 2]], 60, keys=[22, 33, 11])
    for user, same in ((0, 2), (1, 0)):
        one = draw_samples(here, user, Sampling(), seed=1, round_number=4, epoch=1)
        two = draw_samples(there, same, Sampling(), seed=1, round_number=4, epoch=1)
        assert [column.tolist() for column in one] == [column.tolist() for column in two]
    stranger = view([[0, 1, 2]], 60, keys=[12])
    one = draw_samples(here, 0, Sampling(), seed=1, round_number=4, epoch=1)
    other = draw_samples(stranger, 0, Sampling(), seed=1, round_number=4, epoch=1)
    assert one[0].tolist() != other[0].tolist()


@pytest.mark.parametrize(
    ("redraw", "same_in_next_epoch", "same_in_next_round"),
    [("round", True, False), ("epoch", False, False), ("once", True, True)],
)
def test_redraw(redraw: str, same_in_next_epoch: bool, same_in_next_round: bool) -> None:
    train = view([list(range(20))], 500)
    sampling = Sampling(4, redraw)  # type: ignore[arg-type]

    def draw(round_number: int, epoch: int, seed: int = 0) -> list[int]:
        item, _ = draw_samples(
            train, 0, sampling, seed=seed, round_number=round_number, epoch=epoch
        )
        return item.tolist()

    assert draw(1, 0) == draw(1, 0)
    assert (sorted(draw(1, 0)) == sorted(draw(1, 1))) is same_in_next_epoch
    assert (sorted(draw(1, 0)) == sorted(draw(2, 0))) is same_in_next_round
    assert draw(1, 0) != draw(1, 1)  # the order changes in any case
    assert sorted(draw(1, 0)) != sorted(draw(1, 0, seed=1))


@pytest.mark.parametrize("redraw", ["round", "epoch", "once"])
def test_replayed_draws_agree_with_draw_samples(redraw: str) -> None:
    """In how many rounds each item was drawn, for any users in any order: all of them would be the
    array of users by items that is never made."""
    train = view([[0, 1, 2], [7], [4, 5, 5]], 40, [[9], [], [30, 31]])
    sampling = Sampling(3, redraw)  # type: ignore[arg-type]
    rounds = [(1, np.array([0, 2])), (2, np.array([1])), (5, np.array([2, 0]))]
    expected_UI = np.zeros((3, 40), np.int64)
    for round_number, users in rounds:
        for user in users:
            drawn_I = np.zeros(40, bool)
            for epoch in range(2):
                item, label = draw_samples(
                    train, user, sampling, seed=8, round_number=round_number, epoch=epoch
                )
                drawn_I[item[label == 0]] = True
            expected_UI[user] += drawn_I
    drawn = DrawnNegatives.of(train, sampling, seed=8, rounds=iter(rounds), epochs=2)
    for users in ([0, 1, 2], [2, 0], [1], []):
        assert np.array_equal(drawn.rounds_BI(np.array(users, int)), expected_UI[users])
    never = DrawnNegatives.of(train, sampling, seed=8, rounds=rounds, epochs=0)
    assert not never.rounds_BI(np.arange(3)).any()


def test_replayed_draws_of_a_part_of_the_catalogue_stand_in_the_catalogues_columns() -> None:
    catalogue = replace(view([[1], [3]], 5, [[], []]), warm_W=np.array([1, 3]))
    drawn = DrawnNegatives.of(
        catalogue.existing(),
        Sampling(1),
        seed=0,
        rounds=[(1, np.arange(2))],
        epochs=1,
        catalogue=catalogue,
    )
    assert drawn.rounds_BI(np.arange(2)).tolist() == [[0, 0, 0, 1, 0], [0, 1, 0, 0, 0]]


def test_who_took_part_is_kept_in_bits() -> None:
    """Codes of the users of each round would be gigabytes for many users and rounds."""
    people = 200
    train = view([[0]] * people, 3, [[]] * people)
    rounds = ((number, np.arange(number % 2, people, 2)) for number in range(1, 41))
    drawn = DrawnNegatives.of(train, Sampling(1), seed=1, rounds=rounds, epochs=1)
    assert drawn.present_RU.nbytes == 40 * people // 8
    assert (drawn.rounds_BI(np.arange(people)).sum(axis=1) == 20).all()


def test_held_out_items_are_drawn_under_clean_and_never_under_the_papers_pool() -> None:
    user, item = np.repeat(np.arange(10), 8), np.tile(np.arange(8), 10) + np.arange(80) // 8
    data = Dataset("few", Interactions.from_ids(user, item))
    everybody = [(r, np.arange(10)) for r in range(1, 31)]
    for protocol, share in ((CLEAN, 1.0), (PFEDREC, 0.0)):
        split = split_dataset(data, replace(protocol, split=SplitRule(order="row")))
        replay = DrawnNegatives.of(split.train, Sampling(), seed=0, rounds=everybody, epochs=1)
        drawn = replay.rounds_BI(np.arange(10)) > 0
        held_out = [
            drawn[user, part.relevant[e][0]]
            for part in (split.valid, split.test)
            for e, user in enumerate(part.user_E)
        ]
        assert np.mean(held_out) == share


def test_only_a_train_view_is_accepted() -> None:
    data = Dataset("few", Interactions.from_ids(["u"] * 4, list("abcd"), time=[1, 2, 3, 4]))
    split = split_dataset(data, CLEAN)
    with pytest.raises(TacitError, match=r"from a TrainView, not from a Split; pass split.train"):
        draw_samples(split, 0, Sampling(), seed=0, round_number=1, epoch=0)  # type: ignore[arg-type]
    with pytest.raises(TacitError, match="not from a HeldOut"):
        DrawnNegatives.of(split.test, Sampling(), seed=0, rounds=[], epochs=1)  # type: ignore


def test_impossible_sampling() -> None:
    with pytest.raises(TacitError, match="0 or more"):
        Sampling(-1)
    with pytest.raises(TacitError, match="did you mean 'epoch'"):
        Sampling(redraw="epochs")  # type: ignore[arg-type]


def test_the_numbers_are_those_of_a_plain_python_rewriting() -> None:
    # Streams are part of every recorded result; whole numbers of Python say what they must be.
    word, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        return z ^ (z >> 31)

    def key_of(seed: int, purpose: int, moment: int, name: int) -> int:
        h = mix(seed + golden & word)
        for part in (purpose, moment, name):
            h = mix(h ^ (part + golden & word))
        return h

    def below(key: int, counter: int, n: int) -> int:
        return ((mix(key + golden * (counter + 1) & word) >> 32) * n) >> 32

    positives, n_items, name = [3, 8, 1], 10, 2**63 + 12345
    samples, negative_key = [], key_of(42, 3, 6, name)
    for j, positive in enumerate(positives):
        samples.append((positive, 1))
        taken = {3, 8, 1, 0}  # 0 is hidden
        for slot in (2 * j, 2 * j + 1):
            tries = (below(negative_key, (slot << 16) + attempt, n_items) for attempt in range(64))
            item = next(item for item in tries if item not in taken)
            taken.add(item)
            samples.append((item, 0))
    shuffle_key = key_of(42, 4, 6 * 65536 + 1, name)
    for i in range(len(samples) - 1, 0, -1):
        j = below(shuffle_key, i, i + 1)
        samples[i], samples[j] = samples[j], samples[i]

    train = view([positives], n_items, [[0]], keys=[name])
    item_N, label_N = draw_samples(train, 0, Sampling(2), seed=42, round_number=6, epoch=1)
    assert list(zip(item_N.tolist(), label_N.tolist(), strict=True)) == samples
