"""Methods without a federation: controls, and central baselines for the federated ones.

Their clients send their histories, once, and everything else happens on the server. So the contract
of `core/algorithm.py` is implemented by an adapter whose upload is the history, as it discloses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch

from tacit.core.algorithm import (
    Algorithm,
    ClientData,
    ClientState,
    Disclosure,
    Draws,
    Exchange,
    Kind,
    Parcel,
    Sample,
    Sent,
    ServerState,
    Total,
    Traffic,
    Update,
)
from tacit.core.capabilities import defines
from tacit.core.recency import Recency, weighed
from tacit.core.types import Initializer, Params, Task, Upload
from tacit.data.sampling import Sampling
from tacit.data.views import History, TrainView

HISTORY = "history"


class HistoryScorer(Protocol):
    """A fitted model that scores the whole catalogue for histories of any users, known or new."""

    def score(self, histories: Sequence[History], key_B: np.ndarray) -> np.ndarray:
        """(B, I) scores for B histories; `key_B` names the users, for methods that draw by name."""
        ...


class LinearScorer(HistoryScorer, Protocol):
    """A fitted model whose scores are sums over a history, so that they can be explained by it."""

    def contributions(self, history: History) -> tuple[np.ndarray, np.ndarray]:
        """The history's distinct items (K,), and what each brings to each score (K, I)."""
        ...


class CentralMethod:
    """A method that sees all histories at once and fits them in one go. It has settings to try
    instead of rounds: "round" r fits setting r, and the usual selection on validation picks one.

    One whose scorer reads `History.weight_H` may have a field `recency`: histories then come with
    weights when they are ranked from, and what is fitted stays as it is. One that `ranks_unseen`
    items, by their content or by none at all, may be asked for under a cold split; any other would
    score them all alike."""

    composed: ClassVar[None] = None
    privacy: ClassVar[None] = None  # the server sees every history
    ranks_unseen: ClassVar[bool] = False
    recency: Recency | None = None

    @property
    def reads_order(self) -> bool:
        """Whether the method itself looks at the order of histories."""
        return False

    @property
    def settings(self) -> int:
        """How many settings there are to try."""
        return 1

    def algorithm(self, task: Task) -> CentralAlgorithm:
        return SettingsAlgorithm(task, self)

    def fit(self, train: TrainView, setting: int, seed: int) -> HistoryScorer:
        raise NotImplementedError


class TrainedCentralMethod:
    """A method that sees all histories at once and is trained epoch by epoch: an epoch is a round,
    and the usual selection on validation picks one. What `start` and `epoch` return is everything
    that the next epoch needs, the optimizer state included.

    With `runs_on_gpu` parameters may lie on a GPU, where `epoch` and `score` then work. One that
    `ranks_unseen` items, by their content, gets the whole catalogue: under a cold split it trains
    on `train.existing()`, and scores every item of `train`.
    """

    composed: ClassVar[None] = None
    privacy: ClassVar[None] = None  # the server sees every history
    runs_on_gpu: ClassVar[bool] = False
    EPOCH_OF: ClassVar[str] = "mini-batches"  # what an epoch is made of, for people
    ranks_unseen: ClassVar[bool] = False

    @property
    def reads_order(self) -> bool:
        """Whether the method looks at the order of histories."""
        return False

    @property
    def sampling(self) -> Sampling | None:
        """What is drawn beside each positive; None where nothing is."""
        return Sampling()

    def algorithm(self, task: Task) -> CentralAlgorithm:
        return EpochsAlgorithm(task, self)

    @property
    def kernel(self) -> str | None:
        """The compiled kernel that plays an epoch; None where batches are played one by one."""
        return None

    def start(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        raise NotImplementedError

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        """The parameters after epoch `number` (from 1), and its mean loss; what came in stays as it
        is."""
        raise NotImplementedError

    def score(
        self, parameters: Params, histories: Sequence[History], user_B: np.ndarray
    ) -> np.ndarray:
        """(B, I) logits of known users, given by their histories and their indices."""
        raise NotImplementedError

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) logits for somebody new: only what is the user's own is fitted, by descent."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a server has after a round: parameters that are kept, or a model that is fitted anew
    wherever it is needed."""

    parameters: Params = field(default_factory=dict)
    loss: float = float("nan")
    model: HistoryScorer | None = None

    @property
    def linear(self) -> LinearScorer | None:
        """The model, where it says what each item of a history brings to a score."""
        return self.model if defines(self.model, "contributions", "score") else None  # type: ignore


class CentralAlgorithm(Algorithm):
    """The contract of a central method: clients send their histories, the server does the rest."""

    kind: ClassVar[Kind] = "central"
    path: str  # how it is fitted, for people
    runs_on_gpu: bool = False

    @property
    def central(self) -> CentralAlgorithm:
        return self

    @property
    def shared(self) -> dict[str, Initializer]:
        return {}

    @property
    def private(self) -> dict[str, Initializer]:
        return {}

    @abstractmethod
    def start(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        """The parameters before the first round."""

    @abstractmethod
    def fit(self, before: Params, train: TrainView, seed: int, round_number: int) -> Fitted:
        """One round on the histories that clients sent."""

    @abstractmethod
    def scores(self, fitted: Fitted, train: TrainView, user_B: np.ndarray) -> np.ndarray:
        """(B, I) logits of known users."""

    def weighed(
        self, model: HistoryScorer, histories: list[History], key_B: np.ndarray
    ) -> list[History]:
        """What people are ranked from: histories, with recent items weighing more where asked."""
        return histories

    @abstractmethod
    def newcomer(
        self, fitted: Fitted, history: History, *, name: int, seed: int, rounds: int
    ) -> np.ndarray:
        """(I,) logits of somebody new."""

    def draws(self, exchange: Exchange) -> Draws:
        return Draws()

    def update(
        self,
        exchange: Exchange,
        received: Params,
        client: ClientState,
        data: ClientData,
        round_number: int,
    ) -> Update:
        return Update({}, Upload(data.history_H, {HISTORY: data.history_H}))

    def step(self, server: ServerState, total: Total, round_number: int) -> ServerState:
        raise NotImplementedError("a central method is fitted on histories: see `fit`")

    def sends(self, round_number: int) -> bool:
        return round_number == 1  # a history is sent once

    def uploaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> dict[str, Parcel]:
        mean = round(8 * sample().interactions / self.task.n_users)
        return {HISTORY: Parcel(None, mean)} if exchange.sends else {}

    def downloaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> dict[str, Parcel]:
        return {}

    def disclosure(self, sample: Callable[[], Sample]) -> Disclosure:
        sent = Sent(HISTORY, round(sample().interactions / self.task.n_users))  # a mean length
        told = ("every history in full: this is a central method",)
        return Disclosure((sent,), "each", interpretation=told)

    def traffic(
        self, sample: Callable[[], Sample], participants: Sequence[int], width: int
    ) -> Traffic:
        """Everybody sends a history once, 8 bytes for each item."""
        interactions = sample().interactions
        mean = round(8 * interactions / self.task.n_users)
        return Traffic(mean, 0, self.task.n_users, 8 * interactions, mean)


@dataclass(frozen=True)
class SettingsAlgorithm(CentralAlgorithm):
    """A closed form: a round is the next of its settings, and nothing of it is kept on disk."""

    task: Task
    method: CentralMethod
    unit: ClassVar[Literal["round", "setting"]] = "setting"
    saved: ClassVar[bool] = False

    @property
    def ranks_unseen(self) -> bool:  # type: ignore[override]
        return self.method.ranks_unseen

    @property
    def max_rounds(self) -> int:  # type: ignore[override]
        return self.method.settings

    @property
    def reads_order(self) -> bool:
        return self.method.reads_order or self.method.recency is not None

    @property
    def path(self) -> str:  # type: ignore[override]
        return f"central: {self.method.settings} setting(s), all histories on the server"

    def start(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        return {}

    def fit(self, before: Params, train: TrainView, seed: int, round_number: int) -> Fitted:
        return Fitted(model=self.method.fit(train, round_number - 1, seed))

    def scores(self, fitted: Fitted, train: TrainView, user_B: np.ndarray) -> np.ndarray:
        assert fitted.model is not None
        histories = [train.history(int(user)) for user in user_B]
        return self._ranked(fitted.model, histories, train.user_key_U[user_B])

    def newcomer(
        self, fitted: Fitted, history: History, *, name: int, seed: int, rounds: int
    ) -> np.ndarray:
        assert fitted.model is not None
        return self._ranked(fitted.model, [history], np.array([name], dtype=np.uint64))[0]

    def _ranked(
        self, model: HistoryScorer, histories: list[History], key_B: np.ndarray
    ) -> np.ndarray:
        return model.score(self.weighed(model, histories, key_B), key_B)

    def weighed(
        self, model: HistoryScorer, histories: list[History], key_B: np.ndarray
    ) -> list[History]:
        if self.method.recency is None:
            return histories
        return weighed(self.method.recency, histories, model.score, key_B)


@dataclass(frozen=True)
class EpochsAlgorithm(CentralAlgorithm):
    """A trained model: a round is an epoch over everybody's samples."""

    task: Task
    method: TrainedCentralMethod

    @property
    def runs_on_gpu(self) -> bool:  # type: ignore[override]
        return self.method.runs_on_gpu

    @property
    def ranks_unseen(self) -> bool:  # type: ignore[override]
        return self.method.ranks_unseen

    @property
    def reads_order(self) -> bool:
        return self.method.reads_order

    @property
    def path(self) -> str:  # type: ignore[override]
        kernel = self.method.kernel
        how = "batch after batch" if kernel is None else f"{kernel} kernel"
        of = f"central: an epoch of {self.method.EPOCH_OF} is a round"
        return f"{of}, all histories on the server ({how})"

    def draws(self, exchange: Exchange) -> Draws:
        return Draws(self.method.sampling)

    def start(self, train: TrainView, seed: int, dtype: torch.dtype) -> Params:
        return self.method.start(train, seed, dtype)

    def fit(self, before: Params, train: TrainView, seed: int, round_number: int) -> Fitted:
        return Fitted(*self.method.epoch(before, train, seed, round_number))

    def scores(self, fitted: Fitted, train: TrainView, user_B: np.ndarray) -> np.ndarray:
        histories = [train.history(int(user)) for user in user_B]
        return self.method.score(fitted.parameters, histories, user_B)

    def newcomer(
        self, fitted: Fitted, history: History, *, name: int, seed: int, rounds: int
    ) -> np.ndarray:
        return self.method.score_newcomer(
            fitted.parameters, history, name=name, seed=seed, epochs=rounds
        )
