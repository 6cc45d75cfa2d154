"""Two clouds: their distance by hand, and one plane and one scale for all panels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.analysis.clouds import Distance, clouds, replay
from tacit.analysis.embeddings import Plane
from tacit.analysis.finished import finished_runs
from tacit.errors import TacitError


def test_distance_by_hand():
    # warm: mean (1, 1), every row at distance 2; cold: mean (4, 5), distances 1 and 1
    warm_WD = np.array([[3.0, 1.0], [-1.0, 1.0], [1.0, 3.0], [1.0, -1.0]], dtype=np.float32)
    found = Distance.of(warm_WD, np.array([[4.0, 6.0], [4.0, 4.0]], dtype=np.float32))
    assert (found.warm_spread, found.cold_spread, found.between_means) == (2.0, 1.0, 5.0)
    assert (found.apart, found.spread_ratio) == (2.5, 0.5)


def test_the_same_cloud_is_not_apart_and_one_point_has_no_spread():
    row_ID = np.array([[1.0, 2.0], [3.0, 5.0], [-1.0, 0.0]])
    assert Distance.of(row_ID, row_ID).apart == 0.0
    assert Distance.of(row_ID, row_ID).spread_ratio == 1.0
    assert Distance.of(row_ID, row_ID[:1]).spread_ratio == 0.0
    one = Distance.of(row_ID[[0, 0]], row_ID)
    assert (one.apart, one.spread_ratio) == (None, None)


def test_numbers_and_places(cold_runs):
    (run,) = finished_runs([cold_runs / "cold"])
    finding, found = clouds([run]), replay(run)
    (table,), (points,) = finding.tables, finding.unprinted
    last = found.snapshots[-1]
    plane = Plane.of(np.concatenate([last.warm_WD, last.cold_CD]))
    assert len(table.rows) == len(found.snapshots)
    for row, snapshot in zip(table.records(), found.snapshots, strict=True):
        expected = Distance.of(snapshot.warm_WD, snapshot.cold_CD)
        assert row["round"] == snapshot.round_number
        assert (row["apart"], row["spread ratio"]) == (expected.apart, expected.spread_ratio)
        for kind, code_I, row_ID in (
            ("warm", found.warm_W, snapshot.warm_WD),
            ("cold", found.cold_C, snapshot.cold_CD),
        ):
            own = [
                point
                for point in points.records()
                if (point["round"], point["kind"]) == (snapshot.round_number, kind)
            ]
            items = run.prepared.dataset.interactions.items
            assert [point["item"] for point in own] == [items[code] for code in code_I]
            assert [(point["x"], point["y"]) for point in own] == [
                tuple(place) for place in plane.place(row_ID).tolist()
            ]
    assert len(finding.sentences) == 1  # the same training came to the same model


def test_panels_share_their_axes_and_carry_their_numbers(cold_runs):
    finding = clouds(finished_runs([cold_runs / "cold"]))
    panels, rows = finding.figure.axes, finding.tables[0].records()
    assert len(panels) == len(rows) > 1
    assert len({(panel.get_xlim(), panel.get_ylim()) for panel in panels}) == 1
    for panel, row in zip(panels, rows, strict=True):
        below = f"apart {row['apart']:.2f}, spread ratio {row['spread ratio']:.2f}"
        assert panel.get_xlabel().endswith(below)
        for drawn in panel.collections:  # nothing lies outside
            place = drawn.get_offsets()
            assert (place[:, 0] > panel.get_xlim()[0]).all()
            assert (place[:, 0] < panel.get_xlim()[1]).all()
            assert (place[:, 1] > panel.get_ylim()[0]).all()
            assert (place[:, 1] < panel.get_ylim()[1]).all()
    assert panels[-1].get_title() == f"round {rows[-1]['round']} (selected)"


def test_a_training_that_does_not_repeat_is_told(cold_runs):
    (run,) = finished_runs([cold_runs / "first"])
    other = replace(run, experiment=replace(run.experiment, seed=1))
    assert "came to another table than the one it kept" in clouds([other]).sentences[-1]


def test_one_run_at_a_time(cold_runs):
    with pytest.raises(TacitError, match="trains one run again, not 2; give one"):
        clouds(finished_runs([cold_runs / "cold", cold_runs / "first"]))
