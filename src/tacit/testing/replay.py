"""A deployment played again as a simulation, with the participants that were written down.

The server writes down whose answers count in each exchange. A node may also have played an exchange
whose answer nobody heard: it died, or was late. Both are participants; only the first report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from tacit.core.algorithm import TRAIN, Algorithm, ClientState
from tacit.core.types import ITEMS, Params, Task
from tacit.data.dataset import Dataset
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.clients import client_state
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.round import begin, server_step
from tacit.engines.state import State
from tacit.experiment.spec import Experiment
from tacit.node.device import Node
from tacit.node.play import OwnRun
from tacit.node.runs import RunBox
from tacit.wire.messages import Moment

When = tuple[int, int]  # round and exchange


def participants(
    names: Sequence[str], played: Mapping[str, set[When]], heard: Mapping[When, Sequence[str]]
) -> dict[When, Participants]:
    """Who was there in each exchange and who reported, by places in `names`.

    >>> found = participants(["a", "b", "c"], {"a": {(1, 0)}, "c": {(1, 0)}}, {(1, 0): ["c"]})
    >>> found[1, 0].user_P.tolist(), found[1, 0].reports_P.tolist()
    ([0, 2], [False, True])
    """
    who = {}
    for when, answered in heard.items():
        there = [place for place, one in enumerate(names) if when in played.get(one, ())]
        reports = [names[place] in answered for place in there]
        who[when] = Participants(np.array(there, dtype=np.int64), np.array(reports, bool))
    return who


def train_of(experiment: Experiment, dataset: Dataset) -> tuple[Algorithm, TrainView]:
    """What a simulation of the experiment runs, and on what."""
    train = split_dataset(dataset, experiment.protocol).train
    return experiment.method.algorithm(Task.of(train)), train


def replayed(experiment: Experiment, dataset: Dataset, who: Mapping[When, Participants]) -> State:
    """The reference engine with these participants of each exchange, in the order of rounds."""
    algorithm, train = train_of(experiment, dataset)
    seed, engine = experiment.seed, LoopEngine(getattr(torch, experiment.precision))
    state = engine.start(algorithm, train, seed)
    for number in range(1, max(number for number, _ in who) + 1):
        for place, exchange in enumerate(algorithm.exchanges(number)):
            there = who[number, place]
            begin(algorithm, train, state, there, exchange, seed)
            total = engine.play(algorithm, train, state, exchange, there, seed)
            if exchange.name == TRAIN and state.broadcast is not None:
                state.broadcast = state.shared[ITEMS].clone()
            server_step(algorithm, state, total, seed, exchange)
        state.round_number = number
    return state


def kept_by(node: Node, run: Moment, shared: Params) -> ClientState | None:
    """What the one person of a node keeps of a run, read from its disk; None where the node has
    played nothing of it."""
    box = RunBox.read(node.store, run)
    if box is None:
        return None
    known = (node.catalogue, node.people, node.histories(), node.settings.agreement)
    own = OwnRun.of(box.plan, *known)
    state = own.state(box.state, shared, box.played[0], fresh=False)
    return client_state(own.algorithm, own.train, state, 0)


def require_same(found: ClientState, wanted: ClientState, whose: str) -> None:
    """Refuse two states of a person that differ in any bit."""
    pairs = [(found.parameters, wanted.parameters), (found.optimizer, wanted.optimizer)]
    for here, there in pairs:
        assert here.keys() == there.keys(), whose
        for key, value in there.items():
            assert torch.equal(here[key], value), (whose, key)
    assert (found.row_RD is None) == (wanted.row_RD is None), whose
    if found.row_RD is not None and wanted.row_RD is not None:
        assert torch.equal(found.row_RD, wanted.row_RD), whose
        assert found.item_R is not None
        assert wanted.item_R is not None
        assert torch.equal(found.item_R, wanted.item_R), whose
