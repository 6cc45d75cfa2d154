"""Who takes part in a round, as a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit import streams
from tacit.core.algorithm import TRAIN, Algorithm
from tacit.data.views import TrainView
from tacit.errors import TacitError


@dataclass(frozen=True)
class Participants:
    """The users of one round, and whether each one's upload arrives."""

    user_P: np.ndarray
    reports_P: np.ndarray  # False: trained, but dropped out before its upload


@dataclass(frozen=True)
class Participation:
    """Each round the server invites ⌊ratio·n⌋ users (at least one), uniformly without replacement.

    `availability` is the chance that an invited user is reachable at all; `dropout` the chance that
    one who trained is gone before its upload. Draws are keyed by the user's id, so the order of
    users changes nothing. A user without train interactions never takes part.

    >>> Participation(ratio=2.0).check()
    Traceback (most recent call last):
    tacit.errors.TacitError: participation.ratio is 2.0; it must be above 0 and at most 1.
    """

    ratio: float = 1.0
    availability: float = 1.0
    dropout: float = 0.0

    def check(self) -> None:
        for name, value in (("ratio", self.ratio), ("availability", self.availability)):
            if not 0 < value <= 1:
                raise TacitError(
                    f"participation.{name} is {value}; it must be above 0 and at most 1."
                )
        if not 0 <= self.dropout < 1:
            raise TacitError(
                f"participation.dropout is {self.dropout}; it must be at least 0 and below 1."
            )

    def draw(self, train: TrainView, seed: int, round_number: int) -> Participants:
        user_P = np.flatnonzero(train.positives.size_U > 0)
        if self.ratio < 1.0:
            # 0.29 * 100 is 28.999999999999996 in floating point: that is 29 people
            invited = max(1, int(self.ratio * len(user_P) + 1e-9))
            lot_P = self._lot(train, user_P, seed, streams.PARTICIPANTS, round_number)
            user_P = np.sort(user_P[np.argsort(lot_P, kind="stable")[:invited]])
        if self.availability < 1.0:
            lot_P = self._lot(train, user_P, seed, streams.AVAILABILITY, round_number)
            user_P = user_P[lot_P < self.availability]
        reports_P = np.ones(len(user_P), dtype=bool)
        if self.dropout > 0.0:
            lot_P = self._lot(train, user_P, seed, streams.DROPOUT, round_number)
            reports_P = lot_P >= self.dropout
        return Participants(user_P, reports_P)

    def share_after(self, rounds: int) -> float:
        """The share of the users of whom one expects that they trained in one of so many rounds.

        >>> Participation(ratio=0.5).share_after(2), Participation().share_after(1)
        (0.75, 1.0)
        """
        return 1.0 - (1.0 - self.ratio * self.availability) ** rounds

    @staticmethod
    def _lot(
        train: TrainView, user_P: np.ndarray, seed: int, purpose: int, round_number: int
    ) -> np.ndarray:
        return streams.uniforms(seed, purpose, round_number, train.user_key_U[user_P], 1)[:, 0]


def everybody(train: TrainView) -> Participants:
    """All users with train interactions, all of them heard.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 1, 1]), np.array([3]))
    >>> everybody(TrainView(5, lists, np.arange(2, dtype=np.uint64), Lists.empty(2))).user_P
    array([0])
    """
    user_P = np.flatnonzero(train.positives.size_U > 0)
    return Participants(user_P, np.ones(len(user_P), dtype=bool))


def most_releases(
    algorithm: Algorithm, participation: Participation, train: TrainView, seed: int, rounds: int
) -> int:
    """The most releases that any user takes part in over so many rounds.

    Who takes part does not depend on anybody's data, so this is known before training. Somebody
    whose upload is lost on its way counts as one who sent it.

    >>> from tacit.core.types import Task
    >>> from tacit.data.views import Lists
    >>> from tacit.methods import FedEase, fedmf
    >>> lists = Lists(np.arange(11), np.zeros(10, np.int64))
    >>> train = TrainView(2, lists, np.arange(10, dtype=np.uint64), Lists.empty(10))
    >>> task, half = Task.of(train), Participation(ratio=0.5)
    >>> most_releases(fedmf(dim=2).algorithm(task), Participation(), train, seed=0, rounds=6)
    6
    >>> most_releases(fedmf(dim=2).algorithm(task), half, train, seed=0, rounds=9)
    7
    >>> most_releases(FedEase().algorithm(task), half, train, seed=0, rounds=6)
    1
    """
    read = algorithm.reads_tables is not None
    count_U = np.zeros(train.n_users, dtype=np.int64)
    for number in range(1, rounds + 1):
        participants = None
        for exchange in algorithm.exchanges(number):
            if not (exchange.sends or (read and exchange.name == TRAIN)):
                continue
            if exchange.everybody:
                count_U[everybody(train).user_P] += 1
                continue
            participants = participants or participation.draw(train, seed, number)
            count_U[participants.user_P] += 1
    return int(count_U.max(initial=0))
