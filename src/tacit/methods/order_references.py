"""Central baselines that read the order of a history in closed form: a Markov chain and SLIST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from weakref import WeakKeyDictionary

import numpy as np
import scipy.linalg
import scipy.sparse

from tacit.compiled import compiled
from tacit.core.central import CentralMethod
from tacit.core.registry import register
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.memory import require_memory
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.methods.item_to_item import ItemToItem, require_grid, train_matrix

# A first-order Markov chain: what comes next is counted for the last item, and nothing else of a
# history is looked at.
#
# P(j | i) = (C_ij + s pop_j) / (sum_j C_ij + s): C_ij counts the histories in which j stands right
# after i, pop is the share of all train interactions that an item has, and s is how many counts the
# popularity is worth. An item that nobody went on from is followed by the popular ones, and so is
# an empty history. s is chosen on validation among `smoothings`.


def transition_counts(train: TrainView) -> scipy.sparse.csr_array:
    """C_ij: in how many places of all histories item j stands right after item i.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1]))
    >>> train = TrainView(3, lists, np.arange(2, dtype=np.uint64), Lists.empty(2))
    >>> transition_counts(train).toarray().tolist()
    [[0.0, 2.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    items = train.histories.items
    item_N, user_N = items.item_N, items.list_N
    goes_on = user_N[1:] == user_N[:-1]
    pairs = (item_N[:-1][goes_on], item_N[1:][goes_on])
    shape = (train.n_items, train.n_items)
    return scipy.sparse.coo_array((np.ones(len(pairs[0])), pairs), shape=shape).tocsr()


@dataclass(frozen=True, eq=False)
class Transitions:
    """Smoothed shares of what comes after the last item of a history."""

    count_II: scipy.sparse.csr_array
    popular_I: np.ndarray  # sums to 1
    smoothing: float

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        """(B, I) probabilities of the next item."""
        score_BI = np.tile(self.popular_I, (len(histories), 1))
        for b, history in enumerate(histories):
            if len(history):
                last = int(history.item_H[-1])
                begin, end = self.count_II.indptr[last : last + 2]
                count_M = self.count_II.data[begin:end]
                score_BI[b] *= self.smoothing
                score_BI[b, self.count_II.indices[begin:end]] += count_M
                score_BI[b] /= count_M.sum() + self.smoothing
        return score_BI


@register("markov")
@dataclass(frozen=True)
class Markov(CentralMethod):
    """A first-order Markov chain, smoothed towards popularity, with a grid of smoothings.

    >>> Markov(smoothings=(1.0, 10.0)).settings
    2
    """

    smoothings: tuple[float, ...] = (1.0, 100.0, 300.0, 1000.0)

    def __post_init__(self) -> None:
        require_grid("smoothings", self.smoothings)

    @property
    def reads_order(self) -> bool:
        return True

    @property
    def settings(self) -> int:
        return len(self.smoothings)

    def fit(self, train: TrainView, setting: int, seed: int) -> Transitions:
        popular_I = train.popularity_I().astype(np.float64)
        popular_I /= max(popular_I.sum(), 1.0)
        return Transitions(transition_counts(train), popular_I, self.smoothings[setting])


METHODS["markov"] = Entry(
    build=Markov,
    summary="central baseline with order: Markov chain on the last item",
    rounds=len(Markov().smoothings),
)


# SLIST (Choi et al., "Session-aware Linear Item-Item Models for Session-based Recommendation", WWW
# 2021): a linear item-to-item model that joins similarity (SLIS) and transition (SLIT), in closed
# form.
#
#     min over B:  a |W_full (X - X B)|^2 + (1 - a) |W_part (T - S B)|^2 + ridge |B|^2
#     B = (a X'W_full^2 X + (1 - a) S'W_part^2 S + ridge I)^-1 (a X'W_full^2 X
#                                                               + (1 - a) S'W_part^2 T)
#
# X has a row for each session, one for each of its items. S and T have a row for each place at
# which a session can be cut in two: S holds the items before the cut, T those after it, both
# weighted by exp(-distance / position_decay) from the cut. W weighs rows by exp(-age / row_decay).
# A session is scored by its items, weighted by exp(-distance from its end / inference_decay).
#
# Kept from the paper: the objective, its three kinds of weights, no constraint on the diagonal of
# the joint model (a = 1 alone is SLIS without that constraint, a = 0 is SLIT), and that settings
# are searched.
#
# Ours: a session is a user's whole train history, so an item occurs once in it. The age of a row is
# counted from the latest train interaction of all, in shares of the time between the first and the
# last, because sources do not tell the unit of their times; a row is as old as its history's latest
# item. Rows weigh alike where `row_decay` is None, which is the default, and a decay is refused
# where times are unknown. Weights below 1e-12 of the nearest are left out. The grids are ours, and
# were narrowed on ML-100K.

FAR = 1e-12  # weights of positions below it are left out

# The last solution on a view: settings that differ in the decay of inference alone share it.
_SOLVED: WeakKeyDictionary[TrainView, tuple[object, np.ndarray]] = WeakKeyDictionary()


@compiled(error_model="numpy")
def _add_partial(item_N, start_U1, weight_U, decay, past_II, next_II):  # type: ignore[no-untyped-def]
    """Adds S'S and S'T of all histories, whose rows have the squared weight `weight_U`.

    Positions a <= b of one history meet in the rows cut at b or later: their entry of S'S is a
    geometric sum. Positions a < b meet in S'T at the b - a cuts between them, always with the same
    product of weights.
    """
    for user in range(len(start_U1) - 1):
        begin, size = start_U1[user], start_U1[user + 1] - start_U1[user]
        later = 0.0  # of position b: sum over its cuts t of decay^(2 (t - b))
        for b in range(size - 1, -1, -1):
            if b < size - 1:
                later = 1.0 + decay * decay * later
            power, j = weight_U[user], item_N[begin + b]
            for a in range(b, -1, -1):
                i = item_N[begin + a]
                if a < b:
                    next_II[i, j] += (b - a) * power  # decay^(b - a - 1)
                    power *= decay
                past_II[i, j] += power * later
                if a < b:
                    past_II[j, i] += power * later
                if power < FAR * weight_U[user]:
                    break


@dataclass(frozen=True, eq=False)
class Recalled(ItemToItem):
    """An item-to-item model whose input fades from the latest item of a history backwards."""

    decay: float  # of an item that one other came after, against the latest

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        start_B1 = np.cumsum([0, *map(len, histories)])
        item_N = np.concatenate([np.zeros(0, np.int64), *(one.item_H for one in histories)])
        input_N = np.concatenate([np.zeros(0), *map(self._faded, histories)])
        shape = (len(histories), len(self.weight_II))
        scored: np.ndarray = scipy.sparse.csr_array((input_N, item_N, start_B1), shape=shape) @ (
            self.weight_II
        )
        return scored

    def _faded(self, history: History) -> np.ndarray:
        """(H,) what each item of a history counts."""
        faded_H: np.ndarray = history.weights * self.decay ** np.arange(len(history))[::-1]
        return faded_H


def solved(square_II: np.ndarray, right_II: np.ndarray, list_UI: scipy.sparse.csr_array) -> None:
    """Puts the solution X of `square` X = `right` in the place of `right`; `square` is spoiled.

    `square` is positive definite and both are sums over lists: two items meet in an entry off the
    diagonal only if a list has both, and an item in no list has no entry of `right`. The items that
    only one list has are eliminated first, list by list, exactly: they meet nothing outside of it.
    What is left to solve is as wide as the items that several lists share.

    >>> square_II = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 1.0]])
    >>> right_II = np.array([[0.0, 5.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> solved(square_II, right_II, scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 1, 0]])))
    >>> right_II.round(9).tolist()
    [[-1.0, 3.0, 0.0], [2.0, -1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    lists_I = np.bincount(list_UI.indices, minlength=len(square_II))
    eliminated = []
    for item_H in np.split(list_UI.indices, list_UI.indptr[1:-1]):
        own_A, other_C = item_H[lists_I[item_H] == 1], item_H[lists_I[item_H] > 1]
        if not len(own_A):
            continue
        between_AC = square_II[np.ix_(own_A, other_C)]
        both = np.hstack([between_AC, right_II[np.ix_(own_A, item_H)]])
        both = scipy.linalg.solve(square_II[np.ix_(own_A, own_A)], both, assume_a="pos")
        by_other_AC, by_right_AH = both[:, : len(other_C)], both[:, len(other_C) :]
        square_II[np.ix_(other_C, other_C)] -= between_AC.T @ by_other_AC
        right_II[np.ix_(other_C, item_H)] -= between_AC.T @ by_right_AH
        eliminated.append((own_A, other_C, item_H, by_other_AC, by_right_AH))
    shared_C = np.flatnonzero(lists_I > 1)
    right_II[shared_C] = scipy.linalg.solve(
        square_II[np.ix_(shared_C, shared_C)],
        right_II[shared_C],
        assume_a="pos",
        overwrite_a=True,
        overwrite_b=True,
    )
    for own_A, other_C, item_H, by_other_AC, by_right_AH in eliminated:
        right_II[own_A] = -by_other_AC @ right_II[other_C]
        right_II[np.ix_(own_A, item_H)] += by_right_AH


@register("slist")
@dataclass(frozen=True)
class Slist(CentralMethod):
    """SLIST with a grid over its settings: every ridge with every share of the similarity part, and
    with every decay of positions and of inference, the last of them changing fastest.

    The objective, its weights of positions and rows and its decay of inference are the paper's. A
    user's whole history in place of a session, and rows that weigh alike unless `row_decay` is
    given and times are known, are ours.

    >>> Slist(ridges=(10.0,), shares=(0.2, 0.8), position_decays=(1.0,)).settings
    6
    """

    ridges: tuple[float, ...] = (10.0, 100.0, 1000.0)
    shares: tuple[float, ...] = (0.2, 0.5)
    position_decays: tuple[float, ...] = (1.0, 4.0)
    inference_decays: tuple[float, ...] = (2.0, 4.0, 8.0)
    row_decay: float | None = None

    def __post_init__(self) -> None:
        require_grid("ridges", self.ridges)
        require_grid("position_decays", self.position_decays)
        require_grid("inference_decays", self.inference_decays)
        if not self.shares or min(self.shares) < 0 or max(self.shares) > 1:
            raise TacitError(f"shares are {self.shares}; give at least one, all from 0 to 1.")
        if self.row_decay is not None and not self.row_decay > 0:
            raise TacitError(f"row_decay is {self.row_decay}; it must be above 0, or None.")

    @property
    def grid(self) -> list[tuple[float, float, float, float]]:
        """(ridge, share, position decay, inference decay) of each setting."""
        decays = (self.position_decays, self.inference_decays)
        return list(product(self.ridges, self.shares, *decays))

    @property
    def reads_order(self) -> bool:
        return True

    @property
    def settings(self) -> int:
        return len(self.grid)

    def fit(self, train: TrainView, setting: int, seed: int) -> Recalled:
        require_memory(
            4 * train.n_items**2 * 8,
            what=f"SLIST's item-to-item tables for {train.n_items} items",
            hint="use markov, whose tables are sparse",
        )
        ridge, share, position_decay, inference_decay = self.grid[setting]
        asked = (self, ridge, share, position_decay)
        answered, weight_II = _SOLVED.get(train, (None, np.zeros(0)))
        if answered != asked:
            past_II, next_II = self.sums(train, share, np.exp(-1.0 / position_decay))
            past_II[np.diag_indices_from(past_II)] += ridge
            solved(past_II, next_II, train_matrix(train))
            weight_II = next_II
            _SOLVED[train] = asked, weight_II
        return Recalled(weight_II, np.exp(-1.0 / inference_decay))

    def sums(self, train: TrainView, share: float, decay: float) -> tuple[np.ndarray, np.ndarray]:
        """The two sums over all histories: a X'X + (1 - a) S'S, and a X'X + (1 - a) S'T, where a is
        `share` and rows are weighted."""
        items, row_U = train.histories.items, self.row_weights(train)
        past_II = np.zeros((train.n_items, train.n_items))
        next_II = np.zeros_like(past_II)
        part_U = (1 - share) * row_U
        if share < 1:
            _add_partial(items.item_N, items.start_U1, part_U, decay, past_II, next_II)
        if share > 0:
            shape = (train.n_users, train.n_items)
            ones = np.ones(len(items.item_N))
            matrix = scipy.sparse.csr_array((ones, items.item_N, items.start_U1), shape=shape)
            weighted = scipy.sparse.diags_array(share * row_U) @ matrix
            full = (matrix.T @ weighted).tocoo()
            past_II[full.coords] += full.data
            next_II[full.coords] += full.data
        return past_II, next_II

    def row_weights(self, train: TrainView) -> np.ndarray:
        """(U,) the squared weight of each history's rows."""
        if self.row_decay is None:
            return np.ones(train.n_users)
        time_N, start_U1 = train.histories.time_N, train.positives.start_U1
        if time_N is None:
            raise TacitError(
                f"row_decay is {self.row_decay}, but the data has no time for every interaction; "
                "leave row_decay out."
            )
        span = max(float(time_N.max() - time_N.min()), 1e-30) if len(time_N) else 1.0
        row_U = np.zeros(train.n_users)
        some = np.diff(start_U1) > 0
        age_U = (time_N.max(initial=0) - time_N[start_U1[1:][some] - 1]) / span
        row_U[some] = np.exp(-2.0 * age_U / self.row_decay)
        return row_U


METHODS["slist"] = Entry(
    build=Slist,
    summary="central baseline with order: SLIST, similarity and transition, closed form",
    rounds=Slist().settings,
    chosen={"paper": Chosen(("ml-100k",))},
)
