"""Everybody's samples of one epoch."""

import numpy as np
import torch

from tacit.central.samples import draw_pairs, draw_triples
from tacit.data.protocol import CLEAN, PFEDREC
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.split import split_dataset
from tacit.testing.synthetic import ragged

TRAIN = split_dataset(ragged(), CLEAN).train


def test_each_user_has_the_samples_of_a_client() -> None:
    drawn = draw_pairs(TRAIN, Sampling(), seed=3, number=7)
    for user in range(TRAIN.n_users):
        item_N, label_N = draw_samples(TRAIN, user, Sampling(), seed=3, round_number=7, epoch=0)
        mine = drawn.user_N == user
        found = sorted(zip(drawn.item_N[mine], drawn.label_N[mine], strict=True))
        assert found == sorted(zip(item_N, label_N, strict=True))


def test_batches_mix_users() -> None:
    drawn = draw_pairs(TRAIN, Sampling(), seed=0, number=1)
    assert len(np.unique(drawn.user_N[:64])) > TRAIN.n_users / 2


def test_epochs_and_seeds_differ_and_repeat() -> None:
    def items(seed: int, number: int) -> list[int]:
        drawn: list[int] = draw_pairs(TRAIN, Sampling(), seed=seed, number=number).item_N.tolist()
        return drawn

    assert items(0, 1) == items(0, 1)
    assert items(0, 1) != items(0, 2)
    assert items(0, 1) != items(1, 1)


def test_only_the_papers_pool_spares_held_out_items() -> None:
    """Under the clean protocol test items are drawn as negatives, under the papers' never."""
    for protocol, spared in ((CLEAN, False), (PFEDREC, True)):
        split = split_dataset(ragged(), protocol)
        held_out = {
            (int(user), int(item))
            for user, items in zip(split.test.user_E, split.test.relevant, strict=True)
            for item in items
        }
        hit = False
        for number in range(1, 6):
            drawn = draw_pairs(split.train, Sampling(), seed=0, number=number)
            negative = drawn.label_N == 0
            pairs = zip(drawn.user_N[negative], drawn.item_N[negative], strict=True)
            hit |= any((int(user), int(item)) in held_out for user, item in pairs)
        assert hit != spared


def test_triples_do_not_depend_on_threads() -> None:
    """With a second thread the order is drawn beside the triples."""
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(draw_triples(TRAIN, Sampling(negatives=2), seed=5, number=3).arrays)
    finally:
        torch.set_num_threads(before)
    for one_N, other_N in zip(*found, strict=True):
        assert np.array_equal(one_N, other_N)
    assert len(found[0][0]) > 0
