"""Methods whose logits are sums over a history: the matrix and the weights that numpy ranks with.

A node keeps these, so that what was recorded a minute ago counts without torch (`ranking.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tacit.core.algorithm import ClientData
from tacit.engines.state import State
from tacit.node.play import OwnRun
from tacit.node.ranking import LinearScores

LARGEST_MATRIX = 2**28  # bytes of a matrix over pairs of items that a node keeps to rank with
OLDEST = 1024  # ages for which the weight of an item is kept


def linear_scores(run: OwnRun, state: State, score_UI: np.ndarray) -> LinearScores | None:
    """The matrix of a method whose logits are sums over the history, and the weight of each age;
    None where a method is no such sum, or the matrix is too large.

    Both are read off what single items bring. Scores made from them have to agree with those of the
    method, for all people here, or they are not taken.
    """
    running, train = run.running(None), run.train
    custom = running.custom
    method = None if custom is None else custom.linear
    size = train.n_items**2 * torch.empty(0, dtype=run.dtype).element_size()
    if custom is None or method is None or custom.method.recency is not None:
        return None
    if size > LARGEST_MATRIX:
        return None
    received = running.broadcast(state.shared, torch.tensor(0))
    count = train.n_items

    def brought(history_H: np.ndarray, order_H: np.ndarray) -> np.ndarray:
        nothing = torch.zeros(0, dtype=run.dtype)
        real_H = torch.ones(len(history_H), dtype=run.dtype)
        data = ClientData(
            torch.tensor(0),
            torch.from_numpy(history_H),
            real_H,
            nothing.long(),
            nothing,
            nothing,
            order_H=torch.from_numpy(order_H),
        )
        with torch.no_grad():
            return method.contributions(received, data).numpy()

    every = np.arange(count)
    matrix_II = brought(every, np.full(count, count - 1))  # each as if it were the latest
    loudest = int(np.abs(matrix_II).max(axis=1).argmax())
    weight_A = _weights_by_age(brought, matrix_II, loudest)
    histories = train.histories
    found = LinearScores(matrix_II, weight_A, histories.items.start_U1, histories.items.item_N)
    again_UI = np.stack([found.of(found.history(user)) for user in range(train.n_users)])
    away = np.abs(again_UI - score_UI).max(initial=0.0)
    agrees = away <= 1e-4 * max(1.0, float(np.abs(score_UI).max(initial=0.0)))
    return found if agrees else None


def _weights_by_age(brought: Any, matrix_II: np.ndarray, item: int) -> np.ndarray:
    """How much an item counts by how many came after it, from one item that stands at all ages."""
    row_I = matrix_II[item].astype(np.float64)
    peak = int(np.abs(row_I).argmax())
    if row_I[peak] == 0.0:
        return np.ones(1, matrix_II.dtype)
    aged_AI = brought(np.full(OLDEST, item), np.arange(OLDEST)[::-1].copy())
    weight_A = aged_AI[:, peak] / row_I[peak]
    return np.asarray(weight_A, dtype=matrix_II.dtype)
