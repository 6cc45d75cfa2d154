"""The ground state of synchronisation, which plug-ins may displace; anything else they may not."""

from __future__ import annotations

from tacit.core.parts import Sync
from tacit.core.remedy import CompositionError, LeaveOut
from tacit.sync.replace import Replace


def require_ground(sync: Sync, plugin: str) -> None:
    """Refuse to displace a rule that another method or plug-in put there.

    >>> require_ground(Replace(), "fedrkg")
    """
    if type(sync) is not Replace:  # a subclass is a rule of somebody's own
        raise CompositionError(
            f"{plugin} and {type(sync).__name__} both decide how the item table meets the global "
            "one",
            LeaveOut((plugin,)),
        )
