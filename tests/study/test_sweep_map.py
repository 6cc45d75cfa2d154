"""Cells of a map stand where their values say, in rising order; what diverged is empty."""

from __future__ import annotations

import numpy as np

from tacit.study.sweep import Axis, Sweep, SweepPoint
from tacit.study.sweep_files import cells, sweep_map, write_sweep


def table(*axes: Axis, chosen: int = 0) -> Sweep:
    """Validation is 10 x + y and test 100 more; x = 3 diverged."""
    rows = []
    for x in axes[0].values:
        for y in axes[1].values if len(axes) > 1 else ("0",):
            point = (x, y)[: len(axes)]
            value = 10 * float(x) + float(y)
            test = {"full": {"HR@10": 100 + value}}
            rows.append(
                SweepPoint(point, None, None, None, (), (), None)
                if x == "3"
                else SweepPoint(point, value, None, test, (1,), ("a",), "no guarantee")
            )
    return Sweep("m", "few", "clean", True, "", "HR@10", "full", axes, 1, tuple(rows), chosen, ())


def test_cells_in_rising_order() -> None:
    found = table(Axis("a", ("2", "1", "3")), Axis("b", ("0.5", "1e-1")))
    nothing = np.nan
    expected = np.array([[10.1, 20.1, nothing], [10.5, 20.5, nothing]])  # a across, b upwards
    assert np.allclose(cells(found, "validation"), expected, equal_nan=True)
    assert np.allclose(cells(found, "test"), expected + 100, equal_nan=True)


def test_the_frame_is_round_the_chosen_cell() -> None:
    found = table(Axis("a", ("2", "1")), Axis("b", ("5", "4")), chosen=1)  # a = 2, b = 4
    for panel in sweep_map(found).axes[:2]:
        (frame,) = panel.patches
        assert frame.get_xy() == (0.5, -0.5)  # type: ignore[attr-defined]
        assert [text.get_text() for text in panel.get_xticklabels()] == ["1", "2"]


def test_two_fields_make_a_map_and_one_does_not(tmp_path) -> None:
    for count, axes in enumerate(
        ((Axis("a", ("1", "2")),), (Axis("a", ("1", "2")), Axis("b", ("1", "2")))), 1
    ):
        write_sweep(table(*axes), tmp_path / str(count))
        found = {path.name for path in (tmp_path / str(count)).iterdir()}
        assert ({"sweep-map.png", "sweep-map.svg"} <= found) == (count == 2)
        assert {"sweep.csv", "sweep.png", "sweep.svg"} <= found
