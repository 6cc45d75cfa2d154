"""Splits of items: disjoint, of the right sizes, and nothing cold can reach training."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.load import load
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, COLD_SPLIT, Protocol, SplitRule, among_cold_items
from tacit.data.readers.published import read_cold_split
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.split import part_of_items, split_dataset
from tacit.errors import TacitError

COLD = among_cold_items(CLEAN)


def test_items_are_parted_six_to_one_to_three_and_interactions_follow():
    dataset = planted_dataset()
    split = split_dataset(dataset, COLD)
    part_I = part_of_items(dataset, COLD.split)
    sizes = np.bincount(part_I)
    assert np.abs(sizes - np.array([0.6, 0.1, 0.3]) * len(part_I)).max() <= 1
    train, valid, test = (
        set(lists.item_N.tolist())
        for lists in (split.train.positives, split.valid.relevant, split.test.relevant)
    )
    assert not train & valid
    assert not train & test
    assert not valid & test
    held_out = len(split.valid.relevant.item_N) + len(split.test.relevant.item_N)
    assert len(split.train.positives.item_N) + held_out == len(dataset.interactions)


def test_every_evaluated_user_has_train_data():
    rows = Interactions.from_ids(["a"] * 9 + ["b"], [*"abcdefghi", "c"])
    for seed in range(20):
        dataset = Dataset("few", rows)
        split = split_dataset(dataset, replace(COLD, split=replace(COLD_SPLIT, seed=seed)))
        assert (split.train.positives.size_U[split.test.user_E] > 0).all()


def test_an_items_part_depends_on_its_id_and_the_seed_alone():
    items = [f"i{n}" for n in range(50)]
    dataset = Dataset("one", Interactions.from_ids(["u"] * 50, items))
    turned = Dataset("two", Interactions.from_ids(["u"] * 50, items[::-1]))
    for seed in (0, 1):
        rule = replace(COLD_SPLIT, seed=seed)
        one = dict(zip(dataset.interactions.items, part_of_items(dataset, rule), strict=True))
        two = dict(zip(turned.interactions.items, part_of_items(turned, rule), strict=True))
        assert one == two
    other = part_of_items(dataset, replace(COLD_SPLIT, seed=1))
    assert (part_of_items(dataset, COLD_SPLIT) != other).any()


def test_cold_items_do_not_exist_in_training():
    split = split_dataset(planted_dataset(), COLD)
    existing = split.train.existing()
    assert existing.n_items == len(split.train.warm_W) == 144
    assert existing.content["text"].value_IF.shape[0] == 144
    for user in range(20):
        item_N, label_N = draw_samples(existing, user, Sampling(5), seed=0, round_number=1, epoch=0)
        own = set(existing.positives[user].tolist())
        assert item_N.max() < 144  # there is no code for a cold item
        assert not own & set(item_N[label_N == 0].tolist())
        assert own == set(item_N[label_N == 1].tolist())
        old = split.train.positives[user]
        np.testing.assert_array_equal(split.train.warm_W[existing.positives[user]], old)


def test_candidates_are_the_cold_items_of_the_part():
    split = split_dataset(planted_dataset(), COLD)
    part_I = part_of_items(planted_dataset(), COLD.split)
    for held_out, part in ((split.valid, 1), (split.test, 2)):
        np.testing.assert_array_equal(held_out.among_C, np.flatnonzero(part_I == part))
        assert (part_I[held_out.sampled.item_N] == part).all()
        assert len(held_out.masked.item_N) == 0
        for place in range(len(held_out.user_E)):
            assert not set(held_out.sampled[place]) & set(held_out.relevant[place])


def test_ranked_together_only_own_items_are_masked():
    protocol = replace(COLD, valid_mask="train", test_mask="train+valid")
    split = split_dataset(planted_dataset(), protocol)
    assert split.test.among_C is None
    assert split.test.masked.size_U.min() > 0


def test_others_are_masked_only_under_a_cold_split():
    protocol = Protocol(name="odd", valid_mask="others")
    with pytest.raises(TacitError, match="use split='cold'"):
        split_dataset(planted_dataset(), protocol)


@pytest.mark.parametrize(("valid", "test"), [(0.0, 0.3), (0.6, 0.5), (0.1, -0.1)])
def test_shares_that_make_no_sense_are_refused(valid: float, test: float):
    rule = SplitRule("cold", valid_share=valid, test_share=test)
    with pytest.raises(TacitError, match="make no sense"):
        part_of_items(planted_dataset(), rule)


def test_a_published_split_must_be_there():
    with pytest.raises(TacitError, match="no published split"):
        part_of_items(planted_dataset(), SplitRule("cold_published"))


def test_a_published_split_is_read_and_checked(tmp_path: Path):
    path = tmp_path / "split.parquet"
    pl.DataFrame({"item_id": [1, 2, 2], "split": ["train", "vali", "vali"]}).write_parquet(path)
    assert read_cold_split(path, ("2", "1")).tolist() == [1, 0]
    with pytest.raises(TacitError, match="says nothing of 1 items"):
        read_cold_split(path, ("2", "1", "3"))
    pl.DataFrame({"item_id": [1, 1], "split": ["train", "test"]}).write_parquet(path)
    with pytest.raises(TacitError, match="beside another"):
        read_cold_split(path, ("1",))
    path.write_bytes(b"no parquet")
    with pytest.raises(TacitError, match="no table"):
        read_cold_split(path, ("1",))


@pytest.mark.skipif("TACIT_DATA" not in os.environ, reason="TACIT_DATA names no data")
def test_the_published_split_of_citeulike_has_its_printed_sizes():
    protocol = replace(COLD, split=replace(COLD_SPLIT, kind="cold_published"))
    split = split_dataset(load("citeulike-a"), protocol)
    assert len(split.train.warm_W) == 13_584
    assert (len(split.valid.among_C), len(split.test.among_C)) == (1_018, 2_378)
    assert split.counts["users_without_train"] == 0
    present_I = load("citeulike-a").modalities["text"].present_I
    assert int((~present_I[split.test.among_C]).sum()) == 504
