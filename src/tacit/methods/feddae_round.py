"""A round of FedDAE for a block of clients: passes over histories, Adam on each device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tacit.core.crowd import Crowd
from tacit.core.optim import Adam
from tacit.core.types import Params
from tacit.data.views import Lists
from tacit.methods.feddae_crowd import Pass, Slopes, backward, forward, inputs_of
from tacit.methods.feddae_kernels import adam_rows, add_rows
from tacit.methods.feddae_model import kept

OWN_ROWS = frozenset({"local.rows", "gate.rows"})  # tables that are kept by history


def taken(private: Params, user_B: np.ndarray, row_R: np.ndarray) -> Params:
    """The own leaves of some clients; of `.rows` those of the history, client after client."""
    user, row = torch.from_numpy(user_B), torch.from_numpy(row_R)
    return {leaf: value[row if leaf in OWN_ROWS else user] for leaf, value in private.items()}


def put_back(private: Params, own: Params, user_B: np.ndarray, row_R: np.ndarray) -> None:
    user, row = torch.from_numpy(user_B), torch.from_numpy(row_R)
    for leaf, value in private.items():
        value[row if leaf in OWN_ROWS else user] = own[leaf]


def passes_of(
    crowd: Crowd, lists: Lists, n_items: int, epochs: int, dropout: float
) -> list[tuple[dict[str, Tensor], Params]]:
    """Of each pass of a block: what enters the rows, and the noise."""
    latent, gate = (crowd.noise(leaf, crowd.user_P) for leaf in ("latent", "drop.gate"))
    user_R = np.repeat(crowd.user_P, lists.size_U)
    plain = inputs_of(lists, latent.dtype)
    passes = []
    for epoch in range(epochs):
        inputs = dict(plain)
        for name in ("local", "global"):
            drawn_R = crowd.noise_at(f"drop.{name}", user_R, epoch * n_items + lists.item_N)
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
    local: Adam,
    rate: float,
) -> None:
    """One pass per entry of `passes` (what enters rows, and noise); `own` steps in place and the
    shared gradients of who reports are added to `total`."""
    first = {leaf: torch.zeros_like(value) for leaf, value in own.items()}
    second = {leaf: torch.zeros_like(value) for leaf, value in own.items()}
    for step, (inputs, noise) in enumerate(passes, start=1):
        found = forward(own, shared, lists, inputs, noise)
        slopes = backward(own, shared, lists, found, noise["gate"], beta)
        _add(total, found, slopes, lists, inputs["global"], report_B)
        for leaf, (start, enters, slope) in _outer(found, slopes, lists, inputs).items():
            width = slope.shape[1]
            adam_rows(
                start,
                own[leaf].view(-1, width).numpy(),
                first[leaf].view(-1, width).numpy(),
                second[leaf].view(-1, width).numpy(),
                enters.contiguous().view(-1).numpy(),
                slope.contiguous().numpy(),
                _numbers(local, step, rate, slope.numpy().dtype),
            )


def _outer(
    found: Pass, slopes: Slopes, lists: Lists, inputs: dict[str, Tensor]
) -> dict[str, tuple[np.ndarray, Tensor, Tensor]]:
    """Of each own leaf: where each client's rows begin, what enters them, and the slope behind."""
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


def _numbers(adam: Adam, step: int, rate: float, dtype: np.dtype) -> np.ndarray:
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
