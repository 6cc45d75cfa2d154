"""The mean of some users' tables, read where they lie, compiled."""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled


def mean_table(table_UID: np.ndarray, user_P: np.ndarray) -> np.ndarray:
    """In float64, in the order of the users.

    >>> mean_table(np.array([[[1.0]], [[5.0]], [[2.0]]], dtype=np.float32), np.array([0, 2]))
    array([[1.5]])
    """
    total_F = np.zeros(table_UID.shape[1] * table_UID.shape[2])
    _add(table_UID.reshape(len(table_UID), -1), user_P, total_F)
    return (total_F / len(user_P)).reshape(table_UID.shape[1:])


@compiled(error_model="numpy")
def _add(table_UF, user_P, total_F):  # type: ignore[no-untyped-def]
    for user in user_P:
        table_F = table_UF[user]
        for f in range(len(total_F)):
            total_F[f] += table_F[f]
