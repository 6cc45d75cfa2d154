"""The same method with a scorer that stays on the device."""

from __future__ import annotations

from dataclasses import replace

from tacit.backbones.mlp import SharedMlp
from tacit.core.method import Method


def with_private_scorer(method: Method) -> Method:
    """A shared perceptron becomes private; other scorers are private already.

    >>> from tacit.methods import fedncf
    >>> with_private_scorer(fedncf()).backbone.scorer
    'private'
    """
    if isinstance(method.backbone, SharedMlp):
        return replace(method, backbone=replace(method.backbone, scorer="private"))
    return method
