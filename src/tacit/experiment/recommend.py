"""Recommendations from a finished run, for a known person or for one who joined afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit import streams
from tacit.core.central import TrainedCentralMethod
from tacit.core.compose import compose
from tacit.core.direct import DirectMethod
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.engines.direct_newcomer import direct_newcomer_scores
from tacit.engines.direct_scoring import DirectScorer
from tacit.engines.explain import fused
from tacit.engines.newcomer import newcomer_scores
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.checkpoint import load_state
from tacit.experiment.explain import Reason, reasons
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.spec import Experiment

NEWCOMER_ROUNDS = 20  # local rounds for a person who was not there in training


@dataclass(frozen=True)
class Recommendation:
    """One line of a list: place, original item id, title where known, logit, and why it is there
    (where that was asked for, and an item is more than its id)."""

    rank: int
    item: str
    title: str | None
    score: float
    reason: Reason | None = None


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
    run_folder = RunFolder(Path(folder))
    experiment = run_folder.experiment()
    result = run_folder.result()
    selected = result["selected_round"]
    prepared = prepare(experiment)
    if dict(prepared.split.counts) != result["counts"]:
        raise TacitError(
            f"{experiment.data.name} has changed since the run at {str(run_folder.path)!r}; train "
            "again, or bring the old data back."
        )
    rows = prepared.dataset.interactions
    if user is not None:
        if user not in rows.users:
            raise TacitError(f"No user {user!r} in {experiment.data.name}; {_some(rows.users)}")
        code = rows.users.index(user)
        known = np.unique(rows.item_N[rows.user_N == code])
        scores = _known_scores(experiment, prepared, run_folder, selected, code)
    else:
        assert history is not None
        known = read_history(Path(history), prepared.dataset)
        scores = _new_scores(experiment, prepared, run_folder, selected, known)
    scores = np.array(scores, dtype=np.float64)
    scores[known] = -np.inf
    best = np.argsort(-scores, kind="stable")[: min(k, len(scores) - len(known))]
    why: Sequence[Reason | None] = [None] * len(best)
    if explain and fused(experiment.method) is not None:
        why = _reasons(experiment, prepared, run_folder, code, best)
    titles = prepared.dataset.texts.get("title")
    return [
        Recommendation(
            place, rows.items[item], titles[item] if titles else None, float(scores[item]), reason
        )
        for place, (item, reason) in enumerate(zip(best.tolist(), why, strict=True), 1)
    ]


def read_history(path: Path, dataset: Dataset) -> np.ndarray:
    """Item codes of a file with one item id per line; ids that nobody knows are refused."""
    if not path.is_file():
        raise TacitError(
            f"No file at {str(path)!r}; --history takes a file with one item id a line."
        )
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise TacitError(
            f"{str(path)!r} is not a text file; write one item id per line."
        ) from error
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise TacitError(f"{str(path)!r} is empty; write one item id per line.")
    items = dataset.interactions.items
    code_of = {name: code for code, name in enumerate(items)}
    for number, name in enumerate(ids, 1):
        if name not in code_of:
            raise TacitError(
                f"Item {name!r} (entry {number} of {str(path)!r}) is not in the catalogue; "
                f"{_some(items)}"
            )
    return np.unique([code_of[name] for name in ids])


def _some(names: tuple[str, ...]) -> str:
    return f"ids look like {', '.join(names[:3])}."


def _known_scores(
    experiment: Experiment, prepared: Prepared, folder: RunFolder, selected: int, code: int
) -> np.ndarray:
    train = prepared.split.train
    if isinstance(experiment.method, Method):
        algorithm = compose(experiment.method, Task.of(train))
        return Scorer(algorithm, _model(folder), positives=train.positives)(np.array([code]))[0]
    if isinstance(experiment.method, DirectMethod):
        return DirectScorer(experiment.method, train, _model(folder))(np.array([code]))[0]
    if isinstance(experiment.method, TrainedCentralMethod):
        return experiment.method.score(_model(folder).shared, np.array([code]))[0]
    scorer = experiment.method.fit(train, selected - 1, experiment.seed)
    return scorer.score([train.positives[code]], train.user_key_U[[code]])[0]


def _reasons(
    experiment: Experiment, prepared: Prepared, folder: RunFolder, code: int, item_K: np.ndarray
) -> list[Reason]:
    train = prepared.split.train
    assert isinstance(experiment.method, Method)
    algorithm = compose(experiment.method, Task.of(train))
    return reasons(algorithm, _model(folder), code, train.positives[code], item_K)


def _new_scores(
    experiment: Experiment, prepared: Prepared, folder: RunFolder, selected: int, known: np.ndarray
) -> np.ndarray:
    train = prepared.split.train
    # the same history is the same person: the list does not change from call to call
    name = streams.name_of(",".join(map(str, known.tolist())))
    if isinstance(experiment.method, Method):
        algorithm = compose(experiment.method, Task.of(train))
        return newcomer_scores(
            algorithm,
            _model(folder).shared,
            known,
            name=name,
            seed=experiment.seed,
            rounds=NEWCOMER_ROUNDS,
        )
    if isinstance(experiment.method, DirectMethod):
        return direct_newcomer_scores(
            experiment.method,
            _model(folder).shared,
            known,
            n_items=train.n_items,
            name=name,
            seed=experiment.seed,
            rounds=NEWCOMER_ROUNDS,
        )
    if isinstance(experiment.method, TrainedCentralMethod):
        return experiment.method.score_newcomer(
            _model(folder).shared,
            known,
            name=name,
            seed=experiment.seed,
            epochs=NEWCOMER_ROUNDS,
        )
    scorer = experiment.method.fit(train, selected - 1, experiment.seed)
    return scorer.score([known], np.array([name], dtype=np.uint64))[0]


def _model(folder: RunFolder) -> State:
    saved = load_state(folder.model_dir)
    if saved is None:
        raise TacitError(f"The run at {str(folder.path)!r} has lost its model folder; train again.")
    return saved[0]
