"""`tacit evaluate`: other metrics of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_lines, show

if TYPE_CHECKING:
    from tacit.experiment.evaluate import EvaluatedRun


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    metrics: Annotated[
        str | None, typer.Option(help="Which, as in HR@10,MAP@20; see `tacit list`.")
    ] = None,
    ties: Annotated[
        str | None, typer.Option(help="expected or pessimistic; default: the run's own rule.")
    ] = None,
    imports: options.Import = None,
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
        say_lines(answer.json_text)
        return
    _show(answer, names)


def _show(answer: EvaluatedRun, names: tuple[str, ...]) -> None:
    from tacit.cli.output import plain_table
    from tacit.experiment.amounts import metric_text
    from tacit.study.compare import protocol_warning

    found = answer.breakdown
    parts = {} if found is None else {"warm": found.warm, "unseen": found.unseen}
    columns = ["", "full", "vs 99", *(f"{part}, full" for part in parts)]
    rows = [
        [
            name,
            metric_text(answer.metrics.full[name]),
            metric_text(answer.metrics.sampled99[name]),
            # a kind of items that nobody has held out has no metrics
            *(metric_text(part.full[name] if part.full else None) for part in parts.values()),
        ]
        for name in names
    ]
    title = f"{answer.label} on {answer.dataset}"
    show(plain_table(title, columns, rows, numbers=len(columns) - 1))
    if warning := protocol_warning(answer.protocol, answer.clean):
        say(warning)
    say(f"protocol  {answer.protocol}, split {answer.split}, ties {answer.ties}")
    for name, part in parts.items():
        say(f"{name:9} {part.held_out} held-out items of {part.users} users")
    say(f"privacy   {answer.privacy.text}")
    for note in answer.notes:
        say(f"note      {note}")
