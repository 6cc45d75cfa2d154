"""The histories of a node's people: rows that an application appends to.

An item may be recorded more than once. All rows are kept; what a repeated item means is said by the
protocol of an experiment, and by default its earliest row counts.
"""

from __future__ import annotations

import json
import math
import time as clock
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.errors import TacitError, nearest, shown
from tacit.node.store import Rows, Store

FILE = "history.sqlite"
LATEST = 2**63  # times are read again as numbers of 64 bits


@dataclass(frozen=True)
class Touched:
    """One interaction: whose, with what, and when by the device's own clock."""

    person: int
    item: str
    time: int | float


@dataclass(frozen=True, eq=False)
class Histories:
    """The rows of all people in the order in which they were recorded, with items as codes.

    `place_N` counts the rows of the file from 1, and `mark` is the last place of all.
    """

    person_N: np.ndarray
    item_N: np.ndarray
    time_N: np.ndarray
    place_N: np.ndarray
    mark: int

    def items_of(self, person: int) -> np.ndarray:
        """The distinct items of one person, by code."""
        return np.unique(self.item_N[self.person_N == person])


class HistoryFile:
    """The file of histories of a node with these people."""

    def __init__(self, store: Store, people: Sequence[str]) -> None:
        self.people = tuple(people)
        self._rows = Rows(store, FILE)

    def number_of(self, user: str | None) -> int:
        """The number of a person; without a name that of the only one there is."""
        if user is None:
            if len(self.people) > 1:
                raise TacitError(
                    f"This node has {len(self.people)} people; say whose it is with --user."
                )
            return 0
        if user not in self.people:
            raise TacitError(f"No user {shown(user)} on this node; {nearest(user, self.people)}")
        return self.people.index(user)

    def record(self, item: str, time: int | float | None = None, user: str | None = None) -> None:
        """Append one interaction; without a time, that of the clock now, in seconds."""
        self.record_all([(self.number_of(user), item, time)])

    def record_all(self, rows: Iterable[tuple[int, str, int | float | None]]) -> None:
        """Append interactions (person, item, time), all of them or none."""
        texts = []
        for person, item, time in rows:
            when = int(clock.time()) if time is None else time
            if isinstance(when, bool) or not math.isfinite(when) or abs(when) >= LATEST:
                raise TacitError(
                    f"The time {shown(when)} is no number of 64 bits; give seconds since 1970."
                )
            texts.append((person, json.dumps([item, when], ensure_ascii=False).encode()))
        self._rows.extend(texts)

    def touched(self) -> list[Touched]:
        """All interactions, in the order in which they were recorded."""
        return [Touched(row.person, *json.loads(row.text)) for row in self._rows.read()]

    def read(self, codes: dict[str, int]) -> Histories:
        """All interactions with items that have a code; others are not in the catalogue yet."""
        rows = self._rows.read()
        known = [(row.person, row.place, *json.loads(row.text)) for row in rows]
        kept = [(p, place, codes[item], t) for p, place, item, t in known if item in codes]
        columns = list(zip(*kept, strict=True)) or [(), (), (), ()]
        whole = all(isinstance(time, int) for time in columns[3])
        return Histories(
            np.array(columns[0], dtype=np.int64),
            np.array(columns[2], dtype=np.int64),
            np.array(columns[3], dtype=np.int64 if whole else np.float64),
            np.array(columns[1], dtype=np.int64),
            rows[-1].place if rows else 0,
        )
