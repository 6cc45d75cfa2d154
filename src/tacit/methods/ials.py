"""iALS: implicit matrix factorisation by alternating least squares; a central baseline.

Objective (Hu, Koren and Volinsky, 2008) and advice (Rendle, Krichene, Zhang and Koren, "Revisiting
the Performance of iALS on Item Recommendation Benchmarks", RecSys 2022):

    sum over train pairs (1 - w_u h_i)^2 + a sum over all pairs (w_u h_i)^2
      + ridge (sum_u (|I_u| + a I)^nu |w_u|^2 + sum_i (|U_i| + a U)^nu |h_i|^2)

An epoch solves all user rows exactly, then all item rows. From the paper: a penalty that grows with
how much is known of a row (`exponent` is nu, and 1 is the default), first values of deviation
`stdev` / sqrt(dim), wide rows, 12 to 16 epochs, and a and the ridge searched together. Presets are
the settings of its released commands for MovieLens 1M ("paper"), Pinterest, MovieLens 20M and the
Million Song Data.

Ours: a user's row is solved from the history whenever somebody ranks, with the items as they are
after the epoch. So a newcomer ranks as everybody else does, and no user table is kept.

With `steps` rows are not solved while training: each takes so many steps of conjugate gradients
from where it was (Takacs, Pilaszy and Tikk, "Applications of the Conjugate Gradient Method for
Implicit Feedback Collaborative Filtering", RecSys 2011), users from zero at first. An epoch then
costs a fraction, and the users' rows are kept for the next one. Ranking solves rows exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import torch

from tacit.central.rows import FAST
from tacit.central.training import first_table_rows
from tacit.compiled import compiled
from tacit.core.central import TrainedCentralMethod
from tacit.core.registry import register
from tacit.core.types import ITEMS, Initializer, Params
from tacit.data.sampling import Sampling
from tacit.data.views import History, Lists, TrainView
from tacit.errors import TacitError
from tacit.methods.entry import METHODS, Entry

ROWS_AT_ONCE = 256  # solved by one thread before it takes the next; changes no number
NOTHING_LEFT = 1e-20  # of a squared residual: the row is solved
USERS = "user"

# Of a train view: the items of users and the users of items, each once.
_LISTS: WeakKeyDictionary[TrainView, tuple[Lists, Lists]] = WeakKeyDictionary()


@compiled(error_model="numpy", nogil=True)
def _solve_rows(start, item, begin, end, other_ID, around_DD, ridge_R, solved_RD):  # type: ignore[no-untyped-def]
    """Rows `begin` to `end`: (around + sum h h' + ridge I)^-1 sum h, over the row's own entries."""
    width = other_ID.shape[1]
    for r in range(begin, end):
        size = start[r + 1] - start[r]
        if size == 0:
            continue  # zero, as it came
        own_HD = np.empty((size, width), other_ID.dtype)
        right_D = np.zeros(width, other_ID.dtype)
        for h in range(size):
            own_HD[h] = other_ID[item[start[r] + h]]
            right_D += own_HD[h]
        left_DD = np.dot(own_HD.T, own_HD) + around_DD
        for d in range(width):
            left_DD[d, d] += ridge_R[r]
        solved_RD[r] = np.linalg.solve(left_DD, right_D)


@compiled(error_model="numpy", nogil=True, fastmath=FAST)
def _pull(own_HD, around_DD, ridge, row_D, target):  # type: ignore[no-untyped-def]
    """Where the objective of a row falls: sum (target - w h) h - around w - ridge w."""
    pull_D = -np.dot(around_DD, row_D) - ridge * row_D
    for h in range(len(own_HD)):
        missed = target
        for d in range(len(row_D)):
            missed -= own_HD[h, d] * row_D[d]
        for d in range(len(row_D)):
            pull_D[d] += missed * own_HD[h, d]
    return pull_D


@compiled(error_model="numpy", nogil=True)
def _improve_rows(  # type: ignore[no-untyped-def]
    start, item, begin, end, other_ID, around_DD, ridge_R, steps, row_RD, squares_R
):
    """Rows `begin` to `end`, after so many steps of conjugate gradients toward what `_solve_rows`
    finds, and where there is room for it the sum of (1 - w h)^2 over the entries of each."""
    target_2 = np.zeros(2, other_ID.dtype)  # of their kind, so that nothing is widened
    target_2[1] = 1
    nothing, one = target_2[0], target_2[1]
    for r in range(begin, end):
        size = start[r + 1] - start[r]
        if size == 0:
            row_RD[r] = 0
            continue
        own_HD = np.empty((size, other_ID.shape[1]), other_ID.dtype)
        for h in range(size):
            own_HD[h] = other_ID[item[start[r] + h]]
        row_D = row_RD[r].copy()
        left_D = _pull(own_HD, around_DD, ridge_R[r], row_D, one)
        way_D, size_left = left_D.copy(), np.dot(left_D, left_D)
        for _ in range(steps):
            if size_left < NOTHING_LEFT:
                break
            back_D = _pull(own_HD, around_DD, ridge_R[r], way_D, nothing)
            length = -size_left / np.dot(way_D, back_D)
            row_D += length * way_D
            left_D += length * back_D
            size_next = np.dot(left_D, left_D)
            way_D = left_D + (size_next / size_left) * way_D
            size_left = size_next
        row_RD[r] = row_D
        if len(squares_R):
            missed_H = one - np.dot(own_HD, row_D)
            squares_R[r] = np.dot(missed_H, missed_H)


@register("ials")
@dataclass(frozen=True)
class Ials(TrainedCentralMethod):
    """iALS; `unobserved` is the weight a of all pairs, `ridge` is multiplied by how much is known
    of a row to the power `exponent`. With `steps` rows descend in training and are not solved.

    >>> Ials(dim=8).n_parameters(n_items=10)
    80
    """

    EPOCH_OF: ClassVar[str] = "least squares"

    dim: int = 192
    unobserved: float = 0.3
    ridge: float = 0.007
    exponent: float = 1.0
    stdev: float = 0.1
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise TacitError(f"dim is {self.dim}; it must be at least 1.")
        for name in ("unobserved", "ridge", "stdev"):
            if not getattr(self, name) > 0:
                raise TacitError(f"{name} is {getattr(self, name)}; it must be above 0.")
        if self.exponent < 0:
            raise TacitError(f"exponent is {self.exponent}; it must not be negative.")
        if self.steps is not None and self.steps < 1:
            raise TacitError(f"steps is {self.steps}; it must be at least 1, or None to solve.")

    @property
    def sampling(self) -> Sampling | None:
        return None

    @property
    def kernel(self) -> str | None:
        return "ials"

    def n_parameters(self, n_items: int) -> int:
        """How many numbers are learnt; user rows follow from them."""
        return n_items * self.dim

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        shape, scale = (train.n_items, self.dim), self.stdev / self.dim**0.5
        nobody = np.zeros(1, np.uint64)
        init = Initializer(shape, "normal", scale)
        items = {ITEMS: first_table_rows(init, ITEMS, seed, nobody, dtype)[0]}
        if self.steps is None:
            return items
        return items | {USERS: torch.zeros(train.n_users, self.dim, dtype=dtype)}

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        """Users, then items; the loss is the objective over the number of train pairs."""
        by_user, by_item = _both_ways(train)
        item_ID, count = parameters[ITEMS].numpy(), max(len(by_user.item_N), 1)
        if self.steps is None:
            user_UD = self.solved(item_ID, by_user)
            item_ID = self.solved(user_UD, by_item)
            loss = self.objective(user_UD, item_ID, by_user)
            return {ITEMS: torch.from_numpy(item_ID)}, loss / count
        user_UD = self.improved(parameters[USERS].numpy(), item_ID, by_user)
        squares_I = np.zeros(train.n_items, item_ID.dtype)
        item_ID = self.improved(item_ID, user_UD, by_item, squares_I)
        loss = self.objective(user_UD, item_ID, by_user, float(squares_I.sum(dtype=np.float64)))
        return {ITEMS: torch.from_numpy(item_ID), USERS: torch.from_numpy(user_UD)}, loss / count

    def solved(self, other_CD: np.ndarray, lists: Lists) -> np.ndarray:
        """The rows of one side, given those of the other; a list per row says what it is known by.
        A row without any is zero."""
        solved_RD = np.zeros((len(lists), other_CD.shape[1]), other_CD.dtype)
        given = self._given(other_CD, lists)

        def solve(begin: int, end: int) -> None:
            _solve_rows(lists.start_U1, lists.item_N, begin, end, *given, solved_RD)

        _in_pieces(solve, len(lists))
        return solved_RD

    def improved(
        self,
        row_RD: np.ndarray,
        other_CD: np.ndarray,
        lists: Lists,
        squares_R: np.ndarray | None = None,
    ) -> np.ndarray:
        """The rows of one side after some steps from where they are. Into `squares_R` goes how far
        the scores of each row's entries are from one, as a sum of squares."""
        row_RD = row_RD.copy()
        squares_R = np.zeros(0, other_CD.dtype) if squares_R is None else squares_R
        given = (*self._given(other_CD, lists), self.steps)

        def improve(begin: int, end: int) -> None:
            _improve_rows(lists.start_U1, lists.item_N, begin, end, *given, row_RD, squares_R)

        _in_pieces(improve, len(lists))
        return row_RD

    def _given(self, other_CD: np.ndarray, lists: Lists) -> tuple[np.ndarray, ...]:
        """What rows of one side are found from: the other side, what all pairs add, the ridges."""
        dtype = other_CD.dtype
        around_DD = (self.unobserved * (other_CD.T @ other_CD)).astype(dtype)
        ridge_R = self.penalty(lists.size_U, len(other_CD)).astype(dtype)
        return np.ascontiguousarray(other_CD), around_DD, ridge_R

    def penalty(self, known_R: np.ndarray, n_columns: int) -> np.ndarray:
        """The ridge of rows of which so much is known, among so many columns."""
        return np.asarray(self.ridge * (known_R + self.unobserved * n_columns) ** self.exponent)

    def objective(
        self,
        user_UD: np.ndarray,
        item_ID: np.ndarray,
        by_user: Lists,
        squares: float | None = None,
    ) -> float:
        """What an epoch lowers; `squares` is the part of train pairs, where it is known."""
        if squares is None:
            score_N = (user_UD[by_user.list_N] * item_ID[by_user.item_N]).sum(1, dtype=np.float64)
            squares = float(np.square(1.0 - score_N).sum())
        grams = [(rows.T @ rows).astype(np.float64) for rows in (user_UD, item_ID)]
        count_I = np.bincount(by_user.item_N, minlength=len(item_ID))
        penalty = sum(
            float(self.penalty(known, n) @ np.square(rows).sum(1, dtype=np.float64))
            for known, n, rows in (
                (by_user.size_U, len(item_ID), user_UD),
                (count_I, len(user_UD), item_ID),
            )
        )
        everywhere = self.unobserved * float((grams[0] * grams[1]).sum())
        return squares + everywhere + penalty

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        item_ID = parameters[ITEMS].numpy()
        start = np.cumsum([0, *(len(history) for history in histories)])
        item_N = np.concatenate([history.item_H for history in histories])
        return np.asarray(
            self.solved(item_ID, once(Lists(start, item_N), len(item_ID))) @ item_ID.T
        )

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        return np.asarray(self.score(parameters, [history], np.zeros(1, np.int64))[0])


def _in_pieces(play: Callable[[int, int], None], count: int) -> None:
    """Every piece of so many rows, on as many threads as there are."""

    def piece(begin: int) -> None:
        play(begin, min(begin + ROWS_AT_ONCE, count))

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(piece, range(0, count, ROWS_AT_ONCE)))


def _both_ways(train: TrainView) -> tuple[Lists, Lists]:
    """The items of every user and the users of every item, each once."""
    if train not in _LISTS:
        by_user = once(train.positives, train.n_items)
        by_item = Lists.from_pairs(by_user.item_N, by_user.list_N, train.n_items)
        _LISTS[train] = by_user, by_item
    return _LISTS[train]


def once(lists: Lists, n_items: int) -> Lists:
    """The lists with each item once.

    >>> once(Lists(np.array([0, 3]), np.array([2, 1, 2])), 3)[0].tolist()
    [1, 2]
    """
    code_N = np.unique(lists.list_N * n_items + lists.item_N)
    return Lists.from_pairs(code_N // n_items, code_N % n_items, len(lists))


METHODS["ials"] = Entry(
    build=Ials,
    summary="central baseline: implicit matrix factorisation by alternating least squares",
    rounds=16,
    presets={
        "paper": {},
        "pinterest": {"ridge": 0.02, "unobserved": 0.007},
        "ml_20m": {"dim": 256, "ridge": 0.003, "unobserved": 0.1},
        "msd": {"dim": 256, "ridge": 0.002, "unobserved": 0.02},
        "gradients": {"steps": 3},
    },
)
