"""The same method with a scorer that stays on the device."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

from tacit.core.method import Method
from tacit.core.remedy import CompositionError, LeaveOut


def with_private_scorer(method: Method, plugin: str) -> Method:
    """A scorer of which something is shared becomes private; others are private already.

    A backbone that can be either says so with a field `scorer`, "shared" or "private"; one that
    shares leaves and has no such field is refused, in the name of the plug-in that asks.

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
