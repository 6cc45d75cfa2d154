"""`python -m lab.search_length`: whether a short search chooses what a search at full length would.

Rows of published tables are drawn at random. All settings of a drawn row are trained as long as
its run may last, and stop where the run would; the test part is never ranked. From the curves of
validation follows what a search of any length would have chosen.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel, ConfigDict

from lab.definition import Place, load_table
from lab.proofs import PUBLISHED
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import ready_to_compute
from tacit.errors import NoRoomError, TacitError
from tacit.experiment.callbacks import Callback, Callbacks, Validation, together
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.run import RunInterruptedError
from tacit.experiment.trainer import Trainer
from tacit.files import write_text
from tacit.study.runner import Deadline, OutOfTimeError
from tacit.study.search import Looks, best_of
from tacit.study.study import digest
from tacit.study.writer import as_markdown as table_in_markdown

TABLES = ("fedrkg-appendix-c", "fedrkg-main")
SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)  # of all rounds: lengths that a search might have
NEAR = 0.01  # of the best value: about as much as seeds differ
FILE = "search-length.json"

app = typer.Typer(name="lab.search_length", add_completion=False, pretty_exceptions_enable=False)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Curve(_Part):
    """One setting: validation by round, up to where its run would end.

    >>> curve = Curve(sets=(), rounds=(5, 10, 15), values=(0.1, 0.3, 0.2), ended="all rounds",
    ...               cpu_seconds=1.0)
    >>> curve.best(9), curve.best(15), curve.best(4)
    (0.1, 0.3, None)
    """

    sets: tuple[str, ...]
    rounds: tuple[int, ...]
    values: tuple[float, ...]
    ended: Literal["all rounds", "patience", "diverged"]
    cpu_seconds: float

    def best(self, length: int) -> float | None:
        """The best value that a search of so many rounds sees. A setting whose run diverges has
        none: it would be taken back, and the next best run in its place."""
        seen = [v for at, v in zip(self.rounds, self.values, strict=True) if at <= length]
        return max(seen) if seen and self.ended != "diverged" else None


class Drawn(_Part):
    """A row that was drawn, and the curves of its settings as far as they are trained."""

    table: str
    place: str
    by: str  # the metric that chooses
    search_rounds: int
    rounds: int
    settings: int
    digest: str  # of all settings at full length
    curves: tuple[Curve, ...] = ()

    @property
    def finished(self) -> bool:
        return len(self.curves) == self.settings

    def chosen(self, length: int) -> int | None:
        """Which setting a search of so many rounds takes."""
        return best_of([curve.best(length) for curve in self.curves])

    def lost(self, length: int) -> float | None:
        """How much lower the best value of that setting is, at full length, than the highest of
        all; None where the search sees nothing."""
        chosen, full = self.chosen(length), [c.best(self.rounds) or 0.0 for c in self.curves]
        return None if chosen is None else max(full) - full[chosen]

    def near(self, length: int) -> bool:
        """Whether what a search of so many rounds takes is as good, but for a hundredth."""
        lost, full = self.lost(length), [c.best(self.rounds) or 0.0 for c in self.curves]
        return lost is not None and lost <= NEAR * max(full)


class Lengths(_Part):
    """All that were drawn, in the order of the draw."""

    seed: int
    datasets: tuple[str, ...]
    drawn: tuple[Drawn, ...]

    @property
    def finished(self) -> list[Drawn]:
        return [one for one in self.drawn if one.finished]


def draw(datasets: Sequence[str], rows: int, seed: int) -> list[Place]:
    """Places of the tables at random, all equally likely, whatever they cost."""
    places = [
        place
        for name in TABLES
        for place in load_table(name).places
        if place.data.name in datasets and not place.row.free and place.problem is None
    ]
    if not places:
        raise TacitError(f"No row of {' or '.join(TABLES)} is on {', '.join(datasets)}.")
    return random.Random(seed).sample(places, min(rows, len(places)))


def nothing_yet(place: Place) -> Drawn:
    """A drawn row before its first curve."""
    experiments = [place.experiment(setting, 0) for setting in place.settings]
    protocol = experiments[0].protocol
    return Drawn(
        table=place.table.name,
        place=place.key,
        by=f"{protocol.select_on}-ranking {protocol.select_metric}",
        search_rounds=place.row.search_rounds,
        rounds=experiments[0].rounds,
        settings=len(experiments),
        digest=digest(*experiments),
    )


class _RunsEnd(Exception):  # noqa: N818  (nothing went wrong)
    """A run would end here."""


@dataclass
class _Listener(Callback):
    """Keeps the curve, and stops where the protocol's patience ends."""

    patience: int | None
    better_round: int = 0
    best: float = float("-inf")

    def __post_init__(self) -> None:
        self.rounds: list[int] = []
        self.values: list[float] = []

    def validation(self, found: Validation) -> None:
        self.rounds.append(found.round)
        self.values.append(found.value)
        if found.value > self.best:
            self.best, self.better_round = found.value, found.round

    def round(self, number: int, loss: float | None) -> None:
        waited = number - self.better_round
        if self.patience is not None and self.better_round and waited >= self.patience:
            raise _RunsEnd


def curve_of(
    place: Place, setting: tuple[str, ...], prepared: Prepared, callbacks: Callbacks = ()
) -> Curve:
    """Train one setting as long as its run, and look at validation alone."""
    experiment, begun = place.experiment(setting, 0), time.process_time()
    listener = _Listener(experiment.protocol.patience)
    trainer = Trainer(experiment, prepared.split.train)
    callback = together((listener, together(callbacks)))
    ended: Literal["all rounds", "patience", "diverged"] = "all rounds"
    callback.begin(experiment, trainer.rounds, trainer.describe().text)
    try:
        Looks(experiment, prepared.split.valid).train(trainer, callback)
    except _RunsEnd:
        ended = "patience"
    except (RunInterruptedError, NoRoomError):
        raise
    except TacitError:
        ended = "diverged"
    finally:
        callback.end(None)
    return Curve(
        sets=tuple(setting),
        rounds=tuple(listener.rounds),
        values=tuple(listener.values),
        ended=ended,
        cpu_seconds=round(time.process_time() - begun, 1),
    )


def measure(
    places: Sequence[Place],
    known: Lengths,
    callbacks: Callbacks = (),
    save: Callable[[Lengths], None] = lambda lengths: None,
) -> Lengths:
    """Every drawn row, those with few rounds first; the same settings are not trained twice."""
    found = {one.digest: one.curves for one in known.drawn}
    drawn = [nothing_yet(place) for place in places]

    def so_far() -> Lengths:
        told = [one.model_copy(update={"curves": found.get(one.digest, ())}) for one in drawn]
        return known.model_copy(update={"drawn": tuple(told)})

    for one, place in sorted(zip(drawn, places, strict=True), key=lambda pair: pair[0].rounds):
        curves = found.get(one.digest, ())
        prepared = prepare(place.experiment(place.settings[0], 0))
        for setting in place.settings[len(curves) :]:
            curves = (*curves, curve_of(place, setting, prepared, callbacks))
            found[one.digest] = curves
            save(so_far())
    return so_far()


def as_markdown(lengths: Lengths) -> str:
    """The page from its numbers alone."""
    finished = lengths.finished
    right = [one for one in finished if one.lost(one.search_rounds) == 0]
    lines = [_line(one) for one in finished]
    heading = ["row", "table", "search", "full", "a search would choose", "best at full length"]
    heading += ["its value, percent", "lost"]
    by_share = [[f"{share:.0%}", *_at(finished, share)] for share in SHARES]
    open_ = [f"{one.place} ({len(one.curves)} of {one.settings} settings)" for one in lengths.drawn]
    left = [text for one, text in zip(lengths.drawn, open_, strict=True) if not one.finished]
    total = sum(curve.cpu_seconds for one in lengths.drawn for curve in one.curves)
    parts = [
        "# How long a search must be",
        "",
        f"Written by `python -m lab.search_length`: {len(lengths.drawn)} rows of "
        f"{' and '.join(TABLES)} on {', '.join(lengths.datasets)}, drawn with seed {lengths.seed}; "
        f"{len(finished)} of them are measured, in {total:,.0f} seconds of one core. All settings "
        "of a row were trained as long as its run, seed 0, and stopped where the run would. The "
        "test part was not ranked.",
        "",
        f"**A search of the table's length would choose the setting best at full length for "
        f"{len(right)} of {len(finished)} rows**, and one within {NEAR:.0%} of it for "
        f"{sum(one.near(one.search_rounds) for one in finished)}. This follows from these curves; "
        "what the tables' own searches chose stands in the tables, and is not looked at here.",
        "",
        "`lost` is how much higher the best validation value of any setting is than that of the "
        "chosen one, both at full length, in points; 0 is right. Equal settings are equally right. "
        "A row that stands in both tables with the same settings was trained once.",
        "",
        table_in_markdown(heading, lines),
        "",
        "## Other lengths",
        "",
        "What a search would have chosen that is so long, in per cent of the run's rounds.",
        "",
        table_in_markdown(
            ["length", "right", f"within {NEAR:.0%}", "of", "largest loss, points"], by_share
        ),
    ]
    if left:
        parts += ["", "## Not measured yet", "", *(f"- {text}" for text in left)]
    return "\n".join(parts) + "\n"


def _line(one: Drawn) -> list[str | int]:
    full, short = one.chosen(one.rounds), one.chosen(one.search_rounds)
    lost = one.lost(one.search_rounds)
    where: list[str | int] = [one.place, one.table, one.search_rounds, one.rounds]
    names = ["nothing" if at is None else ", ".join(one.curves[at].sets) for at in (short, full)]
    value = 0.0 if full is None else one.curves[full].best(one.rounds) or 0.0
    told = "–" if lost is None else f"{100 * lost:.2f}"
    return [*where, *names, f"{100 * value:.2f} ({one.by})", told]


def _at(finished: Sequence[Drawn], share: float) -> list[str | int]:
    lost = [one.lost(round(share * one.rounds)) for one in finished]
    right = sum(value == 0 for value in lost)
    known = [value for value in lost if value is not None]
    near = sum(one.near(round(share * one.rounds)) for one in finished)
    return [right, near, len(finished), f"{100 * max(known):.2f}" if known else "–"]


def read(path: Path, seed: int, datasets: tuple[str, ...]) -> Lengths:
    """What is published of this draw, or nothing yet."""
    if path.is_file():
        found = Lengths.model_validate_json(path.read_text(encoding="utf-8"))
        if (found.seed, found.datasets) == (seed, datasets):
            return found
    return Lengths(seed=seed, datasets=datasets, drawn=())


def write(lengths: Lengths, folder: Path) -> None:
    """The numbers and what people read."""
    write_text(folder / FILE, lengths.model_dump_json(indent=1) + "\n")
    write_text((folder / FILE).with_suffix(".md"), as_markdown(lengths))


@app.command()
def search_length(
    rows: Annotated[int, typer.Option(help="How many rows are drawn.", metavar="N")] = 10,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    data: Annotated[
        list[str] | None, typer.Option(help="Datasets to draw from; several add up.")
    ] = None,
    budget: Annotated[
        float, typer.Option(help="Hours; nothing is begun after them.", metavar="HOURS")
    ] = 1.0,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = PUBLISHED,
) -> None:
    """Train the settings of rows drawn at random at full length; go on with the same command."""
    datasets = tuple(data or ("filmtrust",))
    places = draw(datasets, rows, seed)
    ready_to_compute()
    known = read(out / FILE, seed, datasets)
    until = Deadline(Bar(), time.monotonic() + 3600 * budget)
    try:
        write(measure(places, known, until, lambda lengths: write(lengths, out)), out)
    except OutOfTimeError as stop:
        say(f"stopped   {stop} Give the same command again to go on.")
    say(f"written   {out / FILE}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
