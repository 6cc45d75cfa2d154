"""The presence attack: it tells what Gaussian noise allows, and nothing where nobody was."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tacit.attack.presence import ABSENT, OPEN, Presence, attack_presence
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.privacy.accounting import gaussian_mu

DELTA = 1e-5


def attacked(
    method: str,
    epsilon: float | None,
    rounds: int = 5,
    draws: int = 60,
    sets: tuple[str, ...] = (),
) -> Presence:
    plugins = () if epsilon is None else (f"private:epsilon={epsilon:g},delta={DELTA:g}",)
    experiment = resolve(method, plugins=plugins, rounds=rounds, sets=sets)
    return attack_presence(experiment, draws=draws)


ALL_HEARD = ("cut=-1000.0",)  # else a client whose items drown in noise sends less than the bound


@pytest.mark.parametrize(("method", "sets"), [("fedpop", ()), ("fedease", ALL_HEARD)])
@pytest.mark.parametrize("epsilon", [8.0, 1.0])
def test_uploads_at_the_bound_are_told_apart_as_well_as_the_budget_allows(
    method: str, sets: tuple[str, ...], epsilon: float
) -> None:
    """Phi(mu / sqrt 2), where mu is what composed Gaussian noise spends."""
    found = attacked(method, epsilon, sets=sets)
    allowed = norm.cdf(gaussian_mu(epsilon, DELTA) / np.sqrt(2))
    assert abs(found.auc.mean - allowed) < 0.025  # four deviations of 50 people and 60 draws
    assert found.guarantee is not None
    assert found.guarantee.epsilon <= epsilon * (1 + 1e-6)


def test_who_sends_less_than_the_bound_is_harder_to_find() -> None:
    assert attacked("fedease", 4.0).auc.high < attacked("fedease", 4.0, sets=ALL_HEARD).auc.low


def test_all_releases_of_a_trained_method_count_and_none_counts_too_much() -> None:
    """The bound follows the median norm, so that half of the people are below it."""
    found = attacked("fedmf", 8.0, rounds=6, draws=40)
    allowed = norm.cdf(gaussian_mu(8.0, DELTA) / np.sqrt(2))
    one = norm.cdf(gaussian_mu(8.0, DELTA) / np.sqrt(2 * 6))
    assert found.releases == 6
    assert one + 0.05 < found.auc.mean < allowed + 0.03


def test_without_noise_everything_is_told_and_controls_say_so() -> None:
    found = attacked("pfedrec", None)
    assert (found.auc.mean, found.releases) == (1.0, 1)
    noisy = attacked("fedpop", 2.0)
    for one in (found, noisy):
        assert [control.name for control in one.controls] == [OPEN, ABSENT]
        assert all(control.passed for control in one.controls)
    assert noisy.controls[0].auc.mean == 1.0


def test_the_same_attack_twice_gives_the_same_number() -> None:
    assert attacked("fedpop", 2.0) == attacked("fedpop", 2.0)


def test_what_it_cannot_look_at_is_refused() -> None:
    with pytest.raises(TacitError, match="has all histories"):
        attack_presence(resolve("ease"))
    with pytest.raises(TacitError, match="both must be at least 2"):
        attack_presence(resolve("fedpop"), draws=1)
