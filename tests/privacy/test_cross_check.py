"""Closed forms against the accountants of dp-accounting, which others wrote."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tacit.errors import TacitError
from tacit.privacy.accounting import gaussian_epsilon
from tacit.privacy.cross_check import agreement
from tacit.privacy.guarantee import Guarantee

NEEDS = 'needs pip install "tacit[privacy]"'


@pytest.fixture(scope="module")
def accountants() -> None:
    pytest.importorskip("dp_accounting", reason=NEEDS, exc_type=ImportError)


def test_fifty_releases_of_noise_twice_the_bound(accountants):
    stated = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=50, delta=1e-5)
    found = agreement(stated)
    assert round(found.closed_form, 4) == round(found.pld, 4) == 20.6755
    assert found.rdp == pytest.approx(22.02, abs=0.005)
    assert found.looseness == pytest.approx(0.065, abs=0.001)


@pytest.mark.parametrize("view", ["secure_sum", "local"])
@pytest.mark.parametrize(
    ("bound", "noise", "releases", "delta"),
    [(1.0, 0.5, 1, 1e-5), (0.3, 5.0, 2, 1e-6), (1.0, 6.0023, 100, 1e-5), (2.0, 40.0, 1000, 1e-8)],
)
def test_gaussian_noise(accountants, view, bound, noise, releases, delta):
    found = agreement(Guarantee.gaussian(view, bound, noise, releases, delta))
    assert found.pld == pytest.approx(found.closed_form, abs=5e-5)
    assert found.rdp > found.closed_form


def test_an_epsilon_that_counts_one_round_alone_would_be_seen(accountants):
    stated = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=50, delta=1e-5)
    wrong = replace(stated, epsilon=stated.epsilon_per_release)
    assert agreement(wrong).gap > 1
    # as would the sensitivity of a sum in the local view
    local = Guarantee.gaussian("local", bound=1.0, noise=2.0, releases=50, delta=1e-5)
    assert agreement(replace(local, epsilon=gaussian_epsilon(50**0.5 / 2.0, 1e-5))).gap > 0.5


@pytest.mark.parametrize("releases", [1, 3])
def test_laplace_noise_has_its_pure_epsilon_as_delta_falls(accountants, releases):
    stated = Guarantee.laplace("local", bound=1.0, noise=4.0, releases=releases)
    assert stated.epsilon == releases * 0.5
    assert agreement(stated, delta=1e-12).pld == pytest.approx(stated.epsilon, abs=1e-9)
    assert agreement(stated, delta=1e-2).pld < stated.epsilon - 1e-3


def test_laplace_noise_over_many_releases_is_below_its_pure_epsilon(accountants):
    found = agreement(Guarantee.laplace("local", bound=1.0, noise=4.0, releases=50), delta=1e-5)
    assert found.pld == pytest.approx(17.474, abs=1e-3)
    assert found.pld < found.rdp < found.closed_form == 25.0


def test_what_cannot_be_checked_is_said(accountants):
    pure = Guarantee.laplace("local", bound=1.0, noise=4.0, releases=1)
    with pytest.raises(TacitError, match=r"delta is 0\.0; both accountants need one"):
        agreement(pure)
    with pytest.raises(TacitError, match="no event for skellam noise"):
        agreement(replace(pure, mechanism="skellam"), delta=1e-5)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    stated = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=1, delta=1e-5)
    with pytest.raises(TacitError, match=r"pip install 'tacit\[privacy\]'"):
        agreement(stated)
