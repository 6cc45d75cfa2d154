"""`tacit data`: what there is, how to get it, what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, show

app = typer.Typer(help="Datasets: list them, get files, describe one.")


@app.command("list")
def list_sources(imports: options.Import = None) -> None:
    """Named sources: whether they are found here, their counts, their licence."""
    from tacit.cli.output import plain_table
    from tacit.data.load import PLANTED, cache_dir, load
    from tacit.data.sources import SOURCES

    rows = [[PLANTED, "always", "part of tacit", *_counts(load(PLANTED).interactions.counts)]]
    rows += [
        [name, _where(name), source.licence, *_counts(source.statistics)]
        for name, source in SOURCES.items()
    ]
    columns = ["name", "found", "licence", "users", "items", "interactions"]
    show(plain_table(None, columns, rows, numbers=3))
    say("Counts are after the source's rules, repeats kept. `tacit data get NAME` says how to get")
    say(f"one; files are looked for under $TACIT_DATA, then under {cache_dir()}.")


def found(name: str) -> Path | None:
    """The folder with the files of a named source, if they are here."""
    from tacit.data.load import find_source
    from tacit.data.sources import SOURCES
    from tacit.errors import TacitError

    try:
        return find_source(SOURCES[name])
    except TacitError:
        return None


def _where(name: str) -> str:
    from tacit.data.sources import SOURCES

    if SOURCES[name].load is not None:
        return "always"
    return "yes" if found(name) else "no"


def _counts(counts: Mapping[str, int]) -> list[str]:
    wanted = ("users", "items", "interactions")
    return [f"{counts[name]:,}" if name in counts else "" for name in wanted]


@app.command("get")
def get_files(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_MANIFEST")],
    to: Annotated[Path | None, typer.Option(help="Where to put the files.")] = None,
    imports: options.Import = None,
) -> None:
    """Fetch the files that a manifest lists, checked; for a named source, say where they are."""
    from tacit.data.download import get, read_manifest
    from tacit.data.load import cache_dir
    from tacit.data.sources import SOURCES

    if name in SOURCES and (here := found(name)):
        say(f"{name} is here: {here}")
        return
    manifest = Path(name)
    if to is None and manifest.suffix == ".toml":
        to = cache_dir() / read_manifest(manifest).name  # which stays inside: it is checked
    for path in get(name, to or cache_dir()):
        say(str(path))


@app.command("describe")
def describe_data(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_PATH")],
    columns: options.ColumnsOption = None,
    min_user: options.MinUserOption = None,
    min_rating: options.MinRatingOption = None,
    core: options.Core = None,
    duplicates: options.DuplicatesOption = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Counts, rules with what they cost, sparsity, activity, ties, repeats and modalities."""
    from tacit.data.describe import describe
    from tacit.data.load import load
    from tacit.errors import TacitError

    if duplicates not in (None, "earliest", "keep"):
        raise TacitError(f"duplicates is {duplicates!r}; it must be 'earliest' or 'keep'.")
    dataset = load(
        name,
        columns=options.columns_of(columns),
        min_user=min_user,
        min_rating=min_rating,
        core=core,
        duplicates=duplicates or "earliest",  # type: ignore[arg-type]
    )
    about = describe(dataset)
    if as_json:
        say_json(about)
        return
    _show(about)


def _show(about: dict[str, Any]) -> None:
    from tacit.cli.output import plain_table

    counts = ("users", "items", "interactions")
    steps = [
        [step["rule"], *(f"{step['before'][c]:,} → {step['after'][c]:,}" for c in counts)]
        for step in about["steps"]
    ]
    show(plain_table(about["name"], ["rule", *counts], steps, numbers=3))
    activity, ties = about["rows_per_user"], about["tied_latest_share"]
    has = [what for what in ("time", "ratings", "labels") if about[f"has_{what}"]]
    facts = {
        "users": f"{about['users']:,}",
        "items": f"{about['items']:,}",
        "interactions": f"{about['interactions']:,} rows, "
        f"{about['interactions'] - about['duplicates']:,} distinct pairs",
        "sparsity": f"{about['sparsity']:.2%} of all pairs are empty",
        "per user": f"{activity['min']} to {activity['max']}, median {activity['median']:g}",
        "repeats": f"{about['duplicates']:,}",
        "latest tied": "no times" if ties is None else f"{ties:.1%} of users",
        "columns": ", ".join(["user", "item", *has]),
    }
    for name, table in about["modalities"].items():
        facts[f"features {name}"] = f"width {table['width']}, {table['present']:.1%} of items"
    for name, share in about["texts"].items():
        facts[f"text {name}"] = f"{share:.1%} of items"
    width = max(map(len, facts))
    for name, text in facts.items():
        say(f"{name:{width}}  {text}")
    for note in about["notes"]:
        say(f"{'note':{width}}  {note}")
