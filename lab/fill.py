"""Fill a table: run in order, stop at the budget, go on later; what is finished is used again.

A place is a row, a dataset and a column. Its steps are to try each of its settings on validation,
where nothing is chosen yet, and then to run each seed under the chosen one. Steps of all places are
done side by side as soon as they can be; all places get their first seed before any gets its
second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from lab.asked import Asked
from lab.definition import Overrides, Place, Table
from lab.render import as_markdown
from lab.results import Cell, DoneCell, Results, undone
from lab.true_epsilon import needs_norms, upload_norms
from tacit.errors import TacitError
from tacit.evaluation.ranking import DivergedError
from tacit.experiment.callbacks import Callback, Callbacks
from tacit.experiment.data_record import DataNow
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.run import RunInterruptedError
from tacit.files import write_text
from tacit.study.runner import Job, JobOutcome, OutOfTimeError, Runner
from tacit.study.search import Choice, Tried, measured_by, try_setting
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

Found = TypeVar("Found", bound=JobOutcome)


@dataclass
class Outcome(JobOutcome):
    """What came of a step: why it was not done, in words, and whether all its place cannot be."""

    place: Place
    seed: int
    stopped: str | None = None
    impossible: bool = False


@dataclass
class TryOutcome(Outcome):
    """A setting that was tried on validation."""

    number: int = 0  # of the setting
    tried: Tried | None = None


@dataclass
class RunOutcome(Outcome):
    """A cell that was run; `diverged` where its run came to no finite scores."""

    setting: Overrides = ()
    cell: DoneCell | None = None
    diverged: bool = False


@dataclass(frozen=True)
class Step:
    """One thing that a place needs, by value, so that another process can do it as well."""

    place: Place
    seed: int
    setting: Overrides
    threads: int

    @property
    def name(self) -> tuple[str, ...]:
        """What tells a step from all others: none is begun twice."""
        return ("run", self.place.cell(self.seed), *self.setting)


@dataclass(frozen=True)
class TryStep(Step):
    """Try one setting on validation, for the sake of a seed."""

    number: int

    @property
    def name(self) -> tuple[str, ...]:
        """All seeds of a place need the same tries."""
        return ("try", self.place.key, *self.setting)

    def do(self, callback: Callback) -> TryOutcome:
        outcome = TryOutcome(self.place, self.seed, number=self.number)
        with _noted(outcome):
            place = self.place
            prepared = _prepared(place.asked(place.settings[0], 0, search=True))
            experiment = place.experiment(self.setting, 0, search=True)
            outcome.tried = try_setting(self.setting, experiment, prepared, self.threads, callback)
        return outcome


@dataclass(frozen=True)
class RunStep(Step):
    """Run one seed under the setting of its place."""

    out: Path
    reuse: Sequence[Path] = ()

    def do(self, callback: Callback) -> RunOutcome:
        outcome = RunOutcome(self.place, self.seed, setting=self.setting)
        with _noted(outcome):
            experiment = self.place.experiment(self.setting, self.seed)
            folder = self.place.folder(experiment)
            trial = Trial({"row": self.place.row.name}, experiment, self.out / folder)
            try:
                record = finish(
                    trial, self.reuse, threads=self.threads, callbacks=callback, keep_model=False
                )
            except DivergedError:
                if len(self.place.settings) < 2:
                    raise
                outcome.diverged = True
            else:
                outcome.cell = DoneCell.of(self.place, self.setting, record, folder)
        return outcome


@contextmanager
def _noted(outcome: Outcome) -> Iterator[None]:
    """Notes in the outcome what ended a step before its time."""
    try:
        yield
    except OutOfTimeError as stop:
        outcome.stopped = f"{NOT_YET} ({str(stop).rstrip('.')})"
    except (RunInterruptedError, KeyboardInterrupt):
        outcome.stopped, outcome.interrupted = NOT_YET, True
    except TacitError as error:
        outcome.stopped, outcome.impossible = _cannot(error), True


@lru_cache(maxsize=1)
def _prepared(asked: Asked) -> Prepared:
    """The data of a search; settings of one place that follow each other share it."""
    return prepare(asked.experiment())


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
        # by place: settings whose tries ended before that of an earlier one
        self.ahead: dict[str, dict[int, Tried]] = {}
        self.under_way = 0
        self.others: list[Results] = []  # of tables that may have the same experiments

    def fill(self) -> Results:
        """Run what is missing, in order, and write the table after every job."""
        self.prepare(cells_of_others=True)
        self.write()
        self.run(self._jobs(), self._absorb)
        self._measure_uploads()
        self.write()
        return self.results

    def run(
        self, jobs: Iterable[Job[Found] | None], absorb: Callable[[Job[Found], Found], None]
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
        """Finished cells of other tables that are the runs which places of this one ask for; no
        seed beyond those asked for, so that rows of a table keep equally many."""
        cells = [cell for one in self.others for cell in one.done]
        known = {_digest_of(cell.folder): cell for cell in cells}
        for place in self.table.places:
            setting = None if place.problem else self.results.setting_of(place)
            for seed in place.seeds(self.seeds) if setting is not None else ():
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
            hopeless = self._hopeless(place)
            for seed in left:
                why = hopeless or NOT_YET
                if seed not in asked:
                    why = "not run (left out by --only)"
                self.results.cells[place.cell(seed)] = undone(place, seed, why)
            wanted += len(asked)
            missing += len(set(left) & set(asked))
            able += 0 if hopeless else len(set(left) & set(asked))
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

    def _jobs(self) -> Iterator[Job[Outcome] | None]:
        """What can be begun now; None while that depends on steps under way."""
        begun: set[tuple[str, ...]] = set()
        while True:
            step = next((one for one in self._open() if one.name not in begun), None)
            if step is not None:
                begun.add(step.name)
                self.under_way += 1
                yield Job(step.place.cell(step.seed), step.do)
            elif self.under_way:
                yield None
            else:
                return

    def _open(self) -> Iterator[TryStep | RunStep]:
        """All steps that are missing and known, the most urgent first. A place that must choose
        has no runs before it has chosen."""
        for is_first, last in product((True, False), range(self.seeds)):
            for place in self.table.places:
                if self.first(place) != is_first:
                    continue
                for seed in self._wanted(place):
                    status = self.results.cells[place.cell(seed)].status
                    if seed <= last and status.startswith(NOT_YET):
                        yield from self._steps(place, seed)

    def _steps(self, place: Place, seed: int) -> Iterator[TryStep | RunStep]:
        setting = self.results.setting_of(place)
        if setting is None:
            for number in range(len(self._choice(place).tried), len(place.settings)):
                yield TryStep(place, seed, place.settings[number], self.threads, number)
            return
        folder = place.folder(place.experiment(setting, seed))
        if folder in self.written:  # another table has run what was chosen just now
            self._finish(place, seed, self.written[folder])
        else:
            yield RunStep(place, seed, setting, self.threads, self.out, self.reuse)

    def _choice(self, place: Place) -> Choice:
        """What was tried for a place so far."""
        known = self.results.choices.get(place.key)
        if known is not None and known.digest == place.digest:
            return known
        length = f"{place.row.search_rounds} of {place.row.rounds_for(place.data.name)} rounds"
        first = place.experiment(place.settings[0], 0, search=True)
        return Choice(digest=place.digest, by=measured_by(first, length))

    def _absorb(self, job: Job[Outcome], outcome: Outcome) -> None:
        self.under_way -= 1
        place, seed = outcome.place, outcome.seed
        if outcome.stopped is not None:
            seeds = self._wanted(place) if outcome.impossible else [seed]
            for one in seeds:
                if not isinstance(self.results.cells[place.cell(one)], DoneCell):
                    self._finish(place, one, undone(place, one, outcome.stopped))
        elif isinstance(outcome, TryOutcome):
            assert outcome.tried is not None
            self.ahead.setdefault(place.key, {})[outcome.number] = outcome.tried
            self._choose(place)
        elif isinstance(outcome, RunOutcome) and outcome.diverged:
            self._withdraw(place, outcome.setting)
        elif isinstance(outcome, RunOutcome) and outcome.cell is not None:
            self.written[outcome.cell.folder] = outcome.cell
            self._finish(place, seed, outcome.cell)
        self.write()

    def _finish(self, place: Place, seed: int, cell: DoneCell | Cell) -> None:
        self.report(f"cell      {place.cell(seed)}: {cell.status}")
        self.results.cells[place.cell(seed)] = cell
        self._one_setting(place)

    def _choose(self, place: Place) -> None:
        """Note what was tried, in the order of the settings, and choose when all were."""
        choice, ahead = self._choice(place), self.ahead[place.key]
        while (number := len(choice.tried)) in ahead:
            choice = choice.model_copy(update={"tried": (*choice.tried, ahead.pop(number))})
        if len(choice.tried) == len(place.settings):
            choice = _best(choice)
        self.results.choices[place.key] = choice
        self._one_setting(place)

    def _withdraw(self, place: Place, setting: Overrides) -> None:
        """The search was too short to see that a setting diverges: take the next best, with all
        seeds. Another seed may have said so already."""
        if self.results.setting_of(place) == setting:
            self.results.choices[place.key] = _best(self._choice(place).withdrawn())
        self._one_setting(place)

    def _one_setting(self, place: Place) -> None:
        """All seeds of a row have one setting; where every setting diverged, none can be run, also
        when the run of one that was taken back ends later."""
        setting, hopeless = self.results.setting_of(place), self._hopeless(place)
        for cell in self.results.of(place):
            taken_back = isinstance(cell, DoneCell) and cell.sets != setting
            if taken_back or (hopeless and cell.status.startswith(NOT_YET)):
                again = undone(place, cell.seed, hopeless or NOT_YET)
                self.results.cells[place.cell(cell.seed)] = again

    def _hopeless(self, place: Place) -> str | None:
        """Why a place cannot be run, as the status of its cells: it does not exist, or all of its
        settings were tried and diverged. None where it may be run."""
        if place.problem is not None:
            return f"not run ({place.problem})"
        choice = self.results.choices.get(place.key)
        if choice is None or choice.digest != place.digest:
            return None
        if len(choice.tried) < len(place.settings):
            return None
        return _refusal(choice)

    def write(self) -> None:
        """The results and what people read, in every folder that wants them."""
        results = self.results
        results.title, results.seeds = self.table.title, self.seeds
        text = self.render(self.table, results, self.out)
        for folder in (self.out, self.publish):
            if folder is not None:
                results.write(folder / results.path.name)
                write_text(folder / self.markdown_file.name, text)


def _best(choice: Choice) -> Choice:
    """With the best on validation chosen; as it is where every setting diverged."""
    return choice.made() if _refusal(choice) is None else choice


def _refusal(choice: Choice) -> str | None:
    """Why nothing can be chosen of what was tried, as the status of a cell."""
    try:
        choice.made()
    except TacitError as error:
        return _cannot(error)
    return None


def _cannot(error: TacitError) -> str:
    return f"not run ({str(error).rstrip('.')})"


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
