"""Whether the parts of a method fit together; what cannot work is refused with a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.core.method import Method
from tacit.core.parts import GradientRule, Guided, TablePenalised, TableRule
from tacit.core.types import OWN_ITEMS
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.core.compose import Algorithm


def check(algorithm: Algorithm) -> None:
    """All checks, in the order in which a person would want to hear of them."""
    _check_numbers(algorithm.method)
    _check_leaves(algorithm)
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


def _check_leaves(algorithm: Algorithm) -> None:
    both = algorithm.shared.keys() & algorithm.private.keys()
    if both:
        raise TacitError(
            f"Leaf {min(both)!r} is made both as shared and as private; a leaf is one or the "
            "other: rename it in one of the two parts."
        )
    sync = type(algorithm.method.sync).__name__
    if algorithm.uploads and not algorithm.sends_changes(1):
        raise TacitError(
            f"{sync} sends no changes after a round, so what clients learn of the shared leaf "
            f"{min(algorithm.uploads)!r} would be lost; use a backbone without shared leaves "
            "(scorer='private'), or Replace()."
        )
    reads_each = isinstance(algorithm.method.server, TableRule)
    if reads_each and (OWN_ITEMS not in algorithm.private or algorithm.uploads):
        raise TacitError(
            f"{type(algorithm.method.server).__name__} reads personal item tables and nothing "
            f"else, but {sync} and the backbone give it something else; use a rule with a personal "
            "table and a backbone without shared leaves."
        )
    if isinstance(algorithm.method.sync, TablePenalised):
        for leaf in algorithm.method.sync.needs:
            if leaf not in algorithm.shared and leaf not in algorithm.private:
                raise TacitError(
                    f"{sync} looks at {leaf!r}, which {type(algorithm.method.server).__name__} "
                    "does not make; use the server that goes with it (Proximal with GraphMean, "
                    "GroupKept with ClusterMean)."
                )
    if algorithm.method.sync.scores_with == "tuned" and algorithm.reads_content:
        raise TacitError(
            f"{sync}(keep=True) ranks with rows that a client tuned, but "
            f"{type(algorithm.method.items).__name__} makes items from more than a row; use "
            "Replace()."
        )
    sends_alone = algorithm.method.sync.sends(1) and not algorithm.uploads
    if sends_alone and not reads_each and not isinstance(algorithm.method.sync, Guided):
        raise TacitError(
            f"{sync} sends whole personal tables, but {type(algorithm.method.server).__name__} "
            "adds changes up; use a server that reads single tables (GraphMean, ClusterMean)."
        )


def _check_channel(method: Method) -> None:
    given: set[str] = set()
    for link in method.channel:
        name = type(link).__name__
        if link.order is not None and "noise" in given:
            raise TacitError(
                f"{name} stands after noise in the channel, so it would cut the noise as well; put "
                f"{name} before the noise."
            )
        missing = link.needs - given
        if "bounded_norm" in missing:
            raise TacitError(
                f"{name} needs a bounded norm and nothing before it gives one; put Clip(bound) "
                "first."
            )
        if missing:
            raise TacitError(
                f"{name} needs a dense update before it; begin the channel with Dense()."
            )
        given |= link.gives
    if "noise" in given and not (isinstance(method.sync, Guided) or method.sync.sends(1)):
        raise TacitError(
            f"{type(method.sync).__name__} sends nothing, so noise in the channel protects "
            "nothing; drop the noise, or use Replace()."
        )
    if isinstance(method.server, TableRule):
        if any(link.order is not None for link in method.channel) or "noise" in given:
            raise TacitError(
                f"{type(method.server).__name__} reads single tables, for which the channel knows "
                "no clip and no noise yet; use Mean, or leave them out."
            )
        return
    if "noise" in given and method.server.weight(1) != method.server.weight(2):
        raise TacitError(
            "Noise in the channel is drawn for clients that count alike, but the server weights "
            "them by their examples; use Mean(weights='uniform')."
        )


def _check_optimisers(algorithm: Algorithm) -> None:
    local, server = algorithm.method.local, algorithm.method.server
    steps = isinstance(server, GradientRule)
    if algorithm.held and not steps:
        raise TacitError(
            f"{type(local).__name__} sends gradients of the item side, but "
            f"{type(server).__name__} adds changes up; use ServerSteps()."
        )
    if algorithm.held and local.model.lifetime == "persistent":
        raise TacitError(
            "local.model keeps its optimiser state for ever, but the item encoder stands still on "
            "devices; use lifetime='round' for local.model."
        )
    if local.items.lifetime == "persistent":
        raise TacitError(
            "local.items keeps its optimiser state for ever, but a client's item rows change from "
            "round to round; use lifetime='round' for local.items."
        )
    for name, optimiser in (("model", local.model), ("items", local.items)):
        for round_number in (1, 2):  # the second one shows a decay that makes no sense
            rate = optimiser.rate_at(round_number, algorithm.task.n_items)
            if not 0 <= rate < float("inf"):
                raise TacitError(
                    f"local.{name} has a rate of {rate} in round {round_number}; it must be finite "
                    "and not negative."
                )
