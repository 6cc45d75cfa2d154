"""Figures of docs/order.md that stand in no table: common neighbours, and what a narrow sum costs.

`make order-figures` runs it (some minutes on 2 cores; finished runs are kept, so it resumes) and
writes `docs/results/order-figures.md` and `.json`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tacit.audit.order import CommonNeighbours
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import ready_to_compute
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.files import write_text
from tacit.study.study import Study
from tacit.study.writer import as_markdown as table_in_markdown

NEIGHBOURS_OF = ("ml-100k", "ml-1m", "amazon-video", "lastfm-2k")
WIDTHS = (512, 256, 128)
SKETCHES = ("range", "gaussian", "count")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Neighbours(_Part):
    """How often two people have the same item directly after the same other item."""

    dataset: str
    found: int
    shuffled: float
    ratio: float
    tied: float | None
    ratio_untied: float | None

    @classmethod
    def of(cls, dataset: str) -> Neighbours:
        counted = CommonNeighbours.of(prepare(resolve("random", data=dataset)).split.train)
        return cls(
            dataset=dataset,
            found=counted.found,
            shuffled=counted.shuffled,
            ratio=counted.ratio,
            tied=counted.tied,
            ratio_untied=counted.ratio_untied,
        )


class Sent(_Part):
    """One run of `fednext`: what it was told, how well it ranks, and what a client sends for it."""

    dataset: str
    sets: str
    hits: float
    gain: float
    bytes_a_client: int  # both directions, up to the selected round
    versions: dict[str, str]


class Figures(_Part):
    neighbours: tuple[Neighbours, ...]
    widths: tuple[Sent, ...]
    sketches: tuple[Sent, ...]


def widths(wide: str = "ml-1m") -> dict[tuple[str, ...], Experiment]:
    """The square sum and narrow ones, by dataset and settings."""
    settings: dict[str, list[str]] = {"square": []}
    settings |= {f"width={width}": [f"width={width}"] for width in WIDTHS}
    return {
        (wide, name): resolve("fednext", data=wide, sets=sets) for name, sets in settings.items()
    }


def sketches(small: str = "ml-100k") -> dict[tuple[str, ...], Experiment]:
    """Three ways to make a sum narrow, all with the normalisation that each of them allows."""
    return {
        (small, f"sketch={sketch}"): resolve(
            "fednext",
            data=small,
            sets=["width=256", f"sketch={sketch}", "normalise=[[0.3, 0.0]]"],
        )
        for sketch in SKETCHES
    }


def measured(experiments: dict[tuple[str, ...], Experiment], out: Path) -> tuple[Sent, ...]:
    """Every experiment run, or taken from its folder."""
    study = Study.of(out, experiments, axes=["dataset", "sets"])
    study.run(callbacks=Bar(), report=say, keep_model=False)
    return tuple(
        Sent(
            dataset=trial.labels["dataset"],
            sets=trial.labels["sets"],
            hits=record.metrics.full["HR@10"],
            gain=record.metrics.full["NDCG@10"],
            bytes_a_client=record.cost.bytes_total_to_selected_round // record.counts.users,
            versions=dict(record.versions),
        )
        for trial, record in study.records
    )


def as_markdown(figures: Figures) -> str:
    """The page from its numbers alone."""
    common = [
        [
            one.dataset,
            f"{one.found:,}",
            f"{one.shuffled:,.0f}",
            f"{one.ratio:.1f}",
            "no times" if one.tied is None else f"{100 * one.tied:.1f}",
            "" if one.ratio_untied is None else f"{one.ratio_untied:.1f}",
        ]
        for one in figures.neighbours
    ]
    heading = ["dataset", "common neighbours", "in shuffled histories", "ratio"]
    heading += ["tied with a neighbour, percent", "ratio, ties at random"]
    parts = [
        "# Figures beside the table of order",
        "",
        "Written by `make order-figures`, protocol `clean`, seed 0; in `fednext` nothing is drawn "
        "but one projection that is public and the same for every seed.",
        "",
        "## Common neighbours",
        "",
        "How many times two people have the same item directly after the same other item, as "
        "`tacit audit` counts it; shuffled is the mean of three orders drawn for each history.",
        "",
        table_in_markdown(heading, common),
        "",
        "## Narrow sums",
        "",
        "`fednext`, full ranking, numbers in percent. Bytes are those of one client, both "
        "directions together, up to the selected round; half-life and normalisation are chosen on "
        "validation among those of the default preset.",
        "",
        _sent(figures.widths),
        "",
        "## Ways to make a sum narrow",
        "",
        "`--set width=256 --set sketch=S --set normalise=[[0.3,0.0]]`. `range` takes two steps, "
        "the others one random projection.",
        "",
        _sent(figures.sketches),
    ]
    return "\n".join(parts) + "\n"


def _sent(rows: tuple[Sent, ...]) -> str:
    lines = [
        [
            one.dataset,
            one.sets,
            f"{100 * one.hits:.2f}",
            f"{100 * one.gain:.2f}",
            f"{one.bytes_a_client / 1e6:.1f}",
        ]
        for one in rows
    ]
    return table_in_markdown(["dataset", "sum", "HR@10", "NDCG@10", "MB a client"], lines)


def write(figures: Figures, out: Path) -> None:
    """The page and the numbers behind it."""
    write_text(out / "order-figures.md", as_markdown(figures))
    write_text(out / "order-figures.json", figures.model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    ready_to_compute()
    runs = Path("runs/order-figures")
    found = Figures(
        neighbours=tuple(map(Neighbours.of, NEIGHBOURS_OF)),
        widths=measured(widths(), runs),
        sketches=measured(sketches(), runs),
    )
    write(found, Path("docs/results"))
    for line in as_markdown(found).splitlines():
        say(line)
