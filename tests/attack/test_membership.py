"""The membership attack: its likelihood ratio on made-up numbers, and on models with a person."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.attack.membership import (
    SHUFFLED,
    TOLD,
    Membership,
    MembershipAttempt,
    _auc,
    attack_membership,
    judged,
)
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.privacy.accounting import gaussian_epsilon

DELTA = 1e-5


def drawn(mu: float, models: int = 400, seed: int = 0) -> MembershipAttempt:
    inside_M = np.arange(models) % 2 == 0
    value_M = mu * inside_M + np.random.default_rng(seed).normal(size=models)
    return judged("made up", value_M, inside_M, DELTA, 0.1)


def test_the_ratio_of_two_normals_has_the_auc_that_theory_says() -> None:
    """Phi(mu / sqrt 2): 0.76 for mu = 1; nothing for 0; everything for 10."""
    assert drawn(1.0).auc.contains(0.76)
    assert drawn(0.0).auc.contains(0.5)
    far = drawn(10.0)
    assert far.auc.mean == 1.0
    assert far.true_rate.mean == 1.0
    # 100 models of each kind are counted: rates below 1/100 cannot be told apart
    assert np.log(20) < far.bound.epsilon < np.log(100)


def test_rates_are_counted_on_models_that_taught_nothing() -> None:
    """The first half says "above", the second "below": what was learnt is judged, and is wrong."""
    inside_M = np.arange(400) % 2 == 0
    sign_M = np.where(np.arange(400) < 200, 1.0, -1.0)
    value_M = sign_M * np.where(inside_M, 3.0, -3.0)
    value_M = value_M + np.random.default_rng(1).normal(size=400)
    assert judged("made up", value_M, inside_M, DELTA, 0.1).auc.mean < 0.1


def test_the_bound_stays_below_the_truth() -> None:
    for seed in range(3):
        assert drawn(1.0, models=2000, seed=seed).bound.epsilon <= gaussian_epsilon(1.0, DELTA)


def named(found: Membership, attacker: str) -> MembershipAttempt:
    [one] = [one for one in found.attempts if one.attacker == attacker]
    return one


@pytest.fixture(scope="module")
def open_models() -> Membership:
    return attack_membership(resolve("fedease", rounds=1), models=40)


def test_a_model_without_noise_tells_who_was_there(open_models: Membership) -> None:
    assert open_models.guarantee is None
    for attacker in ("influence", "score"):
        assert named(open_models, attacker).auc.mean > 0.95
    assert named(open_models, "influence").bound.epsilon > 0.5


def test_controls(open_models: Membership) -> None:
    told, shuffled = open_models.controls
    assert (told.name, told.must, told.auc.mean, told.passed) == (TOLD, "succeed", 1.0, True)
    assert (shuffled.name, shuffled.must, shuffled.passed) == (SHUFFLED, "fail", True)
    assert abs(shuffled.auc.mean - 0.5) < 0.35
    assert [one.attacker for one in open_models.attempts] == ["influence", "score"]


def test_a_guarantee_is_not_contradicted_and_hides_the_person() -> None:
    private = resolve("fedease", plugins=["private:epsilon=1"], rounds=2)
    found = attack_membership(private, models=32)
    assert found.guarantee is not None
    assert found.guarantee.epsilon == pytest.approx(1.0)
    for one in found.attempts:
        assert one.auc.mean < 0.85
        assert one.bound.epsilon <= found.guarantee.epsilon


def test_a_person_by_name_and_mistakes() -> None:
    experiment = resolve("fedease", rounds=1)
    found = attack_membership(experiment, models=16, person="user-5")
    assert found.person == "user-5"
    for given, sentence in (
        ({"models": 8}, "models is 8"),
        ({"allowed": 1.5}, "allowed is 1.5"),
        ({"person": "nobody"}, "no user 'nobody'"),
    ):
        with pytest.raises(TacitError, match=sentence):
            attack_membership(experiment, **{"models": 16, **given})
    with pytest.raises(TacitError, match="has all histories"):
        attack_membership(resolve("popularity"), models=16)


def test_an_attack_that_says_nothing_has_chance_in_its_interval() -> None:
    """Equal numbers for all models: the interval is chance itself, without a rounding beside it."""
    found = _auc(np.zeros(97), np.zeros(103), level=0.95)
    assert found.numbers == (0.5, 0.5, 0.5)
    assert found.contains(0.5)
