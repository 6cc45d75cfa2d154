"""`python -m lab.scale`: a million simulated clients on one machine, and what a server would need.

Three things are measured: whole rounds of a large synthetic population, in a process of their own
each, so that peaks of memory are theirs; what one upload costs a server; and what it costs under a
secure sum. From these unit costs the tables of `docs/scale.md` follow by multiplication, and the
command writes them there.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from lab.measuring import Report, Told, in_own_process, memory_of_this_process
from lab.scale_tables import (
    PAGE,
    Population,
    Simulated,
    UnitCosts,
    arithmetic,
    crowd_plan,
    with_tables,
)
from lab.synthetic import synthetic_train
from tacit.cli import settings as options
from tacit.cli.main import main
from tacit.cli.settings import ready_to_compute
from tacit.coordinator.admission import Admission, Expected
from tacit.coordinator.asking import Asking
from tacit.coordinator.robust import NodeUpload, RobustRule
from tacit.coordinator.roster import Roster
from tacit.coordinator.rules import Rules
from tacit.core.algorithm import Bound
from tacit.engines.participation import Participation
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.files import write_text
from tacit.methods import fedmf, pfedrec
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.secure_sum.primitives import add_mask
from tacit.privacy.secure_sum.simulation import simulate_round
from tacit.wire.messages import Answer, Letter, Moment, Play, Played, Request, RunPlan, to_letter

# What one round of a population costs when it is simulated.


METHODS = {"fedmf": fedmf, "pfedrec": pfedrec}


def play(
    method: str, population: Population, *, on_disk: bool = False, threads: int = 2
) -> Simulated:
    """Play the rounds in this process, as a run plays them: with the copy of the selected round."""
    begin = time.process_time()
    train = synthetic_train(
        population.users * population.history, population.history, population.items
    )
    experiment = Experiment(
        method,
        METHODS[method](),
        population.rounds,
        participation=Participation(population.participation),
        engine="fused",
    )
    with tempfile.TemporaryDirectory() as place:
        trainer = Trainer(experiment, train, threads, Path(place) if on_disk else None)
        start_seconds, seconds = time.process_time() - begin, []
        for _ in range(population.rounds):
            begin = time.process_time()
            trainer.run_round()
            seconds.append(time.process_time() - begin)
        trainer.keep_best()
        sample = np.linspace(0, population.users - 1, min(64, population.users)).astype(np.int64)
        scores = trainer.best_scores()
        begin = time.process_time()
        scores(sample)
        score_seconds = (time.process_time() - begin) / len(sample)
        tuned = trainer.state.tuned
        rows = 0 if tuned is None else len(tuned.item_C)
        width = 0 if tuned is None else tuned.value_CD.shape[1] * tuned.value_CD.element_size() + 4
        came = np.zeros(population.users, bool)
        drawn = [trainer.participants(n).user_P for n in range(1, population.rounds + 1)]
        for user_P in drawn:
            came[user_P] = True
        return Simulated(
            method,
            on_disk,
            population,
            trainer.describe().text,
            len(drawn[0]),
            int(came.sum()),
            rows,
            rows * width,
            start_seconds,
            seconds,
            score_seconds,
            *memory_of_this_process(),
        )


def simulate(method: str, population: Population, *, on_disk: bool = False) -> Simulated:
    """The same in a process of its own."""
    code = (
        "import json, torch\n"
        "from dataclasses import asdict\n"
        "from lab.scale import play\n"
        "from lab.scale_tables import Population\n"
        "torch.set_num_threads(1)\n"
        f"found = play({method!r}, {population!r}, on_disk={on_disk})\n"
        "print(json.dumps(asdict(found)))\n"
    )
    found = in_own_process(code)
    return Simulated(**{**found, "population": Population(**found["population"])})


def simulations(report: Report, population: Population) -> list[Simulated]:
    """A tenth of the people first: what grows with them is the difference."""
    tenth = replace(population, users=population.users // 10)
    wanted = [("fedmf", tenth, False), ("fedmf", population, False)]
    wanted += [("pfedrec", population, False), ("pfedrec", population, True)]
    report(
        f"Simulated: {population.users:,d} people, {population.items:,d} items, "
        f"{population.history} interactions each, {population.participation:.0%} in a round, "
        f"{population.rounds} rounds, two threads; the copy of the selected round is included:"
    )
    found = []
    for method, people, on_disk in wanted:
        one = simulate(method, people, on_disk=on_disk)
        found.append(one)
        kept = f", {one.row_bytes / 1e9:.2f} GB of rows of {one.took_part:,d}" if one.rows else ""
        place = "on disk  " if on_disk else "in memory"
        report(
            f"  {method:8s}{people.users:>9,d} people, rows {place}{one.later:7.2f} "
            f"CPU s a round ({one.participants:,d} clients), start "
            f"{one.start_seconds:.0f} CPU s, peak {one.peak / 1e9:.2f} GB, own at the end "
            f"{one.own / 1e9:.2f} GB{kept}, {1e3 * one.score_seconds:.1f} CPU ms to score a person"
        )
    return found


# What one upload costs a server.


class _Replies:
    """A transport whose nodes have answered already, each with an upload of its own."""

    def __init__(self, letters: list[Letter]) -> None:
        self.letters = letters

    def ask(
        self, requests: Mapping[str, Request], deadline: float
    ) -> Iterable[tuple[str, Answer | Letter]]:
        return zip(requests, self.letters, strict=True)


def asked(uploads: int, length: int) -> tuple[float, float]:
    """CPU seconds to let in so many uploads of so many numbers, and to add them up.

    >>> both = asked(3, 10)
    >>> both[0] > 0, both[1] > 0
    (True, True)
    """
    moment, shapes = Moment("scale", "one", 1), {"items": (length,)}
    letters = [
        to_letter(Played(moment, 1, 1.0, {"items": np.full(length, 1e-4, np.float32)}))
        for _ in range(uploads)
    ]
    roster = Roster.of([f"node{number}" for number in range(uploads)])
    rules = Rules("scale", "one", deadline=3600.0)
    asking = Asking(_Replies(letters), Admission(roster), rules, time.monotonic)
    request: Request = Play(moment, RunPlan("", "", uploads, 1), {})
    expected = Expected(Played, moment, shapes=shapes, bound=Bound(2, 1e9))
    begin = time.process_time()
    answers: dict[str, Answer] = asking.ask({one.name: request for one in roster.members}, expected)
    let_in = time.process_time() - begin
    assert len(answers) == uploads
    begin = time.process_time()
    sent = [NodeUpload(one.arrays, one.weight, 1) for one in answers.values()]  # type: ignore[union-attr]
    RobustRule().total(sent, shapes)
    return let_in, time.process_time() - begin


def unit_costs(report: Report, *, quick: bool = False) -> UnitCosts:
    """Differences between long and short uploads are costs of their numbers."""
    many, few, length = (200, 5, 10**5) if quick else (10_000, 40, 3_200_000)
    asked(10, 10)
    message = sum(asked(many, 1)) / many
    check, add = (seconds / few / length for seconds in asked(few, length))
    crowd = 10 if quick else 30

    def plan(numbers: int) -> SumPlan:
        return crowd_plan(crowd, numbers)

    def server(numbers: int, leaving: int = 0) -> float:
        vector_N = np.full(numbers, 1e-4)
        leave = range(leaving)
        played = simulate_round(plan(numbers), lambda _: vector_N, leave_before_masking=leave)
        return played.server_seconds / crowd

    short, numbers = 10, length // 10
    server(short)
    sum_message = server(short)
    total_N = np.zeros(numbers, dtype="<u4")
    begin = time.process_time()
    for _ in range(10):
        add_mask(total_N, bytes(32), 1)
    mask = (time.process_time() - begin) / 10 / numbers
    receive = max(0.0, (server(numbers) - sum_message) / numbers - mask)
    found = UnitCosts(message, check, add, sum_message, plan(short).degree, receive, mask)
    report("Unit costs of a server, CPU:")
    report(f"  an upload, whatever its length     {1e6 * message:9.1f} us")
    report(f"  decode and check, a million numbers{1e9 * check:9.2f} ms")
    report(f"  add, a million numbers             {1e9 * add:9.2f} ms")
    report(
        f"  steps of a secure sum, one client  {1e6 * sum_message:9.1f} us   with "
        f"{found.sum_degree} neighbours"
    )
    report(f"  receive a masked million           {1e9 * receive:9.2f} ms")
    report(f"  one mask of a million numbers      {1e9 * mask:9.2f} ms")
    followed = found.summing(plan(numbers), numbers)
    measured = crowd * server(numbers, leaving=crowd // 10)
    report(
        f"  a secure sum of {crowd}, a tenth of whom drop out, {numbers:,d} numbers: "
        f"{measured:.2f} s, and {followed:.2f} s by these costs"
    )
    return found


app = typer.Typer(name="lab.scale", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def command(
    quick: Annotated[bool, typer.Option("--quick", help="A short version.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder to write scale.txt and scale.json to.")
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the tables of docs/scale.md, too.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Measure a million simulated clients and a server's unit costs, and multiply."""
    ready_to_compute()
    torch.set_num_threads(1)
    report = Told(as_json)
    people = Population(users=20_000, items=10_007, rounds=2) if quick else Population()
    results: dict[str, Any] = {"simulated": [asdict(one) for one in simulations(report, people)]}
    results["costs"] = asdict(unit_costs(report, quick=quick))
    results["arithmetic"] = {
        name: [asdict(one) for one in rows]
        for name, rows in arithmetic(UnitCosts(**results["costs"])).items()
    }
    report.write(out, "scale", results)
    if publish:
        write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
