"""Short runs for tests: in memory, without a folder, selected on validation like any run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tacit.core.central import CentralMethod, TrainedCentralMethod
from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.custom import CustomMethod
from tacit.core.method import Method
from tacit.core.types import Params, Task
from tacit.data.dataset import Dataset
from tacit.data.protocol import CLEAN, Protocol
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.participation import Participation
from tacit.engines.round import Engine
from tacit.engines.state import State
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import Evaluation, rank
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer


def play(
    method: Method | CentralMethod | CustomMethod | TrainedCentralMethod,
    dataset: Dataset,
    *,
    protocol: Protocol = CLEAN,
    rounds: int = 40,
    seed: int = 0,
    every: int = 1,
    enough: float = math.inf,
) -> Evaluation:
    """Test ranks of the round that validation selects, among every so many and the last one;
    `enough` is an HR@1 of these ranks after which no further round is played.

    >>> from tacit.methods import Popularity
    >>> from tacit.testing.synthetic import noise
    >>> len(play(Popularity(), noise(n_users=20, n_items=30, history=5), rounds=1).full)
    20
    """
    split = split_dataset(dataset, protocol)
    trainer = Trainer(Experiment("test", method, rounds, seed=seed), split.train, threads=1)
    best, selected = float("-inf"), None
    for number in range(1, trainer.rounds + 1):
        trainer.run_round()
        if number % every and number < trainer.rounds:
            continue
        value = metric(rank(trainer.scores(), split.valid).full, "NDCG@10")
        if value >= best:
            best, selected = value, rank(trainer.scores(), split.test)
            if metric(selected.full, "HR@1") >= enough:
                break
    assert selected is not None
    return selected


@dataclass(frozen=True, eq=False)
class Trace:
    """Where a run began and where it ended, parameter by parameter."""

    start: Params
    end: Params
    state: State

    def change(self, name: str) -> float:
        """The largest change of any entry of a parameter."""
        return float((self.end[name] - self.start[name]).abs().max())


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
    >>> from tacit.testing.synthetic import ragged
    >>> train = split_dataset(ragged(), CLEAN).train
    >>> sorted(trace(fedmf(dim=4), train, LoopEngine(), rounds=1).end)
    ['items', 'user']
    """
    return trace_of(
        algorithm_for(method, train),
        train,
        engine,
        rounds=rounds,
        seed=seed,
        participation=participation,
    )


def trace_of(
    algorithm: ComposedAlgorithm,
    train: TrainView,
    engine: Engine[ComposedAlgorithm],
    *,
    rounds: int = 3,
    seed: int = 0,
    participation: Participation | None = None,
) -> Trace:
    """The same for an algorithm that is there already."""
    state = engine.start(algorithm, train, seed)
    start = state_parameters(state)
    who = participation or Participation(ratio=0.7, dropout=0.2)
    for number in range(1, rounds + 1):
        engine.round(algorithm, train, state, who.draw(train, seed, number), seed)
    return Trace(start, state_parameters(state), state)


PLANNED = 16  # releases of one user that noise is made for, where a test claims privacy


def algorithm_for(method: Method, train: TrainView) -> ComposedAlgorithm:
    return compose(method, Task.of(train, PLANNED))


def state_parameters(state: State) -> Params:
    return {
        name: parameter.clone()
        for name, parameter in (*state.shared.items(), *state.private.items())
    }


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
