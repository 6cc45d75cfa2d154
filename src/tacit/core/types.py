"""Names for the few things that travel between parts, engines and devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from tacit.data.dataset import Modalities

if TYPE_CHECKING:
    from tacit.data.views import TrainView

# Flat and named: "items", "user", "head.w". A leaf is shared or private by which function made it.
Params = dict[str, Tensor]

ITEMS = "items"  # the global item table, (I, D), shared
OWN_ITEMS = "items.own"  # a client's dense personal table, (I, D), private


CONTENT = "content."  # content.text, content.image: what the server knows of items, constant
PAST = "@past"  # items@past: the same leaf, for the items of the client's own history
PAST_WEIGHT = "weight@past"  # 1 / length of the history, and 0 on padding


ADDED_LATER = "added later"  # a key of a field's metadata


def added_later(default: Any) -> Any:
    """A field that a part got after results with it were published: at its default it is not
    written down, so that an experiment keeps its text, and with it its name.

    >>> added_later("shared").default
    'shared'
    """
    return field(default=default, metadata={ADDED_LATER: True})


@dataclass(frozen=True)
class Task:
    """What parts may depend on: two sizes, and the content of the catalogue.

    `content` is None as long as no data has been looked at: a configuration can be checked alone.

    >>> Task(n_users=3, n_items=5).n_items
    5
    """

    n_users: int
    n_items: int
    content: Modalities | None = field(default=None, compare=False)

    @classmethod
    def of(cls, train: TrainView) -> Task:
        """The task of a train view."""
        return cls(train.n_users, train.n_items, train.content)


@dataclass(frozen=True)
class Init:
    """How a leaf begins: its shape and the law of its entries.

    `normal` has standard deviation `scale`; `uniform` lies in ±`scale`; `zeros` are zeros. A
    private leaf with `same=True` begins equal for all clients, otherwise each client draws its own;
    with `like` it begins with the values of the leaf of that name (a personal table as the global).

    >>> Init((4,), "normal", 0.1).count
    4
    """

    shape: tuple[int, ...]
    law: Literal["normal", "uniform", "zeros"] = "zeros"
    scale: float = 1.0
    same: bool = False
    like: str | None = None

    @property
    def count(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total


@dataclass(frozen=True)
class Phase:
    """One step of a batch: the groups of leaves ("model", "items") that move in it, together."""

    groups: tuple[Literal["model", "items"], ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """One mini-batch of one client: labels, weights (1 / batch size, 0 on padding), and which of
    the client's rows each sample reads."""

    row_N: Tensor
    label_N: Tensor
    weight_N: Tensor


@dataclass(frozen=True, eq=False)
class Upload:
    """What leaves a device: the change of shared leaves, and nothing else.

    The item table's change is sent for the rows in `item_R` (all other rows are exactly zero).
    """

    item_R: Tensor
    change: Params
