"""FedDAE's network for one client: two encoders, a gate and a decoder, over the history's rows.

Parameters called `.rows` hold the first layer's rows of the history's items. Without noise nothing
is dropped and the latent vector is its mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.core.algorithm import ClientData
from tacit.core.types import Params


def distinct(data: ClientData) -> Tensor:
    """1 where an item stands in the history for the first time: the row is binary.

    >>> history, none = torch.tensor([4, 2, 4, 0]), torch.zeros(0)
    >>> real = torch.tensor([1.0, 1.0, 1.0, 0.0])
    >>> distinct(ClientData(torch.tensor(0), history, real, none, none, none)).tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    same_HH = data.history_H[:, None] == data.history_H[None, :]
    earlier_H = (same_HH.tril(-1) * data.real_H).sum(1)
    return data.real_H * (earlier_H < 0.5)


def encode(
    own: Params, shared: Params, data: ClientData, noise: Params, dropout: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and sample of the latent vector."""
    weight_2 = gate_weights(own, data, noise, dropout)
    unit_H = data.real_H / data.real_H.sum().clamp(min=1.0).sqrt()
    parts = []
    for number, (name, p) in enumerate((("local", own), ("global", shared))):
        input_H = unit_H
        if noise:
            input_H = unit_H * kept(noise[f"drop.{name}"][data.history_H], dropout)
        hidden = torch.tanh(input_H @ p[f"{name}.rows"] + p[f"{name}.b0"])
        mean_D, log_D = (hidden @ p[f"{name}.w1"] + p[f"{name}.b1"]).chunk(2)
        shift_D = (0.5 * log_D).exp() * noise["latent"][number] if noise else 0.0
        parts.append((mean_D, log_D.exp(), mean_D + shift_D))
    (mean, variance, sample), (mean_g, variance_g, sample_g) = parts
    first, second = weight_2[0], weight_2[1]
    return (
        first * mean + second * mean_g,
        first**2 * variance + second**2 * variance_g,
        first * sample + second * sample_g,
    )


def gate_weights(own: Params, data: ClientData, noise: Params, dropout: float = 0.0) -> Tensor:
    """How much the local and the global encoder count; they sum to one."""
    hidden = torch.relu(data.real_H @ own["gate.rows"] + own["gate.b0"])
    if noise:
        hidden = hidden * kept(noise["drop.gate"], dropout)
    return torch.softmax(hidden @ own["gate.w1"] + own["gate.b1"], 0)


def kept(drawn: Tensor, dropout: float) -> Tensor:
    """Dropout's factors from draws in ±1: 0, or 1 / (1 - dropout).

    >>> kept(torch.tensor([-0.9, 0.4, 0.6]), 0.2).tolist()
    [1.25, 1.25, 0.0]
    """
    return (drawn < 1 - 2 * dropout).to(drawn) / (1 - dropout)


def decode(shared: Params, latent_D: Tensor) -> Tensor:
    """Logits over the catalogue."""
    hidden = torch.tanh(latent_D @ shared["decoder.w0"] + shared["decoder.b0"])
    return hidden @ shared["decoder.w1"] + shared["decoder.b1"]


def divergence(mean_D: Tensor, variance_D: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, 1)), summed over the dimensions.

    >>> divergence(torch.tensor([2.0]), torch.tensor([1.0])).item()
    2.0
    """
    return 0.5 * (mean_D**2 + variance_D - 1.0 - variance_D.log()).sum()
