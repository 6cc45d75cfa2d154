"""PFedRec's two rules on any host: a private scorer, and a privately tuned copy of the item table.

After the private part is updated, the item rows take a step with it (post-tuning); a client ranks
with its own tuned rows. FedMF under the plug-in is PFedRec with a user vector for its scorer;
FedNCF keeps the user vector and the whole perceptron; FedRecon fits its vector first anyway.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.core.method import Method
from tacit.core.remedy import CompositionError, LeaveOut
from tacit.items.id_only import IdOnly
from tacit.local.alternate import Alternate
from tacit.local.joint import Joint
from tacit.plugins.private_scorer import with_private_scorer
from tacit.sync.ground import require_ground
from tacit.sync.replace import Replace


def dual_personalised(method: Method) -> Method:
    """The method under PFedRec's two rules.

    >>> from tacit.backbones.head import LinearHead
    >>> from tacit.methods import fedmf, pfedrec
    >>> dual_personalised(replace(fedmf(), backbone=LinearHead())) == pfedrec()
    True
    """
    require_ground(method.sync, "dual_personalised")
    if type(method.items) is not IdOnly:
        raise CompositionError(
            "dual_personalised ranks with item rows that a client tuned, but "
            f"{type(method.items).__name__} makes items from more than a row",
            LeaveOut(("dual_personalised",)),
        )
    local = method.local
    if type(local) is Joint:
        local = Alternate(local.model, local.items, local.epochs, local.batch, local.gradient_clip)
    private = with_private_scorer(method, "dual_personalised")
    return replace(private, sync=Replace(keep=True), local=local)
