"""What an analysis gives: tables, one figure, sentences; and how they reach the disk."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tacit.experiment.amounts import DASH, metric_text
from tacit.experiment.charts import save_figure
from tacit.files import write_text


def word(value: Any) -> str:
    """A text as it is; nothing is a dash.

    >>> word("own"), word(None)
    ('own', '–')
    """
    return DASH if value is None else str(value)


def percent(value: Any) -> str:
    """A share in per cent.

    >>> percent(12.345), percent(None)
    ('12.3 %', '–')
    """
    return DASH if value is None else f"{value:.1f} %"


def change(value: Any) -> str:
    """A relative change in per cent, with its sign.

    >>> change(12.345), change(None)
    ('+12.35 %', '–')
    """
    return DASH if value is None else f"{value:+.2f} %"


@dataclass(frozen=True)
class Column:
    """A column's name, and how its values are shown to people; files hold them unrounded.

    >>> Column("HR@10").show(0.12345)
    '0.1235'
    """

    name: str
    show: Callable[[Any], str] = metric_text


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of values under named columns; `name` is that of its file.

    >>> table = Table("few", "Few", (Column("who", word), Column("HR@10")), (("a", 0.25),))
    >>> table.texts(), table.records()
    ([['a', '0.2500']], [{'who': 'a', 'HR@10': 0.25}])
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def header(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def words(self) -> int:
        """How many columns at the left hold texts."""
        return next(
            (place for place, one in enumerate(self.columns) if one.show is not word),
            len(self.columns),
        )

    def texts(self) -> list[list[str]]:
        return [
            [column.show(value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def without(self, name: str) -> Table:
        """The table less one column.

        >>> Table("few", "Few", (Column("who", word), Column("HR@10")), ()).without("who").header
        ['HR@10']
        """
        kept = [place for place, column in enumerate(self.columns) if column.name != name]
        columns = tuple(self.columns[place] for place in kept)
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        return Table(self.name, self.title, columns, rows)

    def records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.header, row, strict=True)) for row in self.rows]

    def csv(self) -> str:
        stream = io.StringIO()
        writer = csv.writer(stream)
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return stream.getvalue()


@dataclass(frozen=True, eq=False)
class Finding:
    """An analysis' result: tables to print, tables for files alone, a figure, and sentences.

    >>> Finding("cost", (), Figure()).sentences
    ()
    """

    name: str
    tables: tuple[Table, ...]
    figure: Figure
    sentences: tuple[str, ...] = ()
    unprinted: tuple[Table, ...] = ()

    def write(self, out: Path) -> list[Path]:
        """Every table as CSV, and the figure as PNG and SVG."""
        written = []
        for table in (*self.tables, *self.unprinted):
            path = out / f"{table.name}.csv"
            write_text(path, table.csv())
            written.append(path)
        return [*written, *save_figure(self.figure, out / self.name)]
