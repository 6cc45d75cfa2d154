"""The fused kernel for clients that train on views of items which the server makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.core.compose import Algorithm
from tacit.core.optim import Sgd
from tacit.core.parts import Penalised, TablePenalised
from tacit.core.types import ITEMS, Params
from tacit.data.views import TrainView
from tacit.engines.base import Totals
from tacit.engines.chunks import each_chunk
from tacit.engines.kernels.views_cpu import views_chunk
from tacit.engines.participation import Participants
from tacit.engines.queue import Queue, in_order
from tacit.engines.state import State
from tacit.items.mixture import Mixture
from tacit.items.received import Received
from tacit.local.alternate import Alternate
from tacit.local.held import Held
from tacit.local.joint import Joint
from tacit.objectives.bce import PROBABILITY_FLOOR, BinaryCrossEntropy

Layers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # weights and biases, in and out


@dataclass(frozen=True)
class Router:
    """The router of a mixture as kernels want it: one weight per view and reader, from the
    reader's history. A single view has none.

    >>> from tacit.items.views.sum import SumView
    >>> Router.of(Received(Mixture(views_of=(SumView(),)))).exists
    False
    >>> Router.of(Received(Mixture(rule="item"))) is None
    True
    """

    count: int
    softmaxes: int
    is_private: bool

    @classmethod
    def of(cls, items: object) -> Router | None:
        """None where views are mixed in another way."""
        if not isinstance(items, Received) or not isinstance(items.encoder, Mixture):
            return None
        mixture = items.encoder
        if mixture.added or (len(mixture.views_of) > 1 and mixture.rule != "history"):
            return None
        return cls(len(mixture.views_of), mixture.softmaxes, mixture.router == "private")

    @property
    def exists(self) -> bool:
        return self.count > 1

    def leaves(self, p: Params, width: int) -> Layers:
        """Both layers where they lie, with an axis of clients: of length 1 where all share one."""
        if not self.exists:
            shapes = ((1, width, 1), (1, 1), (1, 1, 1), (1, 1))
            leaves = [np.zeros(shape, p[ITEMS].numpy().dtype) for shape in shapes]
        else:
            names = ("router.in.w", "router.in.b", "router.out.w", "router.out.b")
            leaves = [
                p[name].numpy() if self.is_private else p[name].numpy()[None] for name in names
            ]
        first, shift, second, offset = leaves
        return first, shift, second, offset


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
    if method.backbone.linear is None:
        return f"{type(method.backbone).__name__} is not linear in the mixed views"
    if type(local) is not Held or type(local.inner) not in (Joint, Alternate):
        return f"{type(local).__name__} has phases of its own"
    if algorithm.uploads != (ITEMS,) or ITEMS not in algorithm.held:
        return "views do not stand still, or more than their gradients is sent"
    if isinstance(method.sync, Penalised | TablePenalised):
        return f"{type(method.sync).__name__} adds to the loss"
    if not isinstance(local.model, Sgd) or not local.model.stateless:
        return "local.model is not plain gradient descent"
    if local.gradient_clip is not None:
        return "local.gradient_clip bounds steps of views and model together"
    if not isinstance(method.objective, BinaryCrossEntropy):
        return f"the loss is {type(method.objective).__name__}"
    if any(link.order is not None for link in method.channel):
        return "the channel clips gradients of views"
    return None


def views_round(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    participants: Participants,
    samples_U: np.ndarray,
    *,
    seed: int,
    threads: int,
) -> Totals:
    """One round of all participants on the views in `state.shared`; returns their gradients."""
    method, local = algorithm.method, algorithm.method.local
    round_number = state.round_number + 1
    queue = Queue.of(algorithm, train, participants, samples_U)
    router = Router.of(method.items)
    assert router is not None
    assert isinstance(method.objective, BinaryCrossEntropy)
    assert isinstance(local, Held)
    assert method.backbone.linear is not None
    vector, bias = method.backbone.linear
    view_IW = state.shared[ITEMS].contiguous().numpy()
    kind = view_IW.dtype
    total_CIW = np.zeros((queue.chunks, *view_IW.shape))
    loss_C = np.zeros(queue.chunks)
    each_chunk(
        views_chunk,
        queue.chunks,
        threads,
        *queue.drawing(seed, round_number),
        kind.type(local.model.rate_at(round_number, algorithm.task.n_items)),
        np.array([0.0, 1.0, PROBABILITY_FLOOR], dtype=kind),
        queue.shares(kind),
        isinstance(local.inner, Alternate),
        local.sends == "last_gradient",
        method.objective.on == "probabilities",
        view_IW,
        state.private[vector].numpy(),
        state.private[bias].numpy() if bias else np.zeros(1, kind),
        bias is not None,
        router.softmaxes,
        *router.leaves({**state.shared, **state.private}, view_IW.shape[1]),
        router.exists,
        total_CIW,
        loss_C,
    )
    totals = queue.totals(loss_C)
    totals.change[ITEMS] += in_order(total_CIW)
    return totals
