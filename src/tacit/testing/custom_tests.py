"""The battery for custom algorithms.

class TestFedSpectral(CustomTests):
    name = "fedspectral"
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from tacit.core.algorithm import Exchange
from tacit.core.custom import CustomAlgorithm, CustomMethod
from tacit.core.types import Params, Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.clients import ClientDraws, client_state, taken
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.participation import Participation
from tacit.engines.state import State
from tacit.testing.canaries import follow
from tacit.testing.method_tests import MethodTests
from tacit.testing.play import PLANNED, Trace, same_to
from tacit.testing.synthetic import ragged


def custom_trace(
    method: CustomMethod,
    train: TrainView,
    engine: CustomEngine,
    *,
    rounds: int = 3,
    participation: Participation | None = None,
) -> Trace:
    """A few rounds, with sampled participation and drop-out unless told otherwise."""
    algorithm = method.algorithm(Task.of(train, PLANNED))
    state = engine.start(algorithm, train, seed=0)
    start = _parameters(algorithm, train, state)
    who = participation or Participation(ratio=0.7, dropout=0.2)
    for number in range(1, rounds + 1):
        engine.round(algorithm, train, state, who.draw(train, 0, number), seed=0)
    return Trace(start, _parameters(algorithm, train, state), state)


def _parameters(algorithm: CustomAlgorithm, train: TrainView, state: State) -> Params:
    """All parameters, private ones as the method declares them, user by user."""
    own = taken(algorithm, train, state.private, np.arange(train.n_users))
    return {name: value.clone() for name, value in (*state.shared.items(), *own.items())}


class CustomTests(MethodTests):
    """Blocks, padding and order change nothing; what is private stays; who sits out keeps.

    `engine_sets` make the method small for the comparisons; `blocks_allowed` is the difference
    allowed between block sizes, relative to the largest change of a parameter.
    """

    engine_sets: ClassVar[tuple[str, ...]] = ()
    blocks_allowed: ClassVar[float] = 1e-10

    def small(self) -> CustomMethod:
        method: CustomMethod = self.method(self.engine_sets)
        return method

    def train(self) -> TrainView:
        return split_dataset(ragged(), CLEAN).train

    def task(self) -> Task:
        train = self.train()
        return Task(train.n_users, train.n_items, releases=PLANNED)

    def assert_same(self, one: Trace, two: Trace, order_U: np.ndarray | None = None) -> None:
        for name, value in one.end.items():
            here = value
            if order_U is not None and name in one.state.private:
                here = value[torch.from_numpy(order_U)]
            allowed = self.blocks_allowed * max(1.0, one.change(name))
            assert same_to(here, two.end[name], allowed), f"{name} differs"

    def test_something_happens(self) -> None:
        found = custom_trace(self.small(), self.train(), CustomEngine(torch.float64))
        assert any(found.change(name) > 0 for name in found.end)

    def test_blocks_and_padding_change_nothing(self) -> None:
        """A loop without padding, small blocks, and everybody beside the longest client."""
        alone, few, all_together = (
            custom_trace(self.small(), self.train(), CustomEngine(torch.float64, block))
            for block in (1, 5, 64)
        )
        self.assert_same(alone, few)
        self.assert_same(alone, all_together)

    def test_scores_do_not_depend_on_blocks(self) -> None:
        train, method = self.train(), self.small()
        state = custom_trace(method, train, CustomEngine(torch.float64)).state
        everybody = np.arange(train.n_users)
        one, five = (
            CustomScorer(method.algorithm(self.task()), train, state, b)(everybody) for b in (1, 5)
        )
        assert one.shape == (train.n_users, train.n_items)
        assert np.abs(one - five).max() <= 1e-10 * max(1.0, np.abs(one).max())

    def test_order_of_users_changes_nothing(self) -> None:
        train = self.train()
        order_U = np.random.default_rng(0).permutation(train.n_users)
        moved = train.take(order_U)
        engine = CustomEngine(torch.float64, 7)
        one = custom_trace(self.small(), train, engine)
        self.assert_same(one, custom_trace(self.small(), moved, engine), order_U)

    def test_private_stays_private(self) -> None:
        """An upload has no parameter of a client's own, and a client keeps exactly its own
        parameters."""
        train, method = self.train(), self.small()
        algorithm = method.algorithm(self.task())
        state = CustomEngine().start(algorithm, train, seed=0)
        data = ClientDraws.of(algorithm, Exchange(), train, 0, 1, torch.float32).client(2)
        received = algorithm.broadcast(state.shared, data.user)
        client = client_state(algorithm, train, state, 2)
        update = algorithm.update(Exchange(), received, client, data, 1)
        kept, upload = update.private, update.upload.change
        assert set(kept) == set(method.private(self.task()))
        assert not set(upload) & set(method.private(self.task()))
        assert not set(method.shared(self.task())) & set(method.private(self.task()))
        sent = method.sent_in(1)
        expected = method.row_parameters if sent is None else method.row_parameters & sent
        assert expected <= set(upload)
        for name in expected:
            assert upload[name].shape[0] == len(train.positives[2])

    def test_canaries_stay_on_the_device(self) -> None:
        """Marked private values are in no upload and in nothing the server holds, and an upload
        that shows a history is declared as one."""
        follow(self.small().algorithm(self.task()), self.train())

    def test_who_sits_out_keeps_what_it_had(self) -> None:
        train = self.train()
        found = custom_trace(
            self.small(), train, CustomEngine(), rounds=1, participation=Participation(ratio=0.5)
        )
        absent = ~found.state.fresh_U
        assert absent.any()
        for name in found.state.private:
            assert torch.equal(found.start[name][absent], found.end[name][absent])

    def test_it_says_what_a_server_reads(self) -> None:
        assert self.small().interpretation()
