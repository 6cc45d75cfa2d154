"""`python -m lab.reasons`: runs that show why cells are far from published values, or do not.

A run begins from a cell of a published table, with the setting that was chosen for it, and changes
what `lab/reasons.toml` says: rounds, plug-ins, single settings. All else is the same, so the
difference is the change's. Runs that turn out not to explain anything stay in the file as well.
"""

from __future__ import annotations

import hashlib
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import ConfigDict, TypeAdapter, ValidationError

from lab.asked import Asked
from lab.definition import Place, load_table, table_names
from lab.proofs import FILE, PUBLISHED, ProofRun, Proofs, distance
from lab.results import DoneCell, Results, metric_key
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import ready_to_compute
from tacit.errors import TacitError
from tacit.experiment.callbacks import Callbacks
from tacit.experiment.folder import RunFolder
from tacit.files import write_text
from tacit.study.study import Trial, digest, finish
from tacit.study.writer import as_markdown as table_in_markdown

DEFINED = Path(__file__).parent / "reasons.toml"

app = typer.Typer(name="lab.reasons", add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Change:
    """A run beside a cell: what it has otherwise than the cell's own run."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    cell: str  # "TABLE: ROW | DATASET | COLUMN"
    rounds: int | None = None
    plugins: tuple[str, ...] | None = None  # in place of the row's own
    sets: tuple[str, ...] = ()
    seed: int = 0

    @property
    def changed(self) -> tuple[str, ...]:
        """What it changes, in words."""
        rounds = () if self.rounds is None else (f"rounds={self.rounds}",)
        plugins = () if self.plugins is None else tuple(f"with {one}" for one in self.plugins)
        return (*rounds, *plugins, *self.sets)


@dataclass(frozen=True, eq=False)
class Beside:
    """A change with the cell that it is made from, in a folder of published results."""

    change: Change
    folder: Path = PUBLISHED

    @cached_property
    def place(self) -> Place:
        """The cell's place in its table."""
        name, _, key = self.change.cell.partition(": ")
        for place in load_table(name).places:
            if place.key == key:
                return place
        raise TacitError(f"The run {self.change.name!r} begins from no cell: {self.change.cell!r}.")

    @cached_property
    def results(self) -> Results:
        """What is published of that table."""
        name = self.place.table.name
        return Results.read(name, self.folder / f"table-{name}.json")

    @property
    def setting(self) -> tuple[str, ...]:
        """The setting that was chosen for the cell."""
        setting = self.results.setting_of(self.place)
        if setting is None:
            raise TacitError(f"Nothing was chosen for {self.change.cell!r} yet; run its table.")
        return setting

    @property
    def asked(self) -> Asked:
        """The cell's own run with the change."""
        change, asked = self.change, self.place.asked(self.setting, self.change.seed)
        return replace(
            asked,
            rounds=asked.rounds if change.rounds is None else change.rounds,
            plugins=asked.plugins if change.plugins is None else change.plugins,
            sets=(*asked.sets, *change.sets),
        )

    def run(self, out: Path, callbacks: Callbacks = ()) -> ProofRun:
        """Run it, or go on with it; what is finished below `out` is used again."""
        asked = self.asked
        experiment = asked.experiment()
        folder = out / digest(experiment)
        trial = Trial({"run": self.change.name}, experiment, folder)
        record = finish(trial, callbacks=callbacks, keep_model=False)
        content = RunFolder(folder).result_file.read_bytes()
        return ProofRun(
            cell=self.change.cell,
            changed=self.change.changed,
            command=asked.command,
            digest=digest(experiment),
            record=hashlib.sha256(content).hexdigest(),
            result=DoneCell.of(self.place, self.setting, record, f"reasons/{digest(experiment)}"),
        )


def defined(path: Path = DEFINED) -> list[Change]:
    """The runs that there are; a mistake in the file is said in a sentence."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        changes = TypeAdapter(list[Change]).validate_python(given["runs"])
    except (ValidationError, ValueError, KeyError) as error:
        first = str(error).splitlines()[0]
        raise TacitError(f"{str(path)!r} cannot be read: {first}.") from error
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise TacitError(f"{str(path)!r} names a run twice.")
    return changes


def known(changes: Sequence[Change], proofs: Proofs) -> Iterator[tuple[str, ProofRun]]:
    """Of the runs that are defined, those that were made, by the definition of today."""
    for change in changes:
        run = proofs.runs.get(change.name)
        if run is None or (run.cell, run.changed) != (change.cell, change.changed):
            continue
        if run.digest == digest(Beside(change, proofs.folder).asked.experiment()):
            yield change.name, run


def as_markdown(proofs: Proofs) -> str:
    """The runs beside their cells and the published values, and the commands that run them."""
    heading = [
        "run",
        "of the cell",
        "changed",
        "metric",
        "published",
        "the cell",
        "the run",
        "says",
    ]
    lines = []
    for name, run in proofs.runs.items():
        beside = Beside(Change(name, run.cell), proofs.folder)
        for metric in beside.place.table.metrics:
            found = distance(beside.results, beside.place, metric)
            if found is None:
                continue
            value = 100 * run.result.metrics[metric_key(metric)]
            numbers = [found.published.text, f"{found.mean:.2f}", f"{value:.2f}"]
            where = [name, run.cell, ", ".join(run.changed), metric_key(metric)]
            said = found.said_by(value) or "explains nothing"
            lines.append(
                [*where, *numbers, said if found.far else "the cell is near the published value"]
            )
    commands = [
        f"- `{name}`, record {run.record[:16]}:\n\n      {run.command}\n"
        for name, run in proofs.runs.items()
    ]
    return (
        "# Runs that were made to explain cells far from the published value\n\n"
        "Written by `python -m lab.reasons`. Each run has the setting that was chosen for its "
        "cell, seed 0, and differs by the change alone; the cell is the mean over its seeds. A run "
        "says something where half of the "
        "cell's distance from the published value is gone, and more than seeds differ: "
        "`explains` within 15 % of the published value, else `in part`. Numbers are "
        "percent.\n\n"
        f"{table_in_markdown(heading, lines)}\n\n"
        "## Cells of other tables that are named as reasons\n\n"
        "They differ by more than one change; the reason says by what. "
        "`python -m lab.table TABLE --only 'CELL'` runs one again.\n\n"
        f"{_cells_named(proofs)}\n\n## Commands\n\n" + "\n".join(commands)
    )


def _cells_named(proofs: Proofs) -> str:
    """The finished cells that reasons of any table name, and what they explain."""
    lines = []
    for name in table_names():
        for reason in load_table(name).reasons:
            if reason.because.run not in proofs.runs:
                because = reason.because
                where = f"{name}: {' | '.join(reason.cell)}"
                lines.append(
                    [because.run, where, because.metric, f"{because.value:.2f}", reason.text]
                )
    heading = ["cell", "explains, at least in part", "metric", "value", "the reason"]
    return table_in_markdown(heading, lines) if lines else "None."


@app.command()
def reasons(
    only: Annotated[str, typer.Option(help="Only runs with these words in their name.")] = "",
    budget: Annotated[
        float, typer.Option(help="Hours; no run is begun after them.", metavar="HOURS")
    ] = 1.0,
    out: Annotated[Path, typer.Option(help="The folder that runs lie in.")] = Path("runs/reasons"),
) -> None:
    """Make the runs that reasons name, as far as they are missing, and write docs/results."""
    changes, proofs, start = defined(), Proofs(), time.monotonic()
    ready_to_compute()
    proofs.runs = dict(known(changes, proofs))
    for change in changes:
        if change.name in proofs.runs or only not in change.name:
            continue
        if time.monotonic() - start > 3600 * budget:
            say(f"left      {change.name}")
            continue
        try:
            proofs.runs[change.name] = Beside(change).run(out, Bar())
        except TacitError as error:
            say(f"not run   {change.name}: {error}")
            continue
        write(proofs, changes)
        told = proofs.runs[change.name].result
        say(
            f"run       {change.name}: "
            + ", ".join(f"{100 * v:.2f}" for v in told.metrics.values())
        )
    write(proofs, changes)
    say(f"written   {proofs.folder / FILE}, {len(proofs.runs)} of {len(changes)} runs")


def write(proofs: Proofs, changes: Sequence[Change]) -> None:
    """The file of reasons and what people read, in the order of the definition."""
    order = [change.name for change in changes if change.name in proofs.runs]
    proofs.runs = {name: proofs.runs[name] for name in order}
    write_text(proofs.folder / FILE, proofs.text)
    write_text((proofs.folder / FILE).with_suffix(".md"), as_markdown(proofs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
