"""The `tuned` presets are those that `make tune` found best on validation."""

import json
from pathlib import Path

import pytest

from tacit.methods import METHODS

ROWS = json.loads((Path(__file__).parents[1] / "docs" / "results" / "tuning.json").read_text())


@pytest.mark.parametrize("method", sorted({row["method"] for row in ROWS}))
def test_the_tuned_preset_is_the_best_row(method: str) -> None:
    tried = [row for row in ROWS if row["method"] == method]
    best = max(tried, key=lambda row: row["validation_ndcg@10"])
    preset = METHODS[method].presets["tuned"]
    assert (preset["rate"], preset["per_item"]) == (best["rate"], best["per_item"])


def test_every_method_had_as_many_tries() -> None:
    counts = {row["method"]: 0 for row in ROWS}
    for row in ROWS:
        counts[row["method"]] += 1
    assert len(set(counts.values())) == 1
