"""`python -m lab.leaderboard`: every system of `tacit list` on five datasets, and the page of it.

Presets are the default ones and seeds 0 to 2, under the protocol clean. Short runs come first, then
others, then long ones; in each, one dataset after the other, and the cheapest run first, by what
the system took there or elsewhere. One that takes far longer than expected is set aside, until its
turn comes by what is known now. Nothing is begun after the budget, and the same command goes on.
A row that was published with all its seeds is not run again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from tacit.cli import settings as options
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import ready_to_compute
from tacit.core.types import Task
from tacit.data.sources import SOURCES
from tacit.engines.select import require_device, runs_on_gpu
from tacit.errors import NoRoomError, TacitError, nearest
from tacit.experiment.amounts import seconds_text
from tacit.experiment.callbacks import Callback
from tacit.experiment.names import slug
from tacit.experiment.resolve import resolve
from tacit.experiment.run import RunInterruptedError
from tacit.experiment.spec import Experiment
from tacit.files import write_text
from tacit.methods import METHODS
from tacit.study.leaderboard import NOT_RUN, BoardRow, Leaderboard, NotRanked, Section
from tacit.study.leaderboard import leaderboard as leaderboard_of
from tacit.study.leaderboard_page import STEM, json_text, markdown, write_page
from tacit.study.runner import Deadline, Job, JobOutcome, OutOfTimeError, Runner
from tacit.study.study import Trial, digest, finish

# With the split where it is not clean's own. CiteULike-a has a published split of its items.
DATASETS: Mapping[str, str | None] = {
    "ninerec-ku": None,
    "ml-100k": None,
    "amazon-video-10": None,
    "citeulike-a": "cold",
    "ml-1m": None,
}
SEEDS = 3
RUNS, PUBLISHED = Path("runs", "leaderboard"), Path("docs", "results")
GUESSED_PACE = 1e-5  # seconds per interaction and round, where nothing is known of a system
PATIENCE, SHORTEST = 3.0, 20.0  # a run may take so many times its price, and so many seconds
LENGTHS = (60.0, 600.0)  # seconds; what may take longer comes after all that may not
FOR_COLD_ITEMS = "it is made for items that nobody has touched"


@dataclass
class TrialOutcome(JobOutcome):
    """What a run came to: finished, refused because of a problem, stopped by something that says
    nothing of the system, or set aside with a price."""

    trial: Trial
    problem: str = ""
    stopped_by: str = ""
    price: float | None = None  # seconds that the whole run may take, where it was set aside


class Allowance(Deadline):
    """Stops a run that takes longer than it may, and knows how long the whole of it may take."""

    def __init__(self, other: Callback, seconds: float) -> None:
        self.begun, self.first, self.last = time.monotonic(), 0, 0
        super().__init__(other, self.begun + seconds)

    def round(self, number: int, loss: float | None) -> None:
        self.first, self.last = self.first or number, number
        super().round(number, loss)

    @property
    def price(self) -> float:
        """As long for every round as for those that were played."""
        return (time.monotonic() - self.begun) * self.rounds / (self.last - self.first + 1)


@dataclass
class Board:
    """All runs of the leaderboard, what is known of their length, and why some cannot be made."""

    out: Path
    datasets: Sequence[str] = tuple(DATASETS)
    systems: Sequence[str] = tuple(METHODS)
    seeds: int = SEEDS
    problems: dict[tuple[str, str], str] = field(default_factory=dict)  # by dataset and system
    # seconds per interaction, by dataset and system
    pace: dict[tuple[str, str], float] = field(default_factory=dict)
    missing: list[Trial] = field(default_factory=list)
    under_way: int = 0
    skipped: frozenset[str] = frozenset()  # datasets that are shown and not run on
    whole: frozenset[str] = frozenset()  # digests of rows that were published with all their seeds
    run_only: frozenset[str] = frozenset()  # systems; where there are none, all are run
    device: str = "cpu"  # where systems run that have an engine there; others stay on the CPU

    def trials(self) -> list[Trial]:
        """Every run that can be asked for; why others cannot is in `problems`."""
        found = []
        for data, system in product(self.datasets, self.systems):
            try:
                one = resolve(system, data=data, split=DATASETS.get(data))
            except TacitError as error:
                self.problems[data, system] = str(error)
                continue
            if one.protocol.split.is_cold and DATASETS.get(data) is None:
                self.problems[data, system] = FOR_COLD_ITEMS
                continue
            there = runs_on_gpu(one.method.algorithm(Task(n_users=1, n_items=1)))
            one = replace(one, device=self.device if there else "cpu")
            found += [self._trial(replace(one, seed=seed)) for seed in range(self.seeds)]
        return found

    def _trial(self, one: Experiment) -> Trial:
        name = f"{slug(one.name)}-{slug(one.data.name)}-seed{one.seed}-{digest(one)}"
        return Trial({"system": one.name}, one, self.out / name)

    def price(self, trial: Trial) -> float:
        """What a run may take: as many seconds per interaction as there, as where the system was
        fastest elsewhere, or a guess."""
        data, system = trial.experiment.data.name, trial.experiment.name
        others = [pace for (_, one), pace in self.pace.items() if one == system]
        guess = GUESSED_PACE * METHODS[system].rounds
        return self.pace.get((data, system), min(others, default=guess)) * _size(data)

    def turn(self, trial: Trial) -> tuple[int, int, float]:
        """Runs with smaller turns come first: short ones, then others, then long ones."""
        price = self.price(trial)
        length = sum(price > border for border in LENGTHS)
        return length, self.datasets.index(trial.experiment.data.name), price

    def jobs(self) -> Iterator[Job[TrialOutcome] | None]:
        """What is missing, in turn; None while runs under way may still be set aside. A system
        that was refused on a dataset is not tried there with other seeds."""
        self.missing, self.under_way = [], 0
        for trial in self.trials():
            one = trial.experiment
            if trial.finished:
                self._learn(trial, trial.record.seconds)
            elif self._wanted(one) and digest(one) not in self.whole:
                self.missing.append(trial)
        while self.missing or self.under_way:
            if not self.missing:
                yield None
                continue
            trial = min(self.missing, key=self.turn)
            self.missing.remove(trial)
            one, longest = trial.experiment, max(SHORTEST, PATIENCE * self.price(trial))
            if (one.data.name, one.name) not in self.problems:
                self.under_way += 1
                yield Job(f"{one.data.name}: {trial.name}", partial(_work, trial, longest))

    def _wanted(self, one: Experiment) -> bool:
        return one.data.name not in self.skipped and (
            not self.run_only or one.name in self.run_only
        )

    def absorb(self, job: Job[TrialOutcome], outcome: TrialOutcome) -> None:
        """Keep what a run took, or why there is none."""
        self.under_way -= 1
        trial, one = outcome.trial, outcome.trial.experiment
        said = outcome.problem or ("done" if trial.finished else outcome.stopped_by or "stopped")
        if outcome.problem:
            self.problems[one.data.name, one.name] = outcome.problem
        elif outcome.price is not None:
            said = f"set aside, may take {seconds_text(outcome.price)}"
            self._learn(trial, outcome.price)
            self.missing.append(trial)
        elif trial.finished:
            self._learn(trial, trial.record.seconds)
        say(f"run       {job.key}: {said}")

    def _learn(self, trial: Trial, seconds: float) -> None:
        """What is known of a system's pace on a dataset: that of its latest run there."""
        one = trial.experiment
        self.pace[one.data.name, one.name] = seconds / _size(one.data.name)


def _size(data: str) -> int:
    source = SOURCES.get(data)
    return 1 if source is None else source.statistics["interactions"]


def _work(trial: Trial, longest: float, callback: Callback) -> TrialOutcome:
    allowance = Allowance(callback, longest)
    try:
        finish(trial, callbacks=allowance, keep_model=False)
    except OutOfTimeError:
        budget_ended = isinstance(callback, Deadline) and callback.clock() > callback.end_at
        return TrialOutcome(trial, price=None if budget_ended else allowance.price)
    except (RunInterruptedError, KeyboardInterrupt):
        return TrialOutcome(trial, interrupted=True)
    except NoRoomError as error:  # here and now, beside other work
        return TrialOutcome(trial, stopped_by=str(error))
    except TacitError as error:
        return TrialOutcome(trial, str(error))
    return TrialOutcome(trial)


# What is published: rows of the runs that are here, and of those that were published before.


def published(board: Board, before: Leaderboard) -> tuple[Leaderboard, dict[str, Experiment]]:
    """The leaderboard of all finished runs. A row that was published before, with more seeds of the
    very experiments that are asked for, stands as it was; what has no row says why."""
    trials = board.trials()
    folders = [trial.folder for trial in trials if trial.finished]
    fresh, experiments = leaderboard_of(folders) if folders else (Leaderboard(sections=()), {})
    sections = []
    for data in board.datasets:
        asked = {
            digest(trial.experiment): trial
            for trial in trials
            if trial.experiment.data.name == data
        }
        known = [
            one for source in (fresh, before) for one in source.sections if one.dataset == data
        ]
        sections.append(_section(board, data, asked, known))
    sections.sort(key=lambda one: one.cold)
    return fresh.model_copy(update={"sections": tuple(sections)}), experiments


def _section(
    board: Board, data: str, asked: Mapping[str, Trial], known: Sequence[Section]
) -> Section:
    rows: dict[str, BoardRow] = {}
    for row in (row for section in known for row in section.rows):
        other = rows.get(row.system)
        if set(row.digests) <= set(asked) and (not other or len(row.seeds) > len(other.seeds)):
            rows[row.system] = row
    done = {one for row in rows.values() for one in row.digests}
    left: dict[str, list[int]] = {}
    for name, trial in asked.items():
        if name not in done:
            left.setdefault(trial.experiment.name, []).append(trial.experiment.seed)
    # what was refused before is refused until somebody has tried again
    refused = {one.name: one.why for old in known for one in old.not_run if one.why != NOT_RUN}
    refused = {name: why for name, why in refused.items() if name in left and name not in rows}
    refused |= {
        system: why
        for (at, system), why in board.problems.items()
        if at == data and system not in rows  # one that ran was refused for something in passing
    }
    not_run = [NotRanked(name=system, why=why) for system, why in refused.items()]
    for system, seeds in left.items():
        if system not in refused:
            each = f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"
            some = "" if len(seeds) == board.seeds else f" ({each})"
            not_run.append(NotRanked(name=f"{system}{some}", why=NOT_RUN))
    first = known[0] if known else _nothing(data)
    ordered = sorted(rows.values(), key=lambda row: (-row.value, row.system))
    return first.model_copy(update={"rows": tuple(ordered), "not_run": tuple(not_run)})


def whole_rows(before: Leaderboard, seeds: int) -> frozenset[str]:
    """Digests of the experiments of published rows that have all their seeds."""
    rows = [row for section in before.sections for row in section.rows]
    return frozenset(one for row in rows if len(row.seeds) >= seeds for one in row.digests)


def _nothing(data: str) -> Section:
    """A dataset of which no run is finished."""
    split = DATASETS.get(data)
    return Section(
        dataset=data,
        split=split or "",
        cold=split == "cold",
        users=0,
        items=0,
        data="",
        reference={},
        rows=(),
    )


def read(path: Path) -> Leaderboard:
    """What was published before; nothing where there is no file."""
    if not path.is_file():
        return Leaderboard(sections=())
    try:
        return Leaderboard.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise TacitError(
            f"{str(path)!r} is damaged: {str(error).splitlines()[0]}; bring it back, or move it "
            "away to begin anew."
        ) from error


app = typer.Typer(name="lab.leaderboard", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def leaderboard(
    budget: Annotated[
        float, typer.Option(help="Hours; nothing is begun after them.", metavar="HOURS")
    ] = 1.4,
    out: Annotated[Path, typer.Option(help="Where runs and the page are kept.")] = RUNS,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the numbers to docs/results as well.")
    ] = False,
    workers: Annotated[
        int, typer.Option(help="Runs at the same time; seconds are then those of a busy machine.")
    ] = 1,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Run only on this dataset; give it several times for more."),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(help="Run only this system; give it several times for more."),
    ] = None,
    device: options.Device = None,
) -> None:
    """Run what is missing, and write the leaderboard."""
    ready_to_compute()
    for name in dataset or ():
        if name not in DATASETS:
            raise TacitError(f"The leaderboard has no dataset {name!r}; it has {tuple(DATASETS)}.")
    for name in system or ():
        if name not in METHODS:
            raise TacitError(f"Unknown system {name!r}; {nearest(name, METHODS)}")
    if device is not None:
        require_device(device)
    board, runner = Board(out, device=device or "cpu"), Runner(workers, budget * 3600, Bar())
    board.skipped = frozenset(DATASETS) - frozenset(dataset or DATASETS)
    board.run_only = frozenset(system or ())
    before = read(PUBLISHED / f"{STEM}.json")
    board.whole = whole_rows(before, board.seeds)
    stopped = runner.run(board.jobs(), board.absorb)
    found, experiments = published(board, before)
    written = write_page(found, experiments, out / "page")
    if publish:
        write_text(PUBLISHED / f"{STEM}.json", json_text(found))
        write_text(PUBLISHED / f"{STEM}.md", markdown(found, "make leaderboard"))
    say(f"written   {written[0]}" + (f" and {PUBLISHED / STEM}.md" if publish else ""))
    if stopped is not None:
        raise RunInterruptedError(f"Stopped during {stopped.key}; give the command again.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
