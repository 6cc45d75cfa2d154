"""Recommendations from a finished run, for a known person or a newcomer, and why an item is in a
list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit import streams
from tacit.core.central import TrainedCentralMethod
from tacit.core.compose import Algorithm, compose
from tacit.core.custom import DirectMethod
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.data.views import Lists
from tacit.engines.cold import ColdServer
from tacit.engines.custom import DirectScorer
from tacit.engines.device import one_torch_thread
from tacit.engines.explain import explain, fused
from tacit.engines.newcomer import direct_newcomer_scores, fit_newcomer
from tacit.engines.scoring import RowScorer, Scorer, client_leaves
from tacit.engines.state import State
from tacit.errors import TacitError, listed, shown
from tacit.experiment.catalogue import NewItems, read_catalogue
from tacit.experiment.checkpoint import load_model
from tacit.experiment.data_record import prepare_again
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared
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
    >>> known_scores(opened, code=3).tolist() == newcomer_scores(opened, np.array([3])).tolist()
    True
    """

    experiment: Experiment
    prepared: Prepared
    folder: RunFolder
    selected: int
    new: NewItems

    @classmethod
    def of(cls, folder: str | Path) -> OpenRun:
        run_folder = RunFolder(Path(folder))
        experiment = run_folder.experiment()
        result = run_folder.result()
        prepared = prepare_again(experiment, run_folder, result)
        new = read_catalogue(run_folder)
        return cls(experiment, prepared, run_folder, result["selected_round"], new)

    @property
    def existing_W(self) -> np.ndarray:
        """The items that existed in training."""
        train = self.prepared.split.train
        return np.arange(train.n_items) if train.warm_W is None else train.warm_W

    def algorithm(self) -> Algorithm:
        """A federated method on those items."""
        assert isinstance(self.experiment.method, Method)
        return compose(self.experiment.method, Task.of(self.prepared.split.train.existing()))

    def model(self) -> State:
        return load_model(self.folder)


def known_scores(run: OpenRun, code: int) -> np.ndarray:
    """For a person of the training data."""
    experiment, train, user_1 = run.experiment, run.prepared.split.train, np.array([code])
    if isinstance(experiment.method, Method):
        model, positives = run.model(), train.positives.within(run.existing_W)
        return _federated(run, run.algorithm(), model, model, positives, user_1)
    if isinstance(experiment.method, DirectMethod):
        return DirectScorer(experiment.method, train, run.model())(user_1)[0]
    if isinstance(experiment.method, TrainedCentralMethod):
        return experiment.method.score(run.model().shared, user_1)[0]
    scorer = experiment.method.fit(train, run.selected - 1, experiment.seed)
    return scorer.score([train.positives[code]], train.user_key_U[[code]])[0]


def newcomer_scores(run: OpenRun, known: np.ndarray) -> np.ndarray:
    """For somebody with a history of `known` items who was not there in training."""
    experiment, train = run.experiment, run.prepared.split.train
    # the same history is the same person: the list does not change from call to call
    name = streams.name_of(",".join(map(str, known.tolist())))
    if isinstance(experiment.method, Method):
        model = run.model()
        one = fit_newcomer(
            run.algorithm(),
            model.shared,
            np.searchsorted(run.existing_W, known),
            name=name,
            seed=experiment.seed,
            rounds=NEWCOMER_ROUNDS,
        )
        return _federated(run, one.algorithm, one.state, model, one.positives, np.array([0]))
    if isinstance(experiment.method, DirectMethod):
        return direct_newcomer_scores(
            experiment.method,
            run.model().shared,
            known,
            n_items=train.n_items,
            name=name,
            seed=experiment.seed,
            rounds=NEWCOMER_ROUNDS,
        )
    if isinstance(experiment.method, TrainedCentralMethod):
        return experiment.method.score_newcomer(
            run.model().shared,
            known,
            name=name,
            seed=experiment.seed,
            epochs=NEWCOMER_ROUNDS,
        )
    scorer = experiment.method.fit(train, run.selected - 1, experiment.seed)
    return scorer.score([known], np.array([name], dtype=np.uint64))[0]


def _federated(
    run: OpenRun,
    algorithm: Algorithm,
    clients: State,
    model: State,
    positives: Lists,
    user_1: np.ndarray,
) -> np.ndarray:
    """Items that existed by what the client has of them, all others by the rows that the server's
    generator (in `model`) makes or made."""
    train, new = run.prepared.split.train, run.new
    old_1W = Scorer(algorithm, clients, positives=positives)(user_1)
    score_I = np.zeros(train.n_items + len(new), old_1W.dtype)
    score_I[run.existing_W] = old_1W[0]
    if train.warm_W is not None:
        server = ColdServer.of(run.algorithm(), train, run.experiment.seed)
        item_C = server.cold_C
        row_CD, content = server.rows(model, item_C), train.content.take(item_C)
        score_I[item_C] = RowScorer.of(algorithm, clients, positives, row_CD, content)(user_1)[0]
    if len(new):
        made = RowScorer.of(algorithm, clients, positives, new.row_ND, new.content)
        score_I[train.n_items :] = made(user_1)[0]
    return score_I


# Why an item stands in a list: the view that carried it, and the inputs it rests on.


@dataclass(frozen=True)
class Reason:
    """What views and inputs bring to the logit of one item, for one person.

    `views` and `inputs` are logits minus the logits without that view or input. A part that brings
    the same to every item moves no item in the list, so the lifts say how much more it brings to
    this item than to the mean item of the catalogue; `weights` are the router's.

    >>> reason = Reason({"sum": 1.0}, {"sum": -3.0}, {"sum": 0.5}, {"id": 0.25}, {"id": 0.2})
    >>> reason.carried_by, reason.rests_on
    (None, 'id')
    """

    weights: Mapping[str, float]
    views: Mapping[str, float]
    view_lifts: Mapping[str, float]
    inputs: Mapping[str, float]
    input_lifts: Mapping[str, float]

    @property
    def carried_by(self) -> str | None:
        """The view that lifts the item most; None where there is only one, or none lifts it."""
        return _most(self.view_lifts) if len(self.view_lifts) > 1 else None

    @property
    def rests_on(self) -> str | None:
        """The input that lifts the item most."""
        return _most(self.input_lifts)

    @property
    def view_shares(self) -> dict[str, float]:
        """The lifts of the views as shares of all that they move the item by, up or down."""
        total = sum(abs(lift) for lift in self.view_lifts.values()) or 1.0
        return {name: lift / total for name, lift in self.view_lifts.items()}

    def says(self) -> str:
        """One sentence.

        >>> lifts = {"sum": 3.0, "gate": -1.0}
        >>> Reason({}, {}, lifts, {}, {"id": 0.5, "text": -0.1}).says()
        'carried by the view sum (share: sum +75 %, gate -25 %); rests most on its id (against the \
mean item: id +0.50, text -0.10).'
        """
        said = []
        if len(self.view_lifts) > 1:
            shares = ", ".join(f"{name} {100 * x:+.0f} %" for name, x in self.view_shares.items())
            head = f"carried by the view {self.carried_by}" if self.carried_by else "by no view"
            said.append(f"{head} (share: {shares})")
        changes = ", ".join(f"{name} {lift:+.2f}" for name, lift in self.input_lifts.items())
        head = f"rests most on its {self.rests_on}" if self.rests_on else "rests on no single input"
        said.append(f"{head} (against the mean item: {changes})")
        return "; ".join(said) + "."


def _most(lifts: Mapping[str, float]) -> str | None:
    name = max(lifts, key=lambda one: lifts[one], default=None)
    return name if name is not None and lifts[name] > 0 else None


def reasons(
    algorithm: Algorithm, state: State, user: int, item_H: np.ndarray, item_K: np.ndarray
) -> list[Reason]:
    """A reason for each of some items; the method must be a fused one."""
    p = client_leaves(algorithm, state, user, item_H)
    found = explain(algorithm, p, np.arange(algorithm.task.n_items))
    view_lift_NV = found.view_NV - found.view_NV.mean(axis=0)
    input_lift_NM = found.input_NM - found.input_NM.mean(axis=0)

    def named(names: tuple[str, ...], value: np.ndarray) -> dict[str, float]:
        return dict(zip(names, value.tolist(), strict=True))

    return [
        Reason(
            named(found.views, found.weight_NV[item]),
            named(found.views, found.view_NV[item]),
            named(found.views, view_lift_NV[item]),
            named(found.inputs, found.input_NM[item]),
            named(found.inputs, input_lift_NM[item]),
        )
        for item in item_K.tolist()
    ]


# Recommendations from a finished run, for a known person or for one who joined afterwards.


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
