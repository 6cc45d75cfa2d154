"""The `tuned` presets: the same number of settings for every method, judged on validation alone.

`make tune` tries them on ML-100K under the clean protocol with one seed and writes
`docs/results/tuning.md` and `.json`. The test part is never ranked here.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import ready_to_compute
from tacit.experiment.callbacks import Callbacks
from tacit.experiment.resolve import resolve
from tacit.files import write_text
from tacit.study.search import search
from tacit.study.writer import as_markdown as table_in_markdown

# Six settings each: the rate of the scorer, and η, which with I and that rate makes the items' one.
GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "fedmf": ((0.1, 0.3), (20.0, 80.0, 320.0)),
    "pfedrec": ((0.1, 0.3), (20.0, 80.0, 320.0)),
    "fedncf": ((0.5, 1.0), (1.0, 4.0, 16.0)),
}
EVERY = 5  # rounds between two looks at validation


class TunedRow(BaseModel):
    """A setting: its best full-ranking validation value, and the round in which it was."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    rate: float
    per_item: float
    validation: float | None = Field(alias="validation_ndcg@10")
    round: int


ROWS = TypeAdapter(list[TunedRow])


def tuned(
    method: str, *, data: str = "ml-100k", rounds: int | None = None, callbacks: Callbacks = ()
) -> list[TunedRow]:
    """Every setting of a method on validation."""
    points = list(itertools.product(*GRIDS[method]))
    settings: dict[tuple[float, ...], tuple[str, ...]] = {
        point: (
            f"local.model.rate={point[0]}",
            f"local.items.rate={point[0]}",
            f"local.items.per_item={point[1]}",
        )
        for point in points
    }
    experiments = {
        sets: resolve(method, data=data, rounds=rounds, sets=[*sets, f"evaluate_every={EVERY}"])
        for sets in settings.values()
    }
    choice = search(experiments, threads=2, callbacks=callbacks)
    return [
        TunedRow.model_validate(
            {
                "method": method,
                "rate": rate,
                "per_item": per_item,
                "validation_ndcg@10": tried.validation,
                "round": tried.round,
            }
        )
        for (rate, per_item), tried in zip(points, choice.tried, strict=True)
    ]


def as_markdown(rows: list[TunedRow]) -> str:
    """All settings, and which one won."""
    best = {
        row.method: max(one.validation or 0.0 for one in rows if one.method == row.method)
        for row in rows
    }
    lines = [
        [
            row.method,
            f"{row.rate:g}",
            f"{row.per_item:g}",
            "diverged" if row.validation is None else f"{row.validation:.4f}",
            row.round,
            "tuned" if row.validation == best[row.method] else "",
        ]
        for row in rows
    ]
    heading = ["method", "rate", "per_item", "best validation NDCG@10", "at round", ""]
    return (
        "# Rates tried for the `tuned` presets\n\nWritten by `make tune`: ML-100K, `clean`, seed "
        f"0, 100 rounds, full-ranking validation NDCG@10 every {EVERY} rounds. The test part was "
        f"not ranked.\n\n{table_in_markdown(heading, lines)}\n"
    )


def write(rows: list[TunedRow], out: Path) -> None:
    """The table and the numbers behind it."""
    write_text(out / "tuning.md", as_markdown(rows))
    numbers = ROWS.dump_python(rows, mode="json", by_alias=True)
    write_text(out / "tuning.json", json.dumps(numbers, indent=1))


if __name__ == "__main__":
    ready_to_compute()
    found = [row for method in GRIDS for row in tuned(method, callbacks=Bar())]
    write(found, Path("docs/results"))
    say(as_markdown(found))
