"""Plans: any two of noise, epsilon and rounds give the third, and give each other back."""

from __future__ import annotations

import pytest

from tacit.errors import TacitError
from tacit.privacy.guarantee import PrivacyRequest
from tacit.privacy.plan import MECHANISMS, VIEWS, plan


def test_fifty_releases_of_noise_twice_the_bound():
    found = plan(noise=2.0, rounds=50, delta=1e-5)
    assert found.guarantee.epsilon == pytest.approx(20.6755, abs=5e-5)
    assert found.guarantee.epsilon_per_release == pytest.approx(1.9931, abs=5e-5)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("epsilon", "rounds"), [(0.3, 1), (8.0, 100), (2.5, 7), (40.0, 3000)])
def test_two_give_the_third_and_each_other_back(view, mechanism, epsilon, rounds):
    fixed = {"view": view, "mechanism": mechanism, "bound": 0.7, "delta": 1e-6}
    noise = plan(epsilon=epsilon, rounds=rounds, **fixed).guarantee.noise
    again = plan(noise=noise, rounds=rounds, **fixed).guarantee
    assert again.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert plan(noise=noise, epsilon=epsilon, **fixed).guarantee.releases == rounds
    # a little less noise does not carry so many any more
    if rounds > 1:
        fewer = plan(noise=noise * 0.999, epsilon=epsilon, **fixed).guarantee
        assert fewer.releases < rounds
        assert fewer.epsilon <= epsilon


def test_the_noise_of_a_plan_is_that_of_a_request():
    for view in VIEWS:
        wanted = PrivacyRequest(epsilon=4.0, delta=1e-6, view=view).noise(bound=0.5, releases=20)
        found = plan(epsilon=4.0, delta=1e-6, view=view, bound=0.5, rounds=20)
        assert found.guarantee.noise == wanted


def test_noise_where_it_is_added_and_what_a_mean_keeps_of_it():
    both = {view: plan(noise=2.0, rounds=3, view=view, users=400) for view in VIEWS}
    total = both["secure_sum"]
    assert (total.noise_on_sum, total.noise_of_device, total.noise_on_mean) == (2.0, 0.1, 0.005)
    local = both["local"]
    assert (local.noise_on_sum, local.noise_of_device, local.noise_on_mean) == (40.0, 2.0, 0.1)
    unknown = plan(noise=2.0, rounds=3, mechanism="laplace", users=400)
    assert (unknown.noise_on_sum, unknown.noise_of_device) == (2.0, None)  # shares are no Laplace


def test_replacing_a_history_costs_twice_the_reach_of_taking_one_away():
    same = plan(noise=4.0, rounds=9, view="local").guarantee
    assert same.epsilon == plan(noise=2.0, rounds=9, view="secure_sum").guarantee.epsilon


@pytest.mark.parametrize("given", [{"noise": 2.0, "rounds": 50}, {"epsilon": 8.0, "rounds": 50}])
def test_the_curve_goes_through_the_plan(given):
    curve = plan(**given).curve
    xs, ys = zip(*curve.points, strict=True)
    assert min(xs) < curve.at[0] < max(xs)
    assert min(ys) < curve.at[1] < max(ys)
    rises = curve.x == "releases"
    assert list(ys) == sorted(ys, reverse=not rises)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"exactly two of epsilon=, noise=, rounds=; the third is computed \(0 given\)"),
        ({"noise": 1.0}, "1 given"),
        ({"noise": 1.0, "epsilon": 1.0, "rounds": 1}, "3 given"),
        ({"noise": 0.0, "rounds": 1}, "noise is 0.0; it must be above 0"),
        ({"noise": float("nan"), "rounds": 1}, "noise is nan"),
        ({"noise": 1.0, "rounds": 0}, "rounds is 0; it must be at least 1"),
        ({"epsilon": -1.0, "rounds": 1}, "epsilon is -1.0"),
        ({"noise": 1.0, "rounds": 1, "delta": 1.0}, "delta is 1.0"),
        ({"noise": 1.0, "rounds": 1, "bound": 0.0}, "bound is 0.0"),
        ({"noise": 1.0, "rounds": 1, "users": 0}, "users is 0"),
        ({"noise": 1.0, "rounds": 1, "view": "sum"}, "view 'sum'; known: local, secure_sum"),
        ({"noise": 1.0, "rounds": 1, "view": "released_model"}, "Unknown view"),
        ({"noise": 1.0, "rounds": 1, "mechanism": "gausian"}, "did you mean 'gaussian'"),
        ({"noise": 1e-9, "rounds": 1}, "no finite epsilon"),
        ({"noise": 2.0, "epsilon": 1.0}, "at least 3.731, or a larger epsilon"),
    ],
)
def test_what_makes_no_plan(given, words):
    with pytest.raises(TacitError, match=words):
        plan(**given)
