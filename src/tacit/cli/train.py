"""`tacit train`: run one experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, say_lines, show
from tacit.cli.settings import cores, ready_to_compute


def train(
    method: Annotated[
        str | None, typer.Argument(help="A method of `tacit list`; --config may name it instead.")
    ] = None,
    data: options.Data = None,
    protocol: options.Protocol = None,
    preset: options.Preset = None,
    split: options.Split = None,
    columns: options.Columns = None,
    min_user: options.MinUser = None,
    min_rating: options.MinRating = None,
    core: options.Core = None,
    duplicates: options.Duplicates = None,
    rounds: options.Rounds = None,
    seed: options.Seed = None,
    participation: options.Share = None,
    plugins: options.With = None,
    sets: options.Set = None,
    engine: options.Engine = None,
    threads: options.Threads = None,
    device: options.Device = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file; flags that are given win over it.")
    ] = None,
    out: options.Out = None,
    checkpoint_seconds: options.Checkpoint = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the whole experiment as TOML and do nothing.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train a method on your data, and measure it beside popularity and chance."""
    from tacit.cli.settings import experiment_of, folder_to_resume, new_folder

    flags = options.given(
        method=method,
        data=data,
        protocol=protocol,
        preset=preset,
        split=split,
        columns=options.columns_of(columns),
        min_user=min_user,
        min_rating=min_rating,
        core=core,
        duplicates=duplicates,
        rounds=rounds,
        seed=seed,
        participation=participation,
        plugins=plugins,
        sets=sets,
        engine=engine,
        device=device,
    )
    experiment = experiment_of(config, flags)
    if dry_run:
        from tacit.experiment.toml import dumps

        say_lines(dumps(experiment).rstrip())
        return
    if out is None:
        out = folder_to_resume(experiment) if resume else new_folder(experiment)
    from tacit.cli.progress import Bar
    from tacit.experiment.run import run

    ready_to_compute()
    result = run(
        experiment,
        out,
        threads=threads or cores(),
        resume=resume,
        watch=Bar(),
        checkpoint_seconds=checkpoint_seconds,
    )
    if as_json:
        say_json(result)
        return
    from tacit.cli.output import lines_of_result, result_table
    from tacit.experiment.folder import RunFolder

    show(result_table(result))
    for line in lines_of_result(result):
        say(line)
    say(f"run       {out}")
    say(f"report    {RunFolder(out).report_file}")
