"""From finished runs to the rows of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.evaluation.metrics import metric as metric_of
from tacit.evaluation.ranking import Evaluation
from tacit.evaluation.references import chance, popularity
from tacit.evaluation.significance import Spread, holm, paired_bootstrap, per_user_over_seeds
from tacit.experiment.comparison import Comparison, Entrant, Row, Values, choose
from tacit.experiment.data_record import OLD, prepare_again, require_one_data
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import cautions_of
from tacit.experiment.reading import guarantee_words, sampled_notes
from tacit.experiment.result import read_ranks
from tacit.experiment.spec import Experiment

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
    results = [[RunFolder(folder).result() for folder in e.folders] for e in entrants]
    first, protocol = results[0][0], entrants[0].experiments[0].protocol
    for entrant, own in zip(entrants, results, strict=True):
        for result in own:
            require_one_data((entrants[0].name, entrant.name), (first, result))
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
            selected_rounds=tuple(result["selected_round"] for result in own),
            cost=own[0]["cost"],
            runs=tuple(str(folder) for folder in entrant.folders),
            privacy=guarantee_words(own[0]["privacy"]),
        )
        for entrant, several, value_E, own in zip(entrants, ranks, values, results, strict=True)
    )
    return Comparison(
        metric=metric,
        dataset=first["dataset"],
        protocol=protocol.name,
        clean=protocol.is_clean,
        split=first["split"],
        against=entrants[base].name,
        users=len(user_E),
        rows=rows,
        reference=_references(first, entrants[0].experiments[0], files[0][0], names),
        notes=(*cautions_of(first), *_notes(rows), *sampled_notes(protocol.sampled), *_old(files)),
    )


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
    result: dict[str, Any], experiment: Experiment, folder: RunFolder, names: Sequence[str]
) -> dict[str, Values]:
    """Popularity and chance: as the first run stored them, or computed if it did not."""
    stored = result["reference"]
    if all(name in stored["full"]["popularity"] for name in names):
        return {
            row: {kind: {n: stored[kind][row][n] for n in names} for kind in stored}
            for row in ("popularity", "chance")
        }
    split = prepare_again(experiment, folder, result).split
    popular = popularity(split.train, split.test)
    return {
        "popularity": measured(popular, names, experiment.protocol.ties),
        "chance": measured(chance(split.test), names, "expected"),
    }


def _old(files: Sequence[Sequence[RunFolder]]) -> list[str]:
    return [f"{str(one.path)!r}: {OLD}" for several in files for one in several if one.is_old]


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    notes = []
    if all(len(row.seeds) == 1 for row in rows):
        notes.append("One seed each: how much a result depends on its seed is not known.")
    elif len({row.seeds for row in rows}) > 1:
        notes.append("The rows have different seeds.")
    return tuple(notes)
