"""The whole attack on tables whose leakage is known."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.attack.inversion import Attempt, Inversion, invert
from tacit.attack.measures import Measures
from tacit.errors import TacitError

generator = np.random.default_rng(3)
CONTENT = generator.normal(size=(150, 8)) * np.array([4, 3, 2, 2, 1, 1, 1, 1]) + 5
MAP = generator.normal(size=(8, 8)) / 3
CLEAR = np.tanh((CONTENT - 5) @ MAP / 3)


def by_view(found: Inversion) -> dict[tuple[str, str], Attempt]:
    return {(one.attacker, one.view): one for one in found.attempts}


@pytest.fixture(scope="module")
def noisy() -> Inversion:
    """Ten draws with much noise of their own, as a random generator sends them."""
    noise = np.random.default_rng(4).normal(size=(10, 150, 8))
    return invert(CLEAR[None] + noise, CONTENT, seeds=3)


def test_every_attacker_and_view_is_there(noisy: Inversion) -> None:
    learnt = [(a, v) for a in ("ridge", "perceptron") for v in ("shuffled", "1 draw", "mean of 10")]
    assert list(by_view(noisy)) == [("mean", "nothing"), *learnt]
    assert (noisy.known, noisy.unknown, noisy.draws, noisy.seeds) == (30, 120, 10, 3)
    assert all(one.difference_VV.shape == (20, 20) for one in noisy.attempts)
    assert [one.view for one in noisy.attacks] == ["1 draw", "mean of 10"] * 2


def test_the_floor_has_pearson_zero_and_the_worst_structure(noisy: Inversion) -> None:
    floor = noisy.floor.mean
    assert (floor.pearson, floor.cosine) == (0.0, 0.0)
    for one in noisy.attacks:
        assert one.mean.structure < floor.structure
        assert one.mean.pearson > 0.1
        assert one.mean.mse < floor.mse


def test_whoever_averages_draws_learns_more(noisy: Inversion) -> None:
    found = by_view(noisy)
    for attacker in ("ridge", "perceptron"):
        one, many = found[attacker, "1 draw"].mean, found[attacker, "mean of 10"].mean
        assert many.mse < one.mse
        assert many.pearson > one.pearson + 0.1
        assert many.structure < one.structure


def test_a_control_and_random_rows_leak_nothing(noisy: Inversion) -> None:
    random = invert(np.random.default_rng(5).normal(size=(4, 150, 8)), CONTENT, seeds=3)
    blind = [noisy.attempts[1], noisy.attempts[4], *random.attempts[1:]]
    for one in blind:
        assert abs(one.mean.pearson) < 0.12, (one.attacker, one.view)
        assert one.mean.mse > 0.95 * noisy.floor.mean.mse
    for one in random.attacks:
        assert random.leakage(one).structure < 0.12


def test_one_draw_without_noise_has_one_view_and_leaks_nearly_all() -> None:
    found = invert(CLEAR[None], CONTENT, seeds=2)
    assert [one.view for one in found.attacks] == ["1 draw", "1 draw"]
    assert found.leakage(found.attacks[0]).mse > 0.9
    assert found.leakage(found.attacks[0]).structure > 0.7


def test_means_and_deviations_are_over_seeds() -> None:
    one, three = (invert(CLEAR[None], CONTENT, seeds=seeds) for seeds in (1, 3))
    assert all(attempt.deviation is None for attempt in one.attempts)
    deviation = three.floor.deviation
    assert isinstance(deviation, Measures)
    assert deviation.mse > 0
    assert deviation.pearson == 0.0
    np.testing.assert_array_equal(one.floor.difference_VV, three.floor.difference_VV)
    again = invert(CLEAR[None], CONTENT, seeds=3)
    assert [a.mean for a in again.attempts] == [a.mean for a in three.attempts]


def test_a_shift_of_the_content_changes_nothing() -> None:
    near, far = (invert(CLEAR[None], CONTENT + shift, seeds=1) for shift in (0.0, 100.0))
    for one, other in zip(near.attempts, far.attempts, strict=True):
        if one.attacker != "perceptron":  # single precision ends before the shift does
            assert one.mean.structure == pytest.approx(other.mean.structure, rel=1e-6)
            assert one.mean.pearson == pytest.approx(other.mean.pearson, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"leaked": 0.0}, "leaked is 0; it is a share"),
        ({"leaked": 1.0}, "leaked is 1; it is a share"),
        ({"leaked": float("nan")}, "leaked is nan"),
        ({"leaked": 0.05}, "Too few items to attack: 8 of 150 leak"),
        ({"leaked": 0.995}, "Too few items to attack: 149 of 150 leak"),
        ({"seeds": 0}, "seeds is 0"),
        ({"embedding": np.zeros((150, 8))}, "give draws x items x width"),
        ({"embedding": np.zeros((1, 149, 8))}, "a row of content for each item"),
        ({"embedding": np.full((1, 150, 8), np.nan)}, "not finite"),
        ({"content": np.ones((150, 8))}, "same content"),
    ],
)
def test_mistakes(change: dict, sentence: str) -> None:
    flags = {"leaked": 0.2, "seeds": 1, "embedding": CLEAR[None], "content": CONTENT, **change}
    with pytest.raises(TacitError, match=sentence):
        invert(flags["embedding"], flags["content"], leaked=flags["leaked"], seeds=flags["seeds"])
