"""Clients on views of items that the server makes and that stand still in a round.

The scorer θ is linear, and the reader's weights w mix the views: logit_i = Σ_v w_v θ·F_vi + b. So a
row of views is multiplied with one vector c = w ⊗ θ, and one sum E = Σ slope · row holds the slopes
of both θ and w. Gradients of the views are what is summed for the server. Scores of a block of
readers are one product: views are never mixed, only their weights and the scorer are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.core.algorithm import Total
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import ITEMS, Params
from tacit.data.batches import draw_epoch, make_samples, positives_of
from tacit.data.views import Lists, TrainView
from tacit.engines.accelerators.claims import (
    POSITIVES_COUNT,
    Claim,
    LinearParameters,
    loss_is,
    rule_is_unknown,
    uploads_are_encoded,
    why_not_plain,
)
from tacit.engines.accelerators.logistic import FAST, Logistic, add_loss, dot, slope_of
from tacit.engines.accelerators.queue import Queue, most_samples
from tacit.engines.accelerators.router import (
    Layers,
    Reading,
    Router,
    activate,
    begin_history,
    keep_for_views,
    make_history,
    read_router_history,
    step_first_layer,
    step_router,
    take_slopes,
    weigh,
)
from tacit.engines.accelerators.sums import in_order
from tacit.engines.participation import Participants
from tacit.engines.state import State
from tacit.parts.local import Alternate, GradientsOnly, Joint
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Replace

INNER: tuple[type, ...] = (Joint, Alternate)  # inside of GradientsOnly


def claims(algorithm: ComposedAlgorithm) -> Claim[Views]:
    """The kernel that plays a client's whole round, for the clients' half of a fusion.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fcf
    >>> from tacit.plugins.fusion import fedmr
    >>> claims(compose(fedmr(fcf(), modalities=""), Task(2, 3)).with_server_views).name
    'views'
    """
    method, local = algorithm.method, algorithm.method.local
    router, parameters = Router.of(method.items), LinearParameters.of(method.backbone)
    if router is None:
        return Claim(None, "views are not mixed by one weight each for a reader")
    if method.recency is not None:
        return Claim(None, POSITIVES_COUNT)
    if router.exists and not router.is_private:
        return Claim(None, "the router is shared")
    if parameters is None:
        name = type(method.backbone).__name__
        return Claim(None, f"{name} is not linear in the mixed views")
    if type(local) is not GradientsOnly or type(local.inner) not in INNER:
        return Claim(None, f"{type(local).__name__} has phases of its own")
    if algorithm.uploads != (ITEMS,) or ITEMS not in algorithm.gradients_only:
        return Claim(None, "views do not stand still, or more than their gradients is sent")
    if type(method.sync) is not Replace:
        return Claim(None, rule_is_unknown(method))
    if local.gradient_clip is not None:
        return Claim(None, "local.gradient_clip bounds steps of views and model together")
    if any(link.order is not None for link in algorithm.channel):
        return Claim(None, "the channel clips gradients of views")
    if (coded := uploads_are_encoded(algorithm)) is not None:
        return Claim(None, coded)
    if (reason := why_not_plain(method, items=False)) is not None:
        return Claim(None, reason)
    if type(method.objective) is not BinaryCrossEntropy:
        return Claim(None, loss_is(method))
    alternates = type(local.inner) is Alternate
    return Claim(Views(algorithm, router, parameters, local, alternates, method.objective))


@dataclass(frozen=True)
class Views:
    """A claimed method, whose clients train in one pass."""

    algorithm: ComposedAlgorithm
    router: Router
    parameters: LinearParameters
    local: GradientsOnly
    alternates: bool
    loss: BinaryCrossEntropy
    name: ClassVar[str] = "views"

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
        """One round of all participants on the views in `state.shared`; returns their gradients."""
        round_number = state.round_number + 1
        queue = Queue.of(self.algorithm, train, participants, samples_U)
        view_IW = state.shared[ITEMS].contiguous().numpy()
        kind = view_IW.dtype
        rate = self.local.model.rate_at(round_number, self.algorithm.task.n_items)
        steps = ViewSteps(
            kind.type(rate),
            self.alternates,
            self.local.sends == "last_gradient",
            Logistic.of(self.loss.on == "probabilities", kind),
        )
        total_CIW, loss_C = np.zeros((queue.chunks, *view_IW.shape)), np.zeros(queue.chunks)
        queue.play(
            train_views,
            threads,
            queue.turns(kind, seed, round_number),
            steps,
            view_IW,
            self.parameters.scorer(state.private),
            self.router.routers({**state.shared, **state.private}, view_IW.shape[1]),
            total_CIW,
            loss_C,
        )
        totals = queue.totals(loss_C)
        totals.sums[ITEMS] += in_order(total_CIW)
        return totals


class ViewSteps(NamedTuple):
    """How a client descends, and what it sends."""

    rate: np.floating
    alternates: bool  # a step of what is private, then gradients of the views; else both at once
    last_alone: bool  # only the last batch's gradients of the views are sent
    loss: Logistic


class ReadViews(NamedTuple):
    """The samples of one step, their slopes by the logits, and the sum E of slope · row."""

    item: np.ndarray
    label: np.ndarray
    slope: np.ndarray
    summed: np.ndarray


@compiled(fastmath=FAST, error_model="numpy")
def _mix(vector, weight, mixed):  # type: ignore[no-untyped-def]
    """c = w ⊗ θ."""
    for v in range(len(weight)):
        for d in range(len(vector)):
            mixed[v * len(vector) + d] = weight[v] * vector[d]


@compiled(fastmath=FAST, error_model="numpy")
def _read_batch(view_IW, batch, mixed, bias, share, loss):  # type: ignore[no-untyped-def]
    """Slopes by the logits and their sum E over rows; returns the loss and the sum of slopes."""
    zero, one, width = loss.zero, loss.one, len(mixed)
    slope, summed = batch.slope, batch.summed
    total, product, slopes = 0.0, 1.0, zero
    summed[:] = zero
    for t in range(len(batch.item)):
        row = view_IW[batch.item[t]]
        logit = dot(row, mixed, width) + bias
        label = one if batch.label[t] else zero
        decay = np.exp(-logit)
        total, product = add_loss(total, product, logit, label, decay, t)
        step = slope_of(decay, label, loss) * share
        slope[t] = step
        slopes += step
        for j in range(width):
            summed[j] += step * row[j]
    return total + np.log(product), slopes


@compiled(fastmath=FAST, error_model="numpy")
def _add_gradients(total_IW, factor, batch, mixed, sent):  # type: ignore[no-untyped-def]
    """total += factor · slope · c for the view of each sample, in float64."""
    for j in range(len(mixed)):
        sent[j] = factor * mixed[j]
    for t in range(len(batch.item)):
        step = np.float64(batch.slope[t])
        total = total_IW[batch.item[t]]
        for j in range(len(mixed)):
            total[j] += step * sent[j]


@compiled(fastmath=FAST, error_model="numpy", nogil=True)
def train_views(chunk, turns, steps, view_IW, scorer, routers, total_CIW, loss_C):  # type: ignore[no-untyped-def]
    """Rounds of one chunk's clients; scorers and routers are written in place."""
    loss, batch, has_router, has_bias = steps.loss, turns.batch, routers.exists, scorer.has_bias
    zero, one, rate = loss.zero, loss.one, steps.rate
    width, dim = view_IW.shape[1], scorer.vector_UD.shape[1]
    hidden, count = routers.shift_UK.shape[1], width // dim
    most, oldest = most_samples(turns, chunk), np.int64(1)
    for p in range(turns.chunk_start_C1[chunk], turns.chunk_start_C1[chunk + 1]):
        oldest = max(oldest, len(positives_of(turns.drawing, turns.user_P[p])))
    samples = make_samples(turns.drawing.n_items, most)
    items, labels = samples.item, samples.label
    slope = np.empty(min(batch, most), view_IW.dtype)
    mixed = np.empty(width, view_IW.dtype)
    sent = np.empty(width, np.float64)
    summed = np.empty(width, view_IW.dtype)
    alone = np.ones(1, view_IW.dtype)
    on_weight = np.empty(count, view_IW.dtype)
    history = make_history(oldest if has_router else 1, width, hidden, count, view_IW)
    weight = history.weight[0] if has_router else alone
    total_IW, loss_sum = total_CIW[chunk], 0.0
    for p in range(turns.chunk_start_C1[chunk], turns.chunk_start_C1[chunk + 1]):
        user, factor = turns.user_P[p], turns.weight_P[p]
        positives = positives_of(turns.drawing, user)
        if len(positives) == 0:
            continue
        vector = scorer.vector_UD[user]
        layers = _layers(routers, user if has_router else 0)
        reading = Reading(0, one, True, zero)
        if has_router:
            n_history = read_router_history(view_IW, positives, samples.blocked, history)
            taken = turns.epochs * ((turns.samples_P[p] + batch - 1) // batch)
            saved = 3 * (taken - 1) * width * hidden
            direct = n_history * (width + 2 * taken * hidden) > saved
            reading = Reading(n_history, one / view_IW.dtype.type(n_history), direct, zero)
            begin_history(reading, history)
            activate(layers, n_history, history)
        for epoch in range(turns.epochs):
            n = draw_epoch(turns.drawing, user, epoch, samples)
            for low in range(0, n, batch):
                size = min(batch, n - low)
                is_last = epoch == turns.epochs - 1 and low + size == n
                sends = factor != 0.0 and (is_last or not steps.last_alone)
                drawn = ReadViews(items[low : low + size], labels[low : low + size], slope, summed)
                for phase in range(2 if steps.alternates else 1):
                    moves, gives = phase == 0, sends and (phase == 1 or not steps.alternates)
                    if not moves and not gives:
                        continue
                    if has_router:
                        weigh(layers, reading, history)
                    _mix(vector, weight, mixed)
                    bias, share = scorer.bias_U[user] if has_bias else zero, turns.share_S[size]
                    found, on_bias = _read_batch(view_IW, drawn, mixed, bias, share, loss)
                    if moves:
                        loss_sum += found
                    if has_router:
                        for v in range(count):
                            on_weight[v] = dot(summed[v * dim : (v + 1) * dim], vector, dim)
                        take_slopes(layers, reading, on_weight, history)
                    if gives:
                        _add_gradients(total_IW, factor, drawn, mixed, sent)
                        if has_router:
                            keep_for_views(reading, history)
                    if moves:
                        for v in range(count):
                            move = rate * weight[v]
                            for d in range(dim):
                                vector[d] -= move * summed[v * dim + d]
                        if has_bias:
                            scorer.bias_U[user] -= rate * on_bias
                        if has_router:
                            step_router(layers, reading, rate, on_weight, history)
                            if reading.direct:
                                step_first_layer(layers, reading, rate, factor, total_IW, history)
                                if steps.alternates or not is_last:
                                    activate(layers, reading.n, history)
        if has_router and (steps.alternates or not reading.direct):
            step_first_layer(layers, reading, rate, factor, total_IW, history)
    loss_C[chunk] = loss_sum


@compiled(error_model="numpy")
def _layers(routers, place):  # type: ignore[no-untyped-def]
    """The router at a place of the axis of clients."""
    return Layers(
        routers.first_UWK[place],
        routers.shift_UK[place],
        routers.second_UKV[place],
        routers.offset_UV[place],
        routers.softmaxes,
    )


# Scores.


def claims_scores(algorithm: ComposedAlgorithm) -> Claim[ViewScores]:
    """The kernel that weighs views for each reader."""
    method = algorithm.method
    router, parameters = Router.of(method.items), LinearParameters.of(method.backbone)
    if router is None or parameters is None or type(method.sync) is not Replace:
        return Claim(None, "no kernel was written for this scorer and its mixed views")
    if method.recency is not None and method.items.reads_history:
        return Claim(None, POSITIVES_COUNT)
    return Claim(ViewScores(router, parameters))


@dataclass(frozen=True)
class ViewScores:
    """Readers of mixed views with linear scorers."""

    router: Router
    parameters: LinearParameters
    name: ClassVar[str] = "views"

    def score(
        self, state: State, shared: Params, positives: Lists | None, user_B: np.ndarray
    ) -> np.ndarray:
        """Logits (B, I); `shared` holds the views as "items"."""
        p = {**shared, **state.private}
        view_IW, scorer = p[ITEMS].numpy(), self.parameters.scorer(p)
        weight_BV = weights_of_readers(self.router, p, positives, user_B)
        mixed_BVD = weight_BV[:, :, None] * scorer.vector_UD[user_B][:, None, :]
        score_BI: np.ndarray = mixed_BVD.reshape(len(user_B), -1) @ view_IW.T
        if scorer.has_bias:
            score_BI += scorer.bias_U[user_B][:, None]
        return score_BI


def weights_of_readers(
    router: Router, p: Params, positives: Lists | None, user_B: np.ndarray
) -> np.ndarray:
    """(B, V): how much each view counts for each reader; `p` holds the views as "items".

    >>> import torch
    >>> alone = Router(count=1, softmaxes=1, is_private=True)
    >>> weights_of_readers(alone, {ITEMS: torch.zeros(3, 2)}, None, np.array([0, 1])).tolist()
    [[1.0], [1.0]]
    """
    view_IW = p[ITEMS].numpy()
    weight_BV = np.ones((len(user_B), router.count), view_IW.dtype)
    if not router.exists:
        return weight_BV
    assert positives is not None
    _weigh_views(
        weight_BV,
        np.ascontiguousarray(user_B, dtype=np.int64),
        positives.start_U1,
        positives.item_N,
        view_IW,
        router.routers(p, view_IW.shape[1]),
        (view_IW.dtype.type(0), view_IW.dtype.type(1)),
    )
    return weight_BV


@compiled(fastmath=FAST, error_model="numpy")
def _weigh_views(weight_BV, users, start_U1, item_N, view_IW, routers, constants):  # type: ignore[no-untyped-def]
    """Each reader's weights of the views, from the history; equal ones where there is none."""
    zero, one = constants
    width, count = view_IW.shape[1], weight_BV.shape[1]
    longest = 1
    for user in users:
        longest = max(longest, start_U1[user + 1] - start_U1[user])
    blocked = np.zeros(len(view_IW), np.uint8)
    history = make_history(longest, width, routers.shift_UK.shape[1], count, view_IW)
    for b in range(len(users)):
        user = users[b]
        layers = _layers(routers, user if routers.is_private else 0)
        n = read_router_history(
            view_IW, item_N[start_U1[user] : start_U1[user + 1]], blocked, history
        )
        if n == 0:
            weight_BV[b] = one / view_IW.dtype.type(count)
            continue
        activate(layers, n, history)
        weigh(layers, Reading(n, one / view_IW.dtype.type(n), True, zero), history)
        for v in range(count):
            weight_BV[b, v] = history.weight[0, v]
