"""Speed and memory of a round with fused items, at the size of NineRec's Movie."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tacit.benchmarks.naive_fusion import NaiveFusion
from tacit.benchmarks.worlds import movie_sized_train
from tacit.core.compose import compose
from tacit.core.types import Task
from tacit.engines.cohort import CohortEngine
from tacit.engines.participation import everybody
from tacit.methods import fcf
from tacit.plugins.fusion import fedmr

MOVIE = (15_908, 2_528, 111_091)


def fusion(report: Callable[[str], None], *, quick: bool = False) -> dict[str, Any]:
    """A full round of FCF + FedMR against a naive module, in a process of its own: peaks of memory
    are a process's."""
    sizes = (600, 400, 4_000) if quick else MOVIE
    code = (
        "import json\n"
        "from tacit.benchmarks.fusion_speed import measure\n"
        f"print(json.dumps(measure({sizes!r}, repeats={1 if quick else 3})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=1800
    )
    found: dict[str, Any] = json.loads(done.stdout)
    users, items, interactions = sizes
    report(
        f"One round of FCF + FedMR, {users:,d} clients, {items:,d} items, {interactions:,d} "
        "interactions, one thread, CPU seconds:"
    )
    report(f"  naive loop     {found['naive_seconds']:8.1f} s   {found['sampled']} clients, scaled")
    report(f"  fused kernel   {found['seconds']:8.2f} s   {found['ratio']:7.1f} x the naive loop")
    report(
        f"  peak memory {found['peak_gigabytes']:.2f} GB, the selected round's copy included; "
        f"private routers take {found['router_gigabytes']:.2f} GB of each copy"
    )
    return found


def measure(sizes: tuple[int, int, int], *, repeats: int, sampled: int = 30) -> dict[str, Any]:
    """CPU seconds of full rounds (the median), of the naive loop over some clients, and memory.

    >>> found = measure((40, 30, 200), repeats=1, sampled=2)
    >>> found["seconds"] > 0, found["sampled"]
    (True, 2)
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train = movie_sized_train(*sizes)
    algorithm, engine = compose(fedmr(fcf()), Task.of(train)), CohortEngine(fused="always")
    state, who = engine.start(algorithm, train, 0), everybody(train)
    engine.round(algorithm, train, state, who, 0)  # compilation and first touch
    selected = state.copy()  # a run holds the last round and the selected one
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        engine.round(algorithm, train, state, who, 0)
        seconds.append(time.process_time() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    routers = [v for leaf, v in selected.private.items() if leaf.startswith("router.")]
    naive = NaiveFusion(train)
    chosen = np.random.default_rng(1).choice(train.n_users, sampled, replace=False)
    naive.round(chosen[:1])
    begin = time.process_time()
    naive.round(chosen)
    scaled = (time.process_time() - begin) * train.n_users / sampled
    torch.set_num_threads(threads)
    median = statistics.median(seconds)
    return {
        "users_items_interactions": list(sizes),
        "seconds": median,
        "all_seconds": seconds,
        "naive_seconds": scaled,
        "sampled": sampled,
        "ratio": scaled / median,
        "peak_gigabytes": peak,
        "router_gigabytes": sum(v.numel() * v.element_size() for v in routers) / 1e9,
    }
