"""How far cells are from published values, and the runs that show why.

A reason names a run and what that run says. The run is a line of docs/results/reasons.json, which
`python -m lab.reasons` writes, or a finished cell of a results file. A reason whose run is not
there, is of other data or says something else is refused wherever a table is written. By which
metrics a run shows anything is told by its numbers: where it does not take away half of the
distance to the published value, and more than the cell's seeds differ, the cell stays unexplained.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from lab.definition import Because, Column, Data, Metric, Place, Published, Reason, Table
from lab.results import DoneCell, Results, metric_key, values_of
from tacit.errors import TacitError
from tacit.evaluation.significance import Spread

PUBLISHED = Path(__file__).parents[1] / "docs" / "results"
FILE = "reasons.json"
NEAR = 0.15  # of the published value
GAIN = 0.5  # of a cell's distance from it: what a run takes away that shows anything
UNEXPLAINED = "unexplained"


class ProofRun(BaseModel):
    """A run that was made to show a reason, beside the cell that it was made from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cell: str  # "TABLE: ROW | DATASET | COLUMN", whose chosen setting it has
    changed: tuple[str, ...]  # what it has otherwise
    command: str  # that runs it
    digest: str  # of its experiment
    record: str  # SHA-256 of its run.json
    result: DoneCell


PROOF_RUNS = TypeAdapter(dict[str, ProofRun])


@dataclass
class Proofs:
    """The runs that reasons may name, in a folder of results.

    >>> Proofs(Path("nowhere")).runs
    {}
    """

    folder: Path = PUBLISHED
    _tables: dict[str, Results] = field(default_factory=dict)

    @cached_property
    def runs(self) -> dict[str, ProofRun]:
        """The lines of the file of reasons."""
        path = self.folder / FILE
        if not path.is_file():
            return {}
        try:
            return PROOF_RUNS.validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as error:
            raise TacitError(
                f"{str(path)!r} is damaged; move it away and run `python -m lab.reasons`."
            ) from error

    @property
    def text(self) -> str:
        """The file of reasons, as JSON."""
        return json.dumps(PROOF_RUNS.dump_python(self.runs, mode="json"), indent=1) + "\n"

    def cell_of(self, because: Because) -> DoneCell | None:
        """The finished run that is named; None where there is none."""
        if because.run in self.runs:
            return self.runs[because.run].result
        table, _, key = because.run.partition(": ")
        path = self.folder / f"table-{table}.json"
        if not key or not path.is_file():
            return None
        if table not in self._tables:
            self._tables[table] = Results.read(table, path)
        cell = self._tables[table].cells.get(key)
        return cell if isinstance(cell, DoneCell) else None

    def checked(self, table: Table, reason: Reason) -> DoneCell:
        """The run of a reason, once it was found to be there, of its data, and to say that."""
        because, cell = reason.because, self.cell_of(reason.because)
        where = f"The table {table.name} explains {' | '.join(reason.cell)} by {because.run!r}"
        if cell is None:
            raise TacitError(
                f"{where}, which nobody has run; `python -m lab.reasons` runs what is."
            )
        if cell.dataset != reason.dataset:
            raise TacitError(f"{where}, which is a run of {cell.dataset}.")
        if because.metric not in cell.metrics:
            raise TacitError(f"{where}, which has no {because.metric!r}.")
        said = round(100 * cell.metrics[because.metric], 2)
        if said != because.value:
            raise TacitError(
                f"{where}, and says {because.metric} {because.value:g}; the run has {said:g}."
            )
        return cell


class Distance(NamedTuple):
    """A cell's mean, the published value, in percent, and the cell's deviation over seeds."""

    mean: float
    published: Published
    tolerance: float
    deviation: float = 0.0

    @property
    def near(self) -> bool:
        """Whether it is within 15 % of the published value."""
        return self.of(self.mean) <= NEAR * self.published.mean

    @property
    def far(self) -> bool:
        """Whether it needs a reason: beyond the table's tolerance in points, or beyond 15 %."""
        return self.of(self.mean) > self.tolerance or not self.near

    def of(self, value: float) -> float:
        """How far another value is from the published value."""
        return abs(value - self.published.mean)

    def said_by(self, value: float) -> Literal["explains", "in part"] | None:
        """What a run with this value says of the cell. It must take away at least half of the
        distance to the published value, and more of it than seeds differ, else it says nothing. It
        explains the cell where it is within 15 % of that value, and in part where it is not.

        >>> far = Distance(20.0, Published(40.0), 1.0, deviation=2.0)
        >>> far.said_by(39.0), far.said_by(30.0), far.said_by(29.0), far.said_by(19.0)
        ('explains', 'in part', None, None)
        >>> far._replace(deviation=12.0).said_by(30.0)  # seeds differ by more
        """
        distance, gain = self.of(self.mean), self.of(self.mean) - self.of(value)
        if gain <= self.deviation or gain < GAIN * distance:
            return None
        return "explains" if self._replace(mean=value).near else "in part"


def distance(results: Results, place: Place, metric: Metric) -> Distance | None:
    """How far a cell is from the published value; None where there is none, or no run."""
    published = place.table.published.get((place.row.name, place.data.name, metric))
    values = values_of(results, place, metric)
    if published is None or not values:
        return None
    spread = Spread.of(values)
    return Distance(spread.mean, published, place.table.tolerance, spread.deviation or 0.0)


def why(
    results: Results, place: Place, metric: Metric, proofs: Proofs, *, brief: bool = False
) -> str | None:
    """Why a cell is far from the published value, with the run's number; None where it is near.

    A run that takes away half of the distance to the published value, yet is not within 15 % of
    it, explains the cell in part. `brief` leaves out the words, which stand above.
    """
    table, found = place.table, distance(results, place, metric)
    if found is None or not found.far:
        return None
    here = (place.row.name, place.data.name, place.column)
    reason = next((one for one in table.reasons if one.cell == here), None)
    if reason is None:
        return UNEXPLAINED
    metrics, key = proofs.checked(table, reason).metrics, metric_key(metric)
    value = 100 * metrics[key] if key in metrics else found.mean
    said = found.said_by(value)
    if said is None:
        return UNEXPLAINED
    words = "as above" if brief else f"{reason.text} (run `{reason.because.run}`)"
    return f"{words}: {value:.2f}{', in part' if said == 'in part' else ''}"


def unexplained(table: Table, results: Results, proofs: Proofs) -> list[str]:
    """Cells that are far from the published value, by which metrics no run shows why."""
    found = []
    for place in table.places:
        metrics = [m for m in table.metrics if why(results, place, m, proofs) == UNEXPLAINED]
        if metrics:
            found.append(f"{place.key}: {' and '.join(map(metric_key, metrics))}")
    return found


def share_near(
    table: Table, results: Results, datasets: Sequence[Data] | None = None
) -> dict[Column, tuple[int, int]]:
    """By column, how many numbers are within 15 % of published values, of how many were run."""
    names = [data.name for data in (table.datasets if datasets is None else datasets)]
    counts: dict[Column, tuple[int, int]] = {}
    for place in table.places:
        for metric in table.metrics if place.data.name in names else ():
            found = distance(results, place, metric)
            if found is not None:
                near, of = counts.get(place.column, (0, 0))
                counts[place.column] = (near + found.near, of + 1)
    return counts


def share_text(table: Table, counts: dict[Column, tuple[int, int]]) -> str:
    """Those shares, in words; empty where nothing was compared.

    >>> table = Table("few", "Few", (), (), (), 0, paper="pfedrec")
    >>> share_text(table, {"paper": (3, 4), "clean": (0, 1)})
    'Within 15 % of the published value: 3 of 4 numbers (75 %) under pfedrec, 0 of 1 numbers (0 %) \
under clean.'
    """
    if not counts:
        return ""
    names: dict[Column, str] = {"paper": table.paper or "", "clean": "clean"}
    told = [
        f"{near} of {of} numbers ({100 * near / of:.0f} %) under {names[column]}"
        for column, (near, of) in counts.items()
    ]
    return f"Within 15 % of the published value: {', '.join(told)}."
