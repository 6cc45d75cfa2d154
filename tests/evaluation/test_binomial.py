from math import comb

import pytest

from tacit.errors import TacitError
from tacit.evaluation.references import chance_bound


def mass(n, p, hits):
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in hits)


def test_bound_by_hand():
    # 10 fair coins: P(0) = 1/1024, P(0 or 1) = 11/1024; alpha / 2 = 1/100 cuts off 0 and 10 alone.
    assert chance_bound(10, 0.5, alpha=0.02) == (0.1, 0.9)


@pytest.mark.parametrize(
    ("n", "p", "alpha"), [(100, 0.1, 1e-4), (943, 0.006, 1e-3), (50, 0.9, 0.05)]
)
def test_bound_is_the_tightest_that_holds(n, p, alpha):
    low, high = (round(n * bound) for bound in chance_bound(n, p, alpha=alpha))
    assert mass(n, p, range(low)) <= alpha / 2 < mass(n, p, range(low + 1))
    assert mass(n, p, range(high + 1, n + 1)) <= alpha / 2 < mass(n, p, range(high, n + 1))


def test_sure_things_leave_no_room():
    assert chance_bound(20, 0.0) == (0.0, 0.0)
    assert chance_bound(20, 1.0) == (1.0, 1.0)


def test_impossible_numbers_are_refused():
    with pytest.raises(TacitError, match="at least 1 user"):
        chance_bound(0, 0.5)
    with pytest.raises(TacitError, match="probability from 0 to 1"):
        chance_bound(10, 10)
