"""Before a run: the noise for an epsilon, the epsilon of a noise, or the releases that both allow.

Of the three two are given, and the third follows in closed form. A release is one sum (or one
upload) that somebody else reads; a round of most methods is one release for those who take part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tacit.errors import TacitError, argument, nearest, shown
from tacit.privacy.accounting import (
    gaussian_noise,
    gaussian_power,
    gaussian_releases,
    laplace_noise,
    laplace_releases,
    pure_power,
    require_delta,
    require_epsilon,
)
from tacit.privacy.guarantee import Guarantee, Mechanism, View, sensitivity

Unknown = Literal["noise", "epsilon", "rounds"]

VIEWS: tuple[View, ...] = ("secure_sum", "local")
MECHANISMS: tuple[Mechanism, ...] = ("gaussian", "laplace")
POINTS = 60  # of the curve of a plan
FALSE_ALARMS = 0.05  # of the test with which a plan says what its epsilon means
# for people; a scale of Laplace noise is no standard deviation
NOISE_WORDS = {"gaussian": "standard deviation", "laplace": "scale"}


@dataclass(frozen=True)
class Curve:
    """How two numbers of a plan trade, all others fixed; `at` is where the plan stands."""

    x: str
    y: str
    points: tuple[tuple[float, float], ...]
    at: tuple[float, float]


@dataclass(frozen=True)
class Plan:
    """A guarantee that a run with these numbers would have, and which of them was computed.

    >>> found = plan(noise=2.0, rounds=50)
    >>> found.unknown, round(found.guarantee.epsilon, 4)
    ('epsilon', 20.6755)
    """

    unknown: Unknown
    guarantee: Guarantee
    users: int | None = None

    @property
    def multiplier(self) -> float:
        """The noise of one release over the bound on one user, as papers on training give it.

        >>> plan(noise=3.0, rounds=50, bound=1.5).multiplier
        2.0
        """
        return self.guarantee.noise / self.guarantee.bound

    @property
    def noise_on_sum(self) -> float | None:
        """The standard deviation of what is added to a sum, or the scale of Laplace noise; None
        where it depends on how many there are and nobody said so."""
        if self.guarantee.view != "local":
            return self.guarantee.noise
        if self.users is None or self.guarantee.mechanism != "gaussian":
            return None
        return self.guarantee.noise * math.sqrt(self.users)

    @property
    def noise_of_device(self) -> float | None:
        """What one device adds: all of it in the local view, a share of it under a secure sum.

        >>> plan(noise=2.0, rounds=1, users=100).noise_of_device
        0.2
        """
        if self.guarantee.view == "local":
            return self.guarantee.noise
        if self.users is None or self.guarantee.mechanism != "gaussian":
            return None
        return self.guarantee.noise / math.sqrt(self.users)

    @property
    def noise_on_mean(self) -> float | None:
        """What is left of it in a mean over all users.

        >>> plan(noise=2.0, rounds=1, users=100).noise_on_mean
        0.02
        """
        if self.users is None or self.noise_on_sum is None:
            return None
        return self.noise_on_sum / self.users

    @property
    def found_of_participants(self) -> float:
        """The share of participants that the best test finds, if it raises a false alarm for one in
        twenty of the others: what the whole run can tell of one person, in one number.

        >>> round(plan(epsilon=8, rounds=100).found_of_participants, 3)
        0.508
        """
        stated = self.guarantee
        if stated.mechanism == "laplace":
            return pure_power(stated.epsilon, FALSE_ALARMS)
        mu = math.sqrt(stated.releases) * stated.sensitivity / stated.noise
        return gaussian_power(mu, FALSE_ALARMS)

    @property
    def curve(self) -> Curve:
        """Noise against epsilon where the noise was wanted; else epsilon against releases."""
        stated, settings = self.guarantee, _Settings.of(self.guarantee)
        if self.unknown == "noise":
            most = max(20.0, 2.0 * stated.epsilon)
            low = min(0.5, stated.epsilon / 2.0)
            epsilons = [low * (most / low) ** (k / (POINTS - 1)) for k in range(POINTS)]
            needed = [(epsilon, settings.noise(epsilon, stated.releases)) for epsilon in epsilons]
            return Curve("epsilon", "noise", tuple(needed), (stated.epsilon, stated.noise))
        last = max(10, 2 * stated.releases)
        step = max(1, last // POINTS)
        counts = sorted({1, *range(step, last + 1, step)})
        spent = [(float(t), released(stated, t).epsilon) for t in counts]
        at = (float(stated.releases), stated.epsilon)
        return Curve("releases", "epsilon", tuple(spent), at)

    def as_json(self) -> dict[str, Any]:
        """All numbers by name, as `--json` prints them."""
        stated = self.guarantee
        return {
            "computed": self.unknown,
            "epsilon": stated.epsilon,
            "delta": stated.delta,
            "epsilon_per_release": stated.epsilon_per_release,
            "rounds": stated.releases,
            "noise": stated.noise,
            "noise_is": NOISE_WORDS[stated.mechanism],
            "noise_multiplier": self.multiplier,
            "noise_on_sum": self.noise_on_sum,
            "noise_of_device": self.noise_of_device,
            "noise_on_mean": self.noise_on_mean,
            "false_alarms": FALSE_ALARMS,
            "found_of_participants": self.found_of_participants,
            "users": self.users,
            "view": stated.view,
            "adjacency": stated.adjacency,
            "mechanism": stated.mechanism,
            "norm": stated.norm,
            "bound": stated.bound,
            "sensitivity": stated.sensitivity,
            "text": stated.text,
        }


def plan(
    *,
    epsilon: float | None = None,
    noise: float | None = None,
    rounds: int | None = None,
    delta: float = 1e-5,
    view: str = "secure_sum",
    bound: float = 1.0,
    mechanism: str = "gaussian",
    users: int | None = None,
) -> Plan:
    """The third of epsilon, noise and rounds, from the two that are given.

    `noise` is on what the adversary sees in one release: a sum, or in the local view an upload.
    `rounds` are those in which one user takes part. `users` says what the noise is per device and
    in a mean, and how small delta has to be.

    >>> round(plan(epsilon=8, rounds=100).guarantee.noise, 3)
    6.002
    >>> plan(epsilon=8, noise=2).guarantee.releases
    11
    """
    given = {"epsilon": epsilon, "noise": noise, "rounds": rounds}
    missing: list[Unknown] = [name for name, value in given.items() if value is None]  # type: ignore
    if len(missing) != 1:
        names = ", ".join(argument(name) for name in given)
        raise TacitError(
            f"Give exactly two of {names}; the third is computed ({3 - len(missing)} given)."
        )
    _require(view, mechanism, bound, delta, users)
    if epsilon is not None:
        require_epsilon(epsilon)
    if noise is not None and not 0 < noise < math.inf:
        raise TacitError(f"noise is {shown(noise)}; it must be above 0 and finite.")
    if rounds is not None and rounds < 1:
        raise TacitError(f"rounds is {rounds}; it must be at least 1.")
    found = _Settings(view, mechanism, bound, delta)  # type: ignore[arg-type]
    if noise is None:
        assert epsilon is not None
        assert rounds is not None
        noise = found.noise(epsilon, rounds)
    elif rounds is None:
        assert epsilon is not None
        rounds = found.releases(epsilon, noise)
    return Plan(missing[0], found.stated(noise, rounds), users)


@dataclass(frozen=True)
class _Settings:
    """What does not change when noise, epsilon and releases trade."""

    view: View
    mechanism: Mechanism
    bound: float
    delta: float

    @classmethod
    def of(cls, stated: Guarantee) -> _Settings:
        return cls(stated.view, stated.mechanism, stated.bound, stated.delta)

    @property
    def reach(self) -> float:
        return sensitivity(self.view, self.bound)

    def noise(self, epsilon: float, releases: int) -> float:
        if self.mechanism == "laplace":
            return laplace_noise(epsilon, self.reach, releases)
        return gaussian_noise(epsilon, self.delta, self.reach, releases)

    def releases(self, epsilon: float, noise: float) -> int:
        if self.mechanism == "laplace":
            found = laplace_releases(epsilon, self.reach, noise)
        else:
            found = gaussian_releases(epsilon, self.delta, self.reach, noise)
        if not found:
            least = self.noise(epsilon, 1)
            raise TacitError(
                f"One release with noise {noise:g} already has an epsilon above {epsilon:g}; that "
                f"needs noise of at least {least:.4g}, or a larger epsilon."
            )
        return found

    def stated(self, noise: float, releases: int) -> Guarantee:
        try:
            if self.mechanism == "laplace":
                return Guarantee.laplace(self.view, self.bound, noise, releases)
            return Guarantee.gaussian(self.view, self.bound, noise, releases, self.delta)
        except ValueError as error:
            raise TacitError(
                f"Noise {noise:g} has no finite epsilon worth the name over {releases} releases; "
                "take more noise."
            ) from error


def released(stated: Guarantee, releases: int) -> Guarantee:
    """The same mechanism, released another number of times.

    >>> once = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=1, delta=1e-5)
    >>> round(released(once, 50).epsilon, 4)
    20.6755
    """
    return _Settings.of(stated).stated(stated.noise, releases)


def _require(view: str, mechanism: str, bound: float, delta: float, users: int | None) -> None:
    """Refuse what no guarantee can be about."""
    for what, name, known in (("view", view, VIEWS), ("mechanism", mechanism, MECHANISMS)):
        if name not in known:
            raise TacitError(f"Unknown {what} {shown(name)}; {nearest(name, known)}")
    if not 0 < bound < math.inf:
        raise TacitError(f"bound is {shown(bound)}; it must be above 0 and finite.")
    if users is not None and users < 1:
        raise TacitError(f"users is {users}; it must be at least 1.")
    if mechanism == "gaussian":
        require_delta(delta, users)
