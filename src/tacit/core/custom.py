"""Custom algorithms: federated methods that are no expression over a trained item table.

Closed forms, hyper-networks and autoencoders say themselves what a client receives, does and sends.
Every function is for ONE client and pure, and maps over clients (torch.func.vmap): no shapes that
depend on data, no `.item()`, gradients through torch.func. Engines pad, map and add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from tacit.core.types import Init, Params, Task
from tacit.data.sampling import Sampling
from tacit.data.views import Lists

# Federated methods that are no expression over a trained item table: closed forms, hyper-networks,
# autoencoders. They say themselves what a client receives, does and sends.
#
# Every function is for ONE client and pure, and maps over clients (torch.func.vmap): no shapes that
# depend on data, no `.item()`, gradients through torch.func. Engines pad, map and add up.


@dataclass(frozen=True, eq=False)
class ClientData:
    """What one client looks at in one round; padding has `real_H` or `weight_N` equal to 0."""

    # its place in the population, for servers that keep something for each user; -1 for a person
    # who joined after training and has no place
    user: Tensor
    history_H: Tensor  # its train items
    real_H: Tensor
    item_N: Tensor  # the round's samples: positives and drawn negatives, shuffled
    label_N: Tensor
    weight_N: Tensor  # 1 / number of samples
    noise: Params = field(default_factory=dict)  # this round's own draws, as `noise` declares them


@runtime_checkable
class DirectMethod(Protocol):
    """A federated method that speaks for itself."""

    @property
    def reads(self) -> Literal["sum", "each"]:
        """Whether the server needs only the sum of the uploads, or every single one."""
        ...

    @property
    def sampling(self) -> Sampling | None:
        """How negatives are drawn; None if the method looks at histories alone."""
        ...

    @property
    def row_leaves(self) -> frozenset[str]:
        """Uploaded leaves that come as one row per item of the history; all other rows are zero."""
        ...

    def shared(self, task: Task) -> dict[str, Init]:
        """What the server holds, its optimiser's moments included."""
        ...

    def private(self, task: Task) -> dict[str, Init]: ...
    def noise(self, task: Task) -> dict[str, Init]:
        """What each client draws anew in every round (dropout masks, latent noise)."""
        ...

    def sends(self, round_number: int) -> bool: ...
    def broadcast(self, shared: Params, user: Tensor) -> Params:
        """What one client receives."""
        ...

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        """One client's round: its private leaves afterwards, and its upload."""
        ...

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        """One upload as the server adds it up: mostly the upload itself."""
        ...

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        """The server's next leaves, from the sum over the clients that reported."""
        ...

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        """One client's logits over the whole catalogue; `data` has the history and no samples."""
        ...

    def says(self) -> list[str]:
        """What a server can read of one client, in sentences for the report."""
        ...


@runtime_checkable
class KeepsHistoryRows(Protocol):
    """A method whose clients have tables of one row per item, and read and move only the rows of
    their histories: no other row needs to be kept, for thousands of clients at once."""

    @property
    def history_leaves(self) -> frozenset[str]:
        """These private leaves; they begin the same for all clients."""
        ...


@runtime_checkable
class AbsorbsBlocks(Protocol):
    """A method whose absorbed upload is as large as the server: too large to exist once per client.

    Its `row_leaves` are empty.
    """

    def absorb_block(self, shared: Params, user_B: Tensor, upload: Params) -> Params:
        """The sum of `absorb` over the stacked uploads of a block of clients."""
        ...


# Many clients at once, for methods whose round is also written down for speed.
#
# A method that speaks for itself is defined by functions for one client (`core/custom.py`). Some
# share most of their work between clients; `PlaysCrowds` says the same round for all of them, to
# the same numbers up to rounding. The loop keeps to the definition, and tests hold the two
# together.


@dataclass(frozen=True, eq=False)
class Crowd:
    """What P clients look at in one round, client after client and without padding."""

    user_P: np.ndarray  # their places in the population
    reports_P: np.ndarray  # whether a client's upload arrives
    history: Lists  # one list per client
    row_N: np.ndarray  # where the history's entries stand among those of the whole population
    samples: Lists  # the round's samples; empty lists if the method draws none
    label_N: np.ndarray  # of all samples, 1 or 0
    # A declared leaf of noise for these users, stacked; or single entries of it, as (users,
    # entries of the flattened leaf) -> values
    noise: Callable[[str, np.ndarray], Tensor]
    noise_at: Callable[[str, np.ndarray, np.ndarray], Tensor]

    def take(self, place_B: np.ndarray) -> Crowd:
        """Some of the clients, by their places in the crowd."""
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

    def pieces(self, size: int) -> Iterator[Crowd]:
        """The crowd in pieces of at most `size` clients."""
        for begin in range(0, len(self.user_P), size):
            yield self.take(np.arange(begin, min(begin + size, len(self.user_P))))


@runtime_checkable
class PlaysCrowds(Protocol):
    """A method whose clients can also play together."""

    @property
    def plays_crowds(self) -> bool:
        """Whether it can with its present settings."""
        ...

    def play(self, shared: Params, private: Params, crowd: Crowd, round_number: int) -> Params:
        """The sum of the absorbed uploads that arrive, row leaves as whole tables.

        `private` holds the leaves of all users; those of the crowd are written in place. Leaves
        that are kept by history have one row per entry of the population's histories.
        """
        ...

    def score_crowd(
        self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
    ) -> Tensor:
        """`score` of some users, stacked. Leaves that are kept by history have here one row per
        entry of `history`."""
        ...


@runtime_checkable
class StepsInPlace(Protocol):
    """A method whose server is too large for fresh copies in double precision in every round."""

    def step_in_place(
        self, shared: Params, total: Params, n_clients: int, round_number: int
    ) -> None:
        """`step`, computed in double precision and written into `shared`."""
        ...
