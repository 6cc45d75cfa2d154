"""FedRKG (Lim et al.): knowledge guidance of personal tables, and its ablations by name.

The paper fixes β = .99, T_int = 100, 5 gate epochs, 1000 rounds, and one joint step per batch at
the base's rates. Its released code also clips the gradient of every step to norm 1 over all
parameters, applies guidance one round late, shrinks all rates from round to round on Amazon-Video,
and scores with a linear layer and a bias: `clip=1.0`, `at="next"`, `decay=0.99`, `scorer="linear"`.
Nothing but the item table is ever sent, so a shared scorer becomes private.

At the released gate rate, 1e-4, gates do not move: one epoch changes a client's loss by less than
the share of 1e-4 at which its training stops, every gate stays at one half, and adaptive guidance
equals the fixed one (`fedrkg_without_ag`). The paper's grid ends at 0.1. `gates="moving"` is ours:
a rate of 1, at which they move. A test holds both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.core.parts import Local
from tacit.parts.backbones import LinearHead
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.sync import Isolated, Replace, require_ground
from tacit.plugins.entry import PLUGINS, Plugin, Promise
from tacit.plugins.personal import with_private_scorer

GATE_RATES = {"released": 1e-4, "moving": 1.0}
GateInput = Literal["own_global_difference", "own_global", "difference", "own", "global"]
GUIDED = Promise(
    "a personal table under guidance",
    lambda m: m.sync.guidance is not None and not m.backbone.shared(),
)


def fedrkg(
    method: Method,
    beta: float = 0.99,
    every: int = 100,
    epochs: int = 5,
    gate_rate: float | None = None,
    at: Literal["same", "next"] = "same",
    gate_input: GateInput = "own_global_difference",
    clip: float | None = None,
    decay: float = 1.0,
    scorer: Literal["base", "linear"] = "base",
    gates: Literal["released", "moving"] = "released",
) -> Method:
    """The method with a personal table under adaptive guidance; `gates` names a rate of the gate
    where `gate_rate` gives none.

    >>> from tacit.methods import fedmf
    >>> fedrkg(fedmf(), beta=0.9).sync.beta
    0.9
    """
    require_ground(method.sync, "fedrkg")
    gate = Sgd(GATE_RATES[gates] if gate_rate is None else gate_rate)
    sync = AdaptiveGuidance(beta, every, epochs, gate, at=at, gate_input=gate_input)
    if scorer == "linear":
        method = _linear(method)
    guided = replace(with_private_scorer(method, "fedrkg"), sync=sync)
    local = _trained(guided.local, decay, clip)
    server = guided.server.stepping_items_with(local.items)  # as the devices would
    return replace(guided, local=local, server=server)


PLUGINS["fedrkg"] = Plugin(
    fedrkg,
    "personal table, guided by the mean of all through a gate (which moves with gates=moving)",
    "fedrkg",
    1000,
    GUIDED,
)


def _linear(method: Method) -> Method:
    """The method with a linear scorer, for which a mixture of views is all of an item."""
    dim = method.backbone.dim
    return replace(method, backbone=LinearHead(dim), items=method.items.filling(dim))


def _trained(local: Local, decay: float, clip: float | None) -> Local:
    """The same local rule with rates that shrink and steps that are bounded."""
    if local.inner is not None:  # fused items came first: how a device trains stands inside
        inner = _trained(local.inner, decay, clip)
        return replace(local, inner=inner)  # type: ignore[type-var]
    if decay != 1.0:
        model = replace(local.model, decay=decay)  # type: ignore[type-var]
        items = replace(local.items, decay=decay)  # type: ignore[type-var]
        local = replace(local, model=model, items=items)  # type: ignore[type-var]
    if clip is not None:
        local = replace(local, gradient_clip=clip)  # type: ignore[type-var]
    return local


def knowledge_guidance(
    method: Method,
    beta: float = 0.99,
    every: int = 100,
    at: Literal["same", "next"] = "same",
    clip: float | None = None,
) -> Method:
    """Ablation "w/o AG": fixed guidance, no gate is ever trained.

    >>> from tacit.methods import fedmf
    >>> knowledge_guidance(fedmf()).sync.epochs
    0
    """
    return fedrkg(method, beta, every, 0, at=at, clip=clip)


PLUGINS["fedrkg_without_ag"] = Plugin(
    knowledge_guidance, "FedRKG without the gate: fixed guidance", "fedrkg", 1000, GUIDED
)


def global_table(method: Method) -> Method:
    """Ablation "GIE": the global table replaces everybody's in every round, and ranks.

    >>> from tacit.methods import fedmf
    >>> global_table(fedmf()) == fedmf()
    True
    """
    require_ground(method.sync, "gie")
    return replace(method, sync=Replace())


PLUGINS["gie"] = Plugin(
    global_table,
    "FedRKG's ablation: the global table replaces all",
    "fedrkg",
    1000,
    Promise("a global table that replaces all and ranks", lambda m: m.sync == Replace()),
)


def personal_table(method: Method) -> Method:
    """Ablation "PIE": personal tables that are never aggregated.

    >>> from tacit.methods import fedmf
    >>> personal_table(fedmf()).sync
    Isolated()
    """
    require_ground(method.sync, "pie")
    return replace(with_private_scorer(method, "pie"), sync=Isolated())


PLUGINS["pie"] = Plugin(
    personal_table,
    "FedRKG's ablation: tables are never aggregated",
    "fedrkg",
    1000,
    Promise(
        "personal tables that are never aggregated",
        lambda m: m.sync.guidance is None and not m.sync.sends(1),
    ),
)
