"""Pictures of the planted world: the shape and colour of an item tell its image style."""

from __future__ import annotations

import numpy as np

SIDE = 32  # pixels
STYLES = (
    "red disc",
    "blue square",
    "green triangle",
    "yellow ring",
    "violet stripes",
    "teal cross",
)
_COLOURS = np.array(
    [[205, 60, 55], [50, 90, 200], [60, 150, 70], [225, 180, 40], [130, 70, 170], [40, 165, 165]]
)
_PAPER = 232  # the background, a light grey


def draw_images(image_IK: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One picture per item, uint8 (I, 32, 32, 3): a large figure of its main style, a small second.

    >>> draw_images(np.eye(6), np.random.default_rng(0)).shape
    (6, 32, 32, 3)
    """
    canvas_IHWC = np.full((len(image_IK), SIDE, SIDE, 3), float(_PAPER))
    for item, image_K in enumerate(image_IK):
        main, second = np.argsort(-image_K, kind="stable")[:2]
        centre = generator.uniform(11, 17, size=2)
        _paint(canvas_IHWC[item], main, centre, 7 + 4 * image_K[main], generator)
        if image_K[second] > 0:
            _paint(canvas_IHWC[item], second, np.array([26.0, 26.0]), 5.0, generator)
    canvas_IHWC += generator.normal(0, 6, size=canvas_IHWC.shape)
    return np.clip(canvas_IHWC, 0, 255).astype(np.uint8)


def _paint(
    canvas_HWC: np.ndarray,
    style: int,
    centre: np.ndarray,
    radius: float,
    generator: np.random.Generator,
) -> None:
    colour = _COLOURS[style] + generator.normal(0, 12, size=3)
    canvas_HWC[_figure(style, centre, radius)] = colour


def _figure(style: int, centre: np.ndarray, radius: float) -> np.ndarray:
    """The pixels of one figure, as a mask."""
    down, right = np.mgrid[0:SIDE, 0:SIDE] - centre[:, None, None]
    distance = np.hypot(down, right)
    square = np.maximum(np.abs(down), np.abs(right)) <= 0.85 * radius
    figures = (
        distance <= radius,
        square,
        (np.abs(down) <= radius) & (np.abs(right) <= (down + radius) / 2),
        (distance <= radius) & (distance >= 0.55 * radius),
        square & (np.floor(down) % 4 < 2),
        square & (np.minimum(np.abs(down), np.abs(right)) <= 0.3 * radius),
    )
    return np.asarray(figures[style])
