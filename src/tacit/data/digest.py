"""What the data of a run was, in a few short digests: of users, items, interactions and split.

None of them depends on the order of lines, so a file that was shuffled is still the same data. The
order itself has a digest of its own: codes are places of first appearance, and training follows the
lines, so whoever opens a run with a shuffled file puts it back into the order of the run first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from tacit.data.dataset import Dataset, MadeWhenRead
from tacit.data.interactions import Interactions
from tacit.streams import name_of

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHOWN = 12  # characters of a digest that names data
BYTES = 12  # of a digest: two that are equal by accident are not to be expected in any life


@dataclass(frozen=True)
class DataDigest:
    """Digests of a dataset under a split, with the counts that a sentence needs.

    `interactions` are pairs of user and item, `split` says in which part each of them lies, `times`
    adds timestamps and labels (they matter as far as the split follows them), `content` has one
    digest per feature table, `order` is that of users, items and each user's lines.

    >>> from tacit.data.interactions import Interactions
    >>> one = Dataset("one", Interactions.from_ids(["a", "a", "b"], ["x", "y", "x"]))
    >>> two = Dataset("two", Interactions.from_ids(["b", "a", "a"], ["x", "x", "y"]))
    >>> one, two = (digest_of(data, np.zeros(3, np.int8)) for data in (one, two))
    >>> one.changes(two), one.order == two.order
    (None, False)
    """

    users: str
    items: str
    interactions: str
    split: str
    times: str
    order: str
    content: Mapping[str, str] = field(default_factory=dict)
    n_users: int = 0
    n_items: int = 0
    n_interactions: int = 0
    n_parts: tuple[int, int, int] = (0, 0, 0)  # train, validation, test

    @property
    def value(self) -> str:
        """All of it in one digest, by which a checkpoint and a model know the record of their run.

        >>> len(DataDigest("", "", "", "", "", "").value)
        24
        """
        content = sorted(f"{name}={value}" for name, value in self.content.items())
        kept = (self.users, self.items, self.interactions, self.split, self.times, self.order)
        whole = (*kept, *content)
        return _hex("\n".join(whole).encode())

    def reading(self, tables: Collection[str]) -> DataDigest:
        """With those feature tables alone that a method reads."""
        return replace(self, content={k: self.content[k] for k in self.content if k in tables})

    def changes(self, now: DataDigest, *, ordered: bool = False) -> str | None:
        """What is not the same any more, in words; None if nothing is.

        A table that joined since is nothing that the run has read. Times that leave the split as it
        was matter to a method that reads the order of histories (`ordered`).
        """
        if self.users != now.users:
            return _counted("users", self.n_users, now.n_users)
        if self.items != now.items:
            return _counted("items", self.n_items, now.n_items)
        if self.interactions != now.interactions:
            return _counted("interactions", self.n_interactions, now.n_interactions)
        if self.split != now.split:
            return f"the split differs: {self._why_split(now)}"
        if ordered and self.times != now.times:
            return "times of its interactions differ, and the method reads their order"
        for name, digest in self.content.items():
            if name not in now.content:
                return f"its feature table {name!r} is gone"
            if now.content[name] != digest:
                return f"its feature table {name!r} differs"
        return None

    def _why_split(self, now: DataDigest) -> str:
        if self.times != now.times:
            return "times or labels of the interactions have changed"
        if self.n_parts != now.n_parts:
            return f"train, validation and test have {now.n_parts} rows, and had {self.n_parts}"
        return (
            "the lines stand in another order, which decides who comes last where times are equal "
            "or not used"
        )


def digest_of(dataset: Dataset, part_N: np.ndarray) -> DataDigest:
    """The digests of a dataset whose interactions lie in the parts `part_N`.

    That of a feature table is taken when it is asked for: most methods read none.
    """
    rows = dataset.interactions
    key_U, key_I = rows.user_key_U, rows.item_key_I
    pair_N = _mixed(_mixed(key_U[rows.user_N]) ^ key_I[rows.item_N])
    train, valid, test = (int(n) for n in np.bincount(part_N, minlength=3)[:3])
    return DataDigest(
        users=_multiset(key_U),
        items=_multiset(key_I),
        interactions=_multiset(pair_N),
        split=_multiset(_mixed(pair_N ^ part_N.astype(np.uint64))),
        times=_multiset(_with_times(pair_N, rows)),
        order=_order(rows, part_N),
        content=MadeWhenRead(
            {name: partial(_table, dataset, name) for name in sorted(dataset.modalities)}
        ),
        n_users=rows.n_users,
        n_items=rows.n_items,
        n_interactions=len(rows),
        n_parts=(train, valid, test),
    )


def content_digest(dataset: Dataset) -> str:
    """What some data is called that has no other name: the same rows in any order are the same.

    >>> from tacit.data.interactions import Interactions
    >>> one = Dataset("one", Interactions.from_ids(["a", "b"], ["x", "y"], value=[1, 2]))
    >>> two = Dataset("two", Interactions.from_ids(["a", "b"], ["x", "y"], value=[1, 3]))
    >>> content_digest(one) == content_digest(two)
    False
    """
    rows = dataset.interactions
    row_N = _mixed(_mixed(rows.user_key_U[rows.user_N]) ^ rows.item_key_I[rows.item_N])
    row_N = _with_times(row_N, rows)
    if rows.value_N is not None:
        row_N = _mixed(row_N ^ _bits(rows.value_N))
    has = (rows.time_N is not None, rows.label_N is not None, rows.value_N is not None)
    tables = sorted(f"{name}={_table(dataset, name)}" for name in dataset.modalities)
    if dataset.cold_part_I is not None:
        part_I = rows.item_key_I ^ dataset.cold_part_I.astype(np.uint64)
        tables.append(_multiset(_mixed(part_I)))
    return _hex(repr((has, tables)).encode(), np.sort(row_N))[:SHOWN]


def changed_names(before: Collection[str], now: Collection[str], what: str) -> str | None:
    """Who is gone and who is new, with one of them by name.

    >>> changed_names(["a", "b", "c"], ["a"], "users")
    "2 users are gone (such as 'b')"
    >>> changed_names(["a"], ["a", "d"], "items")
    "1 item is new ('d')"
    """
    said = []
    for names, others, word in ((before, set(now), "gone"), (now, set(before), "new")):
        found = [name for name in names if name not in others]
        if len(found) == 1:
            said.append(f"1 {what[:-1]} is {word} ({found[0]!r:.40})")
        elif found:
            said.append(f"{len(found)} {what} are {word} (such as {found[0]!r:.40})")
    return " and ".join(said) or None


def _counted(what: str, before: int, now: int) -> str:
    if before == now:
        return f"its {what} differ, though there are {now} as before"
    return f"it has {now} {what}, and had {before}"


def _with_times(row_N: np.ndarray, rows: Interactions) -> np.ndarray:
    if rows.time_N is not None:
        row_N = _mixed(row_N ^ _bits(rows.time_N))
    if rows.label_N is not None:
        row_N = _mixed(row_N ^ rows.label_N.astype(np.int64).view(np.uint64))
    return row_N


def _bits(column_N: np.ndarray) -> np.ndarray:
    """A column of any kind as 64 bits per row."""
    kind = column_N.dtype.kind
    if kind == "f":
        return np.ascontiguousarray(column_N, np.float64).view(np.uint64)
    if kind in "iub":
        return column_N.astype(np.int64).view(np.uint64)
    if kind == "M":
        return column_N.astype("datetime64[ns]").astype(np.int64).view(np.uint64)
    names, place_N = np.unique(column_N.astype(str), return_inverse=True)
    return np.array([name_of(name) for name in names], np.uint64)[place_N]


def _order(rows: Interactions, part_N: np.ndarray) -> str:
    """Of users, items and, user by user, the lines; who of two users comes first in the file is
    told by the users alone."""
    by_user = np.argsort(rows.user_N, kind="stable")
    return _hex(
        *(np.ascontiguousarray(key) for key in (rows.user_key_U, rows.item_key_I)),
        np.bincount(rows.user_N, minlength=rows.n_users),
        rows.item_N[by_user].astype(np.int64),
        part_N[by_user].astype(np.int8),
    )


def _table(dataset: Dataset, name: str) -> str:
    table, order = dataset.modalities[name], np.argsort(dataset.interactions.item_key_I)
    value_IF = np.ascontiguousarray(table.value_IF[order])
    described = f"{value_IF.dtype.str} {value_IF.shape}".encode()
    return _hex(described, value_IF, table.present_I[order].astype(np.uint8))


def _mixed(bits_N: np.ndarray) -> np.ndarray:
    """The splitmix64 finaliser, so that sums and swaps of entries do not cancel out."""
    with np.errstate(over="ignore"):
        z = bits_N + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed


def _multiset(bits_N: np.ndarray) -> str:
    return _hex(np.sort(bits_N))


def _hex(*pieces: np.ndarray | bytes) -> str:
    digest = hashlib.blake2b(digest_size=BYTES)
    for piece in pieces:
        digest.update(piece if isinstance(piece, bytes) else piece.data)
    return digest.hexdigest()
