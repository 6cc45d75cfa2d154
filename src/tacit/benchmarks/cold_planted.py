"""Do generators read content, and nothing else? Asked of planted worlds, which know.

`make cold-planted` runs it (some minutes on 2 cores) and writes `docs/results/cold-planted.md` and
`.json`. Rows with content must beat chance; rows without must be at chance: there the noise, and
which row goes to which item, is drawn many times.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit import streams
from tacit.core.method import Method
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.data.views import Split
from tacit.engines.cold import ColdScorer
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import FederatedCourse
from tacit.files import write_text
from tacit.methods.cold_start import cold_pfedrec
from tacit.parts.cold.diffusion import Diffusion
from tacit.parts.diffusion.process import Schedule
from tacit.plugins import cold

SEEDS = (0, 1, 2)
DRAWS = 50
ROUNDS, EVERY, WIDTH, METRIC = 100, 10, 32, "Recall@20"
WORLD = {"n_users": 400, "n_items": 800}
BOTH = "text+image"


def alone(base: Method) -> Method:
    """A diffusion without a map before it and without attention, on a schedule that ends in noise,
    three passes a round: found by hand, in some forty looks at these worlds' validation parts.

    >>> alone(cold_pfedrec(WIDTH)).cold.epochs
    3
    """
    method = cold.mdifffr(base, BOTH, fusion="concatenated", draws=8)
    assert isinstance(method.cold, Diffusion)
    steps = replace(method.cold, schedule=Schedule(kind="cosine"), standardise=True, epochs=3)
    return replace(method, cold=steps)


ROWS: dict[str, Callable[[Method], Method]] = {
    "mdifffr, ours": lambda base: cold.mdifffr(base, BOTH, "tuned"),
    "mdifffr, no attention, more steps": alone,
    "mdifffr": lambda base: cold.mdifffr(base, BOTH),
    "mdifffr, released": lambda base: cold.mdifffr(base, BOTH, "released"),
    "ipfedrec": lambda base: cold.ifedrec(base, BOTH, strength=0.5),
    "ridge": lambda base: cold.ridge(base, BOTH),
    "nearest": lambda base: cold.nearest(base, BOTH),
    "random rows": cold.random_rows,
}
BLIND: dict[str, Callable[[Method], Method]] = {
    "mdifffr, ours, zero": lambda base: cold.mdifffr(base, BOTH, "tuned", guidance="zero"),
    "mdifffr, ours, random": lambda base: cold.mdifffr(base, BOTH, "tuned", guidance="random"),
    "mdifffr, zero": lambda base: cold.mdifffr(base, BOTH, guidance="zero"),
    "mdifffr, random": lambda base: cold.mdifffr(base, BOTH, guidance="random"),
    "mdifffr, no guidance": lambda base: cold.mdifffr(base, BOTH, guidance="none"),
    "ipfedrec, zero": lambda base: cold.ifedrec(base, BOTH, strength=0.5, kind="zero"),
    "ipfedrec, random": lambda base: cold.ifedrec(base, BOTH, strength=0.5, kind="random"),
    "ridge, zero": lambda base: cold.ridge(base, BOTH, kind="zero"),
    "ridge, random": lambda base: cold.ridge(base, BOTH, kind="random"),
}


def trained(make: Callable[[Method], Method], seed: int) -> tuple[FederatedCourse, Split]:
    """A run on the world of a seed; its best round by validation is marked."""
    protocol = among_cold_items(CLEAN)
    split = split_dataset(planted_dataset(seed, **WORLD), protocol)
    method = make(cold_pfedrec(WIDTH))
    experiment = Experiment("planted", method, ROUNDS, protocol=protocol, seed=seed)
    course = FederatedCourse(experiment, split.train, 1)
    best = -1.0
    for number in range(1, ROUNDS + 1):
        course.advance()
        if number % EVERY == 0:
            value = metric(rank(course.scores(), split.valid).full, METRIC)
            if value > best:
                best = value
                course.mark_best()
    return course, split


def blind_draws(course: FederatedCourse, split: Split, draws: int) -> list[float]:
    """Recall over draws: fresh noise, and rows dealt to the test items in another order."""
    assert course.cold is not None
    assert course.best is not None
    test_C = split.test.among_C
    assert test_C is not None
    found = []
    for draw in range(draws):
        scorer = course.cold.scorer(course.best, draw)
        generator = streams.numpy_generator(draw, streams.RESAMPLE, 0, streams.name_of("dealt"))
        found.append(metric(rank(_dealt(scorer, test_C, generator), split.test).full, METRIC))
    return found


def _dealt(
    scorer: ColdScorer, test_C: np.ndarray, generator: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    order_C = generator.permutation(test_C)

    def scores(user_B: np.ndarray) -> np.ndarray:
        score_BI = scorer(user_B)
        score_BI[:, test_C] = score_BI[:, order_C]
        return score_BI

    return scores


def collect(report: Callable[[str], None]) -> dict[str, Any]:
    """All rows on all worlds."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {"chance": [], "content": {}, "blind": {}}
    for name, make in ROWS.items():
        values = []
        for seed in SEEDS:
            course, split = trained(make, seed)
            values.append(metric(rank(course.best_scores(), split.test).full, METRIC))
            if len(results["chance"]) < len(SEEDS):
                results["chance"].append(metric(chance(split.test).full, METRIC))
        results["content"][name] = values
        report(f"{name}: {np.mean(values):.4f}")
    for name, make in BLIND.items():
        course, split = trained(make, SEEDS[0])
        draws = blind_draws(course, split, DRAWS)
        at = metric(chance(split.test).full, METRIC)
        error = float(np.std(draws, ddof=1) / np.sqrt(len(draws)))
        results["blind"][name] = {"mean": float(np.mean(draws)), "error": error, "chance": at}
        report(f"{name}: {np.mean(draws):.4f} ± {error:.4f}, chance {at:.4f}")
    return results


def as_markdown(results: dict[str, Any]) -> str:
    at = float(np.mean(results["chance"]))
    lines = [
        "# Planted worlds: do generators read content, and nothing else?",
        "",
        f"Written by `make cold-planted`: PFedRec's clients, {WIDTH} wide, worlds of "
        f"{WORLD['n_users']} users and about {WORLD['n_items']} items, {ROUNDS} rounds, cold split "
        f"6:1:3, text and image. {METRIC} on cold test items among themselves; chance is {at:.4f}.",
        "",
        f"| with content | {METRIC} (mean of {len(SEEDS)} worlds) | deviation | times chance |",
        "| --- | --- | --- | --- |",
    ]
    for name, values in results["content"].items():
        mean = float(np.mean(values))
        lines.append(f"| {name} | {mean:.4f} | {np.std(values, ddof=1):.4f} | {mean / at:.2f} |")
    lines += [
        "",
        f"Without content, {DRAWS} draws of noise and of which item gets which row, one world:",
        "",
        f"| without content | {METRIC} | standard error | chance | errors from chance |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, found in results["blind"].items():
        away = (found["mean"] - found["chance"]) / found["error"] if found["error"] else 0.0
        lines.append(
            f"| {name} | {found['mean']:.4f} | {found['error']:.4f} | {found['chance']:.4f} | "
            f"{away:+.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    from rich.console import Console

    console = Console()
    results = collect(lambda text: console.print(text, highlight=False))
    folder = Path("docs/results")
    write_text(folder / "cold-planted.json", json.dumps(results, indent=1) + "\n")
    write_text(folder / "cold-planted.md", as_markdown(results))


if __name__ == "__main__":
    main()
