"""Encoders without weights: hashed n-grams of texts, and colours and edges of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from tacit.content.encoders import About
from tacit.data.plain_features import (
    CELLS,
    DIRECTIONS,
    HALF,
    HUES,
    PICTURE_WIDTH,
    PIECES,
    SATURATIONS,
    SIDE,
    VALUES,
    picture_rows,
    text_rows,
)

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class NGrams:
    """Words and pairs of words in one half of a row, runs of 2 to 4 characters in the other.

    A row depends on its own text alone, so an item that arrives later gets the row it would have
    had from the start.

    >>> near, same, far = NGrams().encode(["The Quiet Harbour", "quiet harbours", "Toasted Spoons"])
    >>> bool(near @ same > 0.4 > near @ far)
    True
    """

    @property
    def width(self) -> int:
        return 2 * HALF

    @property
    def about(self) -> About:
        return About(
            encoder="ngrams",
            preprocessing={
                "text": "Unicode NFKC, case folded, blanks collapsed",
                "words": f"1 and 2 words, {HALF} signed places",
                "characters": f"runs of {PIECES[0]} to {PIECES[-1]}, {HALF} signed places",
                "counts": "1 + log(count)",
                "hash": "BLAKE2b, 64 bits",
                "rows": "each half, then the whole, of length 1",
            },
        )

    def encode(self, content: Sequence[str]) -> np.ndarray:
        return text_rows(content)


@dataclass(frozen=True)
class Colours:
    """80 numbers for the colours, 128 for the edges in each cell, 48 for the colour of each cell.

    >>> from PIL import Image
    >>> red, dark_red, blue = (Image.new("RGB", (9, 9), c) for c in ("red", "#d00000", "blue"))
    >>> row_R, row_D, row_B = Colours().encode([red, dark_red, blue])
    >>> bool(row_R @ row_D > 0.9 > row_R @ row_B)
    True
    """

    @property
    def width(self) -> int:
        return PICTURE_WIDTH

    @property
    def about(self) -> About:
        return About(
            encoder="colours",
            preprocessing={
                "picture": f"whole, resized to {SIDE} x {SIDE} (bilinear)",
                "colours": f"hue {HUES} x saturation {SATURATIONS} x value {VALUES}, square root",
                "edges": f"{DIRECTIONS} directions in {CELLS} x {CELLS} cells, square root",
                "layout": f"mean colour of {CELLS} x {CELLS} cells, centred",
                "rows": "each of the three, then the whole, of length 1",
            },
            packages={"pillow": version("pillow")},
        )

    def encode(self, content: Sequence[Image]) -> np.ndarray:
        return picture_rows(content)
