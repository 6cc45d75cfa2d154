"""The kinds of part that a method is made of: one base class for each slot.

Parts are written for ONE client, as pure functions over named tensors. Shape suffixes: U users,
I items, N samples of a batch, R rows that a client touches, D width. A new part is a frozen
dataclass that subclasses one of these and writes what differs: a loss is a class with one method.
What raises `NotImplementedError` here has no default. Optional abilities are attributes that are
None or False where a part does not have them, so that nobody asks for a part's class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from tacit.core.algorithm import Declared, Noise
from tacit.core.optim import Optimiser
from tacit.core.types import ITEMS, Initializer, Params, Part, Phase, written_by
from tacit.data.dataset import Modalities


class Backbone(Part):
    """Who scores. FedMF, FedNCF and PFedRec differ here and in `local`."""

    dim: int  # the width of what it reads of an item; a field
    # how many vectors stand side by side in that row: a scorer with two towers reads two
    branches: int = 1

    @property
    def linear(self) -> tuple[str, str | None] | None:
        """(vector parameter, bias parameter) if the logit is vector·x + bias: fused kernels ask for
        this."""
        return None

    def item_init(self) -> Initializer:
        """The initializer of one row of the item table; its shape is (D,)."""
        raise NotImplementedError

    def shared(self) -> dict[str, Initializer]:
        """The parameters that the server holds and averages."""
        return {}

    def private(self) -> dict[str, Initializer]:
        """The parameters that each client keeps."""
        return {}

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        """(N,) logits of one client for N items."""
        raise NotImplementedError


class ItemEncoder(Part):
    """What an item looks like to a user. By default it is its row of the table."""

    without: tuple[str, ...] = ()  # the inputs that are left out after their projection

    @property
    def inputs(self) -> tuple[str, ...]:
        """What an item is made from (id, text, image), where it is made from more than its row."""
        return ()

    @property
    def reads_history(self) -> bool:
        """Whether `encode` looks at the client's own history: then `history` is given."""
        return False

    @property
    def reads_rows(self) -> bool:
        """Whether anything of an item comes from its row of the table, and not from content."""
        return True

    @property
    def shuffled(self) -> bool:
        """Whether items are given the content of other items, as a control does."""
        return False

    @property
    def viewed(self) -> Viewed | None:
        """The same encoder in two steps, where it has two; None where it has one."""
        return None

    @property
    def routed(self) -> Routed | None:
        """The same encoder, where a router weighs views; None where nothing is weighed."""
        return None

    def row(self, read: Initializer) -> Initializer:
        """The initializer of one row of the table, from that of the row which the backbone
        reads."""
        return read

    def shared(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        return {}

    def private(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        return {}

    def content(self, content: Modalities | None) -> dict[str, np.ndarray]:
        """The constant tables over items, one row each, that `encode` reads as content.NAME."""
        return {}

    def encode(self, p: Params, id_ND: Tensor, history: HistoryRows | None = None) -> Tensor:
        """What the backbone reads of N items, from their rows of the table."""
        return id_ND

    def projected(self, p: Params, id_ND: Tensor) -> dict[str, Tensor]:
        """Each of `inputs` as it enters, after its projection."""
        return {}

    def filling(self, width: int) -> ItemEncoder:
        """The same encoder for a backbone with one branch of that width."""
        return self


@dataclass(frozen=True, eq=False)
class HistoryRows:
    """A client's own history as an item encoder sees it: parameters with one row per item of it,
    the rows of the table, and weights that sum to one."""

    p: Params
    id_HD: Tensor
    weight_H: Tensor


class Viewed(ItemEncoder):
    """An encoder in two steps: views of an item, which the server can make alone, and their
    mixture, which is the client's. `placement` says where views are made; numbers are the same.

    A subclass writes `encode` as well, as `mix` after `views`: `capabilities.split_views` trusts
    the two steps only where one class wrote all three.
    """

    placement: Literal["client", "server"] = "client"

    @property
    def viewed(self) -> Viewed | None:
        return self

    def view_width(self, width: int) -> int:
        """How many numbers of an item travel if the server makes the views."""
        raise NotImplementedError

    def mixing(self, width: int) -> dict[str, Initializer]:
        """The shared parameters that `mix` reads; all other shared ones make views."""
        return {}

    def views(self, p: Params, id_ND: Tensor) -> Tensor:
        """All views of each item, side by side in one row."""
        raise NotImplementedError

    def mix(self, p: Params, view_NW: Tensor, history: HistoryRows | None) -> Tensor:
        """What the backbone reads; the rows of `history` hold views."""
        raise NotImplementedError


class Routed(Viewed):
    """Views that a router weighs, for each user or for each item."""

    @property
    def routed(self) -> Routed | None:
        return self

    @property
    def view_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def seen(self, history: HistoryRows | None) -> HistoryRows | None:
        """The same history, with views in the place of rows."""
        return history and HistoryRows(
            history.p, self.views(history.p, history.id_HD), history.weight_H
        )

    def weights(self, p: Params, view_NW: Tensor, history: HistoryRows | None) -> Tensor:
        """The weights of the views: (V,) for a user, or (N, V) for each item."""
        raise NotImplementedError

    def weighed(self, view_NW: Tensor, weight_V: Tensor | None) -> Tensor:
        """The views under given weights; one view alone needs none."""
        raise NotImplementedError


@dataclass(frozen=True)
class ServerSideViews(ItemEncoder):
    """The clients' half of an encoder whose views the server makes and sends: a row of the table
    holds the views of an item. Nobody writes it into a method; `Algorithm.with_server_views` does.

    >>> from tacit.parts.mixture import Mixture
    >>> ServerSideViews(Mixture(width=4)).row(Initializer((4,))).shape
    (12,)
    """

    encoder: Viewed

    @property
    def reads_history(self) -> bool:
        return self.encoder.reads_history

    def row(self, read: Initializer) -> Initializer:
        return Initializer((self.encoder.view_width(read.shape[-1]),))

    def shared(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        return self.encoder.mixing(width)

    def private(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        return self.encoder.private(width, content)

    def encode(self, p: Params, id_ND: Tensor, history: HistoryRows | None = None) -> Tensor:
        return self.encoder.mix(p, id_ND, history)


class Sync(Part):
    """How the local item table is combined with the global one. Row-wise: `read` sees some rows.

    The defaults are those of a global table that is sent down, trained, and sent back.
    """

    # the row parameters that local training moves: "items", "items.own", or both
    trains: tuple[str, ...] = (ITEMS,)
    # which rows a local step can move: those of the round's samples, or (under a penalty that
    # speaks of the whole table) all of them
    rows: Literal["touched", "all"] = "touched"
    # whether a personal table begins every round as a copy of the global one
    restarts: bool = False
    # whether `table_penalty` is a term of the loss, and the parameters of the server's making that
    # it looks at; `made_by` is the name of a server that makes them
    penalises_tables: bool = False
    needs: tuple[str, ...] = ()
    made_by: str = "graph_mean"

    @property
    def scores_with(self) -> Literal["global", "tuned", "own"]:
        """The table a client ranks with: the global one, the global one overlaid by the rows it
        last tuned, or a dense one of its own."""
        return "global"

    @property
    def guidance(self) -> Guided | None:
        """The rule itself, where personal tables are mixed with the mean of all of them now and
        then."""
        return None

    def shared(self, table: Initializer) -> dict[str, Initializer]:
        """The row parameters that the server holds; `table` is the initializer of a whole table."""
        return {ITEMS: table}

    def private(self, table: Initializer) -> dict[str, Initializer]:
        """What the rule keeps on each device."""
        return {}

    def sends(self, round_number: int) -> bool:
        return True

    def read(self, p: Params) -> Tensor:
        """The rows that the item encoder reads."""
        return p[ITEMS]

    def penalty(self, p: Params, weight_N: Tensor, round_number: int) -> Tensor | None:
        """A term of the rule's own in the loss of a batch, or None; row parameters come as the
        samples' rows. `weight_N` is 1 / batch size, and 0 on padding."""
        return None

    def table_penalty(self, p: Params) -> Tensor:
        """A term over the whole table: `p` holds all rows, and what the server sent."""
        raise NotImplementedError


class Guided(Sync):
    """A rule that mixes personal tables with the mean of all of them now and then.

    All users send their tables in the rounds where `sends` says so, whatever the participation; the
    mean of those very tables is mixed in, in the same round (after local training) or at the start
    of the next one. A client stops its gate's training when the mean loss of an epoch changes by
    less than the share `tolerance`.
    """

    at: Literal["same", "next"] = "same"
    gate_optimiser: Optimiser
    gate_parameters: tuple[str, ...] = ()
    epochs: int = 0
    tolerance: float = 0.0

    @property
    def guidance(self) -> Guided | None:
        return self

    def gate_logit(self, p: Params) -> Tensor:
        """How much of each global row is let in, as a logit; for rules that have
        `gate_parameters`."""
        raise NotImplementedError

    def gate(self, p: Params) -> Tensor:
        """The same between 0 and 1."""
        raise NotImplementedError

    def mix(self, p: Params) -> Tensor:
        """Rows of the personal table after guidance, from its rows, the global ones, the gate."""
        raise NotImplementedError


class Local(Part):
    """How a client trains: data, not code. Engines walk the phases of every batch in order."""

    # a way to train that this one takes its optimisers, epochs and batches from
    inner: Local | None = None
    # What a client sends of the item side (its shared table and encoder): how it changed, or, while
    # it stands still, the sum of its gradients over the round, or the last of them.
    sends: Literal["change", "gradients", "last_gradient"] = "change"
    # whether a client finds its private model again; released code that does not is ranked with
    # first values
    restores: bool = True

    @property
    def model(self) -> Optimiser:
        """What moves the scorer and everything else that is no item row."""
        raise NotImplementedError

    @property
    def items(self) -> Optimiser:
        """What moves the item rows."""
        raise NotImplementedError

    @property
    def epochs(self) -> int:
        return 1

    @property
    def batch(self) -> int:
        return 256

    @property
    def gradient_clip(self) -> float | None:
        """The bound on the norm of a step's gradient, over all parameters that move in it."""
        return None

    @property
    def forgets(self) -> bool:
        """Whether a client's model parameters begin every round at their first values."""
        return False

    @property
    def fitting(self) -> Local | None:
        """The same training of the model, and none of the item side. A rule that forgets has it:
        to rank with the new table, everybody fits a model to it."""
        return None

    def phases(self, epoch: int) -> tuple[Phase, ...]:
        return (Phase(("model", "items")),)


class Objective(Part):
    """The loss of a batch. `weight_N` is 1 / batch size, and 0 on padding, which must not count."""

    def loss(self, logit_N: Tensor, label_N: Tensor, weight_N: Tensor) -> Tensor:
        raise NotImplementedError


class Transform(Part):
    """One link of the channel: `factor` acts on each client's upload, `add_noise` on their sum.

    The sum of n clients' noise is drawn at once, exactly in distribution; a deployed client draws
    its own. `gives` and `needs` let `compose` refuse chains that promise what they cannot keep.
    A class that says `entrywise = True` beside its own `factor` is asked for many norms at once.
    A guarantee counts on `bound`, `noise` and `keeps_bounds` only where the link's own class wrote
    them beside what they speak of: `factor`, `add_noise`, or nothing at all.
    """

    entrywise: bool = False
    bound: float | None = None  # the largest norm of an upload that passes it
    noisy: bool = False  # whether it is there to add noise, of whatever size
    keeps_bounds: bool = False  # whether an upload that was bounded before it stays so
    # whether `factor` wants norms in units of the bound that the server estimates, and how far
    # apart the two values of the bit are that a client then sends beside its upload
    in_units: bool = False
    bit_weight: float = 0.0

    @property
    def noise(self) -> Noise | None:
        """The noise that it adds, where that has a name."""
        return None

    @property
    def gives(self) -> frozenset[str]:
        """What later links may rely on: "dense", "bounded_norm", "noise"."""
        return frozenset()

    @property
    def needs(self) -> frozenset[str]:
        """What links before it must give."""
        return frozenset()

    @property
    def order(self) -> int | None:
        """The norm (1 or 2) of the upload that `factor` wants to see; None if it wants none."""
        return None

    def factor(self, norm: Tensor) -> Tensor:
        return norm.new_ones(norm.shape)

    def add_noise(
        self, total: np.ndarray, n_clients: int, generator: np.random.Generator
    ) -> np.ndarray:
        return total

    def interpretation(self) -> str:
        """A sentence for people, empty where the link changes nothing."""
        return ""


class Server(Part):
    """How what clients send becomes the next global parameters. A server has one or more
    abilities."""

    @property
    def tables(self) -> TableRule | None:
        """How single personal tables are read; None where the server reads none."""
        return None

    @property
    def sums(self) -> ServerRule | None:
        """How the sum of the clients' changes is added; None where the server adds none up."""
        return None

    @property
    def gradients(self) -> GradientRule | None:
        """How a step along the mean gradient is taken; None where the server takes none."""
        return None

    @property
    def tells_examples(self) -> bool:
        """Whether a client tells the server how many train interactions it has."""
        return False

    def weight(self, declared: Declared) -> float:
        """What a client counts for in a sum, from what it declares of itself and nothing else."""
        return 1.0

    @property
    def largest_weight(self) -> float | None:
        """The most that `weight` gives, which is enforced; None where nothing bounds it. A class
        that writes its own `weight` says this too."""
        return 1.0 if written_by(self, "weight") is Server else None

    def with_steps(self, items: Optimiser, encoder: Optimiser) -> Server:
        """The same server with steps of its own along gradients, where it can have them."""
        return self

    def stepping_items_with(self, optimiser: Optimiser) -> Server:
        """The same server, with its own steps of the item table taken by that optimiser."""
        return self


class ServerRule(Server):
    """A server that adds up: the sum of the uploads gives the next global parameters."""

    @property
    def sums(self) -> ServerRule | None:
        return self

    def step(self, value: np.ndarray, total: np.ndarray, weight: float) -> np.ndarray:
        """The next value of a parameter, from the weighted sum of its changes and of the
        weights."""
        return value + total / weight


class GradientRule(ServerRule):
    """A server that takes steps of its own along the mean of the clients' gradients."""

    @property
    def gradients(self) -> GradientRule | None:
        return self

    def optimiser(self, is_table: bool) -> Optimiser:
        raise NotImplementedError


class TableRule(Server):
    """A server that reads single personal tables: graphs of users, clusters.

    A class that says `in_place = True` beside its own `aggregate_tables` has `aggregate_in_place`
    as well.
    """

    in_place: bool = False

    @property
    def tables(self) -> TableRule | None:
        return self

    def shared(self, table: Initializer) -> dict[str, Initializer]:
        """Parameters that the server makes and clients only read."""
        return {}

    def private(self, table: Initializer) -> dict[str, Initializer]:
        """Parameters that the server makes for each user."""
        return {}

    def floats_down(self, table: Initializer) -> int:
        """How many numbers a client receives in a round."""
        return table.count

    def aggregate_tables(
        self, table_PID: Tensor, shared: Params, generator: np.random.Generator
    ) -> Aggregated:
        raise NotImplementedError

    def aggregate_in_place(
        self, private: Params, user_P: Tensor, shared: Params, generator: np.random.Generator
    ) -> Params:
        """`aggregate_tables`, where the population's tables lie, and written there: a copy of them
        takes memory and time. Returns the server's next parameters."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Aggregated:
    """What a server that read single tables gives back: its next parameters, parameters for each
    reader (stacked in the order of `table_PID`), and personal tables that it replaces, by place."""

    shared: Params
    private: Params
    replaced_Q: Tensor | None = None
    table_QID: Tensor | None = None


class ContentRows(Part):
    """What a generator reads of the content: one feature row per item."""

    modalities: tuple[str, ...] = ()
    kind: Literal["content", "zero", "random"] = "content"

    def width(self, content: Modalities | None, table_width: int) -> int:
        raise NotImplementedError

    def fitted(self, content: Modalities, warm_I: np.ndarray, table_width: int) -> FittedRows:
        """The map from content to feature rows as these items give it, for items of any origin."""
        raise NotImplementedError


class FittedRows:
    """A map from content to feature rows."""

    def rows(self, content: Modalities, count: int) -> np.ndarray:
        """The feature rows (I, F) of the `count` items that `content` describes."""
        raise NotImplementedError


class ColdStart(Part):
    """A generator of rows for items that nobody has touched.

    It sees what a server sees: the global item table and the content of the catalogue, never a
    history. State goes in and comes out; it is the server's own, and no client ever sees it. Shape
    suffixes: W warm items, C cold ones, F width of the features, D width of the table.
    """

    # Whether what it learns lasts over rounds. A closed form looks at the last table alone, so it
    # is fitted where rows are wanted, and nothing of it is kept.
    lasts: bool = False

    @property
    def features(self) -> ContentRows:
        """What of the content it reads."""
        raise NotImplementedError

    @property
    def noise(self) -> int:
        """How many rows of standard normal noise it wants for an item; 0 where nothing is random.
        They come from the item's own stream, so an item's row does not depend on its company."""
        return 0

    def begin(self, width: int, feature_width: int, generator: np.random.Generator) -> Params:
        """The first parameters, optimiser state included; all of them are tensors with names."""
        raise NotImplementedError

    def fit(
        self,
        p: Params,
        table_WD: Tensor,
        feature_WF: Tensor,
        round_number: int,
        generator: np.random.Generator,
    ) -> Params:
        """The parameters after learning from the table that a round left on the server."""
        return p

    def generate(self, p: Params, feature_CF: Tensor, noise_CND: Tensor) -> Tensor:
        """One row (C, D) for each item."""
        raise NotImplementedError
