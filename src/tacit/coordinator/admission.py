"""What is let in: every message of a node is checked here before it touches a sum.

Size, kind, sender, moment, names, shapes, number types, finiteness, weights and norms. What is not
exactly what was asked for is refused, with a reason that is counted for its sender; a refusal
changes nothing but these counts. A node that offends too often is dropped. Messages that come late
or twice are no offence: networks do that.

Under secure sums a single upload cannot be looked at. Its norm is bounded by the code on the device
of whoever follows the protocol, and the ring bounds every number; that a vector was made honestly
is not checked then by anybody.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from tacit.coordinator.roster import Roster
from tacit.core.algorithm import Bound
from tacit.errors import TacitError, shown
from tacit.wire.messages import (
    Answer,
    Arrays,
    Letter,
    Moment,
    Played,
    Ranked,
    Received,
    Refused,
    SumAnswer,
    SumStep,
    Value,
    from_letter,
    to_letter,
)

Reason = Literal[
    "too large",
    "unreadable",
    "unknown sender",
    "dropped",
    "too often",
    "not asked",
    "wrong kind",
    "another moment",
    "sent twice",
    "wrong names",
    "wrong shape",
    "wrong number type",
    "not finite",
    "wrong count",
    "wrong weight",
    "too long",
    "wrong sum message",
]
HARMLESS: frozenset[Reason] = frozenset(
    ("sent twice", "another moment", "not asked", "too often", "unknown sender", "dropped")
)
SLACK = 1.0 + 1e-4  # of norms and weights, for rounding on devices


class RefusedAnswerError(TacitError):
    """A message is not let in: `reason` for counts, the sentence for people."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason: Reason = reason


@dataclass(frozen=True)
class Limits:
    """What one node may send: `offences` until it is dropped, bytes of one message, and messages a
    second beside one answer to each request, of which `burst` may come at once. `norm` bounds the
    Euclidean norm of an upload for each of its people, where the method itself promises none. As
    it is set it only keeps one node from overflowing the sum; a tight one bounds what it does."""

    offences: int = 10
    most_bytes: int = 256 * 2**20
    per_second: float = 1.0
    burst: int = 20
    norm: float | None = 1e9


class Expected(NamedTuple):
    """What belongs into the answers of one request."""

    kind: type[Played | SumAnswer | Ranked | Received]
    moment: Moment | None = None  # None: a receipt, which names its deployment
    deployment: str = ""
    shapes: Mapping[str, tuple[int, ...]] = {}
    all_of_them: bool = True  # or only some of the names
    number_type: str = "float32"
    bound: Bound | None = None  # of what one person adds
    largest_weight: float | None = 1.0
    step: SumStep | None = None
    metrics: bool = False  # sums of metrics, which lie between 0 and the number of people
    part: str = ""


A = TypeVar("A", Played, SumAnswer, Ranked, Received)


@dataclass
class Admission:
    """The door of a server. `open` says what is expected of whom, `admit` lets one message in.

    `refused` counts by sender and reason since the beginning, `declined` the answers in which nodes
    themselves say no. Unknown senders are counted under one name: there is no end to theirs. With
    `of_sums` members are aggregators, whose sums are in float64 and twice as long.
    """

    roster: Roster
    limits: Limits = Limits()
    clock: Callable[[], float] = time.monotonic
    of_sums: bool = False
    refused: Counter[tuple[str, Reason]] = field(default_factory=Counter)
    declined: Counter[tuple[str, str]] = field(default_factory=Counter)
    left: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._expected: Expected | None = None
        self._asked: frozenset[str] = frozenset()
        self._heard: set[str] = set()
        self._spoken: set[str] = set()
        self._tokens: dict[str, tuple[float, float]] = {}
        self._offences: Counter[str] = Counter()

    @property
    def dropped(self) -> frozenset[str]:
        """Offenders."""
        most = self.limits.offences
        return frozenset(name for name, count in self._offences.items() if count >= most)

    def remember(self, refused: Mapping[tuple[str, Reason], int], left: Iterable[str]) -> None:
        """Go on with what was counted before."""
        self.refused, self.left, self._offences = Counter(), set(left), Counter()
        for (name, reason), count in refused.items():
            self._count(name, reason, count)

    def _count(self, sender: str, reason: Reason, count: int = 1) -> None:
        name = sender if sender in self.roster else ""
        self.refused[name, reason] += count
        if name and reason not in HARMLESS:
            self._offences[name] += count

    @property
    def away(self) -> frozenset[str]:
        """Who is asked no more: offenders, and nodes whose owners have left."""
        return self.dropped | self.left

    def open(self, expected: Expected, asked: frozenset[str]) -> None:
        """From now on these answers of these nodes are let in, one of each."""
        self._expected, self._asked, self._heard = expected, asked, set()
        self._spoken = set()

    def close(self) -> None:
        """From now on everything comes too late."""
        self._asked = frozenset()

    @property
    def heard(self) -> frozenset[str]:
        """Who has answered, with yes or no."""
        return frozenset(self._heard)

    @property
    def all_heard(self) -> bool:
        """Whether everybody who was asked has answered; only those are ever heard."""
        return len(self._heard) >= len(self._asked)

    def admit(
        self, sender: str, message: Answer | Letter
    ) -> Played | SumAnswer | Ranked | Received | None:
        """A message that may be used; None where it is refused, or where the node itself declines.

        It never raises, whatever the message is.
        """
        try:
            return self._admitted(sender, message)
        except RefusedAnswerError as error:
            self._count(sender, error.reason)
        return None

    # Inside

    def _admitted(
        self, sender: str, message: Answer | Letter
    ) -> Played | SumAnswer | Ranked | Received | None:
        if sender not in self.roster:
            raise RefusedAnswerError("unknown sender", "A message comes from nobody on the roster.")
        if self._offences[sender] >= self.limits.offences:
            raise RefusedAnswerError("dropped", f"Node {shown(sender)} was dropped.")
        if sender in self._asked and sender not in self._spoken:
            self._spoken.add(sender)  # the first word to a question is free
        else:
            self._take_token(sender)
        answer = self._read(message)
        expected = self._expected
        if isinstance(answer, Refused):
            self._decline(sender, answer)
            return None
        if expected is None or sender not in self._asked:
            raise RefusedAnswerError("not asked", f"Node {shown(sender)} was not asked.")
        if not isinstance(answer, Received) and answer.moment != expected.moment:
            raise RefusedAnswerError(
                "another moment", "An answer is late, early or of another run."
            )
        if not isinstance(answer, expected.kind):
            raise RefusedAnswerError(
                "wrong kind",
                f"Node {shown(sender)} answered with a {type(answer).__name__} where a "
                f"{expected.kind.__name__} was asked for.",
            )
        if isinstance(answer, Received) and answer.deployment != expected.deployment:
            raise RefusedAnswerError("another moment", "A receipt is of another deployment.")
        if sender in self._heard:
            raise RefusedAnswerError("sent twice", f"Node {shown(sender)} answered twice.")
        people = self.roster[sender].people
        if isinstance(answer, Played):
            check_upload(answer, expected, people, self.limits.norm, self.of_sums)
        elif isinstance(answer, Ranked):
            check_metrics(answer, expected, people)
        elif isinstance(answer, SumAnswer) and answer.step != expected.step:
            raise RefusedAnswerError("another moment", "An answer is of another step of a sum.")
        self._heard.add(sender)
        return answer

    def _decline(self, sender: str, answer: Refused) -> None:
        if sender not in self._asked:
            raise RefusedAnswerError("not asked", f"Node {shown(sender)} was not asked.")
        if sender in self._heard:
            raise RefusedAnswerError("sent twice", f"Node {shown(sender)} answered twice.")
        self.declined[sender, answer.reason] += 1
        self._heard.add(sender)
        if answer.reason == "left":
            self.left.add(sender)

    def refuse(self, sender: str, reason: Reason) -> None:
        """Count a message that somebody else found wrong: the server of a secure sum."""
        self._count(sender, reason)
        self._heard.add(sender)

    def _take_token(self, sender: str) -> None:
        """One of the messages that a node may send: `burst` at once, then so many a second."""
        now = self.clock()
        left, since = self._tokens.get(sender, (float(self.limits.burst), now))
        gained = max(0.0, now - since) * self.limits.per_second
        left = min(float(self.limits.burst), left + gained)
        if left < 1.0:
            self._tokens[sender] = (left, now)
            raise RefusedAnswerError("too often", f"Node {shown(sender)} sends too often.")
        self._tokens[sender] = (left - 1.0, now)

    def _read(self, message: Answer | Letter) -> Answer:
        letter = message if isinstance(message, Letter) else to_letter(message)
        try:
            size = letter_bytes(letter)
        except (TypeError, AttributeError, ValueError) as error:
            raise RefusedAnswerError("unreadable", "A message cannot be measured.") from error
        most = self.limits.most_bytes * (2 if self.of_sums else 1)
        if size > most:
            raise RefusedAnswerError(
                "too large",
                f"A message has {size:,} bytes; {most:,} is the most.",
            )
        try:
            answer = from_letter(letter)
        except (TacitError, TypeError, AttributeError, ValueError) as error:
            raise RefusedAnswerError("unreadable", str(error)) from error
        if not isinstance(answer, Answer):
            raise RefusedAnswerError("wrong kind", "A node sent what only servers send.")
        return answer


def check_upload(
    answer: Played, expected: Expected, people: int, norm: float | None, of_sums: bool = False
) -> None:
    """Names, shapes, number types, finiteness, weight and norm of an upload.

    >>> asked = Expected(Played, Moment("shop", "one", 1), shapes={"items": (2,)})
    >>> upload = Played(asked.moment, 1, 1.0, {"items": np.array([1, np.nan], np.float32)})
    >>> check_upload(upload, asked, people=1, norm=None)
    Traceback (most recent call last):
    tacit.coordinator.admission.RefusedAnswerError: 'items' of an upload holds something else than \
finite numbers.
    """
    # a node whose people have nothing to send in this exchange says so with nobody
    if not 0 <= answer.clients <= people or (answer.clients == 0) != (answer.weight == 0.0):
        raise RefusedAnswerError(
            "wrong count", f"An upload counts {shown(answer.clients)} of {people} people."
        )
    most = expected.largest_weight
    if not 0.0 <= answer.weight < math.inf or (
        most is not None and answer.weight > most * answer.clients * SLACK
    ):
        raise RefusedAnswerError("wrong weight", f"An upload weighs {shown(answer.weight)}.")
    # a sum over people may have the digits in which it was added up
    wide = people > 1 or of_sums
    number_types = (expected.number_type, *(("float64",) if wide else ()))
    _check_arrays(answer.arrays, expected, number_types, may_be_empty=answer.clients == 0)
    _check_norm(answer, expected.bound, norm)


def _check_arrays(
    arrays: Arrays, expected: Expected, number_types: tuple[str, ...], may_be_empty: bool
) -> None:
    found, wanted = arrays.keys(), expected.shapes.keys()
    missing = wanted - found if expected.all_of_them else set()
    if found - wanted or (missing and not (may_be_empty and not found)):
        wrong = sorted(found ^ wanted)
        raise RefusedAnswerError("wrong names", f"An upload has or lacks {shown(wrong[0])}.")
    for name, array in arrays.items():
        if array.shape != tuple(expected.shapes[name]):
            raise RefusedAnswerError(
                "wrong shape",
                f"{shown(name)} of an upload has the shape {array.shape}; "
                f"{tuple(expected.shapes[name])} was asked for.",
            )
        if array.dtype.name not in number_types:
            raise RefusedAnswerError(
                "wrong number type",
                f"{shown(name)} of an upload is in {array.dtype.name}; {expected.number_type} was "
                "asked for.",
            )
        if not np.isfinite(array).all():
            raise RefusedAnswerError(
                "not finite",
                f"{shown(name)} of an upload holds something else than finite numbers.",
            )


def _check_norm(answer: Played, bound: Bound | None, norm: float | None) -> None:
    bounds = [] if bound is None else [bound]
    bounds += [] if norm is None else [Bound(2, norm)]
    for one in bounds:
        length = norm_of(answer.arrays, one.norm)
        if length > one.value * answer.clients * SLACK:
            raise RefusedAnswerError(
                "too long",
                f"An upload of {answer.clients} people has the norm {length:.4g}; "
                f"{one.value:.4g} for each is the most.",
            )


def check_metrics(answer: Ranked, expected: Expected, people: int) -> None:
    """Sums of metrics: one number for each name, between 0 and the number of people."""
    if answer.part != expected.part:
        raise RefusedAnswerError("another moment", "Somebody ranked another part.")
    if not 0 <= answer.people <= people:
        raise RefusedAnswerError(
            "wrong count", f"Metrics are of {shown(answer.people)} of {people} people."
        )
    wrong = sorted(answer.arrays.keys() ^ expected.shapes.keys())
    if wrong:
        raise RefusedAnswerError("wrong names", f"Metrics have or lack {shown(wrong[0])}.")
    for name, array in answer.arrays.items():
        if array.shape != ():
            raise RefusedAnswerError("wrong shape", f"The metric {shown(name)} is no number.")
        if array.dtype.kind != "f":
            raise RefusedAnswerError(
                "wrong number type", f"The metric {shown(name)} is in {array.dtype.name}."
            )
        if not 0.0 <= float(array) <= answer.people * SLACK:
            raise RefusedAnswerError(
                "not finite", f"The metric {shown(name)} lies outside of its people's number."
            )


def norm_of(arrays: Arrays, order: int = 2) -> float:
    """The norm of all arrays together, in float64.

    >>> norm_of({"a": np.array([3.0]), "b": np.array([[4.0]])})
    5.0
    """
    if order == 1:
        return float(sum(np.abs(one.astype(np.float64)).sum() for one in arrays.values()))
    return math.sqrt(sum(float((one.astype(np.float64) ** 2).sum()) for one in arrays.values()))


def letter_bytes(letter: Letter) -> int:
    """How many bytes a letter has, its names included and the transport's own left out.

    >>> letter_bytes(Letter("Received", {"format": 1}, {"a": np.zeros(2)}))
    39
    """
    named = len(letter.kind) + sum(len(name) + _value_bytes(v) for name, v in letter.values.items())
    return named + sum(len(name) + array.nbytes for name, array in letter.arrays.items())


def _value_bytes(value: Value) -> int:
    if isinstance(value, list):
        return sum(len(one) for one in value)
    return len(value) if isinstance(value, str | bytes) else 8
