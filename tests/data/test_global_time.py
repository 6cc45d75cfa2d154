"""Splits by one moment for everybody, small enough to be cut by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.audit.checks import tied_times
from tacit.audit.subject import Subject, swap_test
from tacit.data.by_time import LATER, PASSED, TEST, TRAIN, VALID, are_positions
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, PFEDREC, Protocol, SplitRule
from tacit.data.split import cautions, part_of_rows, split_dataset
from tacit.data.views import HeldOut, Lists
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.references import chance, popularity
from tacit.experiment.data_record import DataRecord
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared
from tacit.experiment.resolve import override, resolve
from tacit.experiment.spec import Experiment
from tacit.methods import Popularity


def make(rows: str, time: list[int]) -> Dataset:
    """`"ua ub va"`: one word per row, a letter for the user and one for the item."""
    users, items = zip(*rows.split(), strict=True)
    return Dataset("hand", Interactions.from_ids(list(users), list(items), time=time))


def under(**rule: object) -> Protocol:
    fields = {"kind": "global_time", "held_out": "first", "min_history": 2, **rule}
    return replace(CLEAN, split=SplitRule(**fields))  # type: ignore[arg-type]


def named(dataset: Dataset, held_out: HeldOut, lists: Lists) -> dict[str, str]:
    rows = dataset.interactions
    return {
        rows.users[user]: "".join(rows.items[item] for item in lists[e])
        for e, user in enumerate(held_out.user_E)
    }


# Twenty rows; with these shares the cuts fall at the times 11 and 16.
#   u has a, b, c and h before them, d and e between them, f and g after them
#   v has a, c and b before, nothing between, h after
#   w has b and d before, e and a between, nothing after
#   x has a before, and b after: too little is known of x
#   y comes after all cuts
ROWS = "ua va wb ub vc uc wd vb xa uh we ud ue wa uf vh xb ug yc yd"
TIMES = [*range(10), 11, 12, 13, 14, *range(16, 22)]


def hand() -> Dataset:
    return make(ROWS, TIMES)


SHARES = {"valid_share": 0.2, "test_share": 0.3}


def test_the_first_new_item_after_each_cut_is_held_out() -> None:
    # 20 rows, 6 of them (from time 16 on) after the test cut, 4 (from 11 on) between the cuts
    data = hand()
    split = split_dataset(data, under(**SHARES))
    rows = data.interactions
    train = {
        name: "".join(rows.items[item] for item in split.train.positives[user])
        for user, name in enumerate(rows.users)
    }
    assert train == {"u": "abch", "v": "acb", "w": "bd", "x": "a", "y": ""}
    assert named(data, split.valid, split.valid.relevant) == {"u": "d", "w": "e"}
    assert named(data, split.test, split.test.relevant) == {"u": "f", "v": "h"}
    counts = split.counts
    assert (counts["train"], counts["valid"], counts["test"], counts["left_out"]) == (10, 2, 2, 6)
    assert (counts["evaluated_users"], counts["users_too_short"]) == (2, 2)  # x and y
    assert counts["users_without_train"] == 1


def test_what_was_touched_before_the_test_is_masked_and_no_candidate() -> None:
    data = hand()
    split = split_dataset(data, replace(under(**SHARES), sampled=3))
    # e of u lies between the cuts and was not validated on; a device knows it before the test
    masked = named(data, split.test, split.test.masked)
    assert {name: set(items) for name, items in masked.items()} == {
        "u": set("abchde"),
        "v": set("acb"),
    }
    assert {k: set(v) for k, v in named(data, split.valid, split.valid.masked).items()} == {
        "u": set("abch"),
        "w": set("bd"),
    }
    # g of u comes later than the test item: an ordinary unseen item in the full ranking, but
    # nothing that the person never touched
    for held_out in (split.valid, split.test):
        drawn = named(data, held_out, held_out.sampled)
        assert not set(drawn.get("u", "")) & set("abchdefg")
        assert not set(drawn.get("w", "")) & set("bdea")
    train_only = split_dataset(data, replace(under(**SHARES), test_mask="train"))
    assert set(named(data, train_only.test, train_only.test.masked)["u"]) == set("abch")


def test_references_count_train_alone() -> None:
    data = hand()
    split = split_dataset(data, under(**SHARES))
    # a 3, b 3, c 2, h and d 1 each in train; the rest, f among it, has none
    assert split.train.popularity_I().tolist() == [
        {"a": 3, "b": 3, "c": 2, "h": 1, "d": 1}.get(name, 0) for name in data.interactions.items
    ]
    # u has f and g left of 8 items, v has d, h, e, f and g
    ranks = popularity(split.train, split.test).full
    assert ranks.candidates_H.tolist() == [2, 5]
    assert ranks.above_H.tolist() == [0, 0]
    assert ranks.tied_H.tolist() == [1, 1]  # f with g; h with d
    assert metric(chance(split.test).full, "HR@1") == pytest.approx((1 / 2 + 1 / 5) / 2)


def test_validation_on_latest_items_trains_up_to_the_test() -> None:
    data = hand()
    split = split_dataset(data, under(**SHARES, validation="latest", min_history=3))
    rows = data.interactions
    train = {
        name: "".join(rows.items[item] for item in split.train.positives[user])
        for user, name in enumerate(rows.users)
    }
    assert train == {"u": "abchd", "v": "ac", "w": "bde", "x": "a", "y": ""}
    assert named(data, split.valid, split.valid.relevant) == {"u": "e", "v": "b", "w": "a"}
    assert named(data, split.test, split.test.relevant) == {"u": "f", "v": "h"}
    assert split.counts["left_out"] == 4  # b of x, g of u, c and d of y


def test_an_item_that_is_held_out_is_new_where_repeated_pairs_are_kept() -> None:
    # 10 rows, cuts at 6 and 8: b again at 6 and a again at 8 are nothing new
    data = make("ua ub uc ud ue uf ub ug ua uh", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    protocol = replace(under(valid_share=0.2, test_share=0.2), duplicates="keep")
    part_N = part_of_rows(data, protocol.split)
    assert part_N.tolist() == [0, 0, 0, 0, 0, 0, PASSED, VALID, LATER, TEST]
    # under `latest` the repeats of the validation item leave train with it
    again = make("ua ub uc ud ud ue uf ug", [0, 1, 2, 3, 4, 5, 6, 7])
    latest = under(valid_share=0.1, test_share=0.4, validation="latest").split
    assert part_of_rows(again, latest).tolist() == [0, 0, 0, VALID, PASSED, TEST, LATER, LATER]


@pytest.mark.parametrize(("ties", "first"), [("last_row", "e"), ("first_row", "g")])
def test_of_equal_times_the_earliest_is_the_one_that_histories_have_first(
    ties: str, first: str
) -> None:
    data = make("ua ub uc ud ue uf ug va vb", [0, 1, 2, 4, 8, 8, 8, 0, 0])
    protocol = under(valid_share=0.12, test_share=0.34, ties=ties)
    split = split_dataset(data, protocol)
    assert named(data, split.test, split.test.relevant) == {"u": first}
    experiment = Experiment("test", Popularity(), rounds=1, protocol=protocol)
    found = tied_times(Subject(experiment, Prepared(data, split)))
    assert (found.numbers["users"], found.numbers["share"]) == (1, 1.0)
    assert "1 of 1 users (100.0%) several items share the first time after the cut" in found.text


def test_pool_of_the_papers_and_swapped_items_know_every_item_of_a_person() -> None:
    data = hand()
    leaky = replace(PFEDREC, split=under(**SHARES).split)
    split = split_dataset(data, leaky)
    names = np.array(data.interactions.items)
    assert set(names[split.train.hidden_from_negatives[0]]) == set("defg")
    assert set(names[split.train.hidden_from_negatives[3]]) == {"b"}
    swapped = swap_test(split, seed=0)
    # u has touched all eight items, so only v has one to swap in: d, e, f or g
    assert [data.interactions.users[user] for user in swapped.test.user_E] == ["v"]
    assert names[swapped.test.relevant[0][0]] in "defg"
    assert set(names[swapped.train.hidden_from_negatives[0]]) >= {"d", "e", "g"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), min_size=12, max_size=60),
    st.sampled_from(["first_row", "last_row"]),
    st.sampled_from([0.1, 0.2, 0.35]),
)
def test_nobody_trains_on_what_comes_after_anybodys_held_out_item(
    drawn: list[tuple[int, int]], ties: str, share: float
) -> None:
    rows = Interactions.from_ids(
        [user for user, _ in drawn], np.arange(len(drawn)), time=[time for _, time in drawn]
    )
    rule = under(valid_share=share, test_share=share, ties=ties).split
    part_N, time_N = part_of_rows(Dataset("drawn", rows), rule), rows.time_N
    assert time_N is not None
    cuts = [time_N[part_N == part] for part in (TRAIN, VALID, TEST)]
    for earlier, later in ((0, 1), (1, 2), (0, 2)):
        if len(cuts[earlier]) and len(cuts[later]):
            assert cuts[earlier].max() < cuts[later].min()
    for part in (VALID, TEST):
        assert np.bincount(rows.user_N[part_N == part], minlength=1).max() <= 1
        for place in np.flatnonzero(part_N == part):
            own = (rows.user_N == rows.user_N[place]) & (part_N == TRAIN)
            assert own.sum() >= 2


def test_short_names_and_fields_behind_them() -> None:
    rule = resolve("popularity", split="global_time:test_share=0.2").protocol.split
    assert rule == SplitRule("global_time", test_share=0.2, held_out="first")
    assert rule.text == (
        "global_time, first new item from 80% on, validated from 70% on, 5 or more items before"
    )
    latest = resolve("popularity", split="global_time:validation=latest, min_history=3").protocol
    assert latest.split.text == (
        "global_time, first new item from 90% on, validated on latest items, 3 or more items before"
    )
    assert latest.is_clean
    assert resolve("popularity", split="global_time_all").protocol.split.text == "global_time"
    saved = override(resolve("popularity"), split="global_time:test_share=0.2")
    assert saved.protocol.split == rule


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("global_time:0.2", "Cannot read '0.2' in the split 'global_time:0.2'; write split="),
        ("global_time:kind=ratio", "Cannot read 'kind=ratio' in the split"),
        ("global_time:test_shar=0.2", "there is no 'test_shar' in it; did you mean 'test_share'"),
        ("global_tine:test_share=0.2", "Unknown split 'global_tine'; did you mean 'global_time'"),
        ("global_time:held_out=some", "input should be 'all' or 'first'"),
    ],
)
def test_mistakes_in_a_split(split: str, message: str) -> None:
    with pytest.raises(TacitError, match=message):
        resolve("popularity", split=split)


def test_nobody_with_a_past_is_left() -> None:
    with pytest.raises(TacitError, match="has both 9 or more items before and a validation inter"):
        split_dataset(hand(), under(**SHARES, min_history=9))


def test_people_without_a_past_cannot_be_asked_for() -> None:
    with pytest.raises(TacitError, match="min_history is 0; it must be at least 1"):
        split_dataset(hand(), under(**SHARES, min_history=0))


def test_times_that_are_positions_are_no_common_clock() -> None:
    positions = Interactions.from_ids("uuuuvvvvwwww", "abcdabcdabcd", time=[0, 1, 2, 3] * 3)
    data, shares = Dataset("p", positions), {"valid_share": 0.2, "test_share": 0.2}
    for validation in ("window", "latest"):
        with pytest.raises(TacitError, match="'p' are positions in each person's own history"):
            split_dataset(data, under(**shares, validation=validation))
    # what is held out in full stays as it was, with a caution beside it
    whole = under(**shares, held_out="all")
    said = cautions(data, whole, split_dataset(data, whole))
    assert said[0].startswith("The times of this data are positions in each person's own history")
    assert len(cautions(data, CLEAN, split_dataset(data, CLEAN))) == 1  # few people, and no cut
    tied = Interactions.from_ids("uuuuvvvv", "abcdabcd", time=[0, 1, 1, 3, 0, 1, 2, 3])
    assert are_positions(positions)
    assert not are_positions(tied)
    assert not are_positions(hand().interactions)
    assert not are_positions(Interactions.from_ids("uv", "ab"))


def test_a_run_opens_again_with_its_lines_in_another_order(tmp_path) -> None:
    import tacit

    data = tacit.load_data("planted")
    rows = data.interactions
    frame = {
        "user": [rows.users[u] for u in rows.user_N],
        "item": [rows.items[i] for i in rows.item_N],
        "time": rows.time_N,
    }
    experiment = resolve("popularity", data=frame, split="global_time")
    record = tacit.run(experiment, tmp_path / "run")
    assert record.counts.left_out is not None
    assert record.split.startswith("global_time, first new item from 90% on")
    order = np.random.default_rng(0).permutation(len(rows))
    turned = {name: np.array(column)[order] for name, column in frame.items()}
    other = resolve("popularity", data=turned, split="global_time")
    found = DataRecord.read(RunFolder(tmp_path / "run"))
    assert found is not None
    from tacit.experiment.prepare import prepare

    one, two = prepare(experiment), found.arranged(prepare(other), other.protocol)
    assert np.array_equal(one.split.test.relevant.item_N, two.split.test.relevant.item_N)
    assert np.array_equal(one.split.test.masked.item_N, two.split.test.masked.item_N)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["window", "latest"]))
def test_nobody_trains_on_what_came_after_the_own_validation_item(seed: int, rule: str) -> None:
    """Also where a person touched items again, and the data keeps every time."""
    draw = np.random.default_rng(seed)
    users, items = draw.integers(4, size=60), draw.integers(7, size=60)
    time = draw.integers(40, size=60)
    named = [[f"u{u}" for u in users], [f"i{i}" for i in items]]
    data = Dataset("again", Interactions.from_ids(*named, time=time))
    part_N = part_of_rows(data, under(**SHARES, validation=rule).split)
    rows = data.interactions
    for row in np.flatnonzero(part_N == VALID):
        own_N = (rows.user_N == rows.user_N[row]) & (part_N == TRAIN)
        assert (rows.time_N[own_N] <= rows.time_N[row]).all()  # type: ignore[index]
        assert not (rows.item_N[own_N] == rows.item_N[row]).any()
