"""What is promised to one person, against whom, and in which words.

Three views of what an adversary sees:

- `local`: the server sees every upload with its sender. Noise is added on the device, and the
  promise compares any two histories of one user that both have something to train on (who has
  nothing takes no part, which the server sees): two uploads of norm at most C are at most 2C apart.
- `secure_sum`: the server sees the sum of each round and who took part. The promise compares a
  participant's contribution with nothing in its place, so one person moves a sum by at most C. How
  many take part is public, since means divide by it.
- `released_model`: an outsider sees the final shared parameters. All sums were released to the
  server before, so the numbers are those of `secure_sum`.

The promise is about users: the whole history of one person, over all rounds. It is *joint*: a
person's own list depends on their own data, and the promise says what all others, together with the
server, learn of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tacit.errors import TacitError, nearest, shown
from tacit.privacy.accounting import (
    gaussian_epsilon,
    gaussian_noise,
    laplace_epsilon,
    require_delta,
    require_epsilon,
)
from tacit.privacy.fixed_point import FixedPoint
from tacit.privacy.skellam import SkellamReleases, composed_epsilon

View = Literal["local", "secure_sum", "released_model"]
Mechanism = Literal["gaussian", "laplace", "skellam"]

ADJACENCY: dict[View, str] = {
    "local": "any two histories of one user that both have something to train on",
    "secure_sum": "one user's contributions, or nothing in their place",
    "released_model": "one user's contributions, or nothing in their place",
}
SEES: dict[View, str] = {
    "local": "a server that sees every upload and its sender",
    "secure_sum": "a server that sees the sum of each round and who took part",
    "released_model": "somebody who sees the final shared parameters",
}


def sensitivity(view: View, bound: float) -> float:
    """How far apart neighbours are, where one upload has at most norm `bound`.

    >>> sensitivity("local", 1.5), sensitivity("secure_sum", 1.5)
    (3.0, 1.5)
    """
    return 2.0 * bound if view == "local" else bound


@dataclass(frozen=True)
class PrivacyRequest:
    """What a user asks for: a budget, a view, and how contributions are bounded.

    `clip` is the largest norm of one upload. With a `quantile` the bound follows that quantile of
    the norms, as one noisy bit of each client estimates it, and begins at `clip`. Without either a
    method's own bound is taken, or the median where it has none. `selection` says what happens to
    the choice of a round or a setting: "last" takes the last one, which looks at nobody;
    "uncovered" lets validation choose, which the guarantee then does not cover.

    >>> PrivacyRequest(epsilon=8.0).view
    'secure_sum'
    """

    epsilon: float = 8.0
    delta: float = 1e-5
    view: Literal["local", "secure_sum"] = "secure_sum"
    clip: float | None = None
    selection: Literal["last", "uncovered"] = "last"
    quantile: float | None = None

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        if self.view not in ("local", "secure_sum"):
            raise TacitError(
                f"The view {shown(self.view)} cannot be asked for; "
                f"{nearest(self.view, ('local', 'secure_sum'))}"
            )
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise TacitError(
                f"clip is {shown(self.clip)}; it must be above 0 and finite, or left out."
            )
        if self.quantile is not None and not 0 < self.quantile < 1:
            raise TacitError(
                f"quantile is {shown(self.quantile)}; it must lie between 0 and 1, or be left out."
            )

    def noise(self, bound: float, releases: int) -> float:
        """The standard deviation of the noise on what the adversary sees in one release."""
        reach = sensitivity(self.view, bound)
        return gaussian_noise(self.epsilon, self.delta, reach, releases)


@dataclass(frozen=True)
class Guarantee:
    """A finite epsilon, with everything it depends on. `None` stands for "no guarantee".

    >>> stated = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=50, delta=1e-5)
    >>> round(stated.epsilon, 4), round(stated.epsilon_per_release, 4)
    (20.6755, 1.9931)
    """

    view: View
    mechanism: Mechanism
    norm: Literal[1, 2]
    # The largest norm of what one user adds to a release. Where a bound is estimated on the way,
    # this, the sensitivity and the noise are in units of it.
    bound: float
    sensitivity: float
    noise: float  # on what the adversary sees: standard deviation, or scale of Laplace noise
    releases: int
    epsilon_per_release: float
    epsilon: float
    delta: float
    selection_covered: bool = True

    def __post_init__(self) -> None:
        if self.view not in get_args(View):
            raise TacitError(f"Unknown view {shown(self.view)}; {nearest(self.view, ADJACENCY)}")
        if not 0 <= self.epsilon < math.inf:
            raise ValueError("a guarantee has a finite epsilon")

    @classmethod
    def gaussian(
        cls, view: View, bound: float, noise: float, releases: int, delta: float
    ) -> Guarantee:
        """Gaussian noise on bounded vectors; composition is exact."""
        reach = sensitivity(view, bound)
        mu = reach / noise
        return cls(
            view,
            "gaussian",
            2,
            bound,
            reach,
            noise,
            releases,
            gaussian_epsilon(mu, delta),
            gaussian_epsilon(math.sqrt(releases) * mu, delta),
            delta,
        )

    @classmethod
    def laplace(cls, view: View, bound: float, noise: float, releases: int) -> Guarantee:
        """Laplace noise on vectors whose absolute values add up to at most `bound`.

        >>> Guarantee.laplace("local", bound=1.0, noise=4.0, releases=10).epsilon
        5.0
        """
        reach = sensitivity(view, bound)
        once = laplace_epsilon(reach, noise)
        return cls(view, "laplace", 1, bound, reach, noise, releases, once, releases * once, 0.0)

    @classmethod
    def skellam(
        cls,
        view: View,
        code: FixedPoint,
        noise: float,
        releases: int,
        delta: float,
        others: Sequence[SkellamReleases] = (),
    ) -> Guarantee:
        """Skellam noise on bounded vectors in fixed point, by the bound of `tacit.privacy.skellam`.

        `noise` is what honest devices add at the least, as a value and not in steps. `others` are
        releases of other sums of the same people, under noise of their own.

        >>> code = FixedPoint(bound=1.0, step=2**-16, length=1000)
        >>> stated = Guarantee.skellam("secure_sum", code, noise=2.0, releases=50, delta=1e-5)
        >>> round(stated.epsilon, 2), stated.noise  # 20.68 for Gaussian noise
        (22.63, 2.0)
        """
        reach = sensitivity(view, 1.0)
        variance, l1, l2 = (noise / code.step) ** 2, reach * code.l1, reach * code.l2
        once = SkellamReleases(variance, l1, l2)
        return cls(
            view,
            "skellam",
            2,
            code.bound,
            reach * code.bound,
            noise,
            releases + sum(one.releases for one in others),
            composed_epsilon([once], delta),
            composed_epsilon([once._replace(releases=releases), *others], delta),
            delta,
        )

    @property
    def adjacency(self) -> str:
        """What is compared, in words."""
        return ADJACENCY[self.view]

    @property
    def short(self) -> str:
        """The same for a cell of a table.

        >>> Guarantee.laplace("local", 1.0, 4.0, 10).short
        'user-level ε = 5, δ = 0, local'
        """
        chosen = "" if self.selection_covered else ", choice uncovered"
        view = self.view.replace("_", " ")
        return f"user-level ε = {self.epsilon:.4g}, δ = {self.delta:.4g}, {view}{chosen}"

    @property
    def text(self) -> str:
        """The words that stand beside the numbers of a run: never a bare number.

        >>> print(Guarantee.laplace("local", 1.0, 4.0, 10).text)
        user-level ε = 5, δ = 0 over 10 releases, against a server that sees every upload and its \
sender
        """
        words = "release" if self.releases == 1 else "releases"
        said = (
            f"user-level ε = {self.epsilon:.4g}, δ = {self.delta:.4g} over {self.releases} "
            f"{words}, against {SEES[self.view]}"
        )
        if not self.selection_covered:
            said += "; the choice on validation is not covered"
        return said
