"""What a published table is: rows, datasets, published values, and what is tried on validation.

A table is a TOML file in `lab/tables`, and its published values are a CSV file beside it; see
docs/tables.md. Here both become values, and every cell becomes an experiment.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lab.asked import Asked
from tacit.core.types import Task
from tacit.engines.select import runs_on_gpu
from tacit.errors import TacitError, nearest
from tacit.experiment.names import slug
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS
from tacit.plugins.entry import PLUGINS, parse
from tacit.study.study import digest

Column = Literal["paper", "clean"]  # whose protocol a cell is measured under
Metric = tuple[str, str]  # candidates ("full" or "sampled99") and metric ("HR@10")
Overrides = tuple[str, ...]  # `--set` strings that belong together

HOME = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class Published:
    """A number of the paper, in percent, and its spread where one is published.

    >>> Published(71.62, 0.83).text
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
    there; so it is with `rounds_on`. A closed form has settings too: the points of its grid, one
    round each.

    >>> Row("fedspectral", "fedspectral", settings=(("width=8",), ("width=16",)), rounds=10).seeded
    True
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    method: str
    preset: str = "paper"
    plugins: tuple[str, ...] = ()
    sets: Overrides = ()
    on: tuple[tuple[str, Overrides], ...] = ()  # (dataset, sets)
    settings: tuple[Overrides, ...] = ((),)
    settings_on: tuple[tuple[str, tuple[Overrides, ...]], ...] = ()  # (dataset, settings)
    rounds: int = 100
    rounds_on: tuple[tuple[str, int], ...] = ()  # (dataset, rounds)
    search_rounds: int = 50  # the search is shorter than the run: half of it where feasible
    evaluate_every: int = 5
    seeded: bool = True  # False: nothing in it is drawn, so one run says all
    free: bool = False  # it has nothing to choose, and tries no settings

    def rounds_for(self, data: str) -> int:
        """How long its runs on a dataset are.

        >>> row = Row("fedmf", "fedmf", rounds_on=(("lastfm-2k", 300),))
        >>> row.rounds_for("lastfm-2k"), row.rounds_for("ml-100k")
        (300, 100)
        """
        return dict(self.rounds_on).get(data, self.rounds)

    @property
    def absent(self) -> str | None:
        """Which of its names nobody has registered; None where all are there.

        >>> Row("x", "no_such").absent, Row("fedmf", "fedmf").absent
        ('no_such', None)
        """
        if self.method not in METHODS:
            return self.method
        return next((s for s in self.plugins if parse(s)[0] not in PLUGINS), None)


@dataclass(frozen=True)
class Data:
    """A dataset as a block of the table; how it is prepared and split in each column.

    >>> Data("filmtrust", clean_split="item_appearance").loaded
    'filmtrust'
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    source: str | None = None  # None: the source with this name
    paper_duplicates: str | None = None  # None: as the paper's protocol says
    clean_split: str | None = None  # None: clean's own; else the split that the paper uses
    columns: tuple[Column, ...] = ("paper", "clean")
    without: tuple[str, ...] = ()  # rows that this block does not have
    note: str = ""

    @property
    def loaded(self) -> str:
        return self.source or self.name


@dataclass(frozen=True)
class Reading:
    """One way to read the noise of a paper, for which epsilon is told (`lab/true_epsilon.py`).

    `bound` is the norm C that an upload would be clipped to: a number, the median norm of uploads
    as they are, or, where it is left out, the bound of the row's own channel. With a `multiplier`
    the noise is that multiple of the bound in place of the channel's own. `released` says what
    carries noise: each upload, or each local step.

    >>> Reading("as it runs").as_it_runs, Reading("if clipped", bound=1.0).as_it_runs
    (True, False)
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    bound: float | Literal["median"] | None = None
    multiplier: float | None = None
    released: Literal["uploads", "steps"] = "uploads"

    @property
    def as_it_runs(self) -> bool:
        """Whether nothing is assumed beyond the row's own channel."""
        return self == Reading(self.name)


@dataclass(frozen=True)
class Because:
    """The run that shows a reason, and what it says: a metric of it ("full HR@10"), in percent.

    `run` is a line of docs/results/reasons.json, or "TABLE: ROW | DATASET | COLUMN | seed K", a
    cell of a results file (`lab/proofs.py`).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    run: str
    metric: str
    value: float


@dataclass(frozen=True)
class Reason:
    """Why one cell is far from the published value, in words, and the run that shows it; there is
    no reason without one."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    row: str
    dataset: str
    column: Column
    text: str
    because: Because

    @property
    def cell(self) -> tuple[str, str, Column]:
        return self.row, self.dataset, self.column


@dataclass(frozen=True)
class Table:
    """A whole table. Cells are (row, dataset, column, seed); see docs/tables.md.

    `reasons` say of single cells why they are far from the published value (more than `tolerance`
    points, or 15 % of it), each with its run; a far cell without one is unexplained. `settings`
    is how many every row tries. `against` names the row that the closing sentences are about.
    `seen_unseen` asks for what seen and unseen test items contribute, apart. With `split_seeds` a
    seed also seeds the split, and a number stands with the interval of its mean. `cold` asks for
    what stands beside a result on untouched items, `bytes_up` for what a client sends in a round.
    `gains` names a plug-in, and asks for what each row "X + NAME" gains over the row X. `epsilon`
    lists readings of the rows' noise, and asks for what each of them promises. `all_tried` asks for
    every setting of the search with its validation value, also of one that is not finished.

    >>> Table("few", "Few", (Row("a", "fedmf"),), (Data("planted"),), (("full", "HR@10"),), 2)
    Traceback (most recent call last):
    tacit.errors.TacitError: a of the table few tries 1 settings and not 2; every row tries as many.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[Data, ...]
    metrics: tuple[Metric, ...]
    settings: int
    paper: str | None = None  # the protocol of the paper; None: clean alone
    published: Mapping[tuple[str, str, Metric], Published] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    tolerance: float = 2.0
    notes: tuple[str, ...] = ()
    against: str | None = None
    seeds: int = 3  # how many are run where nobody says
    seen_unseen: bool = False
    split_seeds: bool = False
    cold: bool = False
    bytes_up: bool = False
    gains: str | None = None
    epsilon: tuple[Reading, ...] = ()
    all_tried: bool = False
    device: str = "cpu"  # where cells run; the same cell on another device is not run again

    def __post_init__(self) -> None:
        rows, data = [row.name for row in self.rows], [one.name for one in self.datasets]
        for names in (rows, data):
            if len(set(names)) < len(names):
                raise TacitError(f"The table {self.name} names something twice: {names}.")
        reasoned = [reason.cell for reason in self.reasons]
        for row, dataset, _ in (*self.published, *reasoned):
            if row not in rows or dataset not in data:
                raise TacitError(f"The table {self.name} has no cell ({row}, {dataset}).")
        if len(set(reasoned)) < len(reasoned):
            raise TacitError(f"The table {self.name} has two reasons for one cell: {reasoned}.")
        for one in self.rows:
            for tried in (one.settings, *(settings for _, settings in one.settings_on)):
                if not one.free and len(tried) != self.settings:
                    raise TacitError(
                        f"{one.name} of the table {self.name} tries {len(tried)} settings and not "
                        f"{self.settings}; every row tries as many."
                    )
        if self.against is not None and self.against not in rows:
            raise TacitError(f"The table {self.name} has no row {self.against!r}.")
        for name in rows if self.gains is not None else ():
            if (plain := name.removesuffix(f" + {self.gains}")) not in rows:
                raise TacitError(f"The table {self.name} has no row {plain!r} to gain over.")

    def pairs_of(self, data: Data) -> list[tuple[Row, Row]]:
        """The rows of a dataset without and with the plug-in `gains`, side by side."""
        rows = {row.name: row for row in self.rows_of(data)}
        named = [(row, rows.get(f"{name} + {self.gains}")) for name, row in rows.items()]
        return [(plain, gained) for plain, gained in named if gained is not None]

    def rows_of(self, data: Data) -> tuple[Row, ...]:
        """The rows that a dataset has here."""
        return tuple(row for row in self.rows if row.name not in data.without)

    def columns_of(self, data: Data) -> tuple[Column, ...]:
        """The columns that a dataset has here."""
        return tuple(c for c in data.columns if c == "clean" or self.paper is not None)

    @cached_property
    def places(self) -> list[Place]:
        """All places, datasets first."""
        return [
            Place(self, row, data, column)
            for data in self.datasets
            for row in self.rows_of(data)
            for column in self.columns_of(data)
        ]


@cache
def _resolved(asked: Asked) -> tuple[Experiment, bool]:
    """An experiment, and whether there is an engine for a GPU: what has none runs on the CPU, also
    where the others run on one. A table asks for the same ones many times."""
    experiment = asked.experiment()
    return experiment, runs_on_gpu(experiment.method.algorithm(Task(n_users=1, n_items=1)))


@dataclass(frozen=True, eq=False)
class Place:
    """A cell without its seed: what one choice of settings is made for.

    >>> row, data = Row("fedmf", "fedmf"), Data("planted")
    >>> table = Table("few", "Few", (row,), (data,), (("full", "HR@10"),), 1)
    >>> place = Place(table, row, data, "clean")
    >>> place.key, place.experiment((), 0, search=True).rounds
    ('fedmf | planted | clean', 50)
    """

    table: Table
    row: Row
    data: Data
    column: Column

    @property
    def key(self) -> str:
        return f"{self.row.name} | {self.data.name} | {self.column}"

    def cell(self, seed: int) -> str:
        """The key of one run of this place."""
        return f"{self.key} | seed {seed}"

    def seeds(self, asked: int) -> range:
        """The seeds of this place; a row in which nothing is drawn has one."""
        return range(asked if self.row.seeded else 1)

    @property
    def settings(self) -> tuple[Overrides, ...]:
        """What is tried here."""
        return dict(self.row.settings_on).get(self.data.name, self.row.settings)

    def asked(self, setting: Overrides, seed: int, *, search: bool = False) -> Asked:
        """What is asked for under one setting; a search is shorter and otherwise the same."""
        table, row, data, paper = self.table, self.row, self.data, self.column == "paper"
        here = [setting for name, setting in row.on if name == data.name]
        if table.split_seeds:
            here.append((f"protocol.split.seed={seed}",))
        return Asked(
            row.method,
            data=data.loaded,
            protocol=(table.paper or "clean") if paper else "clean",
            preset=row.preset,
            plugins=row.plugins,
            rounds=row.search_rounds if search else row.rounds_for(data.name),
            seed=seed,
            split=None if paper else data.clean_split,
            duplicates=data.paper_duplicates if paper else None,
            sets=(f"evaluate_every={row.evaluate_every}", *row.sets, *setting, *chain(*here)),
        )

    def experiment(self, setting: Overrides, seed: int, *, search: bool = False) -> Experiment:
        """The experiment under one setting."""
        # runs of several seeds differ in nothing else; the seed of a split stands in `sets`
        experiment, there = _resolved(replace(self.asked(setting, seed, search=search), seed=0))
        device = self.table.device if there else experiment.device
        return replace(experiment, seed=seed, device=device)

    @cached_property
    def problem(self) -> str | None:
        """Why this cannot be run at all: a name or a setting does not exist."""
        if (name := self.row.absent) is not None:
            return f"no such method here: {name}"
        try:
            for setting in self.settings:
                self.experiment(setting, 0)
        except TacitError as error:
            return str(error).rstrip(".")
        return None

    def folder(self, experiment: Experiment) -> str:
        """Where a cell runs, below the table's folder. A definition that changes gets another
        folder, never another's numbers."""
        name = f"{self.column}-seed{experiment.seed}-{digest(experiment)}"
        return f"runs/{slug(self.data.name)}/{slug(self.row.name)}/{name}"

    @cached_property
    def digest(self) -> str:
        """A short name of all that is tried here; it changes with any of it."""
        return digest(*(self.experiment(s, 0, search=True) for s in self.settings))


# From the TOML file to the value. `shared` names files with definitions that tables have in common:
# `tried` (what rows try) and `like` (rows that others are made from).


def table_names() -> list[str]:
    """The tables that there are.

    >>> "pfedrec-main" in table_names()
    True
    """
    return sorted(path.stem for path in HOME.glob("*.toml"))


def load_table(name: str) -> Table:
    """A table by its name.

    >>> load_table("pfedrec-main").rows[2].settings[0][-1]
    'local.items.per_item=20.0'
    """
    if name not in table_names():
        raise TacitError(f"Unknown table {name!r}; {nearest(name, table_names())}")
    return read_table(HOME / f"{name}.toml")


def read_table(path: Path) -> Table:
    """A table from its file; a mistake in it is said in a sentence."""
    try:
        given = _read(path)
        shared = [_read(HOME / "shared" / f"{name}.toml") for name in given.pop("shared", ())]
        tried, like, datasets = (
            dict(chain.from_iterable(one.pop(part, {}).items() for one in (*shared, given)))
            for part in ("tried", "like", "data")
        )
        rows = [_row(one, like, tried) for one in given.pop("rows")]
        blocks = [{"name": name, **datasets.get(name, {})} for name in given.pop("datasets")]
        values: dict[str, Any] = {
            **given,
            "name": path.stem,
            "rows": rows,
            "datasets": blocks,
            "metrics": [tuple(metric.split(" ")) for metric in given["metrics"]],
            "published": _published(path.with_suffix(".csv")),
        }
        return TypeAdapter(Table).validate_python(values)
    except (ValidationError, ValueError, KeyError) as error:
        first = str(error).splitlines()[0] if not isinstance(error, ValidationError) else ""
        if isinstance(error, ValidationError):
            one = error.errors()[0]
            first = f"{'.'.join(map(str, one['loc']))}: {one['msg'].lower()}"
        raise TacitError(f"The table {str(path)!r} cannot be read: {first}.") from error


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _merged(given: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """A row on top of the one that it is like: sets add up, all else is replaced."""
    if "like" not in given:
        return dict(given)
    base = _merged(like[given["like"]], like)
    own = {name: value for name, value in given.items() if name != "like"}
    return {**base, **own, "sets": [*base.get("sets", ()), *given.get("sets", ())]}


def _row(
    given: Mapping[str, Any], like: Mapping[str, Any], tried: Mapping[str, Any]
) -> dict[str, Any]:
    row = _merged(given, like)
    if "tried" in row:
        row["settings"] = _settings(tried[row.pop("tried")])
    if "tried_on" in row:
        pairs = row.pop("tried_on").items()
        row["settings_on"] = [(name, _settings(tried[one])) for name, one in pairs]
    if "rounds_on" in row:
        row["rounds_on"] = list(row.pop("rounds_on").items())
    if "on" in row:
        pairs = row.pop("on").items()
        row["on"] = [(name, sets) for names, sets in pairs for name in names.split(" / ")]
    return row


def _settings(given: Mapping[str, Any]) -> list[Overrides]:
    """Settings from the fields and their values; fields joined by " = " have the same value. With
    a `grid` every value of each field meets every value of the others."""
    return [
        tuple(
            f"{path}={value}"
            for paths, value in zip(given["fields"], values, strict=True)
            for path in paths.split(" = ")
        )
        for values in (product(*given["grid"]) if "grid" in given else given["values"])
    ]


def _published(path: Path) -> dict[tuple[str, str, Metric], Published]:
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        return {
            (line["row"], line["dataset"], (line["candidates"], line["metric"])): Published(
                float(line["mean"]), float(line["spread"]) if line["spread"] else None
            )
            for line in csv.DictReader(stream)
        }
