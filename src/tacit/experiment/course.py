"""What a run advances: a federation round by round, or a central method setting by setting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from tacit.core.central import CentralMethod, HistoryScorer
from tacit.core.compose import Algorithm, compose
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.data.sampling import count_sampled
from tacit.data.views import TrainView
from tacit.engines.base import Engine
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.checkpoint import load_state, save_state
from tacit.experiment.spec import Experiment


class Course(Protocol):
    """One run's moving part, as the run loop sees it."""

    @property
    def rounds(self) -> int: ...
    @property
    def loss(self) -> float | None: ...
    def describe(self) -> str: ...
    def advance(self) -> None: ...
    def scores(self) -> ScoreBlock: ...
    def mark_best(self) -> None: ...
    def best_scores(self) -> ScoreBlock: ...
    def save(self, folder: Path, note: dict[str, Any]) -> None: ...
    def restore(self, folder: Path) -> dict[str, Any] | None: ...
    def save_best(self, folder: Path) -> None: ...
    def drawn_UI(self, rounds: int) -> np.ndarray: ...
    def cost(self, rounds: int) -> dict[str, int]: ...
    def server_reads(self) -> list[str]: ...


def engine_of(experiment: Experiment, threads: int) -> Engine:
    """The engine an experiment asks for; refuses a device that is not there.

    >>> from tacit.experiment.resolve import resolve
    >>> type(engine_of(resolve("fedmf", engine="loop"), 1)).__name__
    'LoopEngine'
    """
    dtype = torch.float64 if experiment.precision == "float64" else torch.float32
    if experiment.device != "cpu":
        if not experiment.device.startswith("cuda"):
            raise TacitError(f"Unknown device {experiment.device!r}; use cpu or cuda.")
        if not torch.cuda.is_available():
            raise TacitError("There is no CUDA device here; use --device cpu.")
    if experiment.engine == "loop":
        return LoopEngine(dtype)
    fused = {"auto": "auto", "cohort": "never", "fused": "always"}[experiment.engine]
    return CohortEngine(dtype, threads, experiment.device, fused=fused)  # type: ignore[arg-type]


class FederatedCourse:
    """Rounds of a composed method on an engine."""

    def __init__(self, experiment: Experiment, train: TrainView, threads: int) -> None:
        assert isinstance(experiment.method, Method)
        self.experiment, self.train = experiment, train
        self.algorithm: Algorithm = compose(experiment.method, Task(train.n_users, train.n_items))
        self.engine = engine_of(experiment, threads)
        self.state: State = self.engine.start(self.algorithm, train, experiment.seed)
        self.best: State | None = None

    @property
    def rounds(self) -> int:
        return self.experiment.rounds

    @property
    def loss(self) -> float | None:
        return None if math.isnan(self.state.loss) else self.state.loss  # NaN: nobody took part

    def describe(self) -> str:
        return self.engine.describe(self.algorithm)

    def advance(self) -> None:
        round_number, seed = self.state.round_number + 1, self.experiment.seed
        participants = self.experiment.participation.draw(self.train, seed, round_number)
        self.engine.round(self.algorithm, self.train, self.state, participants, seed)

    def scores(self) -> ScoreBlock:
        return Scorer(self.algorithm, self.state)

    def mark_best(self) -> None:
        self.best = None  # let go of the old copy first: two of them may not fit
        self.best = self.state.copy()

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return Scorer(self.algorithm, self.best)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        save_state(folder, self.state, note)

    def restore(self, folder: Path) -> dict[str, Any] | None:
        saved = load_state(folder / "last")
        best = load_state(folder / "best")
        if saved is None:
            return None
        self.state, note = saved
        self.best = None if best is None else best[0]
        if note["selected_round"] and best is None:
            raise TacitError(
                f"The checkpoint in {str(folder)!r} has lost its best round; remove that folder to "
                "begin the run anew."
            )
        expected = {name: init.shape for name, init in self.algorithm.shared.items()}
        users = self.train.n_users
        expected |= {name: (users, *init.shape) for name, init in self.algorithm.private.items()}
        leaves = {**self.state.shared, **self.state.private}
        found = {name: tuple(leaf.shape) for name, leaf in leaves.items()}
        if expected != found:
            raise TacitError(
                f"The checkpoint in {str(folder)!r} belongs to another experiment: its leaves are "
                f"{found}, this one has {expected}; remove that folder to begin anew."
            )
        return note

    def save_best(self, folder: Path) -> None:
        if self.best is not None:
            save_state(folder, self.best, {})

    def drawn_UI(self, rounds: int) -> np.ndarray:
        """Which items each user drew as negatives up to a round, drawn again from the streams."""
        method, seed = self.algorithm.method, self.experiment.seed
        return count_sampled(
            self.train,
            method.sampling,
            seed=seed,
            rounds=[
                (number, self.experiment.participation.draw(self.train, seed, number).user_P)
                for number in range(1, rounds + 1)
            ],
            epochs=method.local.epochs,
        )

    def cost(self, rounds: int) -> dict[str, int]:
        width = self.state_width
        one_way = self.algorithm.floats_exchanged * width
        exchanges = 0
        if one_way:
            exchanges = sum(
                len(
                    self.experiment.participation.draw(
                        self.train, self.experiment.seed, number
                    ).user_P
                )
                for number in range(1, rounds + 1)
            )
        return {
            "bytes_up": one_way,
            "bytes_down": one_way,
            "exchanges": exchanges,
            "bytes_total_to_selected_round": exchanges * 2 * one_way,
            "client_bytes": self.algorithm.floats_on_client * width,
        }

    @property
    def state_width(self) -> int:
        return 8 if self.experiment.precision == "float64" else 4

    def server_reads(self) -> list[str]:
        if not self.algorithm.floats_exchanged:
            return ["nothing leaves the device"]
        said = [link.says() for link in self.algorithm.method.channel]
        if self.algorithm.method.server.weight(1) != self.algorithm.method.server.weight(2):
            said.append("the server is told how many interactions a client has")
        return said


@dataclass(eq=False)
class CentralCourse:
    """Settings of a central method, one after another; validation picks one as it picks rounds."""

    experiment: Experiment
    method: CentralMethod
    train: TrainView
    setting: int = 0
    fitted: HistoryScorer | None = None
    best: HistoryScorer | None = None

    @property
    def rounds(self) -> int:
        return min(self.experiment.rounds, self.method.settings)

    @property
    def loss(self) -> float | None:
        return None

    def describe(self) -> str:
        return f"central: {self.method.settings} setting(s), all histories on the server"

    def advance(self) -> None:
        self.fitted = self.method.fit(self.train, self.setting, self.experiment.seed)
        self.setting += 1

    def scores(self) -> ScoreBlock:
        assert self.fitted is not None
        return self._block(self.fitted)

    def _block(self, scorer: HistoryScorer) -> Callable[[np.ndarray], np.ndarray]:
        positives, keys = self.train.positives, self.train.user_key_U
        return lambda user_B: scorer.score([positives[int(u)] for u in user_B], keys[user_B])

    def mark_best(self) -> None:
        self.best = self.fitted

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return self._block(self.best)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        """Nothing to keep: a setting is fitted in one go, and again if the run begins anew."""

    def restore(self, folder: Path) -> dict[str, Any] | None:
        return None

    def save_best(self, folder: Path) -> None:
        """Nothing to keep: the selected setting is fitted again where it is needed."""

    def drawn_UI(self, rounds: int) -> np.ndarray:
        return np.zeros((self.train.n_users, self.train.n_items), dtype=np.uint8)

    def cost(self, rounds: int) -> dict[str, int]:
        mean_history = round(8 * len(self.train.positives.item_N) / self.train.n_users)
        return {
            "bytes_up": mean_history,
            "bytes_down": 0,
            "exchanges": self.train.n_users,
            "bytes_total_to_selected_round": 8 * len(self.train.positives.item_N),
            "client_bytes": mean_history,
        }

    def server_reads(self) -> list[str]:
        return ["every history in full: this is a central method"]


def course_of(experiment: Experiment, train: TrainView, threads: int) -> Course:
    """The course that an experiment's method takes."""
    if isinstance(experiment.method, Method):
        return FederatedCourse(experiment, train, threads)
    return CentralCourse(experiment, experiment.method, train)
