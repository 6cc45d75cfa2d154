"""A guarantee on any method whose server needs only sums: bounded uploads, and noise to go with it.

The plug-in writes down what is asked for. How much noise that is depends on how often one user
sends, which a run plans before it trains (`core/protection.py`).
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal

from tacit.core.fit import CompositionError, LeaveOut, has_field
from tacit.core.method import AnyMethod, Method
from tacit.core.registry import part_name
from tacit.plugins.entry import PLUGINS, Plugin, Promise
from tacit.privacy.guarantee import PrivacyRequest


def can_claim(method: AnyMethod) -> bool:
    """Whether a method can ask for a guarantee: it has a field `privacy`.

    >>> from tacit.methods import FedEase, FedPerGNN, Popularity, fedmf
    >>> [can_claim(build()) for build in (fedmf, FedEase, FedPerGNN, Popularity)]
    [True, True, False, False]
    """
    return "privacy" in {field.name for field in fields(method)}  # type: ignore[arg-type]


def private(
    method: AnyMethod,
    epsilon: float = 8.0,
    delta: float = 1e-5,
    view: Literal["local", "secure_sum"] = "secure_sum",
    clip: float | None = None,
    selection: Literal["last", "uncovered"] = "last",
    quantile: float | None = None,
) -> Any:
    """The method with (epsilon, delta) privacy of users asked for. `clip` bounds the norm of an
    upload; with `quantile`, or where nothing else bounds it, the bound is estimated on the way.

    Clients count alike: a weight by the size of a history would tell that size. Closed forms bound
    what a client adds by themselves, some as another method, and try one setting unless
    `selection` is "uncovered".

    >>> from tacit.methods import FedEase, fedavg
    >>> private(fedavg(), epsilon=2.0).server
    Mean(weights='uniform', cap=None)
    >>> type(private(FedEase(), epsilon=2.0)).__name__
    'PrivatePairs'
    """
    if not can_claim(method):
        title = part_name(type(method)) or type(method).__name__
        raise CompositionError(
            f"private bounds what clients send and noises its sum, and {title} has no field "
            "`privacy`",
            LeaveOut(("private",)),
        )
    request = PrivacyRequest(epsilon, delta, view, clip, selection, quantile)
    parts = method.composed
    if parts is None:
        return method.protected(request)  # type: ignore[union-attr]
    return replace(_counting_alike(parts), privacy=request)


def _counting_alike(method: Method) -> Method:
    if not has_field(method.server, "weights"):
        return method
    server = replace(method.server, weights="uniform", cap=None)  # type: ignore[type-var]
    return replace(method, server=server)


PLUGINS["private"] = Plugin(
    private,
    "user-level differential privacy, accounted for (ours; epsilon, delta, view, clip)",
    promise=Promise("a guarantee", lambda method: method.privacy is not None),
    any_method=True,
)
