"""Named sources and `load`: the papers' counts on the real files, and where files lie."""

import os
from pathlib import Path

import polars as pl
import pytest

from tacit.data.load import cache_dir, load
from tacit.data.sources import SOURCES
from tacit.errors import TacitError

DATA = os.environ.get("TACIT_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="TACIT_DATA names no folder with real datasets")

# users, items, rows with repeats kept, rows without repeats
COUNTS = {
    "ml-100k": (943, 1682, 100000, 100000),
    "ml-1m": (6040, 3706, 1000209, 1000209),
    "ml-latest-small": (610, 3650, 90274, 90274),
    "amazon-video": (8072, 11830, 63836, 63836),
    "amazon-video-10": (1372, 7957, 23181, 23181),
    "filmtrust": (1002, 2042, 33372, 33369),
    "lastfm-2k": (1600, 12454, 185650, 70508),
    "lastfm-2k-10": (1269, 12322, 183415, 69279),
    "citeulike-a": (5551, 16980, 204986, 204986),
    "ninerec-ku": (204, 560, 3489, 3484),
    "amazon-cards-2018": (458, 148, 2972, 2965),
}
# as the papers print them; the files are not at hand
PRINTED = {
    "ninerec-ku-raw": (2034, 5370, 18519),
    "ninerec-ku-5": (204, 560, 3489),  # 3488 in print: the released file has one row more
    "ninerec-food": (6549, 1579, 39740),
    "ninerec-food-5": (5990, 1125, 36482),
    "ninerec-dance": (10715, 2307, 83392),
    "ninerec-dance-5": (10231, 1676, 80086),
    "ninerec-movie": (16525, 3509, 115576),
    "ninerec-movie-5": (15908, 2528, 111091),
    "amazon-beauty": (253, 356, 2535),
    "amazon-cards": (377, 129, 2429),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data folder, and an empty cache."""
    monkeypatch.delenv("TACIT_DATA", raising=False)
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def u_data(root: Path) -> None:
    (root / "ml-100k").mkdir(parents=True)
    (root / "ml-100k" / "u.data").write_text("1\t2\t5\t10\n1\t3\t0\t11\n2\t2\t1\t12\n1\t2\t4\t9\n")


def test_every_source_has_its_counts() -> None:
    known = {name: counts[:3] for name, counts in COUNTS.items()} | PRINTED
    assert {name: tuple(s.statistics.values()) for name, s in SOURCES.items()} == known


@needs_data
@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(name: str) -> None:
    users, items, kept, distinct = COUNTS[name]
    dataset = load(name, duplicates="keep")
    expected = {"users": users, "items": items, "interactions": kept}
    assert dataset.interactions.counts == expected
    assert dataset.steps[-1].rule.endswith(f"all kept, {kept - distinct} repeats")
    assert not any("published counts" in note for note in dataset.notes)


@needs_data
@pytest.mark.parametrize("name", ["filmtrust", "lastfm-2k", "lastfm-2k-10", "ninerec-ku"])
def test_counts_without_repeats(name: str) -> None:
    users, items, kept, distinct = COUNTS[name]
    step = load(name).steps[-1]
    assert step.before == {"users": users, "items": items, "interactions": kept}
    assert step.after == {"users": users, "items": items, "interactions": distinct}


@needs_data
def test_what_the_real_files_hold() -> None:
    filmtrust = load("filmtrust").interactions
    assert filmtrust.time_N is None
    assert (filmtrust.users[0], filmtrust.items[:2]) == ("1", ("1", "2"))
    lastfm = load("lastfm-2k").interactions
    assert lastfm.value_N is None
    assert lastfm.time_N is not None
    assert lastfm.time_N.min() == -428720400000
    ku = load("ninerec-ku")
    assert ku.interactions.label_N is not None
    assert set(ku.interactions.label_N.tolist()) == {0, 1, 2}
    assert list(ku.modalities) == ["image", "text"]
    latest = load("ml-latest-small").interactions
    assert latest.time_N is not None
    row = (latest.user_N == latest.users.index("5")) & (latest.item_N == latest.items.index("39"))
    assert latest.time_N[row].tolist() == [847434961]


@needs_data
def test_min_user_takes_the_place_of_the_sources_own() -> None:
    dataset = load("filmtrust", min_user=5, duplicates="keep")
    assert [step.rule for step in dataset.steps][:2] == [
        "rating above 0",
        "users with at least 5 rows",
    ]
    assert dataset.interactions.counts == {"users": 1227, "items": 2059, "interactions": 34889}


def test_source_in_its_owners_format_from_the_cache(home: Path) -> None:
    u_data(home / "cache")
    dataset = load("ml-100k")
    assert dataset.name == "ml-100k"
    # 4 rows; the one with rating 0 goes; then the later of (1, 2) goes.
    assert [step.after["interactions"] for step in dataset.steps] == [3, 2]
    assert dataset.interactions.time_N is not None
    assert dataset.interactions.time_N.tolist() == [12, 9]
    assert "the published counts are 943 users" in dataset.notes[-1]


def test_data_folder_comes_before_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    u_data(home / "data")
    (home / "cache" / "ml-100k").mkdir(parents=True)
    monkeypatch.setenv("TACIT_DATA", str(home / "data"))
    assert load("ml-100k").interactions.n_users == 2
    monkeypatch.setenv("TACIT_DATA", str(home / "nowhere"))
    assert load("ml-100k", data_dir=home / "data").interactions.n_users == 2


def test_filmtrust_as_published(home: Path) -> None:
    folder = home / "cache" / "filmtrust"
    folder.mkdir(parents=True)
    lines = [f"1 {item} {rating}" for item, rating in zip(range(11), [2, 4] * 6, strict=False)]
    (folder / "ratings.txt").write_text("\n".join([*lines, "2 1 4"]))
    data = load("filmtrust").interactions
    assert data.counts == {"users": 1, "items": 11, "interactions": 11}
    assert data.time_N is None


def test_lastfm_as_published(home: Path) -> None:
    folder = home / "cache" / "lastfm-2k"
    folder.mkdir(parents=True)
    rows = "".join(f"2\t5{n % 2}\t1{n}\t{1000 - n}\n" for n in range(5))
    header = "userID\tartistID\ttagID\ttimestamp\n"
    (folder / "user_taggedartists-timestamps.dat").write_text(header + rows)
    dataset = load("lastfm-2k")
    assert dataset.interactions.items == ("50", "51")
    assert dataset.interactions.value_N is None
    assert dataset.interactions.time_N is not None
    assert sorted(dataset.interactions.time_N.tolist()) == [996, 997]


def test_missing_source_says_where_to_get_it(home: Path) -> None:
    with pytest.raises(TacitError) as caught:
        load("ml-1m")
    said = str(caught.value)
    assert "GroupLens, grouplens.org, MovieLens 1M" in said
    assert "ratings.dat and movies.dat" in said
    assert str(home / "cache" / "ml-1m") in said


def test_unknown_name(home: Path) -> None:
    with pytest.raises(TacitError, match="called 'ml-100'; did you mean 'ml-100k'"):
        load("ml-100")


def test_a_path_is_read_with_the_callers_rules(home: Path) -> None:
    file = home / "plays.parquet"
    pl.DataFrame({"who": ["a", "a", "b"], "item": [1, 1, 2]}).write_parquet(file)
    dataset = load(file, columns={"user": "who"}, min_user=2)
    assert [step.after["interactions"] for step in dataset.steps] == [2, 1]


def test_columns_of_a_source_are_known(home: Path) -> None:
    with pytest.raises(TacitError, match="leave out columns="):
        load("ml-100k", columns={"user": "x"})


def test_planted_takes_no_rules() -> None:
    with pytest.raises(TacitError, match="leave out columns=, min_user=, min_rating= and core="):
        load("planted", min_user=3)


def test_cache_is_where_the_variable_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == home / "cache"
    monkeypatch.delenv("TACIT_CACHE")
    assert cache_dir().name == "tacit"
