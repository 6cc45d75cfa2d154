"""Who touched what, when: frozen columns with vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tacit.errors import TacitError
from tacit.streams import name_of


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions as columns; row order is the order of the file, and it is kept.

    Users and items are codes into the vocabularies `users` and `items`, which hold the original ids
    as text, in the order of first appearance in the unfiltered file. Rules drop vocabulary entries
    but never reorder them, so "which item appeared first" survives every rule.

    >>> few = Interactions.from_ids(["u1", "u1", "u2"], ["a", "b", "a"], time=[3, 5, 4])
    >>> len(few), few.n_users, few.n_items, few.users
    (3, 2, 2, ('u1', 'u2'))
    >>> few.take(few.item_N == 0).counts
    {'users': 2, 'items': 1, 'interactions': 2}
    """

    user_N: np.ndarray
    item_N: np.ndarray
    users: tuple[str, ...]
    items: tuple[str, ...]
    time_N: np.ndarray | None = None
    value_N: np.ndarray | None = None
    label_N: np.ndarray | None = None  # predefined split: 0 train, 1 validation, 2 test

    def __post_init__(self) -> None:
        for name in ("item_N", "time_N", "value_N", "label_N"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.user_N):
                raise TacitError(
                    f"Column {name} has {len(column)} rows but there are {len(self.user_N)} users' "
                    "rows; every column must have one entry per interaction."
                )
        for column in (self.user_N, self.item_N, self.time_N, self.value_N, self.label_N):
            if column is not None:
                column.setflags(write=False)

    @classmethod
    def from_ids(
        cls,
        user: object,
        item: object,
        *,
        time: object = None,
        value: object = None,
        label: object = None,
    ) -> Interactions:
        """Build from columns of original ids (any sequence); codes follow first appearance."""
        user_N, users = _encode(user)
        item_N, items = _encode(item)
        return cls(
            user_N,
            item_N,
            users,
            items,
            None if time is None else np.array(time),
            None if value is None else np.array(value, dtype=np.float64),
            None if label is None else np.array(label, dtype=np.int8),
        )

    def __repr__(self) -> str:
        return f"Interactions({counted(self.counts)})"

    def __len__(self) -> int:
        return len(self.user_N)

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def counts(self) -> dict[str, int]:
        return {"users": self.n_users, "items": self.n_items, "interactions": len(self)}

    @cached_property
    def user_key_U(self) -> np.ndarray:
        """A 64-bit hash of each original user id: the name of a person's random streams."""
        return np.array([name_of(name) for name in self.users], dtype=np.uint64)

    @cached_property
    def item_key_I(self) -> np.ndarray:
        """A 64-bit hash of each original item id."""
        return np.array([name_of(name) for name in self.items], dtype=np.uint64)

    def take(self, rows: np.ndarray) -> Interactions:
        """The given rows (mask or positions), with vocabularies reduced to what is left."""
        columns = {
            name: None if (column := getattr(self, name)) is None else column[rows]
            for name in ("time_N", "value_N", "label_N")
        }
        user_N, users = _compact(self.user_N[rows], self.users)
        item_N, items = _compact(self.item_N[rows], self.items)
        return replace(self, user_N=user_N, item_N=item_N, users=users, items=items, **columns)


def counted(counts: Mapping[str, int]) -> str:
    """Counts in words, as a short text shows them.

    >>> counted({"users": 300, "interactions": 7458})
    '300 users, 7,458 interactions'
    """
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())


def _encode(ids: object) -> tuple[np.ndarray, tuple[str, ...]]:
    import polars as pl

    column = pl.Series(values=ids).cast(pl.String)  # type: ignore[arg-type]
    vocabulary = column.unique(maintain_order=True)
    codes = column.replace_strict(vocabulary, np.arange(len(vocabulary)), return_dtype=pl.Int64)
    return codes.to_numpy().copy(), tuple(vocabulary.to_list())


def _compact(code_N: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    used = np.zeros(len(names), dtype=bool)
    used[code_N] = True
    new_code = np.cumsum(used) - 1
    return new_code[code_N], tuple(name for name, keep in zip(names, used, strict=True) if keep)
