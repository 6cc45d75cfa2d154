"""Synchronisation rules, held to their battery."""

from tacit.server.clusters import ClusterMean
from tacit.server.graph import GraphMean
from tacit.sync.additive import Additive
from tacit.sync.anchored import Anchored
from tacit.sync.contrast import GroupKept
from tacit.sync.guidance import AdaptiveGuidance
from tacit.sync.isolated import Isolated
from tacit.sync.proximal import Proximal
from tacit.sync.replace import Replace
from tacit.testing import SyncTests


class TestReplace(SyncTests):
    sync = Replace()


class TestReplaceAndKeep(SyncTests):
    sync = Replace(keep=True)


class TestIsolated(SyncTests):
    sync = Isolated()


class TestAdditive(SyncTests):
    sync = Additive(schedule="fixed")


class TestProximal(SyncTests):
    sync = Proximal(strength=0.5)
    server = GraphMean()


class TestGroupKept(SyncTests):
    sync = GroupKept()
    server = ClusterMean(clusters=4)


class TestAnchored(SyncTests):
    sync = Anchored()


class TestGuidance(SyncTests):
    sync = AdaptiveGuidance(beta=0.5, every=1, epochs=2)
