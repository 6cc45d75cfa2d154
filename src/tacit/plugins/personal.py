"""PFedRec's two rules on any host: a private scorer and a privately tuned item table."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

from tacit.core.capabilities import is_ground
from tacit.core.fit import CompositionError, LeaveOut
from tacit.core.method import Method
from tacit.parts.local import Alternate
from tacit.parts.sync import Replace, require_ground
from tacit.plugins.entry import PLUGINS, Plugin, Promise

# The same method with a scorer that stays on the device.


def with_private_scorer(method: Method, plugin: str) -> Method:
    """A scorer of which something is shared becomes private; others are private already.

    A backbone that can be either says so with a field `scorer`, "shared" or "private"; one that
    shares parameters and has no such field is refused, in the name of the plug-in that asks.

    >>> from tacit.methods import fedncf, fedneumf
    >>> with_private_scorer(fedncf(), "dual_personalised").backbone.scorer
    'private'
    >>> with_private_scorer(fedneumf(), "fedrkg").backbone.shared()
    {}
    """
    backbone = method.backbone
    if not backbone.shared():
        return method
    if is_dataclass(backbone) and "scorer" in {field.name for field in fields(backbone)}:
        made = replace(backbone, scorer="private")
        if not made.shared():
            return replace(method, backbone=made)
    raise CompositionError(
        f"{plugin} keeps the scorer on the device, but {type(backbone).__name__} shares "
        f"{min(backbone.shared())!r} and has no field `scorer` to say otherwise",
        LeaveOut((plugin,)),
    )


# PFedRec's two rules on any host: a private scorer, and a privately tuned copy of the item table.
#
# After the private part is updated, the item rows take a step with it (post-tuning); a client ranks
# with its own tuned rows. FedMF under the plug-in is PFedRec with a user vector for its scorer;
# FedNCF keeps the user vector and the whole perceptron; FedRecon fits its vector first anyway.


def dual_personalised(method: Method) -> Method:
    """The method under PFedRec's two rules.

    >>> from tacit.parts.backbones import LinearHead
    >>> from tacit.methods import fedmf, pfedrec
    >>> dual_personalised(replace(fedmf(), backbone=LinearHead())) == pfedrec()
    True
    """
    require_ground(method.sync, "dual_personalised")
    if not is_ground(method.items):
        raise CompositionError(
            "dual_personalised ranks with item rows that a client tuned, but "
            f"{type(method.items).__name__} makes items from more than a row",
            LeaveOut(("dual_personalised",)),
        )
    local = method.local
    if is_ground(local):
        local = Alternate(local.model, local.items, local.epochs, local.batch, local.gradient_clip)
    private = with_private_scorer(method, "dual_personalised")
    return replace(private, sync=Replace(keep=True), local=local)


PLUGINS["dual_personalised"] = PLUGINS["dualper"] = Plugin(
    dual_personalised,
    "private scorer, privately tuned item table (PFedRec's two rules)",
    "pfedrec",
    promise=Promise(
        "a private scorer and a privately tuned copy of the item table",
        lambda m: m.sync.scores_with == "tuned" and not m.backbone.shared(),
    ),
)
