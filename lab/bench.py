"""`python -m lab.bench`: speed as ratios of one run, growth with data, memory, a whole run."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from lab.measuring import Report, Told, in_own_process, memory_of_this_process
from lab.naive import NaiveFederation, NaiveFusion
from lab.scale_tables import crowd_plan
from lab.synthetic import ml_100k_train, movie_sized_train, synthetic_train
from tacit.cli import settings as options
from tacit.cli.main import main
from tacit.cli.settings import ready_to_compute
from tacit.core.compose import compose
from tacit.core.types import Task
from tacit.data.views import TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation, everybody
from tacit.engines.round import Engine
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.methods import fcf, fedmf, pfedrec
from tacit.plugins.fusion import fedmr
from tacit.privacy.fixed_point import into_ring
from tacit.privacy.secure_sum.client import SumClient
from tacit.privacy.secure_sum.messages import (
    MaskedUpload,
    Message,
    UnmaskRequest,
    signed,
    to_bytes,
)
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.secure_sum.primitives import NodeKey, add_mask
from tacit.privacy.secure_sum.server import SumServer
from tacit.privacy.secure_sum.simulation import seeded_entropy, simulate_round


def bench(report: Report, *, quick: bool = False) -> dict[str, Any]:
    """Run all benchmarks, say what comes out, and return the numbers."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {"speed": speed(report, repeats=1 if quick else 5)}
    sizes = (10**4, 10**5) if quick else (10**4, 10**5, 10**6, 10**7)
    results["growth"] = growth(report, sizes)
    results["memory"] = memory(report, 10**5 if quick else 10**6)
    results["fusion"] = fusion(report, quick=quick)
    results["secure_sums"] = secure_sums(report, length=10**4 if quick else 10**6)
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
        "from lab.bench import _player, synthetic_train\n"
        "from lab.measuring import memory_of_this_process\n"
        "from tacit.engines.cohort import CohortEngine\n"
        "from tacit.methods import pfedrec\n"
        f"train = synthetic_train({n_interactions}, 165)\n"
        "play = _player(CohortEngine(fused='always'), train, pfedrec())\n"
        "[play() for _ in range(3)]\n"
        "print(memory_of_this_process().peak / 1e9)\n"
    )
    peak = float(in_own_process(code, seconds=600))
    report(f"Peak memory, PFedRec, {n_interactions:,d} interactions: {peak:.2f} GB")
    return {"interactions": n_interactions, "peak_gigabytes": peak}


def whole_run(report: Report, rounds: int) -> dict[str, Any]:
    """PFedRec on ML-100K with validation every round, two threads, wall seconds."""
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


# A secure sum: what one client of a crowd does and sends, and a whole round of fifty.


def secure_sums(
    report: Report, *, length: int, crowds: tuple[int, ...] = (50, 500)
) -> dict[str, Any]:
    """CPU seconds and bytes, where 30 % may drop out and 5 % may collude."""
    report(
        f"Secure sums of {length:,d} numbers with Skellam noise, 30 % drop-outs and 5 % colluders "
        "allowed for, one thread, CPU seconds of a client:"
    )
    found: dict[str, Any] = {"length": length}
    for clients in crowds:
        one = found[str(clients)] = one_client(crowd_plan(clients, length, staying=0.7, noise=4.0))
        report(
            f"  {clients:4d} clients, {one['neighbours']:2d} neighbours: {one['seconds']:.3f} s, "
            f"{one['ratio']:.1f} x the same upload without noise and masks; masks "
            f"{one['mask_gigabytes_per_second']:.1f} GB/s; sends {one['sent_bytes']:,d} bytes, "
            f"receives {one['received_bytes']:,d}"
        )
    plan = crowd_plan(crowds[0], length, staying=0.7)
    leaving = plan.clients - plan.fewest
    vector_N = np.full(length, 1e-4)
    played = simulate_round(plan, lambda _: vector_N, leave_before_masking=range(leaving))
    found["server_seconds"] = played.server_seconds
    report(
        f"  the server of {plan.clients} clients, of whom {leaving} drop out: "
        f"{played.server_seconds:.2f} s"
    )
    return found


def one_client(plan: SumPlan, repeats: int = 3) -> dict[str, Any]:
    """What one client does and sends. It meets its neighbours only, so they are the whole crowd.

    >>> found = one_client(crowd_plan(10, 100, staying=0.7, noise=1.0), repeats=1)
    >>> found["neighbours"], found["sent_bytes"] > 400
    (7, True)
    """
    crowd = replace(plan, clients=plan.degree + 1, fewest=plan.needed + 1, colluders=0)
    keys = [NodeKey(node, bytes([node + 1] * 32)) for node in range(crowd.clients)]
    directory = {key.node: key.public for key in keys}
    clients = [SumClient(crowd, key, directory, seeded_entropy(key.node)) for key in keys]
    server = SumServer(crowd, directory)
    vector_N = np.random.default_rng(0).normal(size=plan.code.length)
    seconds = dict.fromkeys(range(repeats), 0.0)
    sent: list[Message] = []
    received: list[Message] = [crowd]

    def measured(node: int, act: Callable[[], Message]) -> Any:
        begin = time.process_time()
        message = act()
        to_bytes(message)
        if node in seconds:
            seconds[node] += time.process_time() - begin
        if node == 0:
            sent.append(message)
        return message

    for node, client in enumerate(clients):
        server.receive(measured(node, client.advertise))
    near = server.neighbourhoods()
    for node, client in enumerate(clients):
        server.receive(measured(node, lambda: client.share(near[node])))  # noqa: B023
    boxes = server.deliveries()
    for node in range(repeats):
        others = tuple(one for one in range(crowd.clients) if one != node)
        request = UnmaskRequest(crowd.context, node, others, (), crowd.clients)
        measured(node, lambda: clients[node].mask(boxes[node], vector_N))  # noqa: B023
        measured(node, lambda: clients[node].unmask(request))  # noqa: B023
        received += [near[0], boxes[0], request] if node == 0 else []
    begin = time.process_time()
    plain = into_ring(plan.code.encode(vector_N), 32).tobytes()
    to_bytes(signed(MaskedUpload(crowd.context, 0, plain), keys[0]))
    plain_seconds = time.process_time() - begin
    total_N = np.zeros(plan.code.length, dtype="<u4")
    begin = time.process_time()
    for _ in range(plan.degree + 1):
        add_mask(total_N, bytes(32), 1)
    mask_seconds = time.process_time() - begin
    median = statistics.median(seconds.values())
    return {
        "neighbours": plan.degree,
        "shares_needed": plan.needed,
        "seconds": median,
        "ratio": median / plain_seconds,
        "mask_gigabytes_per_second": (plan.degree + 1) * total_N.nbytes / mask_seconds / 1e9,
        "sent_bytes": sum(len(to_bytes(one)) for one in sent),
        "received_bytes": sum(len(to_bytes(one)) for one in received),
    }


# A round with fused items, at the size of NineRec's Movie.

MOVIE = (15_908, 2_528, 111_091)


def fusion(report: Report, *, quick: bool = False) -> dict[str, Any]:
    """A full round of FCF + FedMR against a naive module, in a process of its own: peaks of memory
    are a process's."""
    sizes = (600, 400, 4_000) if quick else MOVIE
    code = (
        "import json\n"
        "from lab.bench import measure\n"
        f"print(json.dumps(measure({sizes!r}, repeats={1 if quick else 3})))\n"
    )
    found: dict[str, Any] = in_own_process(code, seconds=1800)
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
    peak = memory_of_this_process().peak / 1e9
    routers = [v for name, v in selected.private.items() if name.startswith("router.")]
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


app = typer.Typer(name="lab.bench", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def command(
    quick: Annotated[bool, typer.Option("--quick", help="A short version.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder to write bench.txt and bench.json to.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure speed, growth, memory and a whole run; only ratios of one run are claims."""
    ready_to_compute()
    report = Told(as_json)
    report.write(out, "bench", bench(report, quick=quick))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
