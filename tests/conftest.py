"""How the tests are run: they do not change what is tested."""

from __future__ import annotations

import gc

import pytest

# Importing and collecting make objects that stay: nothing of them is garbage to look for.
gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers begin at the two halves of the list, and should not compile the same kernels at
    the same time. The first begins with analyses, which need many: the second begins with central
    methods, whose kernels nothing else needs. Fused items, which need the same, go last."""
    alone = [item for item in items if item.path.parts[-3:-1] == ("tests", "central")]
    others = [item for item in items if item.path.parts[-3:-1] != ("tests", "central")]
    others.sort(key=lambda item: item.path.parts[-3:-1] == ("tests", "items"))
    half = len(items) // 2
    items[:] = [*others[:half], *alone, *others[half:]]


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: what looks for garbage need not look through them, and
    compiling kernels makes so many objects that it would look every millisecond."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
