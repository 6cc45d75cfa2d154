"""Perceptrons: every client's layers in one flat row, and the passes of kernels over a tile of
samples.

A network is one flat array: for every layer its weights (in, out) and its biases, then the half of
the first layer that multiplies the user's vector. That half is the same for all samples, so it and
the first biases are added up once, into `shift`. Matrix products are BLAS's; a tile is so small
that BLAS never starts threads of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from tacit.compiled import compiled
from tacit.core.parts import Backbone
from tacit.core.types import Params
from tacit.engines.accelerators.logistic import FAST, add_loss, loss_of, slope_of
from tacit.engines.state import State
from tacit.parts.backbones import MlpHead, SharedMlp

_TILE = 256  # samples: their layers stay in cache
BLAS_ALONE = 2**18  # multiplications of a product up to which BLAS stays on one thread
# Callers of kernels with flags write np.bool_: of a bare True numba would compile them once more.


class Networks(NamedTuple):
    """The networks of some clients as kernels take them."""

    widths: np.ndarray  # of the row that goes in and of all layers
    net_PN: np.ndarray  # one row each; one single row where all share one
    is_shared: bool
    vector_UD: np.ndarray  # the users' own vectors
    has_user: bool


class Network(NamedTuple):
    """The network of one client, inside of kernels."""

    widths: np.ndarray
    net: np.ndarray
    vector: np.ndarray
    has_user: bool


@dataclass(frozen=True)
class FlatNetwork:
    """The form of a perceptron that kernels know: layer by layer weights (in, out) and biases,
    over the item row. Where the scorer has a user vector, the half of the first layer that
    multiplies it stands at the end.

    >>> FlatNetwork.of(MlpHead(dim=3, layers=(2, 1))).widths.tolist()
    [3, 2, 1]
    """

    dim: int
    layers: tuple[int, ...]
    has_user: bool
    is_shared: bool

    @classmethod
    def of(cls, backbone: Backbone) -> FlatNetwork | None:
        """None where the scorer is no perceptron that kernels know."""
        if type(backbone) is SharedMlp:
            return cls(backbone.dim, backbone.layers, True, backbone.scorer == "shared")
        if type(backbone) is MlpHead:
            return cls(backbone.dim, backbone.layers, False, False)
        return None

    @property
    def widths(self) -> np.ndarray:
        return np.array([self.dim, *self.layers], dtype=np.int64)

    @property
    def size(self) -> int:
        """How many parameters one network has.

        >>> FlatNetwork.of(SharedMlp(dim=3, layers=(2, 1))).size
        17
        """
        ins = (self.dim, *self.layers[:-1])
        halves = self.dim * self.layers[0] if self.has_user else 0
        return halves + sum((n + 1) * m for n, m in zip(ins, self.layers, strict=True))

    def read(self, state: State, user_P: np.ndarray) -> np.ndarray:
        """The networks of some users, one row each; one single row where all share one."""
        values = state.shared if self.is_shared else state.private
        names = [f"mlp.{kind}{layer}" for layer in range(len(self.layers)) for kind in "wb"]
        if self.is_shared:
            stacked = {name: values[name].numpy()[None] for name in names}
        else:
            users = torch.from_numpy(user_P)
            stacked = {name: values[name].index_select(0, users).numpy() for name in names}
        parts = [stacked[name] for name in names]
        if self.has_user:
            parts[0], user_half = parts[0][:, self.dim :], parts[0][:, : self.dim]
            parts.append(user_half)
        rows = len(parts[0])
        return np.concatenate([part.reshape(rows, -1) for part in parts], axis=1)

    def parameters(self, net_PN: np.ndarray) -> dict[str, np.ndarray]:
        """Flat rows as named parameters, stacked.

        >>> flat = FlatNetwork(dim=1, layers=(1,), has_user=True, is_shared=True)
        >>> flat.parameters(np.array([[2.0, 3.0, 4.0]]))["mlp.w0"].tolist()  # the user's half is 4
        [[[4.0], [2.0]]]
        """
        found: dict[str, np.ndarray] = {}
        rows, ins, at = len(net_PN), self.dim, 0
        for layer, outs in enumerate(self.layers):
            found[f"mlp.w{layer}"] = net_PN[:, at : at + ins * outs].reshape(rows, ins, outs)
            at += ins * outs
            found[f"mlp.b{layer}"] = net_PN[:, at : at + outs]
            ins, at = outs, at + outs
        if self.has_user:
            user_half = net_PN[:, at:].reshape(rows, self.dim, -1)
            found["mlp.w0"] = np.concatenate([user_half, found["mlp.w0"]], axis=1)
        return found

    def networks(self, net_PN: np.ndarray, private: Params) -> Networks:
        """For kernels; where the scorer has no user vector, one of the same type stands there."""
        vector_UD = private["user"].numpy() if self.has_user else np.zeros((1, 1), net_PN.dtype)
        return Networks(self.widths, net_PN, self.is_shared, vector_UD, self.has_user)


class Scratch(NamedTuple):
    """Room for one tile, lent to every pass of a thread."""

    x: np.ndarray  # (tile, D), the rows that go in
    hidden: np.ndarray  # outputs of all hidden layers, one after another
    logit: np.ndarray  # (tile,)
    slope: np.ndarray  # (tile,), of the loss by the logit
    delta: np.ndarray  # (2, tile · widest), of the loss by one layer's output, and the next one's
    part: np.ndarray  # a tile's share of one layer's gradient
    shift: np.ndarray  # what the user's vector and the first biases add to the first layer


class NetworkBatch(NamedTuple):
    """The samples of one step: rows of a table, and where in it each sample's row is."""

    rows: np.ndarray
    where: np.ndarray
    labels: np.ndarray
    share: np.floating  # 1 / how many there are


class Gradients(NamedTuple):
    """Room for the gradients of one step."""

    net: np.ndarray
    vector: np.ndarray  # of the user's vector
    row: np.ndarray  # (samples, D), of the row that each sample reads


@compiled(error_model="numpy")
def make_scratch(widths, samples, like):  # type: ignore[no-untyped-def]
    """Room for tiles of at most `samples` samples; `like` is any array of the right kind."""
    largest = 1
    for layer in range(len(widths) - 1):
        largest = max(largest, widths[layer] * widths[layer + 1])
    tile = max(1, min(samples, _TILE, BLAS_ALONE // largest))
    return Scratch(
        np.empty((tile, widths[0]), like.dtype),
        np.empty(tile * widths[1:-1].sum(), like.dtype),
        np.empty(tile, like.dtype),
        np.empty(tile, like.dtype),
        np.empty((2, tile * widths.max()), like.dtype),
        np.empty(largest, like.dtype),
        np.empty(widths[1], like.dtype),
    )


@compiled(error_model="numpy")
def make_gradients(widths, samples, net):  # type: ignore[no-untyped-def]
    """Room for steps of at most `samples` samples."""
    return Gradients(
        np.empty(len(net), net.dtype),
        np.empty(widths[0], net.dtype),
        np.empty((samples, widths[0]), net.dtype),
    )


@compiled(fastmath=FAST, error_model="numpy")
def set_shift(network, scratch):  # type: ignore[no-untyped-def]
    """shift = b0 + vector · (the user's half of the first layer)."""
    net, vector, shift = network.net, network.vector, scratch.shift
    ins, outs = network.widths[0], network.widths[1]
    for j in range(outs):
        shift[j] = net[ins * outs + j]
    if network.has_user:
        half = net[len(net) - ins * outs :].reshape(ins, outs)
        for d in range(ins):
            for j in range(outs):
                shift[j] += vector[d] * half[d, j]


@compiled(fastmath=FAST, error_model="numpy")
def forward(network, x, first, has_first, scratch, zero):  # type: ignore[no-untyped-def]
    """The logits of the rows `x`, as a view into the scratch.

    With `has_first` the rows' products with the first layer are known already: `first`.
    """
    net, widths = network.net, network.widths
    n, top, start, at = len(x), len(widths) - 2, 0, 0
    tile = len(scratch.x)
    below = x
    for layer in range(top):
        ins, outs = widths[layer], widths[layer + 1]
        out = scratch.hidden[at : at + n * outs].reshape(n, outs)
        if layer == 0 and has_first:
            for t in range(n):
                for j in range(outs):
                    out[t, j] = first[t, j]
        else:
            np.dot(below, net[start : start + ins * outs].reshape(ins, outs), out)
        start += ins * outs
        bias = scratch.shift if layer == 0 else net[start : start + outs]
        for t in range(n):
            for j in range(outs):
                value = out[t, j] + bias[j]
                out[t, j] = value if value > zero else zero
        start += outs
        at += tile * outs
        below = out
    logit = scratch.logit[:n]
    if top == 0 and has_first:
        for t in range(n):
            logit[t] = first[t, 0]
    else:
        np.dot(below, net[start : start + widths[top]], logit)
    bias = scratch.shift if top == 0 else net[start + widths[top] :]
    for t in range(n):
        logit[t] += bias[0]
    return logit


@compiled(fastmath=FAST, error_model="numpy")
def set_slopes(logit, labels, share, loss, slope, counts):  # type: ignore[no-untyped-def]
    """Slopes of the mean loss by the logits; returns the sum of the losses. With `counts` a sample
    counts more or less than once."""
    total, product = 0.0, 1.0
    for t in range(len(logit)):
        label = loss.one if labels[t] else loss.zero
        decay = np.exp(-logit[t])
        if counts is None:
            total, product = add_loss(total, product, logit[t], label, decay, t)
        else:
            total += counts[t] * loss_of(logit[t], label, decay)
        slope[t] = slope_of(decay, label, loss) * share
        if counts is not None:
            slope[t] *= counts[t]
    return total + np.log(product)


@compiled(fastmath=FAST, error_model="numpy")
def backward(network, x, scratch, gradient, on_x, moves_net, moves_rows, zero):  # type: ignore[no-untyped-def]
    """From the slopes down: adds to the layers' `gradient`, writes that of the rows to `on_x`.

    The user's half has none here: `add_user_half` makes it from that of the first biases.
    """
    net, widths = network.net, network.widths
    n, top, tile = len(x), len(widths) - 2, len(scratch.x)
    start = 0  # of a layer's parameters
    for layer in range(top):
        start += (widths[layer] + 1) * widths[layer + 1]
    at = tile * widths[1 : top + 1].sum()  # where a layer's outputs end
    slope, ins = scratch.slope[:n], widths[top]
    at -= tile * ins
    below = scratch.hidden[at : at + n * ins].reshape(n, ins) if top else x
    if moves_net:
        part = scratch.part[:ins]
        np.dot(below.T, slope, part)
        for i in range(ins):
            gradient[start + i] += part[i]
        for t in range(n):
            gradient[start + ins] += slope[t]
    if top == 0 and not moves_rows:
        return
    delta = scratch.delta[top & 1, : n * ins].reshape(n, ins) if top else on_x
    for t in range(n):
        for i in range(ins):
            delta[t, i] = slope[t] * net[start + i]
    for layer in range(top - 1, -1, -1):
        ins, outs = widths[layer], widths[layer + 1]
        # below is this layer's output: nothing passes where it was cut off
        for t in range(n):
            for j in range(outs):
                delta[t, j] = delta[t, j] if below[t, j] > zero else zero
        start -= (ins + 1) * outs
        at -= tile * ins
        below = scratch.hidden[at : at + n * ins].reshape(n, ins) if layer else x
        weights = net[start : start + ins * outs].reshape(ins, outs)
        if moves_net:
            part = scratch.part[: ins * outs]
            np.dot(below.T, delta, part.reshape(ins, outs))
            for i in range(ins * outs):
                gradient[start + i] += part[i]
            bias = gradient[start + ins * outs : start + (ins + 1) * outs]
            for t in range(n):
                for j in range(outs):
                    bias[j] += delta[t, j]
        if layer == 0:
            if moves_rows:
                np.dot(delta, weights.T, on_x)
            return
        after = scratch.delta[layer & 1, : n * ins].reshape(n, ins)
        np.dot(delta, weights.T, after)
        delta = after


@compiled(fastmath=FAST, error_model="numpy")
def add_user_half(network, gradients, zero):  # type: ignore[no-untyped-def]
    """Gradients of the user's half of the first layer and of the user's vector."""
    net, vector, gradient = network.net, network.vector, gradients.net
    ins, outs = network.widths[0], network.widths[1]
    on_bias = gradient[ins * outs : ins * outs + outs]
    half = net[len(net) - ins * outs :].reshape(ins, outs)
    on_half = gradient[len(net) - ins * outs :].reshape(ins, outs)
    for d in range(ins):
        total = zero
        for j in range(outs):
            on_half[d, j] = vector[d] * on_bias[j]
            total += half[d, j] * on_bias[j]
        gradients.vector[d] = total


@compiled(fastmath=FAST, error_model="numpy")
def set_gradients(network, batch, counts, loss, moves_net, moves_rows, scratch, gradients):  # type: ignore[no-untyped-def]
    """Gradients of one batch's mean loss; returns the sum of its losses. `counts` says how often
    each sample counts; None: all once."""
    rows, where, on_row = batch.rows, batch.where, gradients.row
    size, tile, zero = len(where), len(scratch.x), loss.zero
    set_shift(network, scratch)
    if moves_net:
        gradients.net[:] = zero
    total = 0.0
    for low in range(0, size, tile):
        n = min(tile, size - low)
        x = scratch.x[:n]
        for t in range(n):
            row = where[low + t]
            for d in range(x.shape[1]):
                x[t, d] = rows[row, d]
        logit = forward(network, x, x, np.bool_(False), scratch, zero)
        labels = batch.labels[low : low + n]
        if counts is None:
            total += set_slopes(logit, labels, batch.share, loss, scratch.slope, None)
        else:
            own = counts[low : low + n]
            total += set_slopes(logit, labels, batch.share, loss, scratch.slope, own)
        on_x = on_row[low : low + n]
        backward(network, x, scratch, gradients.net, on_x, moves_net, moves_rows, zero)
    if moves_net and network.has_user:
        add_user_half(network, gradients, zero)
    return total
