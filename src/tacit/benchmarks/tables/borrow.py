"""An experiment that stands in two tables is run once: what a table beside this one has chosen and
finished is taken over, under the mark that changes with the experiment."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

from tacit.benchmarks.tables.cells import experiment_of, folder_of, places_of
from tacit.benchmarks.tables.definition import Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.search import chosen_setting, later_note, mark_of
from tacit.errors import TacitError
from tacit.experiment.folder import RunFolder
from tacit.files import NotWrittenError, whole_folder


def borrow(table: Table, out: Path, ledger: Ledger, seeds: int, lenders: list[Path]) -> int:
    """Take over choices and finished runs from the folders of other tables; how many runs."""
    lent: dict[str, dict[str, Any]] = {}
    for path in (path for lender in lenders for path in sorted(lender.glob("table-*.json"))):
        try:
            choices = Ledger.read(path.stem.removeprefix("table-"), path).choices
        except TacitError:  # its own command says so
            continue
        for one in choices.values():
            if one.get("chosen") is not None:
                lent[one["digest"]] = later_note(lent.get(one["digest"]), one)
    taken = 0
    for place in places_of(table):
        try:
            mark, note = mark_of(table, place), ledger.choices.get(place.key)
            if mark in lent:  # a choice that was taken back there is taken back here, too
                own = note if note is not None and note["digest"] == mark else None
                known = lent[mark] if own is None else later_note(lent[mark], own)
                ledger.choices[place.key] = copy.deepcopy(known)
            setting = chosen_setting(table, place, ledger.choices)
            if setting is None:
                continue
            for seed in range(seeds if place.row.seeded else 1):
                experiment = experiment_of(table, place, setting, seed)
                taken += _take(folder_of(out, place, experiment), lenders)
        except NotWrittenError:
            raise
        except TacitError:  # its settings do not exist: the plan says so
            continue
    return taken


def _whole(folder: RunFolder) -> bool:
    """Whether a run is finished and undamaged; one that is not is no run to take over."""
    try:
        return bool(folder.result() and folder.verified(folder.ranks_file).is_file())
    except TacitError:
        return False


def _take(folder: RunFolder, lenders: list[Path]) -> bool:
    """Copy a finished run, whole or not at all; one that was begun here goes on here."""
    if folder.path.exists():
        return False
    data, name = folder.path.parent.parent.name, folder.path.name
    for lender in lenders:
        for found in sorted((lender / "runs" / data).glob(f"*/{name}")):
            if not _whole(RunFolder(found)):
                continue
            with whole_folder(folder.path) as half:
                shutil.copytree(found, half, dirs_exist_ok=True)
            return True
    return False
