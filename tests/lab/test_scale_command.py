"""The command that measures scale: the real thing in small, and tables that follow from files."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import pytest

from lab.scale import play
from lab.scale_tables import BEGIN, END, PAGE, Population, UnitCosts, arithmetic, page, row

RESULTS = PAGE.parent / "results" / "scale.json"
SMALL = Population(users=400, items=503, history=10, participation=0.1, rounds=3)
COSTS = UnitCosts(1e-4, 1e-9, 2e-9, 1e-3, 10, 1e-9, 3e-9)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is told by Linux")
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_population_in_small(on_disk: bool) -> None:
    found = play("pfedrec", SMALL, on_disk=on_disk, threads=1)
    assert found.engine.startswith("fused: linear kernel")
    assert found.participants == 40
    assert 40 < found.took_part < 120
    assert found.rows == 50 * found.took_part  # ten items and four negatives of each
    assert found.row_bytes == found.rows * (32 * 4 + 4)
    assert len(found.round_seconds) == 3
    assert found.peak >= found.own > 0
    assert play("fedmf", SMALL, threads=1).rows == 0


def test_the_arithmetic_is_multiplication() -> None:
    one, ten = (row(COSTS, 10**6, uploads, 1000) for uploads in (1_000, 10_000))
    assert ten.bytes == 10 * one.bytes == 10_000 * 2 * 4000
    assert ten.held == 10_000 * 4000
    assert ten.seconds == pytest.approx(10_000 * (1e-4 + 1000 * 3e-9))
    assert ten.secure_seconds > 10 * one.secure_seconds  # neighbours grow with the crowd
    assert (one.levels, one.aggregators, ten.levels, ten.aggregators) == (2, 11, 2, 101)
    assert ten.busiest_seconds == pytest.approx(COSTS.plain(100, 1000))
    assert ten.path_seconds == pytest.approx(2 * ten.busiest_seconds)
    clients = [one.clients for one in arithmetic(COSTS)["10,000 items, 1 on a node"]]
    assert clients == [10**power for power in range(3, 9)]
    silos = arithmetic(COSTS)["100,000 items, 1,000 on a node"]
    assert [one.uploads for one in silos] == [1, 1, 1, 10, 100, 1000]


def test_the_tables_of_the_page_are_those_of_the_measured_costs() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    shown = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    assert shown.strip() == page(results).strip()
    again = {
        name: [asdict(one) for one in rows]
        for name, rows in arithmetic(UnitCosts(**results["costs"])).items()
    }
    assert json.loads(json.dumps(again)) == results["arithmetic"]


def test_the_large_runs_were_of_the_size_that_the_page_names() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    large = [one for one in results["simulated"] if one["population"]["users"] >= 10**6]
    assert {(one["method"], one["on_disk"]) for one in large} == {
        ("fedmf", False),
        ("pfedrec", False),
        ("pfedrec", True),
    }
    for one in large:
        assert one["population"]["items"] >= 10**5
        assert one["participants"] == 10**4
        assert one["peak"] < 16e9
