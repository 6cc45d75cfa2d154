"""A dataset folder refuses a table that is not the one its manifest was written for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.content.encode import encode_table
from tacit.content.plain import NGrams
from tacit.content.sources import Texts
from tacit.data.readers import read_path
from tacit.errors import TacitError


@pytest.fixture
def folder(texts: Texts, tmp_path: Path) -> Path:
    """Interactions with items a, b and g, and a table for all items but b."""
    place = tmp_path / "plays"
    encode_table(texts, NGrams(), place, name="audio")
    (place / "interactions.csv").write_text("user_id,item_id\n1,g\n1,b\n2,a\n")
    return place


def test_what_was_encoded_is_read(folder: Path, texts: Texts) -> None:
    dataset = read_path(folder)
    table = dataset.modalities["audio"]
    assert dataset.interactions.items == ("g", "b", "a")
    assert table.present_I.tolist() == [True, False, True]
    value_ND = NGrams().encode(texts.texts)
    assert (table.value_IF[[0, 2]] == value_ND[[5, 0]]).all()
    assert not table.value_IF[1].any()


def test_line_ends_do_not_matter(folder: Path) -> None:
    file = folder / "audio_item_ids.txt"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert read_path(folder).modalities["audio"].present_I.sum() == 2


def test_rows_in_another_order(folder: Path) -> None:
    (folder / "audio_item_ids.txt").write_text("c\na\nd\ne\nf\ng\n")
    with pytest.raises(TacitError, match=r"audio_feat.npy' stands beside other item ids, or"):
        read_path(folder)


def test_rows_that_went_missing(folder: Path) -> None:
    value_ND = np.load(folder / "audio_feat.npy")
    np.save(folder / "audio_feat.npy", value_ND[:5])
    with pytest.raises(TacitError, match="has 5 rows but 6 item ids"):
        read_path(folder)
    (folder / "audio_item_ids.txt").write_text("a\nc\nd\ne\nf\n")
    with pytest.raises(
        TacitError, match=r"another shape \(5 rows of 256; 6 of 256\) than its mani"
    ):
        read_path(folder)


def test_other_numbers(folder: Path) -> None:
    value_ND = np.load(folder / "audio_feat.npy")
    value_ND[0, 0] += 1
    np.save(folder / "audio_feat.npy", value_ND)
    with pytest.raises(TacitError, match=r"holds other numbers than its manifest audio_feat.json"):
        read_path(folder)
    (folder / "audio_feat.json").unlink()
    assert read_path(folder).modalities["audio"].present_I.sum() == 2


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', "\0"])
def test_something_else(folder: Path, content: str) -> None:
    (folder / "audio_feat.json").write_text(content)
    with pytest.raises(TacitError, match="is not a manifest of a feature table"):
        read_path(folder)


def test_a_later_format(folder: Path) -> None:
    path = folder / "audio_feat.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    with pytest.raises(TacitError, match="is of format 2, which this version"):
        read_path(folder)
