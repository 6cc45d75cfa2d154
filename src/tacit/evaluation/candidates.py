"""Who is ranked against whom, with repeats taken out and counted once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.compiled import compiled
from tacit.data.views import HeldOut, Lists
from tacit.errors import TacitError


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
