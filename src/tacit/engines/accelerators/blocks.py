"""Blocks of clients whose descent is written down, for rules that no one-pass kernel knows.

Draws, state and uploads are those of any block; only the steps between them are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import Params
from tacit.data.batches import BlockDraws
from tacit.engines.accelerators.claims import (
    POSITIVES_COUNT,
    Claim,
    encodes_more,
    loss_is,
    why_not_plain,
)
from tacit.engines.accelerators.logistic import Logistic, Rates
from tacit.parts.items import IdOnly
from tacit.parts.objectives import BinaryCrossEntropy


class Drawn(NamedTuple):
    """The samples of a block as kernels take them; see `BlockDraws`."""

    row_TSBW: np.ndarray
    label_TSBW: np.ndarray
    weight_SBW: np.ndarray
    samples_B: np.ndarray


@dataclass(frozen=True, eq=False)
class Block:
    """What a block of clients trains with; `p` and `tables` are written in place.

    `tables` are the rows that each client touches, or whole tables of the population, of which the
    block's are those of `user_B`.
    """

    algorithm: ComposedAlgorithm
    p: Params
    tables: Params
    shared: Params
    user_B: np.ndarray
    draws: BlockDraws
    round_number: int

    @property
    def kind(self) -> np.dtype:
        """The tables' own precision."""
        return self.draws.weight_SBW.dtype

    @property
    def drawn(self) -> Drawn:
        draws = self.draws
        return Drawn(draws.row_TSBW, draws.label_TSBW, draws.weight_SBW, draws.samples_B)

    @property
    def rates(self) -> Rates:
        local, n_items = self.algorithm.method.local, self.algorithm.task.n_items
        return Rates(
            self.kind.type(local.model.rate_at(self.round_number, n_items)),
            self.kind.type(local.items.rate_at(self.round_number, n_items)),
        )

    def logistic(self, loss: BinaryCrossEntropy) -> Logistic:
        return Logistic.of(loss.on == "probabilities", self.kind)


@dataclass(frozen=True)
class PlainBlock:
    """What all block kernels ask of a method: ids only, plain descent, a logistic loss."""

    loss: BinaryCrossEntropy
    name: ClassVar[str] = "plain block"


def plain_block(algorithm: ComposedAlgorithm) -> Claim[PlainBlock]:
    """Whether block kernels may train a method at all, whatever its rule."""
    method = algorithm.method
    if type(method.items) is not IdOnly:
        return Claim(None, encodes_more(method))
    if method.recency is not None:
        return Claim(None, POSITIVES_COUNT)
    if method.local.gradient_clip is not None:
        return Claim(None, "local.gradient_clip bounds steps")
    if (reason := why_not_plain(method)) is not None:
        return Claim(None, reason)
    if type(method.objective) is not BinaryCrossEntropy:
        return Claim(None, loss_is(method))
    return Claim(PlainBlock(method.objective))


def unwritten(algorithm: ComposedAlgorithm) -> str:
    """The reason where no family has this rule, order of steps and scorer together."""
    method = algorithm.method
    sync, local, backbone = (
        type(part).__name__ for part in (method.sync, method.local, method.backbone)
    )
    return f"no block kernel was written for {sync} with {local} and {backbone}"
