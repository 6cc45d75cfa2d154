"""The file of items, in each format, and its mistakes."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from tacit.content.sources import read_items
from tacit.errors import TacitError

CSV = 'item_id,title,plot\n7,"Alien, the",\n8,,A crew\n'


def test_every_format(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(CSV)
    (tmp_path / "items.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    pl.DataFrame(
        {"item_id": [7, 8], "title": ["Alien, the", None], "plot": [None, " A crew"]}
    ).write_parquet(tmp_path / "items.parquet")
    for name in ("items.csv", "items.csv.gz", "items.parquet"):
        items = read_items(tmp_path / name, ["title", "plot"])
        assert items.ids == ("7", "8")
        assert items.texts == {"title": ("Alien, the", ""), "plot": ("", "A crew")}


def test_other_names_of_the_id(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("itemID,asin\n0,B01\n")
    assert read_items(tmp_path / "items.csv").ids == ("0",)
    assert read_items(tmp_path / "items.csv", (), "asin").ids == ("B01",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item_id,title\n1,a\n1,b\n", "Item '1' stands twice in column 'item_id'"),
        ("item_id,title\n,a\n", "Data row 1 of .* has no id in column 'item_id'"),
        ("code,title\n1,a\n", r"no column 'item_id' \(name the ids with --id\); .*code, title"),
        ("item_id,titel\n1,a\n", "no column 'title'; did you mean 'titel'"),
        ("item_id,title\n", "holds no items"),
        ('item_id,title\n"a\nb",x\n', "holds a line break"),
    ],
)
def test_mistakes(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "items.csv").write_text(content)
    with pytest.raises(TacitError, match=message):
        read_items(tmp_path / "items.csv", ["title"])


def test_a_list_is_no_text(tmp_path: Path) -> None:
    pl.DataFrame({"item_id": ["a"], "title": [["x"]]}).write_parquet(tmp_path / "i.parquet")
    with pytest.raises(TacitError, match=r"Column 'title' of .* holds List\(String\) values"):
        read_items(tmp_path / "i.parquet", ["title"])


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="There is no file of items"):
        read_items(tmp_path)
