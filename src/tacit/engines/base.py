"""What every engine does the same way: begin a round, collect uploads in float64, let the server
step, and let clients meet what it made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from tacit import streams
from tacit.core.capabilities import meets_in_place
from tacit.core.compose import Algorithm, compose
from tacit.core.parts import (
    GradientRule,
    Guided,
    Refits,
    ServerRule,
    TableRule,
    Transform,
    Viewed,
)
from tacit.core.types import ITEMS, OWN_ITEMS, Params
from tacit.data.views import TrainView
from tacit.engines.participation import Participants, everybody
from tacit.engines.state import State, first_values
from tacit.parts.channel import Clip


class Engine(Protocol):
    """Runs rounds of one algorithm. All engines give the same numbers; tests hold them to it."""

    def describe(self, algorithm: Algorithm) -> str:
        """Which path runs, and why."""
        ...

    def start(self, algorithm: Algorithm, train: TrainView, seed: int) -> State: ...

    def round(
        self,
        algorithm: Algorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        """Play one round; `state` is written in place."""
        ...


@dataclass(eq=False)
class Totals:
    """The sum of all reporting clients' weighted changes, in float64, and what goes with it."""

    change: dict[str, np.ndarray]
    weight: float = 0.0
    clients: int = 0
    loss_sum: float = 0.0
    samples: int = 0
    noised: frozenset[str] = frozenset()  # leaves whose sum has passed the channel's noise

    @classmethod
    def empty(cls, algorithm: Algorithm) -> Totals:
        return cls({leaf: np.zeros(algorithm.shared[leaf].shape) for leaf in algorithm.uploads})


def play_round(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    participants: Participants,
    seed: int,
    train_clients: Callable[[Algorithm, Participants], Totals],
    gather: Callable[[], Totals],
    guide: Callable[[], None],
    lift: bool = True,
) -> None:
    """One round, around an engine's own way of training clients.

    `train_clients` trains the given participants, writes what they keep and returns the sums;
    `gather` sums personal tables and `guide` mixes the global one in, where the method does that.
    With `lift` the server makes the views of items wherever that gives the same numbers.
    """
    sync, round_number = algorithm.method.sync, state.round_number + 1
    if isinstance(sync, Guided) and sync.at == "next" and sync.sends(round_number - 1):
        guide()
    begin_round(algorithm, train, state, participants, seed)
    if lift and algorithm.lifted is not None:
        totals = train_on_views(algorithm, state, participants, seed, train_clients)
    else:
        totals = train_clients(algorithm, participants)
    if state.broadcast is not None:
        state.broadcast = state.shared[ITEMS].clone()
    if isinstance(algorithm.method.server, TableRule):
        _meet(algorithm, train, state, participants, seed)
    if totals.clients and algorithm.sends_changes(round_number):
        server_step(algorithm, state, totals, seed, round_number)
    if isinstance(sync, Guided) and sync.sends(round_number):
        server_step(algorithm, state, gather(), seed, round_number)
        if sync.at == "same":
            guide()
    if algorithm.method.local.forgets and sync.scores_with == "global":
        # nobody keeps a model between rounds: to rank with the new table, everybody fits one to it
        everyone = everybody(train)
        begin_round(algorithm, train, state, everyone, seed)
        train_clients(_fitting(algorithm), everyone)
    if not algorithm.method.local.restores:
        _forget(algorithm, train, state, participants, seed)
    state.fresh_U[:] = False
    state.fresh_U[participants.user_P] = True
    state.loss = totals.loss_sum / totals.samples if totals.samples else float("nan")
    state.round_number = round_number


def begin_round(
    algorithm: Algorithm, train: TrainView, state: State, participants: Participants, seed: int
) -> None:
    """What clients throw away at the start of a round."""
    if algorithm.method.sync.restarts:
        users = torch.from_numpy(participants.user_P)
        state.private[OWN_ITEMS][users] = state.shared[ITEMS]
    if algorithm.method.local.forgets:
        _forget(algorithm, train, state, participants, seed)


def _forget(
    algorithm: Algorithm, train: TrainView, state: State, participants: Participants, seed: int
) -> None:
    """Private model leaves back to their first values."""
    users = torch.from_numpy(participants.user_P)
    for leaf in algorithm.model_leaves:
        if leaf in state.private:
            init, dtype = algorithm.private[leaf], state.private[leaf].dtype
            names = train.user_key_U[participants.user_P]
            first = first_values(init, leaf, seed, names, dtype)
            state.private[leaf][users] = first.to(state.private[leaf].device)


def _fitting(algorithm: Algorithm) -> Algorithm:
    """The same method, training its private model alone."""
    local = algorithm.method.local
    assert isinstance(local, Refits)
    return compose(replace(algorithm.method, local=local.fitting), algorithm.task)


def server_step(
    algorithm: Algorithm, state: State, totals: Totals, seed: int, round_number: int
) -> None:
    """Noise on the sum, then the server's step, leaf by leaf."""
    server = algorithm.method.server
    assert isinstance(server, ServerRule)
    for name, total in totals.change.items():
        if name not in totals.noised:
            total = with_noise(algorithm, name, total, totals.clients, seed, round_number)
        leaf = state.shared[name]
        if name in algorithm.held and isinstance(server, GradientRule):
            _descend(algorithm, state, name, total / totals.weight, round_number)
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is said when ranked
            stepped = server.step(leaf.cpu().numpy().astype(np.float64), total, totals.weight)
        state.shared[name] = torch.from_numpy(np.asarray(stepped)).to(leaf)


def with_noise(
    algorithm: Algorithm, name: str, total: np.ndarray, clients: int, seed: int, round_number: int
) -> np.ndarray:
    """The sum of a leaf after the channel's noise."""
    # one generator for the whole chain: two links must not draw the same noise
    generator = streams.numpy_generator(seed, streams.NOISE, round_number, streams.name_of(name))
    for link in algorithm.method.channel:
        total = link.add_noise(total, clients, generator)
    return total


def _descend(
    algorithm: Algorithm, state: State, name: str, gradient: np.ndarray, round_number: int
) -> None:
    """The server's own step along the clients' mean gradient."""
    server = algorithm.method.server
    assert isinstance(server, GradientRule)
    optimiser = server.optimiser(name in algorithm.row_leaves)
    rate = optimiser.rate_at(round_number, algorithm.task.n_items)
    leaf, prefix = state.shared[name], f"{name}/"
    slots = {
        key.removeprefix(prefix): value
        for key, value in state.server.items()
        if key.startswith(prefix)
    }
    value, slots = optimiser.update(leaf, torch.from_numpy(gradient).to(leaf), slots, rate)
    state.shared[name] = value
    state.server |= {f"{prefix}{slot}": new for slot, new in slots.items()}


def train_on_views(
    algorithm: Algorithm,
    state: State,
    participants: Participants,
    seed: int,
    train_clients: Callable[[Algorithm, Participants], Totals],
) -> Totals:
    """The server makes the views of all items, clients train on those, and the sum of the views'
    gradients is taken back through the server's half by the chain rule."""
    lifted, encoder = algorithm.lifted, algorithm.method.items
    assert lifted is not None
    assert isinstance(encoder, Viewed)
    whole = state.shared
    making = [leaf for leaf in algorithm.held if leaf == ITEMS or leaf not in lifted.shared]
    free = {leaf: whole[leaf].detach().requires_grad_() for leaf in making}
    content = {leaf: table.to(whole[ITEMS]) for leaf, table in algorithm.content.items()}
    view_IW = encoder.views({**whole, **content, **free}, free[ITEMS])
    state.shared = {leaf: whole[leaf] for leaf in lifted.shared} | {ITEMS: view_IW.detach()}
    try:
        totals = train_clients(lifted, participants)
    finally:
        state.shared = whole
    back_IW = totals.change.pop(ITEMS)
    if encoder.placement == "server":  # what a client sends is the gradient of the views
        back_IW = with_noise(
            algorithm, ITEMS, back_IW, totals.clients, seed, state.round_number + 1
        )
        totals.noised = frozenset(making)
    gradients = torch.autograd.grad(
        view_IW, list(free.values()), torch.from_numpy(back_IW).to(view_IW), allow_unused=True
    )
    for leaf, gradient in zip(free, gradients, strict=True):
        totals.change[leaf] = (
            np.zeros(whole[leaf].shape) if gradient is None else gradient.double().cpu().numpy()
        )
    return totals


def _meet(
    algorithm: Algorithm, train: TrainView, state: State, participants: Participants, seed: int
) -> None:
    """A server that reads single tables gets those that arrived, and gives back what it makes."""
    server = algorithm.method.server
    assert isinstance(server, TableRule)
    user_P = participants.user_P[participants.reports_P]
    if not len(user_P):
        return
    # in the order of user keys, so that the order in which users were listed changes nothing
    users = torch.from_numpy(user_P[np.argsort(train.user_key_U[user_P], kind="stable")])
    own_UID = state.private[OWN_ITEMS]
    generator = streams.numpy_generator(
        seed, streams.NOISE, state.round_number + 1, streams.name_of("meeting")
    )
    if meets_in_place(server):
        state.shared |= server.meet_in_place(state.private, users, state.shared, generator)
        return
    meeting = server.meet(own_UID[users], state.shared, generator)
    state.shared |= meeting.shared
    for leaf, value in meeting.private.items():
        state.private[leaf][users] = value
    if meeting.replaced_Q is not None and meeting.table_QID is not None:
        own_UID[users[meeting.replaced_Q]] = meeting.table_QID


def upload_factor(algorithm: Algorithm, change: Params, batch_dims: int = 0) -> torch.Tensor | None:
    """How much of an upload passes the channel's clips; one number per client of a block.

    None where the channel does not clip. Norms are taken over all leaves together, in float64.
    """
    factor: torch.Tensor | None = None
    for link in algorithm.method.channel:
        if link.order is None:
            continue
        flat = [v.double().reshape(*v.shape[:batch_dims], -1) for v in change.values()]
        norm = torch.cat(flat, dim=-1).norm(link.order, dim=-1)
        step = _factor(link, norm if factor is None else norm * factor)
        factor = step if factor is None else factor * step
    return factor


def _factor(link: Transform, norm: torch.Tensor) -> torch.Tensor:
    """A link's factor of each client's upload; one that may look at several norms sees one."""
    if type(link) is Clip or norm.dim() == 0:
        return link.factor(norm)
    return torch.stack([link.factor(one) for one in norm])
