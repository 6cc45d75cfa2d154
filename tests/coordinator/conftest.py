"""A small deployment in one process: real nodes, letters in memory, and the same run simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tacit.coordinator.memory import Faults, MemoryTransport
from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rounds import Coordinator
from tacit.coordinator.rules import Offer, Rules
from tacit.core.algorithm import Algorithm
from tacit.data.dataset import Dataset
from tacit.data.views import TrainView
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.state import State
from tacit.experiment.spec import Experiment
from tacit.node.device import Node
from tacit.testing.nodes import catalogue_of, nodes_of
from tacit.testing.replay import train_of


@dataclass(eq=False)
class SmallDeployment:
    """Nodes of a dataset's people, and servers that come and go."""

    experiment: Experiment
    dataset: Dataset
    folder: Path
    groups: Sequence[Sequence[int]] | None = None
    rules: Rules = Rules("shop", "first")
    faults: Faults = field(default_factory=Faults)
    nodes: dict[str, Node] = field(init=False)
    roster: Roster = field(init=False)

    def __post_init__(self) -> None:
        users = self.dataset.interactions.users
        groups = self.groups or [[user] for user in range(len(users))]
        made = nodes_of(self.dataset, self.folder / "nodes", groups)
        names = [users[group[0]] for group in groups]
        self.nodes = dict(zip(names, made, strict=True))
        self.roster = Roster(
            tuple(
                Member(name, number, len(groups[number]), node.public_key.hex())
                for number, (name, node) in enumerate(self.nodes.items())
            )
        )
        if self.rules.secure is not None:
            for node in self.nodes.values():
                node.set_directory(self.roster.directory)

    @property
    def offer(self) -> Offer:
        catalogue = catalogue_of(self.dataset)
        return Offer(catalogue.message(self.rules.deployment), self.dataset.modalities)

    def server(self, **others: Any) -> Coordinator:
        """A server process: a new one, or one that goes on from the checkpoint."""
        rules = replace(self.rules, **others)
        transport = MemoryTransport(self.nodes, self.faults)
        return Coordinator(
            self.experiment, self.roster, self.offer, transport, self.folder / "server", rules
        )

    # The same, simulated

    @property
    def train(self) -> TrainView:
        return train_of(self.experiment, self.dataset)[1]

    @property
    def algorithm(self) -> Algorithm:
        return train_of(self.experiment, self.dataset)[0]

    def simulated(self, participants: Iterable[Participants]) -> State:
        """The reference engine, with these participants round by round."""
        train, algorithm, seed = self.train, self.algorithm, self.experiment.seed
        engine = LoopEngine(getattr(torch, self.experiment.precision))
        state = engine.start(algorithm, train, seed)
        for who in participants:
            engine.round(algorithm, train, state, who, seed)
        return state


@pytest.fixture
def deployment(tmp_path: Path) -> Callable[..., SmallDeployment]:
    def made(experiment: Experiment, dataset: Dataset, **others: Any) -> SmallDeployment:
        return SmallDeployment(experiment, dataset, tmp_path, **others)

    return made
