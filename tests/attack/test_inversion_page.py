"""What reaches the disk, and what the paragraph on the bound says."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from tacit.attack.inversion import Inversion, invert
from tacit.attack.inversion_page import BOUND, OTHER_CONTENT, inversion_page, notes, text_table


@pytest.fixture(scope="module")
def found() -> dict[str, Inversion]:
    generator = np.random.default_rng(6)
    content_CF = generator.normal(size=(60, 4))
    noisy_RCD = content_CF[None] + generator.normal(size=(3, 60, 4))
    return {
        "pfedrec + <noisy>": invert(noisy_RCD, content_CF, seeds=2),
        "pfedrec + clear": invert(content_CF[None], content_CF, seeds=2),
    }


def test_files_of_several_runs(found: dict[str, Inversion], tmp_path: Path) -> None:
    written = inversion_page(found).write(tmp_path)
    assert [path.name for path in written] == [
        "inversion.csv",
        "inversion.json",
        "inversion-radar.png",
        "inversion-radar.svg",
        "inversion-structure-pfedrec+_noisy.png",
        "inversion-structure-pfedrec+_noisy.svg",
        "inversion-structure-pfedrec+clear.png",
        "inversion-structure-pfedrec+clear.svg",
    ]
    assert sorted(tmp_path.iterdir()) == sorted(written)  # nothing half-written is left
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)
    with written[0].open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 7 + 5
    assert {row["run"] for row in rows} == set(found)
    last = found["pfedrec + clear"].attempts[-1]
    assert float(rows[-1]["Pearson"]) == last.mean.pearson
    assert float(rows[-1]["MSE deviation"]) == last.deviation.mse
    page = json.loads(written[1].read_text(encoding="utf-8"))
    assert page == inversion_page(found).as_json
    assert page["runs"][0]["attempts"][0]["leakage"] is None
    assert page["runs"][0]["attempts"][2]["leakage"]["pearson"] > 0
    assert page["notes"] == [BOUND]


def test_the_table_names_a_run_once(found: dict[str, Inversion]) -> None:
    texts = text_table(found).texts()
    assert [row[0] for row in texts if row[0]] == list(found)
    assert texts[0][1:3] == ["mean", "nothing"]
    assert texts[0][6] == "0.000 ±0.000"


def test_other_content_is_said(found: dict[str, Inversion]) -> None:
    content_CF = np.random.default_rng(7).normal(size=(60, 5))
    other = {"other": invert(content_CF[None], content_CF, seeds=2)}
    assert notes({**found, **other}) == [OTHER_CONTENT, BOUND]


def test_the_numbers_of_the_paragraph() -> None:
    """The variance at which the entropy changes its sign, and the largest that the schedule has."""
    sign = 1 / (2 * math.pi * math.e)
    assert f"{sign:.4f}" == "0.0585"
    assert "0.0585" in BOUND
    left_T = 1 - 0.1 * np.linspace(1e-4, 0.02, 10)
    before_T = np.concatenate([[1.0], left_T[:-1]])
    variance_T = (1 - left_T / before_T) * (1 - before_T) / (1 - left_T)
    assert variance_T.max() <= 0.0002
    assert "0.0002" in BOUND
