"""Splits of datasets small enough to split by hand."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, FEDMR, FEDRKG, PFEDREC, Protocol, SplitRule
from tacit.data.replay import DrawnNegatives
from tacit.data.sampling import Sampling
from tacit.data.split import split_dataset
from tacit.data.views import HeldOut, Lists, Split
from tacit.errors import TacitError


def make(rows: str, **columns: list[float]) -> Dataset:
    """`"ua ub va"`: one word per row, a letter for the user and one for the item."""
    users, items = zip(*rows.split(), strict=True)
    return Dataset("hand", Interactions.from_ids(list(users), list(items), **columns))


def by_name(dataset: Dataset, held_out: HeldOut, lists: Lists) -> dict[str, str]:
    rows = dataset.interactions
    return {
        rows.users[user]: "".join(rows.items[item] for item in lists[e])
        for e, user in enumerate(held_out.user_E)
    }


def parts(dataset: Dataset, split: Split) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """What each user has in train, validation and test."""
    rows = dataset.interactions
    train = {
        name: "".join(rows.items[item] for item in split.train.positives[user])
        for user, name in enumerate(rows.users)
    }
    valid = by_name(dataset, split.valid, split.valid.relevant)
    return train, valid, by_name(dataset, split.test, split.test.relevant)


def under(**rule: object) -> Protocol:
    return replace(CLEAN, split=SplitRule(**rule))  # type: ignore[arg-type]


def test_leave_one_out_by_time_keeps_file_order_in_train() -> None:
    data = make("ua vb ub uc vc ud va vd", time=[9, 1, 2, 8, 4, 1, 3, 2])
    train, valid, test = parts(data, split_dataset(data, CLEAN))
    assert train == {"u": "bd", "v": "bd"}
    assert valid == {"u": "c", "v": "a"}
    assert test == {"u": "a", "v": "c"}


@pytest.mark.parametrize(
    ("ties", "train", "valid", "test"),
    [("last_row", "ab", "c", "d"), ("first_row", "ad", "c", "b")],
)
def test_tie_rules(ties: str, train: str, valid: str, test: str) -> None:
    data = make("ua ub uc ud", time=[1, 5, 5, 5])
    split = split_dataset(data, under(ties=ties))
    assert parts(data, split) == ({"u": train}, {"u": valid}, {"u": test})
    assert split.counts["users_with_latest_tied"] == 1


def test_first_row_is_what_pandas_rank_does() -> None:
    import pandas as pd

    generator = np.random.default_rng(0)
    user, time = generator.integers(0, 5, 80), generator.integers(0, 6, 80)
    data = Dataset("ties", Interactions.from_ids(user, np.arange(80), time=time))
    split = split_dataset(data, under(ties="first_row"))
    rank = pd.Series(time).groupby(user).rank(method="first", ascending=False)
    for part, wanted in ((split.test, 1), (split.valid, 2)):
        codes = sorted(int(part.relevant[e][0]) for e in range(len(part.user_E)))
        assert codes == sorted(np.flatnonzero(rank == wanted))


def test_orders_by_row_and_by_first_appearance_of_the_item() -> None:
    # The appearance of items: a b c d; times would say otherwise.
    data = make("ua ub uc vd vb va ud", time=[9, 8, 7, 6, 5, 4, 3])
    assert parts(data, split_dataset(data, under(order="row")))[2] == {"u": "d", "v": "a"}
    split = split_dataset(data, under(order="item_appearance"))
    train, valid, test = parts(data, split)
    assert (train, valid, test) == (
        {"u": "ab", "v": "a"},
        {"u": "c", "v": "b"},
        {"u": "d", "v": "d"},
    )


def test_appearance_is_that_of_the_unfiltered_file() -> None:
    whole = make("xd ua ub uc ud")
    kept = whole.keep(whole.interactions.user_N == 1, "without x")
    assert parts(kept, split_dataset(kept, under(order="item_appearance")))[2] == {"u": "c"}


def test_random_order_depends_on_the_seed_and_on_no_other_user() -> None:
    few = make("ua ub uc ud ue uf")
    many = make("va vb vc ua ub vd uc ud ve ue uf vf")
    few_test = [parts(few, split_dataset(few, under(order="random", seed=s))) for s in range(20)]
    many_test = [parts(many, split_dataset(many, under(order="random", seed=s))) for s in range(20)]
    for one, two in zip(few_test, many_test, strict=True):
        assert [part["u"] for part in one] == [part["u"] for part in two]
    assert len({part["u"] for *_, part in few_test}) > 3
    assert any(part["u"] != part["v"] for *_, part in many_test)


def test_order_of_users_changes_nothing() -> None:
    data = make("ua ub uc ud va vb vc wa wc wd we wf", time=[1, 2, 2, 2, 5, 4, 6, 1, 1, 3, 3, 3])
    rows = data.interactions
    new_code = np.array([2, 0, 1])  # the vocabulary in another order, items untouched
    order = np.argsort(new_code[rows.user_N], kind="stable")
    turned = Interactions(
        new_code[rows.user_N][order], rows.item_N[order], ("v", "w", "u"), rows.items
    )
    for rule in ({"order": "random"}, {"order": "item_appearance"}, {"kind": "ratio"}):
        protocol = replace(under(**rule), sampled=1)
        one, two = split_dataset(data, protocol), split_dataset(Dataset("turned", turned), protocol)
        assert parts(data, one) == parts(Dataset("turned", turned), two)
        for part, other in ((one.valid, two.valid), (one.test, two.test)):
            assert by_name(data, part, part.sampled) == by_name(
                Dataset("turned", turned), other, other.sampled
            )


def test_short_users_train_but_are_not_evaluated() -> None:
    data = make("ua ub uc va vb wd", time=[1, 2, 3, 1, 2, 1])
    split = split_dataset(data, CLEAN)
    train, valid, test = parts(data, split)
    assert train == {"u": "a", "v": "ab", "w": "d"}
    assert valid == {"u": "b"}
    assert test == {"u": "c"}
    assert split.counts == {
        "users": 3,
        "items": 4,
        "train": 4,
        "valid": 1,
        "test": 1,
        "evaluated_users": 1,
        "users_too_short": 2,
        "users_without_train": 0,
        "unseen_test_items": 1,
        "masked_test_items": 0,
        "users_with_latest_tied": 0,
    }


def test_global_time_cuts_everybody_at_the_same_moments() -> None:
    # Ten rows: 6 train, 2 validation, 2 test; v has nothing in train, w nothing after it.
    data = make("ua wa ub wb uc wc ud ve uf vg", time=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    split = split_dataset(data, under(kind="global_time", valid_share=0.2, test_share=0.2))
    train, valid, test = parts(data, split)
    assert train == {"u": "abc", "w": "abc", "v": ""}
    assert valid == {"u": "d"}
    assert test == {"u": "f"}
    assert split.counts["users_without_train"] == 1
    assert (split.counts["valid"], split.counts["test"]) == (2, 2)


def test_global_time_may_hold_out_several_items_and_equal_times_stay_together() -> None:
    data = make("ua ub uc ud ue uf ug uh ui uj", time=[0, 1, 2, 3, 4, 5, 6, 7, 7, 7])
    with_room = split_dataset(data, under(kind="global_time", valid_share=0.4, test_share=0.1))
    assert parts(data, with_room) == ({"u": "abcde"}, {"u": "fg"}, {"u": "hij"})
    with pytest.raises(TacitError, match="a validation interaction"):  # both cuts fall at time 7
        split_dataset(data, under(kind="global_time", valid_share=0.1, test_share=0.1))


def test_ratio_takes_shares_of_each_user() -> None:
    data = make(" ".join(f"u{item}" for item in "abcdefghij") + " va vb vc wa wb")
    split = split_dataset(data, under(kind="ratio", valid_share=0.2, test_share=0.3))
    train, valid, test = parts(data, split)
    assert [len(part["u"]) for part in (train, valid, test)] == [5, 2, 3]
    assert [len(part["v"]) for part in (train, valid, test)] == [1, 1, 1]
    assert train["w"] == "ab"
    assert "w" not in valid
    assert sorted(train["u"] + valid["u"] + test["u"]) == list("abcdefghij")
    assert train["u"] == "".join(sorted(train["u"]))  # file order
    other = split_dataset(data, under(kind="ratio", valid_share=0.2, test_share=0.3, seed=1))
    assert parts(data, other)[2]["u"] != test["u"]


def test_ratio_leaves_something_to_train_on() -> None:
    data = make("ua ub uc")
    split = split_dataset(data, under(kind="ratio", valid_share=0.01, test_share=0.98))
    assert [len(part["u"]) for part in parts(data, split)] == [1, 1, 1]


def test_predefined_labels() -> None:
    data = make("ua ub uc ud va vb", label=[2, 0, 1, 0, 1, 2])
    split = split_dataset(data, under(kind="labels"))
    assert parts(data, split) == ({"u": "bd", "v": ""}, {"u": "c"}, {"u": "a"})
    assert split.counts["users_without_train"] == 1


def test_released_is_by_labels_where_the_file_has_them_and_by_time_elsewhere() -> None:
    rule = under(kind="released")
    labelled = make("ua ub uc ud", time=[1, 2, 3, 4], label=[2, 0, 1, 0])
    assert parts(labelled, split_dataset(labelled, rule)) == ({"u": "bd"}, {"u": "c"}, {"u": "a"})
    plain = make("ua ub uc ud va vb", time=[1, 2, 3, 4, 1, 2])
    split = split_dataset(plain, rule)
    assert parts(plain, split) == ({"u": "ab", "v": "ab"}, {"u": "c"}, {"u": "d"})
    assert split.counts["users_too_short"] == 1


def test_the_fedmr_protocol_is_marked() -> None:
    assert not FEDMR.is_clean
    assert not FEDMR.keeps_clean
    # every one of its quirks is enough
    for quirk in ("negatives_exclude", "duplicates", "test_mask"):
        assert not replace(CLEAN, **{quirk: getattr(FEDMR, quirk)}).keeps_clean


def test_pool_without_items_that_nobody_has_in_train() -> None:
    # In train: u has ab, v has ac. Held out: u c and d, v d and e. Nobody trains on d or e.
    data = make("ua ub uc ud va vc vd ve", time=[1, 2, 3, 4, 1, 2, 3, 4])
    split = split_dataset(data, FEDMR)
    assert split.train.leaks
    assert [split.train.hidden_from_negatives[u].tolist() for u in (0, 1)] == [[3, 4], [3, 4]]
    rounds = [(r, np.arange(2)) for r in range(1, 20)]
    drawn = DrawnNegatives.of(split.train, Sampling(1), seed=0, rounds=rounds, epochs=1)
    # u's own held-out item c is in v's train, so it is drawn; what is unseen never is
    assert drawn.rounds_BI(np.arange(2)).tolist() == [[0, 0, 19, 0, 0], [0, 19, 0, 0, 0]]
    assert split.test.masked[0].tolist() == [0, 1]  # the validation item c stays in the ranking


def test_a_pool_that_would_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make("ua ub uc ud va vc vd ve", time=[1, 2, 3, 4, 1, 2, 3, 4])
    monkeypatch.setattr("tacit.data.split.MOST_HIDDEN", 3)
    with pytest.raises(TacitError, match=r"2 items of dataset 'hand'.* each of 2 users"):
        split_dataset(data, FEDMR)


def test_pool_of_negatives() -> None:
    data = make("ua ub uc ud va vb vc vd", time=[1, 2, 3, 4, 4, 3, 2, 1])
    clean = split_dataset(data, CLEAN).train
    assert not clean.leaks
    assert [clean.hidden_from_negatives[u].tolist() for u in (0, 1)] == [[], []]
    leaky = split_dataset(data, replace(CLEAN, negatives_exclude="all")).train
    assert leaky.leaks
    assert [leaky.hidden_from_negatives[u].tolist() for u in (0, 1)] == [[2, 3], [0, 1]]


def test_masks() -> None:
    data = make("ua ub uc ud", time=[1, 2, 3, 4])
    split = split_dataset(data, CLEAN)
    assert split.valid.masked[0].tolist() == [0, 1]
    assert split.test.masked[0].tolist() == [0, 1, 2]
    only_train = split_dataset(data, replace(CLEAN, test_mask="train"))
    assert only_train.test.masked[0].tolist() == [0, 1]


def test_kept_duplicates_stay_in_train_twice_and_mask_what_is_held_out() -> None:
    data = make("ua ub ua uc ua", time=[1, 2, 3, 4, 5])
    split = split_dataset(data, PFEDREC)
    assert split.train.positives[0].tolist() == [0, 1, 0]
    assert split.test.relevant[0].tolist() == [0]
    assert split.test.masked[0].tolist() == [0, 1, 2]
    assert split.counts["masked_test_items"] == 1
    assert split.counts["train"] == 3


def test_a_repeated_held_out_item_is_relevant_once() -> None:
    data = make("ua ub uc uc ub", label=[0, 1, 2, 2, 1])
    split = split_dataset(data, replace(FEDRKG, split=SplitRule(kind="labels")))
    assert split.test.relevant[0].tolist() == [2]
    assert split.valid.relevant[0].tolist() == [1]


def random_dataset(n_users: int = 30, n_items: int = 200) -> Dataset:
    generator = np.random.default_rng(3)
    size = generator.integers(3, 60, n_users)
    item = np.concatenate([generator.permutation(n_items)[:n] for n in size])
    user = np.repeat(np.arange(n_users), size)
    rows = Interactions.from_ids(user, item, time=np.arange(len(item)))
    return Dataset("random", rows)


def test_candidates_are_untouched_distinct_and_apart() -> None:
    data = random_dataset()
    rows = data.interactions
    split = split_dataset(data, replace(CLEAN, sampled=20))
    for e, user in enumerate(split.test.user_E):
        valid, test = split.valid.sampled[e], split.test.sampled[e]
        both = np.concatenate([valid, test])
        assert len(valid) == len(test) == 20
        assert len(np.unique(both)) == 40
        assert not np.isin(both, rows.item_N[rows.user_N == user]).any()
    other = split_dataset(data, replace(CLEAN, sampled=20, candidate_seed=1))
    assert not np.array_equal(other.test.sampled.item_N, split.test.sampled.item_N)


def test_candidates_of_a_user_who_has_nearly_everything() -> None:
    # u has 4 of 9 items and v has 8; 5 untouched split 2 and 2, 1 untouched splits 0 and 0.
    rows = "ua ub uc ud va vb vc vd ve vf vg vh we wf wi"
    data = make(rows, time=list(range(15)))
    split = split_dataset(data, CLEAN)
    assert split.valid.sampled.size_U.tolist() == [2, 0, 3]
    assert split.test.sampled.size_U.tolist() == [2, 0, 3]
    assert set(split.valid.sampled[0]) | set(split.test.sampled[0]) < {4, 5, 6, 7, 8}


def test_candidates_are_uniform() -> None:
    # 2,000 users touched items 0-2 of 12 and draw 2 of the 9 others for each part.
    n = 2000
    rows = Interactions(
        np.repeat(np.arange(n), 3),
        np.tile(np.arange(3), n),
        tuple(f"user {u}" for u in range(n)),
        tuple("abcdefghijkl"),
    )
    split = split_dataset(Dataset("many", rows), replace(under(order="row"), sampled=2))
    for part in (split.valid, split.test):
        count = np.bincount(part.sampled.item_N, minlength=12)
        assert count[:3].sum() == 0
        expected = 2 * n / 9
        chi_square = ((count[3:] - expected) ** 2 / expected).sum()
        assert chi_square < 26.1  # 0.999 quantile, 8 degrees of freedom


def test_user_keys_come_from_the_original_ids() -> None:
    data = make("ua ub uc va vb vc", time=[1, 2, 3, 1, 2, 3])
    split = split_dataset(data, CLEAN)
    assert np.array_equal(split.train.user_key_U, data.interactions.user_key_U)


@pytest.mark.parametrize(
    ("dataset", "protocol", "message"),
    [
        (make("ua ub uc"), CLEAN, "no timestamps.*use split='random', row or item_appearance"),
        (make("ua ub uc"), under(kind="global_time"), "no timestamps"),
        (make("ua ub uc", time=[1, float("nan"), 2]), CLEAN, "1 interactions without.*row 1"),
        (make("ua ub uc"), under(kind="labels"), "no predefined split labels"),
        (make("ua ub uc", label=[0, 1, 3]), under(kind="labels"), "label 3 in row 2"),
        (make("ua ub va", time=[1, 2, 3]), CLEAN, "Nobody is left to evaluate"),
        (make("ua ub uc", label=[0, 0, 2]), under(kind="labels"), "a validation interaction"),
        (make("ua ub uc", time=[1, 1, 1]), under(kind="global_time"), "Nobody is left"),
        (make("ua ub uc"), under(kind="ratio", valid_share=0.5, test_share=0.5), "make no sense"),
        (make("ua ub uc"), under(kind="ratio", test_share=0.0), "make no sense"),
        (make("ua ub uc"), under(kind="ratio", valid_share=-0.1), "make no sense"),
        (make("ua ub ua uc ub", time=[1, 2, 3, 4, 5]), CLEAN, "1 pairs .* in two parts"),
        (make("ua ub uc", time=[1, 2, 3]), replace(CLEAN, sampled=-1), "0 or more candidates"),
        (make("ua ub uc", time=[1, 2, 3]), replace(CLEAN, sampled=2**63), "at most 1000000"),
        (
            make("ua ub uc", label=[0, 1, 2]),
            under(kind="global_time"),
            "use split='labels', random, row or item_appearance",
        ),
    ],
)
def test_mistakes_are_one_sentence(dataset: Dataset, protocol: Protocol, message: str) -> None:
    with pytest.raises(TacitError, match=message) as raised:
        split_dataset(dataset, protocol)
    assert str(raised.value).count(". ") == 0
    assert str(raised.value).endswith(".")


def test_text_timestamps_are_refused() -> None:
    rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], time=["9", "10", "11"])
    with pytest.raises(TacitError, match="are text"):
        split_dataset(Dataset("text", rows), CLEAN)


def test_no_rows_at_all() -> None:
    data = make("ua ub uc", time=[1, 2, 3])
    empty = data.keep(np.zeros(3, bool), "nothing")
    for protocol in (CLEAN, under(kind="global_time"), under(kind="ratio")):
        with pytest.raises(TacitError, match="Nobody is left"):
            split_dataset(empty, protocol)


def real(name: str) -> Interactions:
    import polars as pl

    folder = os.environ.get("TACIT_DATA")
    if folder is None or not (Path(folder) / name).is_dir():
        pytest.skip(
            f"the real dataset {name} is not here: TACIT_DATA names no folder that holds it"
        )
    frame = pl.read_parquet(Path(folder) / name / "interactions.parquet")
    return Interactions.from_ids(frame["user_id"], frame["item_id"], time=frame["timestamp"])


def test_movielens_counts() -> None:
    counts = split_dataset(Dataset("ml-100k", real("ml-100k")), CLEAN).counts
    assert (counts["train"], counts["valid"], counts["test"]) == (98114, 943, 943)
    assert counts["evaluated_users"] == 943
    assert counts["users_with_latest_tied"] == 415  # 44 %: there the tie rule decides


def test_lastfm_ceiling_of_kept_duplicates() -> None:
    # Counted apart from this code: 445 of 1,269 users can be hit when repeated pairs are kept.
    rows = real("lastfm-2k")
    rows = rows.take((np.bincount(rows.user_N) >= 10)[rows.user_N])
    counts = split_dataset(Dataset("lastfm-2k", rows), FEDRKG).counts
    assert counts["evaluated_users"] == 1269
    assert counts["evaluated_users"] - counts["masked_test_items"] == 445
