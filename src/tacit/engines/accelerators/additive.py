"""FedRAP: item rows that are the sum of an own and a common one, for linear scorers with a bias.

What a batch does to a row depends on how its samples' slopes add up and on how many there are, so
each distinct row is read once and written once, however often it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.compiled import compiled
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.engines.accelerators.blocks import Block, plain_block, unwritten
from tacit.engines.accelerators.claims import Claim, LinearParameters
from tacit.engines.accelerators.logistic import FAST, add_loss, slope_of
from tacit.parts.local import Joint
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Additive as AdditiveRule


def claims(algorithm: ComposedAlgorithm) -> Claim[AdditiveKernel]:
    """The kernel that descends for a block of clients.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedrap
    >>> claims(compose(fedrap(dim=4), Task(2, 3))).name
    'additive'
    """
    method, plain = algorithm.method, plain_block(algorithm)
    if plain.kernel is None:
        return Claim(None, plain.reason)
    parameters = LinearParameters.of(method.backbone)
    known = type(method.local) is Joint and parameters is not None and parameters.bias is not None
    if not known or parameters is None or type(method.sync) is not AdditiveRule:
        return Claim(None, unwritten(algorithm))
    return Claim(AdditiveKernel(parameters, method.sync, plain.kernel.loss))


@dataclass(frozen=True)
class AdditiveKernel:
    """A claimed method, whose blocks descend."""

    parameters: LinearParameters
    sync: AdditiveRule
    loss: BinaryCrossEntropy
    name: ClassVar[str] = "additive"

    def descend(self, block: Block) -> float:
        """Train the block in place; returns the sum of its losses."""
        kind, weight = block.kind.type, self.sync.factor(block.round_number)
        sparse = weight * self.sync.sparse if self.sync.norm == "l1" else 0.0
        loss: float = additive_descent(
            block.drawn,
            block.tables[OWN_ITEMS].numpy(),
            block.tables[ITEMS].numpy(),
            self.parameters.scorer(block.p),
            block.rates,
            Terms(kind(weight * self.sync.apart), kind(sparse)),
            block.logistic(self.loss),
        )
        return loss


class Terms(NamedTuple):
    """The weights of the rule's terms in the loss."""

    apart: np.floating  # of the mean square of own − common, which the rule wants large
    sparse: np.floating  # of the mean absolute value of the common row


class AdditiveStep(NamedTuple):
    """How far one row moves, beside the slope of the loss."""

    pull: np.floating
    sparse: np.floating
    rate: np.floating


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _read_row(own, common, vector, zero):  # type: ignore[no-untyped-def]
    """vector · (own + common), the square of own − common, and the sum of |common|."""
    logit, square, size = zero, zero, zero
    for d in range(len(vector)):
        logit += vector[d] * (own[d] + common[d])
        square += (own[d] - common[d]) * (own[d] - common[d])
        size += abs(common[d])
    return logit, square, size


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _move_row(own, common, vector, gradient, slope, step, zero):  # type: ignore[no-untyped-def]
    """One step of both rows; adds slope · (own + common) to the scorer's gradient first."""
    pull, sparse, rate = step.pull, step.sparse, step.rate
    for d in range(len(vector)):
        mine, ours = own[d], common[d]
        gradient[d] += slope * (mine + ours)
        sign = sparse if ours > zero else (-sparse if ours < zero else zero)
        away, toward = pull * (mine - ours), slope * vector[d]
        own[d] = mine - rate * (toward - away)
        common[d] = ours - rate * (toward + away + sign)


@compiled(fastmath=FAST, error_model="numpy")
def additive_descent(drawn, own_BRD, common_BRD, scorer, rates, terms, loss):  # type: ignore[no-untyped-def]
    """Trains in place and returns the sum of the losses over samples and epochs."""
    row_TSBW, label_TSBW, samples_B = drawn.row_TSBW, drawn.label_TSBW, drawn.samples_B
    vector_BD, bias_B = scorer.vector_UD, scorer.bias_U
    apart, sparse = terms.apart, terms.sparse
    epochs, _, clients, batch = row_TSBW.shape
    zero, one = loss.zero, loss.one
    width = one * vector_BD.shape[1]
    loss_sum = 0.0
    gradient = np.empty(vector_BD.shape[1], vector_BD.dtype)
    slope = np.zeros(own_BRD.shape[1], vector_BD.dtype)  # of a row, summed over its samples
    count = np.zeros(own_BRD.shape[1], vector_BD.dtype)
    logits = np.empty(own_BRD.shape[1], vector_BD.dtype)
    term = np.empty(own_BRD.shape[1], vector_BD.dtype)
    distinct = np.empty(batch, np.int64)
    for b in range(clients):
        own, common, vector = own_BRD[b], common_BRD[b], vector_BD[b]
        for epoch in range(epochs):
            for step in range(-(-samples_B[b] // batch)):
                size = min(batch, samples_B[b] - step * batch)
                share = drawn.weight_SBW[step, b, 0]
                rows, product = 0, 1.0
                for t in range(size):
                    row = row_TSBW[epoch, step, b, t]
                    if count[row] == zero:
                        logit, square, absolute = _read_row(own[row], common[row], vector, zero)
                        logits[row] = logit + bias_B[b]
                        term[row] = (sparse * absolute - apart * square) / width
                        distinct[rows] = row
                        rows += 1
                    logit = logits[row]
                    label = label_TSBW[epoch, step, b, t]
                    decay = np.exp(-logit)
                    loss_sum += term[row]
                    loss_sum, product = add_loss(loss_sum, product, logit, label, decay, t)
                    slope[row] += slope_of(decay, label, loss) * share
                    count[row] += one
                loss_sum += np.log(product)
                gradient[:] = zero
                bias_gradient = zero
                for place in range(rows):
                    row = distinct[place]
                    bias_gradient += slope[row]
                    part = share * count[row] / width
                    move = AdditiveStep((one + one) * apart * part, sparse * part, rates.items)
                    _move_row(own[row], common[row], vector, gradient, slope[row], move, zero)
                    slope[row], count[row] = zero, zero
                for d in range(len(gradient)):
                    vector[d] -= rates.model * gradient[d]
                bias_B[b] -= rates.model * bias_gradient
    return loss_sum
