"""Several methods under one protocol: run what is missing, then compare user by user."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError, argument, nearest
from tacit.evaluation.metrics import metric as metric_of
from tacit.evaluation.ranking import Evaluation
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.references import chance, popularity
from tacit.evaluation.significance import (
    Interval,
    Spread,
    holm,
    paired_bootstrap,
    per_user_over_seeds,
)
from tacit.experiment.amounts import DASH, bytes_text, metric_text
from tacit.experiment.callbacks import Callbacks
from tacit.experiment.claims import several_releases
from tacit.experiment.data_record import OLD, prepare_again, require_one_data
from tacit.experiment.folder import RunFolder
from tacit.experiment.interpretation import sampled_notes
from tacit.experiment.names import slug
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import NO_GUARANTEE
from tacit.experiment.resolve import resolve
from tacit.experiment.result import read_ranks
from tacit.experiment.spec import Experiment
from tacit.files import write_text
from tacit.methods import METHODS
from tacit.study.study import RANKINGS, Study, Trial
from tacit.study.writer import as_markdown as table_in_markdown

# A comparison as data: one row per method, tested user by user against one of them.

Values = Mapping[str, Mapping[str, float]]  # by ranking, then by metric


@dataclass(frozen=True, eq=False)
class Entrant:
    """A method with its runs, one per seed; folders hold them once they are finished.

    >>> Entrant("fedmf", (), ()).name
    'fedmf'
    """

    name: str
    experiments: tuple[Experiment, ...]
    folders: tuple[Path, ...]

    @property
    def trials(self) -> list[Trial]:
        """Its runs, as a study has them."""
        pairs = zip(self.experiments, self.folders, strict=True)
        return [Trial({"method": self.name}, one, folder) for one, folder in pairs]


@dataclass(frozen=True, eq=False)
class Row:
    """One method: its value over users (seeds averaged), the spread over seeds, and the test.

    >>> spread, privacy = Spread.of([0.1, 0.3]), "no guarantee"
    >>> row = Row("fedmf", 0.2, spread, {}, None, None, (0, 1), (5, 7), {}, (), privacy)
    >>> row.spread.mean
    0.2
    """

    name: str
    value: float
    spread: Spread
    metrics: Values
    difference: Interval | None  # this method minus the one it is tested against
    p_holm: float | None
    seeds: tuple[int, ...]
    selected_rounds: tuple[int, ...]
    cost: Mapping[str, int]
    runs: tuple[str, ...]
    privacy: str  # the guarantee that goes with the numbers, in words

    @property
    def bytes_up(self) -> int:
        """What a client sends in one round."""
        return self.cost["bytes_up"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows in the order in which methods were named, and what stands beside all of them.

    >>> one = Comparison("HR@10", "few", "clean", True, "by time", "fedmf", 9, (), {}, ())
    >>> one.against
    'fedmf'
    """

    metric: str
    dataset: str
    protocol: str
    clean: bool
    split: str
    against: str
    users: int
    rows: tuple[Row, ...]
    reference: Mapping[str, Values]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        values = ", ".join(f"{row.name} {row.value:.4f}" for row in self.rows)
        return f"Comparison({self.dataset}, protocol {self.protocol}, {self.metric}: {values})"


def choose(against: str, names: Sequence[str], values: Sequence[float]) -> int:
    """Which row the others are tested against.

    >>> choose("best", ["a", "b"], [0.1, 0.2]), choose("a", ["a", "b"], [0.1, 0.2])
    (1, 0)
    """
    if against == "first":
        return 0
    if against == "best":
        return int(np.argmax(values))
    if against not in names:
        raise TacitError(
            f"Nothing here is called {against!r}; {nearest(against, [*names, 'first', 'best'])}"
        )
    return list(names).index(against)


# From finished runs to the rows of a comparison.

SHOWN = ("HR@10", "NDCG@10")


def tabulate(entrants: Sequence[Entrant], metric: str, against: str) -> Comparison:
    """Read finished runs and compare them; `against` is "first", "best" or a method's name.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     entrants = []
    ...     for name in ("random", "popularity"):
    ...         one, folder = resolve(name), Path(place) / name
    ...         _ = run(one, folder)
    ...         entrants.append(Entrant(name, (one,), (folder,)))
    ...     table = tabulate(entrants, "HR@10", "best")
    >>> table.against, table.rows[0].difference.difference < 0
    ('popularity', True)
    """
    records = [[RunFolder(folder).record() for folder in e.folders] for e in entrants]
    first, protocol = records[0][0], entrants[0].experiments[0].protocol
    for entrant, own in zip(entrants, records, strict=True):
        for record in own:
            require_one_data((entrants[0].name, entrant.name), (first, record))
    files = [[RunFolder(folder) for folder in entrant.folders] for entrant in entrants]
    ranks = [[read_ranks(one.verified(one.ranks_file)) for one in several] for several in files]
    values = []
    for several in ranks:
        user_E, value_E = per_user_over_seeds([r.full for r in several], metric, protocol.ties)
        values.append(value_E)
    base = choose(against, [e.name for e in entrants], [float(v.mean()) for v in values])
    tests = {
        e.name: paired_bootstrap(value_E, values[base])
        for place, (e, value_E) in enumerate(zip(entrants, values, strict=True))
        if place != base
    }
    adjusted = holm({name: test.p_value for name, test in tests.items()})
    names = tuple(dict.fromkeys((metric, *SHOWN)))
    rows = tuple(
        Row(
            name=entrant.name,
            value=float(value_E.mean()),
            spread=Spread.of([metric_of(r.full, metric, protocol.ties) for r in several]),
            metrics=_mean([measured(r, names, protocol.ties) for r in several]),
            difference=tests.get(entrant.name),
            p_holm=adjusted.get(entrant.name),
            seeds=tuple(e.seed for e in entrant.experiments),
            selected_rounds=tuple(record.selected_round for record in own),
            cost=own[0].cost.model_dump(mode="json"),
            runs=tuple(str(folder) for folder in entrant.folders),
            privacy="; ".join(dict.fromkeys(record.privacy.text for record in own)),
        )
        for entrant, several, value_E, own in zip(entrants, ranks, values, records, strict=True)
    )
    return Comparison(
        metric=metric,
        dataset=first.dataset,
        protocol=protocol.name,
        clean=protocol.is_clean,
        split=first.split,
        against=entrants[base].name,
        users=len(user_E),
        rows=rows,
        reference=_references(first, entrants[0].experiments[0], files[0][0], names),
        notes=(
            *first.cautions,
            *_notes(rows),
            *_selection_notes(entrants),
            *_spending_notes(rows),
            *sampled_notes(protocol.sampled),
            *_old(files),
        ),
    )


def _selection_notes(entrants: Sequence[Entrant]) -> list[str]:
    """Which rows are of a last round, where others are of the best one."""
    last = [e.name for e in entrants if e.experiments[0].protocol.select == "last"]
    if not last or len(last) == len(entrants):
        return []
    names = ", ".join(last)
    return [f"Validation chose no round of {names}: the last one counts; it chose for the others."]


def _spending_notes(rows: Sequence[Row]) -> list[str]:
    """What several seeds of a run with a guarantee spend: each is a release of its own."""
    several = [row for row in rows if len(row.seeds) > 1 and row.privacy != NO_GUARANTEE]
    if not several:
        return []
    return [several_releases([row.name for row in several])]


def measured(evaluation: Evaluation, names: Sequence[str], ties: Any) -> Values:
    """Some metrics of both rankings.

    >>> from tacit.evaluation.ranks import Ranks
    >>> full = Ranks(*np.array([[0], [1], [2], [0], [10]]), "test", "full")
    >>> measured(Evaluation(full, full), ["HR@2", "HR@3"], "expected")["full"]
    {'HR@2': 0.0, 'HR@3': 1.0}
    """
    return {
        "full": {name: metric_of(evaluation.full, name, ties) for name in names},
        "sampled99": {name: metric_of(evaluation.sampled, name, ties) for name in names},
    }


def _mean(several: Sequence[Values]) -> Values:
    return {
        kind: {name: float(np.mean([one[kind][name] for one in several])) for name in values}
        for kind, values in several[0].items()
    }


def _references(
    record: RunRecord, experiment: Experiment, folder: RunFolder, names: Sequence[str]
) -> dict[str, Values]:
    """Popularity and chance: as the first run stored them, or computed if it did not."""
    if all(name in record.reference.full.popularity for name in names):
        stored = {kind: record.reference.of(kind) for kind in RANKINGS}
        return {
            "popularity": {kind: _some(one.popularity, names) for kind, one in stored.items()},
            "chance": {kind: _some(one.chance, names) for kind, one in stored.items()},
        }
    split = prepare_again(experiment, folder, record).split
    popular = popularity(split.train, split.test)
    return {
        "popularity": measured(popular, names, experiment.protocol.ties),
        "chance": measured(chance(split.test), names, "expected"),
    }


def _some(values: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    return {name: values[name] for name in names}


def _old(files: Sequence[Sequence[RunFolder]]) -> list[str]:
    return [f"{str(one.path)!r}: {OLD}" for several in files for one in several if one.is_old]


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    notes = []
    if all(len(row.seeds) == 1 for row in rows):
        notes.append("One seed each: how much a result depends on its seed is not known.")
    elif len({row.seeds for row in rows}) > 1:
        notes.append("The rows have different seeds.")
    return tuple(notes)


# A comparison in words: sentences, and a table in Markdown.


def protocol_warning(protocol: str, clean: bool) -> str:
    """What stands beside numbers that are not clean; nothing beside clean ones.

    >>> protocol_warning("pfedrec", False)
    '[pfedrec protocol: not comparable with clean]'
    """
    return "" if clean else f"[{protocol} protocol: not comparable with clean]"


def difference_text(interval: Interval | None) -> str:
    """The difference to the tested-against method, with its interval.

    >>> difference_text(Interval(0.01, 0.002, 0.018, p_value=0.03))
    '+0.0100 [+0.0020, +0.0180]'
    """
    if interval is None:
        return DASH
    return f"{interval.difference:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"


def p_text(value: float | None) -> str:
    """
    >>> p_text(0.0002), p_text(0.031), p_text(None)
    ('< 0.001', '0.031', '–')
    """
    if value is None:
        return DASH
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def spread_text(spread: Spread) -> str:
    """The standard deviation over seeds, and of how many.

    >>> spread_text(Spread.of([0.1, 0.3]))
    '±0.1414 (2)'
    """
    deviation = spread.deviation
    return DASH if deviation is None else f"±{deviation:.4f} ({spread.seeds})"


def sentences(comparison: Comparison) -> list[str]:
    """What the tests say, one sentence for each method.

    >>> from tacit.study.compare import Row
    >>> test = Interval(0.01, -0.002, 0.022, 0.2)
    >>> row = Row("a", 0.2, Spread(0.2, None, 1), {}, test, 0.2, (), (), {}, (), "no guarantee")
    >>> sentences(Comparison("HR@10", "few", "clean", True, "by time", "b", 9, (row,), {}, ()))
    ['a and b cannot be told apart in HR@10 (p = 0.200 after Holm).']
    """
    said = []
    for row in comparison.rows:
        if row.difference is None or row.p_holm is None:
            continue
        against, amount = comparison.against, abs(row.difference.difference)
        if row.p_holm < 0.05:
            verb = "is above" if row.difference.difference > 0 else "is below"
            said.append(
                f"{row.name} {verb} {against} by {metric_text(amount)} in {comparison.metric} "
                f"(p {_p_words(row.p_holm)} after Holm)."
            )
        else:
            said.append(
                f"{row.name} and {against} cannot be told apart in {comparison.metric} "
                f"(p {_p_words(row.p_holm)} after Holm)."
            )
    return said


def _p_words(value: float) -> str:
    text = p_text(value)
    return text if text.startswith("<") else f"= {text}"


def other_columns(metric: str) -> dict[str, tuple[str, str]]:
    """Columns beside the tested metric, by ranking and name; none is there twice.

    >>> list(other_columns("NDCG@10")), list(other_columns("MRR@5"))[:2]
    (['HR@10, full', 'HR@10, 99 sampled'], ['HR@10, full', 'NDCG@10, full'])
    """
    columns = {
        "HR@10, full": ("full", "HR@10"),
        "NDCG@10, full": ("full", "NDCG@10"),
        "HR@10, 99 sampled": ("sampled99", "HR@10"),
    }
    return {title: at for title, at in columns.items() if at != ("full", metric)}


def as_markdown(comparison: Comparison) -> str:
    """The file `compare.md`.

    >>> as_markdown(Comparison("HR@10", "few", "clean", True, "by time", "b", 9, (), {}, ()))[:27]
    '# few, protocol clean, spli'
    """
    metric, against = comparison.metric, comparison.against
    others = other_columns(metric)
    header = [
        "Method",
        f"{metric}, full",
        "Spread over seeds",
        f"Against {against} (95 %)",
        "p (Holm)",
        *others,
        "Bytes up per client and round",
        "Privacy",
    ]
    body = [
        [
            row.name,
            metric_text(row.value),
            spread_text(row.spread),
            difference_text(row.difference),
            p_text(row.p_holm),
            *(metric_text(row.metrics[kind][name]) for kind, name in others.values()),
            bytes_text(row.bytes_up),
            row.privacy,
        ]
        for row in comparison.rows
    ]
    for name, values in comparison.reference.items():
        body.append(
            [
                f"*{name}* (reference)",
                metric_text(values["full"][metric]),
                *[DASH] * 3,
                *(metric_text(values[kind][name]) for kind, name in others.values()),
                *[DASH] * 2,
            ]
        )
    protocol = f"protocol {comparison.protocol}, split {comparison.split}"
    title = f"# {comparison.dataset}, {protocol}"
    warning = protocol_warning(comparison.protocol, comparison.clean)
    lines = [title, "", *([f"**{warning}**", ""] if warning else [])]
    align = ["---"] + ["---:"] * (len(header) - 1)
    lines += [
        table_in_markdown(header, body, align=align),
        "",
        f"{comparison.users} users. Differences are means over users of {metric} averaged over "
        "seeds, with a paired bootstrap over users; the spread is the standard deviation over "
        "seeds (number of seeds in brackets).",
        "",
        *(f"- {sentence}" for sentence in (*sentences(comparison), *comparison.notes)),
    ]
    return "\n".join(lines).rstrip() + "\n"


# Several methods under one protocol: run what is missing, then compare user by user.


def compare(
    contenders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    seeds: int = 3,
    metric: str = "NDCG@10",
    against: str = "first",
    threads: int = 1,
    callbacks: Callbacks = (),
    **settings: Any,
) -> Comparison:
    """Compare methods (run with seeds 0, 1, …, each in `out/METHOD/seedK`) and finished runs.

    A method may carry plug-ins, as in "fedmf+clip:bound=1"; `settings` are arguments of `resolve`
    for all methods. Finished runs are reused, so a comparison that was stopped goes on. The table
    is written to `out` as `compare.json` and `compare.md`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = compare(["popularity", "random"], folder, seeds=1)
    >>> table.rows[1].difference.high < 0
    True
    """
    if isinstance(contenders, str | Path):
        contenders = [contenders]
    if seeds < 1:
        raise TacitError(f"seeds is {seeds}; run at least 1.")
    zero = np.zeros(1, dtype=np.int64)
    # on one made-up rank: a name that does not exist is refused before hours of training
    metric_of(Ranks(zero, zero, zero, zero, zero + 1, "test", "full"), metric)
    entrants = _entrants(contenders, out, seeds, settings)
    check_alike(entrants)
    choose(against, [entrant.name for entrant in entrants], [0.0] * len(entrants))
    study = Study([trial for entrant in entrants for trial in entrant.trials])
    study.run(threads=threads, callbacks=callbacks)
    comparison = tabulate(entrants, metric, against)
    if study.notes:
        comparison = replace(comparison, notes=(*comparison.notes, *study.notes))
    if out is not None:
        write_text(Path(out) / "compare.json", json.dumps(asdict(comparison), indent=1))
        write_text(Path(out) / "compare.md", as_markdown(comparison))
    return comparison


def check_alike(entrants: Sequence[Entrant]) -> None:
    """Refuse to put numbers of different data, splits or protocols into one table. Whether the best
    round is taken or the last one may differ: a note says so.

    >>> one, other = resolve("fedmf"), resolve("fedmf", split="random")
    >>> check_alike([Entrant("a", (one,), ()), Entrant("b", (other,), ())])
    Traceback (most recent call last):
    tacit.errors.TacitError: a and b do not compare: protocol.split.order is 'time' for the one \
and 'random' for the other; run both under the same.
    """
    one = entrants[0]
    for other in entrants[1:]:
        first, second = (entrant.experiments[0] for entrant in (one, other))
        rules = [replace(experiment.protocol, select="best") for experiment in (first, second)]
        pairs: dict[str, tuple[Any, Any]] = {
            "data": (first.data, second.data),
            "protocol": (rules[0], rules[1]),
        }
        for part, (a, b) in pairs.items():
            if a != b:
                path, x, y = _first_difference(a, b, part)
                raise TacitError(
                    f"{one.name} and {other.name} do not compare: {path.removesuffix('.name')} is "
                    f"{x!r} for the one and {y!r} for the other; run both under the same."
                )


def _first_difference(a: Any, b: Any, path: str) -> tuple[str, Any, Any]:
    if is_dataclass(a):
        for field in fields(a):
            x, y = getattr(a, field.name), getattr(b, field.name)
            if x != y:
                return _first_difference(x, y, f"{path}.{field.name}")
    return path, a, b


def _entrants(
    contenders: Sequence[str | Path], out: str | Path | None, seeds: int, settings: dict[str, Any]
) -> list[Entrant]:
    entrants: list[Entrant] = []
    runs: dict[Experiment, Entrant] = {}  # by the experiment without its seed
    for contender in contenders:
        name, *plugins = re.split(r"\+(?=[a-z_])", str(contender))  # 1e+5 is a number
        folder = Path(contender)
        if name not in METHODS and (folder.is_dir() or len(folder.parts) > 1):
            experiment = RunFolder(folder).experiment()
            RunFolder(folder).record()
            key = replace(experiment, seed=0)
            known = runs.get(key)
            runs[key] = _with_run(known, experiment, folder, entrants)
            if known is None:
                entrants.append(runs[key])
            else:
                entrants[entrants.index(known)] = runs[key]
        else:
            entrants.append(_to_run(name, plugins, out, seeds, settings))
    names = [entrant.name for entrant in entrants]
    if len(names) < 2:
        raise TacitError("A comparison needs at least two methods; name another one.")
    for name in names:
        if names.count(name) > 1:
            raise TacitError(f"{name} is there twice; name each method once.")
    if settings and len(runs) == len(entrants):
        raise TacitError(
            f"{argument(min(settings))} says how to run methods, but only finished runs "
            "are given; leave it out."
        )
    return entrants


def _with_run(
    known: Entrant | None, experiment: Experiment, folder: Path, entrants: Sequence[Entrant]
) -> Entrant:
    """A finished run as a new entrant, or as one more seed of a known one."""
    if known is None:
        name = experiment.label
        if name in [entrant.name for entrant in entrants]:  # same parts, other settings
            name = f"{name} ({folder.name})"
        return Entrant(name, (experiment,), (folder,))
    if experiment in known.experiments:
        twin = known.folders[known.experiments.index(experiment)]
        raise TacitError(
            f"{str(twin)!r} and {str(folder)!r} hold the same run (seed {experiment.seed}); give "
            "one of them."
        )
    return Entrant(known.name, (*known.experiments, experiment), (*known.folders, folder))


def _to_run(
    name: str,
    plugins: Sequence[str],
    out: str | Path | None,
    seeds: int,
    settings: dict[str, Any],
) -> Entrant:
    every = [*plugins, *settings.get("plugins", ())]
    given = {key: value for key, value in settings.items() if key != "plugins"}
    experiments = tuple(resolve(name, plugins=every, seed=seed, **given) for seed in range(seeds))
    if out is None:
        raise TacitError(f"{name} has to be run; say where its runs go with {argument('out')}.")
    place = Path(out) / slug(experiments[0].label)
    folders = tuple(place / f"seed{experiment.seed}" for experiment in experiments)
    return Entrant(experiments[0].label, experiments, folders)
