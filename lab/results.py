"""The results file of a table: choices made on validation, and every cell with its numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lab.definition import Column, Metric, Overrides, Place, Table
from tacit.errors import TacitError
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import BreakdownPart, Cold
from tacit.files import write_text
from tacit.study.search import Choice

Kind = Literal["warm", "unseen"]  # of a test item: in somebody's train, or in nobody's
KINDS: tuple[Kind, ...] = ("warm", "unseen")


def _is_none(value: object) -> bool:
    return value is None


def _is_empty(value: Any) -> bool:
    return not value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cell(_Part):
    """A cell that is not run, and why."""

    row: str
    dataset: str
    column: Column
    seed: int
    status: str


class Share(_Part):
    """What one kind of test items adds to the full-ranking metrics of a table."""

    held_out: int
    adds: Mapping[str, float]


class Shares(_Part):
    """Test items in somebody's train, and in nobody's."""

    warm: Share
    unseen: Share


class References(_Part):
    """What needs no learning, by metric of the table."""

    popularity: Mapping[str, float]
    chance: Mapping[str, float]


class DoneCell(Cell):
    """A finished cell: its numbers, those of the references, and where they come from."""

    status: Literal["done"] = "done"
    protocol: str
    split: str
    sets: tuple[str, ...]
    rounds_run: int
    selected_round: int
    validation: float
    metrics: Mapping[str, float]
    reference: References
    breakdown: Shares | None = Field(default=None, exclude_if=_is_none)
    cold: Cold | None = Field(default=None, exclude_if=_is_none)
    bytes_up: int | None = Field(default=None, exclude_if=_is_none)
    users: int
    masked_test_items: int
    engine: str
    device: str = Field(default="cpu", exclude_if=lambda device: device == "cpu")
    kind: Literal["composed", "custom", "central"] = Field(
        default="composed", exclude_if=lambda kind: kind == "composed"
    )
    # what is guaranteed, in words; absent where nothing is
    privacy: str | None = Field(default=None, exclude_if=_is_none)
    seconds: float
    versions: Mapping[str, str]
    folder: str  # below the table's folder; it ends with the digest of its experiment

    @classmethod
    def of(cls, place: Place, setting: Overrides, record: RunRecord, folder: str) -> DoneCell:
        """What the results file keeps of a finished run."""
        table = place.table
        names = {metric_key(metric): metric for metric in table.metrics}
        reference = {key: record.reference.of(kind) for key, (kind, _) in names.items()}
        return cls(
            row=place.row.name,
            dataset=place.data.name,
            column=place.column,
            seed=record.seed,
            protocol=record.protocol,
            split=record.split,
            sets=setting,
            rounds_run=record.rounds_run,
            selected_round=record.selected_round,
            validation=record.test_released.validation_value,
            metrics={key: record.metrics.of(kind)[name] for key, (kind, name) in names.items()},
            reference=References(
                popularity={key: reference[key].popularity[name[1]] for key, name in names.items()},
                chance={key: reference[key].chance[name[1]] for key, name in names.items()},
            ),
            breakdown=_shares(table, record) if table.seen_unseen else None,
            cold=record.cold if table.cold else None,
            bytes_up=record.cost.bytes_up if table.bytes_up else None,
            users=record.counts.evaluated_users,
            masked_test_items=record.counts.masked_test_items,
            engine=record.engine.text,
            seconds=record.seconds,
            versions=dict(record.versions),
            folder=folder,
            device=record.device,
            kind=record.kind,
            privacy=record.privacy.text if record.privacy.guaranteed else None,
        )

    def shown_in(self, place: Place, setting: Overrides, folder: str) -> DoneCell | None:
        """The same run as a cell of another table; None where that table shows more of a run than
        is kept here."""
        table, keys = place.table, [metric_key(metric) for metric in place.table.metrics]
        asked = (table.seen_unseen, table.cold, table.bytes_up)
        kept = (self.breakdown, self.cold, self.bytes_up)
        lacks = any(ask and one is None for ask, one in zip(asked, kept, strict=True))
        if lacks or not set(keys) <= self.metrics.keys():
            return None
        known = self.reference
        reference = References(
            popularity={key: known.popularity[key] for key in keys},
            chance={key: known.chance[key] for key in keys},
        )
        told = {"row": place.row.name, "dataset": place.data.name, "column": place.column}
        shown = {"metrics": {key: self.metrics[key] for key in keys}, "reference": reference}
        parts = {
            name: one if ask else None
            for name, ask, one in zip(("breakdown", "cold", "bytes_up"), asked, kept, strict=True)
        }
        where = {"sets": setting, "folder": folder}
        return self.model_copy(update={**told, **shown, **parts, **where})


class PairedTest(_Part):
    """A row against another, user by user, and the runs it was made of; so that it holds on a
    machine where these runs are not."""

    p: float
    runs: tuple[str, ...]
    against: tuple[str, ...]


class UploadNorms(_Part):
    """What some users' uploads of the first round are like before any noise, and which run it is.
    `steps` are the most local steps of anybody in a round."""

    run: str
    users: int
    order: Literal[1, 2]
    median: float
    steps: int


class AttackCell(_Part):
    """How well a server that knows all others' uploads tells whether a person's is in its sums."""

    auc: float  # the mean over people
    low: float
    high: float
    targets: int
    draws: int  # with each target, and as many without
    releases: int  # that it saw
    controls_passed: bool
    seconds: float
    digest: str  # of the experiment that was attacked


def metric_key(metric: Metric) -> str:
    """A metric in the results file.

    >>> metric_key(("full", "HR@10"))
    'full HR@10'
    """
    return " ".join(metric)


def undone(place: Place, seed: int, why: str) -> Cell:
    """A cell without numbers, and why it has none."""
    return Cell(
        row=place.row.name,
        dataset=place.data.name,
        column=place.column,
        seed=seed,
        status=why,
    )


def _shares(table: Table, record: RunRecord) -> Shares:
    def share(part: BreakdownPart) -> Share:
        full = [metric for metric in table.metrics if metric[0] == "full"]
        adds = {metric_key(m): part.adds[m[1]] for m in full if m[1] in part.adds}
        return Share(held_out=part.held_out, adds=adds)

    return Shares(warm=share(record.breakdown.warm), unseen=share(record.breakdown.unseen))


class Results(BaseModel):
    """What a table's command knows, and goes on with when it is given again.

    `choices` are by place, `cells` by cell, `tests` (of tables that compare all rows with one) by
    row, dataset and metric, `uploads` (of tables that tell epsilon) and `attacks` (of the table of
    privacy) by place.

    >>> Results.read("few", Path("nowhere/few.json")).choices
    {}
    """

    model_config = ConfigDict(extra="forbid")

    path: Path = Field(exclude=True)
    table: str
    title: str = ""
    seeds: int = 0
    choices: dict[str, Choice] = {}
    timings: dict[str, Any] = Field(default={}, exclude_if=_is_empty)  # of older versions
    cells: dict[str, DoneCell | Cell] = {}
    tests: dict[str, PairedTest] = Field(default={}, exclude_if=_is_empty)
    uploads: dict[str, UploadNorms] = Field(default={}, exclude_if=_is_empty)
    attacks: dict[str, AttackCell] = Field(default={}, exclude_if=_is_empty)  # by place

    @classmethod
    def read(cls, table: str, path: Path) -> Results:
        """The results at `path`, or new ones where nothing is."""
        if not path.is_file():
            return cls(path=path, table=table)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            found = cls.model_validate({"path": path, **stored})
        except (OSError, ValueError, TypeError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                why = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
            raise TacitError(
                f"{str(path)!r} is damaged: {why}; move it away to begin the table anew."
            ) from error
        if found.table != table:
            raise TacitError(
                f"{str(path)!r} holds the table {found.table!r}; choose another --out."
            )
        return found

    @property
    def text(self) -> str:
        """The file, as JSON."""
        return json.dumps(self.model_dump(mode="json"), indent=1) + "\n"

    def write(self, path: Path | None = None) -> None:
        """The whole file or nothing."""
        write_text(path or self.path, self.text)

    def of(self, place: Place) -> list[DoneCell | Cell]:
        """What is known of all seeds of a place."""
        start = f"{place.key} | seed "
        return [cell for key, cell in self.cells.items() if key.startswith(start)]

    def done_of(self, place: Place) -> list[DoneCell]:
        """The finished seeds of a place."""
        return [cell for cell in self.of(place) if isinstance(cell, DoneCell)]

    @property
    def done(self) -> list[DoneCell]:
        """All finished cells."""
        return [cell for cell in self.cells.values() if isinstance(cell, DoneCell)]

    def setting_of(self, place: Place) -> Overrides | None:
        """The setting that was chosen for a place by its present definition; None if not yet."""
        if len(place.settings) < 2:
            return place.settings[0]
        choice = self.choices.get(place.key)
        if choice is None or choice.chosen is None or choice.digest != place.digest:
            return None
        return place.settings[choice.chosen]


def values_of(
    results: Results, place: Place, metric: Metric, kind: Kind | None = None
) -> list[float]:
    """A metric over the finished seeds of a place, in percent; with `kind`, what the warm or the
    unseen test items contribute to it."""
    done, key = results.done_of(place), metric_key(metric)
    if kind is None:
        return [100 * cell.metrics[key] for cell in done]
    parts = [getattr(cell.breakdown, kind).adds for cell in done if cell.breakdown is not None]
    return [100 * adds[key] for adds in parts if key in adds]
