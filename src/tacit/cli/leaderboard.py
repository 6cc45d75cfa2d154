"""`tacit leaderboard`: one page from run folders, which are verified before they become rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import plain_table, say, say_lines, show, warn
from tacit.cli.settings import ready_to_compute

if TYPE_CHECKING:
    from tacit.study.leaderboard import Section


def leaderboard(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN_OR_FOLDER...", help="Run folders, or folders that hold some."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write the page to.")],
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Verify finished runs and rank them: per dataset, protocol clean, full ranking."""
    from tacit.study.leaderboard import leaderboard as leaderboard_of
    from tacit.study.leaderboard_page import json_text, write_page
    from tacit.study.verified import run_folders

    ready_to_compute()
    board, experiments = leaderboard_of(list(run_folders(runs)))
    written = write_page(board, experiments, out)
    for one in board.refused:
        warn(f"{one.name}: {one.why}")
    if as_json:
        say_lines(json_text(board).rstrip())
        return
    for section in board.sections:
        show_section(section)
    say(f"written   {', '.join(str(path) for path in written[:4])}")


def show_section(section: Section) -> None:
    """One dataset as a table, and what its order is worth."""
    from tacit.experiment.amounts import DASH, bytes_text, metric_text, seconds_text
    from tacit.study.leaderboard_page import measure_text, seeds_text

    first, *others = section.metrics
    rows = [
        [
            place,
            row.system,
            measure_text(row.metrics[first]),
            *(metric_text(row.metrics[name].mean) for name in others),
            seeds_text(row),
            bytes_text(row.bytes_up),
            seconds_text(row.seconds),
        ]
        for place, row in zip(section.places, section.rows, strict=True)
    ]
    for name, values in section.reference.items():
        shown = [metric_text(values[metric]) for metric in section.metrics]
        rows.append(["", f"{name} (reference)", *shown, *[DASH] * 3])
    columns = ["", "system", f"{first} (95 %)", *others, "seeds", "bytes up", "time"]
    title = f"{section.dataset}, split {section.split}, full ranking"
    show(plain_table(title, columns, rows, numbers=len(columns) - 2))
    for words in dict.fromkeys(row.privacy for row in section.rows):
        named = ", ".join(row.system for row in section.rows if row.privacy == words)
        say(f"privacy   {words}: {named}")
    for sentence in (*section.sentences, *section.cautions):
        say(f"result    {sentence}")
