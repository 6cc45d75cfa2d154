"""What the results file keeps of a cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tacit.benchmarks.tables.cells import Cell, absent, experiment_of, folder_of, places_of
from tacit.benchmarks.tables.definition import Metric, Setting, Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.search import chosen_setting
from tacit.errors import TacitError
from tacit.experiment.data_record import DataNow
from tacit.experiment.folder import RunFolder

Kind = Literal["warm", "unseen"]  # of a test item: in somebody's train, or in nobody's

REFERENCES = ("popularity", "chance")
KINDS: tuple[Kind, ...] = ("warm", "unseen")


def metric_key(metric: Metric) -> str:
    """A metric in the results file.

    >>> metric_key(("full", "HR@10"))
    'full HR@10'
    """
    return " ".join(metric)


def undone_record(cell: Cell, status: str) -> dict[str, Any]:
    """A cell without numbers, and why it has none."""
    place = cell.place
    return {
        "row": place.row.name,
        "dataset": place.data.name,
        "column": place.column,
        "seed": cell.seed,
        "status": status,
    }


def done_record(
    table: Table, cell: Cell, folder: RunFolder, out: Path, setting: Setting
) -> dict[str, Any]:
    """A finished cell: its numbers, those of the references, and where they come from."""
    result = folder.result()
    apart = {"breakdown": _breakdown(table, result)} if table.warmth else {}
    if table.cold:
        apart["cold"] = result["cold"]
    names = {metric_key((kind, name)): (kind, name) for kind, name in table.metrics}
    return {
        **undone_record(cell, "done"),
        "protocol": result["protocol"],
        "split": result["split"],
        "sets": list(setting),
        "rounds_run": result["rounds_run"],
        "selected_round": result["selected_round"],
        "validation": result["test_released"]["validation_value"],
        "metrics": {key: result["metrics"][kind][name] for key, (kind, name) in names.items()},
        "reference": {
            reference: {
                key: result["reference"][kind][reference][name]
                for key, (kind, name) in names.items()
            }
            for reference in REFERENCES
        },
        **apart,
        "users": result["counts"]["evaluated_users"],
        "masked_test_items": result["counts"].get("masked_test_items", 0),
        "engine": result["engine"],
        "seconds": result["seconds"],
        "versions": result["versions"],
        "folder": name_of(folder, out),
    }


def _breakdown(table: Table, result: dict[str, Any]) -> dict[str, Any]:
    """What each kind of test item adds to the full-ranking metrics of a table."""
    full = [metric for metric in table.metrics if metric[0] == "full"]
    kept: dict[str, Any] = {}
    for kind in KINDS:
        share = result["breakdown"][kind]
        adds = {metric_key(m): share["adds"][m[1]] for m in full if m[1] in share["adds"]}
        kept[kind] = {"held_out": share["held_out"], "adds": adds}
    return kept


def scan(
    table: Table, out: Path, ledger: Ledger, seeds: int, published: Ledger | None = None
) -> None:
    """Bring the cells up to date: those with a finished run count, and those that are written down
    as the very run which the present definition and the present choice ask for, wherever it ran.

    Seeds beyond those asked for are kept where they are finished. A finished run whose data has
    changed since is refused in a sentence.
    """
    data = DataNow()
    before = [*(published.cells.values() if published else ()), *ledger.cells.values()]
    most = max([seeds, *(int(record["seed"]) + 1 for record in before)])
    written = {record["folder"]: record for record in before if record["status"] == "done"}
    ledger.cells = {}
    for place in places_of(table):
        if absent(place.row) is not None:
            continue
        try:
            setting = chosen_setting(table, place, ledger.choices)
            if setting is None:
                continue
            seeds_here = range(most if place.row.seeded else 1)
            experiments = [experiment_of(table, place, setting, seed) for seed in seeds_here]
        except TacitError:  # its settings do not exist: the plan says so
            continue
        for experiment in experiments:
            cell = Cell(place, experiment.seed)
            folder = folder_of(out, place, experiment)
            if folder.finished:
                data.require(experiment, folder)
                ledger.cells[cell.key] = done_record(table, cell, folder, out, setting)
            elif (name := name_of(folder, out)) in written:
                ledger.cells[cell.key] = written[name]


def name_of(folder: RunFolder, out: Path) -> str:
    """A run in the results file: its place in the table's folder, which ends with the digest of
    its experiment.

    >>> name_of(RunFolder(Path("few/runs/planted/fedmf/clean-seed0-0123456789")), Path("few"))
    'runs/planted/fedmf/clean-seed0-0123456789'
    """
    return folder.path.relative_to(out).as_posix()
