"""An attacker that is a network: two hidden layers from embeddings to content."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tacit import streams
from tacit.attack.standard import Standard
from tacit.core.optim import Adam

HIDDEN = (256, 256)
EPOCHS = 200
BATCH = 32
HELD_OUT = 0.1
PATIENCE = 30  # epochs without a better held-out error after which it ends
ADAM = Adam(rate=1e-3)


def perceptron(
    known_KD: np.ndarray, content_KF: np.ndarray, unknown_ND: np.ndarray, seed: int
) -> np.ndarray:
    """The content (N, F) of unknown embeddings, by the network of the epoch with the smallest error
    on a tenth of the known items, which it was not trained on.

    >>> known_KD = np.linspace(-1, 1, 20)[:, None]
    >>> guess_NF = perceptron(known_KD, abs(known_KD), np.array([[-0.9], [0.0]]), seed=0)
    >>> bool(guess_NF[0, 0] > guess_NF[1, 0] + 0.5)
    True
    """
    source, target = Standard.of(known_KD), Standard.of(content_KF)
    x_KD, y_KF = _tensor(source.apply(known_KD)), _tensor(target.apply(content_KF))
    deviation_F = _tensor(target.deviation_D)
    widths = (x_KD.shape[1], *HIDDEN, y_KF.shape[1])
    generator = streams.numpy_generator(seed, streams.INIT, 0, streams.name_of("inversion"))
    order_K = generator.permutation(len(x_KD))
    n_held = max(1, round(HELD_OUT * len(x_KD)))
    held_H, train_K = torch.from_numpy(order_K[:n_held]), order_K[n_held:]
    leaves = kept = _first_leaves(widths, generator)
    state, best, waited = ADAM.init(leaves, 0), math.inf, 0
    for _ in range(EPOCHS):
        shuffled_K = torch.from_numpy(generator.permutation(train_K))
        for batch_B in shuffled_K.split(BATCH):
            leaves.requires_grad_()
            loss = functional.mse_loss(_network(leaves, widths, x_KD[batch_B]), y_KF[batch_B])
            (gradient,) = torch.autograd.grad(loss, leaves)
            leaves, state = ADAM.update(leaves.detach(), gradient, state, ADAM.rate)
        # in the content's own units: columns that hardly vary, and are noise to it, do not count
        residual_HF = _network(leaves, widths, x_KD[held_H]) - y_KF[held_H]
        error = (residual_HF * deviation_F).square().mean().item()
        waited += 1
        if error < best:
            best, kept, waited = error, leaves, 0
        if waited == PATIENCE:
            break
    guess_NF = _network(kept.detach(), widths, _tensor(source.apply(unknown_ND)))
    return target.undo(guess_NF.numpy().astype(np.float64))


def _tensor(value_ND: np.ndarray) -> Tensor:
    return torch.from_numpy(value_ND.astype(np.float32))


def _first_leaves(widths: tuple[int, ...], generator: np.random.Generator) -> Tensor:
    """All weights and biases in one row, so that a step is one; U(±1/√width of the input)."""
    parts = []
    for before, after in itertools.pairwise(widths):
        bound = 1 / math.sqrt(before)
        parts.append(generator.uniform(-bound, bound, size=(before + 1) * after))
    return _tensor(np.concatenate(parts))


def _network(leaves: Tensor, widths: tuple[int, ...], x_ND: Tensor) -> Tensor:
    layers = list(itertools.pairwise(widths))
    parts = iter(leaves.split([size for i, o in layers for size in (i * o, o)]))
    for place, (before, after) in enumerate(layers):
        x_ND = functional.linear(x_ND, next(parts).view(after, before), next(parts))
        if place < len(HIDDEN):
            x_ND = x_ND.relu()
    return x_ND
