"""What holds for every generator: its contract, its trip through TOML, and what its rows say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tacit import streams
from tacit.core.codec import assign, decode, encode
from tacit.core.optim import Adam, Sgd
from tacit.core.parts import ColdStart
from tacit.data.dataset import Modalities
from tacit.errors import TacitError
from tacit.parts.cold.diffusion import Diffusion
from tacit.parts.cold.features import Features
from tacit.parts.cold.mapping import Mapping
from tacit.parts.cold.simple import Nearest, NoRow, RandomRows, Ridge
from tacit.parts.diffusion.process import Schedule

PARTS: list[Any] = [
    Diffusion(),
    Diffusion(
        Features(("text", "image"), kind="zero"),
        Schedule(5, kind="cosine"),
        "residual",
        "concatenated",
        False,
        "unweighted",
        Adam(1e-3),
        epochs=2,
        batch=64,
        every=2,
        start="matched",
        reverse_noise=True,
        draws=3,
        standardise=True,
    ),
    Mapping(),
    Mapping(Features(fit_on="all"), Sgd(0.1), steps=3, hidden=16, bounded=False),
    Ridge(strength=0.1),
    Nearest(neighbours=3),
    RandomRows(),
    NoRow(),
]
NAMES = [f"{type(part).__name__}{number}" for number, part in enumerate(PARTS)]
every_part = pytest.mark.parametrize("part", PARTS, ids=NAMES)


@every_part
def test_there_and_back(part: ColdStart) -> None:
    plain = encode(part)
    assert "part" in plain
    assert decode(plain, ColdStart) == part
    assert isinstance(part, ColdStart)


def test_a_nested_field_is_set_by_its_path() -> None:
    part = assign(Diffusion(), "schedule.kind", "cosine")
    part = assign(part, "features.modalities", '["image"]')
    part = assign(part, "optimiser.rate", "0.5")
    assert part.schedule == Schedule(kind="cosine")
    assert part.features.modalities == ("image",)
    assert part.optimiser == Sgd(0.5, weight_decay=1e-3)


@every_part
def test_a_fit_is_pure_and_keeps_the_parameters_named_and_typed(part: ColdStart, toy: Any) -> None:
    first = part.begin(8, 6, np.random.default_rng(0))
    copy = {name: parameter.clone() for name, parameter in first.items()}
    table = toy.warm_WD.clone()
    one, two = (
        part.fit(first, toy.warm_WD, toy.feature_WF, 1, np.random.default_rng(7)) for _ in range(2)
    )
    assert torch.equal(table, toy.warm_WD)
    assert set(one) == set(first)
    for name, parameter in first.items():
        assert torch.equal(parameter, copy[name])
        assert torch.equal(one[name], two[name])
        assert one[name].dtype == parameter.dtype
        assert not one[name].requires_grad
    noise = toy.cold_CD.new_ones(100, part.noise, 8)
    for p in (first, one):
        rows = part.generate(p, toy.feature_CF, noise)
        assert rows.shape == (100, 8)
        assert rows.dtype == torch.float32
        assert torch.isfinite(rows).all()


@every_part
def test_rows_come_in_the_precision_of_what_goes_in(part: ColdStart, toy: Any) -> None:
    first = part.begin(8, 6, np.random.default_rng(0))
    rows = []
    for kind in (torch.float32, torch.float64):
        table, feature = toy.warm_WD.to(kind), toy.feature_WF.to(kind)
        p = part.fit(first, table, feature, 1, np.random.default_rng(7))
        noise = torch.ones(100, part.noise, 8, dtype=kind)
        rows.append(part.generate(p, toy.feature_CF.to(kind), noise))
        assert rows[-1].dtype == kind
        assert part.generate(first, toy.feature_CF.to(kind), noise).dtype == kind
    torch.testing.assert_close(rows[0].double(), rows[1], rtol=1e-3, atol=1e-3)


@every_part
def test_a_row_does_not_depend_on_its_company(part: ColdStart, toy: Any) -> None:
    p = part.begin(8, 6, np.random.default_rng(0))
    p = part.fit(p, toy.warm_WD, toy.feature_WF, 1, np.random.default_rng(7))
    names = np.arange(100, dtype=np.uint64)
    drawn = streams.normals(0, streams.NOISE, 0, names, part.noise * 8)
    noise = torch.from_numpy(drawn.astype(np.float32)).reshape(100, part.noise, 8)
    together = part.generate(p, toy.feature_CF, noise)
    for few in ([17], [99, 3, 17]):
        alone = part.generate(p, toy.feature_CF[few], noise[few])
        torch.testing.assert_close(alone, together[few], rtol=1e-5, atol=1e-6)


LEARNT = {"loss": "unweighted", "optimiser": Adam(1e-2)}


@pytest.mark.parametrize(
    ("part", "fits", "found"),
    [
        (Ridge(strength=1e-3), 1, 0.95),
        (Nearest(), 1, 0.6),
        (Mapping(optimiser=Adam(0.02)), 300, 0.9),
        (Mapping(optimiser=Adam(0.02), hidden=16, bounded=False), 300, 0.9),
        (Diffusion(batch=64, **LEARNT), 40, 0.8),
        (Diffusion(batch=64, standardise=True, **LEARNT), 40, 0.8),
        (Diffusion(batch=64, draws=4, reverse_noise=True, **LEARNT), 40, 0.8),
        (
            Diffusion(
                schedule=Schedule(kind="cosine"),
                mode="residual",
                batch=64,
                standardise=True,
                **LEARNT,
            ),
            40,
            0.65,
        ),
    ],
    ids=["ridge", "nearest", "mapping", "hidden", "diffusion", "standardised", "draws", "cosine"],
)
def test_rows_of_unseen_items_are_found(part: Any, fits: int, found: float, toy: Any) -> None:
    """A generator that says the mean row for all would explain nothing."""
    assert toy.explained(toy.rows(part, fits)) > found


@pytest.mark.parametrize("part", [Diffusion(**LEARNT), Mapping(), Ridge(), Nearest()])
def test_rows_without_content_say_nothing_about_items(part: Any, toy: Any) -> None:
    """With features of zero, two items with the same noise get the same row, whatever they are."""
    nothing = torch.zeros_like(toy.feature_WF)
    p = part.begin(8, 6, np.random.default_rng(0))
    for number in range(1, 6):
        p = part.fit(p, toy.warm_WD, nothing, number, np.random.default_rng(number))
    noise = torch.ones(100, part.noise, 8)
    rows = part.generate(p, nothing[:100], noise)
    torch.testing.assert_close(rows, rows[:1].expand(100, 8))


@pytest.mark.parametrize("part", [RandomRows(), NoRow()])
def test_content_is_not_asked_for_where_it_is_not_read(part: Any) -> None:
    rows = part.features.rows(Modalities({}), np.array([True, False]), 8)
    assert rows.shape == (2, 0) == (2, part.features.width(None, 8))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Diffusion(epochs=0), "cold.epochs is 0; it must be at least 1."),
        (lambda: Diffusion(batch=-1), "cold.batch is -1"),
        (lambda: Diffusion(every=0), "cold.every is 0"),
        (lambda: Diffusion(draws=0), "cold.draws is 0"),
        (lambda: Mapping(steps=0), "cold.steps is 0"),
        (lambda: Mapping(hidden=-1), "cold.hidden is -1"),
        (lambda: Ridge(strength=0.0), "cold.strength is 0.0; it must be above 0."),
        (lambda: Nearest(neighbours=0), "cold.neighbours is 0"),
        (lambda: Diffusion().begin(30, 30, np.random.default_rng(0)), "divided by 4"),
    ],
)
def test_nonsense_is_refused(make: Any, words: str) -> None:
    with pytest.raises(TacitError) as caught:
        make()
    assert words in str(caught.value)
