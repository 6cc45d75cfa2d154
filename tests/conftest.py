"""How the tests are run: they do not change what is tested."""

from __future__ import annotations

import gc
import os

import pytest

# Importing and collecting make objects that stay: nothing of them is garbage to look for.
gc.disable()

# No test cuts the power: what a process has handed to the system is there for whoever reads next,
# also after a kill. Waiting for the disk is a large part of short runs.
os.fsync = lambda handle: None  # type: ignore[assignment]


# Folders whose tests compare engines: they are the ones that need kernels in double precision.
WIDE = (
    "central",  # whose kernels nothing else needs
    "channel",
    "core",
    "engines",
    "sync",
    "parts",
    "items",
    "node",
    "coordinator",
    "methods",  # single precision as well, which the other worker has compiled by then
    "privacy",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers begin at the two halves of the list, and should not compile the same kernels at
    the same time: the first begins with tests in single precision, the second with the others."""
    place = {("tests", name): number for number, name in enumerate(WIDE)}
    wide = [item for item in items if _folder(item) in place]
    others = [item for item in items if _folder(item) not in place]
    wide.sort(key=lambda item: place[_folder(item)])
    half = len(items) // 2
    items[:] = [*others[:half], *wide, *others[half:]]


def _folder(item: pytest.Item) -> tuple[str, ...]:
    """The two outermost folders of the repository that a test lies in."""
    return item.path.relative_to(item.config.rootpath).parts[:2]


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: what looks for garbage need not look through them, and
    compiling kernels makes so many objects that it would look every millisecond."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
