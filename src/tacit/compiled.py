"""Compiled kernels, kept on disk under the contents of all that they were compiled from.

`compiled` stands before every kernel of the project. It is `numba.njit` with a cache of its own:
numba's looks at the file of a kernel alone, so that a kernel kept its old code when a function that
it calls in another file had changed. Here the name of a kept kernel is a digest of its code, its
flags, the values of the constants it reads, the same of every function it calls, and of the
versions and settings of what compiled it. All of that is taken from what the process has loaded,
so no clock, no path and no edit of a file under a running process can bring in other code.

The folder lies beside `TACIT_CACHE` where that is set, else in `__pycache__` beside this file, else
in the user's own cache; it must belong to the user alone, since what lies in it is run. Where there
is no such folder, kernels are compiled in memory: nothing else changes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

PLACE = "TACIT_CACHE"  # the variable that names a folder for what can be made again
KEPT = 1500  # files; of more, those that were used longest ago go
_LIBRARIES = ("builtins", "math", "numba", "numpy")  # told by name: their versions are in the key
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_CHECKSUM = hashlib.sha256().digest_size


def compiled(**flags: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit(**flags)`, kept on disk while nothing that the kernel is made of changes.

    >>> @compiled(error_model="numpy")
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """

    def decorate(function: Callable[..., Any]) -> Any:
        # no function pointers for C: nobody takes them, and numba would compile one per kernel
        kernel = numba.njit(**{"no_cfunc_wrapper": True, **flags})(function)
        if isinstance(kernel, Dispatcher):  # NUMBA_DISABLE_JIT hands the function back
            kernel._cache = KernelCache(kernel)  # type: ignore[attr-defined]
        return kernel

    return decorate


class KernelCache(NullCache):
    """What numba asks for a kernel's code before it compiles, and tells afterwards.

    One file per kernel and signature, whole or absent, so that processes never read half of one.
    A file that is damaged, or cannot be read or written, is as good as none.
    """

    def __init__(self, kernel: Dispatcher) -> None:
        self.kernel = kernel

    @property
    def cache_path(self) -> str | None:
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        # numba's own cache refreshes the context here, which loads its whole compiler. Code that
        # was compiled needs the runtime alone, and compiling refreshes by itself.
        rtsys.initialize(target_context)
        path = self._path(sig, target_context.codegen())
        if path is None:
            return None
        try:
            content = path.read_bytes()
            checksum, payload = content[:_CHECKSUM], content[_CHECKSUM:]
            if hashlib.sha256(payload).digest() != checksum:
                return None
            kept_sig, reduced = pickle.loads(payload)
            if kept_sig != sig:
                return None
            with suppress(OSError):
                os.utime(path)  # used just now: it goes last
            return CompileResult._rebuild(target_context, *reduced)
        except Exception:  # whatever is wrong with a kept file, the source is at hand
            return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        path = self._path(sig, cres.codegen)
        if path is None or cres.lifted or cres.library.has_dynamic_globals:
            return
        payload = dumps((sig, cres._reduce()))
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
        try:
            part.write_bytes(hashlib.sha256(payload).digest() + payload)
            os.replace(part, path)
            _forget_old(path.parent)
        except OSError:  # a full disk, a folder that went away: the kernel itself is compiled
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        folder = cache_folder()
        if folder is None:
            return None
        try:
            made_of = contents(self.kernel)
        except TypeError:
            return None
        named = [fields for value in sig for fields in _fields(value)]
        whole = repr((made_of, str(sig), named, codegen.magic_tuple(), _compiler()))
        function = self.kernel.py_func
        name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        return folder / f"{name[-100:]}-{hashlib.sha256(whole.encode()).hexdigest()[:40]}"


def contents(kernel: Any) -> str:
    """A digest of all that a kernel is compiled from; a TypeError where that cannot be told.

    >>> from tacit.streams import draw_below, stream_key
    >>> contents(stream_key) == contents(stream_key), contents(stream_key) == contents(draw_below)
    (True, False)
    """
    return hashlib.sha256("\n".join(_told(kernel, frozenset(), {})).encode()).hexdigest()


def _fields(value: Any) -> Iterator[str]:
    """The names in order of what a type of an argument calls by name: numba's own name of such a
    type leaves them out, and a kernel that was compiled reads places."""
    kinds: Any = numba.types
    if isinstance(value, kinds.BaseNamedTuple):
        yield f"{value.instance_class.__qualname__} {value.fields!r}"
    if isinstance(value, kinds.BaseTuple):
        for one in value.types:
            yield from _fields(one)
    if isinstance(value, kinds.Optional):
        yield from _fields(value.type)


_Seen = dict[tuple[int, frozenset[str]], int]


def _told(value: Any, names: frozenset[str], seen: _Seen) -> Iterator[str]:
    """Lines that tell a value which a kernel reads; `names` are those its code mentions.

    What was told before is only referred to, so kernels that call themselves end here too. Of a
    module only what is named is told, so one that others name more of is told again.
    """
    told = (id(value), names if isinstance(value, types.ModuleType) else frozenset())
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, np.ndarray | np.generic):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        yield f"{value.dtype} {value.shape} {content}"
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} {len(value)} {getattr(value, '_fields', ())!r}"
        for one in value:
            yield from _told(one, names, seen)
    elif isinstance(value, set | frozenset):
        yield from _told(sorted("\n".join(_told(one, names, {})) for one in value), names, seen)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _told((key, value[key]), names, seen)
    elif told in seen:
        yield f"as before {seen[told]}"
    elif name := _library_name(value):
        yield f"library {name}"
    elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        yield f"fields {value.__module__}.{value.__qualname__} {value._fields!r}"
    elif isinstance(value, Dispatcher | types.FunctionType | types.ModuleType):
        seen[told] = len(seen)
        yield from _told_inside(value, names, seen)
    else:
        raise TypeError(f"A kernel reads {value!r}, whose contents cannot be told.")


def _told_inside(
    value: Dispatcher | types.FunctionType | types.ModuleType,
    names: frozenset[str],
    seen: _Seen,
) -> Iterator[str]:
    if isinstance(value, types.ModuleType):
        yield from _told_names(vars(value), names, seen)
    elif isinstance(value, Dispatcher):
        yield from _told(dict(value.targetoptions), names, seen)
        yield from _told(value.py_func, names, seen)
    else:
        names = frozenset(_names(value.__code__))
        yield f"function {value.__module__}.{value.__qualname__}"
        yield from _told_code(value.__code__)
        yield from _told((value.__defaults__, value.__kwdefaults__), names, seen)
        yield from _told([cell.cell_contents for cell in value.__closure__ or ()], names, seen)
        yield from _told_names(value.__globals__, names, seen)


def _told_names(found: dict[str, Any], names: frozenset[str], seen: _Seen) -> Iterator[str]:
    for name in sorted(names & found.keys()):
        yield f"name {name}"
        yield from _told(found[name], names, seen)


def _told_code(code: types.CodeType) -> Iterator[str]:
    """A code object without the places it stands at: moving a function changes nothing."""
    yield f"code {code.co_code.hex()} {code.co_exceptiontable.hex()} {code.co_flags}"
    yield f"arguments {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}"
    yield f"names {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _told_code(constant)
        else:
            yield from _told(constant, frozenset(), {})


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _library_name(value: Any) -> str | None:
    """The full name of what a library gives (a module, class or function); None for all else."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
    elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        name = f"{value.__module__}.{value.__qualname__}"
    elif isinstance(value, np.ufunc):
        name = f"numpy.{value.__name__}"
    else:
        return None
    return name if name.split(".")[0] in _LIBRARIES else None


def _compiler() -> tuple[Any, ...]:
    """Versions and settings of whatever turns code into numbers."""
    config: Any = numba.config
    settings = (
        "OPT",
        "LOOP_VECTORIZE",
        "SLP_VECTORIZE",
        "USING_SVML",
        "BOUNDSCHECK",
        "DEBUGINFO_DEFAULT",
    )
    return (
        sys.version_info[:3],
        *(library.__version__ for library in (numba, llvmlite, np)),
        *(repr(getattr(config, name, None)) for name in settings),
    )


@cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept; None where no folder is the user's own and can be written.

    >>> cache_folder() is None or cache_folder().is_dir()
    True
    """
    return next((folder for folder in _places() if _is_ours(folder)), None)


def _places() -> Iterator[Path]:
    """Never in the folder of fetched data: nobody else's file may come to lie here."""
    with suppress(RuntimeError):  # nobody's home
        if chosen := os.environ.get(PLACE):
            yield _beside(Path(chosen).expanduser().absolute())
    yield Path(__file__).parent / "__pycache__" / "kernels"
    with suppress(RuntimeError):
        own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        yield _beside(own / "tacit")


def _beside(folder: Path) -> Path:
    return folder.with_name(folder.name + "-kernels")


def _is_ours(folder: Path) -> bool:
    """A folder that nobody else can look or write into, made where there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        probe = folder / f"{uuid.uuid4().hex}.part"
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return folder.is_dir() and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _forget_old(folder: Path) -> None:
    """Keep the newest files only: code that nothing asks for any more goes."""
    with os.scandir(folder) as entries:
        used = []
        for entry in entries:
            with suppress(OSError):  # another process was faster
                used.append((entry.stat().st_mtime_ns, entry.path))
    for _, path in sorted(used, reverse=True)[KEPT:]:
        with suppress(OSError):
            os.unlink(path)
