"""How far from chance a method that knows nothing may stray."""

from __future__ import annotations

from tacit.errors import TacitError


def chance_bound(n_users: int, probability: float, *, alpha: float = 1e-4) -> tuple[float, float]:
    """The shares of hits between which a method at chance stays, but for `alpha` of the time.

    Exact and two-sided: at most alpha / 2 of the binomial lies below the lower bound, and at most
    alpha / 2 above the upper one. `probability` is one user's chance of a hit, such as HR@10 of
    `references.chance`; where users have different chances their mean gives a wider, safe bound. It
    holds where held-out items are independent of each other, as in pure noise; in real data users
    share popular items, and a random ranking shared by all of them strays further.

    >>> low, high = chance_bound(1000, 0.1)
    >>> round(low, 3), round(high, 3)
    (0.065, 0.139)
    """
    if n_users < 1 or not 0 <= probability <= 1 or not 0 < alpha < 1:
        raise TacitError(
            f"A chance bound needs at least 1 user, a probability from 0 to 1 and an alpha between "
            f"0 and 1, not {n_users} users, {probability} and {alpha}; check the three numbers."
        )
    from scipy.stats import binom  # a second to import, and few runs need it

    low, high = (
        binom.ppf(alpha / 2, n_users, probability),
        binom.isf(alpha / 2, n_users, probability),
    )
    return float(low / n_users), float(high / n_users)
