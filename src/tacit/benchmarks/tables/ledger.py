"""The results file of a table: choices made on validation, timings, and every cell."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from tacit.benchmarks.tables.timing import Timing
from tacit.errors import TacitError
from tacit.files import write_text


class _Record(BaseModel):
    """What every reader of a cell relies on; there is more."""

    model_config = ConfigDict(extra="ignore", strict=True)

    row: str
    dataset: str
    column: str
    seed: int
    status: str


_RECORDS = TypeAdapter(dict[str, dict[str, Any]])


@dataclass
class Ledger:
    """What a table's command knows, and goes on with when it is given again.

    `choices` are by place, `timings` by row and dataset, `cells` by cell, `tests` (of tables that
    compare all rows with one) by row, dataset and metric.

    >>> Ledger("few", Path("few.json")).choices
    {}
    """

    table: str
    path: Path
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)  # said once for all cells

    @classmethod
    def read(cls, table: str, path: Path) -> Ledger:
        """The ledger at `path`, or a new one where nothing is."""
        if not path.is_file():
            return cls(table, path)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            timings = {key: Timing(**value) for key, value in stored["timings"].items()}
            name = stored["table"]
            choices, cells, tests = (
                _RECORDS.validate_python(found)
                for found in (stored["choices"], stored["cells"], stored.get("tests", {}))
            )
            for record in cells.values():
                _Record.model_validate(record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TacitError(
                f"{str(path)!r} is damaged: {why}; move it away to begin the table anew."
            ) from error
        if name != table:
            raise TacitError(f"{str(path)!r} holds the table {name!r}; choose another --out.")
        return cls(table, path, choices, timings, cells, tests)

    def text(self) -> str:
        """The file, as JSON."""
        stored = {
            "table": self.table,
            **self.head,
            "choices": self.choices,
            "timings": {key: asdict(value) for key, value in self.timings.items()},
            "cells": self.cells,
        } | ({"tests": self.tests} if self.tests else {})
        return json.dumps(stored, indent=1) + "\n"

    def write(self) -> None:
        """The whole file or nothing."""
        write_text(self.path, self.text())
