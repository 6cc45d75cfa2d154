"""What a server writes down of each exchange: names and counts, never vectors.

A line of `rounds.jsonl` is one `RoundRecord`. Whoever shows how a deployment goes reads these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from tacit.errors import TacitError
from tacit.files import append_line, write_text

Kind = Literal["exchange", "validation", "test", "delivery", "catalogue"]


@dataclass(frozen=True)
class RoundRecord:
    """One exchange with nodes, or one ranking, delivery or catalogue.

    `answered` are the nodes whose answers count, in the order of the roster. `refused` counts
    messages that were not let in by reason, and `declined` answers in which a node itself says no.
    `given_up` is the sentence that says why nothing came of it; "" where something did. `epsilon`
    is what is spent so far of those who took part most; None without a claim.

    >>> one = RoundRecord("shop", "day-1", "exchange", 1, 0, "train", ("a", "b"), ("a",))
    >>> RoundRecord.of_json(one.json_line) == one
    True
    """

    deployment: str
    run: str
    kind: Kind
    round_number: int
    exchange: int
    name: str  # of the exchange: train, tables, guide, fit; or valid, test
    invited: tuple[str, ...]
    answered: tuple[str, ...]
    refused: Mapping[str, int] = field(default_factory=dict)
    declined: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()  # offenders, and nodes whose owners have left
    clients: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0
    given_up: str = ""
    epsilon: float | None = None
    delta: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)  # means over people
    people: int = 0  # over whom they are means
    selected_round: int = 0  # so far
    finished_at: float = 0.0  # seconds since 1970, by the server's clock

    @property
    def json_line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=True)

    @classmethod
    def of_json(cls, line: str) -> RoundRecord:
        """A record that was written; anything else is refused."""
        try:
            return TypeAdapter(cls).validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the line"
            raise TacitError(
                f"A line of rounds.jsonl is no record of an exchange ({place}: "
                f"{first['msg'].lower()})."
            ) from error


@dataclass(frozen=True)
class RecordFile:
    """The lines of one run, in the order in which things happened."""

    path: Path

    def append(self, record: RoundRecord) -> None:
        append_line(self.path, record.json_line)

    def read(self) -> list[RoundRecord]:
        """All whole lines; one that a kill cut off at the end is left out."""
        if not self.path.is_file():
            return []
        text = self.path.read_text(encoding="utf-8")
        lines = text.split("\n")[:-1]
        return [RoundRecord.of_json(line) for line in lines]

    def keep(self, count: int) -> None:
        """Forget what was written after a checkpoint of so many lines: it comes again."""
        lines = self.read()[:count] if count else []
        write_text(self.path, "".join(f"{one.json_line}\n" for one in lines))
