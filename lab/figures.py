"""`python -m lab.figures`: figures of the papers, and tables that are looks into runs, made again.

`lab/figures.toml` says which runs a figure is made of and which analysis looks into them. Runs lie
in `runs/figures`, PNG and SVG beside them. The numbers stand in `docs/results/figure-NAME.json`
and `.md`, with the digest of every run and how they were looked at: a part that stands there is not
run again.
"""

from __future__ import annotations

import json
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import typer
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, field_validator

from lab.asked import Asked
from lab.proofs import PUBLISHED
from tacit.analysis.analyses import analyse
from tacit.analysis.finding import Finding, Table
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import cores, ready_to_compute
from tacit.errors import TacitError, nearest
from tacit.experiment.names import slug
from tacit.files import write_text
from tacit.study.study import Study, Trial, digest
from tacit.study.writer import as_markdown as table_in_markdown

DEFINED = Path(__file__).parent / "figures.toml"

app = typer.Typer(name="lab.figures", add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class FigureRun:
    """A run of a figure; `on` has settings for single datasets."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    method: str
    plugins: tuple[str, ...] = ()
    rounds: int = 100
    sets: tuple[str, ...] = ()
    on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One look: some runs on one dataset under one protocol, which share a picture."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    data: str
    protocol: str
    runs: tuple[str, ...]
    name: str = ""  # what it is about, where data and protocol do not say it
    split: str | None = None
    rounds: int | None = None  # in place of each run's own
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return " | ".join(word for word in (self.name, self.data, self.protocol) if word)


@dataclass(frozen=True)
class Printed:
    """What the paper prints, as a small table."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class FigureOf:
    """A figure of a paper: its runs by name, the analysis that looks into them, and its parts.

    `models` says that the analysis reads kept models, `points` that the numbers behind its lines
    are published as well.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    title: str
    analysis: str
    runs: Mapping[str, FigureRun]
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    printed: Printed | None = None
    models: bool = False
    points: bool = False

    def __post_init__(self) -> None:
        keys = [part.key for part in self.parts]
        if len(set(keys)) < len(keys):
            raise TacitError(f"The figure {self.name} has two parts of one name: {keys}.")
        for part in self.parts:
            for run in part.runs:
                if run not in self.runs:
                    raise TacitError(
                        f"The figure {self.name} has no run {run!r}; {nearest(run, self.runs)}"
                    )

    def asked(self, part: Part, name: str) -> Asked:
        """What one run of a part is asked for."""
        run = self.runs[name]
        return Asked(
            run.method,
            data=part.data,
            protocol=part.protocol,
            plugins=run.plugins,
            rounds=run.rounds if part.rounds is None else part.rounds,
            split=part.split,
            sets=(*run.sets, *run.on.get(part.data, ())),
        )

    def trials(self, part: Part, out: Path) -> list[Trial]:
        """The runs of a part."""
        experiments = {name: self.asked(part, name).experiment() for name in part.runs}
        return [
            Trial({"run": name}, one, out / "runs" / digest(one) / slug(name))
            for name, one in experiments.items()
        ]

    def digests(self, part: Part) -> dict[str, str]:
        """The digest of every run of a part, by its name."""
        return {name: digest(self.asked(part, name).experiment()) for name in part.runs}

    def look(self, part: Part) -> Look:
        """How the runs of a part are looked at."""
        return Look(analysis=self.analysis, options=dict(part.options), points=self.points)


def defined(path: Path = DEFINED) -> dict[str, FigureOf]:
    """The figures that there are, by name; a mistake in the file is said in a sentence."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        common = given.get("runs", {})
        for one in given["figures"]:
            runs = {**common, **one.get("runs", {})}
            one["runs"] = {name: _merged(run, runs) for name, run in runs.items()}
        found = TypeAdapter(list[FigureOf]).validate_python(given["figures"])
    except (ValidationError, ValueError, KeyError) as error:
        raise TacitError(f"{str(path)!r} cannot be read: {_first(error)}.") from error
    if len({one.name for one in found}) < len(found):
        raise TacitError(f"{str(path)!r} names a figure twice.")
    return {one.name: one for one in found}


def _merged(run: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A run on top of the one that it is like; what it has itself replaces that."""
    if "like" not in run:
        return dict(run)
    own = {name: value for name, value in run.items() if name != "like"}
    return _merged(runs[run["like"]], runs) | own


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        one = error.errors()[0]
        return f"{'.'.join(map(str, one['loc']))}: {one['msg'].lower()}"
    return str(error).splitlines()[0]


# What is published.


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShownTable(_Stored):
    """A table of an analysis, unrounded, and as people read it."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    texts: tuple[tuple[str, ...], ...] = ()  # of tables that are printed

    @classmethod
    def of(cls, table: Table) -> ShownTable:
        texts = tuple(map(tuple, table.texts()))
        columns, rows = tuple(table.header), tuple(map(tuple, table.rows))
        return cls(name=table.name, title=table.title, columns=columns, rows=rows, texts=texts)

    @classmethod
    def points_of(cls, table: Table) -> ShownTable:
        """The rows in which nothing is missing: rounds that were validated."""
        rows = tuple(tuple(row) for row in table.rows if None not in row)
        return cls(name=table.name, title=table.title, columns=tuple(table.header), rows=rows)


class Look(_Stored):
    """How runs are looked at: another analysis, other options or points make other tables.

    >>> Look(analysis="curves", options={"rounds": (1, 2)}, points=True).options
    {'rounds': [1, 2]}
    """

    analysis: str
    options: dict[str, Any]
    points: bool

    @field_validator("options")
    @classmethod
    def _as_written(cls, options: dict[str, Any]) -> dict[str, Any]:
        """As they come back from the file, so that both are equal."""
        return cast(dict[str, Any], json.loads(json.dumps(options)))


class Shown(_Stored):
    """What an analysis found in the runs of a part."""

    look: Look
    digests: dict[str, str]  # of the runs, by name
    commands: dict[str, str]
    rounds: dict[str, int]  # that were run, and the selected one
    selected: dict[str, int]
    seconds: dict[str, float]
    tables: tuple[ShownTable, ...]
    sentences: tuple[str, ...]


class FigureNumbers(_Stored):
    """The parts of a figure that are finished, by their key."""

    figure: str
    parts: dict[str, Shown] = {}

    @classmethod
    def read(cls, figure: FigureOf, folder: Path) -> FigureNumbers:
        """What is published of a figure; parts that were defined otherwise do not count."""
        path = folder / f"figure-{figure.name}.json"
        if not path.is_file():
            return cls(figure=figure.name)
        found = cls.model_validate_json(path.read_text(encoding="utf-8"))
        current = {part.key: (figure.digests(part), figure.look(part)) for part in figure.parts}
        kept = {
            key: one
            for key, one in found.parts.items()
            if (one.digests, one.look) == current.get(key)
        }
        return cls(figure=figure.name, parts=kept)


def shown(figure: FigureOf, part: Part, trials: Sequence[Trial], finding: Finding) -> Shown:
    """What is published of a part."""
    records = {trial.labels["run"]: trial.record for trial in trials}
    tables = [ShownTable.of(table) for table in finding.tables]
    tables += [ShownTable.points_of(one) for one in finding.unprinted if figure.points]
    return Shown(
        look=figure.look(part),
        digests=figure.digests(part),
        commands={name: figure.asked(part, name).command for name in part.runs},
        rounds={name: record.rounds_run for name, record in records.items()},
        selected={name: record.selected_round for name, record in records.items()},
        seconds={name: round(record.seconds, 1) for name, record in records.items()},
        tables=tuple(tables),
        sentences=finding.sentences,
    )


def as_markdown(figure: FigureOf, numbers: FigureNumbers) -> str:
    """The page from the definition and the numbers alone."""
    lines = [
        f"# {figure.title}",
        "",
        f"Written by `python -m lab.figures {figure.name}`: {len(numbers.parts)} of "
        f"{len(figure.parts)} parts, seed 0. The pictures are made beside the runs, in "
        f"`runs/figures/{figure.name}`; `tacit analyse {figure.analysis}` draws them.",
        "",
        *(f"- {note}" for note in figure.notes),
        "",
    ]
    if figure.printed is not None:
        table = table_in_markdown(figure.printed.heading, [list(r) for r in figure.printed.rows])
        lines += ["## Print", "", table, ""]
    for part in figure.parts:
        lines += [f"## {part.key}", ""]
        one = numbers.parts.get(part.key)
        if one is None:
            lines += ["Not run yet.", ""]
            continue
        for told in (table for table in one.tables if table.texts):
            lines += [f"{told.title}.", ""]
            lines += [table_in_markdown(told.columns, [list(row) for row in told.texts]), ""]
        lines += [f"- {sentence}" for sentence in one.sentences]
        lines += [
            f"- {name}: {one.rounds[name]} rounds, the model of round {one.selected[name]}, "
            f"{one.seconds[name]:,.0f} s. `{command}`"
            for name, command in one.commands.items()
        ]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def write(figure: FigureOf, numbers: FigureNumbers, folder: Path) -> None:
    """The numbers and what people read, with the parts in the order of the definition."""
    order = [part.key for part in figure.parts if part.key in numbers.parts]
    parts = {key: numbers.parts[key] for key in order}
    numbers = numbers.model_copy(update={"parts": parts})
    stem = folder / f"figure-{figure.name}"
    write_text(stem.with_suffix(".json"), numbers.model_dump_json(indent=1) + "\n")
    write_text(stem.with_suffix(".md"), as_markdown(figure, numbers))


@dataclass
class Drawing:
    """One figure at work: runs that are missing, then the analysis of every part."""

    figure: FigureOf
    out: Path
    folder: Path = PUBLISHED
    budget: float = 3600.0  # seconds
    workers: int = 1
    only: str = ""  # words of a part's key
    again: bool = False

    def draw(self) -> FigureNumbers:
        """All parts that are asked for, as far as the budget goes; written after each."""
        figure, began = self.figure, time.monotonic()
        numbers = FigureNumbers.read(figure, self.folder)
        write(figure, numbers, self.folder)
        for part in figure.parts:
            if self.only not in part.key or (part.key in numbers.parts and not self.again):
                continue
            trials = figure.trials(part, self.out)
            study = Study(trials)
            left = self.budget - (time.monotonic() - began)
            if study.missing and left > 0:
                study.run(
                    workers=self.workers,
                    budget=left,
                    callbacks=Bar(),
                    report=lambda line: say(f"run       {line}"),
                    keep_model=figure.models,
                )
            if study.missing:
                say(f"left      {part.key}: {len(study.missing)} of {len(trials)} runs")
                continue
            place = self.out / figure.name / slug(part.key)
            folders = [trial.folder for trial in trials]
            finding, files = analyse(
                figure.analysis, folders, place, names=part.runs, **part.options
            )
            parts = {**numbers.parts, part.key: shown(figure, part, trials, finding)}
            numbers = numbers.model_copy(update={"parts": parts})
            write(figure, numbers, self.folder)
            say(f"drawn     {part.key}: {', '.join(str(f) for f in files if f.suffix == '.png')}")
        return numbers


@app.command()
def figures(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which figure; without one, all are named.")
    ] = None,
    only: Annotated[str, typer.Option(help="Only parts with these words in their name.")] = "",
    budget: Annotated[
        float, typer.Option(help="Hours; no run is begun after them.", metavar="HOURS")
    ] = 1.0,
    out: Annotated[Path, typer.Option(help="The folder that runs and pictures lie in.")] = Path(
        "runs/figures"
    ),
    workers: Annotated[
        int | None, typer.Option(help="Runs at the same time. Default: the cores.", metavar="N")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also parts that are published: makes their pictures.")
    ] = False,
) -> None:
    """Make a paper's figure again; finished runs are used again, and a stopped one goes on."""
    known = defined()
    if name is None:
        for one in known.values():
            say(f"{one.name:20s}{one.title}: {', '.join(part.key for part in one.parts)}")
        return
    if name not in known:
        raise TacitError(f"Unknown figure {name!r}; {nearest(name, known)}")
    ready_to_compute()
    drawing = Drawing(
        known[name],
        out,
        budget=3600 * budget,
        workers=cores() if workers is None else workers,
        only=only,
        again=again,
    )
    numbers = drawing.draw()
    say(f"written   {PUBLISHED / f'figure-{name}.md'}, {len(numbers.parts)} parts")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
