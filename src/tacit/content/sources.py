"""Content to encode: the file of items, their texts, and their pictures."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tacit.content.encoders import Modality
from tacit.data.readers.amazon import is_amazon_items, read_amazon_items
from tacit.data.readers.build import ids_of, plain
from tacit.data.readers.ninerec import is_ninerec_items, read_ninerec_items
from tacit.data.readers.parquet_file import is_parquet, read_parquet
from tacit.data.readers.text_file import read_text_table
from tacit.errors import TacitError, nearest, shown
from tacit.files import reading, refuse_special

if TYPE_CHECKING:
    from PIL.Image import Image


# The file of items: an id and texts for each.

ID_COLUMN = "item_id"


@dataclass(frozen=True)
class Items:
    """Ids in the order of the file, and what stands in the text columns that were asked for.

    >>> Items(("a", "b"), {"title": ("Alien", "")}).texts["title"]
    ('Alien', '')
    """

    ids: tuple[str, ...]
    texts: Mapping[str, tuple[str, ...]]


def read_items(
    path: Path,
    columns: Sequence[str] = (),
    id_column: str | None = None,
    *,
    optional: Sequence[str] = (),
) -> Items:
    """Read a CSV, TSV (also gzipped) or Parquet file of items; `optional` columns where they are.
    Item files of NineRec and of Amazon reviews are read as published: item_id, title and more.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "items.csv")
    ...     _ = file.write_text("item_id,title\\n7,Alien\\n8,\\n")
    ...     read_items(file, ["title"])
    Items(ids=('7', '8'), texts={'title': ('Alien', '')})
    """
    refuse_special(path)
    if not path.is_file():
        raise TacitError(f"There is no file of items at {str(path)!r}; give a CSV or Parquet file.")
    frame = _frame(path)
    chosen = id_column or next((one for one in frame.columns if plain(one) == "itemid"), ID_COLUMN)
    for name in (chosen, *columns):
        if name not in frame.columns:
            hint = "" if id_column or name != chosen else " (name the ids with --id)"
            raise TacitError(
                f"{str(path)!r} has no column {shown(name)}{hint}; {nearest(name, frame.columns)}"
            )
    if frame.height == 0:
        raise TacitError(f"{str(path)!r} holds no items: it has column names but no rows.")
    ids = tuple(ids_of(frame[chosen], str(path)).to_list())
    _refuse_odd_ids(ids, chosen, path)
    there = [name for name in optional if name in frame.columns]
    read = dict.fromkeys((*columns, *there))
    return Items(ids, {name: _texts(frame[name], path) for name in read})


def _frame(path: Path) -> pl.DataFrame:
    if is_ninerec_items(path):
        return read_ninerec_items(path)
    if is_amazon_items(path):
        return read_amazon_items(path)
    parquet = is_parquet(path) or path.suffix.lower() == ".parquet"
    return read_parquet(path) if parquet else read_text_table(path)


def _refuse_odd_ids(ids: tuple[str, ...], column: str, path: Path) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise TacitError(
                f"Item {shown(name)} stands twice in column {shown(column)} of {str(path)!r}; list "
                "it once."
            )
        if len(name.splitlines()) > 1:
            raise TacitError(
                f"The id {shown(name)} in {str(path)!r} holds a line break; rename it."
            )
        seen.add(name)


def _texts(column: pl.Series, path: Path) -> tuple[str, ...]:
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise TacitError(
            f"Column {shown(column.name)} of {str(path)!r} holds {column.dtype} values, not text; "
            "name another column."
        )
    return tuple(column.cast(pl.String).str.strip_chars().fill_null("").to_list())


# Texts to encode: columns joined, put into a prompt; what is missing stays missing.


@dataclass(frozen=True)
class Texts:
    """The items that have a text, and their texts as the encoder will see them.

    >>> items = Items(("a", "b"), {"title": ("Alien", ""), "plot": ("A crew.", "")})
    >>> found = Texts.of(items, prompt="the title is {}")
    >>> found.ids, found.texts, found.missing
    (('a',), ('the title is Alien A crew.',), 1)
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    items: int
    missing: int
    placeholders: int
    recipe: dict[str, object]
    modality: Modality = "text"

    @classmethod
    def of(
        cls, items: Items, *, prompt: str | None = None, placeholder: str | None = None
    ) -> Texts:
        """Join the columns of each item; only `placeholder` gives items without a text one."""
        if prompt is not None and prompt.count("{}") != 1:
            raise TacitError(
                f"The prompt {prompt!r} must hold {{}} once, where the text goes, as in "
                '"the title of this item is {}".'
            )
        if placeholder is not None and not placeholder.strip():
            raise TacitError("The placeholder is empty; give a sentence, or leave it out.")
        ids, texts, empty = [], [], 0
        for name, *parts in zip(items.ids, *items.texts.values(), strict=True):
            text = " ".join(part for part in parts if part)
            empty += not text
            if text:
                text = prompt.replace("{}", text) if prompt is not None else text
            elif placeholder is not None:
                text = placeholder
            if text:
                ids.append(name)
                texts.append(text)
        if empty == len(items.ids):
            raise TacitError(
                f"No item has a text in {', '.join(items.texts)}; name another column with --text."
            )
        recipe: dict[str, object] = {
            "columns": list(items.texts),
            "prompt": prompt,
            "placeholder": placeholder,
        }
        filled = empty if placeholder is not None else 0
        return cls(tuple(ids), tuple(texts), len(items.ids), empty - filled, filled, recipe)

    def fetch(self, rows: range) -> list[bytes]:
        """What the rows are made of, for telling whether it changed."""
        return [self.texts[row].encode("utf-8", "surrogatepass") for row in rows]

    def decode(self, data: bytes) -> str | None:
        """What the encoder is given; nothing can be wrong with a text."""
        return data.decode("utf-8", "surrogatepass")

    def said(self, row: int) -> str:
        return f"item {self.ids[row]!r}"


# Pictures to encode: files named by item id; a missing or unreadable one is no picture at all.

# How files of pictures end, and the only formats that are opened, whatever a file is called.
FORMATS = {
    "JPEG": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "AVIF": (".avif",),
}
ENDINGS = tuple(ending for endings in FORMATS.values() for ending in endings)
TURNED = "turned upright, transparency on white, RGB"


@dataclass(frozen=True)
class Images:
    """The items that have a picture, and its file; files that belong to no item are counted."""

    ids: tuple[str, ...]
    files: tuple[Path, ...]
    items: int
    missing: int
    strangers: int
    recipe: dict[str, object]
    placeholders: int = 0
    modality: Modality = "image"

    @classmethod
    def of(cls, items: Items, folder: Path) -> Images:
        """Look for `ID.jpg`, `ID.png`, … of every item in the folder; there must be some."""
        found = cls.found(items, folder)
        if not found.ids:
            files = _files(folder)
            shown = next(iter(files.values())).name if files else "no picture"
            raise TacitError(
                f"No picture in {str(folder)!r} is named by an item id (it holds {shown}; the "
                f"first item is {items.ids[0]!r}, so its picture would be {items.ids[0]}.jpg)."
            )
        return found

    @classmethod
    def found(cls, items: Items, folder: Path) -> Images:
        """The same, where it may be that no item has a picture."""
        files = _files(folder)
        ids = tuple(name for name in items.ids if name in files)
        return cls(
            ids=ids,
            files=tuple(files[name] for name in ids),
            items=len(items.ids),
            missing=len(items.ids) - len(ids),
            strangers=len(files) - len(ids),
            recipe={"file": TURNED},
        )

    def fetch(self, rows: range) -> list[bytes]:
        """The bytes of the files, for telling whether they changed."""
        return [self._bytes(row) for row in rows]

    def _bytes(self, row: int) -> bytes:
        with reading(self.files[row], "make it readable, or take the picture away"):
            return self.files[row].read_bytes()

    def decode(self, data: bytes) -> Image | None:
        """The picture, or nothing where the file is damaged or no picture."""
        return open_image(data)

    def said(self, row: int) -> str:
        return f"item {self.ids[row]!r} ({self.files[row].name})"


def open_image(data: bytes) -> Image | None:
    """An RGB picture, upright and on white; None where the bytes are no picture that can be read.

    Only `FORMATS` are opened. A small file that unpacks to a huge picture is refused.

    >>> open_image(b"not a picture") is None
    True
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata, large pictures: they can still be read
            with Image.open(io.BytesIO(data), formats=tuple(FORMATS)) as file:
                upright = ImageOps.exif_transpose(file)
                if upright.has_transparency_data:
                    solid = upright.convert("RGBA")
                    white = Image.new("RGBA", solid.size, "white")
                    return Image.alpha_composite(white, solid).convert("RGB")
                return upright.convert("RGB")
    except (Image.DecompressionBombError, MemoryError):
        most = f" (at most {2 * Image.MAX_IMAGE_PIXELS:,} pixels)" if Image.MAX_IMAGE_PIXELS else ""
        raise TacitError(
            f"the picture is too large to unpack{most}; make it smaller, or take it away."
        ) from None
    # Damaged files fail in as many ways as there are formats, and none of them may stop the rest.
    except Exception:
        return None


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise TacitError(f"There is no folder of pictures at {str(folder)!r}; check --images.")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in ENDINGS or not path.is_file():
            continue
        if path.stem in files:
            raise TacitError(
                f"Item {path.stem!r} has two pictures in {str(folder)!r} "
                f"({files[path.stem].name} and {path.name}); keep one."
            )
        files[path.stem] = path
    return files
