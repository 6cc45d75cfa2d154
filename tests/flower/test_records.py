"""Letters travel as Flower's records: what comes out is what went in, or a refusal."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.flower.records import ARRAYS, VALUES, Limits, from_records, to_records
from tacit.wire.messages import (
    DTYPES,
    CatalogueUpdate,
    Letter,
    Moment,
    Play,
    Played,
    Refused,
    RunPlan,
    SumAnswer,
    SumRequest,
    from_letter,
    to_letter,
)

app = pytest.importorskip("flwr.app")
serde = pytest.importorskip("flwr.common.serde")

MOMENT = Moment("shop", "day-1", 3, 1)
PLAN = RunPlan("name = 'x'", "abc", users=5, rounds=3)
MESSAGES = [
    Play(MOMENT, PLAN, {"items": np.arange(6.0).reshape(2, 3)}),
    Play(MOMENT, RunPlan("", "", 1, 1, releases=4)),
    Played(MOMENT, 2, 1.5, {"a": np.float32([1, 2]), "b": np.zeros((0, 3)), "c": np.array(7.0)}),
    SumRequest(MOMENT, PLAN, "keys", "hits", b""),
    SumAnswer(MOMENT, "keys", b"\x00\xff"),
    CatalogueUpdate("shop", 2, "d", ["a", "ä"], [], {"text": np.eye(2, dtype=np.float32)}),
    Refused("left", "The owner has left."),
]


def carried(letter: Letter) -> Letter:
    """Through the bytes that Flower sends."""
    packed = serde.recorddict_to_proto(to_records(letter)).SerializeToString()
    proto = type(serde.recorddict_to_proto(app.RecordDict()))
    return from_records(serde.recorddict_from_proto(proto.FromString(packed)))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_message_arrives_as_it_was_sent(message: Any) -> None:
    letter = to_letter(message)
    came = carried(letter)
    assert (came.kind, came.values) == (letter.kind, letter.values)
    assert came.arrays.keys() == letter.arrays.keys()
    for name, array in letter.arrays.items():
        assert came.arrays[name].dtype == array.dtype
        assert came.arrays[name].shape == array.shape
        np.testing.assert_array_equal(came.arrays[name], array)
        assert came.arrays[name].flags.writeable
    assert type(from_letter(came)) is type(message)


@pytest.mark.parametrize("name", DTYPES)
def test_every_number_type_and_order_arrives(name: str) -> None:
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(name))
    for sent in (array, array.T, array.astype(array.dtype.newbyteorder(">"))):
        came = carried(Letter("Played", {}, {"a": sent})).arrays["a"]
        np.testing.assert_array_equal(came, sent)
        assert came.dtype == np.dtype(name)


def packed(array: np.ndarray, **changes: Any) -> Any:
    """One array as it travels, with something changed."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    fields = {
        "dtype": array.dtype.name,
        "shape": array.shape,
        "stype": "numpy.ndarray",
        "data": buffer.getvalue(),
    }
    return app.Array(**{**fields, **changes})


def message_with(array: Any, **values: Any) -> Any:
    records = {VALUES: app.ConfigRecord({"kind": "Played", **values})}
    return app.RecordDict({**records, ARRAYS: app.ArrayRecord({"a": array})})


GOOD = np.arange(4, dtype=np.float32)
HUGE_HEADER = (
    b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,), }".ljust(117)
    + b"\n"
    + bytes(16)
)


def headed(text: str, shape: tuple[int, ...], size: int) -> Any:
    """An array whose header says something else than numpy would write."""
    header = text.ljust(118).encode("latin1")
    data = b"\x93NUMPY\x01\x00\x76\x00" + header + bytes(size)
    return app.Array("float64", shape, "numpy.ndarray", data)


SIDES = "{'descr': '<f8', 'fortran_order': False, 'shape': %s}"


@pytest.mark.parametrize(
    "array",
    [
        headed("{", (1,), 8),  # Python's tokenizer, which numpy reads this with, raises its own
        headed("(" * 118, (1,), 8),
        headed("\xff", (1,), 8),
        headed("{1: ", (1,), 8),
        headed(SIDES % "1", (1,), 8),
        headed(SIDES % str((0, 2**62)), (0, 2**62), 0),  # no bytes, and yet too large for numpy
        headed(SIDES.replace("8", "4") % "(1,)", (1,), 8),
        packed(GOOD, shape=(5,)),
        packed(GOOD, shape=(2, 2)),
        packed(GOOD, shape=(-4,)),
        packed(GOOD, dtype="float64"),
        packed(GOOD, dtype="object"),
        packed(GOOD, dtype="complex64"),
        packed(GOOD, stype="pickle"),
        packed(GOOD, data=b""),
        packed(GOOD, data=packed(GOOD).data[:-1]),
        packed(GOOD, data=packed(GOOD).data + b"\x00"),
        packed(GOOD, data=HUGE_HEADER),
        packed(GOOD, shape=(99999999999,), data=HUGE_HEADER),
        packed(np.asfortranarray(np.ones((2, 3), np.float32))),
        packed(GOOD.astype(">f4"), dtype="float32"),
    ],
)
def test_an_array_that_is_not_what_it_declares_is_refused(array: Any) -> None:
    with pytest.raises(TacitError, match=r"The array 'a'"):
        from_records(message_with(array))


def test_what_is_larger_than_the_limits_is_not_decoded() -> None:
    letter = Letter("Played", {"one": "x" * 50}, {"a": GOOD, "b": GOOD})
    records = to_records(letter)
    assert from_records(records, Limits(fields=2, arrays=2, bytes=1000)).kind == "Played"
    for limits, said in (
        (Limits(fields=1), "2 fields; 1 is the most"),
        (Limits(arrays=1), "2 arrays; 1 is the most"),
        (Limits(bytes=40), "values of"),
        (Limits(bytes=200), "arrays of 288 bytes"),
    ):
        with pytest.raises(TacitError, match=said):
            from_records(records, limits)


def test_other_records_are_refused() -> None:
    good = app.ConfigRecord({"kind": "Played"})
    arrays = app.ArrayRecord({"a": packed(GOOD)})
    for records in (
        {},
        {ARRAYS: arrays},
        {VALUES: arrays},
        {VALUES: good, "more": good},
        {VALUES: good, ARRAYS: good},
        {VALUES: app.ConfigRecord({})},
        {VALUES: app.ConfigRecord({"kind": 3})},
        {VALUES: app.ConfigRecord({"kind": "Played", "list": [1, 2]})},
        {VALUES: good, ARRAYS: app.MetricRecord({"a": 1.0})},
    ):
        with pytest.raises(TacitError):
            from_records(app.RecordDict(records))
