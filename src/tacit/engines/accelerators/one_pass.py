"""One client's whole round in one pass: what linear scorers and perceptrons share.

A client's rows stay in cache, which is where the speed comes from. Here are the tables they come
from, the pull of IFedRec's rule, the clip of an upload, and where rows go at the end.

A step of the pull alone takes a row a fixed part of the way to the guide, so k of them are one step
of another length. Clients hold the rows they read; the others drift alike. Kernels add up how far a
client's rows end from where the pull alone takes them. Where it takes them is the same for all rows
of the table, and is added for all clients at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from tacit.compiled import compiled
from tacit.core.algorithm import Total
from tacit.core.compose import ComposedAlgorithm
from tacit.core.parts import Transform
from tacit.core.types import BOUND, ITEMS, Phase
from tacit.data.views import TrainView
from tacit.engines.accelerators.claims import OnePass
from tacit.engines.accelerators.logistic import FAST, Logistic, Rates, scale_to
from tacit.engines.accelerators.queue import Queue, Turns
from tacit.engines.accelerators.sums import in_order
from tacit.engines.participation import Participants
from tacit.engines.state import State
from tacit.engines.tuned import TunedRows
from tacit.parts.sync import GUIDE, Anchored

# What moves in a batch: everything at once, the scorer then the rows, or one of them alone.
JOINT, ALTERNATE, MODEL_ONLY, ITEMS_ONLY = 0, 1, 2, 3


class Steps(NamedTuple):
    """How a client descends."""

    rates: Rates
    mode_T: np.ndarray  # what moves in each epoch
    gradient_clip: np.floating  # the most that a gradient's norm may be; 0: no bound
    loss: Logistic


class Tables(NamedTuple):
    """Where a client's rows come from: the global table, or its own one."""

    table_ID: np.ndarray
    own_UID: np.ndarray
    has_own: bool


class Pull(NamedTuple):
    """The guide, and the part of the way to it that k steps of the pull alone make (K of them)."""

    guide_ID: np.ndarray
    share_K: np.ndarray


class Bound(NamedTuple):
    """The clip of an upload: its norm's order (0: there is none) and the most that it may be."""

    order: int
    most: float


class Tuned(NamedTuple):
    """The rows that clients rank with: those of user u begin at `start_U[u]`."""

    start_U: np.ndarray
    count_U: np.ndarray
    item_C: np.ndarray
    value_CD: np.ndarray
    are_kept: bool

    @classmethod
    def of(cls, tuned: TunedRows | None, kind: np.dtype) -> Tuned:
        """Where they lie; without any, arrays of the same types.

        >>> Tuned.of(None, np.dtype(np.float32)).are_kept
        False
        """
        if tuned is None:
            none = np.zeros(1, dtype=np.int64)
            return cls(none, none, np.zeros(1, np.int32), np.zeros((1, 1), kind), False)
        return cls(tuned.start_U, tuned.count_U, tuned.item_C, tuned.value_CD.numpy(), True)


class Sums(NamedTuple):
    """What a round adds up, one sum per chunk of clients, in float64."""

    change_CID: np.ndarray
    network_CN: np.ndarray
    loss_C: np.ndarray
    within_C: np.ndarray  # how many uploads that arrive are within their bound


class Rows(NamedTuple):
    """Room for the rows that one client touches, lent by a thread."""

    place_I: np.ndarray  # of an item among the rows; -1: not touched
    value_RD: np.ndarray
    item_R: np.ndarray
    pulled_R: np.ndarray  # how many steps the pull has made on a row


@compiled(error_model="numpy")
def make_rows(turns, most, width, like):  # type: ignore[no-untyped-def]
    """Room for a client with `most` samples; `like` is any array of the right kind."""
    n_items = turns.drawing.n_items
    room = min(n_items, most * turns.epochs)
    return Rows(
        np.full(n_items, -1, np.int64),
        np.empty((room, width), like.dtype),
        np.empty(room, np.int64),
        np.zeros(room, np.int64),
    )


@compiled(error_model="numpy")
def client_table(tables, user):  # type: ignore[no-untyped-def]
    """The table that a client's rows come from."""
    return tables.own_UID[user] if tables.has_own else tables.table_ID


# Callers ask whether the item is there. A function that asked, and returned the place, made rounds
# one and a half times as long.
@compiled(fastmath=FAST, error_model="numpy", inline="always")
def copy_row(place_I, item_R, value_RD, row, table_ID, item):  # type: ignore[no-untyped-def]
    """An item that is not among the client's rows becomes one of them, at `row`."""
    place_I[item] = row
    item_R[row] = item
    for d in range(value_RD.shape[1]):
        value_RD[row, d] = table_ID[item, d]


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def catch_up(rows, row, done, pull):  # type: ignore[no-untyped-def]
    """The steps of the pull that a row owes, `done` of which were made in all.

    Callers ask first whether there is a pull: where there is none, numba leaves the lines out.
    """
    value, guide, pulled = rows.value_RD, pull.guide_ID, rows.pulled_R
    if pulled[row] < done:
        share, item = pull.share_K[done - pulled[row]], rows.item_R[row]
        for d in range(value.shape[1]):
            value[row, d] -= share * (value[row, d] - guide[item, d])
        pulled[row] = done


@compiled(fastmath=FAST, error_model="numpy")
def catch_up_all(rows, count, done, pull):  # type: ignore[no-untyped-def]
    """The same for all rows of the client, if there is a pull."""
    if pull is not None:
        for row in range(count):
            catch_up(rows, row, done, pull)


@compiled(fastmath=FAST, error_model="numpy")
def length_of_change(rows, count, tables, order):  # type: ignore[no-untyped-def]
    """The sum of squares (order 2) or absolute values (order 1) of how far the rows moved."""
    value, table, item_R, length = rows.value_RD, tables.table_ID, rows.item_R, 0.0
    for r in range(count):
        for d in range(value.shape[1]):
            change = np.float64(value[r, d] - table[item_R[r], d])
            length += change * change if order == 2 else abs(change)
    return length


@compiled(fastmath=FAST, error_model="numpy")
def clip_factor(length, bound):  # type: ignore[no-untyped-def]
    """What an upload is multiplied with; `length` is the sum that makes its norm. Nothing passes of
    one that is no finite number."""
    norm = np.sqrt(length) if bound.order == 2 else length
    return scale_to(bound.most, norm, 1.0) if np.isfinite(norm) else 0.0


@compiled(fastmath=FAST, error_model="numpy")
def add_changes(total_ID, factor, rows, count, tables, done, pull):  # type: ignore[no-untyped-def]
    """total += factor · (how far the rows moved); with a pull, less what it alone has done."""
    value, table, item_R = rows.value_RD, tables.table_ID, rows.item_R
    for r in range(count):
        item = item_R[r]
        for d in range(value.shape[1]):
            total_ID[item, d] += factor * (value[r, d] - table[item, d])
        if pull is not None:
            alone = factor * pull.share_K[done]
            for d in range(value.shape[1]):
                total_ID[item, d] -= alone * (pull.guide_ID[item, d] - table[item, d])


@compiled(fastmath=FAST, error_model="numpy")
def keep_rows(rows, count, user, tables, tuned):  # type: ignore[no-untyped-def]
    """What stays on the device; the room is free for the next client."""
    value, item_R, place_I, width = rows.value_RD, rows.item_R, rows.place_I, rows.value_RD.shape[1]
    if tables.has_own:
        own_ID = tables.own_UID[user]
        for r in range(count):
            for d in range(width):
                own_ID[item_R[r], d] = value[r, d]
    if tuned.are_kept:
        begin, item_C, value_CD = tuned.start_U[user], tuned.item_C, tuned.value_CD
        for r in range(count):
            item_C[begin + r] = item_R[r]
            for d in range(width):
                value_CD[begin + r, d] = value[r, d]
        tuned.count_U[user] = count
    for r in range(count):
        place_I[item_R[r]] = -1
        rows.pulled_R[r] = 0


# How often the samples of a client count, by item: as its positives say, all others once.


@compiled(error_model="numpy")
def set_counts(count_I, drawing, user, count_N):  # type: ignore[no-untyped-def]
    """The counts of a client's positives, written where all are one."""
    for n in range(drawing.positive_start_U1[user], drawing.positive_start_U1[user + 1]):
        count_I[drawing.positive_item_N[n]] = count_N[n]


@compiled(error_model="numpy")
def unset_counts(count_I, drawing, user):  # type: ignore[no-untyped-def]
    """All are one again, for the next client."""
    for n in range(drawing.positive_start_U1[user], drawing.positive_start_U1[user + 1]):
        count_I[drawing.positive_item_N[n]] = 1


# From a claimed method to what kernels take, and back.


@dataclass(frozen=True, eq=False)
class Round:
    """One round of all participants, for any scorer: kernels write into `tables`, `tuned` and
    `sums`."""

    queue: Queue
    turns: Turns
    steps: Steps
    tables: Tables
    pull: Pull | None
    bound: Bound
    tuned: Tuned
    sums: Sums
    count_N: np.ndarray | None  # how often each entry of the positives counts; None: all once

    @classmethod
    def of(
        cls,
        algorithm: ComposedAlgorithm,
        claimed: OnePass,
        train: TrainView,
        state: State,
        participants: Participants,
        samples_U: np.ndarray,
        *,
        seed: int,
        parameters: int = 0,
    ) -> Round:
        """`parameters` are those of a network, whose changes are summed beside the rows'."""
        method, local, clip = algorithm.method, algorithm.method.local, claimed.clip
        round_number, n_items = state.round_number + 1, algorithm.task.n_items
        queue = Queue.of(algorithm, train, participants, samples_U)
        if state.tuned is not None:
            state.tuned.make_room(participants.user_P)  # kernels write where it lies
        tables = tables_of(algorithm, state)
        kind = tables.own_UID.dtype
        shape = (1, 1, 1) if tables.has_own else (queue.chunks, n_items, method.backbone.dim)
        networks_CN = np.zeros((queue.chunks, parameters))
        sums = Sums(np.zeros(shape), networks_CN, np.zeros(queue.chunks), np.zeros(queue.chunks))
        pull = None
        if claimed.anchor is not None:
            pull, steps_P = _pull(claimed.anchor, algorithm, state, queue)
            # kernels add what the samples change
            sums.change_CID[0] = drift(pull, tables.table_ID, steps_P, queue.weight_P)
        return cls(
            queue,
            queue.turns(kind, seed, round_number),
            Steps(
                Rates(
                    kind.type(local.model.rate_at(round_number, n_items)),
                    kind.type(local.items.rate_at(round_number, n_items)),
                ),
                np.array([_mode(local.phases(epoch)) for epoch in range(local.epochs)]),
                kind.type(local.gradient_clip or 0.0),
                Logistic.of(claimed.loss.on == "probabilities", kind),
            ),
            tables,
            pull,
            _bound(algorithm, clip, state),
            Tuned.of(state.tuned, kind),
            sums,
            None if method.recency is None else method.recency.of_positives(train).astype(kind),
        )

    def totals(self) -> Total:
        """The sums for the server, but for those of a network."""
        totals = self.queue.totals(self.sums.loss_C)
        if not self.tables.has_own:
            totals.sums[ITEMS] += in_order(self.sums.change_CID)
        protection = self.queue.algorithm.protection
        if protection is not None and protection.estimates:
            within, beyond = protection.bit(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
            inside, arrived = self.sums.within_C.sum(), np.count_nonzero(self.queue.weight_P)
            totals.add(BOUND, np.asarray(within * inside + beyond * (arrived - inside)))
        return totals


def _bound(algorithm: ComposedAlgorithm, clip: Transform | None, state: State) -> Bound:
    """The clip of uploads in the numbers of this round."""
    if clip is None:
        return Bound(0, 0.0)
    assert clip.order is not None
    assert clip.bound is not None
    if not clip.in_units:
        return Bound(clip.order, clip.bound)
    assert algorithm.protection is not None
    return Bound(clip.order, algorithm.protection.unit(state.shared))


def tables_of(algorithm: ComposedAlgorithm, state: State) -> Tables:
    """The one table whose rows clients train; in the other's place stands one of its kind."""
    (row_parameter,) = algorithm.row_parameters
    if row_parameter == ITEMS:
        table_ID = state.shared[ITEMS].numpy()
        return Tables(table_ID, table_ID[None], False)
    own_UID = state.private[row_parameter].numpy()
    return Tables(np.zeros((1, 1), own_UID.dtype), own_UID, True)


def drift(
    pull: Pull, table_ID: np.ndarray, steps_P: np.ndarray, weight_P: np.ndarray
) -> np.ndarray:
    """What the pull alone does to the sum of the clients' weighted changes, on every row;
    `steps_P` is how often each participant steps its items.

    >>> pull = Pull(np.full((1, 1), 2.0), np.array([0.0, 0.5]))
    >>> drift(pull, np.zeros((1, 1)), np.array([1]), np.array([3.0])).tolist()
    [[3.0]]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        part = (weight_P * pull.share_K[steps_P].astype(np.float64)).sum()
        drift_ID: np.ndarray = part * (pull.guide_ID - table_ID).astype(np.float64)
    return drift_ID


def _pull(
    anchor: Anchored, algorithm: ComposedAlgorithm, state: State, queue: Queue
) -> tuple[Pull, np.ndarray]:
    """The pull, and how often each participant steps its items."""
    local, table = algorithm.method.local, state.shared[ITEMS]
    guide_ID = state.shared[GUIDE].to(table).contiguous().numpy()
    moving = [any("items" in p.groups for p in local.phases(e)) for e in range(local.epochs)]
    steps_P = sum(moving) * -(-queue.samples_P // local.batch)
    # the slope of strength · mean (P − R)² is 2 · strength · (P − R) / (I·D)
    rate = local.items.rate_at(state.round_number + 1, algorithm.task.n_items)
    once = 2 * anchor.strength * rate / guide_ID.size
    with np.errstate(over="ignore", invalid="ignore"):  # divergence is said where it is ranked
        share_K = 1 - (1 - once) ** np.arange(2 + steps_P.max(initial=0))
        share_K = share_K.astype(guide_ID.dtype)
    return Pull(guide_ID, share_K), steps_P


def _mode(phases: tuple[Phase, ...]) -> int:
    """What kernels call the phases of a batch."""
    if len(phases) == 2:
        return ALTERNATE
    return {("model", "items"): JOINT, ("model",): MODEL_ONLY, ("items",): ITEMS_ONLY}[
        phases[0].groups
    ]
