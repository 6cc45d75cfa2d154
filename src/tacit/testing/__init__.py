"""Tests that every part inherits, shipped so that parts written elsewhere can be held to them."""

from tacit.testing.cold_tests import ColdTests
from tacit.testing.custom_tests import CustomTests
from tacit.testing.method_tests import FederatedTests, MethodTests
from tacit.testing.part_tests import (
    BackboneTests,
    ChannelTests,
    ItemTests,
    LocalTests,
    ObjectiveTests,
    OptimiserTests,
    PartTests,
    ServerTests,
    SyncTests,
)
from tacit.testing.synthetic import checkerboard, noise, ragged

__all__ = [
    "BackboneTests",
    "ChannelTests",
    "ColdTests",
    "CustomTests",
    "FederatedTests",
    "ItemTests",
    "LocalTests",
    "MethodTests",
    "ObjectiveTests",
    "OptimiserTests",
    "PartTests",
    "ServerTests",
    "SyncTests",
    "checkerboard",
    "noise",
    "ragged",
]
