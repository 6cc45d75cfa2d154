"""The schedule against printed numbers, and nonsense refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.parts.diffusion.process import Schedule


def test_the_ten_steps_of_diffrec_as_printed() -> None:
    schedule = Schedule()
    noise = [1.0e-5, 2.31e-4, 4.52e-4, 6.73e-4, 8.94e-4, 1.12e-3, 1.34e-3, 1.56e-3, 1.78e-3, 2.0e-3]
    np.testing.assert_allclose(1 - schedule.abar_T, noise, rtol=5e-3)
    snr = [99999, 4326, 2210, 1484, 1117, 895, 747, 641, 561, 499]
    np.testing.assert_array_equal(schedule.snr_T.round(), snr)
    weight = [1, 95673, 2116, 726, 367, 222, 148, 106, 80, 62]
    np.testing.assert_allclose(schedule.weight_T, weight, atol=0.5)
    clean = [1, 0.957, 0.489, 0.328, 0.247, 0.198, 0.166, 0.142, 0.124, 0.111]
    np.testing.assert_allclose(schedule.posterior_clean_T, clean, atol=5e-4)
    noisy = [0, 0.043, 0.511, 0.672]
    np.testing.assert_allclose(schedule.posterior_noisy_T[:4], noisy, atol=5e-4)
    assert schedule.posterior_noisy_T[9] == pytest.approx(0.889, abs=5e-4)
    assert 1.9e-4 < schedule.posterior_variance_T.max() <= 2.0e-4
    # what is left of the start in the row after all steps but the last: 0.005 in print
    assert schedule.posterior_noisy_T[1:].prod() == pytest.approx(0.005, abs=5e-4)


@pytest.mark.parametrize("kind", ["linear_variance", "cosine"])
@pytest.mark.parametrize("steps", [1, 2, 10, 100])
def test_what_holds_for_every_schedule(kind: Any, steps: int) -> None:
    schedule = Schedule(steps, kind=kind)
    assert schedule.beta_T.shape == (steps,)
    assert ((schedule.beta_T > 0) & (schedule.beta_T <= 1)).all()
    assert (np.diff(schedule.abar_T) < 0).all()
    assert (schedule.weight_T > 0).all()
    assert schedule.posterior_clean_T[0] == pytest.approx(1.0, abs=1e-9)
    assert schedule.posterior_noisy_T[0] == 0.0
    assert schedule.posterior_variance_T[0] == 0.0
    # a row one step before, made of a clean row and its noisy one, has the variance it should have
    before = np.concatenate([[1.0], schedule.abar_T[:-1]])
    noise = schedule.posterior_noisy_T**2 * (1 - schedule.abar_T) + schedule.posterior_variance_T
    np.testing.assert_allclose(noise, 1 - before, atol=1e-12)
    signal = schedule.posterior_clean_T + schedule.posterior_noisy_T * np.sqrt(schedule.abar_T)
    np.testing.assert_allclose(signal, np.sqrt(before), rtol=1e-9)


def test_a_cosine_ends_in_noise_and_the_default_does_not() -> None:
    assert Schedule(kind="cosine").abar_T[-1] < 1e-4
    assert Schedule().abar_T[-1] == pytest.approx(0.998)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"steps": 0}, "schedule.steps is 0; it must be at least 1."),
        ({"steps": -3}, "schedule.steps is -3"),
        ({"scale": 0.0}, "schedule.scale is 0.0; it must be above 0."),
        ({"scale": float("nan")}, "schedule.scale is nan"),
        ({"low": -1e-4}, "low must be above 0"),
        ({"low": 0.02}, "below high"),
        ({"scale": 50.0}, "is 1; it is a share of noise"),
        ({"kind": "cosin"}, "did you mean 'cosine'?"),
    ],
)
def test_nonsense_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(TacitError) as caught:
        Schedule(**fields)
    assert words in str(caught.value)
