"""`tacit train`: run one experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_lines, show
from tacit.cli.settings import cores, ready_to_compute


@options.with_flags
def train(
    method: Annotated[
        str | None, typer.Argument(help="A method of `tacit list`; --config may name it instead.")
    ] = None,
    *,
    flags: options.ExperimentFlags,
    seed: options.Seed = None,
    threads: options.Threads = None,
    private_on_disk: options.PrivateOnDisk = False,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file; flags that are given win over it.")
    ] = None,
    out: options.Out = None,
    checkpoint_seconds: options.Checkpoint = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the whole experiment as TOML and do nothing.")
    ] = False,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Train a method on your data, and measure it beside popularity and chance."""
    from tacit.cli.settings import experiment_of, folder_to_resume, new_folder

    given = flags.given(method=method, seed=seed)
    if resume and out is not None and method is None and config is None:
        saved = out / "experiment.toml"  # the folder says what it holds, with its imports
        config = saved if saved.is_file() else None
    experiment = experiment_of(config, given)
    if dry_run:
        from tacit.experiment.toml import document

        say_lines(document(experiment).rstrip())
        return
    if out is None:
        out = folder_to_resume(experiment) if resume else new_folder(experiment)
    from tacit.cli.progress import Bar
    from tacit.experiment.run import run

    ready_to_compute()
    record = run(
        experiment,
        out,
        threads=threads or cores(),
        resume=resume,
        callbacks=Bar(),
        checkpoint_seconds=checkpoint_seconds,
        private_on_disk=private_on_disk,
    )
    if as_json:
        say_lines(record.json_text)
        return
    from tacit.cli.output import lines_of_result, result_table
    from tacit.experiment.folder import RunFolder

    show(result_table(record))
    for line in lines_of_result(record):
        say(line)
    say(f"run       {out}")
    say(f"report    {RunFolder(out).report_file}")
