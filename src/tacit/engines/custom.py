"""The engine for custom algorithms: blocks of clients through `torch.func.vmap`, or all at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from tacit import streams
from tacit.core.capabilities import absorbs_blocks, plays_crowds, steps_in_place
from tacit.core.custom import AbsorbsBlocks, ClientData, DirectMethod, PlaysCrowds
from tacit.core.types import Init, Params, Task
from tacit.data.views import TrainView
from tacit.engines.participation import Participants
from tacit.engines.ragged import (
    WIDEST_BLOCK,
    Columns,
    RoundData,
    crowd_of,
    first_rows,
    histories,
    histories_taken,
    leaves_by_history,
    one_client,
    put,
    shape_in_state,
    taken,
)
from tacit.engines.state import State, draw_leaf
from tacit.memory import require_memory

# Uploads added up on the server, for methods that speak for themselves.

PIECE_FLOATS = 2**22  # of uploaded rows that are added up at once: rows can be very wide


@dataclass(eq=False)
class Total:
    """The sum of the uploads that arrived, in float64."""

    n_items: int
    row_leaves: frozenset[str]
    leaves: Params = field(default_factory=dict)
    clients: int = 0

    def add(self, upload: Params, columns: Columns, reports_B: np.ndarray) -> None:
        arrived = torch.from_numpy(np.flatnonzero(reports_B))
        self.clients += len(arrived)
        if not len(arrived):
            return
        for leaf, value in upload.items():
            if leaf in self.row_leaves:
                self._add_rows(leaf, value, columns[1], columns[2] > 0, arrived)
            else:
                self._add_leaf(leaf, value[arrived].double().sum(0))

    def add_block(
        self,
        method: AbsorbsBlocks,
        shared: Params,
        upload: Params,
        columns: Columns,
        reports_B: np.ndarray,
    ) -> None:
        arrived = torch.from_numpy(np.flatnonzero(reports_B))
        self.clients += len(arrived)
        if not len(arrived):
            return
        came = {leaf: value[arrived] for leaf, value in upload.items()}
        for leaf, value in method.absorb_block(shared, columns[0][arrived], came).items():
            self._add_leaf(leaf, value.double())

    def _add_leaf(self, leaf: str, total: Tensor) -> None:
        self.leaves[leaf] = self.leaves[leaf] + total if leaf in self.leaves else total

    def _add_rows(
        self, leaf: str, value_BH: Tensor, item_BH: Tensor, real_BH: Tensor, arrived: Tensor
    ) -> None:
        shape = value_BH.shape[2:]
        if leaf not in self.leaves:
            self.leaves[leaf] = torch.zeros((self.n_items, *shape), dtype=torch.float64)
        floats = max(1, value_BH.shape[1] * shape.numel())
        for piece in arrived.split(max(1, PIECE_FLOATS // floats)):
            real = real_BH[piece]
            rows = value_BH[piece][real].double()
            self.leaves[leaf].index_add_(0, item_BH[piece][real], rows)


# The engine for methods that speak for themselves: blocks of clients through `torch.func.vmap`.
#
# Methods that have their round also written for a crowd (`core/custom.py`) play it together
# instead. With `block=1` it is the readable loop: one client after another, nothing padded,
# nothing mapped.

BLOCK_FLOATS = 2**24  # of leaves that a block may hold copies of


@dataclass(frozen=True)
class DirectEngine:
    """Rounds of a method that speaks for itself. `block=None` takes what fits, at most 64 clients.

    >>> DirectEngine(block=1).block
    1
    """

    dtype: torch.dtype = torch.float32
    block: int | None = None

    def describe(self, method: DirectMethod, task: Task) -> str:
        """The path, and where a crowd's kernels are left aside, why.

        >>> from tacit.methods import FcfAls, FedSpectral
        >>> DirectEngine().describe(FcfAls(), Task(2, 3))
        'direct: crowd kernels of FcfAls, all clients together on cpu'
        >>> DirectEngine().describe(FedSpectral(), Task(2, 3))
        'direct: blocks of 64 clients on cpu'
        """
        name = type(method).__name__
        if self._together(method):
            return f"direct: crowd kernels of {name}, all clients together on cpu"
        size = self.block_size(method, task)
        path = "one client after another" if size == 1 else f"blocks of {size} clients"
        why = ""
        if self.block != 1 and isinstance(method, PlaysCrowds):
            why = f" ({name} has other functions or settings than the crowd kernels)"
        return f"direct: {path} on cpu{why}"

    def block_size(self, method: DirectMethod, task: Task) -> int:
        if self.block is not None:
            return self.block
        floats, in_blocks = _count(method.private(task)), absorbs_blocks(method)
        floats += _received(method, task) if in_blocks else _count(method.shared(task))
        return max(1, min(WIDEST_BLOCK, BLOCK_FLOATS // max(1, floats)))

    def _together(self, method: DirectMethod) -> bool:
        """Whether clients play as a crowd; a loop keeps to the definition for one client."""
        return self.block != 1 and plays_crowds(method)

    def start(self, method: DirectMethod, train: TrainView, seed: int) -> State:
        """Every leaf at its first value; a user's values depend on the user's id, not its place."""
        task = Task(train.n_users, train.n_items)
        shared, private = method.shared(task), method.private(task)
        width = torch.empty(0, dtype=self.dtype).element_size()
        require_memory(
            # the last round's state and the selected one's; the server's step, in float64
            2 * width * (_count(shared) + _kept(method, train)) + 24 * _count(shared),
            what=f"What the server and {train.n_users} clients keep for {train.n_items} items",
            hint="fewer users (--min-user), fewer items or a method with thinner tables would fit",
        )
        nobody, by_history = np.zeros(1, dtype=np.uint64), leaves_by_history(method)
        return State(
            {leaf: self._first(init, leaf, seed, nobody)[0] for leaf, init in shared.items()},
            {
                leaf: first_rows(init, self._first(init, leaf, seed, nobody)[0], train.positives)
                if leaf in by_history
                else self._first(init, leaf, seed, train.user_key_U)
                for leaf, init in private.items()
            },
            fresh_U=np.zeros(train.n_users, dtype=bool),
        )

    def _first(self, init: Init, leaf: str, seed: int, name_U: np.ndarray) -> Tensor:
        return draw_leaf(init, seed, streams.INIT, streams.name_of(leaf), name_U, self.dtype)

    @torch.no_grad()
    def round(
        self,
        method: DirectMethod,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        """Play one round; `state` is written in place."""
        number = state.round_number + 1
        total = self.clients(method, train, state, participants, seed)
        # A server that waits in vain has nothing to do; one that waits for nobody goes on.
        if total.clients and self._together(method) and steps_in_place(method):
            method.step_in_place(state.shared, total.leaves, total.clients, number)
        elif total.clients or not method.sends(number):
            # float64: what a server solves or decomposes must not depend on the devices' precision
            before = {leaf: value.double() for leaf, value in state.shared.items()}
            after = method.step(before, total.leaves, total.clients, number)
            state.shared = {leaf: after[leaf].to(self.dtype) for leaf in state.shared}
        state.fresh_U[:] = False
        state.fresh_U[participants.user_P] = True
        state.round_number = number

    @torch.no_grad()
    def clients(
        self,
        method: DirectMethod,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
        *,
        place: int | None = None,
    ) -> Total:
        """The clients' half of the next round: private leaves are written, uploads added up."""
        number = state.round_number + 1
        size = self.block_size(method, Task(train.n_users, train.n_items))
        data = RoundData.begin(method, train, seed, number, self.dtype, place)
        total = Total(train.n_items, method.row_leaves)
        if self._together(method) and plays_crowds(method) and place is None:
            crowd = crowd_of(data, participants)
            total.leaves = method.play(state.shared, state.private, crowd, number)
            total.clients = int(crowd.reports_P.sum())
            return total
        # longest first: clients of a block have similar length
        order_P = np.argsort(-train.positives.size_U[participants.user_P], kind="stable")
        for begin in range(0, len(order_P), size):
            place_B = order_P[begin : begin + size]
            user_B = participants.user_P[place_B]
            columns = data.block(user_B)
            own = taken(method, train, state.private, user_B)
            kept, upload = _update(method, state.shared, own, columns, number)
            put(method, train, state.private, user_B, kept)
            reports_B = participants.reports_P[place_B]
            if method.sends(number) and absorbs_blocks(method):
                total.add_block(method, state.shared, upload, columns, reports_B)
            elif method.sends(number):
                total.add(upload, columns, reports_B)
        return total


def _count(leaves: dict[str, Init]) -> int:
    return sum(init.count for init in leaves.values())


def _kept(method: DirectMethod, train: TrainView) -> int:
    """How many floats all clients keep."""
    return sum(math.prod(shape) for shape in shape_in_state(method, train).values())


def _received(method: DirectMethod, task: Task) -> int:
    """How many floats one client receives, without making any."""
    shared = {k: torch.empty(v.shape, device="meta") for k, v in method.shared(task).items()}
    received = method.broadcast(shared, torch.zeros((), dtype=torch.int64, device="meta"))
    return sum(value.numel() for value in received.values())


def _update(
    method: DirectMethod, shared: Params, private: Params, columns: Columns, round_number: int
) -> tuple[Params, Params]:
    """Broadcast, update and absorb for a block: private leaves and uploads, stacked.

    Uploads that only a block can absorb come as they were sent.
    """

    def client(own: Params, data: ClientData) -> tuple[Params, Params]:
        received = method.broadcast(shared, data.user)
        kept, upload = method.update(received, own, data, round_number)
        if absorbs_blocks(method):
            return kept, upload
        return kept, method.absorb(shared, data.user, upload)

    if len(columns[0]) == 1:
        own = {leaf: value[0] for leaf, value in private.items()}
        kept, upload = client(own, one_client(columns))
        return _stacked(kept), _stacked(upload)
    mapped = vmap(lambda own, columns: client(own, ClientData(*columns)))(private, columns)
    return mapped[0], mapped[1]


def _stacked(leaves: Params) -> Params:
    return {leaf: value[None] for leaf, value in leaves.items()}


# Scores of whole catalogues for blocks of users, for methods that speak for themselves.


@dataclass(frozen=True, eq=False)
class DirectScorer:
    """users (B,) -> logits (B, I)."""

    method: DirectMethod
    train: TrainView
    state: State
    block: int = WIDEST_BLOCK
    place: int | None = None

    @torch.no_grad()
    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        method, together = self.method, self.block > 1 and self.place is None
        if together and plays_crowds(method):
            history = self.train.positives.take(user_B)
            private = histories_taken(self.method, self.train, self.state.private, user_B)
            return method.score_crowd(self.state.shared, private, user_B, history).numpy()
        parts = [
            self._scores(user_B[begin : begin + self.block])
            for begin in range(0, len(user_B), self.block)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _scores(self, user_B: np.ndarray) -> np.ndarray:
        shared = self.state.shared
        dtype = next((leaf.dtype for leaf in shared.values()), torch.float32)
        columns = histories(self.train, user_B, dtype, place=self.place)
        private = taken(self.method, self.train, self.state.private, user_B)

        def score(own: Params, data: ClientData) -> Tensor:
            return self.method.score(self.method.broadcast(shared, data.user), own, data)

        if len(user_B) == 1:
            own = {leaf: value[0] for leaf, value in private.items()}
            return score(own, one_client(columns))[None].numpy()
        mapped: Tensor = vmap(lambda own, columns: score(own, ClientData(*columns)))(
            private, columns
        )
        return mapped.numpy()
