"""GPFedRec: a client's whole table is pulled to a guide of its own, for private perceptrons.

A row that no sample reads only follows the pull, k steps of which are one step of another length.
So such steps are owed until the row is read or the round ends, and a table is walked through once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from tacit.compiled import compiled
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import OWN_ITEMS
from tacit.engines.accelerators.blocks import Block, plain_block, unwritten
from tacit.engines.accelerators.claims import Claim
from tacit.engines.accelerators.logistic import FAST
from tacit.engines.accelerators.networks import (
    FlatNetwork,
    Network,
    NetworkBatch,
    make_gradients,
    make_scratch,
    set_gradients,
)
from tacit.engines.state import State
from tacit.parts.local import Joint
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import GUIDE, Proximal


def claims(algorithm: ComposedAlgorithm) -> Claim[Pulled]:
    """The kernel that descends for a block of clients.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import gpfedrec, pfedrec
    >>> claims(compose(gpfedrec(dim=4), Task(2, 3))).name
    'pulled'
    >>> claims(compose(pfedrec(dim=4), Task(2, 3))).reason
    'no block kernel was written for Replace with Alternate and LinearHead'
    """
    method, plain = algorithm.method, plain_block(algorithm)
    if plain.kernel is None:
        return Claim(None, plain.reason)
    network = FlatNetwork.of(method.backbone)
    known = type(method.local) is Joint and network is not None and not network.is_shared
    if not known or network is None or type(method.sync) is not Proximal:
        return Claim(None, unwritten(algorithm))
    return Claim(Pulled(network, method.sync, plain.kernel.loss))


@dataclass(frozen=True)
class Pulled:
    """A claimed method, whose blocks descend."""

    network: FlatNetwork
    sync: Proximal
    loss: BinaryCrossEntropy
    name: ClassVar[str] = "pulled"

    def descend(self, block: Block) -> float:
        """Train the block in place; returns the sum of its losses."""
        draws, rates = block.draws, block.rates
        own_UID, guide_UID = (block.tables[name].numpy() for name in (OWN_ITEMS, GUIDE))
        net_BN = self.network.read(State(block.shared, block.p), np.arange(len(draws.samples_B)))
        # the slope of strength · mean (P − r)² is 2 · strength · (P − r) / (I·D)
        once = 2 * self.sync.strength * float(rates.items) / (own_UID.shape[1] * own_UID.shape[2])
        steps = np.arange(1 + draws.row_TSBW.shape[0] * draws.row_TSBW.shape[1])
        loss: float = pulled_descent(
            block.drawn,
            block.user_B,
            own_UID,
            OwnPull(guide_UID, (1 - (1 - once) ** steps).astype(net_BN.dtype)),
            self.network.networks(net_BN, block.p),
            rates,
            block.logistic(self.loss),
        )
        for name, value_BN in self.network.parameters(net_BN).items():
            block.p[name].copy_(torch.from_numpy(value_BN))
        return loss


class OwnPull(NamedTuple):
    """Each client's guide, and the part of the way to it that k steps of the pull alone make."""

    guide_UID: np.ndarray
    share_K: np.ndarray


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _pull_row(row, guide, share):  # type: ignore[no-untyped-def]
    """A part of the way to the guide."""
    for d in range(len(row)):
        row[d] -= share * (row[d] - guide[d])


@compiled(fastmath=FAST, error_model="numpy")
def pulled_descent(drawn, user_B, own_UID, pull, networks, rates, loss):  # type: ignore[no-untyped-def]
    """Trains in place and returns the sum of the losses over samples and epochs."""
    row_TSBW, label_TSBW, samples_B = drawn.row_TSBW, drawn.label_TSBW, drawn.samples_B
    net_BN, widths, has_user = networks.net_PN, networks.widths, networks.has_user
    share_K, model_rate, item_rate = pull.share_K, rates.model, rates.items
    epochs, _, clients, batch = row_TSBW.shape
    n_items, width = own_UID.shape[1:]
    gradients = make_gradients(widths, batch, net_BN[0])
    scratch, yes = make_scratch(widths, batch, net_BN[0]), np.bool_(True)
    gradient, vector_gradient, on_row = gradients.net, gradients.vector, gradients.row
    pulled = np.empty(n_items, np.int64)  # steps that a row has made
    loss_sum = 0.0
    for b in range(clients):
        own, guide, net = own_UID[user_B[b]], pull.guide_UID[user_B[b]], net_BN[b]
        vector = networks.vector_UD[b] if has_user else networks.vector_UD[0]
        network = Network(widths, net, vector, has_user)
        pulled[:] = 0
        done = 0
        for epoch in range(epochs):
            for step in range(-(-samples_B[b] // batch)):
                size = min(batch, samples_B[b] - step * batch)
                where = row_TSBW[epoch, step, b, :size]
                for t in range(size):
                    row = where[t]
                    if pulled[row] < done:
                        _pull_row(own[row], guide[row], share_K[done - pulled[row]])
                        pulled[row] = done
                labels = label_TSBW[epoch, step, b, :size]
                sampled = NetworkBatch(own, where, labels, drawn.weight_SBW[step, b, 0])
                loss_sum += set_gradients(
                    network, sampled, None, loss, yes, yes, scratch, gradients
                )
                done += 1
                for i in range(len(net)):
                    net[i] -= model_rate * gradient[i]
                if has_user:
                    for d in range(width):
                        vector[d] -= model_rate * vector_gradient[d]
                for t in range(size):
                    row, moved = own[where[t]], on_row[t]
                    if pulled[where[t]] < done:  # once, however often the row was drawn
                        _pull_row(row, guide[where[t]], share_K[1])
                        pulled[where[t]] = done
                    for d in range(width):
                        row[d] -= item_rate * moved[d]
        if share_K[1] != loss.zero:
            for row in range(n_items):
                if pulled[row] < done:
                    _pull_row(own[row], guide[row], share_K[done - pulled[row]])
    return loss_sum
