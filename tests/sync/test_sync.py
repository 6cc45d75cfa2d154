"""Synchronisation rules, held to their battery."""

from tacit.sync.isolated import Isolated
from tacit.sync.replace import Replace
from tacit.testing import SyncTests


class TestReplace(SyncTests):
    sync = Replace()


class TestReplaceAndKeep(SyncTests):
    sync = Replace(keep=True)


class TestIsolated(SyncTests):
    sync = Isolated()
