"""Pictures of every kind, missing ones, damaged ones, and folders that do not fit."""

from __future__ import annotations

import io
import re
import tomllib
import zlib
from pathlib import Path

import pytest
from PIL import Image

from tacit.content.encode import batches_of, encode_batch
from tacit.content.plain import Colours
from tacit.content.sources import FORMATS, Images, Items, open_image
from tacit.errors import TacitError

ITEMS = Items(("5", "1", "2", "4", "3"), {})


def saved(picture: Image.Image, kind: str, **more: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **more)
    return file.getvalue()


def test_only_items_with_a_picture(pictures: Path) -> None:
    found = Images.of(ITEMS, pictures)
    assert found.ids == ("5", "1", "2", "3")
    assert [file.name for file in found.files] == ["5.webp", "1.jpg", "2.png", "3.PNG"]
    assert (found.items, found.missing, found.strangers) == (5, 1, 1)
    assert found.said(2) == "item '2' (2.png)"
    decoded = [found.decode(data) for data in found.fetch(range(4))]
    assert [one if one is None else one.mode for one in decoded] == ["RGB", "RGB", None, "RGB"]


def test_transparency_is_white() -> None:
    picture = open_image(saved(Image.new("RGBA", (2, 2), (0, 0, 255, 0)), "PNG"))
    assert picture is not None
    assert picture.getpixel((0, 0)) == (255, 255, 255)


def test_photographs_are_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    picture = open_image(saved(Image.new("RGB", (30, 10)), "JPEG", exif=exif))
    assert picture is not None
    assert picture.size == (10, 30)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_cut_off_files_are_no_pictures(kind: str) -> None:
    noise = Image.effect_noise((64, 64), 80).convert("RGB")
    whole = saved(noise, kind)
    assert open_image(whole) is not None
    assert open_image(whole[: len(whole) // 2]) is None
    assert open_image(b"") is None


def test_two_pictures_of_one_item(pictures: Path) -> None:
    Image.new("RGB", (2, 2)).save(pictures / "1.png")
    with pytest.raises(TacitError, match=r"Item '1' has two pictures in .*1.jpg and 1.png"):
        Images.of(ITEMS, pictures)


def test_no_picture_fits(pictures: Path) -> None:
    with pytest.raises(TacitError, match=r"named by an item id .*1.jpg; the first item is 'x'"):
        Images.of(Items(("x",), {}), pictures)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="There is no folder of pictures"):
        Images.of(ITEMS, tmp_path / "none")


def test_only_the_documented_formats_are_opened() -> None:
    picture = Image.new("RGB", (4, 4), "red")
    for kind in FORMATS:
        assert open_image(saved(picture, kind)) is not None, kind
    for kind in ("PPM", "ICO", "TGA", "PCX", "EPS"):
        assert open_image(saved(picture, kind)) is None, kind


def bomb() -> bytes:
    """A PNG file of a few bytes that announces four thousand million pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(name + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + name + data + checksum

    size = (65000).to_bytes(4, "big") * 2
    head = chunk(b"IHDR", size + bytes([8, 2, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_a_picture_too_large_to_unpack_is_refused_with_its_item(pictures: Path) -> None:
    with pytest.raises(TacitError, match="too large to unpack"):
        open_image(bomb())
    (pictures / "3.PNG").write_bytes(bomb())
    found = Images.of(ITEMS, pictures)
    *_, last = batches_of(found, {}, 2)
    with pytest.raises(
        TacitError, match=r"item '3' \(3.PNG\): .* make it smaller, or take it away"
    ):
        encode_batch(found, Colours(), last)


def test_no_memory_is_no_damaged_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved(Image.new("RGB", (4, 4)), "PNG")

    def starve(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("PIL.ImageOps.exif_transpose", starve)
    with pytest.raises(TacitError, match="too large to unpack"):
        open_image(whole)


def test_pillow_is_declared() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    declared = tomllib.loads(project.read_text())["project"]["dependencies"]
    assert any(re.match(r"pillow\b", one, re.IGNORECASE) for one in declared)
