"""Comparisons with implementations that others wrote: what is said without them, and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab import independent
from lab.independent import Compared, Figures, Fitted, Pair, Product, Side, as_markdown
from tacit.data.views import TrainView

PUBLISHED = Path("docs", "results", "independent.json")


def test_a_missing_package_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def never(train: TrainView, epochs: int, seed: int, threads: int) -> Fitted:
        raise AssertionError("nothing is fitted")

    monkeypatch.setattr(
        independent, "PAIRS", (Pair("some", "no_such_package", "", 1, never, never),)
    )
    monkeypatch.setattr(independent, "product_times", lambda dataset: None)
    monkeypatch.setattr(independent, "Figures", lambda **known: Figures.model_construct(**known))
    independent.independent(packages=None, threads=1, out=tmp_path)
    said = capsys.readouterr().out
    assert "some is skipped: the package no_such_package is not installed here." in said
    assert "Nothing was compared, so nothing is written." in said
    assert not list(tmp_path.iterdir())


def test_the_published_page_is_that_of_its_numbers() -> None:
    figures = Figures.model_validate_json(PUBLISHED.read_text(encoding="utf-8"))
    assert as_markdown(figures) == PUBLISHED.with_suffix(".md").read_text(encoding="utf-8")
    assert {one.name for one in figures.compared} == {pair.name for pair in independent.PAIRS}


def test_published_gains_are_within_noise_where_no_difference_is_told() -> None:
    """Two means of three seeds are nearer than two deviations of their difference."""
    figures = Figures.model_validate_json(PUBLISHED.read_text(encoding="utf-8"))
    for one in figures.compared:
        ours, theirs = np.array(one.ours.gain), np.array(one.theirs.gain)
        spread = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours))
        within = abs(ours.mean() - theirs.mean()) < 2 * spread
        assert within == (not one.differs), one.name


def test_a_page_by_hand() -> None:
    side = Side(gain=(0.05, 0.07), wall=0.5, cpu=0.25)
    one = Compared(name="x", package="p", version="1", settings="few", ours=side, theirs=side)
    page = as_markdown(
        Figures(threads=2, compared=(one,), products=(Product(dataset="d", scipy=1, torch=2),))
    )
    row = "| x | p 1 | 6.00 ± 1.41 | 6.00 ± 1.41 | 0.250 / 0.500 | 0.250 / 0.500 | few |"
    assert row in page
    assert "| d | 1.00 | 2.00 |" in page
