"""What a custom method may write beside its functions for one client, so that work goes faster.

A custom algorithm is defined by functions for one client (`core/custom.py`). Some methods share
most of their work between clients: `RunsRagged` says the same round for all of them, to the same
numbers up to rounding. Others are too large to exist once per client, or to be copied in every
round. The loop keeps to the definition, and tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from torch import Tensor

from tacit.core.algorithm import ClientData
from tacit.core.types import Params
from tacit.data.views import Lists


@dataclass(frozen=True, eq=False)
class RaggedBatch:
    """What P clients look at in one round, client after client and without padding."""

    user_P: np.ndarray  # their places in the population
    reports_P: np.ndarray  # whether a client's upload arrives
    history: Lists  # one list per client
    row_N: np.ndarray  # where the history's entries stand among those of the whole population
    samples: Lists  # the round's samples; empty lists if the method draws none
    label_N: np.ndarray  # of all samples, 1 or 0
    # A declared parameter of noise for these users, stacked; or single entries of it, as (users,
    # entries of the flattened parameter) -> values
    noise: Callable[[str, np.ndarray], Tensor]
    noise_at: Callable[[str, np.ndarray, np.ndarray], Tensor]

    def take(self, place_B: np.ndarray) -> RaggedBatch:
        """Some of the clients, by their places in the batch."""
        labels = Lists(self.samples.start_U1, self.label_N).take(place_B)
        return replace(
            self,
            user_P=self.user_P[place_B],
            reports_P=self.reports_P[place_B],
            history=self.history.take(place_B),
            row_N=Lists(self.history.start_U1, self.row_N).take(place_B).item_N,
            samples=self.samples.take(place_B),
            label_N=labels.item_N,
        )

    def pieces(self, size: int) -> Iterator[RaggedBatch]:
        """The batch in pieces of at most `size` clients."""
        for begin in range(0, len(self.user_P), size):
            yield self.take(np.arange(begin, min(begin + size, len(self.user_P))))


class RunsRagged(Protocol):
    """A method whose clients can also run as one ragged batch."""

    @property
    def runs_ragged(self) -> bool:
        """Whether it can with its present settings."""
        ...

    def update_ragged(
        self, shared: Params, private: Params, batch: RaggedBatch, round_number: int
    ) -> Params:
        """The sum of the absorbed uploads that arrive, row parameters as whole tables.

        `private` holds the parameters of all users; those of the batch are written in place.
        Parameters that are kept by history have one row per entry of the population's histories.
        """
        ...

    def score_ragged(
        self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
    ) -> Tensor:
        """`score` of some users, stacked. Parameters that are kept by history have here one row per
        entry of `history`."""
        ...


class StepsInPlace(Protocol):
    """A method whose server is too large for fresh copies in double precision in every round."""

    def step_in_place(
        self, shared: Params, total: Params, n_clients: int, round_number: int
    ) -> None:
        """`step`, computed in double precision and written into `shared`."""
        ...


class LinearInHistory(Protocol):
    """A method whose logits are sums over the history, so that an item can be explained by it."""

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        """(H, I): what each entry of the history brings; the sum over entries is `score`."""
        ...


class AbsorbsBlocks(Protocol):
    """A method whose absorbed upload is as large as the server: too large to exist once per client.

    Its `row_parameters` are empty.
    """

    def absorb_block(self, shared: Params, user_B: Tensor, upload: Params) -> Params:
        """The sum of `absorb` over the stacked uploads of a block of clients."""
        ...
