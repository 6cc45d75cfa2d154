"""Recommendations from a finished run, for a known person or a newcomer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from tacit import streams
from tacit.core.algorithm import Algorithm
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.data.views import History, TrainView
from tacit.engines.cold import ColdServer
from tacit.engines.device import one_torch_thread
from tacit.engines.explain import carried, fused
from tacit.engines.newcomer import fit_newcomer
from tacit.engines.scoring import RowScorer, Scorer
from tacit.engines.select import newcomer_of, scorer_of
from tacit.engines.state import State
from tacit.errors import TacitError, argument, listed, shown
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.catalogue import NewItems, read_catalogue
from tacit.experiment.checkpoint import load_model
from tacit.experiment.data_record import prepare_again
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared
from tacit.experiment.reasons import Brought, HistoryReason, Reason, reasons
from tacit.experiment.spec import Experiment
from tacit.files import reading, refuse_special

# What a finished run makes of one person: a logit for every item of its catalogue, and after those
# for every item that joined later.

NEWCOMER_ROUNDS = 20  # local rounds for a person who was not there in training


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A finished run with its data, and the items that joined it.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run(resolve("popularity"), Path(place) / "one")
    ...     opened = OpenRun.of(Path(place) / "one")
    >>> newcomer = scores_for_newcomer(opened, History(np.array([3])))
    >>> known_scores(opened, code=3).tolist() == newcomer.tolist()
    True
    """

    experiment: Experiment
    prepared: Prepared
    folder: RunFolder
    selected: int
    new: NewItems

    def __repr__(self) -> str:
        return f"OpenRun({self.experiment} in {str(self.folder.path)!r})"

    @classmethod
    def of(cls, folder: str | Path, held: Experiment | None = None) -> OpenRun:
        """The run in a folder; `held` is its experiment where that has the data in memory."""
        run_folder = RunFolder(Path(folder))
        experiment = run_folder.experiment() if held is None else held
        record = run_folder.record()
        prepared = prepare_again(experiment, run_folder, record)
        new = read_catalogue(run_folder)
        return cls(experiment, prepared, run_folder, record.selected_round, new)

    @property
    def existing_W(self) -> np.ndarray:
        """The items that existed in training."""
        train = self.prepared.split.train
        return np.arange(train.n_items) if train.warm_W is None else train.warm_W

    @cached_property
    def algorithm(self) -> Algorithm:
        """The method on the items that existed in training."""
        train = self.prepared.split.train
        algorithm = self.experiment.method.algorithm(Task.of(train.existing()))
        return (
            self.experiment.method.algorithm(Task.of(train))
            if algorithm.ranks_unseen
            else algorithm
        )

    def model(self) -> State:
        """What the run kept of its selected round, read once."""
        return self._state

    @cached_property
    def _state(self) -> State:
        if not self.algorithm.saved:
            return State({}, {}, round_number=self.selected)
        return load_model(self.folder)

    @cached_property
    def scorer(self) -> ScoreBlock:
        """The logits of known people; what is not kept on disk is fitted once."""
        train, seed = self.prepared.split.train, self.experiment.seed
        return scorer_of(self.algorithm, train, self.model(), seed)


def known_scores(run: OpenRun, code: int) -> np.ndarray:
    """For a person of the training data."""
    train, user_1, model = run.prepared.split.train, np.array([code]), run.model()
    composed = run.algorithm.composition
    if composed is not None:
        return _federated(run, composed, model, model, train.existing(), user_1)
    return run.scorer(user_1)[0]


def scores_for_newcomer(run: OpenRun, history: History) -> np.ndarray:
    """For somebody with a history of their own who was not there in training."""
    train, model, composed = run.prepared.split.train, run.model(), run.algorithm.composition
    # the same history is the same person: the list does not change from call to call
    name = streams.name_of(",".join(map(str, sorted(history.item_H.tolist()))))
    person = {"name": name, "seed": run.experiment.seed, "rounds": NEWCOMER_ROUNDS}
    if composed is not None:
        existing = replace(history, item_H=np.searchsorted(run.existing_W, history.item_H))
        one = fit_newcomer(composed, model.shared, existing, **person)
        return _federated(run, one.algorithm, one.state, model, one.train, np.array([0]))
    return newcomer_of(run.algorithm, train, model, history, **person)


def _federated(
    run: OpenRun,
    algorithm: ComposedAlgorithm,
    clients: State,
    model: State,
    own: TrainView,
    user_1: np.ndarray,
) -> np.ndarray:
    """Items that existed by what the client has of them, all others by the rows that the server's
    generator (in `model`) makes or made."""
    train, new = run.prepared.split.train, run.new
    old_1W = Scorer(algorithm, clients, train=own)(user_1)
    score_I = np.zeros(train.n_items + len(new), old_1W.dtype)
    score_I[run.existing_W] = old_1W[0]
    if train.warm_W is not None:
        assert run.algorithm.composition is not None
        server = ColdServer.of(run.algorithm.composition, train, run.experiment.seed)
        item_C = server.cold_C
        row_CD, content = server.rows(model, item_C), train.content.take(item_C)
        score_I[item_C] = RowScorer.of(algorithm, clients, own, row_CD, content)(user_1)[0]
    if len(new):
        made = RowScorer.of(algorithm, clients, own, new.row_ND, new.content)
        score_I[train.n_items :] = made(user_1)[0]
    return score_I


# Recommendations from a finished run, for a known person or for one who joined afterwards.


@dataclass(frozen=True)
class Recommendation:
    """One line of a list: place, original item id, title where known, logit, and why it is there
    (where that was asked for, and the method can say)."""

    rank: int
    item: str
    title: str | None
    score: float
    reason: Reason | HistoryReason | None = None
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

    `user` is an original id of the training data; `history` a file with one item id per line, the
    earliest first. With `explain`, items of a method that fuses ids and content come with a reason,
    and so do those of a method whose logits are sums over the history.

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
        raise TacitError(f"Give either {argument('user', 'ID')} or {argument('history', 'FILE')}.")
    if k < 1:
        raise TacitError(f"k is {k}; ask for at least 1 item.")
    run = OpenRun.of(folder)
    if user is not None:
        return best_for_user(run, user, k, explain=explain)
    assert history is not None
    if explain and run.algorithm.composition is not None:
        raise TacitError(
            f"{argument('explain', True)} is for a person of the training data; give "
            f"{argument('user', 'ID')}."
        )
    ids = read_history(Path(history))
    return best_for_newcomer(run, ids, k, where=str(history), explain=explain)


def best_for_user(
    run: OpenRun, user: str, k: int, *, explain: bool = False
) -> list[Recommendation]:
    """The best k items that a person of the training data does not have yet."""
    code = known_user_code(run, user)
    rows = run.prepared.dataset.interactions
    known = np.unique(rows.item_N[rows.user_N == code])
    score_I = known_scores(run, code)
    best = _best(score_I, known, k)
    why: Mapping[int, Reason | HistoryReason] = {}
    if explain and fused(run.experiment.method) is not None:
        why = _reasons(run, code, best)
    elif explain:
        why = _history_reasons(run, code, score_I, best)
    return _lines(run, score_I, best, why)


def best_for_newcomer(
    run: OpenRun,
    ids: Sequence[str],
    k: int,
    *,
    where: str = "the history",
    explain: bool = False,
) -> list[Recommendation]:
    """The best k items for somebody new who has the items `ids`, the earliest first."""
    history = _history_of(ids, run.prepared.dataset, run.existing_W, where)
    score_I = scores_for_newcomer(run, history)
    best = _best(score_I, history.item_H, k)
    why = _history_reasons(run, history, score_I, best) if explain else {}
    return _lines(run, score_I, best, why)


def known_user_code(run: OpenRun, user: str) -> int:
    """The code of a person of the training data."""
    users = run.prepared.dataset.interactions.users
    if user not in users:
        raise TacitError(f"No user {shown(user)} in {run.experiment.data.name}; {_some(users)}")
    return users.index(user)


def _best(score_I: np.ndarray, known: np.ndarray, k: int) -> np.ndarray:
    """The codes of the best k items that are not known yet."""
    unknown_I = np.array(score_I, dtype=np.float64)
    unknown_I[known] = -np.inf
    return np.argsort(-unknown_I, kind="stable")[: min(k, len(score_I) - len(known))]


def _lines(
    run: OpenRun,
    score_I: np.ndarray,
    best_K: np.ndarray,
    why: Mapping[int, Reason | HistoryReason],
) -> list[Recommendation]:
    rows, new = run.prepared.dataset.interactions, run.new
    names = (*rows.items, *new.ids)
    known_titles = run.prepared.dataset.texts.get("title", (None,) * len(rows.items))
    titles = (*known_titles, *new.titles)
    return [
        Recommendation(
            place,
            names[item],
            titles[item],
            float(score_I[item]),
            why.get(item),
            new=item >= len(rows.items),
        )
        for place, item in enumerate(best_K.tolist(), 1)
    ]


def read_history(path: Path) -> list[str]:
    """The item ids of a file with one a line, the earliest first."""
    refuse_special(path)
    if not path.is_file():
        raise TacitError(
            f"No file at {str(path)!r}; {argument('history')} takes a file with one item id a line."
        )
    try:
        with reading(path, f"{argument('history')} takes a file with one item id a line"):
            content = path.read_bytes()
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise TacitError(
            f"{str(path)!r} is not a text file; write one item id per line."
        ) from error
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise TacitError(f"{str(path)!r} is empty; write one item id per line.")
    return ids


def _history_of(
    ids: Sequence[str], dataset: Dataset, existing_W: np.ndarray, where: str
) -> History:
    """A history in the order given; an id that did not exist in training is refused. Of an item
    that is named twice the last place counts."""
    if not ids:
        raise TacitError("The history is empty; give at least one item id.")
    items = dataset.interactions.items
    code_of = {items[code]: code for code in existing_W.tolist()}
    for number, name in enumerate(ids, 1):
        if name not in code_of:
            raise TacitError(
                f"Item {shown(name)} (entry {number} of {where!r}) is not in the catalogue; "
                f"{_some(items)}"
            )
    last_first = dict.fromkeys(code_of[name] for name in reversed(ids))
    return History(np.array(list(last_first)[::-1], dtype=np.int64))


def _some(names: tuple[str, ...]) -> str:
    return f"ids look like {listed(names[:3])}."


def _reasons(run: OpenRun, code: int, item_K: np.ndarray) -> dict[int, Reason]:
    """Reasons for items that existed in training; a row that was made for an item has none."""
    existing_W = run.existing_W
    there_L = np.intersect1d(item_K, existing_W)
    history = run.prepared.split.train.existing().history(code)
    place_L = np.searchsorted(existing_W, there_L)
    assert run.algorithm.composition is not None
    found = reasons(run.algorithm.composition, run.model(), code, history, place_L)
    return dict(zip(there_L.tolist(), found, strict=True))


def _history_reasons(
    run: OpenRun, person: int | History, score_I: np.ndarray, item_K: np.ndarray
) -> dict[int, HistoryReason]:
    """Reasons by the items of a history; none where a method is no sum over it."""
    train, seed = run.prepared.split.train, run.experiment.seed
    found = carried(run.algorithm, train, run.model(), person, seed)
    if found is None:
        return {}
    own_H, brought_HI = found
    away = np.abs(brought_HI.sum(0) - score_I).max()
    if away > 1e-3 * max(1.0, float(np.abs(score_I).max())):
        raise TacitError(
            f"What the items of the history bring to a logit of {run.experiment.name} does not add "
            "up to it, so it explains nothing; leave out the explanation."
        )
    rows = run.prepared.dataset
    titles = rows.texts.get("title", (None,) * len(rows.interactions.items))

    def reason(item: int) -> HistoryReason:
        order_H = np.argsort(-brought_HI[:, item], kind="stable")
        return HistoryReason(
            tuple(
                Brought(
                    rows.interactions.items[own_H[place]],
                    titles[own_H[place]],
                    float(brought_HI[place, item]),
                )
                for place in order_H
            )
        )

    return {item: reason(item) for item in item_K.tolist()}
