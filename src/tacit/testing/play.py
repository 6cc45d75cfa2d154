"""Short runs for tests: in memory, without a folder, selected on validation like any run."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tacit.core.central import CentralMethod, TrainedCentralMethod
from tacit.core.compose import Algorithm, compose
from tacit.core.custom import DirectMethod
from tacit.core.method import Method
from tacit.core.types import Params, Task
from tacit.data.dataset import Dataset
from tacit.data.protocol import CLEAN, Protocol
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.base import Engine
from tacit.engines.participation import Participation
from tacit.engines.state import State
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import Evaluation, rank
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import course_of


def play(
    method: Method | CentralMethod | DirectMethod | TrainedCentralMethod,
    world: Dataset,
    *,
    protocol: Protocol = CLEAN,
    rounds: int = 40,
    seed: int = 0,
) -> Evaluation:
    """Test ranks of the round that validation selects.

    >>> from tacit.methods import Popularity
    >>> from tacit.testing.worlds import noise
    >>> len(play(Popularity(), noise(n_users=20, n_items=30, history=5), rounds=1).full)
    20
    """
    split = split_dataset(world, protocol)
    course = course_of(Experiment("test", method, rounds, seed=seed), split.train, threads=1)
    best, selected = float("-inf"), None
    for _ in range(course.rounds):
        course.advance()
        value = metric(rank(course.scores(), split.valid).full, "NDCG@10")
        if value >= best:
            best, selected = value, rank(course.scores(), split.test)
    assert selected is not None
    return selected


@dataclass(frozen=True, eq=False)
class Trace:
    """Where a run began and where it ended, leaf by leaf."""

    start: Params
    end: Params
    state: State

    def change(self, leaf: str) -> float:
        """The largest change of any entry of a leaf."""
        return float((self.end[leaf] - self.start[leaf]).abs().max())


def trace(
    method: Method,
    train: TrainView,
    engine: Engine,
    *,
    rounds: int = 3,
    seed: int = 0,
    participation: Participation | None = None,
) -> Trace:
    """A few rounds on one engine, with sampled participation and drop-out unless told otherwise.

    >>> from tacit.engines.loop import LoopEngine
    >>> from tacit.methods import fedmf
    >>> from tacit.testing.worlds import ragged
    >>> train = split_dataset(ragged(), CLEAN).train
    >>> sorted(trace(fedmf(dim=4), train, LoopEngine(), rounds=1).end)
    ['items', 'user']
    """
    algorithm = algorithm_for(method, train)
    state = engine.start(algorithm, train, seed)
    start = state_leaves(state)
    who = participation or Participation(ratio=0.7, dropout=0.2)
    for number in range(1, rounds + 1):
        engine.round(algorithm, train, state, who.draw(train, seed, number), seed)
    return Trace(start, state_leaves(state), state)


def algorithm_for(method: Method, train: TrainView) -> Algorithm:
    return compose(method, Task.of(train))


def state_leaves(state: State) -> Params:
    return {name: leaf.clone() for name, leaf in (*state.shared.items(), *state.private.items())}


def same_to(value: torch.Tensor, other: torch.Tensor, tolerance: float, ulps: int = 0) -> bool:
    """Equal up to an absolute tolerance, or up to some units in the last place.

    >>> same_to(torch.ones(1), torch.ones(1) + 1e-3, 1e-2)
    True
    """
    allowed = torch.full_like(value, tolerance)
    if ulps:
        spacing = torch.finfo(value.dtype).eps * torch.maximum(value.abs(), other.abs())
        allowed = torch.maximum(allowed, ulps * spacing)
    return bool(((value - other).abs() <= allowed).all())
