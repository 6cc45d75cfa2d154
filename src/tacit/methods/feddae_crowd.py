"""FedDAE for blocks of clients without padding: the network of `feddae_model.py`, and its gradient.

The decoder is the same for all clients of a round, so it is one matrix product for a block; the
clients' own layers are small. B are clients, R the rows of their histories, D latent dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.core.types import Params
from tacit.data.views import Lists
from tacit.methods.feddae_kernels import first_times, sum_rows


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
