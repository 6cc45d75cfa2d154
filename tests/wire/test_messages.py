"""Messages survive their way, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.wire import messages as m

MOMENT = m.Moment("shop", "run-1", 3, 1)
PLAN = m.RunPlan("name = 'fedmf'", "abc", users=5, rounds=3, releases=3)
ARRAYS = {"items": np.arange(6, dtype=np.float32).reshape(2, 3)}
ALL: list[m.Message] = [
    m.Play(MOMENT, PLAN, ARRAYS),
    m.SumRequest(MOMENT, PLAN, "mask", "update", b"plan", b"body", ARRAYS),
    m.Rank(MOMENT, replace(PLAN, releases=None), "valid", ARRAYS),
    m.Deliver(MOMENT, PLAN, True, ARRAYS),
    m.Give(MOMENT, PLAN, {"items.own": np.ones((2, 3))}),
    m.CatalogueUpdate("shop", 2, "abc", ["a", "b"], ["A", "B"], ARRAYS),
    m.Played(MOMENT, 1, 1.0, ARRAYS),
    m.SumAnswer(MOMENT, "keys", b"key"),
    m.Ranked(MOMENT, "test", 1, {"HR@10": np.array(1.0)}),
    m.Received("shop", 2),
    m.Refused("stale", "That round is over."),
]


def test_every_kind_is_tried() -> None:
    assert {type(one).__name__ for one in ALL} == set(m.KINDS)


@pytest.mark.parametrize("message", ALL, ids=lambda one: type(one).__name__)
def test_a_message_survives_its_way(message: m.Message) -> None:
    back = m.from_letter(m.to_letter(message))
    assert type(back) is type(message)
    for one in fields(message):
        if one.name != "arrays":
            assert getattr(back, one.name) == getattr(message, one.name)
            continue
        sent = message.arrays  # type: ignore[union-attr]
        assert back.arrays.keys() == sent.keys()  # type: ignore[union-attr]
        for name, array in sent.items():
            np.testing.assert_array_equal(back.arrays[name], array)  # type: ignore[union-attr]


@pytest.mark.parametrize("message", ALL, ids=lambda one: type(one).__name__)
def test_a_field_less_or_more_is_refused(message: m.Message) -> None:
    letter = m.to_letter(message)
    for name in letter.values:
        less = {key: value for key, value in letter.values.items() if key != name}
        with pytest.raises(TacitError):
            m.from_letter(m.Letter(letter.kind, less, letter.arrays))
        wrong = letter.values | {name: 1.5j}
        with pytest.raises(TacitError):
            m.from_letter(m.Letter(letter.kind, wrong, letter.arrays))  # type: ignore[arg-type]
    with pytest.raises(TacitError, match="strange"):
        m.from_letter(m.Letter(letter.kind, letter.values | {"history": "x"}, letter.arrays))


def test_arrays_of_objects_are_refused() -> None:
    letter = m.to_letter(ALL[0])
    with pytest.raises(TacitError, match="type"):
        m.from_letter(m.Letter("Play", letter.values, {"items": np.array([object()])}))
    with pytest.raises(TacitError, match="no arrays"):
        m.from_letter(replace(m.to_letter(ALL[-1]), arrays=ARRAYS))


def test_a_truth_value_is_no_number() -> None:
    letter = m.to_letter(m.Received("shop", 1))
    with pytest.raises(TacitError, match="version"):
        m.from_letter(replace(letter, values=letter.values | {"version": True}))
