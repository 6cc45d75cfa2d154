"""Each row of a table against one of them, user by user; a test is kept with the runs it was made
of, so that it holds on a machine where these runs are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.benchmarks.tables.ledger import Ledger
from tacit.experiment.folder import RunFolder
from tacit.study.compare import Entrant, tabulate

Records = Sequence[dict[str, Any]]  # of one row and dataset, a seed each


def p_value(
    ledger: Ledger, out: Path, metric: str, against: Records, records: Records
) -> float | None:
    """Of a row's difference from the row `against`, before any correction; None where the runs are
    not here and nobody has tested them."""
    row = records[0]
    key = f"{row['row']} | {row['dataset']} | {metric}"
    runs = {"runs": _runs(records), "against": _runs(against)}
    known = ledger.tests.get(key, {})
    if any(known.get(side) != of for side, of in runs.items()):
        if not all(RunFolder(out / run).finished for of in runs.values() for run in of):
            return None
        both = [_entrant(out, against), _entrant(out, records)]
        difference = tabulate(both, metric, both[0].name).rows[1].difference
        assert difference is not None  # it is not the row that is tested against
        known = ledger.tests[key] = {"p": difference.p_value, **runs}
    return float(known["p"])


def _runs(records: Records) -> list[str]:
    return [record["folder"] for record in records]


def _entrant(out: Path, records: Records) -> Entrant:
    folders = tuple(out / run for run in _runs(records))
    experiments = tuple(RunFolder(folder).experiment() for folder in folders)
    return Entrant(records[0]["row"], experiments, folders)
