"""How every figure looks, and how it reaches the disk: PNG to look at, SVG to print."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.files import whole_file

# Okabe and Ito's colours, which colour-blind readers can tell apart; grey is for the background.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#8C8C8C"
DOTS_PER_INCH = 150


def colour(place: int) -> str:
    """The colour of a series by its place.

    >>> colour(0) == colour(len(PALETTE))
    True
    """
    return PALETTE[place % len(PALETTE)]


def marker(place: int) -> str:
    """The marker of a series by its place: it moves on where colours come round again.

    >>> marker(0), marker(7)
    ('o', 's')
    """
    return MARKERS[(place + place // len(PALETTE)) % len(MARKERS)]


def new_figure(
    panels: int = 1, *, width: float = 5.2, height: float = 4.0, columns: int = 4
) -> tuple[Figure, list[Axes]]:
    """A figure with panels in rows of at most `columns`; `width` and `height` are of one panel.

    >>> figure, axes = new_figure(3, columns=2)
    >>> len(axes), figure.get_size_inches().tolist()
    (3, [10.4, 8.0])
    """
    across = min(panels, columns)
    down = -(-panels // across)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    axes = [figure.add_subplot(down, across, place + 1) for place in range(panels)]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(visible=True, color="#E3E3E3", linewidth=0.8)
        one.set_axisbelow(True)
    return figure, axes


def legend_outside(figure: Figure, *sources: Axes, title: str | None = None) -> None:
    """One legend for the series of some panels, beside all panels and never over data.

    >>> figure, (axes,) = new_figure()
    >>> _ = axes.plot([0, 1], label="one")
    >>> legend_outside(figure, axes)
    >>> len(figure.legends)
    1
    """
    found = [source.get_legend_handles_labels() for source in sources]
    handles, labels = (
        [one for part in parts for one in part] for parts in zip(*found, strict=True)
    )
    figure.legend(handles, labels, loc="outside right center", frameon=False, title=title)


def caption(figure: Figure, text: str) -> None:
    """A sentence under the figure, wrapped to its width.

    >>> figure, _ = new_figure(width=3.0)
    >>> caption(figure, "A sentence that is much too long for so narrow a figure to hold.")
    >>> "\\n" in figure.get_supxlabel()
    True
    """
    letters = int(figure.get_size_inches()[0] * 14)  # of 9.5 points, about 14 to the inch
    figure.supxlabel("\n".join(textwrap.wrap(text, letters)), fontsize=9.5, color="#404040")


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write `stem`.png and `stem`.svg, each whole or not at all; the same figure, the same bytes.

    >>> import tempfile
    >>> figure, _ = new_figure()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_figure(figure, Path(folder) / "one")]
    ['one.png', 'one.svg']
    """
    written = []
    nobody: dict[str, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None}}
    with matplotlib.rc_context({"svg.hashsalt": "tacit"}):
        for ending, metadata in nobody.items():
            path = stem.with_name(f"{stem.name}.{ending}")
            with whole_file(path) as temporary:
                figure.savefig(temporary, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)
            written.append(path)
    return written


def spans_decades(values: Sequence[float]) -> bool:
    """Whether an axis reads better in powers of ten: positive numbers over more than one decade.

    >>> spans_decades([0.01, 0.1, 1.0]), spans_decades([0.1, 0.5, 1.0]), spans_decades([0, 1, 100])
    (True, False, False)
    """
    return min(values) > 0 and max(values) > 10 * min(values)
