"""The kinds of part that a method is made of.

Parts are written for ONE client, as pure functions over named tensors. Shape suffixes: U users,
I items, N samples of a batch, R rows that a client touches, D width. The protocols can be asked at
run time, so that a configuration which puts a part into the wrong slot is refused.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from tacit.core.optim import Optimiser
from tacit.core.types import Init, Params, Phase


@runtime_checkable
class Backbone(Protocol):
    """Who scores. FedMF, FedNCF and PFedRec differ here and in `local`."""

    @property
    def dim(self) -> int: ...
    @property
    def linear(self) -> tuple[str, str | None] | None:
        """(vector leaf, bias leaf) if the logit is vector·x + bias: fused kernels ask for this."""
        ...

    def item_init(self) -> Init:
        """The law of one row of the item table; its shape is (D,)."""
        ...

    def shared(self) -> dict[str, Init]: ...
    def private(self) -> dict[str, Init]: ...
    def score(self, p: Params, x_ND: Tensor) -> Tensor: ...


@runtime_checkable
class ItemEncoder(Protocol):
    """What an item looks like to a user."""

    def shared(self) -> dict[str, Init]: ...
    def private(self) -> dict[str, Init]: ...
    def encode(self, p: Params, id_ND: Tensor) -> Tensor: ...


@runtime_checkable
class Sync(Protocol):
    """How the local item table meets the global one. Row-wise: `read` sees some rows."""

    @property
    def trains(self) -> str:
        """The row leaf that local training moves: "items" or "items.own"."""
        ...

    @property
    def scores_with(self) -> Literal["global", "tuned", "own"]:
        """The table a client ranks with: the global one, the global one overlaid by the rows it
        last tuned, or a dense one of its own."""
        ...

    def sends(self, round_number: int) -> bool: ...
    def read(self, p: Params) -> Tensor: ...


@runtime_checkable
class Local(Protocol):
    """How a client trains: data, not code. Engines walk the phases of every batch in order."""

    @property
    def model(self) -> Optimiser: ...
    @property
    def items(self) -> Optimiser: ...
    @property
    def epochs(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def gradient_clip(self) -> float | None: ...
    @property
    def phases(self) -> tuple[Phase, ...]: ...


@runtime_checkable
class Objective(Protocol):
    def loss(self, logit_N: Tensor, label_N: Tensor, weight_N: Tensor) -> Tensor: ...


@runtime_checkable
class Transform(Protocol):
    """One link of the channel: `factor` acts on each client's upload, `add_noise` on their sum.

    The sum of n clients' noise is drawn at once, exactly in distribution; a deployed client draws
    its own. `gives` and `needs` let `compose` refuse chains that promise what they cannot keep.
    """

    @property
    def gives(self) -> frozenset[str]: ...
    @property
    def needs(self) -> frozenset[str]: ...
    @property
    def order(self) -> int | None:
        """The norm (1 or 2) of the upload that `factor` wants to see; None if it wants none."""
        ...

    def factor(self, norm: Tensor) -> Tensor: ...
    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray: ...
    def says(self) -> str: ...


@runtime_checkable
class ServerRule(Protocol):
    """How uploads become the next global leaves."""

    @property
    def reads(self) -> Literal["sum", "each"]: ...
    def weight(self, n_positives: int) -> float: ...
    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray: ...
