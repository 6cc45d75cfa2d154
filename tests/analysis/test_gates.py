"""Gates by hand, and of runs that have trained ones, untouched ones and none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.analysis.finished import finished_runs
from tacit.analysis.gates import gate_means, gates
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.parts.guidance import AdaptiveGuidance


def test_gates_of_two_users_by_hand():
    own_UID = torch.tensor([[[1.0], [2.0]], [[0.0], [0.0]]])
    state = State(
        {"items": torch.tensor([[3.0], [1.0]])},
        {
            "items.own": own_UID,
            "gate.w": torch.tensor([[1.0, -1.0, 0.5], [0.0, 0.0, 0.0]]),
            "gate.b": torch.tensor([0.25, 0.0]),
        },
    )
    # user 0: P - G + (P - G) / 2 + 1/4 is -2.75 for the first item and 1.75 for the second
    means = gate_means(AdaptiveGuidance(), state, np.array([False, True]))
    assert means.logit_popular_U == pytest.approx([1.75, 0.0])
    assert means.logit_all_U == pytest.approx([-0.5, 0.0])

    def sigmoid(x: float) -> float:
        return 1 / (1 + np.exp(-x))

    assert means.value_popular_U == pytest.approx([sigmoid(1.75), 0.5])
    assert means.value_all_U == pytest.approx([(sigmoid(-2.75) + sigmoid(1.75)) / 2, 0.5])
    assert not means.untouched


def test_trained_and_untouched_gates(runs):
    finding = gates(finished_runs([runs / "gated", runs / "kept_half"]))
    rows = finding.tables[0].records()
    trained = [row for row in rows if row["run"] == "gated"]
    untouched = [row for row in rows if row["run"] == "kept_half"]
    assert [row["A and B"] for row in trained] == [
        "distinct, followers",
        "cold, warm 10%",
        "cold, warm 20%",
        "cold, warm 30%",
    ]
    assert [row["items"] for row in trained] == ["popular", "all", "all", "all"]
    assert [row["users"] for row in trained] == [100, 30, 60, 90]
    for row in trained:
        assert row["gate A"] != 0.5
        expected = 100 * (row["gate B"] - row["gate A"]) / row["gate A"]
        assert row["gate A to B"] == pytest.approx(expected)
    for row in untouched:
        assert (row["gate A"], row["gate A to B"], row["logit A to B"]) == (0.5, 0.0, None)
    said = " ".join(finding.sentences)
    assert "All gates of kept_half are exactly 0.5" in said
    assert "All gates of gated" not in said
    assert "too few for 300 and 500 distinct ones" in said


@pytest.mark.parametrize("name", ["pfedrec", "popularity"])
def test_runs_without_gates(runs, name):
    with pytest.raises(TacitError, match=f"{name} has no gates"):
        gates(finished_runs([runs / name]))
