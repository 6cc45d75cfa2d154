"""What a finished run makes of one person: a logit for every item of its catalogue, and after those
for every item that joined later."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit import streams
from tacit.core.central import TrainedCentralMethod
from tacit.core.compose import Algorithm, compose
from tacit.core.direct import DirectMethod
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.data.views import Lists
from tacit.engines.cold import ColdServer
from tacit.engines.direct_newcomer import direct_newcomer_scores
from tacit.engines.direct_scoring import DirectScorer
from tacit.engines.newcomer import fit_newcomer
from tacit.engines.row_scorer import RowScorer
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.experiment.catalogue import NewItems, read_catalogue
from tacit.experiment.checkpoint import load_model
from tacit.experiment.data_record import prepare_again
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment

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
