"""A dataset: interactions, what is known of the items, the rules that made it, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from tacit.data.interactions import Interactions, counted
from tacit.errors import TacitError, shown

Value = TypeVar("Value")


class MadeWhenRead(Mapping[str, Value]):
    """Values whose names are known; each is made when it is first read, and then kept.

    >>> made = MadeWhenRead({"one": lambda: 1, "none": lambda: 1 // 0})
    >>> list(made), made["one"]
    (['one', 'none'], 1)
    """

    def __init__(self, makers: Mapping[str, Callable[[], Value]]) -> None:
        self._makers, self._made = dict(makers), dict[str, Value]()

    def __getitem__(self, name: str) -> Value:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers  # the inherited one would make it


# What the server knows of an item besides who touched it: feature tables with presence masks.


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """One modality: a row per item of the catalogue, and which rows are really there.

    Rows of items without the modality are zero and marked absent; nothing imputes them silently.

    >>> table = FeatureTable.align(np.ones((1, 2), np.float32), ["b"], items=("a", "b"))
    >>> table.present_I.tolist(), table.value_IF.tolist()
    ([False, True], [[0.0, 0.0], [1.0, 1.0]])
    """

    value_IF: np.ndarray
    present_I: np.ndarray

    @classmethod
    def align(cls, value_KF: np.ndarray, ids: list[str], items: tuple[str, ...]) -> FeatureTable:
        """Place row k (of item `ids[k]`) at that item's code; refuse rows that do not match ids."""
        if value_KF.ndim != 2 or len(value_KF) != len(ids):
            raise TacitError(
                f"The feature table has shape {value_KF.shape} but {len(ids)} item ids; it must be "
                "two-dimensional with one row per listed item."
            )
        if not np.isfinite(value_KF).all():
            bad = ids[int(np.flatnonzero(~np.isfinite(value_KF).all(axis=1))[0])]
            raise TacitError(
                f"The features of item {shown(bad)} hold NaN or infinite numbers; fix or drop "
                "that row."
            )
        code_of = {name: code for code, name in enumerate(items)}
        value_IF = np.zeros((len(items), value_KF.shape[1]), dtype=np.float32)
        present_I = np.zeros(len(items), dtype=bool)
        for row, name in enumerate(ids):
            code = code_of.get(name)
            if code is not None:
                value_IF[code] = value_KF[row]
                present_I[code] = True
        if len(ids) and not present_I.any():
            raise TacitError(
                f"None of the {len(ids)} feature rows belongs to an item of the interactions "
                f"(first feature id {shown(ids[0])}, first item {shown(items[0])}); check that "
                "both use the same ids."
            )
        return cls(value_IF, present_I)

    def __repr__(self) -> str:
        items, width = self.value_IF.shape
        return f"FeatureTable({int(self.present_I.sum()):,} of {items:,} items, {width} wide)"

    def take(self, item_codes: np.ndarray) -> FeatureTable:
        return FeatureTable(self.value_IF[item_codes], self.present_I[item_codes])


@dataclass(frozen=True, eq=False)
class Modalities(Mapping[str, FeatureTable]):
    """Named feature tables over one item vocabulary: `{"text": …, "image": …}`, any names.

    >>> list(Modalities()), len(Modalities())
    ([], 0)
    """

    tables: Mapping[str, FeatureTable] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Modalities({', '.join(f'{name}: {table}' for name, table in self.items())})"

    def __getitem__(self, name: str) -> FeatureTable:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __contains__(self, name: object) -> bool:
        return name in self.tables

    def take(self, item_codes: np.ndarray) -> Modalities:
        return Modalities({name: table.take(item_codes) for name, table in self.tables.items()})


# A dataset: interactions, what is known of the items, and the rules that made it.


@dataclass(frozen=True)
class Step:
    """One rule that was applied, with the counts before and after it.

    >>> Step("users with at least 5 interactions", {"users": 9}, {"users": 7}).before["users"]
    9
    """

    rule: str
    before: Mapping[str, int]
    after: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Everything a run reads; `steps` tells how the raw file became these interactions.

    >>> Dataset("few", Interactions.from_ids(["u", "v"], ["a", "b"]))
    Dataset('few': 2 users, 2 items, 2 interactions)
    """

    name: str
    interactions: Interactions
    modalities: Modalities = field(default_factory=Modalities)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # "title", …; one per item
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()  # cautions a reader of results must know
    truth: Mapping[str, np.ndarray] = field(default_factory=dict)  # planted datasets: what is true
    cold_part_I: np.ndarray | None = None  # a published split of items: 0 train, 1 valid, 2 test

    def __repr__(self) -> str:
        content = f"; {', '.join(self.modalities)}" if self.modalities else ""
        return f"Dataset({self.name!r}: {counted(self.interactions.counts)}{content})"

    def keep(self, rows: np.ndarray, rule: str) -> Dataset:
        """Keep some interactions (mask or positions), and say in `steps` what that cost."""
        before = self.interactions.counts
        interactions = self.interactions.take(rows)
        return replace(
            self._with(interactions),
            steps=(*self.steps, Step(rule, before, interactions.counts)),
        )

    def arranged(self, users: tuple[str, ...], items: tuple[str, ...], rows: np.ndarray) -> Dataset:
        """The same users, items and interactions in another order: codes follow the names that are
        given, and `rows` are places of interactions.

        >>> data = Dataset("few", Interactions.from_ids(["u", "v"], ["a", "b"], time=[3, 5]))
        >>> other = data.arranged(("v", "u"), ("a", "b"), np.array([1, 0])).interactions
        >>> other.user_N.tolist(), other.item_N.tolist(), other.time_N.tolist()
        ([0, 1], [1, 0], [5, 3])
        """
        old = self.interactions
        user_of, item_of = np.empty(old.n_users, np.int64), np.empty(old.n_items, np.int64)
        user_of[_codes(users, old.users)] = np.arange(old.n_users)
        item_of[_codes(items, old.items)] = np.arange(old.n_items)
        columns = {
            name: None if (column := getattr(old, name)) is None else column[rows]
            for name in ("time_N", "value_N", "label_N")
        }
        user_N, item_N = user_of[old.user_N[rows]], item_of[old.item_N[rows]]
        return self._with(Interactions(user_N, item_N, users, items, **columns))

    def _with(self, interactions: Interactions) -> Dataset:
        """With other interactions of the same users and items, or of some of them."""
        item_codes = _codes(interactions.items, self.interactions.items)
        kept = {"U": _codes(interactions.users, self.interactions.users), "I": item_codes}
        return replace(
            self,
            interactions=interactions,
            modalities=self.modalities.take(item_codes),
            texts={k: tuple(v[code] for code in item_codes) for k, v in self.texts.items()},
            truth={name: _take_axes(name, value, kept) for name, value in self.truth.items()},
            cold_part_I=None if self.cold_part_I is None else self.cold_part_I[item_codes],
        )


def _codes(names: tuple[str, ...], vocabulary: tuple[str, ...]) -> np.ndarray:
    code_of = {name: code for code, name in enumerate(vocabulary)}
    return np.array([code_of[name] for name in names], dtype=np.int64)


def _take_axes(name: str, value: np.ndarray, kept: Mapping[str, np.ndarray]) -> np.ndarray:
    """Keep users and items along the axes that the name's shape suffix gives to them."""
    for axis, letter in enumerate(name.rpartition("_")[2]):
        if letter in kept:
            value = np.take(value, kept[letter], axis=axis)
    return value
