"""Why one client scores items as it does: what views, and what inputs, bring to a logit.

A view is taken out of the mixture while its weights stay; for a linear scorer the logit then loses
exactly w_j θ·F_j. An input (id, text, image, …) is taken out after its projection, and operators
and router see zeros in its place.

Where logits are sums over a history, what each of its items brings is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tacit.core.algorithm import Algorithm, ClientState
from tacit.core.capabilities import routed_views
from tacit.core.compose import ComposedAlgorithm
from tacit.core.method import AnyMethod
from tacit.core.parts import ItemEncoder
from tacit.core.types import Params
from tacit.data.views import History, TrainView
from tacit.engines.central import fitted_of
from tacit.engines.clients import histories, one_client
from tacit.engines.state import State


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


def fused(method: AnyMethod) -> ItemEncoder | None:
    """The encoder of a method that makes items from ids and content; None for all others.

    >>> from tacit.methods import fcf
    >>> from tacit.plugins.fusion import fedmr
    >>> fused(fcf()) is None, fused(fedmr(fcf())).inputs
    (True, ('id', 'text', 'image'))
    """
    items = None if method.composed is None else method.composed.items
    return items if items is not None and len(items.inputs) > 1 else None


def views_of(method: AnyMethod) -> tuple[str, ...]:
    """The names of the views that a method's router weighs; none without a mixture, or with one
    that may mix in its own way.

    >>> from tacit.methods import fcf
    >>> from tacit.plugins.fusion import fedmr
    >>> views_of(fedmr(fcf()))
    ('sum', 'perceptron', 'gate')
    """
    encoder = None if method.composed is None else routed_views(method.composed.items)
    return () if encoder is None else encoder.view_names


@torch.no_grad()
def explain(algorithm: ComposedAlgorithm, p: Params, item_N: np.ndarray) -> Explained:
    """What brings the logits of some items, for the client with the parameters `p`."""
    encoder = fused(algorithm.method)
    if encoder is None:
        raise ValueError("this method reads nothing of an item but its id")
    items = torch.from_numpy(np.asarray(item_N, dtype=np.int64))
    rows = {
        parameter: p[parameter][items]
        for parameter in (*algorithm.row_parameters, *algorithm.content)
    }
    here = {**p, **rows}
    logit_N = algorithm.logits(here)
    input_MN = [
        logit_N - _without(algorithm, encoder, name).logits(here) for name in encoder.inputs
    ]
    weight_NV, view_NV = _views(algorithm, here, logit_N)
    return Explained(
        views_of(algorithm.method),
        encoder.inputs,
        logit_N.numpy(),
        weight_NV.numpy(),
        view_NV.numpy(),
        torch.stack(input_MN, dim=-1).numpy(),
    )


def _without(algorithm: ComposedAlgorithm, encoder: ItemEncoder, name: str) -> ComposedAlgorithm:
    less = replace(encoder, without=(*encoder.without, name))  # type: ignore[type-var]
    return replace(algorithm, method=replace(algorithm.method, items=less))


def _views(algorithm: ComposedAlgorithm, p: Params, logit_N: Tensor) -> tuple[Tensor, Tensor]:
    encoder, read = routed_views(algorithm.method.items), algorithm.method.sync.read
    if encoder is None:
        nothing = logit_N.new_zeros(len(logit_N), 0)
        return nothing, nothing
    count = len(encoder.view_names)
    view_NW, history = encoder.views(p, read(p)), encoder.seen(algorithm.history_rows(p, read))
    weight = logit_N.new_ones(1) if count == 1 else encoder.weights(p, view_NW, history)
    weight_NV = weight.expand(len(logit_N), count)
    brought = []
    for place in range(count):
        less_NV = weight_NV.clone()
        less_NV[:, place] = 0
        without_N = algorithm.method.backbone.score(p, encoder.weighed(view_NW, less_NV))
        brought.append(logit_N - without_N)
    return weight_NV, torch.stack(brought, dim=-1)


@torch.no_grad()
def carried(
    algorithm: Algorithm, train: TrainView, state: State, person: int | History, seed: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """The distinct items (K,) of a history, and what each brings to each logit, (K, I).

    `person` is a user of `train`, or the history of somebody new. None where a method does not say
    that its logits are sums over the history.

    >>> from tacit.core.types import Task
    >>> from tacit.methods import FedEase, fedmf
    >>> train, task = TrainView.of_one(History(np.array([1])), 2, 7), Task(1, 2)
    >>> state = State({"weight": torch.tensor([[0.0, 1.0], [0.5, 0.0]])}, {})
    >>> item_K, brought_KI = carried(FedEase().algorithm(task), train, state, 0, seed=0)
    >>> item_K.tolist(), brought_KI.tolist()
    ([1], [[0.5, 0.0]])
    >>> carried(fedmf().algorithm(task), train, state, 0, seed=0) is None
    True
    """
    if isinstance(person, History):
        view, user, is_new = TrainView.of_one(person, train.n_items, 0), 0, True
    else:
        view, user, is_new = train, person, False
    if algorithm.central is not None:
        linear = fitted_of(algorithm.central, train, state, seed).linear
        if linear is None:
            return None
        known = ([view.history(user)], view.user_key_U[[user]])
        return linear.contributions(algorithm.central.weighed(linear, *known)[0])
    custom = algorithm.custom
    if custom is None or custom.linear is None:
        return None
    dtype = next((value.dtype for value in state.shared.values()), torch.float32)
    order = custom.reads_order
    columns = histories(view, np.array([user]), dtype, newcomer=is_new, order=order)
    data = one_client(columns)
    received = custom.broadcast(state.shared, data.user)
    data = custom.weighed(received, ClientState({}), data)
    brought_HI = custom.linear.contributions(received, data)
    item_K, place_H = np.unique(data.history_H.numpy(), return_inverse=True)
    brought_KI = np.zeros((len(item_K), brought_HI.shape[1]))
    np.add.at(brought_KI, place_H, brought_HI.numpy() * (data.real_H > 0).numpy()[:, None])
    return item_K, brought_KI
