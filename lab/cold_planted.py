"""Do generators read content, and nothing else? Asked of planted datasets, which know.

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
from tacit.cli.output import say
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
from tacit.experiment.trainer import Trainer
from tacit.files import write_text
from tacit.methods.cold_start import cold_pfedrec
from tacit.parts.cold.diffusion import Diffusion
from tacit.parts.diffusion.process import Schedule
from tacit.plugins import cold
from tacit.study.search import Looks
from tacit.study.writer import as_markdown as table_in_markdown

SEEDS = (0, 1, 2)
DRAWS = 50
ROUNDS, EVERY, WIDTH, METRIC = 100, 10, 32, "Recall@20"
SIZE = {"n_users": 400, "n_items": 800}
BOTH = "text+image"


def alone(base: Method) -> Method:
    """A diffusion without a map before it and without attention, on a schedule that ends in noise,
    three passes a round: found by hand, in some forty looks at these datasets' validation parts.

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


def trained(make: Callable[[Method], Method], seed: int) -> tuple[Trainer, Split]:
    """A run on the dataset of a seed, which keeps its best round by validation."""
    protocol = replace(among_cold_items(CLEAN), select_metric=METRIC)
    split = split_dataset(planted_dataset(seed, **SIZE), protocol)
    experiment = Experiment(
        "planted",
        make(cold_pfedrec(WIDTH)),
        ROUNDS,
        protocol=protocol,
        seed=seed,
        evaluate_every=EVERY,
    )
    trainer = Trainer(experiment, split.train, 1)
    Looks(experiment, split.valid, keep=True).train(trainer)
    return trainer, split


def blind_draws(trainer: Trainer, split: Split, draws: int) -> list[float]:
    """Recall over draws: fresh noise, and rows dealt to the test items in another order."""
    assert trainer.cold is not None
    assert trainer.best is not None
    test_C = split.test.among_C
    assert test_C is not None
    found = []
    for draw in range(draws):
        scorer = trainer.cold.scorer(trainer.best, draw)
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
    """All rows on all datasets."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {"chance": [], "content": {}, "blind": {}}
    for name, make in ROWS.items():
        values = []
        for seed in SEEDS:
            trainer, split = trained(make, seed)
            values.append(metric(rank(trainer.best_scores(), split.test).full, METRIC))
            if len(results["chance"]) < len(SEEDS):
                results["chance"].append(metric(chance(split.test).full, METRIC))
        results["content"][name] = values
        report(f"{name}: {np.mean(values):.4f}")
    for name, make in BLIND.items():
        trainer, split = trained(make, SEEDS[0])
        draws = blind_draws(trainer, split, DRAWS)
        at = metric(chance(split.test).full, METRIC)
        error = float(np.std(draws, ddof=1) / np.sqrt(len(draws)))
        results["blind"][name] = {"mean": float(np.mean(draws)), "error": error, "chance": at}
        report(f"{name}: {np.mean(draws):.4f} ± {error:.4f}, chance {at:.4f}")
    return results


def as_markdown(results: dict[str, Any]) -> str:
    at = float(np.mean(results["chance"]))
    content = [
        [
            name,
            f"{np.mean(values):.4f}",
            f"{np.std(values, ddof=1):.4f}",
            f"{np.mean(values) / at:.2f}",
        ]
        for name, values in results["content"].items()
    ]
    blind = []
    for name, found in results["blind"].items():
        away = (found["mean"] - found["chance"]) / found["error"] if found["error"] else 0.0
        values = [f"{found[key]:.4f}" for key in ("mean", "error", "chance")]
        blind.append([name, *values, f"{away:+.2f}"])
    return "\n".join(
        [
            "# Planted datasets: do generators read content, and nothing else?",
            "",
            f"Written by `make cold-planted`: PFedRec's clients, {WIDTH} wide, datasets of "
            f"{SIZE['n_users']} users and about {SIZE['n_items']} items, {ROUNDS} rounds, cold "
            f"split 6:1:3, text and image. {METRIC} on cold test items among themselves; chance is "
            f"{at:.4f}.",
            "",
            table_in_markdown(
                [
                    "with content",
                    f"{METRIC} (mean of {len(SEEDS)} datasets)",
                    "deviation",
                    "times chance",
                ],
                content,
            ),
            "",
            f"Without content, {DRAWS} draws of noise and of which item gets which row, "
            "one dataset:",
            "",
            table_in_markdown(
                ["without content", METRIC, "standard error", "chance", "errors from chance"],
                blind,
            ),
            "",
        ]
    )


if __name__ == "__main__":
    found = collect(say)
    folder = Path("docs/results")
    write_text(folder / "cold-planted.json", json.dumps(found, indent=1) + "\n")
    write_text(folder / "cold-planted.md", as_markdown(found))
