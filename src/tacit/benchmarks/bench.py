"""`tacit bench`: speed as ratios measured in one run, growth with data, memory, a whole run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.benchmarks.fusion_speed import fusion
from tacit.benchmarks.naive import NaiveFederation
from tacit.benchmarks.worlds import ml_100k_train, synthetic_train
from tacit.core.compose import compose
from tacit.core.types import Task
from tacit.data.views import TrainView
from tacit.engines.base import Engine
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.methods import fedmf, pfedrec

Report = Callable[[str], None]


def bench(report: Report, *, quick: bool = False) -> dict[str, Any]:
    """Run all benchmarks, say what comes out, and return the numbers."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {"speed": speed(report, repeats=1 if quick else 5)}
    sizes = (10**4, 10**5) if quick else (10**4, 10**5, 10**6, 10**7)
    results["growth"] = growth(report, sizes)
    results["memory"] = memory(report, 10**5 if quick else 10**6)
    results["fusion"] = fusion(report, quick=quick)
    results["run"] = whole_run(report, 5 if quick else 100)
    return results


def _player(engine: Engine, train: TrainView, method: Any) -> Callable[[], None]:
    algorithm = compose(method, Task.of(train))
    state = engine.start(algorithm, train, 0)
    who = Participation()

    def play() -> None:
        engine.round(algorithm, train, state, who.draw(train, 0, state.round_number + 1), 0)

    return play


def speed(report: Report, repeats: int) -> dict[str, Any]:
    """One round of PFedRec, negatives included, one thread: medians of interleaved repeats."""
    name, train = ml_100k_train()
    rounds: dict[str, Callable[[], None]] = {
        "naive loop": NaiveFederation(train).round,
        "LoopEngine": _player(LoopEngine(), train, pfedrec()),
        "CohortEngine": _player(CohortEngine(fused="never"), train, pfedrec()),
        "fused kernel": _player(CohortEngine(fused="always"), train, pfedrec()),
    }
    for key in ("LoopEngine", "CohortEngine", "fused kernel"):
        rounds[key]()  # compilation and first touch are not part of a round
    seconds: dict[str, list[float]] = {key: [] for key in rounds}
    for _ in range(repeats):
        for key, play in rounds.items():
            begin = time.process_time()
            play()
            seconds[key].append(time.process_time() - begin)
    median = {key: statistics.median(values) for key, values in seconds.items()}
    report(f"One round of PFedRec on {name}, one thread, CPU seconds, median of {repeats}:")
    for key, value in median.items():
        report(f"  {key:14s} {value:8.3f} s   {median['naive loop'] / value:7.1f} x the naive loop")
    return {"data": name, "repeats": repeats, "median_seconds": median, "all_seconds": seconds}


def growth(report: Report, sizes: tuple[int, ...]) -> dict[str, Any]:
    """CPU seconds of a fused FedMF round as interactions grow; linear means an exponent of 1."""
    report("Cost of a round of FedMF (fused, one thread) as interactions grow:")
    seconds = []
    for size in sizes:
        play = _player(CohortEngine(fused="always"), synthetic_train(size), fedmf())
        play()
        times = []
        for _ in range(3):
            begin = time.process_time()
            play()
            times.append(time.process_time() - begin)
        seconds.append(min(times))
        per_interaction = 1e9 * seconds[-1] / size
        report(f"  {size:>10,d} {seconds[-1]:9.4f} s {per_interaction:8.0f} ns per interaction")
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    report(f"  time grows as interactions to the power {exponent:.2f}")
    return {"interactions": list(sizes), "seconds": seconds, "exponent": exponent}


def memory(report: Report, n_interactions: int) -> dict[str, Any]:
    """Peak memory of a process that plays three PFedRec rounds at ML-1M's size."""
    code = (
        "import resource\n"
        "from tacit.benchmarks.bench import _player, synthetic_train\n"
        "from tacit.engines.cohort import CohortEngine\n"
        "from tacit.methods import pfedrec\n"
        f"train = synthetic_train({n_interactions}, 165)\n"
        "play = _player(CohortEngine(fused='always'), train, pfedrec())\n"
        "[play() for _ in range(3)]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    peak = float(done.stdout)
    report(f"Peak memory, PFedRec, {n_interactions:,d} interactions: {peak:.2f} GB")
    return {"interactions": n_interactions, "peak_gigabytes": peak}


def whole_run(report: Report, rounds: int) -> dict[str, Any]:
    """PFedRec on ML-100K with validation every round, two threads, wall seconds."""
    from tacit.experiment.resolve import resolve
    from tacit.experiment.run import run

    try:
        with tempfile.TemporaryDirectory() as place:
            begin = time.perf_counter()
            experiment = resolve("pfedrec", data="ml-100k", rounds=rounds)
            run(experiment, Path(place) / "run", threads=2)
            seconds = time.perf_counter() - begin
    except TacitError as error:
        report(f"Whole run not measured: {error}")
        return {}
    report(f"{rounds} rounds of PFedRec on ML-100K, validation every round: {seconds:.1f} s (wall)")
    return {"rounds": rounds, "seconds": seconds}
