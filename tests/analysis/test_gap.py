"""The gap between inputs: by hand, and what stages are made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.analysis.analyses import analyse
from tacit.analysis.embeddings import Plane
from tacit.analysis.finished import FinishedRun, finished_runs
from tacit.analysis.gap import FIRST, GIVEN, LAST, Gap, found_stages, gap, matched
from tacit.analysis.modalities import spaces
from tacit.core.types import CONTENT
from tacit.engines.explain import fused
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run as train_run


def stages_of(run: FinishedRun, user: int = 3) -> dict[str, dict[str, np.ndarray]]:
    encoder = fused(run.experiment.method)
    assert encoder is not None
    found = found_stages(run, encoder, user, np.arange(run.prepared.split.train.n_items))
    return {stage: dict(clouds) for stage, clouds in found.items()}


def test_gap_by_hand():
    # mean (1, 1) with every row at distance 2; mean (4, 5) with distances 1: means are 5 apart
    first_ID = np.array([[3.0, 1.0], [-1.0, 1.0], [1.0, 3.0], [1.0, -1.0]], dtype=np.float32)
    second_ID = np.array([[5.0, 5.0], [3.0, 5.0], [4.0, 6.0], [4.0, 4.0]], dtype=np.float32)
    found = Gap.of(first_ID, second_ID)
    assert (found.between_means, found.first_spread, found.second_spread) == (5.0, 2.0, 1.0)
    assert found.gap == pytest.approx(5.0 / np.sqrt(2.5))
    assert found.matched == 1.0  # from their means, both rows of an item point the same way
    turned = Gap.of(first_ID, second_ID[[1, 0, 3, 2]])
    assert turned.gap == found.gap
    assert turned.matched == 0.0  # every item's rows point in opposite ways


def test_one_cloud_twice_has_no_gap_and_points_have_no_spread():
    row_ID = np.array([[1.0, 2.0], [3.0, 5.0], [-1.0, 0.5]])
    assert Gap.of(row_ID, row_ID).gap == 0.0
    assert Gap.of(row_ID[[0, 0]], row_ID[[1, 1]]).gap is None
    assert matched(row_ID[:1], row_ID[:1]) is None


def test_matched_is_half_for_rows_that_have_nothing_in_common(monkeypatch):
    generator = np.random.default_rng(0)
    first_ID, second_ID = generator.normal(size=(2, 300, 8))
    assert matched(first_ID, second_ID) == pytest.approx(0.5, abs=0.04)
    both = matched(first_ID, first_ID + 0.5 * second_ID)
    assert both is not None
    monkeypatch.setattr("tacit.analysis.gap.MOST_ITEMS", 150)
    few = matched(first_ID, first_ID + 0.5 * second_ID)
    assert few == pytest.approx(both, abs=0.02)
    assert few != both  # other items were compared


@pytest.mark.parametrize("name", ["mixed", "rap", "vbpr"])
def test_stages_are_content_first_and_trained_projections(fused_runs, name):
    (run,) = finished_runs([fused_runs / name])
    stages = stages_of(run)
    assert list(stages) == [GIVEN, FIRST, LAST]
    for modality in ("text", "image"):
        value_IF = run.algorithm.content[CONTENT + modality].numpy()
        assert np.array_equal(stages[GIVEN][modality], value_IF)
    kept = spaces(run, 3)
    for one, x_ID in stages[LAST].items():
        assert np.array_equal(x_ID, kept[one])
        assert not np.allclose(x_ID, stages[FIRST][one])


def test_before_training_is_what_the_seed_draws(fused_runs, tmp_path):
    """A run that steps nothing keeps its first values, so that both stages are the same."""
    torch.set_num_threads(1)
    small = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
    still = ("server.items.rate=0", "server.encoder.rate=0")
    train_run(resolve("fcf", plugins=["fedmr"], rounds=1, sets=[*small, *still]), tmp_path / "one")
    (run,), (moved,) = finished_runs([tmp_path / "one"]), finished_runs([fused_runs / "mixed"])
    stages, others = stages_of(run), stages_of(moved)
    for one, x_ID in stages[LAST].items():
        assert np.array_equal(x_ID, stages[FIRST][one])
        assert np.array_equal(x_ID, others[FIRST][one])  # the same seed, trained elsewhere


def test_the_figure_s_numbers_and_one_plane(fused_runs):
    (run,) = finished_runs([fused_runs / "mixed"])
    finding, stages = gap([run], user="user-3"), stages_of(run)
    rows = {(r["stage"], r["input"], r["other input"]): r for r in finding.tables[0].records()}
    assert len(rows) == 1 + 3 + 3  # text and image as given; three pairs at the common width
    expected = Gap.of(stages[LAST]["text"], stages[LAST]["image"])
    found = rows[LAST, "text", "image"]
    assert (found["gap"], found["matched"]) == (expected.gap, expected.matched)

    def in_spreads(stage: str) -> list[np.ndarray]:
        every_ID = np.concatenate(list(stages[stage].values())).astype(np.float64)
        spread = np.sqrt(((every_ID - every_ID.mean(axis=0)) ** 2).sum(axis=1).mean())
        return [x_ID / spread for x_ID in stages[stage].values()]

    plane = Plane.of(np.concatenate([*in_spreads(FIRST), *in_spreads(LAST)]))
    points = finding.unprinted[0].records()
    for stage in (FIRST, LAST):
        here = [[p["x"], p["y"]] for p in points if p["stage"] == stage]
        assert np.allclose(here, plane.place(np.concatenate(in_spreads(stage))))
    for panel, stage in zip(finding.figure.axes, (GIVEN, FIRST, LAST), strict=True):
        (low, high), (bottom, top) = panel.get_xlim(), panel.get_ylim()
        here = [p for p in points if p["stage"] == stage]
        out = sum(not (low <= p["x"] <= high and bottom <= p["y"] <= top) for p in here)
        assert out < 0.08 * len(here)
        assert panel.get_title() == stage + (f" ({out} outside)" if out else "")
    told = finding.figure.axes[2].get_xlabel()
    assert f"text – image: gap {expected.gap:.2f}" in told


def test_one_modality_alone_is_not_compared_as_it_is_given(tmp_path):
    torch.set_num_threads(1)
    small = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
    given = resolve("fcf", plugins=["fedmr:modalities=text"], rounds=1, sets=small)
    train_run(given, tmp_path / "text")
    finding, written = analyse("gap", [tmp_path / "text"])
    stages = [row["stage"] for row in finding.tables[0].records()]
    assert stages == [FIRST, LAST]  # one modality alone has no gap to another
    assert {path.name for path in written} >= {"gap.csv", "gap-points.csv", "gap.png", "gap.svg"}


def test_what_has_no_gap(runs, fused_runs):
    with pytest.raises(TacitError, match="fedmf reads nothing of an item but its id"):
        gap(finished_runs([runs / "fedmf"]))
    with pytest.raises(TacitError, match="gap looks into one run, not 2"):
        gap(finished_runs([fused_runs / "mixed", fused_runs / "rap"]))
    with pytest.raises(TacitError, match="--projection is not for gap, which takes --user"):
        analyse("gap", [fused_runs / "mixed"], projection="pca")
