"""Attackers: from known (embedding, content) pairs to the content of other embeddings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tacit import streams
from tacit.core.optim import Adam

# Columns with mean zero and variance one, and the way back.


@dataclass(frozen=True, eq=False)
class Standard:
    """Mean and deviation of the rows that an attacker knows; a constant column stays as it is.

    >>> standard = Standard.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> standard.apply(np.array([[4.0, 6.0]])).tolist()
    [[2.0, 1.0]]
    >>> standard.undo(np.array([[2.0, 1.0]])).tolist()
    [[4.0, 6.0]]
    """

    mean_D: np.ndarray
    deviation_D: np.ndarray

    @classmethod
    def of(cls, known_KD: np.ndarray) -> Standard:
        mean_D, deviation_D = known_KD.mean(axis=0), known_KD.std(axis=0)
        # of equal numbers rounding may leave a deviation that is not quite zero
        constant_D = deviation_D <= 1e-12 * np.abs(known_KD).max(axis=0)
        return cls(mean_D, np.where(constant_D, 1.0, deviation_D))

    def apply(self, value_ND: np.ndarray) -> np.ndarray:
        return np.asarray((value_ND - self.mean_D) / self.deviation_D)

    def undo(self, value_ND: np.ndarray) -> np.ndarray:
        return np.asarray(value_ND * self.deviation_D + self.mean_D)


# An attacker that is linear: ridge regression from embeddings to content.

PENALTIES = np.logspace(-3, 5, 17)


def ridge(
    known_KD: np.ndarray, content_KF: np.ndarray, unknown_ND: np.ndarray, seed: int
) -> np.ndarray:
    """The content (N, F) of unknown embeddings, linear in them; nothing is random.

    The penalty has the smallest error when each known item in turn is left out, which one
    decomposition gives exactly.

    >>> known_KD = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ridge(known_KD, 2 * known_KD, np.array([[10.0]]), seed=0).round(1).tolist()
    [[20.0]]
    """
    source, mean_F = Standard.of(known_KD), content_KF.mean(axis=0)
    # not scaled: a common penalty treats columns alike, and the error is in the content's own units
    y_KF = content_KF - mean_F
    left_KR, size_R, right_RD = np.linalg.svd(source.apply(known_KD), full_matrices=False)
    part_RF = left_KR.T @ y_KF
    kept = min(PENALTIES, key=lambda penalty: _left_out(y_KF, left_KR, size_R, part_RF, penalty))
    weight_DF = right_RD.T @ ((size_R / (size_R**2 + kept))[:, None] * part_RF)
    return np.asarray(source.apply(unknown_ND) @ weight_DF + mean_F)


def _left_out(
    y_KF: np.ndarray, left_KR: np.ndarray, size_R: np.ndarray, part_RF: np.ndarray, penalty: float
) -> float:
    """The mean squared error of known items, each guessed from all the others."""
    shrink_R = size_R**2 / (size_R**2 + penalty)
    residual_KF = y_KF - left_KR @ (shrink_R[:, None] * part_RF)
    # its own share in the guess of an item; 1 / K of it is the mean's
    share_K = (left_KR**2) @ shrink_R + 1 / len(y_KF)
    return float(np.mean((residual_KF / np.maximum(1 - share_K, 1e-9)[:, None]) ** 2))


# An attacker that is a network: two hidden layers from embeddings to content.

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
    parameters = kept = _first_parameters(widths, generator)
    state, best, waited = ADAM.init(parameters, 0), math.inf, 0
    for _ in range(EPOCHS):
        shuffled_K = torch.from_numpy(generator.permutation(train_K))
        for batch_B in shuffled_K.split(BATCH):
            parameters.requires_grad_()
            loss = functional.mse_loss(_network(parameters, widths, x_KD[batch_B]), y_KF[batch_B])
            (gradient,) = torch.autograd.grad(loss, parameters)
            parameters, state = ADAM.update(parameters.detach(), gradient, state, ADAM.rate)
        # in the content's own units: columns that hardly vary, and are noise to it, do not count
        residual_HF = _network(parameters, widths, x_KD[held_H]) - y_KF[held_H]
        error = (residual_HF * deviation_F).square().mean().item()
        waited += 1
        if error < best:
            best, kept, waited = error, parameters, 0
        if waited == PATIENCE:
            break
    guess_NF = _network(kept.detach(), widths, _tensor(source.apply(unknown_ND)))
    return target.undo(guess_NF.numpy().astype(np.float64))


def _tensor(value_ND: np.ndarray) -> Tensor:
    return torch.from_numpy(value_ND.astype(np.float32))


def _first_parameters(widths: tuple[int, ...], generator: np.random.Generator) -> Tensor:
    """All weights and biases in one row, so that a step is one; U(±1/√width of the input)."""
    parts = []
    for before, after in itertools.pairwise(widths):
        bound = 1 / math.sqrt(before)
        parts.append(generator.uniform(-bound, bound, size=(before + 1) * after))
    return _tensor(np.concatenate(parts))


def _network(parameters: Tensor, widths: tuple[int, ...], x_ND: Tensor) -> Tensor:
    layers = list(itertools.pairwise(widths))
    parts = iter(parameters.split([size for i, o in layers for size in (i * o, o)]))
    for place, (before, after) in enumerate(layers):
        x_ND = functional.linear(x_ND, next(parts).view(after, before), next(parts))
        if place < len(HIDDEN):
            x_ND = x_ND.relu()
    return x_ND


# Attackers: from some known (embedding, content) pairs to the content of other embeddings.
#
# Shape suffixes: K known items, N unknown ones, D width of an embedding, F width of the content.

# (known embedding_KD, known content_KF, unknown embedding_ND, seed) -> content_NF
Attacker = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]


def mean(
    known_KD: np.ndarray, content_KF: np.ndarray, unknown_ND: np.ndarray, seed: int
) -> np.ndarray:
    """The mean content of the known items for every other one: what needs no embedding at all.

    >>> mean(np.zeros((2, 1)), np.array([[1.0], [3.0]]), np.zeros((3, 1)), seed=0).tolist()
    [[2.0], [2.0], [2.0]]
    """
    return np.tile(content_KF.mean(axis=0), (len(unknown_ND), 1))


FLOOR = "mean"
# To add one, write its file and name it here.
ATTACKERS: dict[str, Attacker] = {FLOOR: mean, "ridge": ridge, "perceptron": perceptron}
