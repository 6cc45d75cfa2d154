"""Perceptrons over the item row, with or without a user vector, shared or private.

They train in one pass per client, train FedRKG's gates and mix tables, and score whole catalogues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from tacit.compiled import compiled
from tacit.core.algorithm import Total
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import ITEMS, OWN_ITEMS, Params
from tacit.data.batches import draw_epoch, make_samples
from tacit.data.views import Lists, TrainView
from tacit.engines.accelerators.claims import Claim, OnePass, one_pass, scorer_is_unknown
from tacit.engines.accelerators.gates import (
    Guidance,
    add_to_gate,
    begin_gate,
    guidance,
    has_converged,
    make_gate_room,
    mix_table,
    opening_of,
    step_gate,
)
from tacit.engines.accelerators.logistic import FAST, dot, scale_to
from tacit.engines.accelerators.networks import (
    FlatNetwork,
    Network,
    NetworkBatch,
    backward,
    forward,
    make_gradients,
    make_scratch,
    set_gradients,
    set_shift,
    set_slopes,
)
from tacit.engines.accelerators.one_pass import (
    ALTERNATE,
    ITEMS_ONLY,
    MODEL_ONLY,
    Round,
    Tables,
    Tuned,
    add_changes,
    catch_up,
    catch_up_all,
    client_table,
    clip_factor,
    copy_row,
    keep_rows,
    length_of_change,
    make_rows,
    set_counts,
    tables_of,
    unset_counts,
)
from tacit.engines.accelerators.queue import most_samples
from tacit.engines.accelerators.sums import in_order
from tacit.engines.participation import Participants
from tacit.engines.state import State


def claims(algorithm: ComposedAlgorithm) -> Claim[Perceptron]:
    """The kernel that plays a client's whole round.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedncf
    >>> claims(compose(fedncf(dim=4), Task(2, 3))).name
    'perceptron'
    """
    network, rest = FlatNetwork.of(algorithm.method.backbone), one_pass(algorithm)
    if network is None:
        return Claim(None, scorer_is_unknown(algorithm.method.backbone))
    if network.is_shared and algorithm.row_parameters != (ITEMS,):
        return Claim(None, "a shared perceptron goes with the shared item table only")
    if rest.kernel is None:
        return Claim(None, rest.reason)
    return Claim(Perceptron(algorithm, network, rest.kernel))


@dataclass(frozen=True)
class Perceptron:
    """A claimed method, whose clients train in one pass."""

    algorithm: ComposedAlgorithm
    network: FlatNetwork
    claimed: OnePass
    name: ClassVar[str] = "perceptron"

    def train(
        self,
        train: TrainView,
        state: State,
        participants: Participants,
        samples_U: np.ndarray,
        *,
        seed: int,
        threads: int,
    ) -> Total:
        """One round of all participants; returns the sums for the server."""
        known = (self.algorithm, self.claimed, train, state, participants, samples_U)
        r = Round.of(*known, seed=seed, parameters=self.network.size)
        user_P = r.queue.user_P
        net_PN = self.network.read(state, user_P)
        networks = self.network.networks(net_PN, state.private)
        r.queue.play(
            *(train_perceptron, threads, r.turns, r.steps, r.tables),
            *(r.pull, r.count_N, networks, r.bound, r.tuned, r.sums),
        )
        totals = r.totals()
        if self.network.is_shared:
            for name, total in self.network.parameters(in_order(r.sums.network_CN)[None]).items():
                totals.sums[name] += total[0]
        else:
            for name, value in self.network.parameters(net_PN).items():
                state.private[name][torch.from_numpy(user_P)] = torch.from_numpy(value)
        return totals


@compiled(fastmath=FAST, error_model="numpy")
def _step_scale(bound, where, first, moves, has_user, gradients, loss):  # type: ignore[no-untyped-def]
    """The factor that bounds the norm of all gradients together; one row's samples are summed.

    `moves` says whether the network moves, and whether rows do. `first` is -1 for every row.
    """
    on_row, square = gradients.row, loss.zero
    if moves[0]:
        square += dot(gradients.net, gradients.net, len(gradients.net))
        if has_user:
            square += dot(gradients.vector, gradients.vector, len(gradients.vector))
    if moves[1]:
        for t in range(len(where)):
            row = where[t]
            if first[row] < 0:
                first[row] = t
                continue
            for d in range(on_row.shape[1]):
                on_row[first[row], d] += on_row[t, d]
                on_row[t, d] = loss.zero
        for t in range(len(where)):
            first[where[t]] = -1
            square += dot(on_row[t], on_row[t], on_row.shape[1])
    return scale_to(bound, np.sqrt(square), loss.one)


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def train_perceptron(chunk, turns, steps, tables, pull, count_N, networks, bound, tuned, sums):  # type: ignore[no-untyped-def]
    """Rounds of one chunk's clients; private networks, own tables and tuned rows are written in
    place, changes of a shared network are summed. With counts a positive counts more or less than
    once."""
    net_PN, batch, has_user = networks.net_PN, turns.batch, networks.has_user
    widths, width = networks.widths, networks.widths[0]
    model_rate, item_rate = steps.rates.model, steps.rates.items
    most = most_samples(turns, chunk)
    samples = make_samples(turns.drawing.n_items, most)
    client = make_rows(turns, most, width, net_PN)
    items, place_I, item_R, rows = samples.item, client.place_I, client.item_R, client.value_RD
    first = np.full(len(rows), -1, np.int64)
    largest = min(batch, most)
    row_of = np.empty(largest, np.int64)
    net = np.empty(net_PN.shape[1], net_PN.dtype)
    gradients = make_gradients(widths, largest, net)
    scratch = make_scratch(widths, largest, net)
    on_row = gradients.row
    count_I = np.ones(1 if count_N is None else turns.drawing.n_items, net.dtype)
    count_of = np.empty(largest, net.dtype)
    loss_sum = 0.0
    for k in range(turns.chunk_start_C1[chunk], turns.chunk_start_C1[chunk + 1]):
        user = turns.user_P[k]
        table_ID = client_table(tables, user)
        vector = networks.vector_UD[user] if has_user else networks.vector_UD[0]
        start = net_PN[0] if networks.is_shared else net_PN[k]
        for i in range(len(net)):
            net[i] = start[i]
        network = Network(widths, net, vector, has_user)
        if count_N is not None:
            set_counts(count_I, turns.drawing, user, count_N)
        # rows of the client, and how often they were stepped; of a bare 0 numba would compile all
        # callees twice, for that constant too
        count, done = np.int64(0), np.int64(0)
        for epoch in range(turns.epochs):
            mode = steps.mode_T[epoch]
            n = draw_epoch(turns.drawing, user, epoch, samples)
            for low in range(0, n, batch):
                size = min(batch, n - low)
                where = row_of[:size]
                for t in range(size):
                    item = items[low + t]
                    row = place_I[item]
                    if row < 0:
                        row = count
                        count += 1
                        copy_row(place_I, item_R, rows, row, table_ID, item)
                    if pull is not None:
                        catch_up(client, row, done, pull)
                    where[t] = row
                labels = samples.label[low : low + size]
                drawn = NetworkBatch(rows, where, labels, turns.share_S[size])
                if count_N is not None:
                    for t in range(size):
                        count_of[t] = count_I[items[low + t]]
                for phase in range(2 if mode == ALTERNATE else 1):
                    moves_net = mode != ITEMS_ONLY and phase == 0
                    moves_rows = mode != MODEL_ONLY and not (mode == ALTERNATE and phase == 0)
                    moved = (moves_net, moves_rows, scratch, gradients)
                    if count_N is None:
                        loss = set_gradients(network, drawn, None, steps.loss, *moved)
                    else:
                        loss = set_gradients(network, drawn, count_of[:size], steps.loss, *moved)
                    if phase == 0:
                        loss_sum += loss
                    scale = steps.loss.one
                    if steps.gradient_clip > steps.loss.zero:
                        moves = (moves_net, moves_rows)
                        scale = _step_scale(
                            steps.gradient_clip,
                            where,
                            first,
                            moves,
                            has_user,
                            gradients,
                            steps.loss,
                        )
                    if moves_net:
                        for i in range(len(net)):
                            net[i] -= model_rate * (scale * gradients.net[i])
                        if has_user:
                            for d in range(width):
                                vector[d] -= model_rate * (scale * gradients.vector[d])
                    if moves_rows:
                        done += 1
                        if pull is not None:
                            for t in range(size):
                                catch_up(client, where[t], done, pull)
                        step = item_rate * scale
                        for t in range(size):
                            row = where[t]
                            for d in range(width):
                                rows[row, d] -= step * on_row[t, d]
        if count_N is not None:
            unset_counts(count_I, turns.drawing, user)
        catch_up_all(client, count, done, pull)
        factor = 1.0
        if bound.order > 0 and not tables.has_own:  # an own table has no global one beside it
            length = length_of_change(client, count, tables, bound.order)
            if networks.is_shared:
                for i in range(len(net)):
                    change = np.float64(net[i] - start[i])
                    length += change * change if bound.order == 2 else abs(change)
            factor = clip_factor(length, bound)
        if factor >= 1.0 and turns.weight_P[k] != 0.0:
            sums.within_C[chunk] += 1.0
        factor *= turns.weight_P[k]
        if not tables.has_own and factor != 0.0:
            add_changes(sums.change_CID[chunk], factor, client, count, tables, done, pull)
        if networks.is_shared and factor != 0.0:
            for i in range(len(net)):
                sums.network_CN[chunk, i] += factor * (net[i] - start[i])
        if not networks.is_shared:
            for i in range(len(net)):
                start[i] = net[i]
        keep_rows(client, count, user, tables, tuned)
    sums.loss_C[chunk] = loss_sum


# FedRKG's guidance.


def claims_gates(algorithm: ComposedAlgorithm) -> Claim[PerceptronGates]:
    """The kernel that trains gates and mixes tables, under a rule of guidance."""
    trained = claims(algorithm)
    if trained.kernel is None:
        return Claim(None, trained.reason)
    rule = guidance(algorithm, trained.kernel.claimed)
    if rule.kernel is None:
        return Claim(None, rule.reason)
    return Claim(PerceptronGates(trained.kernel.network, rule.kernel))


@dataclass(frozen=True)
class PerceptronGates:
    """A claimed rule of guidance."""

    network: FlatNetwork
    rule: Guidance
    name: ClassVar[str] = "perceptron"

    def guide(
        self, train: TrainView, state: State, samples_U: np.ndarray, *, seed: int, threads: int
    ) -> None:
        """Gates are trained and tables mixed, for everybody, in place."""
        queue, turns, gates = self.rule.of(train, state, samples_U, seed)
        net_PN = self.network.read(state, queue.user_P)
        networks = self.network.networks(net_PN, state.private)
        queue.play(guide_perceptron, threads, turns, gates, networks)


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def guide_perceptron(chunk, turns, gates, networks):  # type: ignore[no-untyped-def]
    """One chunk of clients; gates and personal tables are written in place. The same numbers as
    `tacit.engines.guidance`, which is the readable form."""
    net_PN, batch, loss = networks.net_PN, turns.batch, gates.loss
    widths, width = networks.widths, networks.widths[0]
    zero, one, beta, pull = loss.zero, loss.one, gates.beta, gates.pull
    no, yes = np.bool_(False), np.bool_(True)
    most = most_samples(turns, chunk)
    samples = make_samples(turns.drawing.n_items, most)
    items, labels = samples.item, samples.label
    scratch = make_scratch(widths, min(batch, most), net_PN[0])
    tile = len(scratch.x)
    opened = np.empty(tile, net_PN.dtype)
    on_x = np.empty((tile, width), net_PN.dtype)
    room = make_gate_room(width, net_PN)
    for k in range(turns.chunk_start_C1[chunk], turns.chunk_start_C1[chunk + 1]):
        user, gate = turns.user_P[k], gates.weight_UG[turns.user_P[k]]
        vector = networks.vector_UD[user if networks.has_user else 0]
        network = Network(widths, net_PN[k], vector, networks.has_user)
        set_shift(network, scratch)
        before = np.inf
        for epoch in range(turns.epochs):
            n = draw_epoch(turns.drawing, user, epoch, samples)
            total = 0.0
            for low in range(0, n, batch):
                size = min(batch, n - low)
                share = turns.share_S[size]
                begin_gate(gate, room, zero)
                bias_gradient = zero
                for begin in range(low, low + size, tile):
                    end = min(begin + tile, low + size)
                    x = scratch.x[: end - begin]
                    for t in range(end - begin):
                        item = items[begin + t]
                        own_row, row = gates.own_UID[user, item], gates.table_ID[item]
                        opening = opening_of(own_row, row, gates.bias_U[user], room)
                        opened[t] = one / (one + np.exp(-opening))
                        for d in range(width):
                            x[t, d] = beta * own_row[d] + pull * opened[t] * row[d]
                    logit = forward(network, x, x, no, scratch, zero)
                    total += set_slopes(logit, labels[begin:end], share, loss, scratch.slope, None)
                    backward(network, x, scratch, network.net, on_x[: len(x)], no, yes, zero)
                    for t in range(end - begin):
                        item = items[begin + t]
                        own_row, row = gates.own_UID[user, item], gates.table_ID[item]
                        step = pull * opened[t] * (one - opened[t])
                        step *= dot(on_x[t], row, width)
                        bias_gradient += step
                        add_to_gate(step, own_row, row, room)
                step_gate(gate, gates.rate, room)
                gates.bias_U[user] -= gates.rate * bias_gradient
            if has_converged(before, total, gates.tolerance):
                break
            before = total
        mix_table(gates, user, room)


# Scores.


def claims_scores(algorithm: ComposedAlgorithm) -> Claim[PerceptronScores]:
    """The kernel that scores catalogues; whether rows are read plainly was asked before."""
    network = FlatNetwork.of(algorithm.method.backbone)
    if network is None:
        return Claim(None, scorer_is_unknown(algorithm.method.backbone))
    if network.is_shared and algorithm.row_parameters == (OWN_ITEMS,):
        return Claim(None, "no kernel was written for one perceptron over personal tables")
    return Claim(PerceptronScores(algorithm, network))


class Ranked(NamedTuple):
    """The tables that clients rank with: `started_ID` is that of those who took part in the last
    round, tuned rows lie over it. Where the network is shared, the tables' products with its first
    layer are the same for everybody."""

    tables: Tables
    started_ID: np.ndarray
    fresh_U: np.ndarray
    product_IK: np.ndarray
    started_product_IK: np.ndarray
    tuned: Tuned


@dataclass(frozen=True)
class PerceptronScores:
    """Clients that rank with a perceptron."""

    algorithm: ComposedAlgorithm
    network: FlatNetwork
    name: ClassVar[str] = "perceptron"

    def score(
        self, state: State, shared: Params, positives: Lists | None, user_B: np.ndarray
    ) -> np.ndarray:
        """Logits (B, I), with the table that each client really ranks with."""
        users = np.ascontiguousarray(user_B, dtype=np.int64)
        network, net_BN = self.network, self.network.read(state, users)
        tables = tables_of(self.algorithm, state)
        table_ID = tables.table_ID
        started_ID = table_ID if state.broadcast is None else state.broadcast.numpy()
        layer = net_BN[0, : network.dim * network.layers[0]].reshape(network.dim, -1)
        ranked = Ranked(
            tables,
            started_ID,
            state.fresh_U,
            table_ID @ layer if network.is_shared else table_ID,
            started_ID @ layer if network.is_shared else started_ID,
            Tuned.of(state.tuned, net_BN.dtype),
        )
        score_BI = np.empty((len(users), self.algorithm.task.n_items), net_BN.dtype)
        zero = net_BN.dtype.type(0)
        networks = network.networks(net_BN, state.private)
        score_perceptron(score_BI, users, ranked, networks, zero)
        return score_BI


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def score_perceptron(score_BI, users, ranked, networks, zero):  # type: ignore[no-untyped-def]
    """Logits of each user over the whole catalogue, then over its tuned rows."""
    n_items, tuned, is_shared = score_BI.shape[1], ranked.tuned, networks.is_shared
    scratch, no = make_scratch(networks.widths, n_items, networks.net_PN[0]), np.bool_(False)
    tile = len(scratch.x)
    for b in range(len(users)):
        user, net = users[b], networks.net_PN[0 if is_shared else b]
        vector = networks.vector_UD[user if networks.has_user else 0]
        network = Network(networks.widths, net, vector, networks.has_user)
        set_shift(network, scratch)
        rows, known = ranked.tables.table_ID, ranked.product_IK
        if ranked.tables.has_own:
            rows = ranked.tables.own_UID[user]
        elif tuned.are_kept and ranked.fresh_U[user]:
            rows, known = ranked.started_ID, ranked.started_product_IK
        for low in range(0, n_items, tile):
            high = min(low + tile, n_items)
            logit = forward(network, rows[low:high], known[low:high], is_shared, scratch, zero)
            for t in range(high - low):
                score_BI[b, low + t] = logit[t]
        if not tuned.are_kept:
            continue
        end = tuned.start_U[user] + tuned.count_U[user]
        for low in range(tuned.start_U[user], end, tile):
            high = min(low + tile, end)
            x = tuned.value_CD[low:high]
            logit = forward(network, x, x, no, scratch, zero)
            for t in range(high - low):
                score_BI[b, tuned.item_C[low + t]] = logit[t]
