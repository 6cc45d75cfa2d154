"""What is let in and what is not: every reason by hand, and thousands of damaged letters."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.coordinator.admission import Admission, Expected, Limits, Reason
from tacit.coordinator.roster import Member, Roster
from tacit.core.algorithm import Bound
from tacit.wire.messages import (
    KINDS,
    Answer,
    Letter,
    Moment,
    Play,
    Played,
    Ranked,
    Received,
    Refused,
    RunPlan,
    SumAnswer,
    to_letter,
)

NOW = Moment("shop", "one", 3)
SHAPES = {"items": (4, 2), "head": (3,)}
ROSTER = Roster((Member("ann", 0), Member("bob", 1, people=3), Member("cid", 2)))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def upload(**others: Any) -> Played:
    arrays = {name: np.full(shape, 0.25, np.float32) for name, shape in SHAPES.items()}
    return Played(**{"moment": NOW, "clients": 1, "weight": 1.0, "arrays": arrays} | others)


def door(limits: Limits | None = None, **others: Any) -> Admission:
    made = Admission(ROSTER, limits or Limits(offences=10**9, burst=10**9), Clock())
    expected = {"kind": Played, "moment": NOW, "shapes": SHAPES} | others
    made.open(Expected(**expected), frozenset(("ann", "bob")))
    return made


def changed(name: str, value: np.ndarray) -> Played:
    return upload(arrays={**upload().arrays, name: value})


def reasons(admission: Admission) -> list[Reason]:
    return [reason for _, reason in admission.refused.elements()]


def test_an_upload_as_it_was_asked_for_is_let_in_once() -> None:
    admission = door()
    first = admission.admit("ann", to_letter(upload()))
    assert isinstance(first, Played)
    assert first.arrays["items"].shape == (4, 2)
    assert admission.admit("ann", upload()) is None
    assert reasons(admission) == ["sent twice"]
    assert admission.heard == {"ann"}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (upload(moment=Moment("shop", "one", 2)), "another moment"),
        (upload(moment=Moment("shop", "one", 3, 1)), "another moment"),
        (upload(moment=Moment("shop", "two", 3)), "another moment"),
        (upload(moment=Moment("bank", "one", 3)), "another moment"),
        (upload(clients=2), "wrong count"),
        (upload(clients=-1), "wrong count"),
        (upload(clients=0), "wrong count"),
        (upload(weight=0.0), "wrong count"),
        (upload(weight=1.5), "wrong weight"),
        (upload(weight=-1.0), "wrong weight"),
        (upload(weight=float("nan")), "wrong weight"),
        (upload(weight=float("inf")), "wrong weight"),
        (upload(arrays={}), "wrong names"),
        (upload(arrays={**upload().arrays, "more": np.zeros(1, np.float32)}), "wrong names"),
        (changed("items", np.zeros((2, 4), np.float32)), "wrong shape"),
        (changed("items", np.zeros((4, 2), np.float64)), "wrong number type"),
        (changed("head", np.array([1.0, np.nan, 0.0], np.float32)), "not finite"),
        (changed("head", np.array([1.0, np.inf, 0.0], np.float32)), "not finite"),
        (changed("head", np.array([9.0, 9.0, 0.0], np.float32)), "too long"),
        (SumAnswer(NOW, "keys", b""), "wrong kind"),
        (Received("shop", 1), "wrong kind"),
        (Ranked(NOW, "valid", 1), "wrong kind"),
        (Play(NOW, RunPlan("", "", 1, 1)), "wrong kind"),
        (Letter("Played", {"format": 2}, {}), "unreadable"),
        (Letter("Nothing", {"format": 1}, {}), "unreadable"),
        (Letter("Played", {"format": 1}, {"a": np.zeros(3)}), "unreadable"),
        (Letter("Played", {"format": 1}, {"a": [1.0]}), "unreadable"),  # type: ignore[dict-item]
        (Letter("Refused", {"format": 1, "reason": "tired", "sentence": ""}, {}), "unreadable"),
    ],
)
def test_every_way_to_be_wrong_has_its_reason(message: Any, reason: Reason) -> None:
    admission = door(bound=Bound(2, 3.0))
    assert admission.admit("ann", message) is None
    assert reasons(admission) == [reason]
    assert admission.heard == frozenset()
    assert admission.admit("ann", upload()) is not None


def test_many_people_may_send_more_than_one() -> None:
    admission = door(bound=Bound(2, 1.0))
    long = changed("head", np.array([1.5, 1.5, 0.0], np.float32))
    of_three = Played(NOW, 3, 3.0, long.arrays)
    assert admission.admit("ann", of_three) is None
    assert admission.admit("bob", of_three) is not None
    assert reasons(admission) == ["wrong count"]


def test_a_limit_of_the_server_bounds_norms_where_the_method_does_not() -> None:
    admission = door(Limits(norm=0.5))
    assert admission.admit("ann", upload()) is None
    assert reasons(admission) == ["too long"]


def test_a_message_is_measured_before_it_is_read() -> None:
    admission = door(Limits(most_bytes=1000))
    assert admission.admit("ann", changed("items", np.zeros((40, 40), np.float32))) is None
    assert reasons(admission) == ["too large"]


def test_strangers_and_those_who_were_not_asked_are_not_let_in() -> None:
    admission = door()
    assert admission.admit("eve", upload()) is None
    assert admission.admit("mallory", upload()) is None
    assert admission.admit("cid", upload()) is None
    assert admission.refused == {("", "unknown sender"): 2, ("cid", "not asked"): 1}
    admission.close()
    assert admission.admit("ann", upload()) is None
    assert admission.refused["ann", "not asked"] == 1


def test_offenders_are_dropped_and_repeated_messages_are_no_offence() -> None:
    admission = door(Limits(offences=3, burst=100))
    for _ in range(2):
        admission.admit("ann", changed("head", np.full(3, np.nan, np.float32)))
    assert admission.admit("ann", upload()) is not None
    for _ in range(5):
        admission.admit("ann", upload())
    assert admission.away == frozenset()
    admission.admit("ann", Letter("Nothing", {"format": 1}, {}))
    assert admission.dropped == {"ann"}
    assert admission.admit("ann", upload()) is None
    assert admission.refused["ann", "dropped"] == 1


def test_whoever_sends_too_often_has_to_wait() -> None:
    admission = door(Limits(offences=100, burst=2, per_second=0.5))
    clock: Any = admission.clock
    for _ in range(5):  # the first answer is free, two more may come at once
        admission.admit("ann", upload())
    assert admission.refused == {("ann", "sent twice"): 2, ("ann", "too often"): 2}
    clock.now += 2.0
    admission.admit("ann", upload())
    assert admission.refused["ann", "sent twice"] == 3
    admission.open(Expected(Played, NOW, shapes=SHAPES), frozenset(["ann"]))
    assert admission.admit("ann", upload()) is not None


def test_a_node_that_declines_is_counted_by_what_it_says() -> None:
    admission = door()
    assert admission.admit("ann", Refused("no data", "Nothing yet.")) is None
    assert admission.admit("bob", Refused("left", "The owner has left.")) is None
    assert admission.admit("cid", Refused("failed", "No.")) is None
    assert admission.declined == {("ann", "no data"): 1, ("bob", "left"): 1}
    assert admission.refused == {("cid", "not asked"): 1}
    assert admission.away == {"bob"}


def test_metrics_are_numbers_between_nobody_and_everybody() -> None:
    def ranked(value: Any, people: int = 1, part: str = "valid") -> Ranked:
        return Ranked(NOW, part, people, {"full:HR@10": np.asarray(value)})  # type: ignore[arg-type]

    expected = {"kind": Ranked, "part": "valid", "shapes": {"full:HR@10": ()}}
    for message in (
        ranked(1.5),
        ranked(-0.1),
        ranked(float("nan")),
        ranked([0.5]),
        ranked(1),
        ranked(0.5, people=2),
        ranked(0.5, part="test"),
        Ranked(NOW, "valid", 1, {}),  # a name too few, too many, or one that nobody asked for
        Ranked(NOW, "valid", 1, {"full:HR@10": np.array(0.5), "forged": np.array(1.0)}),
        Ranked(NOW, "valid", 1, {"\x1b[2Jforged" * 1000: np.array(0.5)}),
    ):
        admission = door(**expected)
        assert admission.admit("ann", message) is None, message
        assert len(reasons(admission)) == 1
    assert door(**expected).admit("ann", ranked(0.5)) is not None


# Damaged letters

GOOD: list[Answer] = [
    upload(),
    SumAnswer(NOW, "mask", b"\x05abc"),
    Ranked(NOW, "valid", 1, {"full:HR@10": np.array(0.5)}),
    Received("shop", 2),
    Refused("failed", "It failed."),
]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.lists(st.text(max_size=2), max_size=2),
    st.just(object()),
)
ARRAYS = st.sampled_from(
    [
        np.zeros((4, 2), np.float64),
        np.zeros((2, 4), np.float32),
        np.full((4, 2), np.nan, np.float32),
        np.full((4, 2), 3e38, np.float32),
        np.zeros((4, 2), np.int64),
        np.zeros((4, 2), np.complex128),
        np.array([["a", None]], dtype=object),
        np.zeros((0,), np.float32),
        np.zeros((4, 2, 1), np.float32),
        np.array(np.inf),
        [0.0],
        None,
    ]
)


@st.composite
def damaged(draw: Any) -> Letter:
    """A letter that was fine, with up to three things changed in it."""
    letter = to_letter(draw(st.sampled_from(GOOD)))
    kind, values, arrays = letter.kind, dict(letter.values), dict(letter.arrays)
    for _ in range(draw(st.integers(1, 3))):
        what = draw(st.sampled_from(["value", "lose", "more", "array", "kind", "cut"]))
        names = sorted(values)
        if what == "value" and names:
            values[draw(st.sampled_from(names))] = draw(JUNK)
        elif what == "lose" and names:
            values.pop(draw(st.sampled_from(names)))
        elif what == "more":
            values[draw(st.text(max_size=5))] = draw(JUNK)
        elif what == "array":
            arrays[draw(st.sampled_from(["items", "head", "new", ""]))] = draw(ARRAYS)
        elif what == "kind":
            kind = draw(st.one_of(st.sampled_from(sorted(KINDS)), st.text(max_size=6)))
        elif arrays:
            name = draw(st.sampled_from(sorted(arrays)))
            if isinstance(arrays[name], np.ndarray) and arrays[name].ndim:
                arrays[name] = arrays[name][:-1]
    return Letter(kind, values, arrays)


def is_fine(letter: Letter) -> bool:
    """Whether it says what one of the good letters says: then it is no damaged one."""
    for one in map(to_letter, GOOD):
        same = (letter.kind, letter.values.keys()) == (one.kind, one.values.keys())
        if same and letter.arrays.keys() == one.arrays.keys():
            return True
    return letter.kind == "Refused"


def try_letter(letter: Letter) -> None:
    admission = door(bound=Bound(2, 3.0))
    kept = copy.deepcopy((admission._expected, admission._asked))
    answer = admission.admit("ann", letter)
    assert (admission._expected, admission._asked) == kept
    counted = sum(admission.refused.values()) + sum(admission.declined.values())
    if answer is not None:  # what is let in is exactly an upload that was asked for
        assert isinstance(answer, Played)
        assert is_fine(letter)
        assert {name: a.shape for name, a in answer.arrays.items()} == SHAPES
        assert all(np.isfinite(a).all() for a in answer.arrays.values())
        assert (answer.moment, answer.clients, counted) == (NOW, 1, 0)
        return
    assert counted == 1
    assert admission.admit("bob", upload()) is not None  # and the door works as before


QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@given(damaged())
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=QUIET)
def test_damaged_letters_are_counted_and_change_nothing(letter: Letter) -> None:
    try_letter(letter)


@pytest.mark.slow
@given(damaged())
@settings(max_examples=10_000, deadline=None, suppress_health_check=QUIET)
def test_ten_thousand_damaged_letters_are_counted_and_change_nothing(letter: Letter) -> None:
    try_letter(letter)


def test_no_finite_number_of_one_node_overflows_a_sum() -> None:
    """An infinite sum would end the run, and end it again after every restart."""
    largest = np.finfo(np.float32).max
    for value in (largest, -largest, largest / 1e6):
        admission = door()
        huge = changed("items", np.full((4, 2), value, np.float32))
        assert admission.admit("ann", huge) is None
        assert reasons(admission) == ["too long"]
