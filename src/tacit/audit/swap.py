"""The same split, but everybody's test items are items that they have nothing to do with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit import streams
from tacit.data.split import distinct
from tacit.data.views import HeldOut, Lists, Split


def swap_test(split: Split, seed: int, *, into_pool: bool = True) -> Split:
    """Put a uniformly drawn, never touched item in the place of each test item.

    The swapped item stands where the held-out one stood: in the test, and in what a leaky pool
    hides from the negatives. What was held out becomes an ordinary unseen item to training. In the
    full ranking all items the person ever touched are masked, so that candidates are exactly the
    items that the draw could have given: whoever does not know the draw is at chance, whatever else
    is known. Persons with too few untouched items are left out. A pool that hides the same items
    from everybody does not follow anybody's held-out ones: `into_pool=False` leaves it as it is.

    >>> from tacit.data.dataset import Dataset
    >>> from tacit.data.interactions import Interactions
    >>> from tacit.data.protocol import PFEDREC
    >>> from tacit.data.split import split_dataset
    >>> rows = Interactions.from_ids(["u"] * 3 + ["v"], ["a", "b", "c", "d"], time=[1, 2, 3, 4])
    >>> swapped = swap_test(split_dataset(Dataset("few", rows), PFEDREC), seed=0)
    >>> swapped.test.relevant[0].tolist(), swapped.train.hidden_from_negatives[0].tolist()
    ([3], [1, 3])
    """
    train, n_items, n_users = split.train, split.train.n_items, split.train.n_users
    valid, test = of_all_users(split.valid, n_users), of_all_users(split.test, n_users)
    touched = distinct(n_items, train.positives, valid, test)
    most = int(test.size_U.max(initial=0))
    draw_UW = streams.uniforms(seed, streams.SWAP, 0, train.user_key_U, most)
    kept: list[int] = []
    drawn: list[np.ndarray] = []
    for place, user in enumerate(split.test.user_E):
        free = np.delete(np.arange(n_items), touched[user])
        wanted = len(split.test.relevant[place])
        if len(free) < wanted:
            continue
        chosen = np.empty(wanted, np.int64)
        for number in range(wanted):
            at = int(draw_UW[user, number] * len(free))
            chosen[number] = free[at]
            free = np.delete(free, at)
        kept.append(place)
        drawn.append(chosen)
    place_S = np.array(kept, np.int64)
    size_S = np.array([len(items) for items in drawn], np.int64)
    item_N = np.concatenate([np.zeros(0, np.int64), *drawn])
    user_S = split.test.user_E[place_S]
    relevant = Lists(np.concatenate([[0], np.cumsum(size_S)]), item_N)
    held_out = HeldOut(
        "test",
        n_items,
        user_S,
        relevant,
        touched.take(user_S),
        split.test.sampled.take(place_S),
    )
    hidden = train.hidden_from_negatives
    if train.leaks and into_pool:
        hidden = distinct(n_items, valid, of_all_users(held_out, n_users))
    return replace(split, train=replace(train, hidden_from_negatives=hidden), test=held_out)


def of_all_users(held_out: HeldOut, n_users: int) -> Lists:
    """The held-out items with one list per user of the train view, evaluated or not.

    >>> one, none = Lists(np.array([0, 1]), np.array([7])), Lists.empty(1)
    >>> of_all_users(HeldOut("test", 9, np.array([2]), one, none, none), 4).size_U.tolist()
    [0, 0, 1, 0]
    """
    user_N = np.repeat(held_out.user_E, held_out.relevant.size_U)
    return Lists.from_pairs(user_N, held_out.relevant.item_N, n_users)
