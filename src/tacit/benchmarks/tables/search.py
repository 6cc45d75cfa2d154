"""Settings are chosen on validation, before any test value of their cells exists.

The loop here is not the one of `experiment.run`: it never ranks the test part, so there is nothing
that a choice could look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

from tacit.benchmarks.tables.cells import Place, digest, experiment_of
from tacit.benchmarks.tables.definition import Setting, Table
from tacit.errors import NoRoomError, TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.run import RunInterruptedError, Silent, Watcher
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import course_of

SEARCH_SEED = 0


def try_setting(
    experiment: Experiment, prepared: Prepared, threads: int = 1, watch: Watcher | None = None
) -> dict[str, Any]:
    """The best validation value over the rounds; a setting that diverges keeps what it had.

    >>> from tacit.experiment.resolve import resolve
    >>> one = resolve("popularity")
    >>> try_setting(one, prepare(one))["round"]
    1
    """
    watch, started = watch or Silent(), perf_counter()
    protocol, valid = experiment.protocol, prepared.split.valid
    ranking = "full" if protocol.select_on == "full" else "sampled99"
    course = course_of(experiment, prepared.split.train, threads)
    best, best_round, stopped = -math.inf, 0, None
    watch.begin(experiment, prepared, course.describe(), course.rounds)
    try:
        for number in range(1, course.rounds + 1):
            course.advance()
            record: dict[str, Any] = {"round": number, "loss": course.loss}
            if number % experiment.evaluate_every == 0 or number == course.rounds:
                ranks = rank(course.scores(), valid)
                chosen = ranks.full if ranking == "full" else ranks.sampled
                value = metric(chosen, protocol.select_metric, ties=protocol.ties)
                record["valid"] = {ranking: {protocol.select_metric: value}}
                if value > best:
                    best, best_round = value, number
            watch.round(record, best if best_round else None)
    except (RunInterruptedError, NoRoomError):
        raise
    except TacitError as error:  # it diverged: what it reached before stands
        stopped = str(error)
    finally:
        watch.end()
    return {
        "validation": best if best_round else None,
        "round": best_round,
        "stopped": stopped,
        "seconds": perf_counter() - started,
    }


def best_of(tried: list[dict[str, Any]]) -> int | None:
    """The setting with the best validation value, the first of equals; None if all diverged.

    >>> best_of([{"validation": 0.1}, {"validation": None}, {"validation": 0.3}])
    2
    """
    values = [-math.inf if t["validation"] is None else t["validation"] for t in tried]
    return values.index(max(values)) if max(values) > -math.inf else None


def withdraw(note: dict[str, Any]) -> None:
    """Take the choice back because its run, longer than the search, diverged; what was tried stays
    written down.

    >>> note = {"tried": [{"validation": 0.3}, {"validation": 0.1}], "chosen": 0}
    >>> withdraw(note)
    >>> note["tried"][0], best_of(note["tried"])
    ({'validation': None, 'before_it_diverged': 0.3}, 1)
    """
    tried = note["tried"][note.pop("chosen")]
    tried["before_it_diverged"], tried["validation"] = tried["validation"], None


def later_note(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """Of two notes on a place, the one that knows more: a choice that was taken back stays so.

    >>> taken_back = {"digest": "d", "tried": [{"validation": None, "before_it_diverged": 0.3}]}
    >>> later_note(taken_back, {"digest": "d", "tried": [{"validation": 0.3}]}) is taken_back
    True
    """
    if one is None or one["digest"] != other["digest"]:
        return other

    def known(note: dict[str, Any]) -> tuple[int, int]:
        return len(note["tried"]), sum("before_it_diverged" in tried for tried in note["tried"])

    return one if known(one) > known(other) else other


def chosen_setting(
    table: Table, place: Place, choices: dict[str, dict[str, Any]]
) -> Setting | None:
    """The setting that was chosen for a place by its present definition; None if not yet."""
    if len(place.settings) < 2:
        return place.settings[0]
    note = choices.get(place.key)
    if note is None or note["digest"] != mark_of(table, place) or note.get("chosen") is None:
        return None
    return place.settings[note["chosen"]]


def choose(
    table: Table,
    place: Place,
    choices: dict[str, dict[str, Any]],
    save: Callable[[], None],
    threads: int = 1,
    watch: Watcher | None = None,
) -> Setting:
    """Try every setting of a place, with seed 0 and the table's shorter search; note the best.

    What was tried is saved one by one, so a search that was stopped goes on with the next setting.
    """
    known = chosen_setting(table, place, choices)
    if known is not None:
        return known
    row, mark = place.row, mark_of(table, place)
    experiments = [experiment_of(table, place, s, SEARCH_SEED, search=True) for s in place.settings]
    note = choices.get(place.key)
    if note is None or note["digest"] != mark:
        protocol = experiments[0].protocol
        by = f"{protocol.select_on}-ranking validation {protocol.select_metric}"
        note = {
            "digest": mark,
            "by": f"{by}, seed {SEARCH_SEED}, {row.search_rounds} of {row.rounds} rounds",
            "tried": [],
        }
        choices[place.key] = note
    prepared = prepare(experiments[0])
    for number in range(len(note["tried"]), len(place.settings)):
        found = try_setting(experiments[number], prepared, threads, watch)
        note["tried"].append({"sets": list(place.settings[number]), **found})
        save()
    best = best_of(note["tried"])
    if best is None:
        raise TacitError("Every setting diverged, in the search or in the run after it.")
    note["chosen"] = best
    save()
    return place.settings[best]


def mark_of(table: Table, place: Place) -> str:
    """A short name of all that is tried at a place; it changes with any of it."""
    tried = [experiment_of(table, place, s, SEARCH_SEED, search=True) for s in place.settings]
    return digest(tried)
