"""Rounds of a composed method on an engine, with what a run keeps and counts of them."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch

from tacit.core.compose import Algorithm, compose
from tacit.core.method import Method
from tacit.core.parts import TableRule
from tacit.core.types import Task
from tacit.data.sampling import DrawnNegatives
from tacit.data.views import TrainView
from tacit.engines.base import Engine
from tacit.engines.cohort import CohortEngine
from tacit.engines.cold import ColdServer
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.residence import room_on
from tacit.engines.scoring import Scorer
from tacit.engines.state import State, require_clients_memory
from tacit.errors import TacitError
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.checkpoint import load_pair, save_state
from tacit.experiment.spec import Experiment


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
