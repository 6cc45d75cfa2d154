"""`tacit evaluate`: other metrics of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, show


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    metrics: Annotated[
        str | None, typer.Option(help="Which, as in HR@10,MAP@20; see `tacit list`.")
    ] = None,
    ties: Annotated[
        str | None, typer.Option(help="expected or pessimistic; default: the run's own rule.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compute metrics again from the saved ranks; nothing is trained."""
    from tacit.experiment.evaluate import METRICS_SHOWN
    from tacit.experiment.evaluate import evaluate as evaluate_run

    names = METRICS_SHOWN
    if metrics is not None:
        names = tuple(name.strip() for name in metrics.split(",") if name.strip())
    answer = evaluate_run(run, names, ties)  # type: ignore[arg-type]
    if as_json:
        say_json(answer)
        return
    _show(answer, names)


def _show(answer: dict[str, Any], names: tuple[str, ...]) -> None:
    from tacit.cli.output import plain_table
    from tacit.experiment.amounts import metric_text
    from tacit.experiment.interpretation import guarantee_words
    from tacit.study.compare import mark

    breakdown = answer["breakdown"] or {}
    columns = ["", "full", "vs 99", *(f"{part}, full" for part in breakdown)]
    rows = [
        [
            name,
            metric_text(answer["metrics"]["full"][name]),
            metric_text(answer["metrics"]["sampled99"][name]),
            # a kind of items that nobody has held out has no metrics
            *(
                metric_text(part["full"][name] if part["full"] else None)
                for part in breakdown.values()
            ),
        ]
        for name in names
    ]
    title = " + ".join([answer["method"], *answer["plugins"]]) + f" on {answer['dataset']}"
    show(plain_table(title, columns, rows, numbers=len(columns) - 1))
    if warning := mark(answer["protocol"], answer["clean"]):
        say(warning)
    say(f"protocol  {answer['protocol']}, split {answer['split']}, ties {answer['ties']}")
    for part, share in breakdown.items():
        say(f"{part:9} {share['held_out']} held-out items of {share['users']} users")
    say(f"privacy   {guarantee_words(answer['privacy'])}")
    for note in answer["notes"]:
        say(f"note      {note}")
