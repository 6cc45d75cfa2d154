"""Whether the parts of a method fit together; what cannot work is refused with a sentence.

A refusal has a remedy that works when it is followed: `tests/experiment/test_composition.py` walks
methods, plug-ins, channels and generators, and follows every one.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import torch

from tacit.core.method import Method
from tacit.core.parts import (
    GradientRule,
    Guided,
    Refits,
    ServerRule,
    TablePenalised,
    TableRule,
    Transform,
)
from tacit.core.remedy import CompositionError, Use
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.errors import TacitError
from tacit.parts.channel import Dense
from tacit.parts.clusters import ClusterMean
from tacit.parts.contrast import GroupKept
from tacit.parts.graph import GraphMean
from tacit.parts.local import Held
from tacit.parts.mixture import Mixture
from tacit.parts.objectives import BinaryCrossEntropy, PairwiseRanking
from tacit.parts.server import Mean, ServerSteps, TablesBeside
from tacit.parts.sync import Replace

if TYPE_CHECKING:
    from tacit.core.compose import Algorithm

SOME_EXAMPLES = 100  # the cap of weights that a refusal advises
MANY_EXAMPLES = 10**9  # more than anybody has: what a client may count for at most


def check(algorithm: Algorithm) -> None:
    """All checks, in the order in which a person would want to hear of them."""
    _check_numbers(algorithm.method)
    _check_objective(algorithm.method)
    _check_leaves(algorithm)
    _check_tables(algorithm)
    _check_channel(algorithm.method)
    _check_optimisers(algorithm)


def _check_numbers(method: Method) -> None:
    local = method.local
    for name, value, low in (
        ("backbone.dim", method.backbone.dim, 1),
        ("local.epochs", local.epochs, 1),
        ("local.batch", local.batch, 1),
        ("sampling.negatives", method.sampling.negatives, 1),
    ):
        if value < low:
            raise TacitError(f"{name} is {value}; it must be at least {low}.")
    if local.gradient_clip is not None and not local.gradient_clip > 0:
        raise TacitError(
            f"local.gradient_clip is {local.gradient_clip}; it must be positive, or left out."
        )
    server = method.server
    if isinstance(server, Mean | ServerSteps) and server.cap is not None:
        if server.cap < 1:
            raise TacitError(f"server.cap is {server.cap}; it must be at least 1, or left out.")
        if server.weights == "uniform":
            raise CompositionError(
                f"server.cap is {server.cap}, but clients count alike, so there is nothing to "
                "bound",
                Use("weight them by their examples", "server.weights", "examples"),
                Use("leave the cap out", "server.cap", None),
            )


def _check_objective(method: Method) -> None:
    """Clients of a block have batches of one length: what fills them up has weight 0."""
    if type(method.objective) in (BinaryCrossEntropy, PairwiseRanking):
        return
    logit_N, label_N = torch.tensor([0.5, -1.0, 2.0, 9.0, -9.0]), torch.tensor([1.0, 0, 0, 0, 1])
    weight_N = torch.tensor([1 / 3, 1 / 3, 1 / 3, 0, 0])
    filled = method.objective.loss(logit_N, label_N, weight_N)
    alone = method.objective.loss(logit_N[:3], label_N[:3], weight_N[:3])
    if not torch.allclose(filled, alone, rtol=1e-4, atol=1e-6, equal_nan=True):
        raise TacitError(
            f"The loss of {type(method.objective).__name__} counts samples of weight 0, which only "
            "fill a batch up; let it be the sum over samples of weight_N times the loss of each."
        )


def _check_leaves(algorithm: Algorithm) -> None:
    method = algorithm.method
    both = algorithm.shared.keys() & algorithm.private.keys()
    if both:
        raise TacitError(
            f"Leaf {min(both)!r} is made both as shared and as private; a leaf is one or the "
            "other: rename it in one of the two parts."
        )
    sync = type(method.sync).__name__
    if algorithm.uploads and not algorithm.sends_changes(1):
        remedies = [Use("use Replace()", "sync", Replace())]
        if not set(algorithm.uploads) - set(method.backbone.shared()) and _has_scorer(method):
            remedies.insert(0, Use("keep the scorer private", "backbone.scorer", "private"))
        raise CompositionError(
            f"{sync} sends no changes after a round, so what clients learn of the shared leaf "
            f"{min(algorithm.uploads)!r} would be lost",
            *remedies,
        )
    if method.sync.scores_with == "tuned" and algorithm.reads_content:
        raise CompositionError(
            f"{sync}(keep=True) ranks with rows that a client tuned, but "
            f"{type(method.items).__name__} makes items from more than a row",
            Use("use Replace()", "sync", Replace()),
        )
    unread = isinstance(method.items, Mixture) and not method.items.reads_rows
    if unread and isinstance(method.sync, Guided):
        raise CompositionError(
            f"{sync} guides personal item rows, but {type(method.items).__name__} makes items "
            "from content alone",
            Use("use Replace()", "sync", Replace()),
        )
    if method.cold is not None and ITEMS not in algorithm.shared:
        raise CompositionError(
            f"{sync} has no global item table, so a server has nothing to learn new rows from",
            Use("leave the cold-start part out", "cold", None),
        )
    if method.local.forgets and not isinstance(method.local, Refits):
        raise TacitError(
            f"{type(method.local).__name__} forgets the model in every round but has no "
            "`fitting`, by which everybody fits one to the new table; give it one, as Reconstruct "
            "has."
        )


def _has_scorer(method: Method) -> bool:
    """Whether the backbone says itself where its scorer is."""
    backbone = method.backbone
    return is_dataclass(backbone) and "scorer" in {field.name for field in fields(backbone)}


def _check_tables(algorithm: Algorithm) -> None:
    """Servers that read single personal tables, and rules that need what such servers make."""
    method = algorithm.method
    sync, server = type(method.sync).__name__, type(method.server).__name__
    reads_each = isinstance(method.server, TableRule)
    if reads_each and (OWN_ITEMS not in algorithm.private or ITEMS in algorithm.uploads):
        raise CompositionError(
            f"{server} reads personal item tables, but {sync} gives it something else",
            Use("use Mean()", "server", Mean()),
        )
    if reads_each and isinstance(method.sync, Guided):
        raise CompositionError(
            f"{server} and {sync} both decide when personal tables meet",
            Use("use Mean()", "server", Mean()),
        )
    if reads_each and algorithm.uploads and not isinstance(method.server, ServerRule):
        remedies = [
            Use(
                f"use TablesBeside({server}())",
                "server",
                TablesBeside(method.server, ServerSteps()),
            )
        ]
        if not set(algorithm.uploads) - set(method.backbone.shared()) and _has_scorer(method):
            remedies.append(Use("keep the scorer private", "backbone.scorer", "private"))
        raise CompositionError(
            f"{server} reads personal item tables and nothing else, but clients also send "
            f"{min(algorithm.uploads)!r}",
            *remedies,
        )
    rule = ClusterMean() if isinstance(method.sync, GroupKept) else GraphMean()
    goes_with = Use(f"use {type(rule).__name__}()", "server", rule)
    if isinstance(method.sync, TablePenalised):
        for leaf in method.sync.needs:
            if leaf not in algorithm.shared and leaf not in algorithm.private:
                raise CompositionError(
                    f"{sync} looks at {leaf!r}, which {server} does not make", goes_with
                )
    kept = OWN_ITEMS in algorithm.private and ITEMS not in algorithm.uploads
    sends_alone = method.sync.sends(1) and (kept or not algorithm.uploads)
    if sends_alone and not reads_each and not isinstance(method.sync, Guided):
        raise CompositionError(
            f"{sync} sends whole personal tables, but {server} adds changes up", goes_with
        )


def _check_channel(method: Method) -> None:
    given: set[str] = set()
    bounds = [link for link in method.channel if link.order is not None]
    noises = [link for link in method.channel if "noise" in link.gives]
    for link in method.channel:
        name = type(link).__name__
        if link.order is not None and "noise" in given:
            others = [one for one in method.channel if one.order is None and one not in noises]
            raise CompositionError(
                f"{name} stands after noise in the channel, so it would cut the noise as well",
                Use(f"put {name} before the noise", "channel", (*others, *bounds, *noises)),
            )
        missing = link.needs - given
        if "dense" in missing:
            others = [one for one in method.channel if "dense" not in one.gives]
            raise CompositionError(
                f"{name} needs a dense update before it",
                Use("begin the channel with Dense()", "channel", (Dense(), *others)),
            )
        if missing:
            raise TacitError(
                f"{name} needs {', '.join(sorted(missing))}, which no link before it gives; put "
                "one that does before it."
            )
        given |= link.gives
    if noises and not (isinstance(method.sync, Guided) or method.sync.sends(1)):
        raise CompositionError(
            f"{type(method.sync).__name__} sends nothing, so noise in the channel protects nothing",
            _without(method, noises),
        )
    if isinstance(method.server, TableRule):
        if bounds or noises:
            raise CompositionError(
                f"{type(method.server).__name__} reads single tables, for which the channel has "
                "neither bound nor noise yet",
                _without(method, [*bounds, *noises]),
            )
        return
    if noises and method.server.weight(MANY_EXAMPLES) > 1:
        problem = (
            "Noise in the channel is drawn for clients that count for at most one, but the server "
            "weights them by their examples"
        )
        if not isinstance(method.server, Mean | ServerSteps):
            raise TacitError(f"{problem}; let its `weight` be at most 1.")
        raise CompositionError(
            problem,
            Use("bound the weights", "server.cap", SOME_EXAMPLES),
            Use("let clients count alike", "server.weights", "uniform"),
        )


def _without(method: Method, links: list[Transform]) -> Use:
    names = " and ".join(dict.fromkeys(type(link).__name__ for link in links))
    kept = tuple(link for link in method.channel if link not in links)
    return Use(f"leave {names} out of the channel", "channel", kept)


def _check_optimisers(algorithm: Algorithm) -> None:
    local, server = algorithm.method.local, algorithm.method.server
    steps = isinstance(server, GradientRule)
    if algorithm.held and not steps:
        raise CompositionError(
            f"{type(local).__name__} sends gradients of the item side, but "
            f"{type(server).__name__} adds changes up",
            Use("use ServerSteps()", "server", ServerSteps()),
        )
    place = "local.inner" if isinstance(local, Held) else "local"
    if algorithm.held and local.model.lifetime == "persistent":
        raise CompositionError(
            "local.model keeps its optimiser state for ever, but the item encoder stands still on "
            "devices",
            Use("begin it anew in every round", f"{place}.model.lifetime", "round"),
        )
    if local.items.lifetime == "persistent":
        raise CompositionError(
            "local.items keeps its optimiser state for ever, but a client's item rows change from "
            "round to round",
            Use("begin it anew in every round", f"{place}.items.lifetime", "round"),
        )
    for name, optimiser in (("model", local.model), ("items", local.items)):
        for round_number in (1, 2):  # the second one shows a decay that makes no sense
            rate = optimiser.rate_at(round_number, algorithm.task.n_items)
            if not 0 <= rate < float("inf"):
                raise TacitError(
                    f"local.{name} has a rate of {rate} in round {round_number}; it must be finite "
                    "and not negative."
                )
