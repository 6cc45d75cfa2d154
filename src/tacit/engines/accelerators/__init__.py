"""Compiled paths for families of methods, and which of them runs an algorithm.

One module per family: `linear`, `perceptron`, `views`, `additive`, `contrast`, `pulled`. Each says
what it claims and holds its kernels. Engines ask here; the families are tried in a fixed order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tacit.core.algorithm import Total
from tacit.core.compose import ComposedAlgorithm
from tacit.core.parts import ServerSideViews
from tacit.core.types import Params
from tacit.data.views import Lists, TrainView
from tacit.engines.accelerators import additive, contrast, linear, perceptron, pulled, views
from tacit.engines.accelerators.blocks import Block
from tacit.engines.accelerators.claims import (
    PLAIN_READ,
    Claim,
    Named,
    encodes_more,
    rule_is_unknown,
)
from tacit.engines.accelerators.networks import FlatNetwork
from tacit.engines.participation import Participants
from tacit.engines.state import State
from tacit.parts.items import IdOnly


class TrainsClients(Named, Protocol):
    """Plays the whole round of each participant in one pass."""

    def train(
        self,
        train: TrainView,
        state: State,
        participants: Participants,
        samples_U: np.ndarray,
        *,
        seed: int,
        threads: int,
    ) -> Total: ...


class GuidesClients(Named, Protocol):
    """Trains everybody's gate and mixes the global table in."""

    def guide(
        self, train: TrainView, state: State, samples_U: np.ndarray, *, seed: int, threads: int
    ) -> None: ...


class DescendsBlocks(Named, Protocol):
    """Trains a block of clients in place."""

    def descend(self, block: Block) -> float: ...


class ScoresCatalogues(Named, Protocol):
    """Scores whole catalogues for blocks of users.

    `shared` is what the server holds and clients rank with, `positives` are their own histories.
    """

    def score(
        self, state: State, shared: Params, positives: Lists | None, user_B: np.ndarray
    ) -> np.ndarray: ...


def fused_claim(algorithm: ComposedAlgorithm, device: str) -> Claim[TrainsClients]:
    """The kernel that plays a client's whole round in one pass.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedncf, pfedrec
    >>> fused_claim(compose(pfedrec(dim=4), Task(2, 3)), "cpu").name
    'linear'
    >>> fused_claim(compose(fedncf(dim=4), Task(2, 3)), "cuda").reason
    'the fused kernel runs on the CPU'
    """
    if device != "cpu":
        return Claim(None, "the fused kernel runs on the CPU")
    if type(algorithm.method.items) is ServerSideViews:
        return views.claims(algorithm)
    if FlatNetwork.of(algorithm.method.backbone) is not None:
        return perceptron.claims(algorithm)
    return linear.claims(algorithm)


def why_not_fused(algorithm: ComposedAlgorithm, device: str) -> str | None:
    """The first reason why no fused kernel can run this method; None if one can.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> why_not_fused(compose(fedmf(dim=4), Task(2, 3)), "cpu") is None
    True
    """
    claim = fused_claim(algorithm, device)
    return claim.reason if claim.kernel is None else None


def block_claim(algorithm: ComposedAlgorithm, device: str) -> Claim[DescendsBlocks]:
    """The kernel that descends for a block of clients under a rule that no fused kernel knows.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedrap, pfedrec
    >>> block_claim(compose(fedrap(dim=4), Task(2, 3)), "cpu").name
    'additive'
    >>> block_claim(compose(pfedrec(dim=4), Task(2, 3)), "cpu").reason
    'no block kernel was written for Replace with Alternate and LinearHead'
    """
    if device != "cpu":
        return Claim(None, "block kernels run on the CPU")
    found: list[Claim[DescendsBlocks]] = [
        family.claims(algorithm) for family in (additive, contrast, pulled)
    ]
    return next((claim for claim in found if claim.kernel is not None), found[0])


def gate_claim(algorithm: ComposedAlgorithm, device: str) -> Claim[GuidesClients]:
    """The kernel that trains gates and mixes tables, under a rule of guidance.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import pfedrec
    >>> from tacit.plugins.fedrkg import fedrkg
    >>> gate_claim(compose(fedrkg(pfedrec(dim=4)), Task(2, 3)), "cpu").name
    'linear'
    """
    fused = fused_claim(algorithm, device)
    if fused.kernel is None:
        return Claim(None, fused.reason)
    if FlatNetwork.of(algorithm.method.backbone) is not None:
        return perceptron.claims_gates(algorithm)
    return linear.claims_gates(algorithm)


def score_claim(algorithm: ComposedAlgorithm) -> Claim[ScoresCatalogues]:
    """The kernel that scores catalogues: of personal tables under linear scorers, of perceptrons,
    or of views; `algorithm` is what clients rank with.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf, fedncf, local_only
    >>> [score_claim(compose(m(dim=4), Task(2, 3))).name for m in (local_only, fedncf, fedmf)]
    ['linear', 'perceptron', None]
    """
    method = algorithm.method
    if type(method.items) is ServerSideViews:
        return views.claims_scores(algorithm)
    if type(method.items) is not IdOnly:
        return Claim(None, encodes_more(method))
    if type(method.sync) not in PLAIN_READ:
        return Claim(None, rule_is_unknown(method))
    if FlatNetwork.of(method.backbone) is not None:
        return perceptron.claims_scores(algorithm)
    return linear.claims_scores(algorithm)
