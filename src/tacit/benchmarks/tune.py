"""The `tuned` presets: the same number of settings for every method, judged on validation alone.

`make tune` tries them on ML-100K under the clean protocol with one seed and writes
`docs/results/tuning.md` and `.json`. The test part is never ranked here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import course_of
from tacit.files import write_text

# Six settings each: the rate of the scorer, and η, which with I and that rate makes the items' one.
GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "fedmf": ((0.1, 0.3), (20.0, 80.0, 320.0)),
    "pfedrec": ((0.1, 0.3), (20.0, 80.0, 320.0)),
    "fedncf": ((0.5, 1.0), (1.0, 4.0, 16.0)),
}
EVERY = 5  # rounds between two looks at validation


def best_on_validation(method: str, rate: float, per_item: float) -> tuple[float, int]:
    """The best full-ranking validation NDCG@10 over the rounds, and where it was."""
    sets = [
        f"local.model.rate={rate}",
        f"local.items.rate={rate}",
        f"local.items.per_item={per_item}",
    ]
    experiment = resolve(method, data="ml-100k", sets=sets)
    prepared = prepare(experiment)
    course = course_of(experiment, prepared.split.train, threads=2)
    best = (float("-inf"), 0)
    for number in range(1, course.rounds + 1):
        course.advance()
        if number % EVERY == 0:
            try:
                ranks = rank(course.scores(), prepared.split.valid).full
            except TacitError:  # it diverged: what it reached before stands
                break
            best = max(best, (metric(ranks, "NDCG@10"), number))
    return best


def tune(out: Path, report: Callable[[str], None]) -> None:
    """Try every setting; write all of them and which one won."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for method, (rates, scales) in GRIDS.items():
        for rate, per_item in itertools.product(rates, scales):
            value, number = best_on_validation(method, rate, per_item)
            rows.append(
                {
                    "method": method,
                    "rate": rate,
                    "per_item": per_item,
                    "validation_ndcg@10": value,
                    "round": number,
                }
            )
            report(f"{method:8s} rate {rate:g} per_item {per_item:g}: {value:.4f} ({number})")
    lines = [
        "# Rates tried for the `tuned` presets",
        "",
        "Written by `make tune`: ML-100K, `clean`, seed 0, 100 rounds, full-ranking validation "
        f"NDCG@10 every {EVERY} rounds. The test part was not ranked.",
        "",
        "| method | rate | per_item | best validation NDCG@10 | at round | |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        value = row["validation_ndcg@10"]
        won = value == max(r["validation_ndcg@10"] for r in rows if r["method"] == row["method"])
        mark = "tuned" if won else ""
        lines.append(
            f"| {row['method']} | {row['rate']:g} | {row['per_item']:g} | {value:.4f} | "
            f"{row['round']} | {mark} |"
        )
    write_text(out / "tuning.md", "\n".join(lines) + "\n")
    write_text(out / "tuning.json", json.dumps(rows, indent=1))


if __name__ == "__main__":
    from rich.console import Console

    tune(Path("docs/results"), Console(highlight=False).print)
