"""The engine for custom algorithms: blocks of clients through `torch.func.vmap`.

Methods that have their round also written for a ragged batch (`core/custom.py`) play it together
instead. With `block=1` clients play one after another, nothing padded, nothing mapped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from tacit.core.algorithm import ClientData, ClientState, Exchange, ServerState, Total
from tacit.core.custom import CustomAlgorithm
from tacit.core.types import EnginePath, Initializer, Params
from tacit.data.views import TrainView
from tacit.engines.clients import (
    WIDEST_BLOCK,
    ClientDraws,
    Columns,
    histories,
    histories_taken,
    one_client,
    put,
    shape_in_state,
    taken,
)
from tacit.engines.participation import Participants
from tacit.engines.ragged import ragged_batch
from tacit.engines.round import play_round
from tacit.engines.state import State, initial_state
from tacit.errors import argument
from tacit.memory import require_memory

BLOCK_FLOATS = 2**24  # of parameters that a block may hold copies of
PIECE_FLOATS = 2**22  # of uploaded rows that are added up at once: rows can be very wide


@dataclass(frozen=True)
class CustomEngine:
    """Rounds of a custom algorithm. `block=None` takes what fits, at most 64 clients. `device` is
    where the server's step is computed; all else is on the CPU.

    >>> CustomEngine(block=1).block
    1
    """

    dtype: torch.dtype = torch.float32
    block: int | None = None
    device: str = "cpu"

    def describe(self, algorithm: CustomAlgorithm) -> EnginePath:
        """The path, and where a ragged batch's kernels are left aside, why.

        >>> from tacit.core.types import Task
        >>> from tacit.methods import FcfAls, FedSpectral
        >>> CustomEngine().describe(FcfAls().algorithm(Task(2, 3))).text
        'custom: ragged kernels of FcfAls, all clients together on cpu'
        >>> CustomEngine().describe(FedSpectral().algorithm(Task(2, 3))).text
        'custom: blocks of 64 clients on cpu'
        """
        name = type(algorithm.method).__name__
        if self._together(algorithm):
            text = f"custom: ragged kernels of {name}, all clients together on cpu"
            if algorithm.method.recency is not None:
                text += f"; scores: blocks of {WIDEST_BLOCK} clients (recent items count more)"
            return EnginePath("custom", text + self._server, kernel="ragged")
        size = self.block_size(algorithm)
        path = "one client after another" if size == 1 else f"blocks of {size} clients"
        why = None
        if self.block != 1 and algorithm.has_ragged:
            why = f"{name} has other functions or settings than the ragged kernels"
        if self.block != 1 and algorithm.has_ragged and algorithm.clips:
            why = "each upload is clipped, which ragged kernels cannot do"
        text = f"custom: {path} on cpu" + (f" ({why})" if why else "")
        return EnginePath("custom", text + self._server, reason=why)

    @property
    def _server(self) -> str:
        return "" if self.device == "cpu" else f"; the server's step on {self.device}"

    def block_size(self, algorithm: CustomAlgorithm) -> int:
        if self.block is not None:
            return self.block
        floats = _count(algorithm.private)
        floats += _received(algorithm) if algorithm.absorbs_blocks else _count(algorithm.shared)
        return max(1, min(WIDEST_BLOCK, BLOCK_FLOATS // max(1, floats)))

    def _together(self, algorithm: CustomAlgorithm) -> bool:
        """Whether clients play as one ragged batch; a loop keeps to the definition."""
        return self.block != 1 and algorithm.ragged is not None

    def start(self, algorithm: CustomAlgorithm, train: TrainView, seed: int) -> State:
        """Every parameter at its first value."""
        width = torch.empty(0, dtype=self.dtype).element_size()
        kept = sum(math.prod(shape) for shape in shape_in_state(algorithm, train).values())
        held = _count(algorithm.shared)
        require_memory(
            # the last round's state and the selected one's; the server's step, in float64
            2 * width * (held + kept) + 24 * held,
            what=f"What the server and {train.n_users} clients keep for {train.n_items} items",
            hint=f"fewer users ({argument('min_user')}), fewer items or a method with thinner "
            "tables would fit",
        )
        return initial_state(algorithm, train, seed, self.dtype)

    @torch.no_grad()
    def round(
        self,
        algorithm: CustomAlgorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        """Play one round; `state` is written in place."""
        in_place, step = algorithm.in_place_server, None
        if in_place is not None and self._together(algorithm):

            def step(total: Total, number: int) -> None:
                sums = {name: torch.from_numpy(value) for name, value in total.sums.items()}
                algorithm.require_finite(sums)
                in_place.step_in_place(state.shared, sums, total.clients, number)

        elif self.device != "cpu":

            def step(total: Total, number: int) -> None:
                there = {name: value.to(self.device) for name, value in state.shared.items()}
                after = algorithm.step(ServerState(there, state.server), total, number)
                state.shared = {name: value.cpu() for name, value in after.parameters.items()}
                state.server = after.optimizer

        play = partial(self.play, algorithm, train, state, seed)
        play_round(algorithm, train, state, participants, seed, play, step)

    @torch.no_grad()
    def play(
        self,
        algorithm: CustomAlgorithm,
        train: TrainView,
        state: State,
        seed: int,
        exchange: Exchange,
        who: Participants,
    ) -> Total:
        """The clients' half of a round: private parameters are written, uploads added up."""
        number, total = state.round_number + 1, Total()
        draws = ClientDraws.of(algorithm, exchange, train, seed, number, self.dtype)
        together = algorithm.ragged if self._together(algorithm) else None
        if together is not None:
            batch = ragged_batch(draws, who)
            summed = together.update_ragged(state.shared, state.private, batch, number)
            total.sums = {name: value.numpy() for name, value in summed.items()}
            total.clients = int(batch.reports_P.sum())
            return total
        size = self.block_size(algorithm)
        # longest first: clients of a block have similar length
        order_P = np.argsort(-train.positives.size_U[who.user_P], kind="stable")
        for begin in range(0, len(order_P), size):
            place_B = order_P[begin : begin + size]
            user_B = who.user_P[place_B]
            columns = draws.block(user_B)
            own = taken(algorithm, train, state.private, user_B)
            kept, upload = _update(algorithm, state.shared, own, columns, exchange, number)
            put(algorithm, train, state.private, user_B, kept)
            if exchange.sends:
                arrived = torch.from_numpy(np.flatnonzero(who.reports_P[place_B]))
                _add(algorithm, state.shared, total, upload, columns, arrived)
        return total


def _count(parameters: dict[str, Initializer]) -> int:
    return sum(init.count for init in parameters.values())


def _received(algorithm: CustomAlgorithm) -> int:
    """How many floats one client receives, without making any."""
    shared = {k: torch.empty(v.shape, device="meta") for k, v in algorithm.shared.items()}
    received = algorithm.broadcast(shared, torch.zeros((), dtype=torch.int64, device="meta"))
    return sum(value.numel() for value in received.values())


def _update(
    algorithm: CustomAlgorithm,
    shared: Params,
    private: Params,
    columns: Columns,
    exchange: Exchange,
    round_number: int,
) -> tuple[Params, Params]:
    """Broadcast, update and absorb for a block: private parameters and uploads, stacked.

    Uploads that only a block can absorb come as they were sent.
    """

    def client(own: Params, data: ClientData) -> tuple[Params, Params]:
        received = algorithm.broadcast(shared, data.user)
        update = algorithm.update(exchange, received, ClientState(own), data, round_number)
        if algorithm.absorbs_blocks:
            return update.private, update.upload.change
        return update.private, algorithm.absorbed(shared, data.user, update.upload).change

    if len(columns[0]) == 1:
        own = {name: value[0] for name, value in private.items()}
        kept, upload = client(own, one_client(columns))
        return _stacked(kept), _stacked(upload)
    mapped = vmap(lambda own, columns: client(own, ClientData(*columns)))(private, columns)
    return mapped[0], mapped[1]


def _stacked(parameters: Params) -> Params:
    return {name: value[None] for name, value in parameters.items()}


def _add(
    algorithm: CustomAlgorithm,
    shared: Params,
    total: Total,
    upload: Params,
    columns: Columns,
    arrived: Tensor,
) -> None:
    """The uploads of a block that arrived, added up in float64."""
    total.clients += len(arrived)
    if not len(arrived):
        return
    in_blocks = algorithm.absorbs_blocks
    if in_blocks is not None:
        came = {name: value[arrived] for name, value in upload.items()}
        for name, value in in_blocks.absorb_block(shared, columns[0][arrived], came).items():
            total.add(name, value.double().numpy())
        return
    for name, value in upload.items():
        if name in algorithm.sent_by_row:
            _add_rows(total, algorithm.task.n_items, name, value, columns, arrived)
        else:
            total.add(name, value[arrived].double().sum(0).numpy())


def _add_rows(
    total: Total, n_items: int, name: str, value_BH: Tensor, columns: Columns, arrived: Tensor
) -> None:
    """Rows of histories, added to the rows of a table over all items."""
    item_BH, real_BH = columns[1], columns[2] > 0
    shape = value_BH.shape[2:]
    if name not in total.sums:
        total.sums[name] = np.zeros((n_items, *shape))
    table = torch.from_numpy(total.sums[name])
    floats = max(1, value_BH.shape[1] * shape.numel())
    for piece in arrived.split(max(1, PIECE_FLOATS // floats)):
        real = real_BH[piece]
        table.index_add_(0, item_BH[piece][real], value_BH[piece][real].double())


@dataclass(frozen=True, eq=False)
class CustomScorer:
    """users (B,) -> logits (B, I), from the functions of a custom algorithm."""

    algorithm: CustomAlgorithm
    train: TrainView
    state: State
    block: int = WIDEST_BLOCK
    newcomer: bool = False

    @torch.no_grad()
    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        together = self.algorithm.ragged if self.block > 1 and not self.newcomer else None
        if together is not None and self.algorithm.method.recency is None:
            ordered = self.algorithm.reads_order
            lists = self.train.histories.items if ordered else self.train.positives
            history = lists.take(user_B)
            private = histories_taken(self.algorithm, self.train, self.state.private, user_B)
            return together.score_ragged(self.state.shared, private, user_B, history).numpy()
        parts = [
            self._scores(user_B[begin : begin + self.block])
            for begin in range(0, len(user_B), self.block)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _scores(self, user_B: np.ndarray) -> np.ndarray:
        algorithm, shared = self.algorithm, self.state.shared
        dtype = next((value.dtype for value in shared.values()), torch.float32)
        order = algorithm.reads_order
        columns = histories(self.train, user_B, dtype, newcomer=self.newcomer, order=order)
        private = taken(algorithm, self.train, self.state.private, user_B)

        def score(own: Params, data: ClientData) -> Tensor:
            received = algorithm.broadcast(shared, data.user)
            return algorithm.score(received, ClientState(own), data)

        if len(user_B) == 1:
            own = {name: value[0] for name, value in private.items()}
            return score(own, one_client(columns))[None].numpy()
        mapped: Tensor = vmap(lambda own, columns: score(own, ClientData(*columns)))(
            private, columns
        )
        return mapped.numpy()
