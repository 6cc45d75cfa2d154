"""A tiny server: it sums what nodes send in their order, and steps. Letters cross as on a wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tacit.core.algorithm import TRAIN, Algorithm, ServerState, Total
from tacit.core.types import Task
from tacit.data.dataset import Dataset
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.engines.round import train_on_views
from tacit.engines.state import State, initial_state
from tacit.experiment.spec import Experiment
from tacit.node.device import Node
from tacit.testing.nodes import plan_of
from tacit.wire.messages import (
    Answer,
    Deliver,
    Moment,
    Play,
    Played,
    Rank,
    Request,
    RunPlan,
    from_letter,
    to_letter,
)


def ask(node: Node, request: Request) -> Any:
    """One request and its answer, both through letters."""
    sent: Any = from_letter(to_letter(request))
    answer: Answer = node.answer(sent)
    return from_letter(to_letter(answer))


@dataclass(eq=False)
class TinyServer:
    """The server's half of a run, without anything that makes a server good."""

    experiment: Experiment
    dataset: Dataset
    nodes: Sequence[Node]
    run: str = "first"
    algorithm: Algorithm = field(init=False)
    train: TrainView = field(init=False)
    plan: RunPlan = field(init=False)
    state: State = field(init=False)

    def __post_init__(self) -> None:
        self.train = split_dataset(self.dataset, self.experiment.protocol).train
        self.algorithm = self.experiment.method.algorithm(Task.of(self.train))
        self.plan = plan_of(self.experiment, self.dataset)
        self.state = initial_state(self.algorithm, self.train, self.experiment.seed, self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, self.experiment.precision)

    def moment(self, place: int = 0) -> Moment:
        return Moment("shop", self.run, self.state.round_number + 1, place)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: value.numpy().copy() for name, value in self.state.shared.items()}

    def request(self, place: int = 0) -> Play:
        return Play(self.moment(place), self.plan, self.arrays())

    def gathered(self, running: Algorithm, place: int) -> Total:
        """The sum of all answers, in the order of the nodes."""
        exchange = self.algorithm.exchanges(self.state.round_number + 1)[place]
        total = Total.zeros(running.summed(exchange))
        for node in self.nodes:
            answer = ask(node, self.request(place))
            assert isinstance(answer, Played), answer
            total.clients += answer.clients
            total.weight += answer.weight
            for name, value in answer.arrays.items():
                total.add(name, value.astype(np.float64))
        return total

    def play_round(self) -> None:
        algorithm, number = self.algorithm, self.state.round_number + 1
        for place, exchange in enumerate(algorithm.exchanges(number)):
            gather = partial(self.gathered, place=place)
            views = algorithm.views_sent
            if views is not None and exchange.name == TRAIN:
                total = train_on_views(views, self.state, self.experiment.seed, gather)
            else:
                total = gather(algorithm)
            if not (total.clients if exchange.sends else algorithm.steps_alone):
                continue
            after = algorithm.step(ServerState(self.state.shared, self.state.server), total, number)
            self.state.shared, self.state.server = after.parameters, after.optimizer
        self.state.round_number = number

    def ranking_arrays(self) -> dict[str, np.ndarray]:
        """What nodes rank with: views, where the server makes those."""
        views = self.algorithm.views_sent
        if views is None:
            return self.arrays()
        found: dict[str, np.ndarray] = {}

        def see(running: Algorithm) -> Total:
            found.update(self.arrays())
            zero = {"items": np.zeros_like(found["items"], dtype=np.float64)}
            return Total(zero)

        train_on_views(views, self.state, self.experiment.seed, see)
        return found

    def deliver(self, node: Node, final: bool = True) -> Any:
        moment = Moment("shop", self.run, self.state.round_number)
        return ask(node, Deliver(moment, self.plan, final, self.ranking_arrays()))

    def rank(self, node: Node, part: str = "valid") -> Any:
        moment = Moment("shop", self.run, self.state.round_number)
        return ask(node, Rank(moment, self.plan, part, self.ranking_arrays()))  # type: ignore[arg-type]

    def simulated(self, rounds: int) -> State:
        """The same rounds on the reference engine."""
        engine = LoopEngine(self.dtype)
        state = engine.start(self.algorithm, self.train, self.experiment.seed)
        for _ in range(rounds):
            engine.round(
                self.algorithm, self.train, state, everybody(self.train), self.experiment.seed
            )
        return state


@pytest.fixture
def tiny_server() -> Callable[..., TinyServer]:
    return TinyServer


@pytest.fixture
def asked() -> Callable[[Node, Request], Any]:
    return ask


def with_precision(experiment: Experiment, precision: str) -> Experiment:
    return replace(experiment, precision=precision)  # type: ignore[arg-type]
