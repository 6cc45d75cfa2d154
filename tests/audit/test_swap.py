"""Swapped test items: untouched, uniform, everybody's own, and in the held-out items' place."""

from __future__ import annotations

import numpy as np

from tacit.audit.subject import swap_test
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, FEDMR, PFEDREC, Protocol, SplitRule
from tacit.data.split import split_dataset
from tacit.testing.synthetic import noise, ragged


def test_swapped_items_take_the_place_of_the_held_out_ones():
    split = split_dataset(ragged(), PFEDREC)
    swapped = swap_test(split, seed=3)
    for place, user in enumerate(swapped.test.user_E):
        (item,) = swapped.test.relevant[place]
        before = int(np.flatnonzero(split.test.user_E == user)[0])
        valid = split.valid.relevant[int(np.flatnonzero(split.valid.user_E == user)[0])]
        touched = {*split.train.positives[user], *valid, *split.test.relevant[before]}
        assert item not in touched
        assert set(swapped.train.hidden_from_negatives[user]) == {item, *valid}
        assert set(swapped.test.masked[place]) == touched
        assert np.array_equal(swapped.test.sampled[place], split.test.sampled[before])
    assert np.array_equal(swapped.train.positives.item_N, split.train.positives.item_N)


def test_an_honest_pool_stays_honest():
    split = split_dataset(ragged(), CLEAN)
    assert not swap_test(split, seed=3).train.leaks


def test_a_pool_that_is_the_same_for_everybody_does_not_follow_the_swap():
    split = split_dataset(noise(n_users=6, n_items=60, history=5), FEDMR)
    hidden = swap_test(split, seed=3, into_pool=False).train.hidden_from_negatives
    assert len(hidden[0]) > 0
    assert np.array_equal(hidden.item_N, split.train.hidden_from_negatives.item_N)


def test_every_untouched_item_is_drawn_as_often():
    rows = Interactions.from_ids(["u"] * 3 + ["v"] * 4, "abcdefg", time=range(7))
    split = split_dataset(Dataset("few", rows), CLEAN)
    drawn = [int(swap_test(split, seed).test.relevant[0][0]) for seed in range(2000)]
    count_I = np.bincount(drawn, minlength=7)
    assert count_I[:3].tolist() == [0, 0, 0]
    assert count_I[3:].min() > 500 - 4 * 20  # standard deviation 19.4
    assert count_I[3:].max() < 500 + 4 * 20


def test_a_person_draws_the_same_whoever_else_is_there():
    """As long as the catalogue is the same: the draw is the person's own."""
    dataset = noise(n_users=30, n_items=40, history=10)
    order = np.argsort(-dataset.interactions.user_N, kind="stable")
    rows = dataset.interactions
    turned = Interactions.from_ids(
        [rows.users[u] for u in rows.user_N[order]],
        [rows.items[i] for i in rows.item_N[order]],
        time=rows.time_N[order],
    )

    def drawn(data: Interactions) -> dict[str, int]:
        codes = {name: code for code, name in enumerate(rows.items)}
        test = swap_test(split_dataset(Dataset("noise", data), CLEAN), seed=1).test
        # places in the list of untouched items, which do not depend on how items are numbered
        found = {}
        for place, user in enumerate(test.user_E):
            free = np.delete(np.arange(len(codes)), test.masked[place])
            item = test.relevant[place][0]
            found[data.users[user]] = int(np.flatnonzero(free == item)[0])
        return found

    assert drawn(rows) == drawn(turned)


def test_several_held_out_items_and_nothing_left():
    """u has touched all but one item and loses two to the test: nothing can be put there."""
    items = "abcdefghij"
    rows = Interactions.from_ids(["u"] * 10 + ["v"] * 11, items + items[:9] + "xy", time=range(21))
    shares = Protocol(split=SplitRule(kind="ratio", valid_share=0.2, test_share=0.2))
    split = split_dataset(Dataset("few", rows), shares)
    assert split.test.relevant.size_U.tolist() == [2, 2]
    swapped = swap_test(split, seed=0).test
    assert [rows.users[u] for u in swapped.user_E] == ["u"]
    assert sorted(swapped.relevant[0].tolist()) == [10, 11]
