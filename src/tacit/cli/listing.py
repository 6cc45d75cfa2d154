"""`tacit list`: everything that has a name.

What is listed stands in the modules of the package, and reading it there means importing all of
them, torch included. So the list is kept in the cache, under a digest of every source file: it is
read back while nothing has changed, and made anew as soon as anything has. With extensions of
other packages, or `--import`, it is always made anew.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import settings as options
from tacit.cli.output import plain_table, say_json, show
from tacit.errors import TacitError
from tacit.files import cache_dir, write_text

ListedRows = list[dict[str, Any]]

BROKEN = "not_loaded"  # extensions of other packages that failed


class Listed(StrEnum):
    """What can be listed."""

    METHODS = "methods"
    PLUGINS = "plugins"
    PROTOCOLS = "protocols"
    DATA = "data"
    ANALYSES = "analyses"
    METRICS = "metrics"


# The title of each table, and how its columns are called on the terminal.
TITLES = {
    Listed.METHODS: "Methods (tacit train METHOD)",
    Listed.PLUGINS: "Plug-ins (--with NAME:key=value)",
    Listed.PROTOCOLS: "Protocols (--protocol NAME, or paper)",
    Listed.DATA: "Datasets (--data NAME or PATH)",
    Listed.ANALYSES: "Analyses (tacit analyse NAME RUN...)",
    Listed.METRICS: "Metrics (NAME@K)",
}
COLUMNS = {
    Listed.METHODS: ["method", "what it is", "presets", "its paper's protocol", "rounds"],
    Listed.PLUGINS: ["name", "keys", "what it does"],
    Listed.PROTOCOLS: [
        "name",
        "split",
        "duplicates",
        "negatives exclude",
        "selected by validation",
    ],
    Listed.DATA: ["name", "what it is"],
    Listed.ANALYSES: ["name", "options", "what it shows"],
}


def list_names(
    kind: Annotated[
        Listed | None,
        typer.Argument(help="Only these; without it, everything.", show_default=False),
    ] = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Methods, plug-ins, protocols, datasets, analyses and metrics."""
    found = collect() if imports else everything()
    wanted = [kind] if kind is not None else list(Listed)
    if as_json:
        shown = {one.value: found[one] for one in wanted}
        say_json(shown | ({BROKEN: found[BROKEN]} if found[BROKEN] else {}))
        return
    for one in wanted:
        show_table(one, found[one])
    if found[BROKEN]:
        broken = [[one["name"], one["problem"]] for one in found[BROKEN]]
        show(plain_table("Extensions that could not be loaded", ["extension", "why"], broken))


def show_table(kind: Listed, rows: ListedRows) -> None:
    """One table; metrics have no more than their names, which take one line."""
    if kind is Listed.METRICS:
        names = ", ".join(row["name"] for row in rows)
        show(plain_table(None, ["metrics (NAME@K)"], [[names]]))
        return
    texts = [[_text(value) for value in row.values()] for row in rows]
    show(
        plain_table(TITLES[kind], COLUMNS[kind], texts, numbers=1 if kind is Listed.METHODS else 0)
    )


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# The list is made by importing what it names, or read back where nothing has changed since.


def everything() -> dict[str, ListedRows]:
    """All that has a name, by kind."""
    if _extended():
        return collect()
    file = cache_dir() / f"list-{sources_digest()}.json"
    with suppress(OSError, ValueError):
        found: dict[str, ListedRows] = json.loads(file.read_text(encoding="utf-8"))
        return found
    found = collect()
    with suppress(OSError, TacitError):  # a cache that cannot be written is none
        for old in file.parent.glob("list-*.json"):
            old.unlink(missing_ok=True)
        write_text(file, json.dumps(found))
    return found


def _extended() -> bool:
    """Whether other packages have names to add."""
    from importlib import metadata

    from tacit.names import GROUPS

    return any(metadata.entry_points(group=group) for group in GROUPS)


def sources_digest() -> str:
    """A digest of every source file of the package, and of the Python that reads them.

    >>> sources_digest() == sources_digest(), len(sources_digest())
    (True, 24)
    """
    digest = hashlib.blake2b(sys.version.encode(), digest_size=12)
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(hashlib.blake2b(path.read_bytes()).digest())
    return digest.hexdigest()


def collect() -> dict[str, ListedRows]:
    """All that has a name, from the modules that define it."""
    from tacit.analysis.analyses import ANALYSES
    from tacit.data.load import PLANTED
    from tacit.data.protocol import PROTOCOLS
    from tacit.data.sources import SOURCES
    from tacit.evaluation.metrics import METRICS
    from tacit.methods.entry import METHODS
    from tacit.names import installed
    from tacit.plugins.entry import PLUGINS

    methods = [
        {
            "name": name,
            "summary": entry.summary,
            "presets": list(entry.presets),
            "protocol": entry.protocol,
            "rounds": entry.rounds,
        }
        for name, entry in METHODS.items()
    ]
    plugins = [
        {
            "name": name,
            "keys": list(inspect.signature(plugin.apply).parameters)[1:],
            "summary": plugin.summary,
        }
        for name, plugin in PLUGINS.items()
    ]
    protocols = [
        {
            "name": protocol.name,
            "split": protocol.split.text,
            "duplicates": protocol.duplicates,
            "negatives_exclude": protocol.negatives_exclude,
            "selected_by": f"{protocol.select_metric}, {protocol.select_on}",
        }
        for protocol in PROTOCOLS.values()
    ]
    data = [{"name": PLANTED, "summary": "a synthetic dataset that needs no files"}]
    data += [{"name": name, "summary": source.title} for name, source in SOURCES.items()]
    analyses = [
        {
            "name": name,
            "options": [f"--{option}" for option in one.options],
            "summary": one.summary,
        }
        for name, one in ANALYSES.items()
    ]
    return {
        Listed.METHODS: methods,
        Listed.PLUGINS: plugins,
        Listed.PROTOCOLS: protocols,
        Listed.DATA: data,
        Listed.ANALYSES: analyses,
        Listed.METRICS: [{"name": name} for name in METRICS],
        BROKEN: [{"name": one.label, "problem": one.problem} for one in installed() if one.problem],
    }
