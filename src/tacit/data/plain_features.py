"""Feature rows without weights: hashed n-grams of texts, and colours and edges of pictures.

The synthetic dataset has such rows, and `tacit encode` makes them for any other.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image


def unit_rows(value_ND: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; a row of zeros stays.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    length_N1 = np.linalg.norm(value_ND.astype(np.float64), axis=1, keepdims=True)
    return (value_ND / np.where(length_N1 > 0, length_N1, 1.0)).astype(np.float32)


# Hashed words and pieces of words. No weights, any language, the same everywhere.

HALF = 128  # places for words, and as many for pieces of words
PIECES = (2, 3, 4)  # letters; two, because in some scripts two already make a word
_WORD = re.compile(r"\w+")


def text_rows(texts: Sequence[str]) -> np.ndarray:
    """Words and pairs of words in one half of a row, runs of 2 to 4 characters in the other.

    >>> near, same, far = text_rows(["The Quiet Harbour", "quiet harbours", "Toasted Spoons"])
    >>> bool(near @ same > 0.4 > near @ far)
    True
    """
    value_ND = np.zeros((len(texts), 2 * HALF))
    for row, text in enumerate(texts):
        plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        value_ND[row, :HALF] = _summed(_words(plain))
        value_ND[row, HALF:] = _summed(_pieces(f" {plain} "))
    halves_ND = unit_rows(value_ND.reshape(-1, HALF)).reshape(len(texts), -1)
    return unit_rows(halves_ND)


def _words(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    yield from words
    yield from (f"{one} {two}" for one, two in pairwise(words))


def _pieces(text: str) -> Iterator[str]:
    for length in PIECES:
        yield from (text[start : start + length] for start in range(len(text) - length + 1))


def _summed(features: Iterator[str]) -> list[float]:
    """The hashed features of one text, each with the logarithm of its count."""
    value_D = [0.0] * HALF
    for feature, count in Counter(features).items():
        place, sign = _place(feature)
        value_D[place] += sign * _weight(count)
    return value_D


@cache
def _weight(count: int) -> float:
    return 1.0 + float(np.log(count))


@lru_cache(maxsize=1 << 16)
def _place(feature: str) -> tuple[int, float]:
    """Where a feature goes and with which sign: Python's own hash differs from run to run."""
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return (number >> 1) % HALF, 1.0 if number & 1 else -1.0


# Which colours a picture has, where they are, and which way its edges run.

SIDE = 64  # pixels
HUES, SATURATIONS, VALUES = 10, 4, 2
CELLS, DIRECTIONS = 4, 8  # a grid of 4 x 4 cells, edges in 8 directions
PICTURE_WIDTH = HUES * SATURATIONS * VALUES + CELLS**2 * (DIRECTIONS + 3)


def picture_rows(pictures: Sequence[Image]) -> np.ndarray:
    """80 numbers for the colours, 128 for the edges in each cell, 48 for the colour of each cell.

    >>> from PIL import Image
    >>> red, dark_red, blue = (Image.new("RGB", (9, 9), c) for c in ("red", "#d00000", "blue"))
    >>> row_R, row_D, row_B = picture_rows([red, dark_red, blue])
    >>> bool(row_R @ row_D > 0.9 > row_R @ row_B)
    True
    """
    rows = [_row(picture) for picture in pictures]
    return unit_rows(np.stack(rows)) if rows else np.zeros((0, PICTURE_WIDTH), np.float32)


def _row(picture: Image) -> np.ndarray:
    from PIL.Image import Resampling

    small = picture.resize((SIDE, SIDE), Resampling.BILINEAR)
    colour_HWC = np.asarray(small, dtype=np.float64) / 255.0
    blocks = (_palette(small), _edges(colour_HWC.mean(axis=2)), _layout(colour_HWC))
    return np.concatenate([unit_rows(block[None])[0] for block in blocks])


def _palette(small: Image) -> np.ndarray:
    hue_HW, saturation_HW, value_HW = np.moveaxis(np.asarray(small.convert("HSV")), 2, 0)
    place_HW = (hue_HW.astype(np.int64) * HUES // 256) * SATURATIONS
    place_HW = (place_HW + saturation_HW.astype(np.int64) * SATURATIONS // 256) * VALUES
    place_HW = place_HW + value_HW.astype(np.int64) * VALUES // 256
    return np.sqrt(np.bincount(place_HW.ravel(), minlength=HUES * SATURATIONS * VALUES))


def _edges(grey_HW: np.ndarray) -> np.ndarray:
    down_HW, right_HW = np.gradient(grey_HW)
    strength_HW = np.hypot(down_HW, right_HW)
    # An edge has no front: opposite gradients are one direction.
    turn_HW = np.arctan2(down_HW, right_HW) / np.pi % 1.0
    direction_HW = np.floor(turn_HW * DIRECTIONS + 0.5).astype(np.int64) % DIRECTIONS
    cell_H = np.arange(SIDE) * CELLS // SIDE
    place_HW = (cell_H[:, None] * CELLS + cell_H[None, :]) * DIRECTIONS + direction_HW
    total = np.bincount(
        place_HW.ravel(), weights=strength_HW.ravel(), minlength=CELLS**2 * DIRECTIONS
    )
    return np.sqrt(total)


def _layout(colour_HWC: np.ndarray) -> np.ndarray:
    step = SIDE // CELLS
    cells = colour_HWC.reshape(CELLS, step, CELLS, step, 3).mean(axis=(1, 3))
    return cells.ravel() - 0.5
