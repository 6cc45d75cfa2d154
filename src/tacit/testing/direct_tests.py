"""The battery for methods that speak for themselves.

class TestFedSpectral(DirectTests):
    name = "fedspectral"
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from tacit.core.custom import DirectMethod
from tacit.core.types import Params, Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.custom import DirectEngine, DirectScorer
from tacit.engines.participation import Participation
from tacit.engines.ragged import RoundData, one_client, taken
from tacit.engines.state import State
from tacit.testing.method_tests import MethodTests
from tacit.testing.play import Trace, same_to
from tacit.testing.worlds import ragged


def direct_trace(
    method: DirectMethod,
    train: TrainView,
    engine: DirectEngine,
    *,
    rounds: int = 3,
    participation: Participation | None = None,
) -> Trace:
    """A few rounds, with sampled participation and drop-out unless told otherwise."""
    state = engine.start(method, train, seed=0)
    start = _leaves(method, train, state)
    who = participation or Participation(ratio=0.7, dropout=0.2)
    for number in range(1, rounds + 1):
        engine.round(method, train, state, who.draw(train, 0, number), seed=0)
    return Trace(start, _leaves(method, train, state), state)


def _leaves(method: DirectMethod, train: TrainView, state: State) -> Params:
    """All leaves, private ones as the method declares them, user by user."""
    own = taken(method, train, state.private, np.arange(train.n_users))
    return {leaf: value.clone() for leaf, value in (*state.shared.items(), *own.items())}


class DirectTests(MethodTests):
    """Blocks, padding and order change nothing; what is private stays; who sits out keeps.

    `engine_sets` make the method small for the comparisons; `blocks_allowed` is the difference
    allowed between block sizes, relative to the largest change of a leaf.
    """

    engine_sets: ClassVar[tuple[str, ...]] = ()
    blocks_allowed: ClassVar[float] = 1e-10

    def small(self) -> DirectMethod:
        method: DirectMethod = self.method(self.engine_sets)
        return method

    def train(self) -> TrainView:
        return split_dataset(ragged(), CLEAN).train

    def task(self) -> Task:
        train = self.train()
        return Task(train.n_users, train.n_items)

    def assert_same(self, one: Trace, two: Trace, order_U: np.ndarray | None = None) -> None:
        for leaf, value in one.end.items():
            here = value
            if order_U is not None and leaf in one.state.private:
                here = value[torch.from_numpy(order_U)]
            allowed = self.blocks_allowed * max(1.0, one.change(leaf))
            assert same_to(here, two.end[leaf], allowed), f"{leaf} differs"

    def test_something_happens(self) -> None:
        found = direct_trace(self.small(), self.train(), DirectEngine(torch.float64))
        assert any(found.change(leaf) > 0 for leaf in found.end)

    def test_blocks_and_padding_change_nothing(self) -> None:
        """A loop without padding, small blocks, and everybody beside the longest client."""
        alone, few, all_together = (
            direct_trace(self.small(), self.train(), DirectEngine(torch.float64, block))
            for block in (1, 5, 64)
        )
        self.assert_same(alone, few)
        self.assert_same(alone, all_together)

    def test_scores_do_not_depend_on_blocks(self) -> None:
        train, method = self.train(), self.small()
        state = direct_trace(method, train, DirectEngine(torch.float64)).state
        everybody = np.arange(train.n_users)
        one, five = (DirectScorer(method, train, state, b)(everybody) for b in (1, 5))
        assert one.shape == (train.n_users, train.n_items)
        assert np.abs(one - five).max() <= 1e-10 * max(1.0, np.abs(one).max())

    def test_order_of_users_changes_nothing(self) -> None:
        train = self.train()
        order_U = np.random.default_rng(0).permutation(train.n_users)
        moved = TrainView(
            train.n_items,
            train.positives.take(order_U),
            train.user_key_U[order_U],
            train.hidden_from_negatives.take(order_U),
        )
        engine = DirectEngine(torch.float64, 7)
        one = direct_trace(self.small(), train, engine)
        self.assert_same(one, direct_trace(self.small(), moved, engine), order_U)

    def test_private_stays_private(self) -> None:
        """An upload has no leaf of a client's own, and a client keeps exactly its own leaves."""
        train, method = self.train(), self.small()
        engine = DirectEngine()
        state = engine.start(method, train, seed=0)
        data = one_client(RoundData.begin(method, train, 0, 1, engine.dtype).block(np.array([2])))
        only = taken(method, train, state.private, np.array([2]))
        private = {leaf: value[0] for leaf, value in only.items()}
        received = method.broadcast(state.shared, data.user)
        kept, upload = method.update(received, private, data, 1)
        assert set(kept) == set(method.private(self.task()))
        assert not set(upload) & set(method.private(self.task()))
        assert not set(method.shared(self.task())) & set(method.private(self.task()))
        assert method.row_leaves <= set(upload)
        for leaf in method.row_leaves:
            assert upload[leaf].shape[0] == len(train.positives[2])

    def test_who_sits_out_keeps_what_it_had(self) -> None:
        train = self.train()
        found = direct_trace(
            self.small(), train, DirectEngine(), rounds=1, participation=Participation(ratio=0.5)
        )
        absent = ~found.state.fresh_U
        assert absent.any()
        for leaf in found.state.private:
            assert torch.equal(found.start[leaf][absent], found.end[leaf][absent])

    def test_it_says_what_a_server_reads(self) -> None:
        assert self.small().says()
