"""The result of a run: metrics with their references, breakdown, cost, privacy, provenance."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tacit.core.method import Method
from tacit.data.dataset import Dataset
from tacit.data.protocol import Protocol
from tacit.data.sampling import DrawnNegatives
from tacit.data.split import settled
from tacit.errors import TacitError
from tacit.evaluation.metrics import parse_metric, summary
from tacit.evaluation.ranking import Evaluation, rank, rank_one_list
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.references import (
    by_warmth,
    chance,
    item_coverage,
    mean_popularity,
    mean_scores,
    ndcg_index_order,
    never_sampled,
    popularity,
    top_shares,
)
from tacit.experiment.interpretation import sampled_notes
from tacit.experiment.plugins import habit_notes, plugin_notes
from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import CentralCourse, Course, FederatedCourse
from tacit.files import whole_file

# The part of a result that only runs on untouched items have.

COLD_CUTOFFS = (20, 50, 100)
NAMES = ("Recall", "Precision", "NDCG")
DRAWS = 5  # of noise, where a generator has any


def cold_result(
    experiment: Experiment, prepared: Prepared, course: Course, test: Evaluation, threads: int
) -> dict[str, Any]:
    """Recall, precision and NDCG at 20, 50 and 100; the list that is the same for everybody; other
    draws of noise; items without content apart; how few items hold the interactions."""
    held_out, ties = prepared.split.test, experiment.protocol.ties
    scores = course.best_scores()
    everybody = rank_one_list(mean_scores(scores, held_out.user_E), held_out)
    top_EK = rank(scores, held_out, top=max(COLD_CUTOFFS), threads=threads).top_EK
    assert top_EK is not None
    figures: dict[str, Any] = {
        "metrics": summary(test.full, COLD_CUTOFFS, NAMES, ties),
        "same_for_all": summary(everybody.full, COLD_CUTOFFS, NAMES, ties),
        "ndcg_index_order": {
            f"NDCG@{k}": ndcg_index_order(top_EK, held_out, k) for k in COLD_CUTOFFS
        },
        "top_shares": top_shares(held_out),
    }
    absent_I = _without_content(experiment, prepared)
    if absent_I is not None:
        some = test.full.where(absent_I[test.full.item_H])
        figures["without_content"] = {
            "items": int(absent_I[np.unique(held_out.relevant.item_N)].sum()),
            "held_out": len(some),
            "metrics": summary(some, COLD_CUTOFFS, NAMES, ties) if len(some) else {},
        }
    if isinstance(course, FederatedCourse) and course.generator_seconds:
        figures["generator_seconds_a_round"] = float(np.mean(course.generator_seconds))
    draws = _draws(course, prepared, ties, threads)
    if draws:
        figures["draws"] = {
            name: {
                "mean": float(np.mean([one[name] for one in draws])),
                "deviation": float(np.std([one[name] for one in draws], ddof=1)),
            }
            for name in draws[0]
        } | {"number": len(draws)}
    return figures


def _without_content(experiment: Experiment, prepared: Prepared) -> np.ndarray | None:
    """True where an item has none of the content that the generator reads; None if all have it."""
    method = experiment.method
    if not isinstance(method, Method) or method.cold is None:
        return None
    content = prepared.split.train.content
    tables = [content[name] for name in method.cold.features.modalities if name in content]
    if not tables:
        return None
    absent_I = ~np.any([table.present_I for table in tables], axis=0)
    return absent_I if absent_I.any() else None


def _draws(course: Course, prepared: Prepared, ties: Any, threads: int) -> list[dict[str, float]]:
    if not isinstance(course, FederatedCourse):
        return []
    found = []
    for draw in range(DRAWS):
        scores = course.draw_scores(draw)
        if scores is None:
            return []
        ranks = rank(scores, prepared.split.test, threads=threads).full
        found.append(summary(ranks, COLD_CUTOFFS, NAMES, ties))
    return found


# The result of a run: metrics with their references, breakdown, cost, privacy, provenance.

CANDIDATES = {"full": "full", "sampled": "sampled99"}  # in ranks, and in results
CUTOFFS = (5, 10, 20, 50, 100)


def write_ranks(path: Path, evaluation: Evaluation, dataset: Dataset) -> None:
    """Both rankings in one parquet file, with original ids, whole or not at all."""
    users, items = dataset.interactions.users, dataset.interactions.items
    table = pl.concat([r.frame(users, items) for r in (evaluation.full, evaluation.sampled)])
    with whole_file(path, library_errors=(pl.exceptions.PolarsError,)) as temporary:
        table.write_parquet(temporary)


def read_ranks(path: Path) -> Evaluation:
    """What `write_ranks` wrote."""
    if not path.is_file():
        raise TacitError(f"No ranks at {str(path)!r}; the run is not finished, or a file is lost.")
    parts = {}
    try:
        table = pl.read_parquet(path)
        for name in CANDIDATES:
            rows = table.filter(pl.col("candidate_set") == name)
            parts[name] = Ranks(
                rows["user"].to_numpy(),
                rows["item"].to_numpy(),
                rows["above"].to_numpy(),
                rows["tied"].to_numpy(),
                rows["candidates"].to_numpy(),
                "test",
                name,  # type: ignore[arg-type]
            )
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise TacitError(f"{str(path)!r} is damaged and cannot be read; train again.") from error
    return Evaluation(parts["full"], parts["sampled"])


def cutoffs_of(protocol: Protocol) -> list[int]:
    """The usual cut-offs, and the one at which the protocol selects.

    >>> cutoffs_of(Protocol(select_metric="HR@15"))
    [5, 10, 15, 20, 50, 100]
    """
    return sorted({*CUTOFFS, parse_metric(protocol.select_metric)[1]})


def summaries(
    evaluation: Evaluation, ties: Any, cutoffs: Sequence[int] = CUTOFFS
) -> dict[str, dict[str, float]]:
    """HR, Recall and NDCG of both rankings, under the names that results use."""
    return {
        "full": summary(evaluation.full, cutoffs, ties=ties),
        "sampled99": summary(evaluation.sampled, cutoffs, ties=ties),
    }


def references(
    prepared: Prepared,
    drawn: DrawnNegatives,
    ties: Any,
    cutoffs: Sequence[int] = CUTOFFS,
    threads: int = 1,
) -> dict[str, dict[str, dict[str, float]]]:
    """Popularity, chance and the never-sampled oracle under the same candidates and mask."""
    train, test = prepared.split.train, prepared.split.test
    oracle = never_sampled(drawn, test, threads)
    rows = {
        "popularity": summaries(popularity(train, test), ties, cutoffs),
        # a tie rule says nothing of chance: that is the expectation over orders, by definition
        "chance": summaries(chance(test), "expected", cutoffs),
        "never_sampled": summaries(oracle, "expected", cutoffs),
    }
    return {kind: {name: row[kind] for name, row in rows.items()} for kind in CANDIDATES.values()}


def make_result(
    experiment: Experiment,
    prepared: Prepared,
    course: Course,
    test: Evaluation,
    *,
    rounds_run: int,
    selected_round: int,
    selected_value: float,
    seconds: float,
    cpu_seconds: float,
    threads: int,
    folder: Path,
) -> dict[str, Any]:
    """Everything that `run.json` holds; `--json` prints the same object. `test` has the selected
    round's ranks, and top lists of ten."""
    protocol, split = experiment.protocol, prepared.split
    assert test.top_EK is not None
    popularity_I = split.train.popularity_I()
    cutoffs, drawn = cutoffs_of(protocol), course.drawn(selected_round)
    shares = by_warmth(test.full, popularity_I, cutoffs, ties=protocol.ties)
    rule = settled(protocol.split, prepared.dataset)
    kind = "full-ranking" if protocol.select_on == "full" else "sampled-candidates"
    more: dict[str, Any] = {}
    if split.train.warm_W is not None:
        more["cold"] = cold_result(experiment, prepared, course, test, threads)
    return more | {
        "method": experiment.name,
        "plugins": list(experiment.plugins),
        "dataset": experiment.data.name,
        "protocol": protocol.name,
        "clean": protocol.is_clean,
        "split": rule.text,
        "preset": experiment.preset,
        "seed": experiment.seed,
        # what validation chose among: a closed form has settings where others have rounds
        "unit": "setting" if isinstance(course, CentralCourse) else "round",
        "rounds": experiment.rounds,
        "rounds_run": rounds_run,
        "selected_round": selected_round,
        "selection": (
            f"{kind} validation {protocol.select_metric}, {protocol.select_of_equals} of equals"
        ),
        "select_metric": protocol.select_metric,
        "engine": course.describe(),
        "run": str(folder),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "threads": threads,
        "metrics": summaries(test, protocol.ties, cutoffs),
        "reference": references(prepared, drawn, protocol.ties, cutoffs, threads),
        "breakdown": {
            name: {
                "users": s.users,
                "held_out": s.held_out,
                "full": dict(s.values),
                "adds": dict(s.adds),
            }
            for name, s in shares.items()
        },
        "beyond": {
            "coverage@10": item_coverage(test.top_EK, split.train.n_items),
            "mean_popularity@10": mean_popularity(test.top_EK, popularity_I),
        },
        "privacy": {
            "guarantee": "none",
            "epsilon": None,
            "delta": None,
            "server_reads": course.server_reads(),
        },
        "cost": course.cost(selected_round),
        "counts": dict(split.counts),
        "steps": [
            {"rule": s.rule, "before": dict(s.before), "after": dict(s.after)}
            for s in prepared.dataset.steps
        ],
        "notes": [
            *prepared.dataset.notes,
            *habit_notes(experiment),
            *plugin_notes(experiment),
            *sampled_notes(protocol.sampled),
        ],
        "test_released": {"round": selected_round, "validation_value": selected_value},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("tacit", "torch", "numpy", "numba", "polars")},
        },
    }
