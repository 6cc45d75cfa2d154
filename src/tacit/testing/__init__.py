"""Tests that every part inherits, shipped so that parts written elsewhere can be held to them."""

from tacit.testing.cold_tests import ColdTests
from tacit.testing.direct_tests import DirectTests
from tacit.testing.method_tests import FederatedTests, MethodTests
from tacit.testing.part_tests import ChannelTests, SyncTests
from tacit.testing.worlds import checkerboard, noise, ragged

__all__ = [
    "ChannelTests",
    "ColdTests",
    "DirectTests",
    "FederatedTests",
    "MethodTests",
    "SyncTests",
    "checkerboard",
    "noise",
    "ragged",
]
