"""Whether the parts of a method fit together; what cannot work is refused with a sentence.

A refusal says what is wrong and what to do. A remedy is a value, from which the sentence is made,
so that a test can follow it: `tests/experiment/test_composition.py` walks methods, plug-ins,
channels and generators, and follows every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from tacit.core.capabilities import encodes, overrides
from tacit.core.parts import Transform
from tacit.core.registry import default, part
from tacit.core.types import ITEMS, OWN_ITEMS, Part
from tacit.errors import TacitError, argument

if TYPE_CHECKING:
    from tacit.core.compose import ComposedAlgorithm
    from tacit.core.method import Method


@dataclass(frozen=True)
class LeaveOut:
    """Drop these plug-ins, all of them.

    >>> LeaveOut(("clip",)).words
    "drop plugins=['clip']"
    >>> LeaveOut(("clip",)).plugins_after(["fedmr", "clip:bound=2"])
    ('fedmr',)
    """

    plugins: tuple[str, ...]

    @property
    def words(self) -> str:
        return "drop " + " ".join(argument("plugins", name) for name in self.plugins)

    def plugins_after(self, spellings: Sequence[str]) -> tuple[str, ...]:
        """The plug-ins of a command line that are left."""
        gone = {name.partition(":")[0] for name in self.plugins}
        return tuple(s for s in spellings if s.partition(":")[0] not in gone)


@dataclass(frozen=True)
class Use:
    """Another value at a dotted path of the method.

    >>> Use("bound them", "server.cap", 100).setting
    'server.cap=100'
    """

    what: str
    path: str
    value: Any

    @property
    def setting(self) -> str | None:
        """How `--set` spells it; None where the value is a part, or several."""
        if self.value is None:
            return f"{self.path}=none"
        return f"{self.path}={self.value}" if isinstance(self.value, int | float | str) else None

    @property
    def words(self) -> str:
        if self.setting is None:
            return self.what
        return f"{self.what} ({argument('sets', self.setting)})"

    def applied(self, method: Any) -> Any:
        """The method with that value.

        >>> from tacit.methods import fedavg
        >>> Use("bound them", "server.cap", 100).applied(fedavg()).server.cap
        100
        """
        return _with(method, self.path.split("."), self.value)


@dataclass(frozen=True)
class UseAll:
    """Several other values, where one of them alone would meet the next refusal.

    >>> rounds, bound = Use("train for longer", "rounds", 3), Use("bound them", "server.cap", 9)
    >>> UseAll((rounds, bound)).words
    "train for longer (sets=['rounds=3']) and bound them (sets=['server.cap=9'])"
    """

    uses: tuple[Use, ...]

    @property
    def words(self) -> str:
        return " and ".join(use.words for use in self.uses)


Remedy = LeaveOut | Use | UseAll


def settings_of(remedy: Use | UseAll) -> tuple[str | None, ...]:
    """How `--set` spells each value of a remedy.

    >>> settings_of(Use("train for longer", "rounds", 3))
    ('rounds=3',)
    """
    return tuple(use.setting for use in (remedy.uses if isinstance(remedy, UseAll) else (remedy,)))


class CompositionError(TacitError):
    """Parts or plug-ins that do not go together; each of its remedies is enough by itself.

    >>> str(CompositionError("fedrkg and pie both decide", LeaveOut(("pie",))))
    "fedrkg and pie both decide; drop plugins=['pie']."
    >>> str(CompositionError("pie and pie both decide", LeaveOut(("pie",)), LeaveOut(("pie",))))
    "pie and pie both decide; drop plugins=['pie']."
    """

    def __init__(self, problem: str, *remedies: Remedy) -> None:
        self.problem, self.remedies = problem, remedies
        words = dict.fromkeys(remedy.words for remedy in remedies)  # a plug-in may stand twice
        super().__init__(f"{problem}; {', or '.join(words)}.")


def _with(value: Any, steps: list[str], new: Any) -> Any:
    step, rest = steps[0], steps[1:]
    return replace(value, **{step: _with(getattr(value, step), rest, new) if rest else new})


# The checks.

SOME_EXAMPLES = 100  # the cap of weights that a refusal advises


def check(algorithm: ComposedAlgorithm) -> None:
    """All checks, in the order in which a person would want to hear of them."""
    _check_numbers(algorithm.method)
    _check_parts(algorithm.method)
    _check_objective(algorithm.method)
    _check_recency(algorithm.method)
    _check_encoding(algorithm.method)
    _check_parameters(algorithm)
    _check_tables(algorithm)
    _check_claim(algorithm)
    _check_channel(algorithm)
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


def _check_recency(method: Method) -> None:
    if method.recency is not None and method.recency.per_user:
        raise CompositionError(
            "recency.per_user tries half-lives by ranking from a history, but here clients train "
            "on theirs",
            Use("take one half-life for all", "recency.per_user", False),
            LeaveOut(("recency",)),
        )


def _check_parts(method: Method) -> None:
    """What parts know of themselves and of their neighbours."""
    parts = (
        method.backbone,
        method.items,
        method.sync,
        method.local,
        method.objective,
        *method.channel,
        method.server,
        method.cold,
    )
    for one in parts:
        if one is not None:
            one.check(method)


def _check_objective(method: Method) -> None:
    """Clients of a block have batches of one length: what fills them up has weight 0."""
    logit_N, label_N = torch.tensor([0.5, -1.0, 2.0, 9.0, -9.0]), torch.tensor([1.0, 0, 0, 0, 1])
    weight_N = torch.tensor([1 / 3, 1 / 3, 1 / 3, 0, 0])
    filled = method.objective.loss(logit_N, label_N, weight_N)
    alone = method.objective.loss(logit_N[:3], label_N[:3], weight_N[:3])
    if not torch.allclose(filled, alone, rtol=1e-4, atol=1e-6, equal_nan=True):
        raise TacitError(
            f"The loss of {type(method.objective).__name__} counts samples of weight 0, which only "
            "fill a batch up; let it be the sum over samples of weight_N times the loss of each."
        )


def _check_owners(algorithm: ComposedAlgorithm) -> None:
    """A parameter belongs to the one part that declares it. A server that named a client's own
    parameter as one of its making would be given it."""
    method, owner = algorithm.method, dict[str, str]()
    for slot, names in algorithm.declared_by.items():
        part = type(getattr(method, slot)).__name__
        for name in names:
            other = owner.setdefault(name, part)
            if other != part:
                raise TacitError(
                    f"{other} and {part} both declare the parameter {name!r}; a parameter belongs "
                    "to one part: rename it in one of the two."
                )


def _check_parameters(algorithm: ComposedAlgorithm) -> None:
    method = algorithm.method
    both = algorithm.shared.keys() & algorithm.private.keys()
    if both:
        raise TacitError(
            f"Parameter {min(both)!r} is made both as shared and as private; a parameter is one or "
            "the other: rename it in one of the two parts."
        )
    _check_owners(algorithm)
    sync = type(method.sync).__name__
    if algorithm.uploads and not algorithm.sends_changes(1):
        remedies = [_use("sync", default("sync"))]
        if _scorer_alone_is_sent(algorithm):
            remedies.insert(0, Use("keep the scorer private", "backbone.scorer", "private"))
        raise CompositionError(
            f"{sync} sends no changes after a round, so what clients learn of the shared parameter "
            f"{min(algorithm.uploads)!r} would be lost",
            *remedies,
        )
    if method.sync.scores_with == "tuned" and algorithm.reads_content:
        raise CompositionError(
            f"{sync}(keep=True) ranks with rows that a client tuned, but "
            f"{type(method.items).__name__} makes items from more than a row",
            _use("sync", default("sync")),
        )
    if method.sync.guidance is not None and not method.items.reads_rows:
        raise CompositionError(
            f"{sync} guides personal item rows, but {type(method.items).__name__} makes items "
            "from content alone",
            _use("sync", default("sync")),
        )
    if method.cold is not None and ITEMS not in algorithm.shared:
        raise CompositionError(
            f"{sync} has no global item table, so a server has nothing to learn new rows from",
            Use("leave the cold-start part out", "cold", None),
        )
    if method.local.forgets and method.local.fitting is None:
        raise TacitError(
            f"{type(method.local).__name__} forgets the model in every round but has no "
            "`fitting`, by which everybody fits one to the new table; give it one, as Reconstruct "
            "has."
        )


def _scorer_alone_is_sent(algorithm: ComposedAlgorithm) -> bool:
    """Whether nothing but the scorer is shared, and the backbone can keep it private as well."""
    backbone = algorithm.method.backbone
    return has_field(backbone, "scorer") and not set(algorithm.uploads) - set(backbone.shared())


def has_field(part: Part, name: str) -> bool:
    """Whether a part has a setting of that name.

    >>> from tacit.parts.backbones import DotProduct, NeuralMf
    >>> has_field(DotProduct(), "scorer"), has_field(NeuralMf(), "scorer")
    (False, True)
    """
    return is_dataclass(part) and name in {field.name for field in fields(part)}


def _use(slot: str, value: Part) -> Use:
    """Another part in a slot, at its default settings."""
    return Use(f"use {type(value).__name__}()", slot, value)


def _check_tables(algorithm: ComposedAlgorithm) -> None:
    """Servers that read single personal tables, and rules that need what such servers make."""
    method = algorithm.method
    sync, server = type(method.sync).__name__, type(method.server).__name__
    tables = method.server.tables
    if tables is not None and (OWN_ITEMS not in algorithm.private or ITEMS in algorithm.uploads):
        raise CompositionError(
            f"{server} reads personal item tables, but {sync} gives it something else",
            _use("server", default("server")),
        )
    if tables is not None and method.sync.guidance is not None:
        raise CompositionError(
            f"{server} and {sync} both decide when personal tables are aggregated",
            _use("server", default("server")),
        )
    if tables is not None and algorithm.uploads and method.server.sums is None:
        remedies = [
            Use(
                f"use TablesBeside({server}())",
                "server",
                part("tables_beside")(tables, part("server_steps")()),
            )
        ]
        if _scorer_alone_is_sent(algorithm):
            remedies.append(Use("keep the scorer private", "backbone.scorer", "private"))
        raise CompositionError(
            f"{server} reads personal item tables and nothing else, but clients also send "
            f"{min(algorithm.uploads)!r}",
            *remedies,
        )
    goes_with = _use("server", part(method.sync.made_by)())
    for name in method.sync.needs:
        if name not in algorithm.shared and name not in algorithm.private:
            raise CompositionError(
                f"{sync} looks at {name!r}, which {server} does not make", goes_with
            )
    kept = OWN_ITEMS in algorithm.private and ITEMS not in algorithm.uploads
    sends_alone = method.sync.sends(1) and (kept or not algorithm.uploads)
    if sends_alone and tables is None and method.sync.guidance is None:
        raise CompositionError(
            f"{sync} sends whole personal tables, but {server} adds changes up", goes_with
        )


def _check_channel(algorithm: ComposedAlgorithm) -> None:
    method = algorithm.method
    given: set[str] = set()
    bounds = [link for link in method.channel if link.order is not None]
    noises = [link for link in method.channel if "noise" in link.gives]
    for link in method.channel:
        name = type(link).__name__
        unasked = overrides(link, Transform, "factor") and not overrides(link, Transform, "order")
        if unasked and link.order is None:
            raise TacitError(
                f"{name} writes `factor` and not `order`, so nobody would ask for its factor; say "
                "which norm it wants to see, 1 or 2."
            )
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
                Use("begin the channel with Dense()", "channel", (*default("channel"), *others)),
            )
        if missing:
            raise TacitError(
                f"{name} needs {', '.join(sorted(missing))}, which no link before it gives; put "
                "one that does before it."
            )
        given |= link.gives
    if noises and not (method.sync.guidance is not None or method.sync.sends(1)):
        raise CompositionError(
            f"{type(method.sync).__name__} sends nothing, so noise in the channel protects nothing",
            _without(method, noises),
        )
    if method.server.tables is not None:
        if bounds or noises:
            raise CompositionError(
                f"{type(method.server).__name__} reads single tables, for which the channel has "
                "neither bound nor noise yet",
                _without(method, [*bounds, *noises]),
            )
        return
    if noises and (algorithm.largest_weight is None or algorithm.largest_weight > 1):
        problem = (
            "Noise in the channel is drawn for clients that count for at most one, but the server "
            "weights them by their examples"
        )
        if not has_field(method.server, "cap"):
            raise TacitError(
                f"{problem}; let its `weight` be at most 1, and its `largest_weight` say so."
            )
        raise CompositionError(
            problem,
            Use("bound the weights", "server.cap", SOME_EXAMPLES),
            Use("let clients count alike", "server.weights", "uniform"),
        )


def _check_claim(algorithm: ComposedAlgorithm) -> None:
    """A claim of privacy is about sums that pass the channel: nothing else may tell of clients."""
    method = algorithm.method
    if method.privacy is None:
        return
    server, drop = type(method.server).__name__, LeaveOut(("private",))
    if method.server.tables is not None:
        raise CompositionError(
            f"{server} reads single personal tables, and a guarantee is about sums", drop
        )
    if not algorithm.communicates:
        raise CompositionError(
            f"{type(method.sync).__name__} sends nothing, so there is nothing to guarantee", drop
        )
    clips = [link for link in method.channel if link.order is not None]
    if clips and method.privacy.quantile is not None:
        raise CompositionError(
            f"{type(clips[0]).__name__} in the channel bounds uploads, so there is no quantile to "
            "follow",
            _without(method, clips),
            Use("take that bound", "privacy.quantile", None),
        )
    noises = [link for link in method.channel if link.noisy]
    if noises:
        names = " and ".join(type(link).__name__ for link in noises)
        raise CompositionError(
            f"{names} in the channel adds noise of its own, and a guarantee brings the noise that "
            "it needs",
            _without(method, noises),
            drop,
        )
    alike = [Use("let clients count alike", "server.weights", "uniform")]
    remedies = alike if has_field(method.server, "weights") else [drop]
    if algorithm.tells_examples:
        raise CompositionError(
            f"{server} is told how many interactions each client has, which no noise covers",
            *remedies,
        )
    if algorithm.largest_weight is None or algorithm.largest_weight > 1:
        raise CompositionError(
            f"{server} weighs clients without a bound, and a guarantee needs that nobody counts "
            "for more than one",
            *remedies,
        )


def _check_encoding(method: Method) -> None:
    """Links that put something else in the place of single uploads, and what goes with them."""
    coding = [link for link in method.channel if encodes(link)]
    if not coding:
        return
    name = " and ".join(dict.fromkeys(type(link).__name__ for link in coding))
    kinds = [type(link) for link in coding]
    for link in coding:
        if kinds.count(type(link)) > 1:
            raise CompositionError(
                f"{type(link).__name__} stands twice in the channel",
                Use("leave one of the two out", "channel", _first_of_each(method.channel)),
            )
    noises = [link for link in method.channel if "noise" in link.gives]
    if noises:
        raise CompositionError(
            f"{name} packs uploads into few bits, which the noise of {type(noises[0]).__name__} "
            "would not fit into",
            _without(method, coding),
            _without(method, noises),
        )
    if method.privacy is not None:
        raise CompositionError(
            f"{name} packs single uploads, but a guarantee is about noise on whole ones or on "
            "their sum",
            _without(method, coding),
            LeaveOut(("private",)),
        )
    places = [place for place, link in enumerate(method.channel) if link in coding]
    inside = method.channel[places[0] : places[-1]]
    bounds = [link for link in inside if link.order is not None]
    if bounds:
        rest = tuple(link for link in method.channel if link not in (*coding, *bounds))
        raise CompositionError(
            f"{type(bounds[0]).__name__} stands between links that pack uploads, where there is no "
            "change to bound",
            Use(f"put it before {name}", "channel", (*rest, *bounds, *coding)),
        )
    server, sync = type(method.server).__name__, type(method.sync).__name__
    problem = None
    if not (method.sync.guidance is not None or method.sync.sends(1)):
        problem = f"{sync} sends nothing, so {name} has nothing to pack"
    elif method.sync.guidance is not None:
        problem = f"{sync} sends whole personal tables, but {name} packs changes of shared ones"
    elif method.server.tables is not None:
        problem = f"{server} reads single tables, but {name} packs changes that are added up"
    if problem is not None:
        raise CompositionError(problem, _without(method, coding))


def _first_of_each(channel: tuple[Transform, ...]) -> tuple[Transform, ...]:
    """The channel with the first of all links of one class that encode, and all others."""
    seen: set[type] = set()
    kept = []
    for link in channel:
        if not (encodes(link) and type(link) in seen):
            kept.append(link)
        seen.add(type(link))
    return tuple(kept)


def _without(method: Method, links: list[Transform]) -> Use:
    names = " and ".join(dict.fromkeys(type(link).__name__ for link in links))
    kept = tuple(link for link in method.channel if link not in links)
    return Use(f"leave {names} out of the channel", "channel", kept)


def _check_optimisers(algorithm: ComposedAlgorithm) -> None:
    local, server = algorithm.method.local, algorithm.method.server
    if algorithm.gradients_only and server.gradients is None:
        raise CompositionError(
            f"{type(local).__name__} sends gradients of the item side, but "
            f"{type(server).__name__} adds changes up",
            _use("server", part("server_steps")()),
        )
    place = "local" if local.inner is None else "local.inner"
    if algorithm.gradients_only and local.model.lifetime == "persistent":
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
