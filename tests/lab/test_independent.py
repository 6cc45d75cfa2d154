"""Comparisons with implementations that others wrote: what is said without them, and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from lab import independent
from lab.independent import (
    Compared,
    CrossedVbpr,
    Figures,
    Fitted,
    Pair,
    Product,
    Side,
    as_markdown,
    vbpr,
)
from tacit.central.samples import Batch
from tacit.core.types import Params
from tacit.data.views import TrainView
from tacit.methods import Vbpr

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
    """Two means are nearer than two deviations of their difference."""
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


def _drawn(triples: int) -> tuple[Params, torch.Tensor, Batch]:
    """Parameters of three users and four items, content of the items, and some triples."""
    generator = torch.Generator().manual_seed(0)
    width, features = independent.VISUAL_DIM, 5
    shapes: dict[str, tuple[int, ...]] = {
        "user": (3, 2 * width),
        "items": (4, width),
        "project.w": (features, width),
        "project.b": (width,),
        "bias": (4,),
        "bias.content": (features,),
    }
    p = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    content_IF = torch.randn(4, features, generator=generator, dtype=torch.float64)
    columns = [torch.randint(high, (triples,), generator=generator) for high in (3, 4, 4)]
    return p, content_IF, Batch(*columns)


def test_a_crossed_loss_is_over_all_pairs_of_triples() -> None:
    p, content_IF, batch = _drawn(triples=6)
    losses = []
    for user, positive, negative in zip(*vars(batch).values(), strict=True):
        item_D, other_D = (
            torch.cat([p["items"][item], content_IF[item] @ p["project.w"] + p["project.b"]])
            for item in (positive, negative)
        )
        ahead = p["user"][user] @ (item_D - other_D) + p["bias"][positive] - p["bias"][negative]
        change_BF = content_IF[batch.positive_B] - content_IF[batch.negative_B]
        losses += [-logsigmoid(ahead + change_F @ p["bias.content"]) for change_F in change_BF]
    found = vbpr(CrossedVbpr).batch_loss(p, content_IF, batch, np.random.default_rng(0))
    torch.testing.assert_close(found, torch.stack(losses).mean())
    own = vbpr(Vbpr).batch_loss(p, content_IF, batch, np.random.default_rng(0))
    assert abs(found - own) > 1e-3


def test_a_crossed_loss_of_one_triple_is_the_plain_one() -> None:
    p, content_IF, batch = _drawn(triples=1)
    crossed, plain = (
        vbpr(kind).batch_loss(p, content_IF, batch, np.random.default_rng(0))
        for kind in (CrossedVbpr, Vbpr)
    )
    torch.testing.assert_close(crossed, plain)


def test_a_side_that_two_pairs_share_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = []

    def fit(train: TrainView, epochs: int, seed: int, threads: int) -> Fitted:
        fitted.append(seed)
        return Fitted(np.zeros((train.n_users, train.n_items)), wall=1.0, cpu=1.0)

    monkeypatch.setattr(independent, "DATA", "planted")
    assert Side.of(fit, 1, 1, 2) is Side.of(fit, 1, 1, 2)
    assert fitted == [*range(independent.SEEDS), 0, 0]
