"""Damaged messages as Flower delivers them: none crashes the server, and each is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.coordinator.admission import Admission, Expected, Limits
from tacit.coordinator.roster import Roster
from tacit.flower.in_process import InProcessGrid
from tacit.flower.records import ARRAYS, KIND, VALUES, to_records
from tacit.flower.transport import FlowerTransport
from tacit.wire.messages import DTYPES, KINDS, Moment, Play, Played, RunPlan, to_letter

app = pytest.importorskip("flwr.app")

InProcessGrid(None, {})  # tells Flower in which run messages are made

NOW = Moment("shop", "one", 2)
SHAPE = (2, 3)
REQUEST = Play(NOW, RunPlan("", "", users=2, rounds=3))


def upload() -> Any:
    return to_records(to_letter(Played(NOW, 1, 1.0, {"items": np.ones(SHAPE, np.float32)})))


# Numbers, words, bytes and lists of them: all that a record of values can hold.
PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.lists(st.text(max_size=2), max_size=2),
    st.lists(st.integers(-1, 1), min_size=1, max_size=2),
)
SIDES = st.lists(st.one_of(st.integers(-2, 4), st.sampled_from([2**31, 2**62, 2**70])), max_size=70)


@st.composite
def damaged_array(draw: Any) -> Any:
    """An array as it travels, with its declaration or its bytes changed."""
    good = upload()[ARRAYS]["items"]
    fields = {"dtype": good.dtype, "shape": good.shape, "stype": good.stype, "data": good.data}
    for _ in range(draw(st.integers(1, 2))):
        what = draw(st.sampled_from(["dtype", "shape", "stype", "cut", "header", "bytes"]))
        if what == "dtype":
            fields["dtype"] = draw(st.one_of(st.sampled_from(DTYPES), st.text(max_size=5)))
        elif what == "shape":
            fields["shape"] = tuple(draw(SIDES))
        elif what == "stype":
            fields["stype"] = draw(st.text(max_size=5))
        elif what == "cut":
            fields["data"] = fields["data"][: draw(st.integers(0, 160))]
        elif what == "header":
            text = draw(st.text("{}()[]'\":,\\#- 0n\n", max_size=20)).ljust(118).encode()
            fields["data"] = good.data[:10] + text + good.data[128:]
        else:
            fields["data"] = draw(st.binary(max_size=40))
    return app.Array(**fields)


@st.composite
def damaged(draw: Any) -> Any:
    """The records of a good upload, with up to three things changed in them."""
    good = upload()
    values, arrays, others = dict(good[VALUES]), dict(good[ARRAYS]), {}
    for _ in range(draw(st.integers(1, 3))):
        what = draw(st.sampled_from(["value", "lose", "more", "array", "kind", "record"]))
        if what == "value" and values:
            values[draw(st.sampled_from(sorted(values)))] = draw(PLAIN)
        elif what == "lose" and values:
            values.pop(draw(st.sampled_from(sorted(values))))
        elif what == "more":
            values[draw(st.text(max_size=5))] = draw(PLAIN)
        elif what == "array":
            arrays[draw(st.sampled_from(["items", "new", ""]))] = draw(damaged_array())
        elif what == "kind":
            values[KIND] = draw(st.one_of(st.sampled_from(sorted(KINDS)), st.text(max_size=6)))
        else:
            others[draw(st.sampled_from(["more", VALUES, ARRAYS]))] = app.MetricRecord({"a": 1})
    records = {VALUES: app.ConfigRecord(values), ARRAYS: app.ArrayRecord(arrays)}
    return app.RecordDict({**records, **others})


class Reply:
    def __init__(self, content: Any, node: int) -> None:
        self.metadata = type("M", (), {"reply_to_message_id": "m", "src_node_id": node})
        self.content, self.has_error = content, lambda: False


class OneReply:
    def __init__(self, content: Any) -> None:
        self.content = content

    def get_node_ids(self) -> list[int]:
        return [5]

    def push_messages(self, messages: Any) -> list[str]:
        return ["m" for _ in messages]

    def pull_messages(self, numbers: Any) -> list[Any]:
        return [Reply(self.content, 5)]


def try_records(records: Any) -> None:
    door = Admission(Roster.of(["ann", "bob"]), Limits())
    door.open(Expected(Played, NOW, shapes={"items": SHAPE}), frozenset(("ann", "bob")))
    transport = FlowerTransport(OneReply(records), {"ann": 5}, pause=0.0)
    [(name, message)] = transport.ask({"ann": REQUEST}, 5.0)
    answer = door.admit(name, message)
    counted = sum(door.refused.values()) + sum(door.declined.values())
    if answer is not None:  # the change is one that leaves it an upload as it was asked for
        assert isinstance(answer, Played)
        assert [a.shape for a in answer.arrays.values()] in ([SHAPE], [])
        assert all(np.isfinite(a).all() for a in answer.arrays.values())
        assert (answer.moment, counted) == (NOW, 0)
        return
    assert counted == 1
    [(_, letter)] = FlowerTransport(OneReply(upload()), {"bob": 5}).ask({"bob": REQUEST}, 5.0)
    assert door.admit("bob", letter) is not None  # and the door works as before


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(damaged())
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=QUIET)
def test_damaged_records_are_counted_and_change_nothing(records: Any) -> None:
    try_records(records)


@pytest.mark.slow
@given(damaged())
@settings(max_examples=10_000, deadline=None, derandomize=True, suppress_health_check=QUIET)
def test_ten_thousand_damaged_records_are_counted_and_change_nothing(records: Any) -> None:
    try_records(records)
