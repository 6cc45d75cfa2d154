"""Why an item stands in a list: the view that carried it and the inputs it rests on, or the items
of the person's own history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacit.core.compose import ComposedAlgorithm
from tacit.data.views import History
from tacit.engines.explain import explain
from tacit.engines.scoring import client_parameters
from tacit.engines.state import State


@dataclass(frozen=True)
class Reason:
    """What views and inputs bring to the logit of one item, for one person.

    `views` and `inputs` are logits minus the logits without that view or input. A part that brings
    the same to every item moves no item in the list, so the lifts say how much more it brings to
    this item than to the mean item of the catalogue; `weights` are the router's.

    >>> reason = Reason({"sum": 1.0}, {"sum": -3.0}, {"sum": 0.5}, {"id": 0.25}, {"id": 0.2})
    >>> reason.carried_by, reason.rests_on
    (None, 'id')
    """

    weights: Mapping[str, float]
    views: Mapping[str, float]
    view_lifts: Mapping[str, float]
    inputs: Mapping[str, float]
    input_lifts: Mapping[str, float]

    @property
    def carried_by(self) -> str | None:
        """The view that lifts the item most; None where there is only one, or none lifts it."""
        return _most(self.view_lifts) if len(self.view_lifts) > 1 else None

    @property
    def rests_on(self) -> str | None:
        """The input that lifts the item most."""
        return _most(self.input_lifts)

    @property
    def view_shares(self) -> dict[str, float]:
        """The lifts of the views as shares of all that they move the item by, up or down."""
        total = sum(abs(lift) for lift in self.view_lifts.values()) or 1.0
        return {name: lift / total for name, lift in self.view_lifts.items()}

    def text(self) -> str:
        """One sentence.

        >>> lifts = {"sum": 3.0, "gate": -1.0}
        >>> Reason({}, {}, lifts, {}, {"id": 0.5, "text": -0.1}).text()
        'carried by the view sum (share: sum +75 %, gate -25 %); rests most on its id (against the \
mean item: id +0.50, text -0.10).'
        """
        said = []
        if len(self.view_lifts) > 1:
            shares = ", ".join(f"{name} {100 * x:+.0f} %" for name, x in self.view_shares.items())
            head = f"carried by the view {self.carried_by}" if self.carried_by else "by no view"
            said.append(f"{head} (share: {shares})")
        changes = ", ".join(f"{name} {lift:+.2f}" for name, lift in self.input_lifts.items())
        head = f"rests most on its {self.rests_on}" if self.rests_on else "rests on no single input"
        said.append(f"{head} (against the mean item: {changes})")
        return "; ".join(said) + "."

    def fields(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self) | {
            "view_shares": self.view_shares,
            "carried_by": self.carried_by,
            "rests_on": self.rests_on,
            "sentence": self.text(),
        }


NAMED = 3  # items of a history that a sentence names


@dataclass(frozen=True)
class Brought:
    """One item of a history, and what it brings to the logit of another item."""

    item: str
    title: str | None
    contribution: float


@dataclass(frozen=True)
class HistoryReason:
    """What the items of a person's history bring to the logit of one item, the most first.

    The logit is the sum of all contributions.

    >>> brought = (Brought("a", "Alien", 3.0), Brought("b", None, 1.0), Brought("c", None, -1.0))
    >>> HistoryReason(brought).text()
    'carried by Alien (+60 %) and b (+20 %); the other items of the history bring -20 %.'
    """

    history: tuple[Brought, ...]

    @property
    def shares(self) -> dict[str, float]:
        """Contributions as shares of all that the history moves the item by, up or down."""
        total = sum(abs(one.contribution) for one in self.history) or 1.0
        return {one.item: one.contribution / total for one in self.history}

    @property
    def carried_by(self) -> tuple[Brought, ...]:
        """The few items that lift it most."""
        return tuple(one for one in self.history[:NAMED] if one.contribution > 0)

    def text(self) -> str:
        """One sentence."""
        shares, named = self.shares, self.carried_by
        if not named:
            return "carried by no item of the history."
        said = [f"{one.title or one.item} ({100 * shares[one.item]:+.0f} %)" for one in named]
        rest = sum(shares.values()) - sum(shares[one.item] for one in named)
        others = f"; the other items of the history bring {100 * rest:+.0f} %"
        words = " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)
        return f"carried by {words}{others if len(self.history) > len(named) else ''}."

    def fields(self) -> dict[str, Any]:
        """For programs."""
        shares = self.shares
        named = [{**asdict(one), "share": shares[one.item]} for one in self.carried_by]
        return {**asdict(self), "carried_by": named, "sentence": self.text()}


def _most(lifts: Mapping[str, float]) -> str | None:
    name = max(lifts, key=lambda one: lifts[one], default=None)
    return name if name is not None and lifts[name] > 0 else None


def reasons(
    algorithm: ComposedAlgorithm, state: State, user: int, history: History, item_K: np.ndarray
) -> list[Reason]:
    """A reason for each of some items; the method must be a fused one."""
    p = client_parameters(algorithm, state, user, history)
    found = explain(algorithm, p, np.arange(algorithm.task.n_items))
    view_lift_NV = found.view_NV - found.view_NV.mean(axis=0)
    input_lift_NM = found.input_NM - found.input_NM.mean(axis=0)

    def named(names: tuple[str, ...], value: np.ndarray) -> dict[str, float]:
        return dict(zip(names, value.tolist(), strict=True))

    return [
        Reason(
            named(found.views, found.weight_NV[item]),
            named(found.views, found.view_NV[item]),
            named(found.views, view_lift_NV[item]),
            named(found.inputs, found.input_NM[item]),
            named(found.inputs, input_lift_NM[item]),
        )
        for item in item_K.tolist()
    ]
