"""Blocks of clients at once: vmap over the loss; gathering, stepping and scattering stay outside.

Clients are independent within a round, so the gradient of the sum of their losses is each client's
own gradient. What a kernel claims (`accelerators`) it runs instead; `describe` says which path runs
and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch

from tacit.core.algorithm import FIT, GUIDE, TABLES, Exchange, Total
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import EnginePath
from tacit.data.batches import BlockDraws, counted, draw_block, history_of_block
from tacit.data.sampling import samples_per_user
from tacit.data.views import TrainView
from tacit.engines.accelerators import (
    GuidesClients,
    TrainsClients,
    block_claim,
    fused_claim,
    gate_claim,
)
from tacit.engines.accelerators.claims import Claim
from tacit.engines.block import BlockRun, blocks_ahead, keep, one_at_a_time, send
from tacit.engines.clients import upload_draws
from tacit.engines.device import halved, move_to_device
from tacit.engines.guidance import gather_tables, guide
from tacit.engines.participation import Participants
from tacit.engines.round import play_round, train_on_views, weights_of
from tacit.engines.state import State, initial_state
from tacit.errors import TacitError, argument

# Larger blocks pad more and fall out of cache; measured best on 2 cores.
LINEAR_BLOCK, DEEP_BLOCK = 64, 32


@dataclass(frozen=True)
class CohortEngine:
    """Vectorised simulation. `fused="auto"` takes the fused kernel wherever it applies."""

    dtype: torch.dtype = torch.float32
    threads: int = 1
    device: str = "cpu"
    block: int | None = None
    fused: Literal["auto", "always", "never"] = "auto"

    def describe(self, algorithm: ComposedAlgorithm) -> EnginePath:
        """The path and its kernel; then, in brackets, why it is not the one before.

        >>> from tacit.core.compose import compose
        >>> from tacit.core.types import Task
        >>> from tacit.methods import fedrap
        >>> CohortEngine(fused="never").describe(compose(fedrap(dim=4), Task(2, 3))).text[:54]
        'compiled: additive kernel, blocks of 64 clients on cpu'
        """
        running = algorithm.with_server_views or algorithm
        claim, guidance = self._fused_claim(running), self._guidance(algorithm)
        gate = None if algorithm.method.sync.guidance is None else self._gate_claim(algorithm)
        guides = None if gate is None else gate.name
        if claim.kernel is not None:
            text = (
                f"fused: {claim.name} kernel, one compiled pass per client, {self.threads} "
                f"thread(s){guidance}"
            )
            return EnginePath("fused", text, claim.name, guidance=guides)
        if self.fused == "always":
            raise TacitError(
                f"The fused engine cannot run this method: {claim.reason}; use "
                f"{argument('engine', 'cohort')}."
            )
        size = self._block_size(running)
        blocks = "one client at a time" if size == 1 else f"blocks of {size} clients"
        blocks = f"{blocks} on {self.device}"
        kernel = block_claim(running, self.device).name
        reason = one_at_a_time(running) or claim.reason
        if kernel is None:
            text = f"cohort: {blocks} ({reason}){guidance}"
            return EnginePath("cohort", text, reason=reason, guidance=guides)
        text = f"compiled: {kernel} kernel, {blocks} ({reason}){guidance}"
        return EnginePath("compiled", text, kernel, reason, guidance=guides)

    def _guidance(self, algorithm: ComposedAlgorithm) -> str:
        """How personal tables are guided, where they are."""
        if algorithm.method.sync.guidance is None:
            return ""
        claim = self._gate_claim(algorithm)
        if claim.kernel is not None:
            return f"; guidance: {claim.name} kernel"
        return f"; guidance: blocks of {self._block_size(algorithm)} clients ({claim.reason})"

    def _fused_claim(self, algorithm: ComposedAlgorithm) -> Claim[TrainsClients]:
        if self.fused == "never":
            return Claim(None, "the fused kernel was not asked for")
        return fused_claim(algorithm, self.device)

    def _gate_claim(self, algorithm: ComposedAlgorithm) -> Claim[GuidesClients]:
        if self.fused == "never":
            return Claim(None, "the fused kernel was not asked for")
        return gate_claim(algorithm, self.device)

    def _block_size(self, algorithm: ComposedAlgorithm) -> int:
        if one_at_a_time(algorithm) is not None:
            return 1
        if self.block is not None:
            return self.block
        if self.device != "cpu":
            return 1024  # a GPU wants width, and pays for it with padding
        return LINEAR_BLOCK if algorithm.method.backbone.linear else DEEP_BLOCK

    def start(self, algorithm: ComposedAlgorithm, train: TrainView, seed: int) -> State:
        self.describe(algorithm)
        return initial_state(algorithm, train, seed, self.dtype)

    def round(
        self,
        algorithm: ComposedAlgorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        seed: int,
    ) -> None:
        if self.device != "cpu" and algorithm.cold is None:  # generators learn on the host
            move_to_device(state, self.device)
        play = partial(self.play, algorithm, train, state, seed)
        play_round(algorithm, train, state, participants, seed, play)

    def play(
        self,
        algorithm: ComposedAlgorithm,
        train: TrainView,
        state: State,
        seed: int,
        exchange: Exchange,
        who: Participants,
    ) -> Total:
        """One exchange: clients are written in place, and their uploads are added up. Personal
        tables are gathered from and guided by everybody, as those exchanges say."""
        samples_U = samples_per_user(train, algorithm.method.sampling)

        def train_clients(running: ComposedAlgorithm) -> Total:
            kernel = self._fused_claim(running).kernel
            if kernel is not None:
                return kernel.train(train, state, who, samples_U, seed=seed, threads=self.threads)
            return self._block_round(running, train, state, who, samples_U, seed)

        if exchange.name == TABLES:
            return gather_tables(algorithm, train, state)
        if exchange.name == GUIDE:
            kernel = self._gate_claim(algorithm).kernel
            if kernel is not None:
                kernel.guide(train, state, samples_U, seed=seed, threads=self.threads)
            else:
                guide(algorithm, train, state, seed, self._block_size(algorithm))
            return Total()
        if exchange.name == FIT:
            return train_clients(algorithm.fitting)
        if algorithm.with_server_views is not None:
            return train_on_views(algorithm, state, seed, train_clients)
        return train_clients(algorithm)

    def _block_round(
        self,
        algorithm: ComposedAlgorithm,
        train: TrainView,
        state: State,
        participants: Participants,
        samples_U: np.ndarray,
        seed: int,
    ) -> Total:
        totals = Total.zeros(algorithm.summed(Exchange()))
        if state.tuned is not None:
            state.tuned.make_room(participants.user_P)
        local = algorithm.method.local
        # longest first: clients of a block have similar length, and the active ones stand in front
        order_P = np.argsort(-samples_U[participants.user_P], kind="stable")
        size = self._block_size(algorithm)
        shared = {name: value.to(self.device) for name, value in state.shared.items()}
        recency = algorithm.method.recency
        count_N = None if recency is None else recency.of_positives(train)

        def draw(place_B: np.ndarray) -> BlockDraws:
            draws = draw_block(
                train,
                participants.user_P[place_B],
                samples_U,
                algorithm.method.sampling,
                batch=local.batch,
                epochs=local.epochs,
                seed=seed,
                round_number=state.round_number + 1,
                dtype=np.float64 if self.dtype == torch.float64 else np.float32,
                all_rows=algorithm.method.sync.rows == "all",
            )
            return counted(draws, train.positives, participants.user_P[place_B], count_N)

        ahead = self.threads if self.device != "cpu" else 0
        while len(order_P):
            for place_B, draws in blocks_ahead(order_P, size, draw, ahead):
                user_B = participants.user_P[place_B]
                history = None
                if algorithm.method.items.reads_history:
                    history = history_of_block(train, user_B, draws, count_N)
                weight_B = weights_of(algorithm, train, user_B)
                weight_B *= participants.reports_P[place_B]
                known = (algorithm, state, shared, user_B, draws, self.device, history, weight_B)
                try:
                    run = BlockRun(*known)
                    totals.loss_sum += run.train()
                except torch.OutOfMemoryError:  # of a GPU; nothing was kept or sent yet
                    size = halved(size, self.device)
                    break
                order_P = order_P[len(place_B) :]
                totals.samples += int(draws.samples_B.sum()) * local.epochs
                keep(run, state)
                totals.weight += float(weight_B.sum())
                totals.clients += int(participants.reports_P[place_B].sum())
                if algorithm.sends_changes(state.round_number + 1):
                    number = state.round_number + 1
                    send(run, totals, weight_B, upload_draws(train, user_B, seed, number))
                del run  # before the next one is made: two blocks may not fit
        return totals
