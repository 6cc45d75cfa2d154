"""Compiled kernels: an edit anywhere reaches them, equal contents are compiled once, and a machine
that keeps nothing gives the same numbers."""

from __future__ import annotations

import ast
import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
import types
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import tacit
from tacit import compiled as compiled_module
from tacit.compiled import KEPT, PLACE, cache_folder, compiled, contents

SOURCE = Path(tacit.__file__).parent

# `client_keys` stands in data/sampling.py and calls `stream_key` of streams.py.
KEYS = """
import json, sys
import numpy as np
from tacit.data.sampling import client_keys
found = client_keys(7, 2, 0, 1, np.uint64(12345))
hits = sum(client_keys.stats.cache_hits.values())
compiler = "numba.np.linalg" in sys.modules  # numba loads it when it compiles
print(json.dumps({"keys": [int(key) for key in found], "hits": hits, "compiler": compiler}))
"""


def start(package: Path, environment: dict[str, str], *command: str) -> subprocess.Popen[str]:
    outside = {name: value for name, value in os.environ.items() if name != PLACE}
    return subprocess.Popen(
        [sys.executable, "-W", "error", *command],
        env={**outside, "PYTHONPATH": str(package.parent), **environment},
        cwd=package.parent,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, error = process.communicate(timeout=300)
    assert (process.returncode, error) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def keys(package: Path, **environment: str) -> dict[str, Any]:
    return end(start(package, environment, "-c", KEYS))


def copied(to: Path) -> Path:
    shutil.copytree(SOURCE, to / "tacit", ignore=shutil.ignore_patterns("__pycache__"))
    return to / "tacit"


def change_streams(package: Path) -> None:
    streams = package / "streams.py"
    text = streams.read_text()
    assert "0xBF58476D1CE4E5B9" in text
    changed = text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB")
    streams.write_text(changed + "# longer: Python's own cache looks at times and sizes\n")


@pytest.mark.slow
def test_an_edit_of_another_file_reaches_the_kernel(tmp_path: Path) -> None:
    package = copied(tmp_path / "one")
    together = [start(package, {}, "-c", KEYS) for _ in range(2)]  # both write the same files
    first, second = (end(process) for process in together)
    assert first["keys"] == second["keys"]

    for file in package.rglob("*.py"):
        file.touch()
    moved = package.parent.rename(tmp_path / "two") / "tacit"
    again = keys(moved)
    # other times, another path, same contents; numba's compiler is not even imported
    assert again == {"keys": first["keys"], "hits": 1, "compiler": False}

    change_streams(moved)
    warm = keys(moved)
    empty = keys(moved, TACIT_CACHE=str(tmp_path / "empty"))
    assert warm["keys"] == empty["keys"] != first["keys"]
    assert (warm["hits"], empty["hits"]) == (0, 0)


def test_an_install_that_keeps_nothing_works_in_silence(tmp_path: Path) -> None:
    package = copied(tmp_path)
    file = tmp_path / "file"
    file.write_text("nothing can be made below a file")
    (package / "__pycache__").write_text("nor here")
    nowhere = str(file / "below")
    places = {"TACIT_CACHE": nowhere, "XDG_CACHE_HOME": nowhere, "HOME": nowhere}
    before = sorted(tmp_path.rglob("*"))
    found = keys(package, **places, PYTHONDONTWRITEBYTECODE="1")
    assert found == {"keys": keys(SOURCE)["keys"], "hits": 0, "compiler": True}
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_a_pull_changes_results_as_a_fresh_clone_does(tmp_path: Path, engine: str) -> None:
    package = copied(tmp_path / "clone")

    def metrics(name: str, **environment: str) -> Any:
        out = tmp_path / name
        command = f"-m tacit.cli.main train fedmf --data planted --rounds 3 --engine {engine} --out"
        script = "import sys; from tacit.cli.main import run; sys.argv[1:] = {!r}; run()"
        arguments = [*command.split()[2:], str(out)]
        process = start(package, environment, "-c", script.format(arguments))
        assert process.communicate(timeout=600)[1] is not None
        assert process.returncode == 0
        return json.loads((out / "run.json").read_text())["metrics"]

    before = metrics("before")
    assert metrics("before-again") == before
    change_streams(package)
    after = metrics("after")
    assert after == metrics("fresh", TACIT_CACHE=str(tmp_path / "empty"))
    assert after != before


# A kernel `caller` with everything it can be made of; each case changes one thing.
WHOLE = """
from collections import namedtuple
from tacit.compiled import compiled
import other

_STEP = 3
_TABLE = np.array([1.0, 2.0])
_PAIR = (1, 2.5)
_NAMED = namedtuple("Named", "first second")(1.0, 2.0)

@compiled(error_model="numpy")
def callee(x):
    return x + 1 + other.NEAR

def make(cell):
    @compiled(error_model="numpy")
    def inner(x, default=4):
        return x + cell + default
    return inner

inner = make(5)

@compiled(error_model="numpy", fastmath={"contract", "arcp"})
def caller(x):
    y = callee(x) + inner(x)
    return y + _STEP + _TABLE[0] + _PAIR[1] + other.FAR + np.sqrt(x) * _NAMED.first
"""

CHANGES = {
    "its own code": ("np.sqrt(x)", "np.exp(x)"),
    "a constant in its code": ("_PAIR[1]", "_PAIR[0]"),
    "a callee's code": ("return x + 1 ", "return x - 1 "),
    "a callee's constant": ("return x + 1 ", "return x + 2 "),
    "a callee's kind of constant": ("return x + 1 ", "return x + 1.0 "),
    "a callee's flags": ('"numpy")\ndef callee', '"numpy", fastmath=True)\ndef callee'),
    "its flags": ('fastmath={"contract", "arcp"}', 'fastmath={"contract"}'),
    "a number it reads": ("_STEP = 3", "_STEP = 4"),
    "the kind of a number it reads": ("_STEP = 3", "_STEP = np.int32(3)"),
    "an array it reads": ("[1.0, 2.0]", "[1.0, 2.5]"),
    "the kind of an array": ("[1.0, 2.0])", "[1.0, 2.0], np.float32)"),
    "a tuple it reads": ("(1, 2.5)", "(1, 2.25)"),
    "the order of names in a tuple it reads": ("first second", "second first"),
    "a closed-over value": ("make(5)", "make(6)"),
    "a default": ("default=4", "default=5"),
    "a constant of another module": ("import other", "import farther as other"),
    "a constant that a callee reads there": ("import other", "import nearer as other"),
}


def made_from(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, far, near in (("other", 1.5, 1.0), ("farther", 1.25, 1.0), ("nearer", 1.5, 2.0)):
        module = types.ModuleType(name)
        module.FAR, module.NEAR = far, near  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    found: dict[str, Any] = {"np": np, "__name__": "whole"}
    exec(text, found)
    return contents(found["caller"])


@pytest.mark.parametrize("what", CHANGES)
def test_all_that_a_kernel_is_made_of_counts(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = CHANGES[what]
    assert WHOLE.count(old) == 1
    before = made_from(WHOLE, monkeypatch)
    assert made_from(WHOLE.replace(old, new), monkeypatch) != before


def test_the_order_of_names_in_an_argument_counts() -> None:
    one: Any = namedtuple("Pair", "a b")
    other: Any = namedtuple("Pair", "b a")

    @compiled(error_model="numpy")
    def difference(pair):  # type: ignore[no-untyped-def]
        return pair.a - pair.b

    def path(value: object) -> Path | None:
        kept, codegen = difference._cache, difference.targetctx.codegen()
        found: Path | None = kept._path((numba.typeof(value),), codegen)
        return found

    if cache_folder() is None:
        pytest.skip("no folder to keep kernels in")
    assert path(one(1.0, 2.0)) == path(one(3.0, 4.0))
    assert path(one(1.0, 2.0)) != path(other(1.0, 2.0))
    assert path((one(1.0, 2.0), 1)) != path((other(1.0, 2.0), 1))


def test_lines_comments_and_the_order_of_flags_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = "# a word\n\n\n" + WHOLE.replace('{"contract", "arcp"}', '{"arcp", "contract"}')
    assert made_from(moved, monkeypatch) == made_from(WHOLE, monkeypatch)


def test_what_cannot_be_told_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_module, "cache_folder", lambda: tmp_path)
    found: dict[str, Any] = {"np": np, "sqrt": object(), "compiled": compiled, "__name__": "x"}
    exec("@compiled()\ndef kernel(x):\n    return np.sqrt(x)", found)  # it may mean the object
    with pytest.raises(TypeError, match="cannot be told"):
        contents(found["kernel"])
    assert found["kernel"](9.0) == 3.0
    assert list(tmp_path.iterdir()) == []


def _modules_with_kernels() -> list[str]:
    return [
        ".".join(("tacit", *file.relative_to(SOURCE).with_suffix("").parts))
        for file in sorted(SOURCE.rglob("*.py"))
        if "from tacit.compiled import compiled" in file.read_text()
    ]


def test_every_kernel_of_the_project_can_be_told() -> None:
    kernels = [
        value
        for name in _modules_with_kernels()
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, Dispatcher)
    ]
    assert len(kernels) > 100
    for kernel in kernels:
        assert isinstance(kernel._cache, compiled_module.KernelCache)  # type: ignore[attr-defined]
        assert len(contents(kernel)) == 64


def test_no_kernel_is_compiled_around_this_place() -> None:
    around = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file == SOURCE / "compiled.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            named = node.attr if isinstance(node, ast.Attribute) else getattr(node, "name", None)
            if named in ("njit", "jit", "vectorize", "guvectorize", "stencil", "cfunc"):
                around.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert around == []


def fresh_kernel() -> Callable[[float], float]:
    @compiled(error_model="numpy")
    def plus_three(x):  # type: ignore[no-untyped-def]
        return x + 3.0

    kernel: Callable[[float], float] = plus_three
    return kernel


def hits(kernel: Any) -> int:
    return sum(kernel.stats.cache_hits.values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiled_module, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_a_damaged_file_is_compiled_again(folder: Path) -> None:
    assert fresh_kernel()(1.0) == 4.0
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    kernel = fresh_kernel()
    assert (kernel(1.0), hits(kernel)) == (4.0, 1)
    for place in (0, 40, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        kernel = fresh_kernel()
        assert (kernel(1.0), hits(kernel)) == (4.0, 0)
    for cut in (0, 10, len(whole) - 1):
        file.write_bytes(whole[:cut])
        kernel = fresh_kernel()
        assert (kernel(1.0), hits(kernel)) == (4.0, 0)
    kernel = fresh_kernel()
    assert (kernel(1.0), hits(kernel)) == (4.0, 1)  # each time a whole one was written again


def test_a_full_disk_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: bytes) -> int:
        self.open("wb").close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert fresh_kernel()(1.0) == 4.0
    assert list(folder.iterdir()) == []


def test_files_that_nothing_asks_for_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_module, "KEPT", 3)
    for age in range(6):
        file = folder / f"old-{age}"
        file.write_text("")
        os.utime(file, (1000 - age, 1000 - age))
    fresh_kernel()(1.0)
    left = sorted(file.name for file in folder.iterdir())
    assert left[:2] == ["old-0", "old-1"]
    assert len(left) == 3
    assert 1000 <= KEPT <= 10_000  # a whole test suite keeps some 300


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_folder_that_others_may_enter_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "data"))
    folder = tmp_path / "data-kernels"
    folder.mkdir()
    folder.chmod(mode)
    assert cache_folder.__wrapped__() != folder
    folder.chmod(0o700)
    assert cache_folder.__wrapped__() == folder


def test_a_link_to_a_folder_and_a_folder_of_somebody_else_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "linked"))
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "linked-kernels").symlink_to(tmp_path / "own")
    assert cache_folder.__wrapped__() != tmp_path / "linked-kernels"
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "made"))
    made = tmp_path / "made-kernels"
    assert cache_folder.__wrapped__() == made
    assert made.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder.__wrapped__() is None


def test_nothing_that_is_fetched_can_lie_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tacit data get` writes below its own cache, under a name that the manifest gives."""
    from tacit.data.load import cache_dir

    monkeypatch.setattr(compiled_module, "__file__", "/dev/null/none.py")
    for place in (tmp_path / "chosen", None):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
        if place is None:
            monkeypatch.delenv("TACIT_CACHE", raising=False)
        else:
            monkeypatch.setenv("TACIT_CACHE", str(place))
        folder = cache_folder.__wrapped__()
        assert folder is not None
        assert folder.parent == cache_dir().parent
        assert not folder.is_relative_to(cache_dir())
