"""Scorers that are linear in the item row: logit = θ · row (+ b).

They train in one pass per client, train FedRKG's gates and mix tables, and score personal tables
where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.compiled import compiled
from tacit.core.algorithm import Total
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import OWN_ITEMS, Params
from tacit.data.batches import draw_epoch, make_samples
from tacit.data.views import Lists, TrainView
from tacit.engines.accelerators.claims import (
    Claim,
    LinearParameters,
    OnePass,
    one_pass,
    scorer_is_unknown,
)
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
from tacit.engines.accelerators.logistic import FAST, add_loss, dot, loss_of, scale_to, slope_of
from tacit.engines.accelerators.one_pass import (
    ALTERNATE,
    ITEMS_ONLY,
    JOINT,
    MODEL_ONLY,
    Round,
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
    unset_counts,
)
from tacit.engines.accelerators.queue import most_samples
from tacit.engines.participation import Participants
from tacit.engines.state import State
from tacit.engines.tuned import TunedRows
from tacit.parts.items import IdOnly
from tacit.parts.sync import Replace


def claims(algorithm: ComposedAlgorithm) -> Claim[Linear]:
    """The kernel that plays a client's whole round.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedncf, pfedrec
    >>> claims(compose(pfedrec(dim=4), Task(2, 3))).name
    'linear'
    >>> claims(compose(fedncf(dim=4), Task(2, 3))).reason
    'SharedMlp is neither linear in the item row nor a perceptron'
    """
    parameters, rest = LinearParameters.of(algorithm.method.backbone), one_pass(algorithm)
    if parameters is None:
        return Claim(None, scorer_is_unknown(algorithm.method.backbone))
    if rest.kernel is None:
        return Claim(None, rest.reason)
    return Claim(Linear(algorithm, parameters, rest.kernel))


@dataclass(frozen=True)
class Linear:
    """A claimed method, whose clients train in one pass."""

    algorithm: ComposedAlgorithm
    parameters: LinearParameters
    claimed: OnePass
    name: ClassVar[str] = "linear"

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
        r = Round.of(*known, seed=seed)
        scorer = self.parameters.scorer(state.private)
        r.queue.play(
            *(train_linear, threads, r.turns, r.steps, r.tables),
            *(r.pull, r.count_N, scorer, r.bound, r.tuned, r.sums),
        )
        return r.totals()


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _row_square(slope, where, size, row_slope, zero):  # type: ignore[no-untyped-def]
    """Sum over distinct rows of (sum of slopes)²: a row's gradient is that sum times the vector."""
    for t in range(size):
        row_slope[where[t]] += slope[t]
    square = zero
    for t in range(size):
        summed = row_slope[where[t]]
        square += summed * summed
        row_slope[where[t]] = zero
    return square


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def train_linear(chunk, turns, steps, tables, pull, count_N, scorer, bound, tuned, sums):  # type: ignore[no-untyped-def]
    """Rounds of one chunk's clients; scorers, own tables and tuned rows are written in place.

    With a pull every step of the rows pulls to its guide; a row owes its steps until it is read or
    the round ends. With counts a positive counts more or less than once.
    """
    bias_U, has_bias = scorer.bias_U, scorer.has_bias
    model_rate, item_rate = steps.rates.model, steps.rates.items
    loss, gradient_clip, batch = steps.loss, steps.gradient_clip, turns.batch
    zero, one = loss.zero, loss.one
    width, dtype = scorer.vector_UD.shape[1], scorer.vector_UD.dtype
    most = most_samples(turns, chunk)
    samples = make_samples(turns.drawing.n_items, most)
    client = make_rows(turns, most, width, scorer.vector_UD)
    items, labels = samples.item, samples.label
    place_I, item_R, rows = client.place_I, client.item_R, client.value_RD
    slope = np.empty(min(batch, most), dtype)
    where = np.empty(min(batch, most), np.int64)
    gradient = np.empty(width, dtype)
    row_slope = np.zeros(len(rows) if gradient_clip > zero else 1, dtype)
    count_I = np.ones(1 if count_N is None else turns.drawing.n_items, dtype)
    loss_sum = 0.0
    for k in range(turns.chunk_start_C1[chunk], turns.chunk_start_C1[chunk + 1]):
        user = turns.user_P[k]
        table_ID, vector = client_table(tables, user), scorer.vector_UD[user]
        if count_N is not None:
            set_counts(count_I, turns.drawing, user, count_N)
        # rows of the client, and how often they were stepped; of a bare 0 numba would compile all
        # callees twice, for that constant too
        count, done = np.int64(0), np.int64(0)
        for epoch in range(turns.epochs):
            mode = steps.mode_T[epoch]
            n = draw_epoch(turns.drawing, user, epoch, samples)
            if tables.has_own:  # rows far apart in memory come faster all at once
                for t in range(n):
                    if place_I[items[t]] < 0:
                        copy_row(place_I, item_R, rows, count, table_ID, items[t])
                        count += 1
            for low in range(0, n, batch):
                size = min(batch, n - low)
                share = turns.share_S[size]
                for d in range(width):
                    gradient[d] = zero
                bias_gradient, product = zero, 1.0
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
                    logit = dot(rows[row], vector, width)
                    if has_bias:
                        logit += bias_U[user]
                    label = one if labels[low + t] else zero
                    decay = np.exp(-logit)
                    if count_N is None:
                        loss_sum, product = add_loss(loss_sum, product, logit, label, decay, t)
                    else:
                        loss_sum += count_I[items[low + t]] * loss_of(logit, label, decay)
                    step = slope_of(decay, label, loss) * share
                    if count_N is not None:
                        step *= count_I[items[low + t]]
                    slope[t] = step
                    bias_gradient += step
                    for d in range(width):
                        gradient[d] += step * rows[row, d]
                loss_sum += np.log(product)
                model_scale = one
                if gradient_clip > zero:
                    square = zero
                    if mode != ITEMS_ONLY:
                        square += dot(gradient, gradient, width)
                        if has_bias:
                            square += bias_gradient * bias_gradient
                    if mode in (JOINT, ITEMS_ONLY):
                        rows_square = _row_square(slope, where, size, row_slope, zero)
                        square += rows_square * dot(vector, vector, width)
                    model_scale = scale_to(gradient_clip, np.sqrt(square), one)
                item_scale = model_scale
                if mode == ALTERNATE:
                    for d in range(width):
                        vector[d] -= model_rate * (model_scale * gradient[d])
                    if has_bias:
                        bias_U[user] -= model_rate * (model_scale * bias_gradient)
                    for t in range(size):
                        logit = dot(rows[where[t]], vector, width)
                        if has_bias:
                            logit += bias_U[user]
                        label = one if labels[low + t] else zero
                        slope[t] = slope_of(np.exp(-logit), label, loss) * share
                        if count_N is not None:
                            slope[t] *= count_I[items[low + t]]
                    item_scale = one
                    if gradient_clip > zero:
                        square = _row_square(slope, where, size, row_slope, zero)
                        norm = np.sqrt(square * dot(vector, vector, width))
                        item_scale = scale_to(gradient_clip, norm, one)
                if mode != MODEL_ONLY:
                    done += 1
                    if pull is not None:
                        for t in range(size):
                            catch_up(client, where[t], done, pull)
                    for t in range(size):
                        step = item_rate * (item_scale * slope[t])
                        row = where[t]
                        for d in range(width):
                            rows[row, d] -= step * vector[d]
                if mode in (JOINT, MODEL_ONLY):
                    for d in range(width):
                        vector[d] -= model_rate * (model_scale * gradient[d])
                    if has_bias:
                        bias_U[user] -= model_rate * (model_scale * bias_gradient)
        if count_N is not None:
            unset_counts(count_I, turns.drawing, user)
        catch_up_all(client, count, done, pull)
        factor = 1.0
        if bound.order > 0 and not tables.has_own:  # an own table has no global one beside it
            factor = clip_factor(length_of_change(client, count, tables, bound.order), bound)
        if factor >= 1.0 and turns.weight_P[k] != 0.0:
            sums.within_C[chunk] += 1.0
        factor *= turns.weight_P[k]
        if not tables.has_own and factor != 0.0:
            add_changes(sums.change_CID[chunk], factor, client, count, tables, done, pull)
        keep_rows(client, count, user, tables, tuned)
    sums.loss_C[chunk] = loss_sum


# FedRKG's guidance.


def claims_gates(algorithm: ComposedAlgorithm) -> Claim[LinearGates]:
    """The kernel that trains gates and mixes tables, under a rule of guidance.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import pfedrec
    >>> from tacit.plugins.fedrkg import fedrkg
    >>> claims_gates(compose(fedrkg(pfedrec(dim=4)), Task(2, 3))).name
    'linear'
    """
    trained = claims(algorithm)
    if trained.kernel is None:
        return Claim(None, trained.reason)
    rule = guidance(algorithm, trained.kernel.claimed)
    if rule.kernel is None:
        return Claim(None, rule.reason)
    return Claim(LinearGates(trained.kernel.parameters, rule.kernel))


@dataclass(frozen=True)
class LinearGates:
    """A claimed rule of guidance."""

    parameters: LinearParameters
    rule: Guidance
    name: ClassVar[str] = "linear"

    def guide(
        self, train: TrainView, state: State, samples_U: np.ndarray, *, seed: int, threads: int
    ) -> None:
        """Gates are trained and tables mixed, for everybody, in place."""
        queue, turns, gates = self.rule.of(train, state, samples_U, seed)
        scorer = self.parameters.scorer(state.private)
        queue.play(guide_linear, threads, turns, gates, scorer)


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def guide_linear(chunk, turns, gates, scorer):  # type: ignore[no-untyped-def]
    """One chunk of clients; gates and personal tables are written in place. The same numbers as
    `tacit.engines.guidance`, which is the readable form."""
    width, batch, loss = scorer.vector_UD.shape[1], turns.batch, gates.loss
    zero, one, beta, pull = loss.zero, loss.one, gates.beta, gates.pull
    samples = make_samples(turns.drawing.n_items, most_samples(turns, chunk))
    items, labels = samples.item, samples.label
    room = make_gate_room(width, scorer.vector_UD)
    for k in range(turns.chunk_start_C1[chunk], turns.chunk_start_C1[chunk + 1]):
        user = turns.user_P[k]
        vector, gate = scorer.vector_UD[user], gates.weight_UG[user]
        before = np.inf
        for epoch in range(turns.epochs):
            n = draw_epoch(turns.drawing, user, epoch, samples)
            total = 0.0
            for low in range(0, n, batch):
                size = min(batch, n - low)
                share = turns.share_S[size]
                begin_gate(gate, room, zero)
                bias_gradient = zero
                for t in range(low, low + size):
                    own_row, row = gates.own_UID[user, items[t]], gates.table_ID[items[t]]
                    opening = opening_of(own_row, row, gates.bias_U[user], room)
                    opened = one / (one + np.exp(-opening))
                    known = dot(row, vector, width)
                    logit = beta * dot(own_row, vector, width) + pull * opened * known
                    if scorer.has_bias:
                        logit += scorer.bias_U[user]
                    label = one if labels[t] else zero
                    decay = np.exp(-logit)
                    # softplus(z) - y z, each with a logarithm of its own
                    if logit > -40:
                        total += logit - label * logit + np.log1p(np.float64(decay))
                    else:
                        total -= label * logit
                    step = slope_of(decay, label, loss) * share
                    step *= pull * known * opened * (one - opened)
                    bias_gradient += step
                    add_to_gate(step, own_row, row, room)
                step_gate(gate, gates.rate, room)
                gates.bias_U[user] -= gates.rate * bias_gradient
            if has_converged(before, total, gates.tolerance):
                break
            before = total
        mix_table(gates, user, room)


# Scores.


def claims_scores(algorithm: ComposedAlgorithm) -> Claim[LinearScores]:
    """The kernel that scores personal tables where they lie; whether rows are read plainly was
    asked before."""
    parameters = LinearParameters.of(algorithm.method.backbone)
    if parameters is None:
        return Claim(None, scorer_is_unknown(algorithm.method.backbone))
    if algorithm.row_parameters != (OWN_ITEMS,):
        return Claim(None, "one table for all is one product for a block")
    return Claim(LinearScores(parameters))


@dataclass(frozen=True)
class LinearScores:
    """Clients that rank with a table of their own."""

    parameters: LinearParameters
    name: ClassVar[str] = "linear"

    def score(
        self, state: State, shared: Params, positives: Lists | None, user_B: np.ndarray
    ) -> np.ndarray:
        """Logits (B, I)."""
        own_UID = state.private[OWN_ITEMS].numpy()
        score_BI = np.empty((len(user_B), own_UID.shape[1]), own_UID.dtype)
        users = np.ascontiguousarray(user_B, dtype=np.int64)
        score_own_linear(score_BI, users, own_UID, self.parameters.scorer(state.private))
        return score_BI


@compiled(fastmath=FAST, error_model="numpy")
def score_own_linear(score_BI, users, own_UID, scorer):  # type: ignore[no-untyped-def]
    """Logits of each user over its own dense table, which is read in place."""
    width = scorer.vector_UD.shape[1]
    for b in range(len(users)):
        user = users[b]
        for item in range(own_UID.shape[1]):
            logit = dot(own_UID[user, item], scorer.vector_UD[user], width)
            if scorer.has_bias:
                logit += scorer.bias_U[user]
            score_BI[b, item] = logit


def claims_overlay(algorithm: ComposedAlgorithm) -> LinearParameters | None:
    """The parameters of a linear scorer whose tuned rows a kernel overlays; None for others."""
    method = algorithm.method
    plain = type(method.items) is IdOnly and type(method.sync) is Replace
    return LinearParameters.of(method.backbone) if plain else None


def overlay(
    score_BI: np.ndarray,
    user_B: np.ndarray,
    tuned: TunedRows,
    parameters: LinearParameters,
    state: State,
) -> None:
    """Write the logits of each user's tuned rows over the scores made with the global table."""
    scorer = parameters.scorer(state.private)
    overlay_linear(score_BI, user_B, Tuned.of(tuned, score_BI.dtype), scorer)


@compiled(fastmath=FAST, error_model="numpy")
def overlay_linear(score_BI, users, tuned, scorer):  # type: ignore[no-untyped-def]
    width = scorer.vector_UD.shape[1]
    for b in range(len(users)):
        user = users[b]
        begin = tuned.start_U[user]
        for c in range(begin, begin + tuned.count_U[user]):
            logit = dot(tuned.value_CD[c], scorer.vector_UD[user], width)
            if scorer.has_bias:
                logit += scorer.bias_U[user]
            score_BI[b, tuned.item_C[c]] = logit
