"""Colour and shape statistics of pictures simple enough to work out by hand."""

from __future__ import annotations

import numpy as np
from PIL import Image

from tacit.content.plain import Colours


def test_one_colour() -> None:
    value_D = Colours().encode([Image.new("RGB", (10, 20), "red")])[0]
    palette_D, edges_D, layout_D = np.split(value_D, [80, 208])
    # Hue 0, the highest of 4 saturations, the higher of 2 values.
    assert np.flatnonzero(palette_D).tolist() == [7]
    assert not edges_D.any()
    # Two of the three blocks have length 1, so each is divided by the root of 2.
    np.testing.assert_allclose(palette_D[7], 1 / np.sqrt(2), atol=1e-6)
    cell_C = np.array([0.5, -0.5, -0.5]) / np.sqrt(16 * 0.75) / np.sqrt(2)
    np.testing.assert_allclose(layout_D.reshape(16, 3), np.tile(cell_C, (16, 1)), atol=1e-6)


def halves(first: tuple[int, int, int, int]) -> Image.Image:
    picture = Image.new("RGB", (64, 64), "white")
    picture.paste((0, 0, 0), first)
    return picture


def test_edges_have_a_place_and_a_direction() -> None:
    upright_D, level_D = Colours().encode([halves((0, 0, 24, 64)), halves((0, 0, 64, 24))])
    upright = upright_D[80:208].reshape(4, 4, 8)
    level = level_D[80:208].reshape(4, 4, 8)
    # The step at pixel 24 lies inside the second of four columns (16 to 31), in every row.
    assert sorted(map(tuple, np.argwhere(upright).tolist())) == [(row, 1, 0) for row in range(4)]
    assert sorted(map(tuple, np.argwhere(level).tolist())) == [
        (1, column, 4) for column in range(4)
    ]


def test_colour_is_kept_where_it_is() -> None:
    left_D, right_D = Colours().encode([halves((0, 0, 32, 64)), halves((32, 0, 64, 64))])
    np.testing.assert_allclose(left_D[:80], right_D[:80], atol=1e-6)
    assert left_D[208:] @ right_D[208:] < 0


def test_nothing() -> None:
    assert Colours().encode([]).shape == (0, 256)
    assert Colours().width == 256
