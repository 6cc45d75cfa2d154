"""What a re-made table is: rows, datasets, printed numbers, and what is tried on validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tacit.errors import TacitError

Column = Literal["paper", "clean"]  # whose protocol a cell is measured under
Metric = tuple[str, str]  # candidates ("full" or "sampled99") and metric ("HR@10")
Setting = tuple[str, ...]  # `--set` strings that belong together


@dataclass(frozen=True)
class Printed:
    """A number of the paper, in percent, and its spread where one is printed.

    >>> Printed(71.62, 0.83).text
    '71.62 ± 0.83'
    """

    mean: float
    spread: float | None = None

    @property
    def text(self) -> str:
        return f"{self.mean:.2f}" + (f" ± {self.spread:.2f}" if self.spread is not None else "")


@dataclass(frozen=True)
class Row:
    """A method as a row. `sets` hold always, `on` for single datasets, whatever the setting; of
    `settings` one is chosen on validation, or of those in `settings_on` on a dataset that is named
    there. A closed form has settings too: the points of its grid, one round each.

    >>> Row("fedspectral", "fedspectral", settings=(("width=8",), ("width=16",)), rounds=10).seeded
    True
    """

    name: str
    method: str
    plugins: tuple[str, ...] = ()
    sets: Setting = ()
    on: tuple[tuple[str, Setting], ...] = ()  # (dataset, sets)
    settings: tuple[Setting, ...] = ((),)
    settings_on: tuple[tuple[str, tuple[Setting, ...]], ...] = ()  # (dataset, settings)
    rounds: int = 100
    search_rounds: int = (
        50  # the search is shorter than the run: half of it, where that is feasible
    )
    evaluate_every: int = 5
    seeded: bool = True  # False: nothing in it is drawn, so one run says all
    free: bool = False  # it has nothing to choose, and tries no settings


@dataclass(frozen=True)
class Data:
    """A dataset as a block of the table; how it is prepared and split in each column.

    >>> Data("filmtrust", clean_split="item_appearance").source
    'filmtrust'
    """

    name: str
    given_source: str | None = None
    paper_duplicates: str | None = None  # None: as the paper's protocol says
    clean_split: str | None = None  # None: clean's own; else the split that the paper uses
    columns: tuple[Column, ...] = ("paper", "clean")
    without: tuple[str, ...] = ()  # rows that this block does not have
    note: str = ""

    @property
    def source(self) -> str:
        return self.given_source or self.name


@dataclass(frozen=True)
class Table:
    """A whole table. Cells are (row, dataset, column, seed); see docs/tables.md.

    `why` holds a written reason for (row, dataset, column); it is shown where a cell lies more than
    `tolerance` points from print, and a cell that does so without one is listed. Datasets stand in
    the order of what they cost. `settings` is how many every row tries. `against` names the row
    that a sentence made from the numbers is about. `warmth` asks for what warm and unseen test
    items contribute, apart. With `split_seeds` a seed also seeds the split, and a number stands
    with the interval of its mean; `cold` asks for what stands beside a result on untouched items.

    >>> Table("few", "Few", (Row("a", "fedmf"),), (Data("planted"),), (("full", "HR@10"),), 2)
    Traceback (most recent call last):
    tacit.errors.TacitError: a of the table few tries 1 settings and not 2; every row tries as many.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[Data, ...]
    metrics: tuple[Metric, ...]
    settings: int
    paper: str | None = None  # the protocol of the paper; None: clean alone
    printed: Mapping[tuple[str, str, Metric], Printed] = field(default_factory=dict)
    why: Mapping[tuple[str, str, Column], str] = field(default_factory=dict)
    tolerance: float = 2.0
    notes: tuple[str, ...] = ()
    against: str | None = None
    seeds: int = 3  # how many are run where nobody says
    warmth: bool = False
    split_seeds: bool = False
    cold: bool = False
    device: str = "cpu"  # where cells run; the same cell on another device is not run again

    def __post_init__(self) -> None:
        rows, data = [row.name for row in self.rows], [one.name for one in self.datasets]
        for names in (rows, data):
            if len(set(names)) < len(names):
                raise TacitError(f"The table {self.name} names something twice: {names}.")
        for row, dataset, _ in (*self.printed, *self.why):
            if row not in rows or dataset not in data:
                raise TacitError(f"The table {self.name} has no cell ({row}, {dataset}).")
        for one in self.rows:
            for tried in (one.settings, *(settings for _, settings in one.settings_on)):
                if not one.free and len(tried) != self.settings:
                    raise TacitError(
                        f"{one.name} of the table {self.name} tries {len(tried)} settings and not "
                        f"{self.settings}; every row tries as many."
                    )
        if self.against is not None and self.against not in rows:
            raise TacitError(f"The table {self.name} has no row {self.against!r}.")

    def rows_of(self, data: Data) -> tuple[Row, ...]:
        """The rows that a dataset has here."""
        return tuple(row for row in self.rows if row.name not in data.without)

    def columns_of(self, data: Data) -> tuple[Column, ...]:
        """The columns that a dataset has here."""
        return tuple(c for c in data.columns if c == "clean" or self.paper is not None)


def each(path: str, *values: float) -> tuple[Setting, ...]:
    """Settings that differ in one field.

    >>> each("width", 8, 16)
    (('width=8',), ('width=16',))
    """
    return tuple((f"{path}={value}",) for value in values)


def apart(first: str, second: str, *pairs: tuple[float, float]) -> tuple[Setting, ...]:
    """Settings that differ in two fields.

    >>> apart("local.rate", "server.rate", (0.1, 0.2))
    (('local.rate=0.1', 'server.rate=0.2'),)
    """
    return tuple((f"{first}={one}", f"{second}={other}") for one, other in pairs)


def rates(*pairs: tuple[float, float]) -> tuple[Setting, ...]:
    """Settings of methods that step a model and items: (rate, η) each; items step at rate·η·I.

    >>> rates((0.1, 80.0))
    (('local.model.rate=0.1', 'local.items.rate=0.1', 'local.items.per_item=80.0'),)
    """
    return tuple(
        (
            f"local.model.rate={rate}",
            f"local.items.rate={rate}",
            f"local.items.per_item={per_item}",
        )
        for rate, per_item in pairs
    )
