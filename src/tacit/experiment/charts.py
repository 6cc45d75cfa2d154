"""Figures: line charts as inline SVG for reports, and how matplotlib figures look and reach the
disk.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tacit.files import whole_file

if TYPE_CHECKING:  # a report has charts of its own and never draws with matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# How every figure looks, and how it reaches the disk: PNG to look at, SVG to print.

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
    from matplotlib.figure import Figure

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
    Panels and texts are laid out once, for the first file, and stand so in the other.

    >>> import tempfile
    >>> figure, _ = new_figure()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_figure(figure, Path(folder) / "one")]
    ['one.png', 'one.svg']
    """
    import matplotlib

    written, layout = [], figure.get_layout_engine()
    nobody: dict[str, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None}}
    with matplotlib.rc_context({"svg.hashsalt": "tacit"}):
        for ending, metadata in nobody.items():
            path = stem.with_name(f"{stem.name}.{ending}")
            with whole_file(path) as temporary:
                figure.savefig(temporary, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)
            figure.set_layout_engine(None)
            written.append(path)
    figure.set_layout_engine(layout)
    return written


def spans_decades(values: Sequence[float]) -> bool:
    """Whether an axis reads better in powers of ten: positive numbers over more than one decade.

    >>> spans_decades([0.01, 0.1, 1.0]), spans_decades([0.1, 0.5, 1.0]), spans_decades([0, 1, 100])
    (True, False, False)
    """
    return min(values) > 0 and max(values) > 10 * min(values)


# Line charts by round as small inline SVG: no script, and colours come from the page's style.
#
# A chart is drawn 320 units wide, about its size on a phone and as one of three in a row, so that
# its text is never scaled to something unreadable.

WIDTH, HEIGHT = 320, 196
LEFT, RIGHT, TOP, BOTTOM = 36, 60, 20, 34
TITLES = 150  # points that answer to a pointer; more would only make the file heavy
DOTTED = 24  # with so few points each one is drawn


@dataclass(frozen=True)
class Series:
    """A named line: (round, value) pairs in order; values that are no numbers are left out.

    >>> Series.of("loss", [(1, 0.7), (2, None), (3, float("nan")), (4, 0.5)]).points
    ((1, 0.7), (4, 0.5))
    """

    name: str
    points: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, name: str, pairs: Sequence[tuple[int, float | None]]) -> Series:
        return cls(name, tuple((at, y) for at, y in pairs if y is not None and math.isfinite(y)))


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) that enclose low and high.

    >>> ticks(0.0, 0.13)
    [0.0, 0.05, 0.1, 0.15]
    >>> ticks(0.0, 1.0)
    [0.0, 0.5, 1.0]
    """
    if high <= low:  # a constant line still needs an axis
        margin = abs(low) / 2 or 0.5
        low, high = low - margin, high + margin
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    unit: str = "round",
    span: tuple[int, int] | None = None,
    selected: int | None = None,
    from_zero: bool = False,
) -> Markup:
    """The series over rounds, with the selected round marked; '' when there is no line to draw.

    `span` is the first and the last round of the axis, where charts should share it.

    >>> svg = line_chart([Series("loss", ((1, 0.7), (2, 0.6)))], label="loss", selected=2)
    >>> svg.startswith("<svg") and "round 2: loss 0.6000" in svg
    True
    >>> line_chart([Series("loss", ((1, 0.7),))], label="loss")
    Markup('')
    """
    series = [one for one in series if one.points]
    if max((len(one.points) for one in series), default=0) < 2:
        return Markup("")
    rounds = [at for one in series for at, _ in one.points]
    values = [y for one in series for _, y in one.points]
    y_ticks = ticks(min([*values, 0.0] if from_zero else values), max(values))
    scale = _Scale(*(span or (min(rounds), max(rounds))), y_ticks[0], y_ticks[-1])
    parts = _axes(scale, y_ticks, unit)
    if selected is not None and scale.first <= selected <= scale.last:
        parts.append(_selected_mark(scale, selected, unit))
    ends = _apart([scale.y(one.points[-1][1]) for one in series])
    for number, (one, end) in enumerate(zip(series, ends, strict=True), start=1):
        parts += _line(one, number, scale, unit, selected)
        parts.append(
            Markup('<text class="series-{}" x="{}" y="{:.1f}">{}</text>').format(
                number, WIDTH - RIGHT + 7, end + 3.5, one.name
            )
        )
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, label, Markup("").join(parts)
    )


@dataclass(frozen=True)
class _Scale:
    first: int
    last: int
    low: float
    high: float

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        return (
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.low) / (self.high - self.low)
        )


def _axes(scale: _Scale, y_ticks: list[float], unit: str) -> list[Markup]:
    step = y_ticks[1] - y_ticks[0]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    floor = HEIGHT - BOTTOM
    parts = []
    for value in y_ticks:
        y = scale.y(value)
        kind = "axis" if value == y_ticks[0] else "grid"
        parts.append(
            Markup(
                '<line class="{}" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
                '<text x="{}" y="{:.1f}" text-anchor="end">{:.{}f}</text>'
            ).format(kind, LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 3.5, value, decimals)
        )
    for at in _round_ticks(scale.first, scale.last):
        parts.append(
            Markup(
                '<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
                '<text x="{0:.1f}" y="{3}" text-anchor="middle">{4}</text>'
            ).format(scale.x(at), floor, floor + 4, floor + 15, at)
        )
    name = Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>')
    return [*parts, name.format((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, unit)]


def _round_ticks(first: int, last: int) -> list[int]:
    """Whole numbers within the axis; the first round is always named.

    >>> _round_ticks(1, 100)
    [1, 20, 40, 60, 80, 100]
    >>> _round_ticks(1, 3)
    [1, 2, 3]
    """
    inner = [int(at) for at in ticks(first, last, about=5) if at == int(at)]
    room = (last - first) / 10
    return [first, *(at for at in inner if first + room <= at <= last)]


def _selected_mark(scale: _Scale, selected: int, unit: str) -> Markup:
    x = scale.x(selected)
    share = (x - LEFT) / (WIDTH - LEFT - RIGHT)
    anchor = "start" if share < 0.2 else "end" if share > 0.8 else "middle"
    return Markup(
        '<line class="selected" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
        '<text class="selected" x="{0:.1f}" y="{3}" text-anchor="{4}">{5} {6}</text>'
    ).format(x, TOP - 4, HEIGHT - BOTTOM, TOP - 9, anchor, unit, selected)


def _line(one: Series, number: int, scale: _Scale, unit: str, selected: int | None) -> list[Markup]:
    places = [(at, y, scale.x(at), scale.y(y)) for at, y in one.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for _, _, x, y in places)
    parts = [Markup('<polyline class="series-{}" points="{}"/>').format(number, path)]
    stride = math.ceil(len(places) / TITLES)
    for place, (at, value, x, y) in enumerate(places):
        if at == selected or len(places) <= DOTTED:
            radius = 3.2 if at == selected else 1.8
            parts.append(
                Markup('<circle class="series-{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>').format(
                    number, x, y, radius
                )
            )
        if at == selected or place % stride == 0:
            parts.append(
                Markup(
                    '<circle class="touch" cx="{:.1f}" cy="{:.1f}" r="6">'
                    "<title>{} {}: {} {:.4f}</title></circle>"
                ).format(x, y, unit, at, one.name, value)
            )
    return parts


def _apart(heights: list[float], room: float = 12.0) -> list[float]:
    """Heights of the labels at the lines' ends, moved so that none covers another.

    >>> _apart([50.0, 54.0])
    [46.0, 58.0]
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = list(heights)
    for upper, lower in itertools.pairwise(order):
        lack = room - (moved[lower] - moved[upper])
        if lack > 0:
            moved[upper] -= lack / 2
            moved[lower] += lack / 2
    return moved
