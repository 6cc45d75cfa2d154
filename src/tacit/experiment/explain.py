"""Why an item stands in a list: the view that carried it, and the inputs it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tacit.core.compose import Algorithm
from tacit.engines.client import client_leaves
from tacit.engines.explain import explain
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

    def says(self) -> str:
        """One sentence.

        >>> lifts = {"sum": 3.0, "gate": -1.0}
        >>> Reason({}, {}, lifts, {}, {"id": 0.5, "text": -0.1}).says()
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


def _most(lifts: Mapping[str, float]) -> str | None:
    name = max(lifts, key=lambda one: lifts[one], default=None)
    return name if name is not None and lifts[name] > 0 else None


def reasons(
    algorithm: Algorithm, state: State, user: int, item_H: np.ndarray, item_K: np.ndarray
) -> list[Reason]:
    """A reason for each of some items; the method must be a fused one."""
    p = client_leaves(algorithm, state, user, item_H)
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
