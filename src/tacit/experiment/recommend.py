"""Recommendations from a finished run, for a known person or for one who joined afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.data.dataset import Dataset
from tacit.engines.chunks import one_torch_thread
from tacit.engines.explain import fused
from tacit.errors import TacitError, listed, shown
from tacit.experiment.explain import Reason, reasons
from tacit.experiment.person_scores import OpenRun, known_scores, newcomer_scores
from tacit.files import reading, refuse_special


@dataclass(frozen=True)
class Recommendation:
    """One line of a list: place, original item id, title where known, logit, and why it is there
    (where that was asked for, and an item is more than its id)."""

    rank: int
    item: str
    title: str | None
    score: float
    reason: Reason | None = None
    new: bool = False  # joined after training


@one_torch_thread()
def recommend(
    folder: str | Path,
    *,
    user: str | None = None,
    history: str | Path | None = None,
    k: int = 10,
    explain: bool = False,
) -> list[Recommendation]:
    """The best k items that the person does not have yet.

    `user` is an original id of the training data; `history` a file with one item id per line. With
    `explain`, items of a method that fuses ids and content come with a reason.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run(resolve("popularity"), Path(place) / "one")
    ...     best = recommend(Path(place) / "one", user="user-1", k=3)
    >>> [line.rank for line in best]
    [1, 2, 3]
    """
    if (user is None) == (history is None):
        raise TacitError("Give either --user ID or --history FILE.")
    if explain and user is None:
        raise TacitError("--explain is for a person of the training data; give --user ID.")
    if k < 1:
        raise TacitError(f"k is {k}; ask for at least 1 item.")
    run = OpenRun.of(folder)
    rows, new = run.prepared.dataset.interactions, run.new
    if user is not None:
        if user not in rows.users:
            raise TacitError(
                f"No user {shown(user)} in {run.experiment.data.name}; {_some(rows.users)}"
            )
        code = rows.users.index(user)
        known = np.unique(rows.item_N[rows.user_N == code])
        scores = known_scores(run, code)
    else:
        assert history is not None
        known = read_history(Path(history), run.prepared.dataset, run.existing_W)
        scores = newcomer_scores(run, known)
    scores = np.array(scores, dtype=np.float64)
    scores[known] = -np.inf
    best = np.argsort(-scores, kind="stable")[: min(k, len(scores) - len(known))]
    why: Mapping[int, Reason] = {}
    if explain and fused(run.experiment.method) is not None:
        why = _reasons(run, code, best)
    names = (*rows.items, *new.ids)
    known_titles = run.prepared.dataset.texts.get("title", (None,) * len(rows.items))
    titles = (*known_titles, *new.titles)
    return [
        Recommendation(
            place,
            names[item],
            titles[item],
            float(scores[item]),
            why.get(item),
            new=item >= len(rows.items),
        )
        for place, item in enumerate(best.tolist(), 1)
    ]


def read_history(path: Path, dataset: Dataset, existing_W: np.ndarray) -> np.ndarray:
    """Item codes of a file with one item id per line; an id that did not exist in training is
    refused."""
    refuse_special(path)
    if not path.is_file():
        raise TacitError(
            f"No file at {str(path)!r}; --history takes a file with one item id a line."
        )
    try:
        with reading(path, "--history takes a file with one item id a line"):
            content = path.read_bytes()
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise TacitError(
            f"{str(path)!r} is not a text file; write one item id per line."
        ) from error
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise TacitError(f"{str(path)!r} is empty; write one item id per line.")
    items = dataset.interactions.items
    code_of = {items[code]: code for code in existing_W.tolist()}
    for number, name in enumerate(ids, 1):
        if name not in code_of:
            raise TacitError(
                f"Item {shown(name)} (entry {number} of {str(path)!r}) is not in the catalogue; "
                f"{_some(items)}"
            )
    return np.unique([code_of[name] for name in ids])


def _some(names: tuple[str, ...]) -> str:
    return f"ids look like {listed(names[:3])}."


def _reasons(run: OpenRun, code: int, item_K: np.ndarray) -> dict[int, Reason]:
    """Reasons for items that existed in training; a row that was made for an item has none."""
    existing_W = run.existing_W
    there_L = np.intersect1d(item_K, existing_W)
    positives = run.prepared.split.train.positives.within(existing_W)
    place_L = np.searchsorted(existing_W, there_L)
    found = reasons(run.algorithm(), run.model(), code, positives[code], place_L)
    return dict(zip(there_L.tolist(), found, strict=True))
