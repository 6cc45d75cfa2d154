"""Fill a table: run in order, stop at the budget, go on later; what is finished is used again.

A job brings one place (row, dataset, column) up to a seed: it chooses the setting on validation
where that is still open, and runs the seeds that are missing. All places get their first seed
before any gets its second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from lab.definition import Overrides, Place, Table
from lab.render import as_markdown
from lab.results import Cell, DoneCell, Results, undone
from lab.true_epsilon import needs_norms, upload_norms
from tacit.errors import TacitError
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.callbacks import Callback, Callbacks
from tacit.experiment.data_record import DataNow
from tacit.experiment.folder import RunFolder
from tacit.experiment.run import RunInterruptedError
from tacit.files import write_text
from tacit.study.runner import Job, JobOutcome, OutOfTimeError, Runner
from tacit.study.search import Choice, search
from tacit.study.study import Trial, finish

NOT_YET = "not run yet"

Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Only cells with these words in 'row | dataset | column | seed K'; give it several "
        "times for more.",
        metavar="WORDS",
    ),
]

Outcome = TypeVar("Outcome", bound=JobOutcome)


@dataclass
class PlaceOutcome(JobOutcome):
    """What is known of a place after it was worked on."""

    place: Place
    cells: dict[str, DoneCell | Cell] = field(default_factory=dict)
    choice: Choice | None = None


@dataclass(frozen=True)
class Work:
    """All that a place needs, by value, so that it can be done in another process as well.

    `choice` is what was tried so far, `known` the finished cells of this place, here or
    published, by their folder.
    """

    place: Place
    seeds: Sequence[int]
    out: Path
    choice: Choice | None
    known: Mapping[str, DoneCell]
    reuse: Sequence[Path] = ()
    threads: int = 1

    def do(self, save: Callable[[Choice], None], callback: Callback) -> PlaceOutcome:
        """Choose and run; where the longer run of a choice diverges, the next best is run in its
        place, with all seeds."""
        outcome = PlaceOutcome(self.place, choice=self.choice)
        seed = self.seeds[0]
        try:
            while len(outcome.cells) < len(self.seeds):
                setting = self._chosen(outcome, save, callback)
                try:
                    for seed in self.seeds:
                        outcome.cells[self.place.cell(seed)] = self._run(setting, seed, callback)
                except DivergedError:  # the search was too short to see it
                    if outcome.choice is None:
                        raise
                    outcome.cells, outcome.choice = {}, outcome.choice.withdrawn()
                    save(outcome.choice)
        except OutOfTimeError as stop:
            why = f"{NOT_YET} ({str(stop).rstrip('.')})"
            outcome.cells[self.place.cell(seed)] = undone(self.place, seed, why)
        except (RunInterruptedError, KeyboardInterrupt):
            outcome.cells[self.place.cell(seed)] = undone(self.place, seed, NOT_YET)
            outcome.interrupted = True
        except TacitError as error:
            why = str(error).rstrip(".")
            for other in self.seeds:
                key = self.place.cell(other)
                if key not in outcome.cells:
                    outcome.cells[key] = undone(self.place, other, f"not run ({why})")
        return outcome

    def _chosen(
        self, outcome: PlaceOutcome, save: Callable[[Choice], None], callback: Callback
    ) -> Overrides:
        place = self.place
        if len(place.settings) < 2:
            return place.settings[0]

        def keep(choice: Choice) -> None:
            outcome.choice = choice
            save(choice)

        settings = {one: place.experiment(one, 0, search=True) for one in place.settings}
        rounds = f"{place.row.search_rounds} of {place.row.rounds} rounds"
        choice = search(
            settings,
            outcome.choice,
            length=rounds,
            threads=self.threads,
            callbacks=callback,
            save=keep,
        )
        outcome.choice = choice
        assert choice.chosen is not None
        return place.settings[choice.chosen]

    def _run(self, setting: Overrides, seed: int, callback: Callback) -> DoneCell:
        experiment = self.place.experiment(setting, seed)
        folder = self.place.folder(experiment)
        if folder in self.known:
            return self.known[folder]
        trial = Trial({"row": self.place.row.name}, experiment, self.out / folder)
        record = finish(
            trial, self.reuse, threads=self.threads, callbacks=callback, keep_model=False
        )
        return DoneCell.of(self.place, setting, record, folder)


def _work(work: Work, callback: Callback) -> PlaceOutcome:
    """A job in another process, which has no results file to save to."""
    return work.do(lambda choice: None, callback)


def _silent(line: str) -> None:
    pass


def _everything(place: Place) -> bool:
    return True


@dataclass
class Filling:
    """One filling of a table; `fill()` does everything.

    `reuse` are folders of tables that may share runs. `published` is a folder of results, made
    anywhere, to go on from; `publish` one to write to as well. Places that are `first` get all
    their seeds before the others get any.
    """

    table: Table
    out: Path
    seeds: int
    budget: float = 1.4 * 3600  # seconds
    only: Sequence[str] = ()  # words of cells; nothing means all
    threads: int = 1  # of one job
    workers: int = 1  # jobs at the same time
    reuse: Sequence[Path] = ()
    published: Path | None = None
    publish: Path | None = None
    callbacks: Callbacks = ()
    first: Callable[[Place], bool] = _everything
    render: Callable[[Table, Results, Path], str] = as_markdown
    report: Callable[[str], None] = _silent
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise TacitError(f"seeds is {self.seeds}; run at least 1.")
        if self.publish is not None and not self.publish.is_dir():
            raise TacitError(f"There is no folder {str(self.publish)!r} to publish into.")
        self.runner = Runner(self.workers, self.budget, self.callbacks, self.clock)
        stem = f"table-{self.table.name}"
        self.markdown_file = self.out / f"{stem}.md"
        self.results = Results.read(self.table.name, self.out / f"{stem}.json")
        self.written: dict[str, DoneCell] = {}  # finished cells by folder, wherever they ran
        self.others: list[Results] = []  # of tables that may have the same experiments

    def fill(self) -> Results:
        """Run what is missing, in order, and write the table after every job."""
        self.prepare(cells_of_others=True)
        self.write()
        for is_first, last in product((True, False), range(self.seeds)):
            places = [place for place in self.table.places if self.first(place) == is_first]
            self.run(self._jobs(places, last), self._absorb)
        self._measure_uploads()
        self.write()
        return self.results

    def run(
        self, jobs: Iterable[Job[Outcome]], absorb: Callable[[Job[Outcome], Outcome], None]
    ) -> None:
        """Do jobs as the budget allows; somebody who stops one stops everything."""
        stopped = self.runner.run(jobs, absorb)
        if stopped is not None:
            raise RunInterruptedError(
                f"Stopped during {stopped.key}; give the same command again to continue."
            )

    def _measure_uploads(self) -> None:
        """What epsilon is told for, where it depends on the uploads of a finished run."""
        known = self.results.uploads
        for place in self.table.places:
            done = next((c for c in self.results.done_of(place) if c.seed == 0), None)
            if done is None or not needs_norms(place):
                continue
            if place.key not in known or known[place.key].run != done.folder:
                known[place.key] = upload_norms(place.experiment(done.sets, 0), done.folder)

    def prepare(self, *, cells_of_others: bool = False) -> None:
        """Find out what is known and what is missing; nothing is run or written. What other tables
        have finished since this one was published counts where `cells_of_others` says so."""
        if not any(self._wanted(place) for place in self.table.places):
            words = " or ".join(map(repr, self.only))
            raise TacitError(f"No cell of {self.table.name} has {words} in its name.")
        self._take_over()
        if cells_of_others:
            self._take_cells()
        self._scan()

    def asks_for(self, key: str) -> bool:
        """Whether a key has one of the texts `only` in it, beginning at a word: PFedRec is not
        meant by the end of GPFedRec. Without any, everything is asked for."""
        return not self.only or any(f" {words}" in f" {key}" for words in self.only)

    def _wanted(self, place: Place) -> list[int]:
        """Seeds of a place whose cells are asked for."""
        return [seed for seed in place.seeds(self.seeds) if self.asks_for(place.cell(seed))]

    def _take_over(self) -> None:
        """Choices of other tables, and cells of a published one, as far as they are the same
        experiments: nothing that is written down is run again."""
        before = [self.results]
        if self.published is not None:
            there = Results.read(self.table.name, self.published / self.results.path.name)
            self.results.tests = {**there.tests, **self.results.tests}
            self.results.timings = {**there.timings, **self.results.timings}
            self.results.uploads = {**there.uploads, **self.results.uploads}
            self.results.attacks = {**there.attacks, **self.results.attacks}
            before = [there, self.results]
        self.written = {cell.folder: cell for one in before for cell in one.done}
        own = [choice for one in before for choice in one.choices.values()]
        known: dict[str, Choice] = {}
        self.others = list(_results([*self.reuse, self.published]))
        found = [choice for one in self.others for choice in one.choices.values()]
        for choice in (*found, *own):
            known[choice.digest] = known.get(choice.digest, choice).later(choice)
        for place in self.table.places:
            if place.problem is None and place.digest in known:
                self.results.choices[place.key] = known[place.digest]

    def _take_cells(self) -> None:
        """Finished cells of other tables that are the runs which places of this one ask for."""
        cells = [cell for one in self.others for cell in one.done]
        known = {_digest_of(cell.folder): cell for cell in cells}
        most = max([self.seeds, *(cell.seed + 1 for cell in cells)])
        for place in self.table.places:
            setting = None if place.problem else self.results.setting_of(place)
            for seed in place.seeds(most) if setting is not None else ():
                assert setting is not None
                folder = place.folder(place.experiment(setting, seed))
                cell = known.get(_digest_of(folder))
                shown = None if cell is None else cell.shown_in(place, setting, folder)
                if shown is not None:
                    self.written.setdefault(folder, shown)

    def _scan(self) -> None:
        """Bring the cells up to date: those count that are the very runs which the present
        definition and the present choice ask for. Finished seeds beyond those asked for stay."""
        most = max([self.seeds, *(cell.seed + 1 for cell in self.written.values())])
        self.results.cells, data = {}, DataNow()
        wanted = missing = able = 0
        for place in self.table.places:
            asked = self._wanted(place)
            finished = {} if place.problem else self._finished(place, most, data)
            self.results.cells |= finished
            left = [seed for seed in place.seeds(self.seeds) if place.cell(seed) not in finished]
            for seed in left:
                why = NOT_YET if place.problem is None else f"not run ({place.problem})"
                if seed not in asked:
                    why = "not run (left out by --only)"
                self.results.cells[place.cell(seed)] = undone(place, seed, why)
            wanted += len(asked)
            missing += len(set(left) & set(asked))
            able += 0 if place.problem else len(set(left) & set(asked))
        elsewhere = [c for c in self.results.done if not (self.out / c.folder).exists()]
        if elsewhere:
            self.report(f"published {len(elsewhere)} finished cells stand as they were published")
        self.report(
            f"plan      {wanted} cells, {wanted - missing} finished, {missing - able} cannot run; "
            f"{able} are to be run"
        )

    def _finished(self, place: Place, most: int, data: DataNow) -> dict[str, DoneCell]:
        setting = self.results.setting_of(place)
        found: dict[str, DoneCell] = {}
        if setting is None:
            return found
        for seed in place.seeds(most):
            experiment = place.experiment(setting, seed)
            name = place.folder(experiment)
            folder = RunFolder(self.out / name)
            if folder.finished:
                data.require(experiment, folder)
                found[place.cell(seed)] = DoneCell.of(place, setting, folder.record(), name)
            elif name in self.written:
                found[place.cell(seed)] = self.written[name]
        return found

    def _jobs(self, places: Sequence[Place], last: int) -> Iterator[Job[PlaceOutcome]]:
        """Every one of some places that lacks a wanted seed up to `last`."""
        for place in places:
            seeds = [seed for seed in self._wanted(place) if seed <= last]
            states = [self.results.cells[place.cell(seed)].status for seed in seeds]
            if not any(status.startswith(NOT_YET) for status in states):
                continue
            work = Work(
                place,
                seeds,
                self.out,
                self.results.choices.get(place.key),
                {name: c for name, c in self.written.items() if c.row == place.row.name},
                self.reuse,
                self.threads,
            )
            here = self.workers == 1
            do = partial(work.do, partial(self._save, place)) if here else partial(_work, work)
            yield Job(place.cell(seeds[-1]), do)

    def _save(self, place: Place, choice: Choice) -> None:
        self.results.choices[place.key] = choice
        self.results.write()

    def _absorb(self, job: Job[PlaceOutcome], outcome: PlaceOutcome) -> None:
        place = outcome.place
        if outcome.choice is not None:
            self.results.choices[place.key] = outcome.choice
        for key, cell in outcome.cells.items():
            self.report(f"cell      {key}: {cell.status}")
        self.results.cells |= outcome.cells
        setting = self.results.setting_of(place)
        for cell in self.results.done_of(place):  # all seeds of a row have one setting
            if cell.sets != setting:
                again = undone(place, cell.seed, NOT_YET)
                self.results.cells[place.cell(cell.seed)] = again
        self.written |= {c.folder: c for c in outcome.cells.values() if isinstance(c, DoneCell)}
        self.write()

    def write(self) -> None:
        """The results and what people read, in every folder that wants them."""
        results = self.results
        results.title, results.seeds = self.table.title, self.seeds
        text = self.render(self.table, results, self.out)
        for folder in (self.out, self.publish):
            if folder is not None:
                results.write(folder / results.path.name)
                write_text(folder / self.markdown_file.name, text)


def _digest_of(folder: str) -> str:
    """The digest that the name of a cell's folder ends with."""
    return folder.rpartition("-")[2]


def _results(folders: Sequence[Path | None]) -> Iterator[Results]:
    """All results files of these folders; a damaged file is its own command's."""
    for path in (p for folder in folders if folder for p in sorted(folder.glob("table-*.json"))):
        try:
            yield Results.read(path.stem.removeprefix("table-"), path)
        except TacitError:
            continue
