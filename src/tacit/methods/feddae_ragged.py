"""FedDAE for blocks of clients without padding: passes, gradients and compiled loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.compiled import compiled
from tacit.core.optim import WrittenStep
from tacit.core.ragged import RaggedBatch
from tacit.core.types import Params
from tacit.data.views import Lists
from tacit.methods.feddae_model import kept

# Compiled loops of FedDAE over the rows of many histories, client after client.
#
# Every gradient of a client's own parameters is an outer product: what entered a row, times the
# slope of what came out. So one kernel steps first layers, second layers and biases alike. B are
# clients, R rows of all of them, D the width; rows `start[b]` to `start[b + 1]` are client b's.

# Reassociation lets sums vectorise; NaN and infinity keep their meaning.
_compiled = compiled(fastmath={"contract", "arcp", "nsz", "reassoc"}, error_model="numpy")


@_compiled
def first_times(start, item, n_items):  # type: ignore[no-untyped-def]
    """Whether an item stands in its list for the first time."""
    seen = np.full(n_items, -1, np.int64)
    first = np.zeros(len(item), np.bool_)
    for b in range(len(start) - 1):
        for r in range(start[b], start[b + 1]):
            first[r] = seen[item[r]] != b
            seen[item[r]] = b
    return first


@_compiled
def sum_rows(start, row_RD, input_R, out_BD):  # type: ignore[no-untyped-def]
    """Each client's rows, weighted by what enters them."""
    for b in range(len(out_BD)):
        out = out_BD[b]
        out[:] = 0
        for r in range(start[b], start[b + 1]):
            row = row_RD[r]
            for d in range(len(row)):
                out[d] += input_R[r] * row[d]


@_compiled
def add_rows(start, item_R, input_R, slope_BD, total_ID):  # type: ignore[no-untyped-def]
    """The gradient of `sum_rows` by the rows of a shared table, added up."""
    for b in range(len(slope_BD)):
        slope = slope_BD[b]
        for r in range(start[b], start[b + 1]):
            total = total_ID[item_R[r]]
            for d in range(len(slope)):
                total[d] += input_R[r] * slope[d]


@_compiled
def adam_rows(  # type: ignore[no-untyped-def]
    start, value_RD, first_RD, second_RD, input_R, slope_BD, numbers
):
    """One step of Adam in place. `numbers`, of the values' own kind: both decays, one minus each,
    both bias corrections, rate, epsilon, weight decay."""
    beta1, beta2, rest1, rest2 = numbers[0], numbers[1], numbers[2], numbers[3]
    correct1, correct2, rate, epsilon = numbers[4], numbers[5], numbers[6], numbers[7]
    decay = numbers[8]
    for b in range(len(slope_BD)):
        slope = slope_BD[b]
        for r in range(start[b], start[b + 1]):
            value, first, second = value_RD[r], first_RD[r], second_RD[r]
            enters = input_R[r]
            for d in range(len(slope)):
                gradient = enters * slope[d] + decay * value[d]
                first[d] = beta1 * first[d] + rest1 * gradient
                second[d] = beta2 * second[d] + rest2 * gradient * gradient
                spread = np.sqrt(second[d] / correct2)
                value[d] -= rate * (first[d] / correct1) / (spread + epsilon)


@_compiled
def descent_rows(start, value_RD, input_R, slope_BD, rate, decay):  # type: ignore[no-untyped-def]
    """One step of plain descent in place; `rate` and the weight decay are of the values' kind."""
    for b in range(len(slope_BD)):
        slope = slope_BD[b]
        for r in range(start[b], start[b + 1]):
            value, enters = value_RD[r], input_R[r]
            for d in range(len(slope)):
                value[d] -= rate * (enters * slope[d] + decay * value[d])


# FedDAE for blocks of clients without padding: the network of `feddae_model.py`, and its gradient.
#
# The decoder is the same for all clients of a round, so it is one matrix product for a block; the
# clients' own layers are small. B are clients, R the rows of their histories, D latent dimensions.


def distinct_lists(history: Lists, row_N: np.ndarray, n_items: int) -> tuple[Lists, np.ndarray]:
    """Each list without repetitions, and the rows of what is left.

    >>> lists = Lists(np.array([0, 3, 4]), np.array([2, 5, 2, 2]))
    >>> lists, rows = distinct_lists(lists, np.array([10, 11, 12, 20]), 6)
    >>> lists.item_N.tolist(), rows.tolist()
    ([2, 5, 2], [10, 11, 20])
    """
    first_N = first_times(history.start_U1, history.item_N, n_items)
    kept_U1 = np.concatenate([[0], np.cumsum(first_N)])[history.start_U1]
    return Lists(kept_U1.astype(np.int64), history.item_N[first_N]), row_N[first_N]


def inputs_of(lists: Lists, dtype: torch.dtype) -> dict[str, Tensor]:
    """What enters the rows of a history: 1 in the gate, a vector of length 1 in the encoders.

    >>> lists = Lists(np.array([0, 4]), np.array([2, 5, 1, 3]))
    >>> inputs_of(lists, torch.float32)["local"].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    size_R = torch.from_numpy(np.repeat(lists.size_U, lists.size_U)).to(dtype)
    unit_R = 1 / size_R.sqrt()
    return {"gate": torch.ones_like(unit_R), "local": unit_R, "global": unit_R}


@dataclass(frozen=True, eq=False)
class Half:
    """One of the two encoders, for a block."""

    hidden_BH: Tensor
    mean_BD: Tensor
    deviation_BD: Tensor
    latent_BD: Tensor | float  # the noise of the sample

    @property
    def sample_BD(self) -> Tensor:
        return self.mean_BD + self.deviation_BD * self.latent_BD


@dataclass(frozen=True, eq=False)
class Pass:
    """A pass of a block through the network, with what its gradient needs."""

    halves: tuple[Half, Half]
    gate_BG: Tensor  # hidden units of the gate, after dropout
    weight_B2: Tensor
    latent_BD: Tensor
    decoder_BH: Tensor
    logit_BI: Tensor


def weighted(lists: Lists, row_RD: Tensor, input_R: Tensor) -> Tensor:
    """Each client's rows, weighted by what enters them and added up."""
    out_BD = row_RD.new_empty(len(lists), row_RD.shape[1])
    sum_rows(lists.start_U1, row_RD.numpy(), input_R.numpy(), out_BD.numpy())
    return out_BD


def forward(
    own: Params, shared: Params, lists: Lists, inputs: dict[str, Tensor], noise: Params
) -> Pass:
    """`own` has one entry per client, its `.rows` one per row; `inputs` say what enters rows.

    `noise` holds the factors of dropout in the gate, and both latent draws; it may be empty.
    """
    item_R = torch.from_numpy(lists.item_N)
    gate_BG = torch.relu(weighted(lists, own["gate.rows"], inputs["gate"]) + own["gate.b0"])
    if noise:
        gate_BG = gate_BG * noise["gate"]
    weight_B2 = torch.softmax(_each(gate_BG, own["gate.w1"]) + own["gate.b1"], 1)
    local_BH = torch.tanh(weighted(lists, own["local.rows"], inputs["local"]) + own["local.b0"])
    rows_RH = shared["global.rows"][item_R]
    global_BH = torch.tanh(weighted(lists, rows_RH, inputs["global"]) + shared["global.b0"])
    out_local = _each(local_BH, own["local.w1"]) + own["local.b1"]
    out_global = torch.addmm(shared["global.b1"], global_BH, shared["global.w1"])
    halves = []
    for number, (hidden_BH, out) in enumerate(((local_BH, out_local), (global_BH, out_global))):
        mean_BD, log_BD = out.chunk(2, 1)
        latent = noise["latent"][:, number] if noise else 0.0
        halves.append(Half(hidden_BH, mean_BD, (0.5 * log_BD).exp(), latent))
    first, second = weight_B2.split(1, 1)
    latent_BD = first * halves[0].sample_BD + second * halves[1].sample_BD
    decoder_BH = torch.tanh(torch.addmm(shared["decoder.b0"], latent_BD, shared["decoder.w0"]))
    logit_BI = torch.addmm(shared["decoder.b1"], decoder_BH, shared["decoder.w1"])
    return Pass((halves[0], halves[1]), gate_BG, weight_B2, latent_BD, decoder_BH, logit_BI)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes of each client's loss, at the places where a layer's output is added to its bias."""

    logit_BI: Tensor
    decoder_BH: Tensor
    out: tuple[Tensor, Tensor]  # of the local and the global encoder: means and log variances
    hidden: tuple[Tensor, Tensor]
    gate_B2: Tensor
    gate_BG: Tensor


def backward(
    own: Params, shared: Params, lists: Lists, found: Pass, gate_kept_BG: Tensor, beta: float
) -> Slopes:
    """The gradient of -log likelihood of each history plus beta times the divergence."""
    size_B1 = torch.from_numpy(lists.size_U)[:, None].to(found.logit_BI)
    logit_BI = torch.softmax(found.logit_BI, 1).mul_(size_B1)
    client_R = torch.from_numpy(np.repeat(np.arange(len(lists)), lists.size_U))
    logit_BI[client_R, torch.from_numpy(lists.item_N)] -= 1.0  # items of a list are distinct
    decoder_BH = (logit_BI @ shared["decoder.w1"].T) * (1 - found.decoder_BH**2)
    latent_BD = decoder_BH @ shared["decoder.w0"].T
    weights = found.weight_B2.split(1, 1)
    pairs = list(zip(weights, found.halves, strict=True))
    mean_BD = sum(w * half.mean_BD for w, half in pairs)
    variance_BD = sum((w * half.deviation_BD) ** 2 for w, half in pairs)
    mean_slope = latent_BD + beta * mean_BD
    variance_slope = 0.5 * beta * (1 - 1 / variance_BD)
    out, weight_slopes = [], []
    for w, half in pairs:
        own_variance = variance_slope * w * half.deviation_BD**2
        log_slope = w * (0.5 * latent_BD * half.deviation_BD * half.latent_BD + own_variance)
        out.append(torch.cat([w * mean_slope, log_slope], 1))
        by_weight = beta * mean_BD * half.mean_BD + latent_BD * half.sample_BD + 2 * own_variance
        weight_slopes.append(by_weight.sum(1, keepdim=True))
    weight_B2 = torch.cat(weight_slopes, 1)
    gate_B2 = found.weight_B2 * (weight_B2 - (found.weight_B2 * weight_B2).sum(1, keepdim=True))
    gate_BG = _back(gate_B2, own["gate.w1"]) * gate_kept_BG * (found.gate_BG > 0)
    local, common = found.halves
    hidden = (
        _back(out[0], own["local.w1"]) * (1 - local.hidden_BH**2),
        (out[1] @ shared["global.w1"].T) * (1 - common.hidden_BH**2),
    )
    return Slopes(logit_BI, decoder_BH, (out[0], out[1]), hidden, gate_B2, gate_BG)


def _each(x_BM: Tensor, w_BMN: Tensor) -> Tensor:
    """Each client's vector through its own matrix."""
    return torch.bmm(x_BM[:, None], w_BMN)[:, 0]


def _back(x_BN: Tensor, w_BMN: Tensor) -> Tensor:
    return torch.bmm(w_BMN, x_BN[:, :, None])[:, :, 0]


# A round of FedDAE for a block of clients: passes over histories, steps on each device.

OWN_ROWS = frozenset({"local.rows", "gate.rows"})  # tables that are kept by history


def taken(private: Params, user_B: np.ndarray, row_R: np.ndarray) -> Params:
    """The own parameters of some clients; of `.rows` those of the history, client after client."""
    user, row = torch.from_numpy(user_B), torch.from_numpy(row_R)
    return {name: value[row if name in OWN_ROWS else user] for name, value in private.items()}


def put_back(private: Params, own: Params, user_B: np.ndarray, row_R: np.ndarray) -> None:
    user, row = torch.from_numpy(user_B), torch.from_numpy(row_R)
    for name, value in private.items():
        value[row if name in OWN_ROWS else user] = own[name]


def passes_of(
    batch: RaggedBatch, lists: Lists, n_items: int, epochs: int, dropout: float
) -> list[tuple[dict[str, Tensor], Params]]:
    """Of each pass of a block: what enters the rows, and the noise."""
    latent, gate = (batch.noise(parameter, batch.user_P) for parameter in ("latent", "drop.gate"))
    user_R = np.repeat(batch.user_P, lists.size_U)
    plain = inputs_of(lists, latent.dtype)
    passes = []
    for epoch in range(epochs):
        inputs = dict(plain)
        for name in ("local", "global"):
            drawn_R = batch.noise_at(f"drop.{name}", user_R, epoch * n_items + lists.item_N)
            inputs[name] = plain[name] * kept(drawn_R, dropout)
        noise = {"latent": latent[:, epoch], "gate": kept(gate[:, epoch], dropout)}
        passes.append((inputs, noise))
    return passes


def play_block(
    own: Params,
    shared: Params,
    total: Params,
    lists: Lists,
    report_B: Tensor,
    passes: list[tuple[dict[str, Tensor], Params]],
    beta: float,
    local: WrittenStep,
    rate: float,
) -> None:
    """One pass per entry of `passes` (what enters rows, and noise); `own` steps in place and the
    shared gradients of who reports are added to `total`."""
    moments = {
        name: (torch.zeros_like(value), torch.zeros_like(value))
        for name, value in (own.items() if local.adam else ())
    }
    for step, (inputs, noise) in enumerate(passes, start=1):
        found = forward(own, shared, lists, inputs, noise)
        slopes = backward(own, shared, lists, found, noise["gate"], beta)
        _add(total, found, slopes, lists, inputs["global"], report_B)
        for name, (start, enters, slope) in _outer(found, slopes, lists, inputs).items():
            width, kind = slope.shape[1], slope.numpy().dtype.type
            value_RD = own[name].view(-1, width).numpy()
            input_R, slope_BD = enters.contiguous().view(-1).numpy(), slope.contiguous().numpy()
            if local.adam:
                first_RD, second_RD = (one.view(-1, width).numpy() for one in moments[name])
                numbers = _numbers(local, step, rate, slope_BD.dtype)
                adam_rows(start, value_RD, first_RD, second_RD, input_R, slope_BD, numbers)
            else:
                decay = kind(local.weight_decay)
                descent_rows(start, value_RD, input_R, slope_BD, kind(rate), decay)


def _outer(
    found: Pass, slopes: Slopes, lists: Lists, inputs: dict[str, Tensor]
) -> dict[str, tuple[np.ndarray, Tensor, Tensor]]:
    """Of each own parameter: where each client's rows begin, what enters them, and the slope
    behind."""
    size = len(lists)
    ones = found.weight_B2.new_ones(size)
    local = found.halves[0].hidden_BH
    place = np.arange(size + 1)
    return {
        "local.rows": (lists.start_U1, inputs["local"], slopes.hidden[0]),
        "local.b0": (place, ones, slopes.hidden[0]),
        "local.w1": (place * local.shape[1], local, slopes.out[0]),
        "local.b1": (place, ones, slopes.out[0]),
        "gate.rows": (lists.start_U1, inputs["gate"], slopes.gate_BG),
        "gate.b0": (place, ones, slopes.gate_BG),
        "gate.w1": (place * found.gate_BG.shape[1], found.gate_BG, slopes.gate_B2),
        "gate.b1": (place, ones, slopes.gate_B2),
    }


def _add(
    total: Params,
    found: Pass,
    slopes: Slopes,
    lists: Lists,
    input_R: Tensor,
    report_B: Tensor,
) -> None:
    """The shared gradients of one pass, summed over who reports."""
    counted = report_B[:, None]
    layers = {
        "decoder.w1": (found.decoder_BH, slopes.logit_BI, "decoder.b1"),
        "decoder.w0": (found.latent_BD, slopes.decoder_BH, "decoder.b0"),
        "global.w1": (found.halves[1].hidden_BH, slopes.out[1], "global.b1"),
    }
    for weight, (enters, slope, bias) in layers.items():
        total[weight] += (counted * enters).T @ slope
        total[bias] += report_B @ slope
    hidden_BH = counted * slopes.hidden[1]
    total["global.b0"] += hidden_BH.sum(0)
    rows = total["global.rows"].numpy()
    add_rows(lists.start_U1, lists.item_N, input_R.numpy(), hidden_BH.numpy(), rows)


def _numbers(adam: WrittenStep, step: int, rate: float, dtype: np.dtype) -> np.ndarray:
    return np.array(
        [
            adam.beta1,
            adam.beta2,
            1 - adam.beta1,
            1 - adam.beta2,
            1 - adam.beta1**step,
            1 - adam.beta2**step,
            rate,
            adam.epsilon,
            adam.weight_decay,
        ],
        dtype=dtype,
    )
