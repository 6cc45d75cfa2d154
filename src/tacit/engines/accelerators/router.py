"""The private router of a mixture, over the views of a client's own history: its form, forward,
backward, and its steps.

The router is linear–ReLU–linear and its logits are averaged over the H items of the history, so
the slope of its first layer is one vector, masked by who is active. Views stand still in a round,
so the first layer moves only in the span of the H rows: with their products G = F Fᵀ known, the
activations F W follow every step without the layer itself, which is read and written once for the
whole round. Where histories are so long that G costs more than that saves, it is done step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.core.parts import ServerSideViews
from tacit.core.types import ITEMS, Params
from tacit.engines.accelerators.logistic import FAST
from tacit.engines.accelerators.networks import BLAS_ALONE
from tacit.parts.mixture import Mixture

# Inlined, not called: a called function that may reorder sums is compiled once alone and once more
# within its caller, and which of the two runs depends on what was loaded before.
_inlined = compiled(fastmath=FAST, error_model="numpy", inline="always")
_as_written = compiled(error_model="numpy")


class Routers(NamedTuple):
    """The routers of all clients as kernels take them, where they lie; with one client's worth of
    each layer where all share one."""

    first_UWK: np.ndarray
    shift_UK: np.ndarray
    second_UKV: np.ndarray
    offset_UV: np.ndarray
    softmaxes: int
    exists: bool
    is_private: bool


class Layers(NamedTuple):
    """The router of one client, inside of kernels."""

    first: np.ndarray
    shift: np.ndarray
    second: np.ndarray
    offset: np.ndarray
    softmaxes: int


class Reading(NamedTuple):
    """How one client's history is read: how long it is, and how steps of the first layer go."""

    n: int
    share: np.floating  # 1 / n
    direct: bool  # step by step; else through products of the rows
    zero: np.floating


@dataclass(frozen=True)
class Router:
    """The router of a mixture as kernels want it: one weight per view and reader, from the
    reader's history. A single view has none.

    >>> from tacit.parts.views import SumView
    >>> Router.of(ServerSideViews(Mixture(views_of=(SumView(),)))).exists
    False
    >>> Router.of(ServerSideViews(Mixture(rule="item"))) is None
    True
    """

    count: int
    softmaxes: int
    is_private: bool

    @classmethod
    def of(cls, items: object) -> Router | None:
        """None where views are mixed in another way."""
        if type(items) is not ServerSideViews or type(items.encoder) is not Mixture:
            return None
        mixture = items.encoder
        if mixture.added or (len(mixture.views_of) > 1 and mixture.rule != "history"):
            return None
        return cls(len(mixture.views_of), mixture.softmaxes, mixture.router == "private")

    @property
    def exists(self) -> bool:
        return self.count > 1

    def routers(self, p: Params, width: int) -> Routers:
        """Both layers where they lie, with an axis of clients: of length 1 where all share one."""
        if not self.exists:
            shapes = ((1, width, 1), (1, 1), (1, 1, 1), (1, 1))
            layers = [np.zeros(shape, p[ITEMS].numpy().dtype) for shape in shapes]
        else:
            names = ("router.in.w", "router.in.b", "router.out.w", "router.out.b")
            layers = [
                p[name].numpy() if self.is_private else p[name].numpy()[None] for name in names
            ]
        first, shift, second, offset = layers
        private = self.is_private and self.exists
        return Routers(first, shift, second, offset, self.softmaxes, self.exists, private)


class RouterHistory(NamedTuple):
    """Room for one client's history, lent by a thread; H rows of it are in use."""

    item: np.ndarray  # (H,)
    row: np.ndarray  # (H, W), the views F
    active: np.ndarray  # (H, K), F W + b, the first layer before its ReLU
    slope: np.ndarray  # (H, K), of the loss by that
    moved: np.ndarray  # (H, K), slopes that the first layer has yet to move along
    sent: np.ndarray  # (H, K), slopes of which the views' gradients have yet to be taken
    gram: np.ndarray  # (H, H), F Fᵀ
    cross: np.ndarray  # (H, H), how steps of the first layer reach later gradients of views
    mean: np.ndarray  # (K,), of the active units over the history
    weight: np.ndarray  # (2, V), of the views: after the last softmax, and after the first
    logit: np.ndarray  # (V,), and room for its slope
    layer: np.ndarray  # (W, K), a step of the first layer
    back: np.ndarray  # (H, W), gradients of the views


@compiled(error_model="numpy")
def make_history(longest, width, hidden, count, like):  # type: ignore[no-untyped-def]
    """Room for histories of at most `longest` items; `like` is any array of the right kind."""
    short = min(longest, 2 * width)  # longer ones are done step by step
    return RouterHistory(
        np.empty(longest, np.int64),
        np.empty((longest, width), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((longest, hidden), like.dtype),
        np.empty((short, short), like.dtype),
        np.empty((short, short), like.dtype),
        np.empty(hidden, like.dtype),
        np.empty((2, count), like.dtype),
        np.empty(count, like.dtype),
        np.empty((width, hidden), like.dtype),
        np.empty((longest, width), like.dtype),
    )


@_inlined
def read_router_history(view_IW, positives, blocked, history):  # type: ignore[no-untyped-def]
    """The distinct items of a history and their views; returns how many."""
    n = 0
    for item in positives:
        if blocked[item] == 0:
            blocked[item] = 1
            history.item[n] = item
            for j in range(view_IW.shape[1]):
                history.row[n, j] = view_IW[item, j]
            n += 1
    for h in range(n):
        blocked[history.item[h]] = 0
    return n


@compiled(fastmath=FAST, error_model="numpy")
def _product(a, b, out):  # type: ignore[no-untyped-def]
    """out = a b, in pieces for which BLAS starts no threads of its own."""
    tile = max(1, BLAS_ALONE // (b.shape[0] * b.shape[1]))
    for low in range(0, len(a), tile):
        np.dot(a[low : low + tile], b, out[low : low + tile])


@_inlined
def activate(layers, n, history):  # type: ignore[no-untyped-def]
    """The first layer's outputs from the layer itself."""
    shift = layers.shift
    _product(history.row[:n], layers.first, history.active[:n])
    for h in range(n):
        for k in range(len(shift)):
            history.active[h, k] += shift[k]


@_as_written
def _softmax(value, out):  # type: ignore[no-untyped-def]
    top = value[0]
    for v in range(1, len(value)):
        top = max(top, value[v])
    total = np.exp(value[0] - top)
    out[0] = total
    for v in range(1, len(value)):
        out[v] = np.exp(value[v] - top)
        total += out[v]
    for v in range(len(value)):
        out[v] /= total


@_inlined
def weigh(layers, reading, history):  # type: ignore[no-untyped-def]
    """The weights of the views, into `history.weight[0]`."""
    second, offset = layers.second, layers.offset
    n, share, zero = reading.n, reading.share, reading.zero
    mean, logit = history.mean, history.logit
    for k in range(len(mean)):
        mean[k] = max(history.active[0, k], zero)
    for h in range(1, n):
        for k in range(len(mean)):
            mean[k] += max(history.active[h, k], zero)
    for v in range(len(logit)):
        logit[v] = offset[v]
    for k in range(len(mean)):
        mean[k] *= share
        for v in range(len(logit)):
            logit[v] += mean[k] * second[k, v]
    _softmax(logit, history.weight[1])
    if layers.softmaxes == 2:
        _softmax(history.weight[1], history.weight[0])
    else:
        for v in range(history.weight.shape[1]):
            history.weight[0, v] = history.weight[1, v]


@_as_written
def _through_softmax(weight, slope, zero, out):  # type: ignore[no-untyped-def]
    """Slopes by a softmax's outputs become those by its inputs, in place.

    w_v Σ_j w_j (s_v − s_j): where one weight is nearly 1, s_v − Σ_j w_j s_j would lose its digits.
    """
    for v in range(len(weight)):
        total = zero
        for j in range(len(weight)):
            total += weight[j] * (slope[v] - slope[j])
        out[v] = weight[v] * total
    for v in range(len(weight)):
        slope[v] = out[v]


@_inlined
def take_slopes(layers, reading, on_weight, history):  # type: ignore[no-untyped-def]
    """From slopes by the weights, which become those by the logits, to the first layer's."""
    second, n, share, zero = layers.second, reading.n, reading.share, reading.zero
    if layers.softmaxes == 2:
        _through_softmax(history.weight[0], on_weight, zero, history.logit)
    _through_softmax(history.weight[1], on_weight, zero, history.logit)
    for k in range(len(second)):
        unit = zero
        for v in range(len(on_weight)):
            unit += second[k, v] * on_weight[v]
        unit *= share
        for h in range(n):
            history.slope[h, k] = unit if history.active[h, k] > zero else zero


@_inlined
def keep_for_views(reading, history):  # type: ignore[no-untyped-def]
    """Remember a gradient of the views: slope · (W − rate Fᵀ moved)ᵀ."""
    n = reading.n
    for h in range(n):
        for k in range(history.slope.shape[1]):
            history.sent[h, k] += history.slope[h, k]
    if reading.direct:
        return  # the layer itself is up to date
    for h in range(n):
        for other in range(n):
            total = history.slope[h, 0] * history.moved[other, 0]
            for k in range(1, history.slope.shape[1]):
                total += history.slope[h, k] * history.moved[other, k]
            history.cross[h, other] += total


@_inlined
def step_router(layers, reading, rate, on_logit, history):  # type: ignore[no-untyped-def]
    """One step of the router; the first layer's own is put off, its outputs follow."""
    second, offset, shift, n = layers.second, layers.offset, layers.shift, reading.n
    mean, slope, active = history.mean, history.slope, history.active
    for k in range(len(mean)):
        for v in range(len(on_logit)):
            second[k, v] -= rate * mean[k] * on_logit[v]
    for v in range(len(on_logit)):
        offset[v] -= rate * on_logit[v]
    for k in range(len(mean)):
        mean[k] = slope[0, k]
    for h in range(1, n):
        for k in range(len(mean)):
            mean[k] += slope[h, k]
    for k in range(len(mean)):
        shift[k] -= rate * mean[k]
    for h in range(n):
        for k in range(len(mean)):
            history.moved[h, k] += slope[h, k]
    if reading.direct:
        return
    for h in range(n):
        for k in range(len(mean)):
            active[h, k] -= rate * mean[k]
        for other in range(n):
            step = rate * history.gram[h, other]
            for k in range(len(mean)):
                active[h, k] -= step * slope[other, k]


@_inlined
def begin_history(reading, history):  # type: ignore[no-untyped-def]
    """Nothing is put off yet; products of the rows are taken where they will be needed."""
    n, zero = reading.n, reading.zero
    history.moved[:n] = zero
    history.sent[:n] = zero
    if reading.direct:
        return
    history.cross[:n, :n] = zero
    for h in range(n):
        for other in range(h + 1):
            total = history.row[h, 0] * history.row[other, 0]
            for j in range(1, history.row.shape[1]):
                total += history.row[h, j] * history.row[other, j]
            history.gram[h, other] = total
            history.gram[other, h] = total


@_inlined
def step_first_layer(layers, reading, rate, factor, total_IW, history):  # type: ignore[no-untyped-def]
    """What was put off: gradients of the history's views go out, then the first layer moves."""
    first, n, zero = layers.first, reading.n, reading.zero
    row, back = history.row, history.back
    if factor != 0.0:
        _product(history.sent[:n], first.T, back[:n])
        for h in range(n):
            if not reading.direct:
                for other in range(n):
                    step = rate * history.cross[h, other]
                    for j in range(row.shape[1]):
                        back[h, j] -= step * row[other, j]
            item = history.item[h]
            for j in range(row.shape[1]):
                total_IW[item, j] += factor * back[h, j]
    tile = max(1, BLAS_ALONE // first.size)
    for low in range(0, n, tile):
        high = min(n, low + tile)
        np.dot(row[low:high].T, history.moved[low:high], history.layer)
        for j in range(len(first)):
            for k in range(first.shape[1]):
                first[j, k] -= rate * history.layer[j, k]
    history.moved[:n] = zero
    history.sent[:n] = zero
