"""The kinds of part that a method is made of.

Parts are written for ONE client, as pure functions over named tensors. Shape suffixes: U users,
I items, N samples of a batch, R rows that a client touches, D width. The protocols can be asked at
run time, so that a configuration which puts a part into the wrong slot is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from tacit.core.optim import Optimiser
from tacit.core.types import Init, Params, Phase
from tacit.data.dataset import Modalities


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
    """What an item looks like to a user. `width` is what the backbone reads."""

    @property
    def reads_history(self) -> bool:
        """Whether `encode` looks at the client's own history: then `past` is given."""
        ...

    def row(self, read: Init) -> Init:
        """The law of one row of the table, from that of the row which the backbone reads."""
        ...

    def shared(self, width: int, content: Modalities | None) -> dict[str, Init]: ...
    def private(self, width: int, content: Modalities | None) -> dict[str, Init]: ...
    def content(self, content: Modalities | None) -> dict[str, np.ndarray]:
        """The constant tables over items, one row each, that `encode` reads as content.NAME."""
        ...

    def encode(self, p: Params, id_ND: Tensor, past: Past | None = None) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Past:
    """A client's own history as an item encoder sees it: leaves with one row per item of it, the
    rows of the table, and weights that sum to one."""

    p: Params
    id_HD: Tensor
    weight_H: Tensor


@runtime_checkable
class Viewed(Protocol):
    """An encoder in two steps: views of an item, which the server can make alone, and their
    mixture, which is the client's. `placement` says where views are made; numbers are the same."""

    @property
    def placement(self) -> Literal["client", "server"]: ...
    @property
    def reads_history(self) -> bool: ...
    def view_width(self, width: int) -> int:
        """How many numbers of an item travel if the server makes the views."""
        ...

    def private(self, width: int, content: Modalities | None) -> dict[str, Init]: ...
    def mixing(self, width: int) -> dict[str, Init]:
        """The shared leaves that `mix` reads; all other shared ones make views."""
        ...

    def views(self, p: Params, id_ND: Tensor) -> Tensor:
        """All views of each item, side by side in one row."""
        ...

    def mix(self, p: Params, view_NW: Tensor, past: Past | None) -> Tensor:
        """What the backbone reads; the rows of `past` hold views."""
        ...


@runtime_checkable
class Sync(Protocol):
    """How the local item table meets the global one. Row-wise: `read` sees some rows."""

    @property
    def trains(self) -> tuple[str, ...]:
        """The row leaves that local training moves: "items", "items.own", or both."""
        ...

    @property
    def rows(self) -> Literal["touched", "all"]:
        """Which rows a local step can move: those of the round's samples, or (under a penalty that
        speaks of the whole table) all of them."""
        ...

    @property
    def restarts(self) -> bool:
        """Whether a personal table begins every round as a copy of the global one."""
        ...

    @property
    def scores_with(self) -> Literal["global", "tuned", "own"]:
        """The table a client ranks with: the global one, the global one overlaid by the rows it
        last tuned, or a dense one of its own."""
        ...

    def shared(self, table: Init) -> dict[str, Init]:
        """The row leaves that the server holds; `table` is the law of a whole table."""
        ...

    def private(self, table: Init) -> dict[str, Init]:
        """What the rule keeps on each device."""
        ...

    def sends(self, round_number: int) -> bool: ...
    def read(self, p: Params) -> Tensor: ...


@runtime_checkable
class Penalised(Protocol):
    """A rule with a term of its own in the loss of a batch; row leaves come as the samples' rows.
    `weight_N` is 1 / batch size, and 0 on padding."""

    def penalty(self, p: Params, weight_N: Tensor, round_number: int) -> Tensor: ...


@runtime_checkable
class TablePenalised(Protocol):
    """A rule with a term over the whole table: `p` holds all rows, and what the server sent."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The leaves of the server's making that the term looks at."""
        ...

    def table_penalty(self, p: Params) -> Tensor: ...


@runtime_checkable
class Guided(Protocol):
    """A rule by which personal tables meet the mean of all personal tables now and then.

    All users send their tables in the rounds where `sends` says so, whatever the participation; the
    mean of those very tables is mixed in, in the same round (after local training) or at the start
    of the next one.
    """

    @property
    def at(self) -> Literal["same", "next"]: ...
    @property
    def gate_optimiser(self) -> Optimiser: ...
    @property
    def gate_leaves(self) -> tuple[str, ...]: ...
    @property
    def epochs(self) -> int: ...
    @property
    def tolerance(self) -> float:
        """A client stops its gate's training when the mean loss of an epoch changes by less than
        this share."""
        ...

    def sends(self, round_number: int) -> bool: ...
    def mix(self, p: Params) -> Tensor:
        """Rows of the personal table after guidance, from its rows, the global ones, the gate."""
        ...


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
    def forgets(self) -> bool:
        """Whether a client's model leaves begin every round at their first values."""
        ...

    @property
    def sends(self) -> Literal["change", "gradients", "last_gradient"]:
        """What a client sends of the item side (its shared table and encoder): how it changed, or,
        while it stands still, the sum of its gradients over the round, or the last of them."""
        ...

    @property
    def restores(self) -> bool:
        """Whether a client finds its private model again; released code that does not is ranked
        with first values."""
        ...

    def phases(self, epoch: int) -> tuple[Phase, ...]: ...


@runtime_checkable
class Refits(Protocol):
    """A `Local` that forgets: to rank with the new table, everybody fits a model to it."""

    @property
    def fitting(self) -> Local:
        """The same training of the model, and none of the item side."""
        ...


@runtime_checkable
class Objective(Protocol):
    """The loss of a batch. `weight_N` is 1 / batch size, and 0 on padding, which must not count."""

    def loss(self, logit_N: Tensor, label_N: Tensor, weight_N: Tensor) -> Tensor: ...


@runtime_checkable
class Transform(Protocol):
    """One link of the channel: `factor` acts on each client's upload, `add_noise` on their sum.

    The sum of n clients' noise is drawn at once, exactly in distribution; a deployed client draws
    its own. `gives` and `needs` let `compose` refuse chains that promise what they cannot keep.
    `says` is a sentence for people, empty where the link changes nothing.
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
    """How the sum of the uploads becomes the next global leaves."""

    @property
    def reads(self) -> Literal["sum", "each"]: ...
    def weight(self, n_positives: int) -> float: ...
    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray: ...


@runtime_checkable
class GradientRule(Protocol):
    """A server that takes steps of its own along the mean of the clients' gradients."""

    def optimiser(self, is_table: bool) -> Optimiser: ...


@runtime_checkable
class TableRule(Protocol):
    """A server that reads single personal tables: graphs of users, clusters."""

    def shared(self, table: Init) -> dict[str, Init]:
        """Leaves that the server makes and clients only read."""
        ...

    def private(self, table: Init) -> dict[str, Init]:
        """Leaves that the server makes for each user."""
        ...

    def floats_down(self, table: Init) -> int:
        """How many numbers a client receives in a round."""
        ...

    def meet(
        self, table_PID: Tensor, shared: Params, generator: np.random.Generator
    ) -> Meeting: ...


@runtime_checkable
class MeetsInPlace(Protocol):
    """A `TableRule` that reads the population's tables where they lie, and writes there: a copy of
    them takes memory and time. Returns the server's next leaves."""

    def meet_in_place(
        self, private: Params, user_P: Tensor, shared: Params, generator: np.random.Generator
    ) -> Params: ...


@dataclass(frozen=True, eq=False)
class Meeting:
    """What a server that read single tables gives back: its next leaves, leaves for each reader
    (stacked in the order of `table_PID`), and personal tables that it replaces, by place."""

    shared: Params
    private: Params
    replaced_Q: Tensor | None = None
    table_QID: Tensor | None = None
