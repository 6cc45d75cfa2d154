"""Tables are written whole or not at all, and interruptions leave no trace in them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tacit.content.encode import encode_table
from tacit.content.encoders import About
from tacit.content.plain import Colours, NGrams
from tacit.content.sources import Images, Items, Texts
from tacit.errors import TacitError


class Counted(NGrams):
    """n-grams that stop as by Ctrl-C before call number `stop_at`, and count their calls."""

    def __init__(self, stop_at: int = -1) -> None:
        object.__setattr__(self, "calls", [])
        object.__setattr__(self, "stop_at", stop_at)

    def encode(self, content: list[str]) -> np.ndarray:
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append(list(content))
        return super().encode(content)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def whole(texts: Texts, tmp_path: Path) -> dict[str, bytes]:
    encode_table(texts, Counted(), tmp_path / "whole", batch=2)
    return files(tmp_path / "whole")


def test_rows_ids_and_manifest(texts: Texts, tmp_path: Path) -> None:
    done = encode_table(texts, NGrams(), tmp_path, batch=4)
    value_ND = np.load(tmp_path / "text_feat.npy", allow_pickle=False)
    assert (value_ND == NGrams().encode(texts.texts)).all()
    assert (tmp_path / "text_item_ids.txt").read_text() == "a\nc\nd\ne\nf\ng\n"
    found = json.loads((tmp_path / "text_feat.json").read_text())
    assert found["encoder"] == "ngrams"
    assert found["weights"] == {}
    assert found["preprocessing"]["batch"] == 4
    assert found["preprocessing"]["source"] == {
        "columns": ["title"],
        "prompt": None,
        "placeholder": None,
    }
    assert (found["items"], found["rows"], found["width"]) == (7, 6, 256)
    assert (found["missing"], found["placeholders"], found["corrupt"]) == (1, 0, [])
    assert (done.encoded, done.damaged) == (6, ())
    assert sorted(files(tmp_path)) == ["text_feat.json", "text_feat.npy", "text_item_ids.txt"]


@pytest.mark.parametrize("stop_at", [0, 1, 2])
def test_interrupted_between_batches(
    texts: Texts, tmp_path: Path, whole: dict[str, bytes], stop_at: int
) -> None:
    place = tmp_path / "again"
    with pytest.raises(KeyboardInterrupt):
        encode_table(texts, Counted(stop_at), place, batch=2)
    assert [path.name for path in place.iterdir()] == [".text_batches"]
    encoder = Counted()
    done = encode_table(texts, encoder, place, batch=2)
    assert len(encoder.calls) == 3 - stop_at
    assert done.encoded == 2 * (3 - stop_at)
    assert files(place) == whole


def test_interrupted_at_any_write(
    texts: Texts, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.replace, []

    def stop(old: Path, new: Path) -> None:
        calls.append(new)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        real(old, new)

    monkeypatch.setattr(os, "replace", stop)
    for stop_at in range(1, 7):  # three batches, ids, manifest, table
        calls.clear()
        place = tmp_path / f"stop-{stop_at}"
        with pytest.raises(KeyboardInterrupt):
            encode_table(texts, NGrams(), place, batch=2)
        assert not (place / "text_feat.npy").exists()
        calls[:] = [None] * 100
        encode_table(texts, Counted(), place, batch=2)
        assert files(place) == whole


def test_a_damaged_batch_is_made_again(
    texts: Texts, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    place = tmp_path / "again"
    with pytest.raises(KeyboardInterrupt):
        encode_table(texts, Counted(2), place, batch=2)
    first, second = sorted((place / ".text_batches").iterdir())
    first.write_bytes(first.read_bytes()[:50])
    second.write_bytes(b"")
    encode_table(texts, NGrams(), place, batch=2)
    assert files(place) == whole


def test_changed_content_is_encoded_again(texts: Texts, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode_table(texts, Counted(2), tmp_path, batch=2)
    titles = ("Quiet Harbour", "", "Lunar Comet", "Spiced Pantry", "Glacial Fjord", "x", "y")
    changed = Texts.of(Items(tuple("abcdefg"), {"title": titles}))
    encoder = Counted()
    encode_table(changed, encoder, tmp_path, batch=2)
    assert encoder.calls == [["Spiced Pantry", "Glacial Fjord"], ["x", "y"]]
    assert (np.load(tmp_path / "text_feat.npy") == NGrams().encode(changed.texts)).all()


def test_a_finished_table_is_left_alone(texts: Texts, tmp_path: Path) -> None:
    first = encode_table(texts, NGrams(), tmp_path)
    before = files(tmp_path)
    encoder = Counted()
    again = encode_table(texts, encoder, tmp_path)
    assert (encoder.calls, again.encoded) == ([], 0)
    assert again.manifest == first.manifest
    assert files(tmp_path) == before


def test_another_table_is_not_overwritten(texts: Texts, tmp_path: Path) -> None:
    encode_table(texts, NGrams(), tmp_path)
    other = Texts.of(Items(("a",), {"title": ("x",)}))
    with pytest.raises(TacitError, match="already there, made of other content or in another way"):
        encode_table(other, NGrams(), tmp_path)
    assert encode_table(other, NGrams(), tmp_path, name="other").manifest.rows == 1
    (tmp_path / "text_feat.json").unlink()
    with pytest.raises(TacitError, match="already there"):
        encode_table(texts, NGrams(), tmp_path)


def test_a_finished_table_that_was_damaged(texts: Texts, tmp_path: Path) -> None:
    encode_table(texts, NGrams(), tmp_path)
    np.save(tmp_path / "text_feat.npy", np.zeros((6, 256), np.float32))
    with pytest.raises(TacitError, match="holds other numbers than its manifest"):
        encode_table(texts, NGrams(), tmp_path)


def test_damaged_pictures_are_named_and_counted(pictures: Path, tmp_path: Path) -> None:
    source = Images.of(Items(("1", "2", "3", "4", "5"), {}), pictures)
    done = encode_table(source, Colours(), tmp_path / "out", batch=1)
    assert done.damaged == ("item '2' (2.png)",)
    assert done.manifest.corrupt == ["2"]
    assert (done.manifest.rows, done.manifest.missing) == (3, 1)
    assert (tmp_path / "out" / "image_item_ids.txt").read_text() == "1\n3\n5\n"
    again = encode_table(source, Colours(), tmp_path / "out", batch=1)
    assert again.damaged == done.damaged


def test_nothing_but_damaged_pictures(pictures: Path, tmp_path: Path) -> None:
    source = Images.of(Items(("2",), {}), pictures)
    with pytest.raises(TacitError, match=r"None of the 1 images could be read .*2.png"):
        encode_table(source, Colours(), tmp_path / "out")
    assert not (tmp_path / "out" / "image_feat.npy").exists()


class Broken:
    about = About("broken")
    width = 1

    def encode(self, content: list[str]) -> np.ndarray:
        return np.array([[np.nan if text == "Reef" else 1.0] for text in content])


def test_numbers_must_be_finite(texts: Texts, tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="'broken' gave NaN or infinite numbers for item 'g'"):
        encode_table(texts, Broken(), tmp_path)


@pytest.mark.parametrize("name", ["../x", ".x", "a b"])
def test_names_of_tables(texts: Texts, tmp_path: Path, name: str) -> None:
    with pytest.raises(TacitError, match="must be letters, digits"):
        encode_table(texts, NGrams(), tmp_path, name=name)
