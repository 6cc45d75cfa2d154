"""What a person can get wrong, said in one sentence.

Everything that a user of the command line or the library can cause raises `TacitError`; the command
prints the sentence and exits with code 2. A traceback is for our own mistakes only.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from typing import Any

SHOWN = 60  # characters of a value that a message shows
LISTED = 80  # names that a message lists


class TacitError(Exception):
    """One clear sentence: what is wrong, where, and what to do.

    >>> str(TacitError("No file at 'x.csv'; check the path."))
    "No file at 'x.csv'; check the path."
    """


# An argument is written in one way in Python and in another on the command line.

_FLAGS: ContextVar[bool] = ContextVar("flags", default=False)
_OTHER_FLAG = {"plugins": "with", "sets": "set"}  # all others only write - for _
_LISTS = ("plugins", "sets", "over", "metrics")


@contextmanager
def flags() -> Iterator[None]:
    """Inside, messages speak of flags, as somebody at the command line writes them.

    >>> with flags():
    ...     argument("device", "cpu")
    '--device cpu'
    """
    before = _FLAGS.set(True)
    try:
        yield
    finally:
        _FLAGS.reset(before)


def speaks_of_flags() -> bool:
    """Whether messages speak of flags here.

    >>> with flags():
    ...     speaks_of_flags()
    True
    """
    return _FLAGS.get()


def speak_as(with_flags: bool) -> None:
    """From now on messages speak of flags, or not: a process speaks as the one that started it."""
    _FLAGS.set(with_flags)


def argument(name: str, value: object = None) -> str:
    """An argument as the reader of a message writes it: a keyword in Python, or a flag.

    >>> argument("out"), argument("resume", True), argument("plugins", "clip")
    ('out=', 'resume=True', "plugins=['clip']")
    >>> with flags():
    ...     argument("out"), argument("resume", True), argument("plugins", "clip")
    ('--out', '--resume', '--with clip')
    """
    if not _FLAGS.get():
        if value is None:
            return f"{name}="
        return f"{name}={[value]!r}" if name in _LISTS else f"{name}={value!r}"
    flag = f"--{_OTHER_FLAG.get(name, name).replace('_', '-')}"
    if value is None or value is True:
        return flag
    if isinstance(value, Mapping):
        value = ",".join(f"{key}={inner}" for key, inner in value.items())
    return f"{flag} {value}"


class NoRoomError(TacitError):
    """A device has too little memory for the work, whatever its rates: no setting is to blame.

    >>> issubclass(NoRoomError, TacitError)
    True
    """


def shown(value: object) -> str:
    """What stands in a file or a flag, as a message shows it: quoted, and only its beginning.

    >>> shown("u1"), shown(5), shown("x" * 100)
    ("'u1'", '5', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'")
    """
    if isinstance(value, str):
        return repr(value if len(value) <= SHOWN else value[:SHOWN] + "…")
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def loggable(error: Exception) -> str:
    """What a log may hold of an error: our own sentence, else the kind alone, since the words of
    others may have people or items in them.

    >>> loggable(TacitError("The file is damaged.")), loggable(KeyError("ann"))
    ('The file is damaged.', 'KeyError')
    """
    return str(error) if isinstance(error, TacitError) else type(error).__name__


def whole(name: str, value: Any) -> int:
    """A whole number, also one of numpy; what is none is refused, as only Python can give it.

    >>> whole("rounds", 2.0)
    Traceback (most recent call last):
    tacit.errors.TacitError: rounds is 2.0; give a whole number.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TacitError(f"{name} is {shown(value)}; give a whole number.")
    return int(value)


def several(name: str, values: Any) -> tuple[str, ...]:
    """Texts where several may stand; one alone is taken as one, and not letter by letter.

    >>> several("plugins", "clip"), several("plugins", ["clip", "fedmr"])
    (('clip',), ('clip', 'fedmr'))
    """
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, Iterable) or not all(isinstance(one, str) for one in values):
        raise TacitError(f"{name} is {shown(values)}; give a list of texts.")
    return tuple(values)


def outcome_of(what: str, function: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
    """What a function gives that a user may have written; whatever it raises is one sentence.

    >>> outcome_of("the function of 'mine'", lambda: 1 / 0)
    Traceback (most recent call last):
    tacit.errors.TacitError: the function of 'mine' failed: ZeroDivisionError: division by zero; \
mend it where it is registered.
    """
    try:
        return function(*given, **named)
    except TacitError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise TacitError(
            f"{what} failed: {type(error).__name__}: {error}; mend it where it is registered."
        ) from error


def listed(names: Iterable[str]) -> str:
    """Names with commas between them: the first of very many, the beginning of very long ones.

    >>> listed(["user", "item"]), listed(["x"] * 100).endswith("x, … (100 in all)")
    ('user, item', True)
    """
    every = list(names)
    short = [name if len(name) <= SHOWN else name[:SHOWN] + "…" for name in every[:LISTED]]
    more = f", … ({len(every)} in all)" if len(every) > LISTED else ""
    return ", ".join(short) + more


def nearest(name: str, known: Iterable[str]) -> str:
    """The ending of a message about an unknown name: the nearest one, and what there is.

    >>> nearest("pfedrek", ["fedmf", "pfedrec"])
    "did you mean 'pfedrec'? Known: fedmf, pfedrec."
    >>> nearest("zzz", ["fedmf"])
    'known: fedmf.'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name[:SHOWN], names, n=1, cutoff=0.5)
    listing = listed(names)
    return f"did you mean {shown(close[0])}? Known: {listing}." if close else f"known: {listing}."
