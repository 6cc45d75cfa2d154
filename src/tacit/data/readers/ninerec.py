"""NineRec as its authors publish it: `X_pair.csv`, `X_item.csv`, and pictures in `X_cover`.

Files have no header. The page of NineRec says that a pair is (user, item, timestamp); its own
scripts, and others that read the Bili sets, take the item first. So the order is never guessed:
the item file next to it says which ids are items and how many there are, or letters do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.readers.build import NO_QUIRKS, USUAL, Quirks, interactions_from, plain
from tacit.data.readers.features import texts_from
from tacit.data.readers.text_file import first_line, read_text_table
from tacit.errors import TacitError, argument, listed, shown

PAIR, ITEM = "_pair.csv", "_item.csv"
_HEADINGS = {plain_name for role in ("user", "item", "time") for plain_name in USUAL[role]}
_PLACES = ("1", "2", "3")  # columns without names


def matches_ninerec(path: Path) -> bool:
    """Whether the path is an `X_pair.csv`, or a folder that holds one."""
    if path.is_dir():
        return any(path.glob(f"*{PAIR}"))
    return path.name.endswith(PAIR)


def read_ninerec(
    path: Path,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    quirks: Quirks = NO_QUIRKS,
) -> Dataset:
    """Interactions, and both titles where the item file lies next to them."""
    file = _pair_file(path)
    stem = file.name.removesuffix(PAIR)
    items_file = file.parent / f"{stem}{ITEM}"
    titles = read_ninerec_items(items_file) if items_file.is_file() else None
    fields = [field.strip() for field in first_line(file).split(",")]
    if _is_header(fields, columns):
        frame = read_text_table(file)
    else:
        frame = read_text_table(file, names=_PLACES[: max(2, min(3, len(fields)))])
        columns = columns or _order(frame, titles, file, stem)
    interactions = interactions_from(frame, columns, str(file), quirks)
    texts = {} if titles is None else texts_from(titles, "item_id", interactions.items)
    return Dataset(name=name or stem, interactions=interactions, texts=texts)


def read_ninerec_items(file: Path) -> pl.DataFrame:
    """The item file: ids, a title (English, or else Chinese) and the Chinese one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "KU_item.csv")
    ...     _ = file.write_text("v1,茶,Tea\\nv2,酒,\\n", encoding="utf-8")
    ...     read_ninerec_items(file)["title"].to_list()
    ['Tea', '酒']
    """
    frame = read_text_table(file, names=("item_id", "zh", "en"))
    return frame.select(
        "item_id", pl.coalesce("en", "zh").alias("title"), pl.col("zh").alias("title_zh")
    )


def is_ninerec_items(path: Path) -> bool:
    """Whether a file is called like NineRec's item files and has, like them, no header.

    >>> is_ninerec_items(Path("items.csv"))
    False
    """
    if not path.name.endswith(ITEM) or not path.is_file():
        return False
    fields = [plain(field) for field in first_line(path).split(",")]
    return len(fields) >= 3 and not {*USUAL["item"], "title", "zh", "en"} & set(fields)


def _pair_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = sorted(path.glob(f"*{PAIR}"))
    if len(files) > 1:
        raise TacitError(
            f"{str(path)!r} holds several datasets ({listed(file.name for file in files)}); "
            "name one of these files."
        )
    return files[0]


def _is_header(fields: list[str], columns: Mapping[str, str] | None) -> bool:
    """Copies with a header are about: it has usual names or those that were named, or its time is
    no number."""
    if any(plain(field) in _HEADINGS for field in fields):
        return True
    named = set((columns or {}).values())
    if named:
        return not named <= set(_PLACES)
    number = fields[-1].lstrip("-").replace(".", "", 1)
    return len(fields) > 2 and not number.isdigit()


def _order(
    frame: pl.DataFrame, titles: pl.DataFrame | None, file: Path, stem: str
) -> dict[str, str]:
    """Which column is the user and which the item: by which one lists the ids of the item file,
    by which one has as many of them, or by the letters u and v."""
    times = {} if frame.width < 3 else {"time": "3"}
    first, second = (frame[name].cast(pl.String).str.strip_chars() for name in _PLACES[:2])
    if titles is not None:
        known = titles["item_id"].cast(pl.String).str.strip_chars().unique()
        among = [bool(one.is_in(known.implode()).all()) for one in (first, second)]
        whole = [one.n_unique() == len(known) for one in (first, second)] if all(among) else among
        for item_first, item_second in (among, whole):
            if item_first != item_second:
                user, item = ("2", "1") if item_first else ("1", "2")
                return {"user": user, "item": item, **times}
    for user, item, users, items in (("1", "2", first, second), ("2", "1", second, first)):
        if users.str.starts_with("u").all() and items.str.starts_with("v").all():
            return {"user": user, "item": item, **times}
    beside = "does not decide it" if titles is not None else "is not next to it"
    example = argument("columns", {"user": "1", "item": "2", **times})
    raise TacitError(
        f"The columns of {str(file)!r} have no names, and {stem}{ITEM}, which lists the items, "
        f"{beside}; bring the published files together, or say which is which, for example "
        f"{example} (its first line is {shown(first_line(file))})."
    )
