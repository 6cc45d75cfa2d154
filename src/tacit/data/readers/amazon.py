"""Amazon reviews as published: JSON lines of 2023 (`X.jsonl`) and of 2018 (`X.json`, `X_5.json`).

Each line is one review. Titles and addresses of pictures come from `meta_X.jsonl` or `meta_X.json`
where it lies next to the reviews; the pictures themselves are not fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import NO_QUIRKS, Quirks, interactions_from
from tacit.data.readers.features import texts_from
from tacit.data.readers.text_file import first_line, read_bytes
from tacit.errors import TacitError, listed, shown

META = "meta_"
_ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


@dataclass(frozen=True)
class Release:
    """How one release calls what is read of a review, and of an item."""

    user: str
    item: str
    value: str
    time: str
    pictures: tuple[str, ...]  # of an item, the best first

    @property
    def columns(self) -> dict[str, str]:
        return {"user": self.user, "item": self.item, "value": self.value, "time": self.time}


# In 2023 `parent_asin` is the product, of which there are variants with an `asin` each. Times are
# milliseconds there, and seconds in 2018.
RELEASES = (
    Release("user_id", "parent_asin", "rating", "timestamp", ("images",)),
    Release("reviewerID", "asin", "overall", "unixReviewTime", ("imageURLHighRes", "imageURL")),
)


def matches_amazon(path: Path) -> bool:
    """Whether the path is a file of reviews, or a folder that holds one."""
    if path.is_dir():
        return bool(_files(path))
    return _is_json(path) and _release(path) is not None


def read_amazon(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Reviews with their ratings and times; titles where the file of items lies next to them."""
    file = _reviews(path)
    release = _release(file)
    assert release is not None
    wanted = columns or release.columns
    fields = dict.fromkeys((*release.columns.values(), *wanted.values()))
    read: dict[str, list[Any]] = {field: [] for field in fields}
    for number, line in _lines(file):
        for field, values in read.items():
            if field not in line:
                raise TacitError(
                    f"Line {number} of {str(file)!r} has no {shown(field)}; it must be a file of "
                    "reviews as published, with one JSON object per line."
                )
            values.append(line[field])
    try:
        frame = pl.DataFrame(read, strict=True)
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise TacitError(
            f"{str(file)!r} holds values of several kinds in one field; copy the published file "
            "again."
        ) from error
    interactions = interactions_from(frame, wanted, str(file), quirks)
    stem = stem_of(file)
    texts: dict[str, tuple[str, ...]] = {}
    for meta in (file.parent / f"{META}{stem}{ending}" for ending in _ENDINGS):
        if meta.is_file():
            texts = texts_from(read_amazon_items(meta), "item_id", interactions.items)
            break
    return Dataset(name=name or stem, interactions=interactions, texts=texts)


def read_amazon_items(file: Path) -> pl.DataFrame:
    """The file of items: ids, title, description, and where the first picture lies.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "meta_Gift_Cards.jsonl")
    ...     _ = file.write_text('{"parent_asin": "B1", "title": "Card", "images": []}\\n')
    ...     read_amazon_items(file).row(0)
    ('B1', 'Card', '', '')
    """
    rows = []
    for number, line in _lines(file):
        release = next((one for one in RELEASES if one.item in line), None)
        if release is None:
            fields = listed(one.item for one in RELEASES)
            raise TacitError(
                f"Line {number} of {str(file)!r} has none of the ids {fields}; it must be a file "
                "of items as published."
            )
        pictures = next((line[one] for one in release.pictures if line.get(one)), None)
        texts = (_words(line.get("title")), _words(line.get("description")), _picture(pictures))
        rows.append((str(line[release.item]), *texts))
    names = ("item_id", "title", "description", "image_url")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def is_amazon_items(path: Path) -> bool:
    """Whether a file is called like the published files of items.

    >>> is_amazon_items(Path("meta_All_Beauty.jsonl.gz")), is_amazon_items(Path("items.csv"))
    (True, False)
    """
    return path.name.startswith(META) and _is_json(path)


def stem_of(file: Path) -> str:
    """What a file of reviews is about.

    >>> stem_of(Path("All_Beauty.jsonl.gz")), stem_of(Path("Gift_Cards_5.json"))
    ('All_Beauty', 'Gift_Cards')
    """
    return file.name.split(".")[0].removesuffix("_5")


def _is_json(path: Path) -> bool:
    return path.name.endswith(_ENDINGS)


def _files(folder: Path) -> list[Path]:
    found = [one for one in sorted(folder.iterdir()) if one.is_file() and _is_json(one)]
    return [one for one in found if not one.name.startswith(META) and _release(one) is not None]


def _reviews(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = _files(path)
    if len(files) > 1:
        raise TacitError(
            f"{str(path)!r} holds several files of reviews ({listed(one.name for one in files)}); "
            "name one of them."
        )
    return files[0]


def _release(file: Path) -> Release | None:
    """The release that a first line is of; None where it is no review."""
    try:
        line = json.loads(first_line(file))
    except (ValueError, RecursionError):
        return None
    there = set(line) if isinstance(line, dict) else set()
    return next((one for one in RELEASES if {one.user, one.item} <= there), None)


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in enumerate(read_bytes(file).splitlines(), start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise TacitError(
                f"Line {number} of {str(file)!r} is no JSON object; copy the published file again."
            )
        yield number, line


def _words(value: Any) -> str:
    """A text, or several in one."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(part.strip() for part in parts if isinstance(part, str)).strip()


def _picture(found: Any) -> str:
    """The address of the first picture: a text in 2018, sizes of it by name in 2023."""
    first = found[0] if isinstance(found, list) and found else found
    if isinstance(first, dict):
        first = next((first[one] for one in ("hi_res", "large", "thumb") if first.get(one)), "")
    return first if isinstance(first, str) else ""
