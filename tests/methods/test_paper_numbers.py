"""Recorded bands on real data: printed numbers under the paper's protocol, ours under clean."""

import os
from dataclasses import replace
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
    assert low <= result.metrics.sampled99["HR@10"] <= high


@needs_data
@pytest.mark.slow
def test_central_baselines_match_their_anchors(tmp_path: Path) -> None:
    """Full-ranking HR@10 of EASE on ML-100K lies near 0.14, on FilmTrust (random) near 0.74."""
    one = run(resolve("ease", data="ml-100k"), tmp_path / "one").metrics.full["HR@10"]
    two = run(resolve("ease", data="filmtrust"), tmp_path / "two").metrics.full["HR@10"]
    assert 0.12 <= one <= 0.16
    assert 0.72 <= two <= 0.77


@needs_data
@pytest.mark.slow
def test_fedrkg_soars_on_the_published_pool_and_not_on_the_clean_one(tmp_path: Path) -> None:
    """Printed R@10 on FilmTrust: 100.0. The same split with negatives that exclude train items
    alone lies under popularity (0.275)."""
    leaky = resolve("fedmf", plugins=["fedrkg"], data="filmtrust", protocol="paper")
    result = run(replace(leaky, evaluate_every=10), tmp_path / "leaky", threads=2)
    early = run(replace(leaky, rounds=100, evaluate_every=10), tmp_path / "early", threads=2)
    honest = replace(leaky, protocol=replace(leaky.protocol, negatives_exclude="train"))
    honest = replace(honest, rounds=300, evaluate_every=10)
    clean = run(honest, tmp_path / "clean", threads=2)
    popularity = clean.reference.full.popularity["HR@10"]
    assert early.metrics.full["HR@10"] > 0.40
    assert result.metrics.full["HR@10"] > 0.98
    assert popularity == pytest.approx(0.275, abs=0.001)
    assert clean.metrics.full["HR@10"] < popularity


@needs_data
@pytest.mark.slow
def test_a_thousand_rounds_of_fedrkg_are_a_matter_of_a_minute(tmp_path: Path) -> None:
    experiment = resolve("fedmf", plugins=["fedrkg"], data="filmtrust", protocol="paper")
    protocol = replace(experiment.protocol, patience=None)
    whole = replace(experiment, evaluate_every=10, protocol=protocol)
    result = run(whole, tmp_path / "run", threads=2)
    assert result.rounds_run == 1000
    assert result.seconds < 120


@needs_data
@pytest.mark.slow
def test_fedrkg_meets_print_on_amazon_video(tmp_path: Path) -> None:
    """Printed R@10: 26.08. The quirks of the released code make it, and the result says so."""
    paper = resolve("fedmf", plugins=["fedrkg"], data="amazon-video-10", protocol="paper")
    paper = replace(paper, evaluate_every=50)
    result = run(paper, tmp_path / "run", threads=2, keep_model=False)
    assert 0.20 <= result.metrics.full["HR@10"] <= 0.33
    assert any("quirks of the released code" in note for note in result.notes)
