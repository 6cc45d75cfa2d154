"""The trainer of a run: rounds on an engine, with what a run keeps, counts and tells of them."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.core.algorithm import Algorithm, Disclosure, Exchange, Sample, Traffic
from tacit.core.ledger import Ledger
from tacit.core.types import EnginePath, Task
from tacit.data.replay import DrawnNegatives
from tacit.data.views import TrainView
from tacit.engines.clients import sample_of, shape_in_state
from tacit.engines.cold import ColdServer
from tacit.engines.device import room_on
from tacit.engines.participation import Participants, everybody, most_releases
from tacit.engines.scoring import Scorer
from tacit.engines.select import engine_for, scorer_of
from tacit.engines.state import State, require_clients_memory
from tacit.errors import TacitError, argument
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.checkpoint import load_pair, save_state
from tacit.experiment.claims import guarantee_of
from tacit.experiment.spec import Experiment
from tacit.privacy.accounting import require_delta
from tacit.privacy.guarantee import Guarantee


class Trainer:
    """Rounds of an experiment's method. The run loop knows methods through this alone.

    >>> from tacit.data.protocol import CLEAN
    >>> from tacit.data.split import split_dataset
    >>> from tacit.methods import Popularity
    >>> from tacit.testing import noise
    >>> train = split_dataset(noise(n_users=20, n_items=30, history=5), CLEAN).train
    >>> trainer = Trainer(Experiment("popularity", Popularity(), rounds=9), train)
    >>> trainer.run_round()
    >>> trainer.rounds, trainer.scores()(np.array([0])).shape
    (1, (1, 30))
    """

    def __init__(
        self,
        experiment: Experiment,
        train: TrainView,
        threads: int = 1,
        private_on_disk: Path | None = None,
    ) -> None:
        """`private_on_disk` is a folder for the rows that clients tune for themselves, which else
        lie in memory; like the number of threads it changes no number."""
        self.experiment, self.catalogue, self.train = experiment, train, train.existing()
        self.algorithm: Algorithm = experiment.method.algorithm(Task.of(self.train))
        self._require_rows_for_unseen()
        if self.algorithm.ranks_unseen:
            self.train = train
            self.algorithm = experiment.method.algorithm(Task.of(train))
        if self.algorithm.protection is not None:  # noise is made for the releases of a user
            planned = Task.of(self.train, self.releases)
            self.algorithm = experiment.method.algorithm(planned)
            self._require_promise()
        self.engine = engine_for(
            self.algorithm,
            experiment.name,
            experiment.engine,
            device=experiment.device,
            dtype=torch.float64 if experiment.precision == "float64" else torch.float32,
            threads=threads,
        )
        if self.algorithm.composition is not None:
            dtype = torch.float64 if experiment.precision == "float64" else torch.float32
            tuning = experiment.participation.share_after(self.rounds)
            tuning = tuning if private_on_disk is None else 0.0
            require_clients_memory(self.algorithm.composition, self.train, dtype, 2, tuning)
        self.state: State = self.engine.start(self.algorithm, self.train, experiment.seed)
        self._private_on_disk = private_on_disk
        self._place_rows(self.state)
        self.best: State | None = None
        self.cold: ColdServer | None = None
        self.generator_seconds: list[float] = []  # of this process, one entry a round
        if self.algorithm.cold is not None and self.algorithm.composition is not None:
            self.cold = ColdServer.of(self.algorithm.composition, train, experiment.seed)
            self.cold.begin(self.state)

    def _place_rows(self, state: State | None) -> None:
        if self._private_on_disk is not None and state is not None and state.tuned is not None:
            state.tuned.keep_on_disk(self._private_on_disk)

    def _require_promise(self) -> None:
        """What was asked for is what may be promised of the algorithm as it will run, and means
        something for so many people."""
        assert self.algorithm.protection is not None
        asked, found = self.algorithm.protection.request, self.guarantee()
        require_delta(asked.delta, self.train.n_users)
        most = asked.epsilon * (1 + 1e-6) + 1e-12  # of a tiny epsilon rounding leaves little
        if found is None or found.epsilon > most or found.view != asked.view:
            raise TacitError(
                f"{self.experiment.label} asks for epsilon {asked.epsilon:g}, and that cannot be "
                f"promised of it in {self.rounds} rounds: "
                f"{'nothing can' if found is None else found.text}; leave the claim out."
            )

    def _require_rows_for_unseen(self) -> None:
        algorithm, experiment = self.algorithm, self.experiment
        if self.catalogue.warm_W is None or algorithm.ranks_unseen or algorithm.cold is not None:
            return
        if algorithm.composed is not None:
            raise TacitError(
                f"{experiment.label} has no rows for items that nobody has touched; add a "
                f"generator ({argument('plugins', 'mdifffr')}, ifedrec, ridge, nearest or "
                f"random_rows), or use another {argument('split')}."
            )
        raise TacitError(
            f"{experiment.name} ranks items by what it learns from those who touched them, so it "
            f"cannot rank items that nobody has touched; use another {argument('split')}."
        )

    # Rounds

    @property
    def rounds(self) -> int:
        """How many rounds the run has at most."""
        asked, known = self.experiment.rounds, self.algorithm.max_rounds
        return asked if known is None else min(asked, known)

    @cached_property
    def releases(self) -> int:
        """The most releases that any user takes part in; known before training."""
        known = (self.experiment.participation, self.train, self.experiment.seed, self.rounds)
        return most_releases(self.algorithm, *known)

    @cached_property
    def is_promised(self) -> bool:
        """Whether the run as it was planned has a guarantee."""
        return self.guarantee() is not None

    @property
    def loss(self) -> float | None:
        return None if math.isnan(self.state.loss) else self.state.loss  # NaN: nobody took part

    def describe(self) -> EnginePath:
        """Which code trains and ranks."""
        path: EnginePath = self.engine.describe(self.algorithm)
        if self.cold is not None or self.algorithm.composition is None:
            return path
        scorer = Scorer(self.algorithm.composition, self.state, train=self.train)
        return replace(path, text=f"{path.text}; {scorer.describe()}", scoring=scorer.kernel)

    def run_round(self) -> None:
        if self.is_promised and self.state.round_number >= self.rounds:
            raise TacitError(
                f"The noise of this run was made for {self.rounds} rounds, which are played; one "
                f"more would void its guarantee. Begin anew with more {argument('rounds')}."
            )
        participants = self.participants(self.state.round_number + 1)
        with room_on(self.experiment.device):
            self.engine.round(
                self.algorithm, self.train, self.state, participants, self.experiment.seed
            )
        if self.cold is not None:
            begun = time.process_time()
            self.cold.after_round(self.state)
            self.generator_seconds.append(time.process_time() - begun)

    def participants(self, round_number: int) -> Participants:
        """Who takes part in a round; everybody's history takes part in a central method."""
        if self.algorithm.central is not None:
            everyone = np.arange(self.train.n_users)
            return Participants(everyone, np.ones(len(everyone), dtype=bool))
        return self.experiment.participation.draw(self.train, self.experiment.seed, round_number)

    # Scores

    def scores(self) -> ScoreBlock:
        return self._scores(self.state)

    def _scores(self, state: State, draw: int = 0) -> ScoreBlock:
        if self.cold is None or self.catalogue.warm_W is None:
            return scorer_of(self.algorithm, self.train, state, self.experiment.seed)
        protocol = self.experiment.protocol
        together = (protocol.valid_mask, protocol.test_mask) != ("others", "others")
        return self.cold.scorer(state.on("cpu"), draw, together)

    def keep_best(self) -> None:
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

    # On disk

    def save(self, folder: Path, note: dict[str, Any]) -> None:
        if self.algorithm.saved:
            save_state(folder, self.state.on("cpu"), note)

    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None:
        if self.best is not None and self.algorithm.saved:
            save_state(folder, self.best.on("cpu"), note or {})

    def restore(self, folder: Path) -> dict[str, Any] | None:
        """Go on from what was saved; None where there is nothing, or nothing is ever saved."""
        if not self.algorithm.saved:
            return None
        expected = {name: tuple(value.shape) for name, value in self.state.shared.items()}
        expected |= shape_in_state(self.algorithm, self.train)
        saved = load_pair(folder, expected)
        if saved is None:
            return None
        self.state, self.best, note = saved
        self._place_rows(self.state)
        self._place_rows(self.best)
        return note

    # What a run tells of it

    def drawn(self, rounds: int) -> DrawnNegatives:
        """Which items each user drew as negatives up to a round, drawn again from the streams."""
        draws = self.algorithm.draws(Exchange())
        if draws.sampling is None:
            return DrawnNegatives.nothing(self.train)
        return DrawnNegatives.of(
            self.train.existing(),  # who ranks the whole catalogue draws of what exists, too
            draws.sampling,
            seed=self.experiment.seed,
            rounds=((n, self.participants(n).user_P) for n in range(1, rounds + 1)),
            epochs=draws.epochs,
            catalogue=self.catalogue,
        )

    def traffic(self, rounds: int) -> Traffic:
        """What so many rounds cost."""
        participants = [len(self.participants(n).user_P) for n in range(1, rounds + 1)]
        return self.algorithm.traffic(self._sample, participants, self._width)

    def cost(self, rounds: int) -> dict[str, int]:
        """The same in the words of a record; what a method does not have is left out."""
        traffic = self.traffic(rounds)
        found = {
            "bytes_up": traffic.up,
            "bytes_down": traffic.down,
            "exchanges": traffic.exchanges,
            "bytes_total_to_selected_round": traffic.total,
            "bytes_once": traffic.once,
            "client_bytes": traffic.on_client,
            "client_bytes_at_peak": traffic.at_peak,
        }
        return {name: value for name, value in found.items() if value is not None}

    def guarantee(self) -> Guarantee | None:
        """What is promised to everybody who takes part, once all rounds are played."""
        if not any(link.noisy for link in self.algorithm.channel):
            return None
        return guarantee_of(self.experiment, self.algorithm, self.releases)

    def disclosure(self) -> Disclosure:
        """What leaves a device."""
        return self.algorithm.disclosure(self._sample)

    def ledger(self, rounds: int) -> Ledger:
        """What crossed in so many rounds."""
        return Ledger.of(
            self.algorithm,
            cache(self._sample),
            [self.participants(n).user_P for n in range(1, rounds + 1)],
            everybody(self.train).user_P,
            self._width,
            self.guarantee(),
        )

    @property
    def _width(self) -> int:
        return 8 if self.experiment.precision == "float64" else 4

    def _sample(self) -> Sample:
        state = self.state.on("cpu")
        return sample_of(self.algorithm, self.train, state, self.experiment.seed)
