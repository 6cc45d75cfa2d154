"""What a person can get wrong, said in one sentence.

Everything that a user of the command line or the library can cause raises `TacitError`; the command
prints the sentence and exits with code 2. A traceback is for our own mistakes only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 60  # characters of a value that a message shows
LISTED = 80  # names that a message lists


class TacitError(Exception):
    """One clear sentence: what is wrong, where, and what to do.

    >>> str(TacitError("No file at 'x.csv'; check the path."))
    "No file at 'x.csv'; check the path."
    """


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
