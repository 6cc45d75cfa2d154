"""One leaderboard from run folders: verified, one row per system, sorted by what it is worth.

A row is one system with all its seeds. Of several settings of a system, validation chooses the one
that is ranked, and all of them count as tried; the others are named with the reason why they are
not ranked. Nothing is ever chosen by a test value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tacit.core.types import Task
from tacit.errors import TacitError
from tacit.evaluation.significance import Spread, paired_bootstrap, per_user_over_seeds
from tacit.experiment.claims import several_releases
from tacit.experiment.names import dataset_name
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS
from tacit.plugins.entry import parse
from tacit.study.command import command_of
from tacit.study.study import digest
from tacit.study.verified import DataAtHand, NotComparableError, VerifiedRun, verify

SORTED_BY = "NDCG@10"
METRICS = (SORTED_BY, "HR@10")
COLD_METRICS = (*METRICS, "Recall@20")  # by which papers on untouched items are read
EXPERIMENTS = "experiments"  # the folder of experiments that no flags lead to
NOT_RUN = "not run yet"
MANY_UNSEEN = 0.05  # of all people: test items in nobody's train part are then worth a sentence
DIGITS = 12  # in which equal numbers are equal, in whatever order they were added up


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Measure(_Part):
    """A metric: the mean over seeds, its interval over users, and what each seed has.

    >>> Measure(mean=0.2, low=0.1, high=0.3, by_seed=(0.1, 0.3)).seed_spread.deviation > 0
    True
    """

    mean: float
    low: float  # 95 %, users drawn again with replacement, seeds averaged
    high: float
    by_seed: tuple[float, ...]

    @property
    def seed_spread(self) -> Spread:
        return Spread.of(self.by_seed)

    def overlaps(self, other: Measure) -> bool:
        """Whether the two intervals have a value in common."""
        return self.low <= other.high and other.low <= self.high


class BoardRow(_Part):
    """One system on one dataset: what it reaches, what it costs, and how to run it again."""

    system: str
    kind: Literal["federated", "central"]
    preset: str
    seeds: tuple[int, ...]
    results: int  # how many of the seeds differ; 1 where nothing in the system is drawn
    metrics: Mapping[str, Measure]
    seconds: float  # of one run, as the runs say
    device: str  # where they ran; several, where seeds ran on different ones
    bytes_up: int  # of one user, in the whole training
    privacy: str
    epsilon: float | None
    delta: float | None
    view: str | None
    tried: int | None  # settings among which validation chose; None: nobody says
    search: str
    command: str
    digests: tuple[str, ...]  # of the experiments, by seed
    unchecked: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """By which rows are sorted."""
        return self.metrics[SORTED_BY].mean


class NotRanked(_Part):
    """Something that is no row, and why."""

    name: str
    why: str


class Section(_Part):
    """Rows that compare: the same data under the same split."""

    dataset: str
    split: str
    cold: bool
    users: int  # who are ranked for
    items: int
    # people whose test item is in nobody's train part; None where nobody has counted
    unseen: int | None = Field(default=None, exclude_if=lambda unseen: unseen is None)
    data: str  # a digest of interactions and split
    reference: Mapping[str, Mapping[str, float]]  # popularity and chance, by metric
    rows: tuple[BoardRow, ...]
    not_run: tuple[NotRanked, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        return COLD_METRICS if self.cold else METRICS

    @property
    def places(self) -> list[str]:
        """The place of each row; equal means share one.

        >>> one = Measure(mean=0.2, low=0.1, high=0.3, by_seed=(0.2,))
        >>> row = BoardRow.model_construct(metrics={SORTED_BY: one})
        >>> Section.model_construct(rows=(row, row)).places
        ['1=', '1=']
        """
        values = [round(row.value, DIGITS) for row in self.rows]
        return [f"{values.index(v) + 1}{'=' if values.count(v) > 1 else ''}" for v in values]

    @property
    def sentences(self) -> list[str]:
        """What of the order is not settled, who stays below those that learn nothing, and what an
        epsilon of several seeds covers."""
        if not self.rows:
            return []
        said, first = [], self.rows[0]
        near = [r for r in self.rows[1:] if r.metrics[SORTED_BY].overlaps(first.metrics[SORTED_BY])]
        others = len(self.rows) - 1
        if near:
            said.append(
                f"The intervals of {len(near)} of the {others} other rows reach that of "
                f"{first.system}, so its place above them is not settled here; tacit compare tests "
                "such pairs user by user."
            )
        elif others:
            said.append(f"No other row's interval reaches that of {first.system}, the first.")
        for place in dict.fromkeys(place for place in self.places if "=" in place):
            placed = zip(self.rows, self.places, strict=True)
            tied = ", ".join(row.system for row, its in placed if its == place)
            said.append(f"Tied in {SORTED_BY} at place {place.rstrip('=')}: {tied}.")
        popular = round(self.reference["popularity"][SORTED_BY], DIGITS)
        below = [row for row in self.rows if round(row.value, DIGITS) < popular]
        clear = [r.system for r in below if round(r.metrics[SORTED_BY].high, DIGITS) < popular]
        reach = [row.system for row in below if row.system not in clear]
        if clear:
            said.append(f"Below popularity: {', '.join(clear)}.")
        if reach:
            said.append(f"Below popularity, with an interval that reaches it: {', '.join(reach)}.")
        said += self._of_unseen()
        promised = [r.system for r in self.rows if r.epsilon is not None and len(r.seeds) > 1]
        return [*said, *([several_releases(promised)] if promised else [])]

    def _of_unseen(self) -> list[str]:
        """How many people have a test item that is in nobody's train part, where that is many."""
        if self.cold or self.unseen is None or self.unseen < MANY_UNSEEN * self.users:
            return []
        said = (
            f"The test items of {self.unseen} of {self.users} people are in nobody's train part, "
            "so a system gains by ranking such items first"
        )
        control = next((row for row in self.rows if row.system == "unseen_first"), None)
        if control is None:
            return [f"{said}."]
        below = sum(row.value < control.value for row in self.rows)
        return [
            f"{said}; unseen_first, which does that and knows nothing else, is above {below} of "
            "the other rows."
        ]


class Leaderboard(_Part):
    """All sections, warm ones first, and the runs that are in none of them."""

    sections: tuple[Section, ...]
    refused: tuple[NotRanked, ...] = ()
    versions: Mapping[str, str] = {}

    @property
    def warm(self) -> tuple[Section, ...]:
        return tuple(one for one in self.sections if not one.cold)

    @property
    def cold(self) -> tuple[Section, ...]:
        return tuple(one for one in self.sections if one.cold)


# From folders to rows.


@dataclass
class Collected:
    """Runs that were found true, and those that were not."""

    runs: list[VerifiedRun] = field(default_factory=list)
    refused: list[NotRanked] = field(default_factory=list)


def collect(folders: Iterable[Path]) -> Collected:
    """Verify run folders; a run that is there twice counts once."""
    found, data = Collected(), DataAtHand()
    known: dict[str, Path] = {}
    copies: dict[tuple[object, ...], Path] = {}
    for folder in folders:
        try:
            run = verify(folder, data)
        except NotComparableError as error:
            found.refused.append(NotRanked(name=folder.name, why=f"not ranked: {error}"))
            continue
        except TacitError as error:
            found.refused.append(NotRanked(name=folder.name, why=f"refused: {error}"))
            continue
        twin = known.setdefault(digest(run.experiment), folder)
        trained = _training(run)
        copy = folder if trained is None else copies.setdefault(trained, folder)
        why = None
        if twin != folder:
            seed = run.experiment.seed
            why = f"refused: {twin.name} holds the same experiment with the same seed ({seed})"
        elif copy != folder:
            why = f"refused: its losses and ranks are those of {copy.name}, which has another seed"
        if why is not None:
            found.refused.append(NotRanked(name=folder.name, why=why))
            continue
        found.runs.append(run)
    return found


def _training(run: VerifiedRun) -> tuple[object, ...] | None:
    """What no two seeds have in common where something is trained: all losses, and all places.
    None where there are no losses, as in closed forms, whose seeds may all be alike."""
    if all(loss is None for loss in run.losses):
        return None
    return (replace(run.experiment, seed=0, device="cpu"), run.losses, _places(run))


def leaderboard(folders: Sequence[Path]) -> tuple[Leaderboard, dict[str, Experiment]]:
    """The leaderboard of run folders, and experiments that a command of it reads from a file.

    >>> import tempfile
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folders = [Path(place, name) for name in ("random", "popularity")]
    ...     for folder in folders:
    ...         _ = run(resolve(folder.name), folder)
    ...     board, _ = leaderboard(folders)
    >>> [row.system for row in board.sections[0].rows]
    ['popularity', 'random']
    """
    found = collect(folders)
    if not found.runs:
        first = found.refused[0]
        raise TacitError(
            f"None of these {len(found.refused)} runs can be ranked; the first, {first.name}, is "
            f"{first.why.rstrip('.')}."
        )
    by_section: dict[tuple[object, ...], list[VerifiedRun]] = {}
    for one in found.runs:
        by_section.setdefault(_compared_by(one), []).append(one)
    others = sorted({one.record.dataset for one in found.runs})
    sections: list[Section] = []
    files: dict[str, Experiment] = {}
    for runs in by_section.values():
        section, outvoted, needed = _section(runs, others)
        sections.append(section)
        found.refused += outvoted
        files |= needed
    sections.sort(key=lambda one: (one.cold, one.dataset, one.split))
    versions = found.runs[0].record.versions
    board = Leaderboard(
        sections=tuple(sections),
        refused=tuple(found.refused),
        versions={name: versions[name] for name in versions},
    )
    return board, files


def _compared_by(run: VerifiedRun) -> tuple[object, ...]:
    """What runs of one section have in common: data, split, mask and tie rule."""
    protocol, data = run.experiment.protocol, run.record.data
    assert data is not None
    return (
        run.experiment.data,
        protocol.split,
        protocol.test_mask,
        protocol.ties,
        *(data.users, data.items, data.interactions, data.split),
    )


def _section(
    runs: Sequence[VerifiedRun], datasets: Sequence[str]
) -> tuple[Section, list[NotRanked], dict[str, Experiment]]:
    """One section, the settings that validation did not choose, and experiments to be written."""
    first = runs[0].record
    assert first.data is not None
    cold = first.cold is not None
    names = COLD_METRICS if cold else METRICS
    systems: dict[tuple[object, ...], dict[Experiment, list[VerifiedRun]]] = {}
    for run in runs:
        setting = replace(run.experiment, seed=0, device="cpu")
        systems.setdefault(_system(run), {}).setdefault(setting, []).append(run)
    rows, outvoted, files = [], [], {}
    for settings in systems.values():
        chosen, *rest = sorted(settings.values(), key=_on_validation, reverse=True)
        row, experiment = _row(chosen, names, len(settings))
        rows.append(row)
        if experiment is not None:
            files[_config(chosen)] = experiment
        for others in rest:
            why = f"not ranked: validation prefers {chosen[0].folder.name} of the same system"
            outvoted += [NotRanked(name=one.folder.name, why=why) for one in others]
    rows.sort(key=lambda row: (-row.value, row.system))
    reference = {
        "popularity": {name: first.reference.full.popularity[name] for name in names},
        "chance": {name: first.reference.full.chance[name] for name in names},
    }
    section = Section(
        dataset=dataset_name(first.dataset, [one for one in datasets if one != first.dataset]),
        split=first.split,
        cold=cold,
        users=first.counts.evaluated_users,
        items=first.counts.items,
        unseen=first.breakdown.unseen.users,
        data=first.data.split[:12],
        reference=reference,
        rows=tuple(rows),
        cautions=first.cautions,
    )
    return section, outvoted, files


def _system(run: VerifiedRun) -> tuple[object, ...]:
    """What settings of one system have in common: the names in it, and what is promised."""
    plugins = tuple(parse(spelling)[0] for spelling in run.experiment.plugins)
    privacy = run.record.privacy
    epsilon = None if privacy.epsilon is None else f"{privacy.epsilon:.6g}"
    return (run.experiment.name, plugins, epsilon, privacy.delta, privacy.view)


def _on_validation(runs: Sequence[VerifiedRun]) -> float:
    return float(np.mean([run.record.test_released.validation_value for run in runs]))


def _config(runs: Sequence[VerifiedRun]) -> str:
    return f"{EXPERIMENTS}/{digest(replace(runs[0].experiment, seed=0))}.toml"


def _row(
    runs: Sequence[VerifiedRun], names: Sequence[str], settings: int
) -> tuple[BoardRow, Experiment | None]:
    """A row, and its experiment where a command reads it from a file."""
    runs = sorted(runs, key=lambda run: run.experiment.seed)
    first, record = runs[0].experiment, runs[0].record
    tried, search = _search(runs[0], settings)
    command = command_of([run.experiment for run in runs], _config(runs))
    privacy = dict.fromkeys(run.record.privacy.short for run in runs)
    row = BoardRow(
        system=first.label,
        kind="central" if record.kind == "central" else "federated",
        preset=first.preset,
        seeds=tuple(run.experiment.seed for run in runs),
        results=len({_places(run) for run in runs}),
        metrics={name: _measure(runs, name) for name in names},
        seconds=float(np.mean([run.record.seconds for run in runs])),
        device=", ".join(dict.fromkeys(run.record.device for run in runs)),
        bytes_up=max(_bytes_up(run) for run in runs),
        privacy="; ".join(privacy),
        epsilon=record.privacy.epsilon,
        delta=record.privacy.delta,
        view=record.privacy.view,
        tried=tried,
        search=search,
        command=command,
        digests=tuple(digest(run.experiment) for run in runs),
        unchecked=tuple(dict.fromkeys(note for run in runs for note in run.unchecked)),
    )
    return row, first if "--config" in command else None


def _measure(runs: Sequence[VerifiedRun], name: str) -> Measure:
    ties = runs[0].experiment.protocol.ties
    _, value_E = per_user_over_seeds([run.ranks.full for run in runs], name, ties)
    around = paired_bootstrap(value_E, np.zeros_like(value_E))
    by_seed = tuple(run.record.metrics.full[name] for run in runs)
    return Measure(mean=float(np.mean(by_seed)), low=around.low, high=around.high, by_seed=by_seed)


def _places(run: VerifiedRun) -> bytes:
    """Where the test items stand: the same for all seeds of a system that draws nothing."""
    full = run.ranks.full
    return full.above_H.tobytes() + full.tied_H.tobytes()


def _bytes_up(run: VerifiedRun) -> int:
    """What one user sends in the whole training, a mean over users."""
    ledger, counts = run.record.ledger, run.record.counts
    sent = 0 if ledger is None else sum(one.bytes_total for one in ledger.up)
    return round(sent / counts.users)


def _search(run: VerifiedRun, settings: int) -> tuple[int | None, str]:
    """How many settings were tried, and what is known of where they come from."""
    experiment, record = run.experiment, run.record
    assert record.data is not None
    custom = experiment.method.algorithm(Task(record.data.n_users, record.data.n_items)).custom
    own = 1 if custom is None else custom.method.settings_tried
    own = record.rounds_run if record.unit == "setting" else own
    tried = own * settings
    if settings > 1:
        return tried, f"{tried}, of which validation chose; all of them were given to this page"
    if not _is_preset(experiment):
        return None, f"not said: settings are not those of preset {experiment.preset}"
    if own > 1:
        return tried, f"{tried} of its own grid, chosen on validation"
    return 1, f"1, preset {experiment.preset}"


def _is_preset(experiment: Experiment) -> bool:
    """Whether a method's settings are those of the preset that it names."""
    if experiment.name not in METHODS or experiment.preset not in METHODS[experiment.name].presets:
        return False
    try:
        named = resolve(experiment.name, preset=experiment.preset, plugins=experiment.plugins)
    except TacitError:
        return False
    same_length = experiment.rounds == named.rounds
    return named.method == experiment.method and same_length
