"""NineRec's and Amazon's files in their published layouts, made up, by path and by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from tacit.cli.main import main
from tacit.content.sources import read_items
from tacit.data.dataset import Dataset
from tacit.data.load import load
from tacit.data.readers import READERS, read_path
from tacit.errors import TacitError

# six people, seven items, everybody at another minute; ids as in the Bili sets: whole numbers
PAIRS = [
    (user, item, 1_600_000_000_000 + 60_000 * (10 * user + item))
    for user in range(1, 7)
    for item in range(1, 8)
    if (user + item) % 4
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def first_match(path: Path) -> str:
    return next(name for name, reader in READERS.items() if reader.matches(path))


def pairs_of(dataset: Dataset) -> set[tuple[str, str]]:
    rows = dataset.interactions
    return {(rows.users[u], rows.items[i]) for u, i in zip(rows.user_N, rows.item_N, strict=True)}


EXPECTED = {(str(user), str(item)) for user, item, _ in PAIRS}


def ninerec(
    folder: Path,
    stem: str = "Bili_Food",
    *,
    item_first: bool = False,
    titles: range | None = range(1, 8),
    header: str = "",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{i},{u},{t}" if item_first else f"{u},{i},{t}" for u, i, t in PAIRS]
    (folder / f"{stem}_pair.csv").write_text(header + "\n".join(lines))
    if titles is not None:
        named = [f'{item},菜 {item},"Dish, no. {item}"' for item in titles]
        (folder / f"{stem}_item.csv").write_text("\n".join(named), encoding="utf-8")
    return folder


# NineRec.


@pytest.mark.parametrize("item_first", [False, True])
def test_the_item_file_says_which_column_is_the_item(tmp_path: Path, item_first: bool) -> None:
    """Users 1 to 6 are all called like items, but there are seven items."""
    folder = ninerec(tmp_path, item_first=item_first)
    assert first_match(folder) == "ninerec"
    dataset = read_path(folder)
    assert pairs_of(dataset) == EXPECTED
    assert dataset.texts["title"][0].startswith("Dish, no. ")
    assert dataset.texts["title_zh"][0].startswith("菜")
    rows = dataset.interactions
    assert rows.time_N is not None
    times = {(str(u), str(i)): t for u, i, t in PAIRS}
    names = zip(rows.user_N, rows.item_N, rows.time_N, strict=True)
    assert all(times[rows.users[u], rows.items[i]] == t for u, i, t in names)


@pytest.mark.parametrize("item_first", [False, True])
def test_ids_beyond_the_item_file_are_users(tmp_path: Path, item_first: bool) -> None:
    lines = ["901,1,5", "902,2,6", "901,2,7"]
    if item_first:
        lines = [",".join([line.split(",")[i] for i in (1, 0, 2)]) for line in lines]
    (tmp_path / "KU_pair.csv").write_text("\n".join(lines))
    (tmp_path / "KU_item.csv").write_text("1,a,A\n2,b,B\n3,c,C\n")
    assert pairs_of(read_path(tmp_path)) == {("901", "1"), ("902", "2"), ("901", "2")}


def test_letters_decide_where_there_is_no_item_file(tmp_path: Path) -> None:
    for name, text in {"QB": "v3,u1,5\nv4,u1,6\n", "TN": "u1,v3\nu1,v4\n"}.items():
        file = tmp_path / f"{name}_pair.csv"
        file.write_text(text)
        dataset = read_path(file)
        assert pairs_of(dataset) == {("u1", "v3"), ("u1", "v4")}
        assert (dataset.interactions.time_N is None) == (name == "TN")


def test_an_order_that_nothing_decides_is_never_guessed(tmp_path: Path) -> None:
    folder = ninerec(tmp_path, titles=None)
    with pytest.raises(TacitError, match=r"Bili_Food_item.csv, which lists the items, is not next"):
        read_path(folder)
    ninerec(tmp_path, titles=range(1, 20))  # users and items are among these, and fewer
    with pytest.raises(TacitError, match="does not decide it") as refused:
        read_path(folder)
    assert str(refused.value).count(". ") == 0
    chosen = read_path(folder, {"user": "1", "item": "2", "time": "3"})
    assert pairs_of(chosen) == EXPECTED
    swapped = read_path(folder, {"user": "2", "item": "1"})
    assert pairs_of(swapped) == {(item, user) for user, item in EXPECTED}


@pytest.mark.parametrize("header", ["user_id,item_id,timestamp\n", "client,song,when\n"])
def test_a_header_says_it_all(tmp_path: Path, header: str) -> None:
    folder = ninerec(tmp_path, titles=None, header=header)
    user, item, time = header.strip().split(",")
    dataset = read_path(folder, {"user": user, "item": item, "time": time})
    assert pairs_of(dataset) == EXPECTED


@pytest.mark.parametrize(
    ("pair", "item", "said"),
    [
        ("1\n2\n", "1,a,A\n", "has 1 columns where 2 are expected"),
        ("u1,v1,5\n", "v1,A\n", "has 2 columns where 3 are expected"),
        ("u1,v1,soon\nu1,v2,later\n", "v1,a,A\n", "No column of"),
        ("u1,v1,5\nu1,v2,later\n", "v1,a,A\nv2,b,B\n", "later"),
    ],
)
def test_another_layout_is_one_sentence(tmp_path: Path, pair: str, item: str, said: str) -> None:
    (tmp_path / "KU_pair.csv").write_text(pair)
    (tmp_path / "KU_item.csv").write_text(item)
    with pytest.raises(TacitError, match=said) as refused:
        read_path(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("place", ["ninerec-food", "Bili_Food"])
def test_a_named_set_is_found_under_both_names(home: Path, place: str) -> None:
    ninerec(home / place, item_first=True)
    dataset = load("ninerec-food", duplicates="keep")
    assert dataset.name == "ninerec-food"
    assert pairs_of(dataset) == EXPECTED
    assert "the published counts are 6549 users, 1579 items" in dataset.notes[-1]
    assert any("not tried on the files themselves" in note for note in dataset.notes)


def test_the_filter_of_fedmr_drops_equal_rows_and_takes_a_core_of_both_sides(home: Path) -> None:
    """Six people have all five items; one has four of them and one item that nobody else has; equal
    rows do not lift anybody over the border."""
    lines = [f"{user},{item},{user * 100 + item}" for user in range(11, 17) for item in range(5)]
    lines += [f"30,{item},{item}" for item in range(4)] + ["30,9,7", "30,3,3", "30,3,3"]
    lines += ["11,0,9999"]  # the same pair at another time stays
    (home / "KU").mkdir()
    (home / "KU" / "KU_pair.csv").write_text("\n".join(lines))
    (home / "KU" / "KU_item.csv").write_text("\n".join(f"{item},x,X" for item in (*range(5), 9)))
    raw = load("ninerec-ku-raw", duplicates="keep").interactions
    assert raw.counts == {"users": 7, "items": 6, "interactions": len(lines)}
    core = load("ninerec-ku-5", duplicates="keep")
    assert [step.after["interactions"] for step in core.steps[:2]] == [len(lines) - 2, 31]
    assert core.interactions.counts == {"users": 6, "items": 5, "interactions": 31}


def test_a_missing_set_says_what_to_put_where(home: Path) -> None:
    with pytest.raises(TacitError, match=r"Bili_Dance_pair.csv and Bili_Dance_item.csv") as refused:
        load("ninerec-dance-5")
    assert "'ninerec-dance' or 'Bili_Dance' under the folder that TACIT_DATA names" in str(
        refused.value
    )


def test_titles_and_covers_become_features_by_name(home: Path) -> None:
    """From the published files to a run of a paper's method, as docs/data.md says."""
    folder = ninerec(home / "Bili_Food", item_first=True)
    (folder / "Bili_Food_cover").mkdir()
    random = np.random.default_rng(0)
    for item in range(1, 8):
        picture = Image.fromarray(random.integers(0, 255, (8, 8, 3), dtype=np.uint8))
        picture.save(folder / "Bili_Food_cover" / f"{item}.jpg")
    words = ["encode", folder / "Bili_Food_item.csv", "--text", "title"]
    words += ["--images", folder / "Bili_Food_cover", "--out", folder]
    assert main([str(word) for word in words]) == 0
    dataset = load("ninerec-food")
    assert set(dataset.modalities) == {"text", "image"}
    assert all(len(table.present_I) == 7 for table in dataset.modalities.values())
    train = ["train", "mdifffr", "--data", "ninerec-food", "--rounds", "1", "--out", home / "run"]
    assert main([str(word) for word in train]) == 0


# Amazon.

REVIEWS = [
    {
        "rating": 5.0 - (user % 2),
        "title": "Nice",
        "text": "Lines\u2028within",
        "images": [],
        "asin": f"B{item}X",
        "parent_asin": f"B{item}",
        "user_id": f"A{user}",
        "timestamp": 1_588_687_728_923 + 1000 * (10 * user + item),
        "helpful_vote": 0,
        "verified_purchase": True,
    }
    for user in range(6)
    for item in range(5)
]
OLD_REVIEWS = [
    {
        "overall": one["rating"],
        "verified": True,
        "reviewTime": "05 5, 2020",
        "reviewerID": one["user_id"],
        "asin": one["parent_asin"],
        "reviewText": "Nice",
        "unixReviewTime": int(one["timestamp"]) // 1000,  # type: ignore[call-overload]
    }
    for one in REVIEWS
]


def json_lines(file: Path, lines: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return file


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_reviews_of_2023(tmp_path: Path, ending: str) -> None:
    file = json_lines(tmp_path / f"All_Beauty{ending}", REVIEWS)
    meta = [
        {
            "main_category": "All Beauty",
            "title": f"Cream {item}",
            "description": ["Soft.", "Warm."],
            "images": [{"thumb": "t", "large": f"https://x/{item}.jpg", "hi_res": None}],
            "parent_asin": f"B{item}",
        }
        for item in range(4)
    ]
    json_lines(tmp_path / f"meta_All_Beauty{ending}", meta)
    for path in (tmp_path, file):
        assert first_match(path) == "amazon"
        dataset = read_path(path)
        assert dataset.name == "All_Beauty"
        assert dataset.interactions.counts == {"users": 6, "items": 5, "interactions": 30}
        assert pairs_of(dataset) == {(f"A{u}", f"B{i}") for u in range(6) for i in range(5)}
        titles = dict(zip(dataset.interactions.items, dataset.texts["title"], strict=True))
        assert titles == {f"B{item}": f"Cream {item}" for item in range(4)} | {"B4": ""}
        assert dataset.texts["description"][0] == "Soft. Warm."
        assert dataset.texts["image_url"][0] == "https://x/0.jpg"
        assert dataset.interactions.time_N is not None
        assert dataset.interactions.time_N[0] == REVIEWS[0]["timestamp"]
        assert dataset.interactions.value_N is not None
        assert dataset.interactions.value_N[0] == 5.0
    variants = read_path(file, {"user": "user_id", "item": "asin", "time": "timestamp"})
    assert variants.interactions.items[0] == "B0X"


def test_reviews_of_2018(home: Path) -> None:
    folder = home / "amazon-giftcards-2018-5core"
    json_lines(folder / "Gift_Cards_5.json", OLD_REVIEWS)
    meta = [{"asin": "B0", "title": "Card", "description": [], "imageURL": ["https://x/0.jpg"]}]
    json_lines(folder / "meta_Gift_Cards.json", meta)
    dataset = load("amazon-cards-2018")
    assert dataset.interactions.counts == {"users": 6, "items": 5, "interactions": 30}
    assert dataset.texts["title"][0] == "Card"
    assert dataset.texts["image_url"][0] == "https://x/0.jpg"
    assert dataset.interactions.time_N is not None
    assert dataset.interactions.time_N[0] == OLD_REVIEWS[0]["unixReviewTime"]
    assert "the published counts are 458 users" in dataset.notes[-1]


def test_beauty_and_cards_by_name_are_a_5_core_of_products(home: Path) -> None:
    few = {**REVIEWS[0], "user_id": "rare", "parent_asin": "B9"}
    json_lines(home / "amazon-cards" / "Gift_Cards.jsonl", [*REVIEWS, REVIEWS[0], few])
    dataset = load("amazon-cards", duplicates="keep")
    assert [step.after["interactions"] for step in dataset.steps[:2]] == [31, 30]
    assert dataset.interactions.counts == {"users": 6, "items": 5, "interactions": 30}
    with pytest.raises(TacitError, match=r"All_Beauty.jsonl and meta_All_Beauty.jsonl"):
        load("amazon-beauty")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"user_id": "a", "parent_asin": "b"}'], "Line 1 of .* has no 'rating'"),
        ([json.dumps(REVIEWS[0]), "{"], "Line 2 of .* is no JSON object"),
        ([json.dumps(REVIEWS[0]), "[]"], "Line 2 of .* is no JSON object"),
        ([json.dumps(REVIEWS[0]), json.dumps({**REVIEWS[0], "user_id": 7})], "several kinds"),
        ([json.dumps({**REVIEWS[0], "user_id": None})], "user"),
        ([json.dumps({**REVIEWS[0], "timestamp": "soon"})], "soon"),
    ],
)
def test_other_json_is_one_sentence(tmp_path: Path, lines: list[str], said: str) -> None:
    file = tmp_path / "All_Beauty.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(TacitError, match=said) as refused:
        read_path(file)
    assert "\n" not in str(refused.value)


def test_json_that_is_no_review_is_in_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"a": 1}\n')
    with pytest.raises(TacitError, match="known"):
        read_path(tmp_path)


def test_two_files_of_reviews_need_a_choice(tmp_path: Path) -> None:
    for name in ("All_Beauty", "Gift_Cards"):
        json_lines(tmp_path / f"{name}.jsonl", REVIEWS)
    with pytest.raises(TacitError, match=r"All_Beauty.jsonl, Gift_Cards.jsonl"):
        read_path(tmp_path)


def test_files_of_items_are_read_for_encoding(tmp_path: Path) -> None:
    meta = json_lines(
        tmp_path / "meta_Gift_Cards.jsonl", [{"parent_asin": "B1", "title": "Card", "images": None}]
    )
    assert read_items(meta, ["title"]).texts == {"title": ("Card",)}
    other = json_lines(tmp_path / "meta_Other.jsonl", [{"id": "B1"}])
    with pytest.raises(TacitError, match="has none of the ids parent_asin, asin"):
        read_items(other, ["title"])
    headed = tmp_path / "own_item.csv"
    pl.DataFrame({"item_id": ["a"], "title": ["A"], "more": ["b"]}).write_csv(headed)
    assert read_items(headed, ["title"]).texts == {"title": ("A",)}
