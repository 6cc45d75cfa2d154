"""What a person can get wrong, said in one sentence.

Everything that a user of the command line or the library can cause raises `TacitError`; the command
prints the sentence and exits with code 2. A traceback is for our own mistakes only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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


def nearest(name: str, known: Iterable[str]) -> str:
    """The ending of a message about an unknown name: the nearest one, and what there is.

    >>> nearest("pfedrek", ["fedmf", "pfedrec"])
    "did you mean 'pfedrec'? Known: fedmf, pfedrec."
    >>> nearest("zzz", ["fedmf"])
    'known: fedmf.'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    listing = ", ".join(names)
    return f"did you mean {close[0]!r}? Known: {listing}." if close else f"known: {listing}."
