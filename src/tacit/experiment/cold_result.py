"""The part of a result that only runs on untouched items have."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.core.method import Method
from tacit.evaluation.cold import mean_scores, ndcg_index_order, top_shares
from tacit.evaluation.metrics import summary
from tacit.evaluation.ranking import Evaluation, rank, rank_one_list
from tacit.experiment.course import Course
from tacit.experiment.federated_course import FederatedCourse
from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment

CUTOFFS = (20, 50, 100)
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
    top_EK = rank(scores, held_out, top=max(CUTOFFS), threads=threads).top_EK
    assert top_EK is not None
    figures: dict[str, Any] = {
        "metrics": summary(test.full, CUTOFFS, NAMES, ties),
        "same_for_all": summary(everybody.full, CUTOFFS, NAMES, ties),
        "ndcg_index_order": {f"NDCG@{k}": ndcg_index_order(top_EK, held_out, k) for k in CUTOFFS},
        "top_shares": top_shares(held_out),
    }
    absent_I = _without_content(experiment, prepared)
    if absent_I is not None:
        some = test.full.where(absent_I[test.full.item_H])
        figures["without_content"] = {
            "items": int(absent_I[np.unique(held_out.relevant.item_N)].sum()),
            "held_out": len(some),
            "metrics": summary(some, CUTOFFS, NAMES, ties) if len(some) else {},
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
        found.append(summary(ranks, CUTOFFS, NAMES, ties))
    return found
