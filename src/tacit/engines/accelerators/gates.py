"""FedRKG's gates: what the guidance of linear scorers and of perceptrons shares.

A gate opens by σ(b + w · [P; G; P − G]) for a row P of the personal table and G of the global one.
Then P ← β P + 2(1 − β) g G. Clients are independent, and one thread computes each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.core.capabilities import is_plain_descent
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.views import TrainView
from tacit.engines.accelerators.claims import POSITIVES_COUNT, Claim, OnePass
from tacit.engines.accelerators.logistic import FAST, Logistic, dot
from tacit.engines.accelerators.queue import Queue, Turns
from tacit.engines.state import State
from tacit.parts.guidance import AdaptiveGuidance


class Gates(NamedTuple):
    """The gates and tables of all clients, and how gates are trained and used."""

    weight_UG: np.ndarray  # [own; global; difference]
    bias_U: np.ndarray
    own_UID: np.ndarray
    table_ID: np.ndarray
    rate: np.floating
    tolerance: float  # training stops where the loss changes by less than this part of it
    beta: np.floating
    pull: np.floating  # 2(1 − β)
    loss: Logistic


class GateRoom(NamedTuple):
    """Room for one gate, lent by a thread."""

    on_own: np.ndarray  # the gate's weights as it sees P and G alone
    on_global: np.ndarray
    own_gradient: np.ndarray
    global_gradient: np.ndarray


def guidance(algorithm: ComposedAlgorithm, claimed: OnePass) -> Claim[Guidance]:
    """Whether the gate of a rule is compiled, for a method that kernels train."""
    sync = algorithm.method.sync
    if algorithm.method.recency is not None:
        return Claim(None, POSITIVES_COUNT)
    if type(sync) is not AdaptiveGuidance:
        return Claim(None, f"{type(sync).__name__} is no rule whose gate is compiled")
    if sync.gate_input != "own_global_difference":
        return Claim(None, f"the gate reads {sync.gate_input}")
    if not is_plain_descent(sync.gate_optimiser):
        return Claim(None, "sync.gate_optimiser is not plain gradient descent")
    return Claim(Guidance(algorithm, sync, claimed.loss.on == "probabilities"))


@dataclass(frozen=True)
class Guidance:
    """A rule whose gate kernels know."""

    algorithm: ComposedAlgorithm
    sync: AdaptiveGuidance
    on_probabilities: bool
    name: ClassVar[str] = "guidance"

    def of(
        self, train: TrainView, state: State, samples_U: np.ndarray, seed: int
    ) -> tuple[Queue, Turns, Gates]:
        """What kernels take, for everybody, in this round."""
        round_number, own_UID = state.round_number + 1, state.private[OWN_ITEMS].numpy()
        kind = own_UID.dtype.type
        queue = Queue.of_everybody(self.algorithm, train, samples_U)
        rate = self.sync.gate_optimiser.rate_at(round_number, self.algorithm.task.n_items)
        one, beta = kind(1.0), kind(self.sync.beta)
        gates = Gates(
            state.private["gate.w"].numpy(),
            state.private["gate.b"].numpy(),
            own_UID,
            state.shared[ITEMS].numpy(),
            kind(rate),
            self.sync.tolerance,
            beta,
            (one + one) * (one - beta),
            Logistic.of(self.on_probabilities, own_UID.dtype),
        )
        return queue, queue.turns(own_UID.dtype, seed, round_number, self.sync.epochs), gates


@compiled(error_model="numpy")
def make_gate_room(width, like):  # type: ignore[no-untyped-def]
    """`like` is any array of the right kind."""
    return GateRoom(
        np.empty(width, like.dtype),
        np.empty(width, like.dtype),
        np.empty(width, like.dtype),
        np.empty(width, like.dtype),
    )


# Inlined, not called: see `router`.


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def begin_gate(gate, room, zero):  # type: ignore[no-untyped-def]
    """The gate's weights as a batch sees them, and gradients of zero."""
    width = len(room.on_own)
    for d in range(width):
        room.on_own[d] = gate[d] + gate[2 * width + d]
        room.on_global[d] = gate[width + d] - gate[2 * width + d]
        room.own_gradient[d] = zero
        room.global_gradient[d] = zero


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def opening_of(own_row, row, bias, room):  # type: ignore[no-untyped-def]
    """The gate's logit for one pair of rows."""
    opening = bias + dot(own_row, room.on_own, len(room.on_own))
    opening += dot(row, room.on_global, len(room.on_own))
    return opening


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def add_to_gate(step, own_row, row, room):  # type: ignore[no-untyped-def]
    """Gradients of one sample, whose slope by the gate's logit is `step`."""
    for d in range(len(room.own_gradient)):
        room.own_gradient[d] += step * own_row[d]
        room.global_gradient[d] += step * row[d]


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def step_gate(gate, rate, room):  # type: ignore[no-untyped-def]
    """One step of the gate's weights."""
    own_gradient, global_gradient = room.own_gradient, room.global_gradient
    width = len(own_gradient)
    for d in range(width):
        gate[d] -= rate * own_gradient[d]
        gate[width + d] -= rate * global_gradient[d]
        gate[2 * width + d] -= rate * (own_gradient[d] - global_gradient[d])


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def has_converged(before, total, tolerance):  # type: ignore[no-untyped-def]
    """Whether an epoch's loss is nearly that of the epoch before."""
    return abs(before - total) < tolerance * min(before, 1e300)


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def mix_table(gates, user, room):  # type: ignore[no-untyped-def]
    """P ← β P + 2(1 − β) g G of one client, in place."""
    own_ID, table_ID, one = gates.own_UID[user], gates.table_ID, gates.loss.one
    begin_gate(gates.weight_UG[user], room, gates.loss.zero)
    for item in range(len(own_ID)):
        own_row, row = own_ID[item], table_ID[item]
        opening = opening_of(own_row, row, gates.bias_U[user], room)
        opened = gates.pull / (one + np.exp(-opening))
        for d in range(own_ID.shape[1]):
            own_row[d] = gates.beta * own_row[d] + opened * row[d]
