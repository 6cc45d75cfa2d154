"""Rules on rows counted by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.interactions import Interactions
from tacit.data.rules import Duplicates, KCore, MinRating, MinUser, PositiveRating
from tacit.errors import TacitError


def dataset(pairs: str, **columns: object) -> Dataset:
    """`"ax ay bx"` is: a touched x and y, b touched x."""
    user, item = zip(*pairs.split(), strict=True)
    return Dataset("few", Interactions.from_ids(list(user), list(item), **columns))


def pairs(data: Dataset) -> str:
    kept = data.interactions
    both = zip(kept.user_N, kept.item_N, strict=True)
    return " ".join(kept.users[u] + kept.items[i] for u, i in both)


def test_min_user_counts_repeats_and_only_once() -> None:
    # c's rows go; y then has one row left, which is nobody's concern.
    result = MinUser(2).apply(dataset("ax ay cy bx bx"))
    assert pairs(result) == "ax ay bx bx"
    assert result.steps[0].rule == "users with at least 2 rows"
    assert result.steps[0].before == {"users": 3, "items": 2, "interactions": 5}
    assert result.steps[0].after == {"users": 2, "items": 2, "interactions": 4}


def test_k_core_goes_on_until_nothing_changes() -> None:
    # z goes (1 row), so c has 1 row and goes, so y has 1 row and goes; a keeps x and w.
    result = KCore(2).apply(dataset("ax aw bx bw cy cz ay"))
    assert pairs(result) == "ax aw bx bw"
    assert result.steps[0].after == {"users": 2, "items": 2, "interactions": 4}


def test_min_rating_is_inclusive() -> None:
    assert pairs(MinRating(3).apply(dataset("ax ay az", value=[2.9, 3.0, 4.0]))) == "ay az"


def test_positive_rating_drops_zero_and_less() -> None:
    assert pairs(PositiveRating().apply(dataset("ax ay az", value=[0, 0.5, -1]))) == "ay"


def test_ratings_are_needed_only_where_asked_for() -> None:
    with pytest.raises(TacitError, match="'few' has no ratings"):
        MinRating(3).apply(dataset("ax"))
    result = PositiveRating().apply(dataset("ax"))
    assert "there are no ratings" in result.steps[0].rule
    assert pairs(result) == "ax"


def test_earliest_by_time_then_by_row() -> None:
    data = dataset("ax bx ax ay ax bx", time=[5, 7, 3, 1, 3, 7], value=[1, 2, 3, 4, 5, 6])
    result = Duplicates("earliest").apply(data)
    # a-x: time 3 twice, the first such row (value 3); b-x: time 7 twice, the first (value 2).
    assert result.interactions.value_N is not None
    assert result.interactions.value_N.tolist() == [2, 3, 4]
    assert pairs(result) == "bx ax ay"
    assert "3 repeats dropped" in result.steps[0].rule
    assert result.steps[0].after["interactions"] == 3


def test_earliest_without_time_is_the_first_row() -> None:
    result = Duplicates("earliest").apply(dataset("ax ay ax", value=[1, 2, 3]))
    assert result.interactions.value_N is not None
    assert result.interactions.value_N.tolist() == [1, 2]


def test_keep_changes_nothing_but_counts() -> None:
    data = dataset("ax ay ax ax")
    result = Duplicates("keep").apply(data)
    assert result.interactions is data.interactions
    assert result.steps[0].rule == "repeated (user, item) pairs: all kept, 2 repeats"
    assert result.steps[0].before == result.steps[0].after


@pytest.mark.parametrize(
    "rule", [MinUser(4), KCore(3), MinRating(9)], ids=["min-user", "k-core", "min-rating"]
)
def test_nobody_left(rule: MinUser | KCore | MinRating) -> None:
    with pytest.raises(TacitError, match=r"leaves nobody of 'few' \(1 users before\)"):
        rule.apply(dataset("ax ay az", value=[1, 2, 3]))


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_counts_must_be_whole(n: int) -> None:
    with pytest.raises(TacitError, match="whole number of at least 1"):
        MinUser(n)
    with pytest.raises(TacitError, match="whole number of at least 1"):
        KCore(n)


def test_unknown_way_of_duplicates() -> None:
    with pytest.raises(TacitError, match="did you mean 'earliest'"):
        Duplicates("earlest")  # type: ignore[arg-type]


def test_features_and_texts_follow_the_items() -> None:
    data = dataset("ax by bz")
    table = FeatureTable(np.array([[1.0], [2.0], [3.0]]), np.array([True, False, True]))
    data = Dataset(
        "few", data.interactions, Modalities({"text": table}), {"title": ("X", "Y", "Z")}
    )
    result = MinUser(2).apply(data)
    assert result.texts == {"title": ("Y", "Z")}
    assert result.modalities["text"].value_IF.tolist() == [[2.0], [3.0]]
    assert result.modalities["text"].present_I.tolist() == [False, True]


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 3)), min_size=1
    )
)
def test_earliest_against_a_loop(rows: list[tuple[str, str, int]]) -> None:
    best: dict[tuple[str, str], tuple[int, int]] = {}
    for position, (user, item, time) in enumerate(rows):
        best[user, item] = min(best.get((user, item), (time, position)), (time, position))
    wanted = sorted(position for _, position in best.values())
    data = Interactions.from_ids(
        [row[0] for row in rows],
        [row[1] for row in rows],
        time=[row[2] for row in rows],
        value=range(len(rows)),
    )
    kept = Duplicates().apply(Dataset("any", data)).interactions.value_N
    assert kept is not None
    assert kept.tolist() == wanted
