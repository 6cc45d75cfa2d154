"""Which engine runs an algorithm, and which scorer ranks with it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from tacit.core.algorithm import Algorithm
from tacit.data.views import History, TrainView
from tacit.engines.central import CentralEngine, central_scorer, fitted_of
from tacit.engines.cohort import CohortEngine
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import custom_newcomer_scores, newcomer_scores
from tacit.engines.round import Engine
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.errors import TacitError, argument
from tacit.evaluation.ranking import ScoreBlock

EngineName = Literal["auto", "loop", "cohort", "fused"]


def require_device(device: str) -> None:
    """Refuses a device that nobody knows, or that is not there.

    >>> require_device("cpu")
    """
    if device == "cpu":
        return
    if not device.startswith("cuda"):
        raise TacitError(f"Unknown device {device!r}; use cpu or cuda.")
    if not torch.cuda.is_available():
        raise TacitError(f"There is no CUDA device here; use {argument('device', 'cpu')}.")


def runs_on_gpu(algorithm: Algorithm) -> bool:
    """Whether there is an engine that trains an algorithm on a GPU.

    >>> from tacit.core.types import Task
    >>> from tacit.methods import METHODS
    >>> names = ("fedmf", "sasrec", "mf", "ease", "fedease", "feddae")
    >>> [runs_on_gpu(METHODS[name].method().algorithm(Task(2, 3))) for name in names]
    [True, True, False, False, True, False]
    """
    if algorithm.central is not None:
        return algorithm.central.runs_on_gpu
    if algorithm.custom is not None:
        return algorithm.custom.steps_on_gpu
    return algorithm.composition is not None


def engine_for(
    algorithm: Algorithm,
    name: str,
    engine: EngineName,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    threads: int = 1,
) -> Engine[Any]:
    """The engine that an experiment asks for; refuses what it cannot run, in a sentence.

    >>> from tacit.core.types import Task
    >>> from tacit.methods import Ease, fedmf
    >>> type(engine_for(fedmf().algorithm(Task(2, 3)), "fedmf", "loop")).__name__
    'LoopEngine'
    >>> type(engine_for(Ease().algorithm(Task(2, 3)), "ease", "auto")).__name__
    'CentralEngine'
    """
    if runs_on_gpu(algorithm):
        require_device(device)
    elif device != "cpu":
        raise TacitError(f"{name} runs on the CPU only; use {argument('device', 'cpu')}.")
    if engine == "loop" and device != "cpu" and algorithm.central is None:
        raise TacitError(
            f"The loop over clients runs on the CPU only; use {argument('device', 'cpu')}."
        )
    if algorithm.composition is not None:
        if engine == "loop":
            return LoopEngine(dtype)
        fused = {"auto": "auto", "cohort": "never", "fused": "always"}[engine]
        return CohortEngine(dtype, threads, device, fused=fused)  # type: ignore[arg-type]
    if algorithm.central is not None:
        return CentralEngine(dtype, device)
    if engine == "fused":
        raise TacitError(
            f"The fused engine cannot run {name}: it is no expression over a trained item table; "
            f"use {argument('engine', 'cohort')}."
        )
    return LoopEngine(dtype) if engine == "loop" else CustomEngine(dtype, device=device)


def scorer_of(algorithm: Algorithm, train: TrainView, state: State, seed: int) -> ScoreBlock:
    """users (B,) -> logits (B, I), with what each client really ranks with."""
    if algorithm.composition is not None:
        # tuned rows lie in the host's memory, so what they are laid over has to come there
        where_it_lies = state if state.tuned is None else state.on("cpu")
        return Scorer(algorithm.composition, where_it_lies, train=train)
    if algorithm.custom is not None:
        return CustomScorer(algorithm.custom, train, state)
    assert algorithm.central is not None
    return central_scorer(algorithm.central, train, state, seed)


def newcomer_of(
    algorithm: Algorithm,
    train: TrainView,
    state: State,
    history: History,
    *,
    name: int,
    seed: int,
    rounds: int,
) -> np.ndarray:
    """(I,) logits for a history of somebody who was not there in training."""
    person = {"name": name, "seed": seed, "rounds": rounds}
    if algorithm.composition is not None:
        return newcomer_scores(algorithm.composition, state.shared, history, **person)
    if algorithm.custom is not None:
        return custom_newcomer_scores(algorithm.custom, state.shared, history, **person)
    assert algorithm.central is not None
    fitted = fitted_of(algorithm.central, train, state, seed)
    return algorithm.central.newcomer(fitted, history, **person)
