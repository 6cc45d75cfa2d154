"""Recorded bands on real data: printed numbers under the paper's protocol, ours under clean."""

import os
from pathlib import Path

import pytest

from tacit.experiment.resolve import resolve
from tacit.experiment.run import run

needs_data = pytest.mark.skipif(
    "TACIT_DATA" not in os.environ, reason="TACIT_DATA names no folder with real datasets"
)

# (method, protocol): low and high of HR@10 against 99 candidates on ML-100K, seed 0. Printed under
# PFedRec's protocol: pfedrec 71.62 ± 0.83, fedmf 65.15 ± 1.16, mf 64.43. Chance is 0.1,
# popularity 0.41.
# The bands are for this seed: pfedrec under clean gave 0.584 with seed 2, outside of its band.
BANDS = {
    ("pfedrec", "paper"): (0.705, 0.735),
    ("pfedrec", "clean"): (0.53, 0.58),
    ("fedmf", "paper"): (0.63, 0.68),
    ("mf", "paper"): (0.665, 0.705),
    ("mf", "clean"): (0.63, 0.68),
    ("local_only", "paper"): (0.99, 1.0),
    ("local_only", "clean"): (0.06, 0.14),
}


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("method", "protocol"), BANDS)
def test_band(method: str, protocol: str, tmp_path: Path) -> None:
    experiment = resolve(method, data="ml-100k", protocol=protocol)
    result = run(experiment, tmp_path / "run", threads=2)
    low, high = BANDS[method, protocol]
    assert low <= result["metrics"]["sampled99"]["HR@10"] <= high


@needs_data
@pytest.mark.slow
def test_central_bars_match_their_anchors(tmp_path: Path) -> None:
    """Full-ranking HR@10 of EASE on ML-100K lies near 0.14, on FilmTrust (random) near 0.74."""
    one = run(resolve("ease", data="ml-100k"), tmp_path / "one")["metrics"]["full"]["HR@10"]
    two = run(resolve("ease", data="filmtrust"), tmp_path / "two")["metrics"]["full"]["HR@10"]
    assert 0.12 <= one <= 0.16
    assert 0.72 <= two <= 0.77
