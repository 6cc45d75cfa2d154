"""How the tests are run: they do not change what is tested."""

from __future__ import annotations

import gc

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers begin at the two halves of the list. Fused items go last, since the tests of
    analyses begin with the same kernels: both workers would compile them at the same time."""
    items.sort(key=lambda item: item.path.parts[-3:-1] == ("tests", "items"))


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: what looks for garbage need not look through them, and
    compiling kernels makes so many objects that it would look every millisecond."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
