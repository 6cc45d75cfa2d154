"""Which algorithms the compiled paths claim, and why not the others: the one place that decides.

A kernel writes down what parts do, so it claims a part by its very class: a subclass may override
anything, and is never claimed. What no kernel claims runs on the general path, which calls the
parts themselves. To teach a kernel a new part, add the class here, and its name to the tests that
list what is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.core.capabilities import is_plain_descent, steps_entrywise
from tacit.core.compose import Algorithm
from tacit.core.method import Method
from tacit.core.parts import Backbone, Guided, Penalised, TablePenalised
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.engines.flat_network import FlatNetwork, Router
from tacit.parts.backbones import DotProduct, LinearHead
from tacit.parts.channel import Clip
from tacit.parts.contrast import GroupKept
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.items import IdOnly, Received
from tacit.parts.local import Alternate, Held, Joint, Reconstruct
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Additive, Anchored, Isolated, Proximal, Replace

LINEAR: tuple[type, ...] = (DotProduct, LinearHead)  # perceptrons: see `FlatNetwork.of`
FUSED_SYNC: tuple[type, ...] = (Replace, Isolated, AdaptiveGuidance, Anchored)
FUSED_LOCAL: tuple[type, ...] = (Joint, Alternate, Reconstruct)
FUSED_VIEWS_LOCAL: tuple[type, ...] = (Joint, Alternate)  # inside of Held
# rules under which a client reads one row of one table, as it stands there
PLAIN_READ: tuple[type, ...] = (*FUSED_SYNC, Proximal, GroupKept)


@dataclass(frozen=True)
class Claim:
    """The kernel that runs, or the reason why none does.

    >>> Claim(None, "the loss is Focal").kernel is None
    True
    """

    kernel: str | None
    reason: str = ""


def linear_leaves(backbone: Backbone) -> tuple[str, str | None] | None:
    """(vector leaf, bias leaf) of a scorer that kernels know to be linear; None for all others.

    >>> linear_leaves(DotProduct(4)), linear_leaves(LinearHead(4, user_vector=True))
    (('user', None), None)
    """
    return backbone.linear if type(backbone) in LINEAR else None


def fused_claim(algorithm: Algorithm, device: str) -> Claim:
    """The kernel that plays a client's whole round in one pass.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedncf, pfedrec
    >>> fused_claim(compose(pfedrec(dim=4), Task(2, 3)), "cpu").kernel
    'linear'
    >>> fused_claim(compose(fedncf(dim=4), Task(2, 3)), "cuda").reason
    'the fused kernel runs on the CPU'
    """
    if device != "cpu":
        return Claim(None, "the fused kernel runs on the CPU")
    method = algorithm.method
    if type(method.items) is Received:
        reason = why_not_views(algorithm)
        return Claim("views") if reason is None else Claim(None, reason)
    reason = _why_not_fused(algorithm)
    if reason is not None:
        return Claim(None, reason)
    return Claim("perceptron" if linear_leaves(method.backbone) is None else "linear")


def why_not_fused(algorithm: Algorithm, device: str) -> str | None:
    """The first reason why no fused kernel can run this method; None if one can.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> why_not_fused(compose(fedmf(dim=4), Task(2, 3)), "cpu") is None
    True
    """
    claim = fused_claim(algorithm, device)
    return claim.reason if claim.kernel is None else None


def _why_not_fused(algorithm: Algorithm) -> str | None:
    method, local = algorithm.method, algorithm.method.local
    clips = [link for link in method.channel if link.order is not None]
    network = FlatNetwork.of(method.backbone)
    if linear_leaves(method.backbone) is None and network is None:
        return _scorer_is_unknown(method.backbone)
    if network is not None and network.is_shared and algorithm.row_leaves != (ITEMS,):
        return "a shared perceptron goes with the shared item table only"
    if type(method.items) is not IdOnly:
        return f"{type(method.items).__name__} encodes more than the id"
    if type(local) not in FUSED_LOCAL:
        return f"{type(local).__name__} has phases of its own"
    if type(method.sync) not in FUSED_SYNC:
        return f"{type(method.sync).__name__} {_what_a_rule_adds(method)}"
    if type(method.sync) is Anchored and local.gradient_clip is not None:
        return "a bound on the gradient sees the pull on all rows"
    if type(method.sync) is Anchored and clips:
        return "a clip of the upload sees the pull on all rows"
    return (
        _why_not_plain(method, items=True)
        or (None if type(method.objective) is BinaryCrossEntropy else _loss_is(method))
        or _why_not_clips(method)
    )


def why_not_views(algorithm: Algorithm) -> str | None:
    """The first reason why the clients' half of a fusion is not compiled; None if it is.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fcf
    >>> from tacit.plugins.fusion import fedmr
    >>> why_not_views(compose(fedmr(fcf(), modalities=""), Task(2, 3)).lifted) is None
    True
    """
    method, local = algorithm.method, algorithm.method.local
    router = Router.of(method.items)
    if router is None:
        return "views are not mixed by one weight each for a reader"
    if router.exists and not router.is_private:
        return "the router is shared"
    if linear_leaves(method.backbone) is None:
        return f"{type(method.backbone).__name__} is not linear in the mixed views"
    if type(local) is not Held or type(local.inner) not in FUSED_VIEWS_LOCAL:
        return f"{type(local).__name__} has phases of its own"
    if algorithm.uploads != (ITEMS,) or ITEMS not in algorithm.held:
        return "views do not stand still, or more than their gradients is sent"
    if type(method.sync) is not Replace:
        return f"{type(method.sync).__name__} {_what_a_rule_adds(method)}"
    if local.gradient_clip is not None:
        return "local.gradient_clip bounds steps of views and model together"
    if any(link.order is not None for link in method.channel):
        return "the channel clips gradients of views"
    return _why_not_plain(method, items=False) or (
        None if type(method.objective) is BinaryCrossEntropy else _loss_is(method)
    )


def block_claim(algorithm: Algorithm, device: str) -> Claim:
    """The kernel that descends for a block of clients under a rule that no fused kernel knows.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedrap, pfedrec
    >>> block_claim(compose(fedrap(dim=4), Task(2, 3)), "cpu").kernel
    'additive'
    >>> block_claim(compose(pfedrec(dim=4), Task(2, 3)), "cpu").reason
    'no block kernel was written for Replace with Alternate and LinearHead'
    """
    method, local, sync = algorithm.method, algorithm.method.local, algorithm.method.sync
    if device != "cpu":
        return Claim(None, "block kernels run on the CPU")
    if type(method.items) is not IdOnly:
        return Claim(None, f"{type(method.items).__name__} encodes more than the id")
    if local.gradient_clip is not None:
        return Claim(None, "local.gradient_clip bounds steps")
    reason = _why_not_plain(method, items=True)
    if reason is not None:
        return Claim(None, reason)
    if type(method.objective) is not BinaryCrossEntropy:
        return Claim(None, _loss_is(method))
    linear = linear_leaves(method.backbone)
    has_bias = linear is not None and linear[1] is not None
    if type(local) is Joint and type(sync) is Additive and has_bias:
        return Claim("additive")
    if type(local) is Alternate and type(sync) is GroupKept and has_bias:
        return Claim("contrast")
    if type(local) is Joint and type(sync) is Proximal:
        network = FlatNetwork.of(method.backbone)
        if network is not None and not network.is_shared:
            return Claim("pulled")
    names = [type(part).__name__ for part in (sync, local, method.backbone)]
    return Claim(None, f"no block kernel was written for {names[0]} with {names[1]} and {names[2]}")


def gate_claim(algorithm: Algorithm, device: str) -> Claim:
    """The kernel that trains gates and mixes tables, under a rule of guidance.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import pfedrec
    >>> from tacit.plugins.fedrkg import fedrkg
    >>> gate_claim(compose(fedrkg(pfedrec(dim=4)), Task(2, 3)), "cpu").kernel
    'linear'
    """
    sync, fused = algorithm.method.sync, fused_claim(algorithm, device)
    if fused.kernel is None:
        return fused
    if type(sync) is not AdaptiveGuidance:
        return Claim(None, f"{type(sync).__name__} is no rule whose gate is compiled")
    if sync.gate_input != "own_global_difference":
        return Claim(None, f"the gate reads {sync.gate_input}")
    if not is_plain_descent(sync.gate_optimiser):
        return Claim(None, "sync.gate_optimiser is not plain gradient descent")
    return fused


def score_claim(algorithm: Algorithm) -> Claim:
    """The kernel that scores catalogues: of personal tables under linear scorers, of perceptrons,
    or of views; `algorithm` is what clients rank with.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf, fedncf, local_only
    >>> [score_claim(compose(m(dim=4), Task(2, 3))).kernel for m in (local_only, fedncf, fedmf)]
    ['linear', 'perceptron', None]
    """
    method = algorithm.method
    linear, network = linear_leaves(method.backbone), FlatNetwork.of(method.backbone)
    if type(method.items) is Received:
        mixed = Router.of(method.items) is not None and type(method.sync) is Replace
        if mixed and linear is not None:
            return Claim("views")
        return Claim(None, "no kernel was written for this scorer and its mixed views")
    if type(method.items) is not IdOnly:
        return Claim(None, f"{type(method.items).__name__} encodes more than the id")
    if type(method.sync) not in PLAIN_READ:
        return Claim(None, f"{type(method.sync).__name__} {_what_a_rule_adds(method)}")
    if linear is not None and algorithm.row_leaves == (OWN_ITEMS,):
        return Claim("linear")
    if network is not None:
        return Claim("perceptron")
    if linear is not None:
        return Claim(None, "one table for all is one product for a block")
    return Claim(None, _scorer_is_unknown(method.backbone))


def overlays_linear(method: Method) -> tuple[str, str | None] | None:
    """The leaves of a linear scorer whose tuned rows are overlaid by a kernel; None for others."""
    plain = type(method.items) is IdOnly and type(method.sync) is Replace
    return linear_leaves(method.backbone) if plain else None


def one_at_a_time(algorithm: Algorithm) -> str | None:
    """Why clients cannot be stacked into blocks; None where they can.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> one_at_a_time(compose(fedmf(dim=4), Task(2, 3))) is None
    True
    """
    local, sync = algorithm.method.local, algorithm.method.sync
    optimisers = {"local.model": local.model, "local.items": local.items}
    if isinstance(sync, Guided):
        optimisers["sync.gate_optimiser"] = sync.gate_optimiser
    for name, optimiser in optimisers.items():
        if not steps_entrywise(optimiser):
            return f"{name} is {type(optimiser).__name__}, which does not say that it is entrywise"
    return None


def _why_not_plain(method: Method, *, items: bool) -> str | None:
    for name, optimiser in (("model", method.local.model), ("items", method.local.items)):
        if (items or name == "model") and not is_plain_descent(optimiser):
            return f"local.{name} is not plain gradient descent"
    return None


def _why_not_clips(method: Method) -> str | None:
    clips = [link for link in method.channel if link.order is not None]
    if len(clips) > 1:
        return "the channel has more than one clip"
    for link in clips:
        if type(link) is not Clip:
            return f"{type(link).__name__} bounds uploads in its own way"
    return None


def _scorer_is_unknown(backbone: Backbone) -> str:
    name = type(backbone).__name__
    if type(backbone) in LINEAR or backbone.linear is None:
        return f"{name} is neither linear in the item row nor a perceptron"
    return f"no kernel was written for {name}"


def _what_a_rule_adds(method: Method) -> str:
    if isinstance(method.sync, Penalised | TablePenalised) or len(method.sync.trains) > 1:
        return "adds to the loss or to the row"
    return "may read rows in its own way"


def _loss_is(method: Method) -> str:
    return f"the loss is {type(method.objective).__name__}"
