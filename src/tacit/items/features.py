"""Content tables as an item encoder wants them: gaps filled only in the way it asks for."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tacit import streams
from tacit.data.modalities import FeatureTable, Modalities
from tacit.errors import TacitError

ID = "id"  # the input of an item that is no content: its row of the table


def prepared(
    content: Modalities | None,
    names: tuple[str, ...],
    missing: Literal["mean", "zero"],
    *,
    noise: tuple[str, ...] = (),
    shuffled: bool = False,
) -> dict[str, np.ndarray]:
    """One table (I, F) per name; rows that are not there become the mean of those that are, or 0.

    >>> value = np.array([[1.0], [3.0], [0.0]], np.float32)
    >>> table = FeatureTable(value, np.array([True, True, False]))
    >>> prepared(Modalities({"text": table}), ("text",), "mean")["text"].tolist()
    [[1.0], [3.0], [2.0]]
    """
    tables: dict[str, np.ndarray] = {}
    if content is None:
        return tables
    for name in names:
        value_IF = _filled(content[name], missing)
        if name in noise:
            value_IF = _noise_like(value_IF, name)
        if shuffled:
            generator = streams.numpy_generator(0, streams.WORLD, 0, streams.name_of("shuffled"))
            value_IF = value_IF[generator.permutation(len(value_IF))]  # all modalities alike
        tables[name] = np.ascontiguousarray(value_IF, dtype=np.float32)
    return tables


def width_of(name: str, content: Modalities | None) -> int:
    """How wide a modality is; 1 where no data has been looked at yet.

    >>> width_of("text", None)
    1
    """
    if content is None:  # no data was looked at yet
        return 1
    if name not in content:
        has = ", ".join(content) or "none"
        raise TacitError(
            f"The data has no content called {name!r} (it has: {has}); name others with "
            "items.modalities or cold.features.modalities, or make it with `tacit encode`."
        )
    return int(content[name].value_IF.shape[1])


def _filled(table: FeatureTable, missing: Literal["mean", "zero"]) -> np.ndarray:
    if missing == "zero" or table.present_I.all() or not table.present_I.any():
        return table.value_IF
    mean_F = table.value_IF[table.present_I].mean(axis=0)
    return np.where(table.present_I[:, None], table.value_IF, mean_F)


def _noise_like(value_IF: np.ndarray, name: str) -> np.ndarray:
    """One fixed draw per item, each of the norm of the row whose place it takes."""
    generator = streams.numpy_generator(0, streams.NOISE, 0, streams.name_of(f"content {name}"))
    drawn_IF = generator.normal(size=value_IF.shape)
    norm_I1 = np.linalg.norm(value_IF, axis=1, keepdims=True)
    return drawn_IF / np.linalg.norm(drawn_IF, axis=1, keepdims=True) * norm_I1
