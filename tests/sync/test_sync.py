"""Synchronisation rules, held to their battery."""

from tacit.parts.clusters import ClusterMean
from tacit.parts.contrast import GroupKept
from tacit.parts.graph import GraphMean
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.sync import Additive, Anchored, Isolated, Proximal, Replace
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
