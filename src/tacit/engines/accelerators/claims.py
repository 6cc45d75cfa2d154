"""What a claim is, which classes kernels were written for, and the reasons that families share.

A kernel writes down what parts do, so it claims a part by its very class: a subclass may override
anything, and is never claimed. What no kernel claims runs on the general path, which calls the
parts themselves. To teach a family a new part, add the class here or to the family's own `claims`,
and its name to the tests that list what is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tacit.core.capabilities import encodes, is_plain_descent, overrides
from tacit.core.compose import ComposedAlgorithm
from tacit.core.method import Method
from tacit.core.parts import Backbone, Sync, Transform
from tacit.core.types import Params
from tacit.parts.backbones import DotProduct, LinearHead
from tacit.parts.channel import Clip, QuantileClip
from tacit.parts.contrast import GroupKept
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.items import IdOnly
from tacit.parts.local import Alternate, Joint, Reconstruct
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Anchored, Isolated, Proximal, Replace

CLIPS: tuple[type, ...] = (Clip, QuantileClip)
LINEAR: tuple[type, ...] = (DotProduct, LinearHead)  # perceptrons: see `FlatNetwork.of`
FUSED_SYNC: tuple[type, ...] = (Replace, Isolated, AdaptiveGuidance, Anchored)
FUSED_LOCAL: tuple[type, ...] = (Joint, Alternate, Reconstruct)
# rules under which a client reads one row of one table, as it stands there
PLAIN_READ: tuple[type, ...] = (*FUSED_SYNC, Proximal, GroupKept)


# why the kernels of additive, contrast, pulled and views leave a method with recency to the parts'
# own functions; those of linear and perceptron count positives as it says
POSITIVES_COUNT = "positives count by their recency"


class Named(Protocol):
    """A kernel that claimed an algorithm, with the typed parts that it looked at."""

    @property
    def name(self) -> str:
        """The family, as runs report it."""
        ...


Kernel = TypeVar("Kernel", bound=Named, covariant=True)


@dataclass(frozen=True)
class Claim(Generic[Kernel]):
    """The kernel that runs, or the reason why none does.

    >>> Claim(None, "the loss is Focal").name is None
    True
    """

    kernel: Kernel | None
    reason: str = ""

    @property
    def name(self) -> str | None:
        """The kernel's family; None where no kernel runs."""
        return None if self.kernel is None else self.kernel.name


class LinearScorers(NamedTuple):
    """Linear scorers of all clients as kernels take them: logit = vector · row (+ bias)."""

    vector_UD: np.ndarray
    bias_U: np.ndarray
    has_bias: bool


@dataclass(frozen=True)
class LinearParameters:
    """The parameters of a scorer that kernels know to be linear in the item row."""

    vector: str
    bias: str | None

    @classmethod
    def of(cls, backbone: Backbone) -> LinearParameters | None:
        """None for all other scorers.

        >>> LinearParameters.of(DotProduct(4)), LinearParameters.of(LinearHead(4, user_vector=True))
        (LinearParameters(vector='user', bias=None), None)
        """
        if type(backbone) not in LINEAR or backbone.linear is None:
            return None
        return cls(*backbone.linear)

    def scorer(self, private: Params) -> LinearScorers:
        """Where the clients' values lie; kernels that train write them there."""
        vector_UD = private[self.vector].numpy()
        if self.bias is None:
            return LinearScorers(vector_UD, np.zeros(1, vector_UD.dtype), False)
        return LinearScorers(vector_UD, private[self.bias].numpy(), True)


@dataclass(frozen=True)
class OnePass:
    """What the kernels that play a client's whole round look at, beside the scorer."""

    loss: BinaryCrossEntropy
    clip: Transform | None
    anchor: Anchored | None
    name: ClassVar[str] = "one pass"


def one_pass(algorithm: ComposedAlgorithm) -> Claim[OnePass]:
    """Whether all parts but the scorer are known to the kernels that play a whole round."""
    method, local = algorithm.method, algorithm.method.local
    clips = [link for link in algorithm.channel if link.order is not None]
    if (coded := uploads_are_encoded(algorithm)) is not None:
        return Claim(None, coded)
    if type(method.items) is not IdOnly:
        return Claim(None, encodes_more(method))
    if type(local) not in FUSED_LOCAL:
        return Claim(None, f"{type(local).__name__} has phases of its own")
    if type(method.sync) not in FUSED_SYNC:
        return Claim(None, rule_is_unknown(method))
    anchor = method.sync if type(method.sync) is Anchored else None
    if anchor is not None and local.gradient_clip is not None:
        return Claim(None, "a bound on the gradient sees the pull on all rows")
    if anchor is not None and clips:
        return Claim(None, "a clip of the upload sees the pull on all rows")
    if (reason := why_not_plain(method)) is not None:
        return Claim(None, reason)
    if type(method.objective) is not BinaryCrossEntropy:
        return Claim(None, loss_is(method))
    if len(clips) > 1:
        return Claim(None, "the channel has more than one clip")
    for link in clips:
        if type(link) not in CLIPS:
            return Claim(None, f"{type(link).__name__} bounds uploads in its own way")
    return Claim(OnePass(method.objective, clips[0] if clips else None, anchor))


def uploads_are_encoded(algorithm: ComposedAlgorithm) -> str | None:
    """The link that puts something else in the place of single uploads, in words; None where there
    is none. A kernel adds changes up as they are, so it leaves such a channel to the links."""
    for link in algorithm.channel:
        if encodes(link):
            return f"{type(link).__name__} encodes single uploads"
    return None


def why_not_plain(method: Method, *, items: bool = True) -> str | None:
    """The optimiser that is not plain gradient descent, in words; None where all are."""
    for name, optimiser in (("model", method.local.model), ("items", method.local.items)):
        if (items or name == "model") and not is_plain_descent(optimiser):
            return f"local.{name} is not plain gradient descent"
    return None


def scorer_is_unknown(backbone: Backbone) -> str:
    name = type(backbone).__name__
    if type(backbone) in LINEAR or backbone.linear is None:
        return f"{name} is neither linear in the item row nor a perceptron"
    return f"no kernel was written for {name}"


def rule_is_unknown(method: Method) -> str:
    name = type(method.sync).__name__
    penalised = method.sync.penalises_tables or overrides(method.sync, Sync, "penalty")
    if penalised or len(method.sync.trains) > 1:
        return f"{name} adds to the loss or to the row"
    return f"{name} may read rows in its own way"


def loss_is(method: Method) -> str:
    return f"the loss is {type(method.objective).__name__}"


def encodes_more(method: Method) -> str:
    return f"{type(method.items).__name__} encodes more than the id"
