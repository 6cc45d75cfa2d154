"""A dataset in numbers: what `tacit data describe` prints."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.rules import first_of_pair


def describe(dataset: Dataset) -> dict[str, Any]:
    """Counts, sparsity, repeats, tied last times, modalities and steps, as plain values.

    >>> few = Interactions.from_ids(["a", "a", "b"], ["x", "y", "x"], time=[1, 1, 2])
    >>> about = describe(Dataset("few", few))
    >>> about["interactions"], about["sparsity"], about["tied_latest_share"]
    (3, 0.25, 0.5)
    """
    data = dataset.interactions
    rows_U = np.bincount(data.user_N, minlength=data.n_users)
    distinct = int(first_of_pair(data).sum())
    return {
        "name": dataset.name,
        **data.counts,
        "sparsity": 1.0 - distinct / (data.n_users * data.n_items),
        "rows_per_user": {
            "min": int(rows_U.min()),
            "median": float(np.median(rows_U)),
            "max": int(rows_U.max()),
        },
        "duplicates": len(data) - distinct,
        "has_time": data.time_N is not None,
        "has_ratings": data.value_N is not None,
        "has_labels": data.label_N is not None,
        "tied_latest_share": _tied_latest_share(data),
        "modalities": {
            name: {"width": table.value_IF.shape[1], "present": float(table.present_I.mean())}
            for name, table in dataset.modalities.items()
        },
        "texts": {
            name: sum(bool(text) for text in texts) / len(texts)
            for name, texts in dataset.texts.items()
        },
        "steps": [
            {"rule": step.rule, "before": dict(step.before), "after": dict(step.after)}
            for step in dataset.steps
        ],
        "notes": list(dataset.notes),
    }


def _tied_latest_share(data: Interactions) -> float | None:
    """The share of users whose latest time belongs to several rows; nothing without times."""
    if data.time_N is None:
        return None
    order = np.lexsort((data.time_N, data.user_N))
    last_U = np.cumsum(np.bincount(data.user_N, minlength=data.n_users)) - 1
    latest_U = data.time_N[order[last_U]]
    tied_U = np.bincount(data.user_N[data.time_N == latest_U[data.user_N]], minlength=data.n_users)
    return float((tied_U > 1).mean())
