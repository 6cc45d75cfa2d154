"""A dataset in numbers, counted by hand."""

import json
import os

import numpy as np
import pytest

from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.describe import describe
from tacit.data.interactions import Interactions
from tacit.data.load import load
from tacit.data.rules import Duplicates


def test_by_hand() -> None:
    # a: x at 1, y at 4, x again at 4 (the latest time twice); b: x at 9; c: y at 2, z at 3.
    interactions = Interactions.from_ids(
        list("aaabcc"), list("xyxxyz"), time=[1, 4, 4, 9, 2, 3], value=[1] * 6
    )
    table = FeatureTable(np.ones((3, 5)), np.array([True, False, False]))
    dataset = Dataset(
        "few", interactions, Modalities({"text": table}), {"title": ("X", "", "Z")}, notes=("mind",)
    )
    about = describe(Duplicates("keep").apply(dataset))
    assert about["users"] == 3
    assert about["items"] == 3
    assert about["interactions"] == 6
    assert about["sparsity"] == pytest.approx(1 - 5 / 9)
    assert about["rows_per_user"] == {"min": 1, "median": 2.0, "max": 3}
    assert about["duplicates"] == 1
    assert (about["has_time"], about["has_ratings"], about["has_labels"]) == (True, True, False)
    assert about["tied_latest_share"] == pytest.approx(1 / 3)
    assert about["modalities"] == {"text": {"width": 5, "present": pytest.approx(1 / 3)}}
    assert about["texts"] == {"title": pytest.approx(2 / 3)}
    assert about["steps"][0]["after"] == {"users": 3, "items": 3, "interactions": 6}
    assert about["notes"] == ["mind"]
    assert json.loads(json.dumps(about)) == about


def test_without_time() -> None:
    about = describe(Dataset("few", Interactions.from_ids(["a"], ["x"])))
    assert about["tied_latest_share"] is None
    assert about["sparsity"] == 0.0


@pytest.mark.skipif(
    not os.environ.get("TACIT_DATA"), reason="TACIT_DATA names no folder with real datasets"
)
@pytest.mark.parametrize(
    ("name", "share", "rows"),
    [
        ("ml-100k", 0.44, None),
        ("amazon-video", 0.27, {"min": 5, "median": 6.0, "max": 277}),
        ("amazon-video-10", 0.26, {"min": 10, "median": 13.0, "max": 277}),
    ],
)
def test_measured_before(name: str, share: float, rows: dict[str, float] | None) -> None:
    about = describe(load(name))
    assert about["tied_latest_share"] == pytest.approx(share, abs=0.005)
    assert rows is None or about["rows_per_user"] == rows
