"""The record of a run: one frozen value with all that `run.json` holds.

Everything with a fixed name is an attribute. Metrics are mappings from a metric's name to its
number, as in `record.metrics.full["HR@10"]`. `docs/record.md` explains every field.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    ValidationError,
)

from tacit.core.ledger import Ledger
from tacit.core.types import EnginePath
from tacit.data.digest import DataDigest
from tacit.evaluation.metrics import parse_metric
from tacit.experiment.amounts import metric_text
from tacit.experiment.record_format import RECORD_FORMAT, format_in, present_format
from tacit.experiment.record_parts import (
    Beyond,
    Breakdown,
    Cold,
    Cost,
    Counts,
    DataStep,
    Metrics,
    Order,
    Privacy,
    RecordPart,
    Reference,
    TestRelease,
    Words,
    is_absent,
)
from tacit.experiment.sealed import DamagedError, object_in
from tacit.files import write_text


class RunRecord(RecordPart):
    """One finished run: what was run, what came out, what it cost and where it comes from.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import tacit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = tacit.run(tacit.resolve("popularity"), Path(folder, "one"))
    >>> record.metrics.full["HR@10"] == record.reference.full.popularity["HR@10"]
    True
    >>> record.kind, record.privacy.epsilon, record.engine.path
    ('central', None, 'central')
    >>> record
    RunRecord(popularity on planted, clean, seed 0: HR@10 0.1433)
    """

    format: Literal[5] = RECORD_FORMAT
    """The version of this format."""
    method: str
    """The name of the method, as `tacit list` has it."""
    plugins: tuple[str, ...]
    """Plug-ins with their settings, in the order in which they were applied."""
    kind: Literal["composed", "custom", "central"]
    """An expression over parts, an algorithm of its own, or one that sees all histories."""
    dataset: str
    """The name or the path of the data."""
    protocol: str
    """The name of the protocol."""
    clean: bool
    """Whether the numbers compare with other clean ones."""
    split: str
    """How the data was split, in words."""
    preset: str
    """Where the settings come from."""
    seed: int
    unit: Literal["round", "setting"]
    """What validation chose among: rounds, or the settings of a closed form."""
    rounds: int
    """How many were asked for."""
    rounds_run: int
    """How many were run; patience may stop earlier."""
    selected_round: int
    """The round (or setting) that validation selected, or the last one where nothing was to be
    selected; all test numbers are of this one."""
    selection: str
    """How it was selected, in words."""
    select_metric: str
    """The metric that selected."""
    engine: EnginePath
    """Which code trained and scored."""
    device: str
    """cpu, or a CUDA device."""
    run: str
    """The run folder, as it was given."""
    seconds: float
    """Wall-clock seconds."""
    cpu_seconds: float
    """Processor seconds."""
    threads: int
    metrics: Metrics
    """The method on the test part."""
    reference: Reference
    """Scorers that learn nothing on the test part."""
    breakdown: Breakdown
    """The full ranking by kind of test item."""
    beyond: Beyond
    """What the lists show of the catalogue."""
    privacy: Privacy
    cost: Cost
    counts: Counts
    ledger: Ledger | None
    """What crossed in all rounds that were run; null in files of format 4 and older."""
    order: Order | None
    """How histories are ordered; null in files of format 3 and older."""
    steps: tuple[DataStep, ...]
    """The rules that made the data from its file."""
    cautions: tuple[str, ...]
    """What must be known of the split wherever the numbers stand."""
    notes: tuple[str, ...]
    """What else a reader must know; the cautions are among them."""
    test_released: TestRelease
    """Which test ranks were opened; they are opened once."""
    versions: Words
    """Of Python and the packages that make the numbers."""
    data: DataDigest | None
    """What the data was, in digests; null in files of format 1."""
    cold: Cold | None = Field(default=None, exclude_if=is_absent)
    """Only in runs on untouched items."""

    @property
    def label(self) -> str:
        """The method with its plug-ins."""
        return " + ".join((self.method, *self.plugins))

    @property
    def headline(self) -> int:
        """The cut-off at which the run was selected and is read; the largest of several."""
        return parse_metric(self.select_metric)[1]

    @classmethod
    def of_json(cls, content: bytes) -> RunRecord:
        """The record in the bytes of a `run.json`, of this format or an older one.

        >>> RunRecord.of_json(b"[]")
        Traceback (most recent call last):
        tacit.experiment.sealed.DamagedError: it holds no JSON object
        """
        found = object_in(content)
        known = format_in(found)
        if known > RECORD_FORMAT:
            raise DamagedError(f"it is of format {known}, which a newer version of tacit wrote")
        try:
            return cls.model_validate_json(json.dumps(present_format(found)))
        except ValidationError as error:
            raise DamagedError(_first_mistake(error)) from error

    def __repr__(self) -> str:
        name, value = self._first_metric()
        where = f"{self.label} on {self.dataset}, {self.protocol}, seed {self.seed}"
        return f"RunRecord({where}: {name} {metric_text(value)})"

    def __str__(self) -> str:
        name, value = self._first_metric()
        references = self.reference.full
        kernel = "" if self.engine.kernel is None else f", {self.engine.kernel} kernel,"
        return "\n".join(
            (
                f"{self.label} on {self.dataset}, protocol {self.protocol}, seed {self.seed}",
                f"  {name} {metric_text(value)} in the full ranking; popularity "
                f"{metric_text(references.popularity[name])}, chance "
                f"{metric_text(references.chance[name])}",
                f"  {self.unit} {self.selected_round} of {self.rounds_run} ({self.selection})",
                f"  privacy: {self.privacy.short}",
                f"  engine: {self.engine.path}{kernel} on {self.device}, {self.seconds:.1f} s",
                f"  run: {self.run}",
            )
        )

    def _first_metric(self) -> tuple[str, float]:
        name = f"HR@{self.headline}" if self.cold is None else "Recall@20"
        return name, self.metrics.full[name]


class RoundRecord(RecordPart):
    """One line of `metrics.jsonl`: the loss of a round, and its validation where there was one.

    >>> RoundRecord.of_json(b'{"round": 1, "loss": null}')
    RoundRecord(round=1, loss=None, valid=None)
    """

    round: int
    loss: float | None = Field(allow_inf_nan=True)  # None where nobody took part
    valid: Metrics | None = Field(default=None, exclude_if=is_absent)

    @classmethod
    def of_json(cls, line: bytes) -> RoundRecord:
        """The round in one line of `metrics.jsonl`."""
        object_in(line)
        try:
            return cls.model_validate_json(line)
        except ValidationError as error:
            raise DamagedError(_first_mistake(error)) from error


def _first_mistake(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"


# The format as a JSON schema, which docs/run-record.schema.json holds.


def schema_text() -> str:
    """The JSON schema of `run.json`; `python -m tacit.experiment.record FILE` writes it.

    >>> json.loads(schema_text())["title"]
    'RunRecord'
    """
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = dialect | _described(RunRecord.model_json_schema())
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose descriptions end where the examples of their docstrings begin."""
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "description" and isinstance(value, str):
            plain[key] = value.partition(">>>")[0].strip()
        else:
            plain[key] = _described(value) if isinstance(value, dict) else value
    return plain


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), schema_text())
