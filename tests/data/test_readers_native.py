"""The native layout: interactions.parquet with item texts and features."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tacit.data.readers import READERS, read_path
from tacit.errors import TacitError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two users, items c, a, b in that order, times as text, one missing feature."""
    place = tmp_path / "small"
    place.mkdir()
    pl.DataFrame(
        {
            "user_id": [7, 7, 3],
            "item_id": ["c", "a", "b"],
            "rating": [5, 1, 3],
            "timestamp": ["30", "10", "20"],
            "split_label": [0, 1, 2],
            "mood": ["x", None, "y"],
        }
    ).write_parquet(place / "interactions.parquet")
    with gzip.open(place / "items.csv.gz", "wt", encoding="utf-8") as file:
        file.write('item_id,title,description\na,"Alien, the",\nzz,Nobody,none\nc,Čas,long\n')
    np.save(place / "text_feat.npy", np.array([[1, 2], [3, 4], [5, 6]], np.float16))
    (place / "item_ids.txt").write_text("a\nb\nc\n")
    np.save(place / "image_feat.npy", np.array([[9.0]], np.float32))
    (place / "image_item_ids.txt").write_text("b\n")
    return place


def test_reads_everything(folder: Path) -> None:
    dataset = read_path(folder)
    data = dataset.interactions
    assert dataset.name == "small"
    assert data.users == ("7", "3")
    assert data.items == ("c", "a", "b")
    assert data.time_N is not None
    assert data.value_N is not None
    assert data.label_N is not None
    assert data.time_N.tolist() == [30, 10, 20]
    assert data.time_N.dtype == np.int64
    assert data.value_N.tolist() == [5.0, 1.0, 3.0]
    assert data.label_N.tolist() == [0, 1, 2]
    assert dataset.texts == {
        "title": ("Čas", "Alien, the", ""),
        "description": ("long", "", ""),
    }
    assert dataset.modalities["text"].value_IF.tolist() == [[5, 6], [1, 2], [3, 4]]
    assert dataset.modalities["image"].present_I.tolist() == [False, False, True]


def test_the_file_itself_stands_for_its_folder(folder: Path) -> None:
    assert list(read_path(folder / "interactions.parquet").modalities) == ["image", "text"]


def test_columns_and_name_can_be_given(folder: Path) -> None:
    dataset = read_path(folder, {"user": "user_id", "item": "item_id"}, "x")
    assert dataset.name == "x"
    assert dataset.interactions.time_N is None


def test_only_native_matches(folder: Path) -> None:
    assert [name for name, reader in READERS.items() if reader.matches(folder)] == ["native"]


def test_more_rows_than_ids(folder: Path) -> None:
    (folder / "item_ids.txt").write_text("a\nb\n")
    with pytest.raises(TacitError, match=r"text_feat.npy' has 3 rows but 2 item ids"):
        read_path(folder)


def test_repeated_feature_id(folder: Path) -> None:
    (folder / "item_ids.txt").write_text("a\nb\na\n")
    with pytest.raises(TacitError, match="Item 'a' is listed twice"):
        read_path(folder)


def test_features_without_ids(folder: Path) -> None:
    (folder / "item_ids.txt").unlink()
    with pytest.raises(TacitError, match=r"write text_item_ids.txt next to it"):
        read_path(folder)


@pytest.mark.parametrize(
    "array", [np.ones(3), np.array([[None]], dtype=object), np.array([["a"]]), np.ones((1, 1, 1))]
)
def test_not_a_matrix_of_numbers(folder: Path, array: np.ndarray) -> None:
    np.save(folder / "image_feat.npy", array)
    with pytest.raises(TacitError, match=r"image_feat.npy"):
        read_path(folder)


def test_features_with_nan_name_the_file(folder: Path) -> None:
    np.save(folder / "image_feat.npy", np.array([[np.nan]]))
    with pytest.raises(TacitError, match=r"image_feat.npy': The features of item 'b'"):
        read_path(folder)


def test_cut_off_features(folder: Path) -> None:
    (folder / "image_feat.npy").write_bytes((folder / "image_feat.npy").read_bytes()[:40])
    with pytest.raises(TacitError, match=r"not a readable .npy"):
        read_path(folder)


def test_items_without_item_id(folder: Path) -> None:
    (folder / "items.csv.gz").unlink()
    (folder / "items.csv").write_text("code,title\na,b\n")
    with pytest.raises(TacitError, match="no column item_id; it has code, title"):
        read_path(folder)
