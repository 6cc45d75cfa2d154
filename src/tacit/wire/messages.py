"""The messages between a server and its nodes: one frozen class for each kind.

A message is a few typed values and named arrays. `to_letter` takes it apart into what every
transport can carry (`Letter`: a kind, plain values, arrays), and `from_letter` puts it together
again; what is not exactly such a message is refused in a sentence. Nothing is pickled.

Every request names its `Moment`: deployment, run, round and exchange. It is the key by which both
sides know a message again. A node plays a moment once, and answers a repeated request with the
answer that it has kept; the server counts one answer of a node for each request.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

import numpy as np

from tacit.errors import TacitError, shown

FORMAT = 1  # of all messages together; a peer that speaks another one is refused

Arrays = dict[str, np.ndarray]
Value = str | int | float | bool | bytes | list[str]
DTYPES = ("float32", "float64", "int64", "uint32", "uint64", "uint8", "bool")

SumStep = Literal["keys", "shares", "mask", "unmask"]
Summed = Literal["update", "hits"]  # what a secure sum adds up
RefusalReason = Literal[
    "unreadable",  # no message of this format
    "another deployment",
    "unknown run",  # settings or catalogue that this node has not agreed to
    "stale",  # an earlier moment than one that was played, and no kept answer
    "wrong step",
    "left",  # the owner has left the federation
    "no data",
    "not agreed",  # the plan promises less than the owner asks for
    "too often",
    "failed",  # the node could not play; its state is as before
]


@dataclass(frozen=True, order=True)
class Moment:
    """When something happens: the key of a message, and of what a node has played."""

    deployment: str
    run: str
    round_number: int
    exchange: int = 0


@dataclass(frozen=True)
class RunPlan:
    """What a node needs to know of a run, and looks at before it agrees. It is public.

    `experiment` is the whole experiment as TOML, `catalogue` the digest of the catalogue that the
    run is about. `users` counts all people of the roster. `promise` is the guarantee in words, ""
    where there is none; the node computes it again from the experiment and `releases`.
    """

    experiment: str
    catalogue: str
    users: int
    rounds: int
    secure: bool = False  # whether uploads are added up under masks
    fewest: int = 0  # a secure sum of fewer nodes is never opened
    colluders: int = 0
    releases: int | None = None
    promise: str = ""


# From the server.


@dataclass(frozen=True, eq=False)
class Play:
    """Play one exchange from these shared parameters, and send the upload."""

    moment: Moment
    plan: RunPlan
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SumRequest:
    """One step of a secure sum. `body` is a message of `tacit.privacy.secure_sum`, empty in the
    first step, and `sum_plan` its packed plan; with `mask` come the parameters to play from."""

    moment: Moment
    plan: RunPlan
    step: SumStep
    summed: Summed
    sum_plan: bytes
    body: bytes = b""
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Rank:
    """Rank the held-out items of one part with these parameters, and send sums of hits."""

    moment: Moment
    plan: RunPlan
    part: Literal["valid", "test"]
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Deliver:
    """The model to recommend with from now on; nothing comes back but a receipt. With `final` it is
    the selected round of a finished run."""

    moment: Moment
    plan: RunPlan
    final: bool = False
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Give:
    """What a server that reads single tables made for one person from them, after the exchange of
    this moment: parameters that take the place of the person's own."""

    moment: Moment
    plan: RunPlan
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class CatalogueUpdate:
    """The catalogue, whole: ids in the order of their codes, titles, and content that devices get.
    A later version begins with the items of the one before it."""

    deployment: str
    version: int
    digest: str
    ids: list[str]
    titles: list[str]
    arrays: Arrays = field(default_factory=dict)


# From a node.


@dataclass(frozen=True, eq=False)
class Played:
    """The sum of the uploads of a node's people, their weights and their number.

    With one person on a node it is that person's upload. It has no loss and no number of samples:
    no method sends those.
    """

    moment: Moment
    clients: int
    weight: float
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SumAnswer:
    """A node's message in one step of a secure sum."""

    moment: Moment
    step: SumStep
    body: bytes


@dataclass(frozen=True, eq=False)
class Ranked:
    """Sums of metrics over a node's people, by name, and how many people there are."""

    moment: Moment
    part: Literal["valid", "test"]
    people: int
    arrays: Arrays = field(default_factory=dict)  # one number each


@dataclass(frozen=True)
class Received:
    """A receipt for a model or a catalogue; `version` is that of the catalogue the node has."""

    deployment: str
    version: int


@dataclass(frozen=True)
class Refused:
    """A node will not answer: the reason for programs, and a sentence for people."""

    reason: RefusalReason
    sentence: str


Request = Play | SumRequest | Rank | Deliver | Give | CatalogueUpdate
Answer = Played | SumAnswer | Ranked | Received | Refused
Message = Request | Answer

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*typing.get_args(Request), *typing.get_args(Answer))
}
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, eq=False)
class Letter:
    """A message as a transport carries it."""

    kind: str
    values: dict[str, Value]
    arrays: Arrays


def to_letter(message: Message) -> Letter:
    """A message taken apart; the fields of inner values have dotted names.

    >>> letter = to_letter(Received("shop", version=2))
    >>> letter.kind, letter.values
    ('Received', {'format': 1, 'deployment': 'shop', 'version': 2})
    """
    values: dict[str, Value] = {"format": FORMAT}
    _flatten(message, "", values)
    return Letter(type(message).__name__, values, dict(getattr(message, "arrays", {})))


def from_letter(letter: Letter) -> Message:
    """The message that was taken apart; anything else is refused.

    >>> from_letter(to_letter(Refused("left", "The owner has left.")))
    Refused(reason='left', sentence='The owner has left.')
    >>> from_letter(Letter("Received", {"format": 9}, {}))
    Traceback (most recent call last):
    tacit.errors.TacitError: A message has format 9; this version of tacit speaks format 1.
    """
    spoken = letter.values.get("format")
    if spoken != FORMAT or isinstance(spoken, bool):
        raise TacitError(
            f"A message has format {shown(spoken)}; this version of tacit speaks format {FORMAT}."
        )
    if letter.kind not in KINDS:
        raise TacitError(f"There is no message of the kind {shown(letter.kind)}.")
    kind = KINDS[letter.kind]
    values = {name: value for name, value in letter.values.items() if name != "format"}
    expected = set(_names(kind, ""))
    wrong = sorted(values.keys() ^ expected)
    if wrong:
        said = "has no" if wrong[0] in expected else "has a strange"
        raise TacitError(f"A message of the kind {letter.kind} {said} field {shown(wrong[0])}.")
    has_arrays = any(one.name == "arrays" for one in fields(kind))
    if letter.arrays and not has_arrays:
        raise TacitError(f"A message of the kind {letter.kind} carries no arrays.")
    for name, array in letter.arrays.items():
        if not isinstance(name, str) or array.dtype.name not in DTYPES:
            raise TacitError(f"The array {shown(name)} has a type that no message carries.")
    extra = {"arrays": dict(letter.arrays)} if has_arrays else {}
    message: Message = _build(kind, "", values, letter.kind, extra)
    return message


def _flatten(value: Any, prefix: str, into: dict[str, Value]) -> None:
    for one in fields(value):
        inner = getattr(value, one.name)
        if one.name == "arrays":
            continue
        if dataclasses.is_dataclass(inner):
            _flatten(inner, f"{prefix}{one.name}.", into)
        else:
            into[prefix + one.name] = _plain(inner)


def _plain(value: Any) -> Value:
    """A value that every transport carries; None travels as an empty list."""
    plain: Value = [] if value is None else value
    return plain


HINTS: dict[Any, dict[str, Any]] = {
    kind: typing.get_type_hints(kind) for kind in (*KINDS.values(), Moment, RunPlan)
}


def _names(kind: type[Any], prefix: str) -> list[str]:
    found: list[str] = []
    for one in fields(kind):
        hint = HINTS[kind][one.name]
        if one.name == "arrays":
            continue
        if dataclasses.is_dataclass(hint):
            found += _names(typing.cast(type[Any], hint), f"{prefix}{one.name}.")
        else:
            found.append(prefix + one.name)
    return found


def _build(
    kind: type[Any], prefix: str, values: dict[str, Value], said: str, extra: dict[str, Any]
) -> Any:
    found: dict[str, Any] = dict(extra)
    for one in fields(kind):
        if one.name == "arrays":
            continue
        hint, name = HINTS[kind][one.name], prefix + one.name
        if dataclasses.is_dataclass(hint):
            inner = typing.cast(type[Any], hint)
            found[one.name] = _build(inner, f"{name}.", values, said, {})
            continue
        value: Any = values[name]
        if value == [] and type(None) in typing.get_args(hint):
            value = None
        if not _fits(value, hint):
            raise TacitError(
                f"The field {name} of a message of the kind {said} holds {shown(value)}, which it "
                "cannot."
            )
        found[one.name] = value
    return kind(**found)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the declared type, to the letter: a truth value is no number."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is list:
        return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)
    if hint is type(None):
        return value is None
    return type(value) is hint
