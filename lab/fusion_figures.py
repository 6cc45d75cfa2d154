"""`python -m lab.fusion_figures`: figures of FedMR and MDiffFR, made again; a name each.

A figure has parts: a backbone or a dataset each. A part is one run, which an analysis looks into,
or a sweep over settings of one. Runs begin from cells of published tables, with the settings that
were chosen for them. PNG and SVG files go below `runs/figures`, numbers to `docs/results`; parts
that are not asked for stay there as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict

from lab.asked import Asked
from lab.definition import load_table
from lab.fill import Only
from lab.results import Results, metric_key, values_of
from tacit.analysis.analyses import analyse
from tacit.analysis.finding import Table
from tacit.cli import settings as options
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import ready_to_compute
from tacit.engines.select import require_device
from tacit.errors import TacitError, nearest
from tacit.experiment.amounts import DASH, metric_text
from tacit.experiment.charts import (
    caption,
    colour,
    legend_outside,
    marker,
    new_figure,
    save_figure,
)
from tacit.experiment.folder import RunFolder
from tacit.files import write_text
from tacit.study.study import Trial, digest, finish
from tacit.study.sweep import Sweep, axis_of, experiments_of, shown_metrics, sweep
from tacit.study.writer import as_markdown as table_in_markdown

PUBLISHED = Path("docs", "results")
BACKBONES = ("fcf", "pfedrec", "fedavg", "fedneumf", "fedrap")
COLD_DATA = ("ml-100k", "ninerec-ku", "ml-latest-small", "lastfm-2k", "citeulike-a", "ml-1m")

Value = str | float | int | None

app = typer.Typer(name="lab.fusion_figures", add_completion=False, pretty_exceptions_enable=False)


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Numbers(_Stored):
    """A table of a figure, unrounded."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    @classmethod
    def of(cls, table: Table) -> Numbers:
        return cls(title=table.title, header=tuple(table.header), rows=table.rows)

    @property
    def text(self) -> str:
        return table_in_markdown(list(self.header), [list(map(_shown, row)) for row in self.rows])


class Part(_Stored):
    """What one backbone or dataset gave: its runs by digest, the command of the first, numbers."""

    command: str
    over: tuple[str, ...] = ()
    digests: tuple[str, ...]
    tables: tuple[Numbers, ...]
    sentences: tuple[str, ...] = ()
    seconds: float


class Drawn(_Stored):
    """A figure's numbers, part by part."""

    figure: str
    parts: dict[str, Part]


@dataclass(frozen=True)
class Figure:
    """A figure by what it is made of. `analysis` looks into the run of each part, or, if it is
    `joint`, into all of them at once; `over` sweeps each part instead. `cell` names where the run
    of a part begins, "TABLE: ROW | DATASET | COLUMN"."""

    title: str
    says: str
    cell: str
    parts: tuple[str, ...]
    analysis: str = ""
    joint: bool = False
    metric: str | None = None  # of an analysis that asks for one
    over: tuple[str, ...] = ()

    def asked(self, part: str) -> Asked:
        """The run that a part begins from: its cell's, with the setting that was chosen there."""
        table, _, key = self.cell.format(part).partition(": ")
        place = next((one for one in load_table(table).places if one.key == key), None)
        if place is None:
            raise TacitError(f"A figure begins from no cell: {self.cell.format(part)!r}.")
        setting = Results.read(table, PUBLISHED / f"table-{table}.json").setting_of(place)
        if setting is None:
            raise TacitError(f"Nothing was chosen for {key!r} yet; run the table {table}.")
        return place.asked(setting, 0)

    def digests(self, part: str) -> tuple[str, ...]:
        """The experiments of a part, by the definition of today."""
        asked = self.asked(part)
        if not self.over:
            return (digest(asked.experiment()),)
        axes = [axis_of(one) for one in self.over]
        grid = experiments_of(asked.method, axes, 1, _settings(asked))
        return tuple(digest(one) for (one,) in grid)


KU = "fedmr-ku: {} + fedmr | ninerec-ku | clean"

FIGURES: dict[str, Figure] = {
    "fedmr-gap": Figure(
        "FedMR, Fig. 7: the modality gap",
        "Do inputs of the same items lie apart after their projections, and does training bring "
        "them together? NineRec KU, all inputs in one plane, gaps in all dimensions.",
        KU,
        BACKBONES,
        analysis="gap",
    ),
    "fedmr-router": Figure(
        "FedMR: what users weigh, by activity",
        "Weights of views and their deviation from the mean user, by groups of users, NineRec KU.",
        KU,
        BACKBONES,
        analysis="router",
    ),
    "fedmr-curves": Figure(
        "FedMR: training loss and validation by round",
        "Five fused backbones on NineRec KU, each with the setting that was chosen for it.",
        KU,
        BACKBONES,
        analysis="curves",
        joint=True,
        metric="HR@50",
    ),
    "fedmr-clients": Figure(
        "FedMR: shares of clients per round",
        "HR@50 when a share of the clients takes part in each round, NineRec KU.",
        KU,
        BACKBONES,
        over=("participation.ratio=0.1,0.3,0.5,0.7,1.0",),
    ),
    "fedmr-rates": Figure(
        "FedMR: learning rate and weight decay",
        "The rate and the decay at which the server steps id rows, NineRec KU.",
        KU,
        ("fcf",),
        over=("server.items.rate=0.01,0.1,1,10", "server.items.weight_decay=0,1e-4,1e-2"),
    ),
    "fedmr-fedrap": Figure(
        "FedMR on FedRAP: its two weights",
        "FedRAP's weight that keeps tables apart and its weight of sparsity, NineRec KU.",
        KU,
        ("fedrap",),
        over=("sync.apart=1e-4,1e-2,1e-1", "sync.sparse=1e-4,1e-2,1e-1"),
    ),
    "mdifffr-clouds": Figure(
        "MDiffFR: warm rows against generated ones",
        "Do the rows that MDiffFR generates come to lie where trained rows do? Seed 0.",
        "mdifffr-ablations: mdifffr | {} | clean",
        COLD_DATA,
        analysis="clouds",
    ),
}
WIDTHS = {
    "mdifffr, width 16": 16,
    "mdifffr, width 32": 32,
    "mdifffr": 64,
    "mdifffr, width 128": 128,
}


def _settings(asked: Asked) -> dict[str, Any]:
    return {
        "data": asked.data,
        "protocol": asked.protocol,
        "preset": asked.preset,
        "plugins": asked.plugins,
        "rounds": asked.rounds,
        "split": asked.split,
        "duplicates": asked.duplicates,
        "sets": asked.sets,
    }


def _shown(value: Value) -> str:
    """A value as people read it.

    >>> _shown(0.12345), _shown(7), _shown("own"), _shown(None)
    ('0.1235', '7', 'own', '–')
    """
    return metric_text(value) if isinstance(value, float) else DASH if value is None else str(value)


# Making the parts of a figure.


def make(
    figure: Figure, parts: Sequence[str], out: Path, device: str = "cpu"
) -> Iterator[tuple[str, Part]]:
    """Run what is missing, draw, and give the numbers of each part."""
    if figure.over:
        swept = {part: _swept(figure, part, out / part, device) for part in parts}
        yield from ((part, found) for part, (found, _) in swept.items())
        if len(figure.over) == 1:
            _shares(figure, {part: table for part, (_, table) in swept.items()}, out)
        return
    folders = {part: _trained(figure, part, out.parent / "trained", device) for part in parts}
    if not figure.joint:
        for part, folder in folders.items():
            finding, _ = analyse(figure.analysis, [folder], out / part, callbacks=Bar(), warn=say)
            tables = tuple(map(Numbers.of, finding.tables))
            yield part, _part(figure, part, folder, tables, finding.sentences)
        return
    named: dict[str, Any] = {} if figure.metric is None else {"metric": figure.metric}
    finding, _ = analyse(figure.analysis, list(folders.values()), out, **named)
    for part, folder in folders.items():
        name = RunFolder(folder).experiment().label
        own = tuple(
            Numbers(title=t.title, header=tuple(t.header), rows=_rows_of(t, name))
            for t in finding.tables
        )
        yield part, _part(figure, part, folder, own, finding.sentences)


def _rows_of(table: Table, name: str) -> tuple[tuple[Value, ...], ...]:
    return tuple(row for row in table.rows if row[0] == name)


def _part(
    figure: Figure,
    part: str,
    folder: Path,
    tables: tuple[Numbers, ...],
    sentences: tuple[str, ...],
) -> Part:
    return Part(
        command=figure.asked(part).command,
        digests=figure.digests(part),
        tables=tables,
        sentences=sentences,
        seconds=RunFolder(folder).record().seconds,
    )


def _trained(figure: Figure, part: str, out: Path, device: str) -> Path:
    """The folder of a part's finished run, with its model; figures share runs."""
    experiment = replace(figure.asked(part).experiment(), device=device)
    folder = out / digest(experiment)
    finish(Trial({"part": part}, experiment, folder), callbacks=Bar())
    return folder


def _swept(figure: Figure, part: str, out: Path, device: str) -> tuple[Part, Sweep]:
    asked = figure.asked(part)
    given = {**_settings(asked), "device": device}
    table = sweep(asked.method, figure.over, out, callbacks=Bar(), **given)
    first, second = shown_metrics(table.metric)
    header = (*(axis.path for axis in table.axes), f"validation {table.metric}")
    header += (f"test {first}", f"test {second}", "round", "chosen")
    rows = tuple(
        (
            *row.values,
            row.validation,
            *(None if row.test is None else row.test["full"][name] for name in (first, second)),
            row.selected_rounds[0] if row.selected_rounds else None,
            "*" if place == table.chosen else "",
        )
        for place, row in enumerate(table.rows)
    )
    folders = [RunFolder(Path(one)) for row in table.rows for one in row.runs]
    found = Part(
        command=asked.command,
        over=figure.over,
        digests=figure.digests(part),
        tables=(Numbers(title=f"{table.method}, {table.dataset}", header=header, rows=rows),),
        sentences=(*table.notes,),
        seconds=sum(folder.record().seconds for folder in folders),
    )
    return found, table


# Charts of lines that no analysis draws: a number over shares of clients, or over widths.


def _lines(
    title: str,
    across: str,
    up: str,
    lines: Mapping[str, Mapping[float, float]],
    stem: Path,
    chance: Mapping[str, float] | None = None,
) -> None:
    figure, (panel,) = new_figure(width=7.6, height=4.4)
    for place, (name, values) in enumerate(lines.items()):
        x, y = zip(*sorted(values.items()), strict=True)
        panel.plot(x, y, color=colour(place), marker=marker(place), label=name)
        if chance is not None:
            panel.axhline(chance[name], color=colour(place), linestyle=":", linewidth=1.2)
    panel.set_xticks(sorted({x for values in lines.values() for x in values}))
    panel.set_ylim(bottom=0)
    panel.set_xlabel(across)
    panel.set_ylabel(up)
    legend_outside(figure, panel)
    figure.suptitle(title, fontsize=12)
    dotted = "" if chance is None else " Dotted: chance."
    caption(figure, f"Test values of the round that validation chose, in percent.{dotted}")
    save_figure(figure, stem)


def _shares(figure: Figure, swept: Mapping[str, Sweep], out: Path) -> None:
    """Every part's first test metric over the one axis that was swept."""
    lines: dict[str, dict[float, float]] = {}
    name = ""
    for part, table in swept.items():
        name, _ = shown_metrics(table.metric)
        (axis,) = table.axes
        assert axis.numbers is not None
        lines[part] = {
            x: 100 * row.test["full"][name]
            for x, row in zip(axis.numbers, table.rows, strict=True)
            if row.test is not None
        }
    _lines(figure.title, figure.over[0].partition("=")[0], name, lines, out / "lines")


def widths(out: Path) -> list[str]:
    """MDiffFR's recall over its width, from the published table: a line for each dataset with at
    least two widths; the datasets that were drawn."""
    table = load_table("mdifffr-ablations")
    results = Results.read(table.name, PUBLISHED / f"table-{table.name}.json")
    metric = table.metrics[0]
    lines: dict[str, dict[float, float]] = {}
    chance: dict[str, float] = {}
    splits = 0
    for place in table.places:
        done = results.done_of(place)
        if place.row.name not in WIDTHS or not done:
            continue
        values, name = values_of(results, place, metric), place.data.name
        splits = max(splits, len(values))
        lines.setdefault(name, {})[WIDTHS[place.row.name]] = sum(values) / len(values)
        chance[name] = 100 * done[0].reference.chance[metric_key(metric)]
    drawn = {name: values for name, values in lines.items() if len(values) > 1}
    if drawn:
        title = f"MDiffFR over its width, mean over splits of the items (at most {splits})"
        _lines(title, "width", metric[1], drawn, out / "widths", chance)
    return list(drawn)


# What is stored, and what people read.


def as_markdown(drawn: Drawn) -> str:
    """The page of a figure, from its numbers alone."""
    figure = FIGURES[drawn.figure]
    lines = [
        f"# {figure.title}",
        "",
        f"Written by `python -m lab.fusion_figures {drawn.figure}`, seed 0. {figure.says}",
        "",
        f"Parts: {len(drawn.parts)} of {len(figure.parts)}"
        + "".join(f"; {part} not run yet" for part in figure.parts if part not in drawn.parts)
        + ".",
        "",
    ]
    for name, part in drawn.parts.items():
        lines += [f"## {name}", ""]
        for table in part.tables:
            lines += [f"{table.title}:", "", table.text, ""]
        lines += [line for sentence in part.sentences for line in (f"- {sentence}",)]
        lines += [""] if part.sentences else []
        swept = "".join(f" --over {one}" for one in part.over)
        command = part.command.replace("tacit train", "tacit sweep", 1) if swept else part.command
        lines += [f"{part.seconds:.0f} s of training:", "", f"    {command}{swept}", ""]
    return "\n".join(lines).rstrip() + "\n"


def stored(name: str, folder: Path = PUBLISHED) -> Drawn:
    """What is published of a figure, or nothing yet."""
    path = folder / f"figure-{name}.json"
    if not path.is_file():
        return Drawn(figure=name, parts={})
    return Drawn.model_validate_json(path.read_text(encoding="utf-8"))


def write(drawn: Drawn, folder: Path) -> None:
    """The numbers and the page, in the order of the figure's parts."""
    order = [part for part in FIGURES[drawn.figure].parts if part in drawn.parts]
    ready = Drawn(figure=drawn.figure, parts={part: drawn.parts[part] for part in order})
    stem = folder / f"figure-{drawn.figure}"
    write_text(stem.with_suffix(".json"), ready.model_dump_json(indent=1) + "\n")
    write_text(stem.with_suffix(".md"), as_markdown(ready))


@app.command()
def figure(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which figure; without one, all are named.")
    ] = None,
    only: Only = None,
    out: Annotated[Path, typer.Option(help="The folder of runs and files.")] = Path("runs/figures"),
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the numbers to docs/results.")
    ] = False,
    device: options.Device = None,
) -> None:
    """Make a figure again; finished runs are used again."""
    if name is None:
        for one, what in FIGURES.items():
            say(f"{one:17s}{what.title}: {', '.join(what.parts)}")
        say(f"{'mdifffr-widths':17s}MDiffFR over its width, from table-mdifffr-ablations.json")
        return
    if name == "mdifffr-widths":
        say(f"drawn     {', '.join(widths(out / name)) or 'nothing: no dataset has two widths'}")
        return
    if name not in FIGURES:
        raise TacitError(f"Unknown figure {name!r}; {nearest(name, [*FIGURES, 'mdifffr-widths'])}")
    asked = FIGURES[name]
    parts = [part for part in asked.parts if not only or part in only]
    if not parts:
        raise TacitError(f"{name} has no part {only}; it has: {', '.join(asked.parts)}.")
    ready_to_compute()
    if device is not None:
        require_device(device)
    before = stored(name).parts if publish else {}
    for part, found in make(asked, parts, out / name, device or "cpu"):
        before = {**before, part: found}
        write(Drawn(figure=name, parts=before), PUBLISHED if publish else out / name)
        say(f"part      {part}: {found.seconds:.0f} s of training")
    say(f"drawn     {out / name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
