"""Where held-out items stand: ranks, ties, and the candidates they are ranked against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import polars as pl

from tacit.compiled import compiled
from tacit.data.views import HeldOut, Lists
from tacit.errors import TacitError, nearest
from tacit.files import whole_file

# Where the held-out items stand: the one thing an evaluation stores, and every metric reads.

CandidateSet = Literal["full", "sampled"]
COLUMNS = ("user", "item", "above", "tied", "candidates", "part", "candidate_set")


@dataclass(frozen=True, eq=False)
class Ranks:
    """One row per held-out (user, item): how many candidates beat it, and how many equal it.

    `above_H` counts the candidates with a strictly higher score, `tied_H` the other candidates with
    the same score, and `candidates_H` all candidates, the item itself and the user's other held-out
    items among them. So the item stands at one of the ranks above + 1 ... above + 1 + tied.

    A held-out item that is taken out of the ranking (it also stands in the user's train items, when
    a protocol keeps duplicates) is a miss: above = candidates and tied = 0, a place that no
    candidate can have. Every metric counts it as relevant and never as found, whatever the cut-off.

    >>> ranks = Ranks(*np.array([[0, 1], [7, 3], [2, 0], [0, 1], [10, 10]]), "test", "full")
    >>> len(ranks), ranks.where(ranks.above_H == 0).item_H.tolist()
    (2, [3])
    """

    user_H: np.ndarray  # int64 codes
    item_H: np.ndarray  # int64 codes
    above_H: np.ndarray
    tied_H: np.ndarray
    candidates_H: np.ndarray
    part: Literal["valid", "test"]
    candidate_set: CandidateSet

    def __post_init__(self) -> None:
        for name in ("item_H", "above_H", "tied_H", "candidates_H"):
            if len(getattr(self, name)) != len(self.user_H):
                raise TacitError(
                    f"Ranks column {name} has {len(getattr(self, name))} rows but user_H has "
                    f"{len(self.user_H)}; every column needs one entry per held-out item."
                )

    def __len__(self) -> int:
        return len(self.user_H)

    @property
    def missed_H(self) -> np.ndarray:
        """Held-out items that are not among the candidates."""
        return self.above_H >= self.candidates_H

    def where(self, rows: np.ndarray) -> Ranks:
        """Some rows (mask or positions); a user's other held-out items stay plain candidates."""
        return Ranks(
            self.user_H[rows],
            self.item_H[rows],
            self.above_H[rows],
            self.tied_H[rows],
            self.candidates_H[rows],
            self.part,
            self.candidate_set,
        )

    def frame(
        self, users: Sequence[str] | None = None, items: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """As a table; vocabularies add the original ids as columns `user_id` and `item_id`.

        >>> ranks = Ranks(*np.array([[0], [1], [2], [0], [10]]), "test", "full")
        >>> ranks.frame(users=["ann"], items=["x", "y"]).row(0)
        (0, 1, 2, 0, 10, 'test', 'full', 'ann', 'y')
        """
        columns = (self.user_H, self.item_H, self.above_H, self.tied_H, self.candidates_H)
        table = pl.DataFrame(
            {name: values.astype(np.int64) for name, values in zip(COLUMNS, columns, strict=False)}
        ).with_columns(
            pl.lit(self.part).alias("part"), pl.lit(self.candidate_set).alias("candidate_set")
        )
        for name, code_H, vocabulary in (
            ("user_id", self.user_H, users),
            ("item_id", self.item_H, items),
        ):
            if vocabulary is not None:
                names = pl.Series(name, vocabulary, dtype=pl.String)
                table = table.with_columns(names.gather(code_H))
        return table

    def save(
        self,
        path: str | Path,
        *,
        users: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> None:
        """Write a parquet file, whole or not at all.

        >>> import tempfile
        >>> ranks = Ranks(*np.array([[0], [1], [2], [0], [10]]), "test", "full")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ranks.save(Path(folder) / "ranks.parquet", users=["ann"])
        ...     Ranks.load(Path(folder) / "ranks.parquet").above_H.tolist()
        [2]
        """
        refusals = (pl.exceptions.PolarsError,)
        with whole_file(Path(path), library_errors=refusals) as temporary:
            self.frame(users, items).write_parquet(temporary)

    @classmethod
    def load(cls, path: str | Path) -> Ranks:
        """Read what `save` wrote."""
        try:
            table = pl.read_parquet(path)
        except FileNotFoundError as error:
            raise TacitError(f"No ranks file at '{path}'; check the path.") from error
        except (OSError, pl.exceptions.PolarsError) as error:
            raise TacitError(
                f"'{path}' cannot be read as parquet; give a file that Ranks.save wrote."
            ) from error
        absent = [name for name in COLUMNS if name not in table.columns]
        if absent:
            raise TacitError(
                f"'{path}' has no column {absent[0]!r}; give a file that Ranks.save wrote."
            )
        labels = table.select("part", "candidate_set").unique().rows()
        if len(labels) != 1:
            raise TacitError(
                f"'{path}' holds {len(labels)} kinds of ranks (part, candidate_set) where one is "
                "needed; filter the table before you load it, or evaluate again."
            )
        part, candidate_set = labels[0]
        user_H, item_H, above_H, tied_H, candidates_H = (
            table[name].to_numpy().astype(np.int64) for name in COLUMNS[:5]
        )
        return cls(user_H, item_H, above_H, tied_H, candidates_H, part, candidate_set)


# Held-out items that share a score share their ranks: they form one tie group.

Ties = Literal["expected", "pessimistic"]


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Groups of equal score that hold at least one relevant item, by user and then best first.

    A group of `size_G` candidates, `relevant_G` of them relevant, covers the ranks above + 1 ...
    above + size; within it every order is equally likely. `before_G` counts the user's relevant
    items in better groups. `relevant_E` counts all held-out items of a user, missed ones too.

    >>> alone = np.array([0])  # one user, one group: a tie over ranks 4 to 8
    >>> groups = TieGroups(alone, alone + 1, alone, alone + 3, alone + 5, alone + 1, alone)
    >>> groups.reached_G(5).tolist()
    [2]
    """

    user_E: np.ndarray  # codes, ascending
    relevant_E: np.ndarray
    user_G: np.ndarray  # positions in user_E
    above_G: np.ndarray
    size_G: np.ndarray
    relevant_G: np.ndarray
    before_G: np.ndarray

    def reached_G(self, k: int) -> np.ndarray:
        """How many places of the group lie within the first k."""
        return np.clip(k - self.above_G, 0, self.size_G)

    def total_E(self, value_G: np.ndarray) -> np.ndarray:
        """The sum of a value over each user's groups; 0 for a user whose items are all missed."""
        return np.bincount(self.user_G, weights=value_G, minlength=len(self.user_E))


def tie_groups(ranks: Ranks, ties: Ties = "expected") -> TieGroups:
    """Group the ranks; "pessimistic" puts relevant items last in their tie, one after another.

    >>> ranks = Ranks(*np.array([[5, 5], [1, 2], [3, 3], [4, 4], [9, 9]]), "test", "full")
    >>> both = tie_groups(ranks)
    >>> both.above_G.tolist(), both.size_G.tolist(), both.relevant_G.tolist()
    ([3], [5], [2])
    >>> tie_groups(ranks, "pessimistic").above_G.tolist()
    [6, 7]
    """
    if ties not in get_args(Ties):
        raise TacitError(f"Unknown tie rule {ties!r}; {nearest(str(ties), get_args(Ties))}")
    if len(ranks) == 0:
        raise TacitError(
            f"The {ranks.part} part holds no ranks, so no metric can be computed; "
            "check that the split holds out interactions."
        )
    user_E, user_H = np.unique(ranks.user_H, return_inverse=True)
    relevant_E = np.bincount(user_H)
    order = np.lexsort((ranks.above_H, user_H))
    order = order[~ranks.missed_H[order]]
    user_R, above_R, size_R = user_H[order], ranks.above_H[order], ranks.tied_H[order] + 1
    row_R = np.arange(len(order))
    before_R = row_R - np.searchsorted(user_R, user_R)
    opens_R = np.ones(len(order), dtype=bool)
    opens_R[1:] = (np.diff(user_R) != 0) | (np.diff(above_R) != 0)
    start_G = np.flatnonzero(opens_R)
    relevant_G = np.diff(np.append(start_G, len(order)))
    if ties == "pessimistic":
        group_R = np.cumsum(opens_R) - 1
        place_R = row_R - start_G[group_R]
        last_R = above_R + size_R - relevant_G[group_R] + place_R
        one_R = np.ones(len(order), dtype=np.int64)
        return TieGroups(user_E, relevant_E, user_R, last_R, one_R, one_R, before_R)
    user_G, above_G, size_G = user_R[start_G], above_R[start_G], size_R[start_G]
    return TieGroups(user_E, relevant_E, user_G, above_G, size_G, relevant_G, before_R[start_G])


# Who is ranked against whom, with repeats taken out and counted once.


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidate sets of one held-out part: distinct items only, so that they can be counted.

    Full: all items but the masked ones. Sampled: the user's held-out items and the sampled list; no
    mask applies there. `missed_H` marks held-out items that the mask takes out of the full ranking.

    >>> def packed(*lists):
    ...     sizes = [len(one) for one in lists]
    ...     return Lists(np.cumsum([0, *sizes]), np.concatenate(lists).astype(np.int64))
    >>> part = HeldOut("test", 9, np.array([4]), packed([3]), packed([1, 1, 2]), packed([5, 6]))
    >>> candidates = Candidates.of(part)
    >>> candidates.full_E.tolist(), candidates.sampled_E.tolist()
    ([7], [3])
    """

    relevant: Lists
    masked: Lists
    sampled: Lists  # without the held-out items
    missed_H: np.ndarray  # bool
    full_E: np.ndarray  # how many candidates each user has
    sampled_E: np.ndarray

    @classmethod
    def of(cls, held_out: HeldOut) -> Candidates:
        n_items, nothing = held_out.n_items, Lists.empty(len(held_out.user_E))
        for name in ("relevant", "masked", "sampled"):
            _check(name, getattr(held_out, name), held_out)
        relevant = _without(held_out.relevant, nothing, n_items)
        masked = _without(held_out.masked, nothing, n_items)
        sampled = _without(held_out.sampled, relevant, n_items)
        return cls(
            relevant,
            masked,
            sampled,
            # `relevant` repeats nothing by now, so what is flagged here stands in the mask.
            _repeated(relevant, masked, n_items),
            held_out.n_candidates - masked.size_U,
            relevant.size_U + sampled.size_U,
        )

    @property
    def list_H(self) -> np.ndarray:
        """The position in `user_E` of each held-out item's user."""
        return np.repeat(np.arange(len(self.relevant)), self.relevant.size_U)


def _check(name: str, lists: Lists, held_out: HeldOut) -> None:
    if len(lists) != len(held_out.user_E):
        raise TacitError(
            f"The {held_out.part} part has {len(held_out.user_E)} users but {len(lists)} lists of "
            f"{name} items; give one list per evaluated user."
        )
    if len(lists.item_N) and not 0 <= lists.item_N.min() <= lists.item_N.max() < held_out.n_items:
        raise TacitError(
            f"A {name} item of the {held_out.part} part has a code outside 0 to "
            f"{held_out.n_items - 1}; build the part with the catalogue's own codes."
        )


def _without(lists: Lists, exclude: Lists, n_items: int) -> Lists:
    keep_N = ~_repeated(lists, exclude, n_items)
    if keep_N.all():
        return lists
    kept = np.concatenate([[0], np.cumsum(keep_N)])
    return Lists(kept[lists.start_U1], lists.item_N[keep_N])


def _repeated(lists: Lists, exclude: Lists, n_items: int) -> np.ndarray:
    """True where an item stands in the excluded list, or earlier in its own."""
    flags = _flag_repeats(lists.start_U1, lists.item_N, exclude.start_U1, exclude.item_N, n_items)
    return np.asarray(flags)


@compiled()
def _flag_repeats(
    start_U1: np.ndarray,
    item_N: np.ndarray,
    exclude_start_U1: np.ndarray,
    exclude_item_N: np.ndarray,
    n_items: int,
) -> np.ndarray:
    last_list_I = np.full(n_items, -1, np.int64)  # the last list that held the item
    flag_N = np.zeros(len(item_N), np.bool_)
    for u in range(len(start_U1) - 1):
        for n in range(exclude_start_U1[u], exclude_start_U1[u + 1]):
            last_list_I[exclude_item_N[n]] = u
        for n in range(start_U1[u], start_U1[u + 1]):
            flag_N[n] = last_list_I[item_N[n]] == u
            last_list_I[item_N[n]] = u
    return flag_N
