"""Central systems under a cold split: who knows items by touches alone is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run

CONTROLS = ("popularity", "random", "unseen_first", "mean_profile")
BY_TOUCHES = ("ease", "pure_svd", "edlae", "slim", "markov", "slist", "bprmf", "mf", "ials")


@pytest.mark.parametrize("name", BY_TOUCHES)
def test_a_system_that_would_score_all_untouched_items_alike_is_refused(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(TacitError, match="ranks items by what it learns from those who"):
        run(resolve(name, data="planted", split="cold", rounds=1), tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_not(name: str, tmp_path: Path) -> None:
    record = run(resolve(name, data="planted", split="cold"), tmp_path / "run")
    assert record.cold is not None
