"""The contract of every method: what a client receives, does and sends, and what the server
makes of it.

An `Algorithm` is a method on a catalogue of known size. Engines, the trainer and a device know
nothing else of a method. Functions are for ONE client and pure, over named tensors; engines map
them over clients or replace them by something faster that gives the same numbers.

A round is a sequence of exchanges, and most rounds have one. In an exchange a client receives what
`broadcast` gives, `update` says what it keeps and sends, and the server makes its next parameters
from the weighted sum of the uploads. A composed method gets these functions from its parts
(`core/compose.py`), a custom one writes them (`core/custom.py`), and the clients of a central one
send their histories (`core/central.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import getattr_static
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.core.recency import Recency
from tacit.core.types import Initializer, Params, Task, Upload, UploadDraws
from tacit.data.batches import BlockDraws
from tacit.data.sampling import Sampling
from tacit.errors import TacitError, shown

if TYPE_CHECKING:
    from tacit.core.central import CentralAlgorithm
    from tacit.core.compose import ComposedAlgorithm
    from tacit.core.custom import CustomAlgorithm
    from tacit.core.method import Method
    from tacit.core.parts import ColdStart, TableRule, Transform
    from tacit.core.protection import Protection
    from tacit.privacy.guarantee import Guarantee

Kind = Literal["composed", "custom", "central"]

TRAIN = "train"  # participants train, and send what changed
FIT = "fit"  # everybody fits a private model to the new table; nothing is sent
TABLES = "tables"  # everybody sends its personal item table
GUIDE = "guide"  # everybody mixes the global table into its own; nothing is sent

EXAMPLES = "examples"  # what a message calls the number of interactions that a client declares


@dataclass(frozen=True)
class Exchange:
    """One exchange of a round: who takes part, and whether clients answer.

    >>> Exchange(GUIDE, everybody=True, sends=False).name
    'guide'
    """

    name: str = TRAIN
    everybody: bool = False  # all users with data, whatever the participation of the round
    sends: bool = True
    # what clients send, where exchanges differ in that; None: all that the method uploads
    parameters: frozenset[str] | None = None


@dataclass(frozen=True)
class Declared:
    """What a client tells of itself beside its upload: nothing, unless the server's weights ask."""

    examples: int | None = None


class Bound(NamedTuple):
    """A bound on a norm: 1 for the sum of absolute values, 2 for the Euclidean one.

    With `together` it bounds all uploads of one client over a whole run, as if they were one
    vector: a release that comes in parts, however the parts share the bound.
    """

    norm: int
    value: float
    together: bool = False


class Noise(NamedTuple):
    """Independent noise on every entry: of each upload, or once of the sum of an exchange."""

    mechanism: Literal["gaussian", "laplace"]
    on: Literal["upload", "sum"]
    scale: float  # standard deviation, or the scale of Laplace noise


@dataclass(frozen=True)
class Draws:
    """What a client draws and looks at in an exchange, from streams of its own."""

    sampling: Sampling | None = None  # None: the client looks at its history alone
    batch: int | None = None  # None: the round is one batch
    epochs: int = 1
    all_rows: bool = False  # whether every item is one of the client's rows
    history_rows: bool = False  # whether the history's place among those rows is wanted
    order: bool = False  # whether the order of the history is wanted
    recency: Recency | None = None  # how much positives count; None: all alike
    noise: Mapping[str, Initializer] = field(default_factory=dict)  # drawn anew in every round


@dataclass(frozen=True, eq=False)
class ClientData:
    """What one client looks at in one exchange; padding has `real_H` or `weight_N` equal to 0."""

    # its index in the population, for servers that keep something for each user; -1 for a person
    # who joined after training and has none
    user: Tensor
    history_H: Tensor  # its train items
    real_H: Tensor
    item_N: Tensor  # the round's samples: positives and drawn negatives, shuffled
    label_N: Tensor
    weight_N: Tensor  # 1 / number of samples
    noise: Params = field(default_factory=dict)  # this round's own draws, as `Draws` declares them
    # where each item of `history_H` stands in time, 0 for the earliest; empty if nobody asked
    order_H: Tensor | None = None
    draws: BlockDraws | None = None  # the samples in batches, as positions in the client's rows
    history_rows: tuple[Tensor, Tensor] | None = None  # (row_H, weight_H) among those rows
    upload_draws: UploadDraws | None = None  # for channels that round at random

    @classmethod
    def of_draws(
        cls, draws: BlockDraws, history_rows: tuple[np.ndarray, np.ndarray] | None = None
    ) -> ClientData:
        """The batches of the only client of a block; `history_rows` are those of the block."""
        nothing = torch.zeros(0)
        rows = None
        if history_rows is not None:
            rows = torch.from_numpy(history_rows[0][0]), torch.from_numpy(history_rows[1][0])
        user, item = torch.zeros((), dtype=torch.int64), nothing.long()
        return cls(user, item, nothing, item, nothing, nothing, {}, None, draws, rows)


@dataclass(frozen=True, eq=False)
class ClientState:
    """What one client keeps between rounds, on its device."""

    parameters: Params
    optimizer: Params = field(default_factory=dict)  # "parameter/state", where it lasts
    item_R: Tensor | None = None  # the items whose rows of the global table it tuned for itself
    row_RD: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Update:
    """One client after an exchange: what it keeps, what it sends, and its loss."""

    private: Params
    upload: Upload
    rows: Params = field(default_factory=dict)  # the rows it trained, of items `upload.item_R`
    optimizer: Params = field(default_factory=dict)
    loss_sum: float = 0.0  # over samples and epochs
    samples: int = 0
    item_R: Tensor | None = None  # the items of `rows`, where the upload has others


@dataclass(frozen=True, eq=False)
class ServerState:
    """What the server holds between exchanges."""

    parameters: Params
    optimizer: Params = field(default_factory=dict)  # "parameter/state"


@dataclass(eq=False)
class Total:
    """What arrived at the server in one exchange: the weighted sum of uploads, in float64, and what
    goes with it. Engines add to it in place."""

    sums: dict[str, np.ndarray] = field(default_factory=dict)
    weight: float = 0.0
    clients: int = 0
    loss_sum: float = 0.0  # of all that trained, whether or not their uploads arrived
    samples: int = 0
    noised: frozenset[str] = frozenset()  # parameters whose sum has passed the channel's noise

    @classmethod
    def zeros(cls, shapes: Mapping[str, tuple[int, ...]]) -> Total:
        """Nothing arrived yet."""
        return cls({name: np.zeros(shape) for name, shape in shapes.items()})

    def add(self, name: str, value: np.ndarray) -> None:
        """One more part of the sum of a parameter."""
        self.sums[name] = self.sums[name] + value if name in self.sums else value


@dataclass(frozen=True)
class Sent:
    """One parameter that clients send: its name and size, and whether its rows name items."""

    name: str
    numbers: int
    by_history: bool = False  # one row for each item of the history, and no others
    private: bool = False  # whether it holds values that the client otherwise keeps

    @property
    def text(self) -> str:
        """For people.

        >>> Sent("basis", 1200, by_history=True).text
        'basis (1,200 numbers; rows outside of the history are zero)'
        """
        rows = "; rows outside of the history are zero" if self.by_history else ""
        own = "; private values among them" if self.private else ""
        return f"{self.name} ({self.numbers:,} numbers{rows}{own})"


@dataclass(frozen=True)
class Disclosure:
    """What leaves a device, derived from what a method declares to send and what a client sent.

    `interpretation` are the method's own sentences on what a server can read out of that.

    >>> Disclosure().sentences()
    ['nothing leaves the device']
    """

    sent: tuple[Sent, ...] = ()
    reads: Literal["sum", "each"] = "sum"
    examples: bool = False  # whether a client tells how many interactions it has
    interpretation: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """The facts first, then their interpretation."""
        if not self.sent:
            return ["nothing leaves the device"]
        said = [f"a client sends {', '.join(sent.text for sent in self.sent)}"]
        if self.reads == "each":
            said.append("the server reads every single upload, so a sum would not be enough")
        if self.examples:
            said.append("the server is told how many interactions a client has")
        return [*said, *self.interpretation]


@dataclass(frozen=True)
class Traffic:
    """How many bytes a method moves and holds: for one client, and for all of them together."""

    up: int  # when a client sends everything that it ever does
    down: int
    exchanges: int  # how many times any client answered, over all rounds
    total: int  # in both directions, over all rounds and clients
    on_client: int
    once: int | None = None  # of content, before the first round
    at_peak: int | None = None


class Parcel(NamedTuple):
    """One parameter of a message: its shape, and its bytes on the wire."""

    shape: tuple[int, ...] | None  # None: as long as the client's history
    size: int  # a mean over clients, where they differ

    @classmethod
    def of(cls, shape: tuple[int, ...], width: int) -> Parcel:
        """So many bytes for every number.

        >>> Parcel.of((3, 2), width=4).size
        24
        """
        return cls(shape, math.prod(shape) * width)


@dataclass(frozen=True, eq=False)
class Sample:
    """What one client really received, kept and sent in its first exchange: what costs and
    disclosure are derived from."""

    received: Params
    client: ClientState
    update: Update
    interactions: int  # of all clients together


def require_as_written(subclass: type, base: type, instead: str) -> None:
    """Refuse a subclass of an algorithm that engines run in several ways, written apart: none but
    the slowest would see what it changes. The server's step is the same for all of them."""
    for name in dir(base):
        known = name == "step" or name.startswith(("__", "_abc"))
        if not known and getattr_static(subclass, name) is not getattr_static(base, name):
            raise TacitError(
                f"{subclass.__name__} writes {shown(name)} anew, which the fast engines have "
                f"written down on their own and would not ask it for; {instead} instead "
                "(docs/extend.md)."
            )


class Algorithm(ABC):
    """A method on a catalogue of known size.

    `unit` is what a round of it is called, and `max_rounds` how many it has where that is known.
    """

    kind: ClassVar[Kind]
    unit: ClassVar[Literal["round", "setting"]] = "round"
    saved: ClassVar[bool] = True  # whether its state is kept on disk; else it is fitted again
    ranks_unseen: ClassVar[bool] = False  # whether it ranks items that nobody has touched
    steps_alone: ClassVar[bool] = False  # whether the server steps in rounds when nobody sends
    max_rounds: int | None = None
    task: Task

    # What is learnt

    @property
    @abstractmethod
    def shared(self) -> Mapping[str, Initializer]:
        """The parameters that the server holds, its optimizer state included where it is one."""

    @property
    @abstractmethod
    def private(self) -> Mapping[str, Initializer]:
        """The parameters that a client keeps."""

    @property
    def history_parameters(self) -> frozenset[str]:
        """Private tables of which a client reads and moves only the rows of its history: no other
        row needs to be kept."""
        return frozenset()

    @property
    def sent_by_row(self) -> frozenset[str]:
        """Uploaded tables that come as rows of the items in `Upload.item_R`; others are zero."""
        return frozenset()

    # What kind of algorithm it is, for whoever can only run one kind

    @property
    def composition(self) -> ComposedAlgorithm | None:
        return None

    @property
    def custom(self) -> CustomAlgorithm | None:
        return None

    @property
    def central(self) -> CentralAlgorithm | None:
        return None

    @property
    def composed(self) -> Method | None:
        """The method's parts, where it is an expression over parts."""
        return None

    @property
    def cold(self) -> ColdStart | None:
        """What makes rows for items that nobody has touched."""
        return None

    @property
    def views_sent(self) -> ComposedAlgorithm | None:
        """The algorithm, where clients train on views of items that the server makes."""
        return None

    @property
    def reads_tables(self) -> TableRule | None:
        """The server's rule for single personal tables, where it reads those."""
        return None

    @property
    def made_by_server(self) -> tuple[str, ...]:
        """Private parameters that such a rule makes for each client."""
        return ()

    @property
    def protection(self) -> Protection | None:
        """How the claim of privacy that the method makes is kept; None where it makes none."""
        return None

    @property
    def channel(self) -> tuple[Transform, ...]:
        """What uploads pass on their way, the bound and the noise of a claim included."""
        return ()

    def guarantee(self, releases: int) -> Guarantee | None:
        """What is promised to a user who takes part in so many releases, from the channel as it
        runs; None where there is no finite epsilon."""
        return None

    @property
    def reads_order(self) -> bool:
        """Whether clients look at the order of their histories when they train or rank."""
        return False

    # One round

    def exchanges(self, round_number: int) -> tuple[Exchange, ...]:
        """The exchanges of a round, in their order."""
        return (Exchange(TRAIN, sends=self.sends(round_number)),)

    def sends(self, round_number: int) -> bool:
        """Whether participants send in a round."""
        return True

    def restarts(self, exchange: Exchange) -> bool:
        """Whether a personal table begins an exchange as a copy of the global one."""
        return False

    def forgets(self, exchange: Exchange) -> bool:
        """Whether the parameters in `forgotten` begin an exchange at their first values."""
        return False

    @property
    def forgotten(self) -> tuple[str, ...]:
        return ()

    @property
    def restores(self) -> bool:
        """Whether a client finds its private parameters again after a round."""
        return True

    @abstractmethod
    def draws(self, exchange: Exchange) -> Draws:
        """What a client draws in an exchange."""

    def broadcast(self, server: Params, user: Tensor) -> Params:
        """What one client receives."""
        return server

    @abstractmethod
    def update(
        self,
        exchange: Exchange,
        received: Params,
        client: ClientState,
        data: ClientData,
        round_number: int,
    ) -> Update:
        """One client's part of an exchange."""

    def summed(self, exchange: Exchange) -> Mapping[str, tuple[int, ...]]:
        """The sums of an exchange that are there although nobody sends, with their shapes."""
        return {}

    def absorbed(self, server: Params, user: Tensor, upload: Upload) -> Upload:
        """One upload as the server adds it up: mostly the upload itself."""
        return upload

    @abstractmethod
    def step(self, server: ServerState, total: Total, round_number: int) -> ServerState:
        """What the server holds after an exchange, from what arrived and nothing else."""

    @property
    def tells_examples(self) -> bool:
        """Whether a client tells how many interactions it has."""
        return False

    def declared(self, examples: int) -> Declared:
        """What a client with so many interactions tells of itself."""
        return Declared(examples if self.tells_examples else None)

    def weight(self, declared: Declared) -> float:
        """How much an upload counts in the sum."""
        return 1.0

    def score(self, received: Params, client: ClientState, data: ClientData) -> Tensor:
        """One client's logits over the whole catalogue; `data` has the history and no samples."""
        raise NotImplementedError(f"{type(self).__name__}: clients do not rank")

    # What it costs, and what it tells

    @abstractmethod
    def disclosure(self, sample: Callable[[], Sample]) -> Disclosure:
        """What leaves a device, from what one client sent; `sample` plays that client if need be,
        where the method does not declare it."""

    @abstractmethod
    def traffic(
        self, sample: Callable[[], Sample], participants: Sequence[int], width: int
    ) -> Traffic:
        """What it costs; `participants` is how many take part in each of the rounds, and `width`
        how many bytes a number has."""

    @abstractmethod
    def uploaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> Mapping[str, Parcel]:
        """All that one client sends in an exchange, by name; empty where it sends nothing."""

    @abstractmethod
    def downloaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> Mapping[str, Parcel]:
        """What one client needs to be sent for an exchange, by name. What it fetches to rank, when
        training is over, is the final model and is not counted here."""

    def downloaded_once(self, width: int) -> Mapping[str, Parcel]:
        """Content that one client receives before the first round, by name."""
        return {}

    def is_same_for_all(self, name: str) -> bool:
        """Whether all clients receive the same value of a parameter."""
        return name in self.shared

    @property
    def third_party(self) -> frozenset[str]:
        """What clients send to somebody else than the server, who reads it one by one."""
        return frozenset()

    def message(
        self, exchange: Exchange, client: ClientState, update: Update, declared: Declared
    ) -> Params:
        """What one client sends in an exchange, as it travels. Tables are whole: which rows are
        there would tell the history."""
        if not exchange.sends:
            return {}
        item_R, sent = update.upload.item_R, dict(update.upload.change)
        for name in self.sent_by_row & sent.keys():
            table = sent[name].new_zeros(self.task.n_items, *sent[name].shape[1:])
            sent[name] = table.index_add(0, item_R, sent[name])
        if declared.examples is not None:
            sent[EXAMPLES] = torch.tensor(declared.examples)
        return sent

    def releases(self, rounds: int) -> int:
        """In how many exchanges of so many rounds a client sends: planned before training."""
        read = self.reads_tables is not None
        return sum(
            exchange.sends or (read and exchange.name == TRAIN)
            for number in range(1, rounds + 1)
            for exchange in self.exchanges(number)
        )

    @property
    def bound(self) -> Bound | None:
        """The most that one client can add to the weighted sum of an exchange; None where nothing
        bounds it."""
        return None

    @property
    def largest_weight(self) -> float | None:
        """The most that a client can count for; None where nobody says so."""
        return 1.0
