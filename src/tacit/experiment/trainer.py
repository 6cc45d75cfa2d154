"""What a run advances: a federation round by round, or a central method setting by setting."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from tacit.central.pairs import PairModel
from tacit.core.central import CentralMethod, HistoryScorer, TrainedCentralMethod
from tacit.core.compose import Algorithm, compose
from tacit.core.custom import DirectMethod
from tacit.core.method import Method
from tacit.core.parts import TableRule
from tacit.core.types import Params, Task
from tacit.data.sampling import DrawnNegatives
from tacit.data.views import TrainView
from tacit.engines.base import Engine
from tacit.engines.cohort import CohortEngine
from tacit.engines.cold import ColdServer
from tacit.engines.custom import DirectEngine, DirectScorer
from tacit.engines.device import room_on
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.ragged import RoundData, one_client, shape_in_state, taken
from tacit.engines.scoring import Scorer
from tacit.engines.state import State, require_clients_memory
from tacit.errors import TacitError
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.checkpoint import load_pair, save_state
from tacit.experiment.spec import Experiment

# Rounds of a composed method on an engine, with what a run keeps and counts of them.


def require_device(device: str) -> None:
    """Refuses a device that nobody knows, or that is not there.

    >>> require_device("cpu")
    """
    if device == "cpu":
        return
    if not device.startswith("cuda"):
        raise TacitError(f"Unknown device {device!r}; use cpu or cuda.")
    if not torch.cuda.is_available():
        raise TacitError("There is no CUDA device here; use --device cpu.")


def engine_of(experiment: Experiment, threads: int) -> Engine:
    """The engine an experiment asks for; refuses a device that is not there.

    >>> from tacit.experiment.resolve import resolve
    >>> type(engine_of(resolve("fedmf", engine="loop"), 1)).__name__
    'LoopEngine'
    """
    dtype = torch.float64 if experiment.precision == "float64" else torch.float32
    require_device(experiment.device)
    if experiment.engine == "loop":
        return LoopEngine(dtype)
    fused = {"auto": "auto", "cohort": "never", "fused": "always"}[experiment.engine]
    return CohortEngine(dtype, threads, experiment.device, fused=fused)  # type: ignore[arg-type]


class FederatedCourse:
    """Rounds of a composed method on an engine."""

    def __init__(self, experiment: Experiment, train: TrainView, threads: int) -> None:
        assert isinstance(experiment.method, Method)
        if train.warm_W is not None and experiment.method.cold is None:
            raise TacitError(
                f"{experiment.label} has no rows for items that nobody has touched; add a "
                "generator (--with mdifffr, ifedrec, ridge, nearest or random_rows), or use "
                "another --split."
            )
        self.experiment, self.catalogue, self.train = experiment, train, train.existing()
        self.algorithm: Algorithm = compose(experiment.method, Task.of(self.train))
        self.engine = engine_of(experiment, threads)
        dtype = torch.float64 if experiment.precision == "float64" else torch.float32
        require_clients_memory(self.algorithm, self.train, dtype, copies=2)
        self.state: State = self.engine.start(self.algorithm, self.train, experiment.seed)
        self.best: State | None = None
        self.cold: ColdServer | None = None
        self.generator_seconds: list[float] = []  # of this process, one entry a round
        if experiment.method.cold is not None:
            self.cold = ColdServer.of(self.algorithm, train, experiment.seed)
            self.cold.begin(self.state)

    @property
    def rounds(self) -> int:
        return self.experiment.rounds

    @property
    def loss(self) -> float | None:
        return None if math.isnan(self.state.loss) else self.state.loss  # NaN: nobody took part

    def describe(self) -> str:
        said = self.engine.describe(self.algorithm)
        if self.cold is not None:
            return said
        positives = self.train.positives
        return f"{said}; {Scorer(self.algorithm, self.state, positives=positives).describe()}"

    def advance(self) -> None:
        participants = self._participants(self.state.round_number + 1)
        with room_on(self.experiment.device):
            self.engine.round(
                self.algorithm, self.train, self.state, participants, self.experiment.seed
            )
        if self.cold is not None:
            begun = time.process_time()
            self.cold.after_round(self.state)
            self.generator_seconds.append(time.process_time() - begun)

    def _participants(self, round_number: int) -> Participants:
        return self.experiment.participation.draw(self.train, self.experiment.seed, round_number)

    def scores(self) -> ScoreBlock:
        return self._scores(self.state)

    def _scores(self, state: State, draw: int = 0) -> ScoreBlock:
        if self.cold is None or self.catalogue.warm_W is None:
            # tuned rows lie in the host's memory, so what they are laid over has to come there
            where_it_lies = state if state.tuned is None else state.on("cpu")
            return Scorer(self.algorithm, where_it_lies, positives=self.train.positives)
        protocol = self.experiment.protocol
        together = (protocol.valid_mask, protocol.test_mask) != ("others", "others")
        return self.cold.scorer(state.on("cpu"), draw, together)

    def mark_best(self) -> None:
        self.best = None  # let go of the old copy first: two of them may not fit
        with room_on(self.experiment.device):
            self.best = self.state.copy()

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return self._scores(self.best)

    def draw_scores(self, draw: int) -> ScoreBlock | None:
        """Scores of the selected round with another draw of noise; None where nothing is drawn."""
        assert self.best is not None
        if self.cold is None or self.catalogue.warm_W is None or not self.cold.cold.noise:
            return None
        return self._scores(self.best, draw)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        save_state(folder, self.state.on("cpu"), note)

    def restore(self, folder: Path) -> dict[str, Any] | None:
        expected = {name: init.shape for name, init in self.algorithm.shared.items()}
        users = self.train.n_users
        expected |= {name: (users, *init.shape) for name, init in self.algorithm.private.items()}
        saved = load_pair(folder, expected)
        if saved is None:
            return None
        self.state, self.best, note = saved
        return note

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        if self.best is not None:
            save_state(folder, self.best.on("cpu"), note or {})

    def drawn(self, rounds: int) -> DrawnNegatives:
        """Which items each user drew as negatives up to a round, drawn again from the streams."""
        method = self.algorithm.method
        return DrawnNegatives.of(
            self.train,
            method.sampling,
            seed=self.experiment.seed,
            rounds=((n, self._participants(n).user_P) for n in range(1, rounds + 1)),
            epochs=method.local.epochs,
            catalogue=self.catalogue,
        )

    def cost(self, rounds: int) -> dict[str, int]:
        width, algorithm = self.state_width, self.algorithm
        up, down = algorithm.floats_up * width, algorithm.floats_down * width
        exchanges = total = 0
        for number in range(1, rounds + 1) if up else ():
            participants = len(self._participants(number).user_P)
            exchanges += algorithm.exchanges(number, participants)
            total += algorithm.traffic(number, participants) * width
        return {
            "bytes_up": up,
            "bytes_down": down,
            "exchanges": exchanges,
            "bytes_total_to_selected_round": total,
            "bytes_once": algorithm.floats_once * width,
            "client_bytes": algorithm.floats_on_client * width,
            "client_bytes_at_peak": algorithm.floats_at_peak * width,
        }

    @property
    def state_width(self) -> int:
        return 8 if self.experiment.precision == "float64" else 4

    def server_reads(self) -> list[str]:
        if not self.algorithm.communicates:
            return ["nothing leaves the device"]
        channel = self.algorithm.method.channel
        noise = any("noise" in link.gives for link in channel)
        # the plain sentence of a dense update is not true under noise, nor is its opposite
        speak = [link for link in channel if not (noise and "dense" in link.gives)]
        said = [sentence for link in speak if (sentence := link.says())]
        if noise:
            said.append("how much the noise hides is not accounted for yet")
        server = self.algorithm.method.server
        if isinstance(server, TableRule):
            said.append("the server reads every single table, so a sum would not be enough")
        elif server.weight(1) != server.weight(2):
            said.append("the server is told how many interactions a client has")
        return said


# Rounds of a method that speaks for itself, with what a run keeps and counts of them.


def direct_engine_of(experiment: Experiment) -> DirectEngine:
    """The engine an experiment asks for; refuses what such methods cannot run on.

    >>> from tacit.methods import Popularity
    >>> direct_engine_of(Experiment("test", Popularity(), rounds=1, engine="loop")).block
    1
    """
    if experiment.device != "cpu":
        raise TacitError(f"{experiment.name} runs on the CPU only; use --device cpu.")
    if experiment.engine == "fused":
        raise TacitError(
            f"The fused engine cannot run {experiment.name}: it is no expression over a trained "
            "item table; use --engine cohort."
        )
    dtype = torch.float64 if experiment.precision == "float64" else torch.float32
    return DirectEngine(dtype, block=1 if experiment.engine == "loop" else None)


class DirectCourse:
    """Rounds of a method that speaks for itself."""

    def __init__(self, experiment: Experiment, method: DirectMethod, train: TrainView) -> None:
        self.experiment, self.method, self.train = experiment, method, train
        self.task = Task(train.n_users, train.n_items)
        self.engine = direct_engine_of(experiment)
        self.state: State = self.engine.start(method, train, experiment.seed)
        self.best: State | None = None

    @property
    def rounds(self) -> int:
        return self.experiment.rounds

    @property
    def loss(self) -> float | None:
        return None if math.isnan(self.state.loss) else self.state.loss

    def describe(self) -> str:
        return self.engine.describe(self.method, self.task)

    def advance(self) -> None:
        participants = self._participants(self.state.round_number + 1)
        self.engine.round(self.method, self.train, self.state, participants, self.experiment.seed)

    def _participants(self, round_number: int) -> Participants:
        return self.experiment.participation.draw(self.train, self.experiment.seed, round_number)

    def scores(self) -> ScoreBlock:
        return DirectScorer(self.method, self.train, self.state)

    def mark_best(self) -> None:
        self.best = None  # let go of the old copy first: two of them may not fit
        self.best = self.state.copy()

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return DirectScorer(self.method, self.train, self.best)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        save_state(folder, self.state, note)

    def restore(self, folder: Path) -> dict[str, Any] | None:
        expected = {leaf: init.shape for leaf, init in self.method.shared(self.task).items()}
        expected |= shape_in_state(self.method, self.train)
        saved = load_pair(folder, expected)
        if saved is None:
            return None
        self.state, self.best, note = saved
        return note

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        if self.best is not None:
            save_state(folder, self.best, note or {})

    def drawn(self, rounds: int) -> DrawnNegatives:
        """Which items each user drew as negatives up to a round, drawn again from the streams."""
        if self.method.sampling is None:
            return DrawnNegatives.nothing(self.train)
        return DrawnNegatives.of(
            self.train,
            self.method.sampling,
            seed=self.experiment.seed,
            rounds=((n, self._participants(n).user_P) for n in range(1, rounds + 1)),
            epochs=1,
        )

    @torch.no_grad()
    def cost(self, rounds: int) -> dict[str, int]:
        """Bytes of what `broadcast` and `update` really return, in rounds that send.

        Rows count as whole tables: which rows are there would tell the history.
        """
        user = int(np.flatnonzero(self.train.positives.size_U > 0)[0])
        data = RoundData.begin(
            self.method, self.train, self.experiment.seed, 1, self.engine.dtype
        ).block(np.array([user]))
        client = one_client(data)
        received = self.method.broadcast(self.state.shared, client.user)
        alone = taken(self.method, self.train, self.state.private, np.array([user]))
        own = {leaf: value[0] for leaf, value in alone.items()}
        _, upload = self.method.update(received, own, client, 1)
        up, down, kept = self._bytes(upload), self._bytes(received), self._bytes(own)
        sending = [n for n in range(1, rounds + 1) if self.method.sends(n)]
        exchanges = sum(len(self._participants(n).user_P) for n in sending)
        return {
            "bytes_up": up,
            "bytes_down": down,
            "exchanges": exchanges,
            "bytes_total_to_selected_round": exchanges * (up + down),
            "client_bytes": down + kept,
        }

    def _bytes(self, leaves: Params) -> int:
        floats = 0
        for leaf, value in leaves.items():
            rows = leaf in self.method.row_leaves
            floats += value[0].numel() * self.train.n_items if rows else value.numel()
        return floats * (8 if self.experiment.precision == "float64" else 4)

    def server_reads(self) -> list[str]:
        return self.method.says()


# Settings of a central method, one after another.

CENTRAL_READS = "every history in full: this is a central method"


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

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        """Nothing to keep: the selected setting is fitted again where it is needed."""

    def drawn(self, rounds: int) -> DrawnNegatives:
        return DrawnNegatives.nothing(self.train)

    def cost(self, rounds: int) -> dict[str, int]:
        return central_cost(self.train)

    def server_reads(self) -> list[str]:
        return [CENTRAL_READS]


def central_cost(train: TrainView) -> dict[str, int]:
    """Everybody sends a history once, 8 bytes for each item."""
    mean_history = round(8 * len(train.positives.item_N) / train.n_users)
    return {
        "bytes_up": mean_history,
        "bytes_down": 0,
        "exchanges": train.n_users,
        "bytes_total_to_selected_round": 8 * len(train.positives.item_N),
        "client_bytes": mean_history,
    }


# Epochs of a central method, with what a run keeps of them.


class TrainedCourse:
    """Epochs of a central method; validation picks one as it picks rounds."""

    def __init__(
        self, experiment: Experiment, method: TrainedCentralMethod, train: TrainView
    ) -> None:
        if experiment.device != "cpu":
            raise TacitError(f"{experiment.name} runs on the CPU only; use --device cpu.")
        self.experiment, self.method, self.train = experiment, method, train
        dtype = torch.float64 if experiment.precision == "float64" else torch.float32
        # the moments lie beside the parameters: together they are what the server holds
        self.state = State(shared=method.start(train, experiment.seed, dtype), private={})
        self.best: State | None = None

    @property
    def rounds(self) -> int:
        return self.experiment.rounds

    @property
    def loss(self) -> float | None:
        return None if math.isnan(self.state.loss) else self.state.loss

    def describe(self) -> str:
        said = "central: an epoch of mini-batches is a round, all histories on the server"
        if not isinstance(self.method, PairModel):
            return said
        kernel = self.method.kernel
        return f"{said} ({'batch after batch' if kernel is None else f'{kernel} kernel'})"

    def advance(self) -> None:
        number = self.state.round_number + 1
        leaves, loss = self.method.epoch(
            self.state.shared, self.train, self.experiment.seed, number
        )
        self.state = State(shared=leaves, private={}, round_number=number, loss=loss)

    def scores(self) -> ScoreBlock:
        return self._block(self.state)

    def _block(self, state: State) -> ScoreBlock:
        return lambda user_B: self.method.score(state.shared, user_B)

    def mark_best(self) -> None:
        self.best = self.state  # no copy: an epoch makes new leaves and leaves the old ones alone

    def best_scores(self) -> ScoreBlock:
        assert self.best is not None
        return self._block(self.best)

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        save_state(folder, self.state, note)

    def restore(self, folder: Path) -> dict[str, Any] | None:
        expected = {leaf: tuple(value.shape) for leaf, value in self.state.shared.items()}
        saved = load_pair(folder, expected)
        if saved is None:
            return None
        self.state, self.best, note = saved
        return note

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        if self.best is not None:
            save_state(folder, self.best, note or {})

    def drawn(self, rounds: int) -> DrawnNegatives:
        """Which items each user drew as negatives up to an epoch, drawn again from the streams."""
        everyone = np.arange(self.train.n_users)
        return DrawnNegatives.of(
            self.train,
            self.method.sampling,
            seed=self.experiment.seed,
            rounds=((number, everyone) for number in range(1, rounds + 1)),
            epochs=1,
        )

    def cost(self, rounds: int) -> dict[str, int]:
        return central_cost(self.train)

    def server_reads(self) -> list[str]:
        return [CENTRAL_READS]


# What a run advances: a federation round by round, or a central method setting by setting.


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
    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None: ...
    def drawn(self, rounds: int) -> DrawnNegatives: ...
    def cost(self, rounds: int) -> dict[str, int]: ...
    def server_reads(self) -> list[str]: ...


def course_of(experiment: Experiment, train: TrainView, threads: int) -> Course:
    """The course that an experiment's method takes."""
    if isinstance(experiment.method, Method):
        return FederatedCourse(experiment, train, threads)
    if train.warm_W is not None and not isinstance(experiment.method, CentralMethod):
        raise TacitError(
            f"{experiment.name} knows items by who touched them alone, so it cannot rank items "
            "that nobody has touched; use another --split."
        )
    if isinstance(experiment.method, DirectMethod):
        return DirectCourse(experiment, experiment.method, train)
    if isinstance(experiment.method, TrainedCentralMethod):
        return TrainedCourse(experiment, experiment.method, train)
    return CentralCourse(experiment, experiment.method, train)
