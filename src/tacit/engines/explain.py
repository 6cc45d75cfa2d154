"""Why one client scores items as it does: what views, and what inputs, bring to a logit.

A view is taken out of the mixture while its weights stay; for a linear scorer the logit then loses
exactly w_j θ·F_j. An input (id, text, image, …) is taken out after its projection, and operators
and router see zeros in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tacit.core.compose import Algorithm
from tacit.core.method import Method
from tacit.core.parts import ItemEncoder
from tacit.core.types import Params
from tacit.parts.mixture import Mixture


@runtime_checkable
class Fused(ItemEncoder, Protocol):
    """An item encoder that reads content beside ids, and can be asked to leave an input out."""

    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def without(self) -> tuple[str, ...]: ...
    def projected(self, p: Params, id_ND: Tensor) -> dict[str, Tensor]: ...


@dataclass(frozen=True, eq=False)
class Explained:
    """Logits of some items, and what each view and each input brings to them.

    `weight_NV` are the router's weights, `view_NV` and `input_NM` are logits minus the logits
    without that view or input. Without a mixture there are no views (V = 0).
    """

    views: tuple[str, ...]
    inputs: tuple[str, ...]
    logit_N: np.ndarray
    weight_NV: np.ndarray
    view_NV: np.ndarray
    input_NM: np.ndarray


def fused(method: object) -> Fused | None:
    """The encoder of a method that makes items from ids and content; None for all others.

    >>> from tacit.methods import fcf
    >>> from tacit.plugins.fusion import fedmr
    >>> fused(fcf()) is None, fused(fedmr(fcf())).inputs
    (True, ('id', 'text', 'image'))
    """
    if not isinstance(method, Method) or not isinstance(method.items, Fused):
        return None
    return method.items if len(method.items.inputs) > 1 else None


def views_of(method: object) -> tuple[str, ...]:
    """The names of the views that a method's router weighs; none without a mixture, or with one
    that may mix in its own way.

    >>> from tacit.methods import fcf
    >>> from tacit.plugins.fusion import fedmr
    >>> views_of(fedmr(fcf()))
    ('sum', 'perceptron', 'gate')
    """
    items = method.items if isinstance(method, Method) else None
    return tuple(view.name for view in items.views_of) if type(items) is Mixture else ()


@torch.no_grad()
def explain(algorithm: Algorithm, p: Params, item_N: np.ndarray) -> Explained:
    """What brings the logits of some items, for the client with the leaves `p`."""
    encoder = fused(algorithm.method)
    if encoder is None:
        raise ValueError("this method reads nothing of an item but its id")
    items = torch.from_numpy(np.asarray(item_N, dtype=np.int64))
    rows = {leaf: p[leaf][items] for leaf in (*algorithm.row_leaves, *algorithm.content)}
    here = {**p, **rows}
    logit_N = algorithm.score(here)
    input_MN = [logit_N - _without(algorithm, encoder, name).score(here) for name in encoder.inputs]
    weight_NV, view_NV = _views(algorithm, here, logit_N)
    return Explained(
        views_of(algorithm.method),
        encoder.inputs,
        logit_N.numpy(),
        weight_NV.numpy(),
        view_NV.numpy(),
        torch.stack(input_MN, dim=-1).numpy(),
    )


def _without(algorithm: Algorithm, encoder: Fused, name: str) -> Algorithm:
    less = replace(encoder, without=(*encoder.without, name))  # type: ignore[type-var]
    return replace(algorithm, method=replace(algorithm.method, items=less))


def _views(algorithm: Algorithm, p: Params, logit_N: Tensor) -> tuple[Tensor, Tensor]:
    encoder, read = algorithm.method.items, algorithm.method.sync.read
    if type(encoder) is not Mixture:
        nothing = logit_N.new_zeros(len(logit_N), 0)
        return nothing, nothing
    count = len(encoder.views_of)
    view_NW, past = encoder.views(p, read(p)), encoder.seen(algorithm.past(p, read))
    weight = logit_N.new_ones(1) if count == 1 else encoder.weights(p, view_NW, past)
    weight_NV = weight.expand(len(logit_N), count)
    brought = []
    for place in range(count):
        less_NV = weight_NV.clone()
        less_NV[:, place] = 0
        without_N = algorithm.method.backbone.score(p, encoder.weighed(view_NW, less_NV))
        brought.append(logit_N - without_N)
    return weight_NV, torch.stack(brought, dim=-1)
