"""Pictures to encode: files named by item id; a missing or unreadable one is no picture at all."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.content.encoder import Modality
from tacit.content.items import Items
from tacit.errors import TacitError
from tacit.files import reading

if TYPE_CHECKING:
    from PIL.Image import Image

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
