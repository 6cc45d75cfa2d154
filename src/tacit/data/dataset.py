"""A dataset: interactions, what is known of the items, and the rules that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tacit.data.interactions import Interactions
from tacit.data.modalities import Modalities


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
    """Everything a run reads; `steps` tells how the raw file became these interactions."""

    name: str
    interactions: Interactions
    modalities: Modalities = field(default_factory=Modalities)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # "title", …; one per item
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()  # cautions a reader of results must know
    truth: Mapping[str, np.ndarray] = field(default_factory=dict)  # planted worlds: what is true
    cold_part_I: np.ndarray | None = None  # a published split of items: 0 train, 1 valid, 2 test

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
