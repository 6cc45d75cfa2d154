"""One round, whatever the method and whatever the engine: exchanges, sums and the server's steps.

An engine says how clients play an exchange (`Play`); everything around that is here, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
import torch

from tacit import streams
from tacit.core.algorithm import TRAIN, Algorithm, Exchange, ServerState, Total
from tacit.core.capabilities import aggregates_in_place
from tacit.core.compose import ComposedAlgorithm
from tacit.core.parts import TableRule
from tacit.core.types import BOUND, ITEMS, OWN_ITEMS, EnginePath, Params
from tacit.data.views import TrainView
from tacit.engines.participation import Participants, everybody
from tacit.engines.state import State, first_values
from tacit.errors import TacitError

Play = Callable[[Exchange, Participants], Total]


Runnable = TypeVar("Runnable", contravariant=True)  # the kind of algorithm that an engine runs


class Engine(Protocol[Runnable]):
    """Runs rounds of one algorithm. All engines give the same numbers; tests hold them to it."""

    def describe(self, algorithm: Runnable) -> EnginePath:
        """Which path runs, and why."""
        ...

    def start(self, algorithm: Runnable, train: TrainView, seed: int) -> State: ...

    def round(
        self,
        algorithm: Runnable,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        """Play one round; `state` is written in place."""
        ...


def play_round(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    participants: Participants,
    seed: int,
    play: Play,
    step: Callable[[Total, int], None] | None = None,
) -> None:
    """One round, around an engine's own way of playing an exchange; `step` replaces the server's
    step where an engine has one that does the same in place."""
    number, trained = state.round_number + 1, Total()
    for exchange in algorithm.exchanges(number):
        who = everybody(train) if exchange.everybody else participants
        begin(algorithm, train, state, who, exchange, seed)
        total = play(exchange, who)
        if exchange.name == TRAIN:
            trained = total
            if state.broadcast is not None:
                state.broadcast = state.shared[ITEMS].clone()
            if algorithm.reads_tables is not None:
                _read_tables(algorithm, algorithm.reads_tables, train, state, who, seed)
        server_step(algorithm, state, total, seed, exchange, step)
    if not algorithm.restores:
        forget(algorithm, train, state, participants, seed)
    state.fresh_U[:] = False
    state.fresh_U[participants.user_P] = True
    state.loss = trained.loss_sum / trained.samples if trained.samples else float("nan")
    state.round_number = number


def server_step(
    algorithm: Algorithm,
    server: State,
    total: Total,
    seed: int,
    exchange: Exchange,
    step: Callable[[Total, int], None] | None = None,
) -> None:
    """The server's half of an exchange, once the sum is there: noise, and the next parameters.

    `server` is written in place; nothing of it that belongs to clients is looked at.
    """
    # a server that waits in vain has nothing to do; one that waits for nobody may go on
    if not (total.clients if exchange.sends else algorithm.steps_alone):
        return
    number = server.round_number + 1
    add_noise(algorithm, server, total, seed, exchange)
    if step is not None:
        step(total, number)
        return
    after = algorithm.step(ServerState(server.shared, server.server), total, number)
    server.shared, server.server = after.parameters, after.optimizer


def begin(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    participants: Participants,
    exchange: Exchange,
    seed: int,
) -> None:
    """What clients throw away at the start of an exchange."""
    if algorithm.restarts(exchange):
        users = torch.from_numpy(participants.user_P)
        state.private[OWN_ITEMS][users] = state.shared[ITEMS]
    if algorithm.forgets(exchange):
        forget(algorithm, train, state, participants, seed)


def forget(
    algorithm: Algorithm, train: TrainView, state: State, participants: Participants, seed: int
) -> None:
    """Private parameters of the model back to their first values."""
    users = torch.from_numpy(participants.user_P)
    for name in algorithm.forgotten:
        init, dtype = algorithm.private[name], state.private[name].dtype
        names = train.user_key_U[participants.user_P]
        first = first_values(init, name, seed, names, dtype)
        state.private[name][users] = first.to(state.private[name].device)


def weights_of(algorithm: Algorithm, train: TrainView, user_B: np.ndarray) -> np.ndarray:
    """How much the uploads of some clients count, from what each declares."""
    size_S, place_B = np.unique(train.positives.size_U[user_B], return_inverse=True)
    weight_S = [algorithm.weight(algorithm.declared(examples)) for examples in size_S.tolist()]
    return np.array(weight_S, float)[place_B]


def add_noise(
    algorithm: Algorithm, state: State, total: Total, seed: int, exchange: Exchange
) -> None:
    """The channel's noise on all sums of the next round that have passed none yet, which take the
    place of those without."""
    number, unit = state.round_number + 1, unit_of(algorithm, state)
    for name, value in total.sums.items():
        if name not in total.noised:
            known = (algorithm, name, value, total.clients, seed, number, exchange.name)
            # the bits for a bound are in units of it already
            total.sums[name] = with_noise(*known, unit=1.0 if name == BOUND else unit)


def unit_of(algorithm: Algorithm, state: State) -> float:
    """In what units the noise of a claim is: those of the bound that is estimated now."""
    return 1.0 if algorithm.protection is None else algorithm.protection.unit(state.shared)


def with_noise(
    algorithm: Algorithm,
    name: str,
    total: np.ndarray,
    clients: int,
    seed: int,
    round_number: int,
    exchange: str = TRAIN,
    unit: float = 1.0,
) -> np.ndarray:
    """The sum of a parameter after the channel's noise.

    Under a claim no two sums of a run share their noise: the exchange is part of the stream's name,
    since a parameter may be sent in two exchanges of one round.
    """
    purpose, stream = streams.NOISE, name
    if algorithm.protection is not None:
        if algorithm.protection.releases is None:
            raise TacitError(
                "This method claims privacy, and nobody has planned how often a user sends; give "
                "its task the number of releases: Task.of(train, releases=..)."
            )
        purpose, stream = streams.PRIVATE_NOISE, f"{exchange}:{name}"
    # one generator for the whole chain: two links must not draw the same noise
    generator = streams.numpy_generator(seed, purpose, round_number, streams.name_of(stream))
    if unit != 1.0:
        total = total / unit
    for link in algorithm.channel:
        total = link.add_noise(total, clients, generator)
    return total if unit == 1.0 else total * unit


def _read_tables(
    algorithm: Algorithm,
    server: TableRule,
    train: TrainView,
    state: State,
    participants: Participants,
    seed: int,
) -> None:
    """A server that reads single tables gets those that arrived, and gives back what it makes.

    It sees its own parameters and the tables of the clients that reported, and nothing else.
    """
    user_P = participants.user_P[participants.reports_P]
    if not len(user_P):
        return
    # in the order of user keys, so that the order in which users were listed changes nothing
    users = torch.from_numpy(user_P[np.argsort(train.user_key_U[user_P], kind="stable")])
    generator = meeting_generator(seed, state.round_number + 1)
    own_UID = state.private[OWN_ITEMS]
    made = {name: state.private[name] for name in algorithm.made_by_server}
    seen: Params = {OWN_ITEMS: own_UID, **made}
    if aggregates_in_place(server) and len(users) == len(own_UID):
        # all tables arrived: they are read where they lie
        state.shared = state.shared | server.aggregate_in_place(
            seen, users, state.shared, generator
        )
        return
    sent = {name: value[users] for name, value in seen.items()}
    state.shared = read_tables(algorithm, server, sent, state.shared, generator)
    for name, value in sent.items():
        seen[name][users] = value


def meeting_generator(seed: int, round_number: int) -> np.random.Generator:
    """What a server that reads single tables draws from in a round."""
    return streams.numpy_generator(seed, streams.NOISE, round_number, streams.name_of("meeting"))


def read_tables(
    algorithm: Algorithm,
    server: TableRule,
    sent: Params,
    shared: Params,
    generator: np.random.Generator,
) -> Params:
    """A server's next parameters from the tables that arrived, stacked in the order of user keys.

    `sent` has these tables, and what the server makes for each client; both are written in place.
    """
    own_PID = sent[OWN_ITEMS]
    if aggregates_in_place(server):
        places = torch.arange(len(own_PID))
        return shared | server.aggregate_in_place(sent, places, shared, generator)
    aggregated = server.aggregate_tables(own_PID, shared, generator)
    strange = sorted(aggregated.private.keys() - set(algorithm.made_by_server))
    if strange:
        raise TacitError(
            f"{type(server).__name__} gives clients {strange[0]!r}, which it does not declare; a "
            "server writes what its `private` names, and nothing else that is theirs."
        )
    for name, value in aggregated.private.items():
        sent[name][:] = value
    if aggregated.replaced_Q is not None and aggregated.table_QID is not None:
        own_PID[aggregated.replaced_Q] = aggregated.table_QID
    return shared | aggregated.shared


def shared_with_views(algorithm: ComposedAlgorithm, shared: Params) -> Params:
    """What clients receive where the server makes the views of items: these in the place of the
    item table and of what makes them."""
    with_server_views, encoder = algorithm.with_server_views, algorithm.method.items.viewed
    assert with_server_views is not None
    assert encoder is not None
    content = {name: table.to(shared[ITEMS]) for name, table in algorithm.content.items()}
    with torch.no_grad():
        view_IW = encoder.views({**shared, **content}, shared[ITEMS])
    return {name: shared[name] for name in with_server_views.shared} | {ITEMS: view_IW}


def train_on_views(
    algorithm: ComposedAlgorithm,
    state: State,
    seed: int,
    train_clients: Callable[[ComposedAlgorithm], Total],
) -> Total:
    """The server makes the views of all items, clients train on those, and the sum of the views'
    gradients is taken back through the server's half by the chain rule."""
    with_server_views, encoder = algorithm.with_server_views, algorithm.method.items.viewed
    assert with_server_views is not None
    assert encoder is not None
    whole = state.shared
    making = [
        name
        for name in algorithm.gradients_only
        if name == ITEMS or name not in with_server_views.shared
    ]
    free = {name: whole[name].detach().requires_grad_() for name in making}
    content = {name: table.to(whole[ITEMS]) for name, table in algorithm.content.items()}
    view_IW = encoder.views({**whole, **content, **free}, free[ITEMS])
    state.shared = {name: whole[name] for name in with_server_views.shared} | {
        ITEMS: view_IW.detach()
    }
    try:
        total = train_clients(with_server_views)
    finally:
        state.shared = whole
    back_IW = total.sums.pop(ITEMS)
    if encoder.placement == "server":  # what a client sends is the gradient of the views
        if ITEMS not in total.noised:
            number = state.round_number + 1
            unit = unit_of(algorithm, state)
            back_IW = with_noise(algorithm, ITEMS, back_IW, total.clients, seed, number, unit=unit)
        total.noised |= frozenset(making)
    gradients = torch.autograd.grad(
        view_IW, list(free.values()), torch.from_numpy(back_IW).to(view_IW), allow_unused=True
    )
    for name, gradient in zip(free, gradients, strict=True):
        total.sums[name] = (
            np.zeros(whole[name].shape) if gradient is None else gradient.double().cpu().numpy()
        )
    return total
