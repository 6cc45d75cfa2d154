"""Canaries: marked histories and private parameters, followed into uploads and the server's state.

A value that was put on one device and is found elsewhere, bit by bit, has leaked. What a method
sends on purpose stands in its disclosure, which is derived from the upload itself; a history that
can be read off an upload must stand there too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from tacit.core.algorithm import Algorithm
from tacit.core.types import WAITING, Params, Upload
from tacit.data.views import TrainView
from tacit.engines.clients import sample_of
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody

WIDE = torch.float64  # where two values that are equal by chance are not to be expected


def copies(values: Iterable[Tensor], canary_C: np.ndarray) -> int:
    """How many entries of some tensors are one of the canaries, up to their sign; zeros do not
    count.

    >>> copies([torch.tensor([0.0, 1.5, 2.5])], np.array([0.0, 2.5]))
    1
    """
    marked = np.abs(canary_C[canary_C != 0])
    found = [np.abs(value.detach().double().numpy()).ravel() for value in values]
    return int(np.isin(np.concatenate([np.zeros(0), *found]), marked).sum())


def reveals_history(upload: Upload, history_H: np.ndarray, n_items: int) -> list[str]:
    """The parameters of an upload off which the history can be read.

    Either the item codes stand there as numbers, or what is not zero along an axis over all items
    is exactly the history.

    >>> told = {"ids": torch.tensor([4.0, 1.0]), "row": torch.tensor([0.0, 2, 0, 0, 9])}
    >>> reveals_history(Upload(torch.arange(2), told), np.array([4, 1]), 5)
    ['ids', 'row']
    """
    found, item_K = [], np.unique(history_H)
    for name, value in upload.change.items():
        numbers = value.detach().double().numpy()
        all_there = len(item_K) > 1 and bool(np.isin(item_K, numbers).all())
        ids = all_there and bool(np.isin(numbers, [0, *item_K]).all())
        if ids or any(np.array_equal(own_K, item_K) for own_K in _patterns(numbers, n_items)):
            found.append(name)
    return found


def _patterns(numbers: np.ndarray, n_items: int) -> Iterable[np.ndarray]:
    """The items with anything that is not zero, along every axis over all items."""
    for axis, length in enumerate(numbers.shape):
        if length == n_items:
            by_item_IX = np.moveaxis(numbers, axis, 0).reshape(n_items, -1)
            yield np.flatnonzero(by_item_IX.any(axis=1))


def follow(algorithm: Algorithm, train: TrainView, rounds: int = 3) -> None:
    """Fail where a marked value of one device is found in an upload or in the server's state, or
    where an upload shows a history and the disclosure does not say so."""
    uploads: list[tuple[int, Upload]] = []
    engine = LoopEngine(WIDE, uploads)
    state = engine.start(algorithm, train, seed=0)
    generator = torch.Generator().manual_seed(7)
    disclosure = algorithm.disclosure(lambda: sample_of(algorithm, train, state, seed=0))
    told = {one.name for one in disclosure.sent}
    made = set(algorithm.made_by_server)
    # what waits to be sent is no secret: it is part of a later upload
    kept = {name for name in set(algorithm.private) - told - made if not name.endswith(WAITING)}
    for name in kept:
        mark = torch.randn(state.private[name].shape, generator=generator, dtype=WIDE)
        state.private[name] += 1e-3 * mark
    owned_up = {one.name for one in disclosure.sent if one.private}
    for number in range(1, rounds + 1):
        before = _values(state.private, kept)
        engine.round(algorithm, train, state, everybody(train), seed=0)
        canaries = np.concatenate([before, _values(state.private, kept)])
        changes = [change for _, upload in uploads for change in upload.change.items()]
        sent = [value for name, value in changes if name not in owned_up]
        assert not copies(sent, canaries), f"round {number}: a private value is in an upload"
        held = [value for name, value in state.shared.items() if name not in owned_up]
        held += list(state.server.values())
        assert not copies(held, canaries), f"round {number}: a private value is on the server"
    declared = {one.name for one in disclosure.sent if one.by_history}
    for user, upload in uploads:
        shown = reveals_history(upload, train.positives[user], algorithm.task.n_items)
        assert set(shown) <= declared, f"{shown} show a history, which the disclosure does not say"


def _values(private: Params, names: set[str]) -> np.ndarray:
    return np.concatenate(
        [np.zeros(1), *(private[name].double().numpy().ravel() for name in names)]
    )
