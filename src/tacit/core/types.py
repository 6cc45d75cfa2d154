"""Names for the few things that travel between parts, engines and devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.data.dataset import Modalities
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.core.method import Method
    from tacit.data.views import TrainView

# Flat and named: "items", "user", "head.w". A parameter is shared or private by which function made
# it.
Params = dict[str, Tensor]

ITEMS = "items"  # the global item table, (I, D), shared
OWN_ITEMS = "items.own"  # a client's dense personal table, (I, D), private
# Under a claim whose bound is estimated: its logarithm, and how often it was estimated. Clients
# receive it, and send a bit for it.
BOUND = "privacy.bound"


CONTENT = "content."  # content.text, content.image: what the server knows of items, constant
OF_HISTORY = "@past"  # items@past: the same parameter, for the items of the client's own history
HISTORY_WEIGHT = "weight@past"  # 1 / length of the history, and 0 on padding


NOT_WRITTEN = "not written"  # a key of a field's metadata


class Part:
    """The base of every part: a frozen dataclass whose fields are its settings.

    `ground` marks the plainest part of a slot, which a plug-in may put another in the place of. It
    counts only where the very class says it: a subclass is a rule of somebody's own.
    """

    ground: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in vars(cls).get("__annotations__", {}):
            if name not in vars(cls) and isinstance(getattr(cls, name, None), property):
                raise TacitError(
                    f"The field {name!r} of {cls.__name__} has no default; give it one, as every "
                    "part of its kind has."
                )

    def check(self, method: Method) -> None:
        """Refuse settings that make no sense, alone or beside the other parts of the method."""


def written_by(part: object, name: str) -> type:
    """The class that wrote a behaviour: a part's own, or the one that it inherits it from.

    >>> class Parent(Part):
    ...     def weight(self):
    ...         return 1.0
    >>> class Child(Parent):
    ...     pass
    >>> written_by(Child(), "weight").__name__
    'Parent'
    """
    return next(kind for kind in type(part).__mro__ if name in vars(kind))


@dataclass(frozen=True)
class Task:
    """What parts may depend on: two sizes, the content of the catalogue, and how often one user
    sends. Nothing in it depends on anybody's history, so neither do first values.

    `content` is None as long as no data has been looked at: a configuration can be checked alone.
    `releases` are the most in which any user takes part; None as long as nobody has planned them,
    and then a method that claims privacy cannot train.

    >>> Task(n_users=3, n_items=5).n_items
    5
    """

    n_users: int
    n_items: int
    content: Modalities | None = field(default=None, compare=False)
    releases: int | None = None

    @classmethod
    def of(cls, train: TrainView, releases: int | None = None) -> Task:
        """The task of a train view."""
        return cls(train.n_users, train.n_items, train.content, releases)


@dataclass(frozen=True)
class Initializer:
    """How a parameter begins: its shape and the distribution of its entries.

    `normal` has standard deviation `scale`; `uniform` lies in ±`scale`; `zeros` are zeros;
    `orthonormal` is a random matrix whose columns are orthonormal, times `scale`. A private
    parameter with `same=True` begins equal for all clients, otherwise each client draws its
    own; with `like` it begins with the values of the parameter of that name (a personal table as
    the global).

    >>> Initializer((4,), "normal", 0.1).count
    4
    """

    shape: tuple[int, ...]
    distribution: Literal["normal", "uniform", "zeros", "orthonormal"] = "zeros"
    scale: float = 1.0
    same: bool = False
    like: str | None = None

    @property
    def count(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total


def draw_parameter(
    init: Initializer, seed: int, purpose: int, stream: int, name_U: np.ndarray, dtype: torch.dtype
) -> Tensor:
    """One value of a declared parameter for each name, stacked: (U, ...).

    `stream` tells parameters (and rounds) apart.

    With `same=True` the value belongs to nobody and is the same for every name.

    >>> normal, users = Initializer((3,), "normal"), np.array([7, 9], np.uint64)
    >>> two = draw_parameter(normal, 0, 1, 5, users, torch.float64)
    >>> one = draw_parameter(normal, 0, 1, 5, users[1:], torch.float64)
    >>> bool((two[1] == one[0]).all())
    True
    """
    shape = (len(name_U), *init.shape)
    if init.distribution == "zeros":
        return torch.zeros(shape, dtype=dtype)
    drawn_U = np.zeros(1, dtype=np.uint64) if init.same else name_U
    if init.distribution == "normal":
        value = streams.normals(seed, purpose, stream, drawn_U, init.count) * init.scale
    elif init.distribution == "orthonormal":
        normal = streams.normals(seed, purpose, stream, drawn_U, init.count)
        value = np.linalg.qr(normal.reshape(len(drawn_U), *init.shape))[0] * init.scale
    else:
        unit = streams.uniforms(seed, purpose, stream, drawn_U, init.count)
        value = (2.0 * unit - 1.0) * init.scale
    drawn = torch.from_numpy(value.reshape(len(drawn_U), *init.shape)).to(dtype)
    return drawn.expand(shape).clone() if init.same else drawn


@dataclass(frozen=True)
class Phase:
    """One step of a batch: the groups of parameters ("model", "items") that move in it,
    together."""

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
    """What leaves a device: the change of shared parameters, and nothing else.

    The item table's change is sent for the rows in `item_R` (all other rows are exactly zero).
    """

    item_R: Tensor
    change: Params


@dataclass(frozen=True)
class EnginePath:
    """Which code trained and scored: facts for programs, and one sentence for people.

    `kernel` names compiled code that trains, `reason` says why no faster path does. `scoring` and
    `guidance` name the kernels of these two steps; None stands for the plain path, or no such step.

    >>> EnginePath("fused", "fused: linear kernel", kernel="linear").path
    'fused'
    """

    path: Literal["loop", "cohort", "compiled", "fused", "custom", "central"]
    text: str
    kernel: str | None = None
    reason: str | None = None
    scoring: str | None = None
    guidance: str | None = None
