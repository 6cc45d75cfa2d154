"""Plans: any two of noise, epsilon and rounds give the third, and give each other back."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.privacy import plan_figure
from tacit.errors import TacitError
from tacit.privacy.guarantee import PrivacyRequest
from tacit.privacy.plan import FALSE_ALARMS, MECHANISMS, VIEWS, plan


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


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 8.0, "rounds": 100},
        {"epsilon": 1.0, "rounds": 1, "view": "local"},
        {"epsilon": 2.0, "rounds": 3, "mechanism": "laplace"},
    ],
)
def test_no_test_finds_more_than_the_budget_allows(given):
    """Power at most e^epsilon times the false alarms, plus delta; and more than guessing."""
    found = plan(**given)
    stated, power = found.guarantee, found.found_of_participants
    assert FALSE_ALARMS < power <= math.exp(stated.epsilon) * FALSE_ALARMS + stated.delta
    assert power <= 1 - math.exp(-stated.epsilon) * (1 - FALSE_ALARMS - stated.delta)


def test_the_power_of_the_best_test_against_draws():
    """A likelihood-ratio test on the mean of the releases, played."""
    found = plan(epsilon=2.0, rounds=4).guarantee
    noise_NT = found.noise * np.random.default_rng(5).standard_normal((200_000, 4))
    without_N, with_N = noise_NT[::2].mean(1), noise_NT[1::2].mean(1) + found.sensitivity
    threshold = np.quantile(without_N, 1 - FALSE_ALARMS)
    power = plan(epsilon=2.0, rounds=4).found_of_participants
    assert (with_N > threshold).mean() == pytest.approx(power, abs=0.006)


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
    (axes,) = plan_figure(plan(**given)).axes
    assert axes.lines[1].get_xydata().tolist() == [list(curve.at)]


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
        ({"noise": 1.0, "rounds": 1, "users": 100_000}, "100,000 people.*ask for delta=1e-06"),
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


def test_the_table_in_the_docs_is_what_plans_say():
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
    table = page.partition("<!-- plan -->\n")[2].partition("<!-- /plan -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    counts = [int(cell.split()[0]) for cell in rows[0][1:5]]
    assert [row[0] for row in rows[2:]] == ["20", "8", "4", "2", "1"]
    for epsilon, *noises, found in rows[2:]:
        plans = [plan(epsilon=float(epsilon), rounds=count) for count in counts]
        assert noises == [f"{one.guarantee.noise:.2f}" for one in plans]
        assert {f"{100 * one.found_of_participants:.1f} %" for one in plans} == {found}
