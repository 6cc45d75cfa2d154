"""The closed forms of `accounting` beside accountants that others wrote.

`dp-accounting` (the extra `privacy`) has two: one bounds Rényi divergences (RDP), one follows the
whole distribution of the privacy loss on a grid (PLD). Both compose numerically, and both are
pessimistic: what they give is never below the truth. For a Gaussian mechanism PLD must agree with
the closed form up to its grid, and RDP stand above it.

For Laplace noise we state the pure epsilon, with delta 0, which adds up over releases. At delta 0
PLD has no finite answer, so it is asked at a delta above 0, where it is allowed to stand below. As
delta falls it rises to the pure epsilon, and must never pass it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tacit.errors import TacitError
from tacit.privacy.guarantee import Guarantee

# of privacy losses; PLD's error at z = 2, T = 50 is below 1e-6 with it, at a tenth of the time
INTERVAL = 1e-3


@dataclass(frozen=True)
class Agreement:
    """Epsilon of one guarantee by three accountants, at one delta."""

    delta: float
    closed_form: float
    rdp: float
    pld: float

    @property
    def gap(self) -> float:
        """How far PLD is from the closed form, as a share of it."""
        return abs(self.pld - self.closed_form) / max(self.closed_form, 1e-12)

    @property
    def looseness(self) -> float:
        """How much larger RDP's epsilon is, as a share of the closed form's."""
        return self.rdp / max(self.closed_form, 1e-12) - 1.0


def agreement(
    stated: Guarantee, delta: float | None = None, interval: float = INTERVAL
) -> Agreement:
    """A guarantee by its closed form, by RDP and by PLD; `delta` is the guarantee's own, and must
    be given where that is 0."""
    at = stated.delta if delta is None else delta
    if not 0 < at < 1:
        raise TacitError(f"delta is {at}; both accountants need one between 0 and 1, as in 1e-5.")
    accounting = _library()
    event = _event(accounting, stated)
    rdp, pld = (
        _epsilon(accountant, event, stated.releases, at)
        for accountant in (
            accounting.rdp.RdpAccountant(),
            accounting.pld.PLDAccountant(value_discretization_interval=interval),
        )
    )
    return Agreement(at, stated.epsilon, rdp, pld)


def _event(accounting: ModuleType, stated: Guarantee) -> Any:
    """One release, its noise over its sensitivity."""
    multiplier = stated.noise / stated.sensitivity
    if stated.mechanism == "gaussian":
        return accounting.GaussianDpEvent(multiplier)
    if stated.mechanism == "laplace":
        return accounting.LaplaceDpEvent(multiplier)
    raise TacitError(
        f"The other accountants have no event for {stated.mechanism} noise; they check gaussian "
        "and laplace."
    )


def _epsilon(accountant: Any, event: Any, releases: int, delta: float) -> float:
    return float(accountant.compose(event, releases).get_epsilon(delta))


def _library() -> ModuleType:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError as error:
        raise TacitError(
            "Other accountants are in the package dp-accounting, which is not here; install "
            "tacit with its extra: pip install 'tacit[privacy]'."
        ) from error
    return dp_accounting
