"""The record of a run: one frozen value with all that `run.json` holds.

Everything with a fixed name is an attribute. Metrics are mappings from a metric's name to its
number, as in `record.metrics.full["HR@10"]`. `docs/record.md` explains every field.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from tacit.core.ledger import Ledger
from tacit.core.types import EnginePath
from tacit.data.digest import DataDigest
from tacit.data.split import BY_LABELS, few_evaluated
from tacit.evaluation.metrics import parse_metric
from tacit.experiment.amounts import metric_text
from tacit.experiment.claims import assumptions
from tacit.experiment.sealed import DamagedError, object_in
from tacit.files import write_text
from tacit.privacy.guarantee import Guarantee

# 4 had neither guarantees nor ledgers, 3 said nothing of the order of histories, 2 told the engine
# in a sentence, 1 had no digest of data
RECORD_FORMAT: Literal[5] = 5

NO_GUARANTEE = "no guarantee"  # what is said where nothing is promised

Ranking = Literal["full", "sampled99"]
Value = TypeVar("Value")


class FrozenMapping(Mapping[str, Value]):
    """Values by name that cannot be changed.

    >>> FrozenMapping({"HR@10": 0.25})["HR@10"]
    0.25
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


Numbers = Annotated[Mapping[str, float], AfterValidator(FrozenMapping), PlainSerializer(dict)]
Words = Annotated[Mapping[str, str], AfterValidator(FrozenMapping), PlainSerializer(dict)]


def _is_absent(value: object) -> bool:
    return value is None


class RecordPart(BaseModel):
    """A part of the record: frozen, and with no other fields than those it names."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    @property
    def json_text(self) -> str:
        """The JSON object that files hold and `--json` prints."""
        return json.dumps(self.model_dump(mode="json"), indent=1)


class Metrics(RecordPart):
    """Metrics by name in both rankings."""

    full: Numbers
    """Among all items that are not masked."""
    sampled99: Numbers
    """Among the sampled candidates, 99 of them unless the protocol says otherwise."""

    def of(self, ranking: str) -> Mapping[str, float]:
        """The metrics of one ranking, where its name is data."""
        return {"full": self.full, "sampled99": self.sampled99}[ranking]


class Scorers(RecordPart):
    """Scorers that learn nothing, in one ranking."""

    popularity: Numbers
    """Items in the order of their training counts."""
    chance: Numbers
    """A random order, in expectation."""
    never_sampled: Numbers
    """Items that a client never drew as a negative come first: above chance, the negatives leak."""

    def of(self, scorer: str) -> Mapping[str, float]:
        """The metrics of one scorer, where its name is data."""
        return {
            "popularity": self.popularity,
            "chance": self.chance,
            "never_sampled": self.never_sampled,
        }[scorer]


class Reference(RecordPart):
    """What needs no learning reaches, under the same candidates and masks."""

    full: Scorers
    sampled99: Scorers

    def of(self, ranking: str) -> Scorers:
        """The scorers of one ranking, where its name is data."""
        return {"full": self.full, "sampled99": self.sampled99}[ranking]


class BreakdownPart(RecordPart):
    """One kind of test items."""

    users: int
    """Users who have such a test item."""
    held_out: int
    """Test items of this kind."""
    full: Numbers
    """Metrics of the full ranking over these users; empty where there are none."""
    adds: Numbers
    """What this kind adds to the metrics of all; empty where users have several test items."""


class Breakdown(RecordPart):
    """Test items by whether anybody trained on them."""

    warm: BreakdownPart
    """Items in somebody's training data."""
    unseen: BreakdownPart
    """Items in nobody's training data."""


class Beyond(RecordPart):
    """What the first ten places show of the catalogue."""

    coverage_at_10: float = Field(validation_alias="coverage@10", serialization_alias="coverage@10")
    """The share of items that anybody is shown."""
    mean_popularity_at_10: float = Field(
        validation_alias="mean_popularity@10", serialization_alias="mean_popularity@10"
    )
    """The mean training count of what is shown."""


class Privacy(RecordPart):
    """The formal guarantee, if there is one, and what the server can read.

    Without a guarantee everything but `guarantee` and `server_reads` is null.

    >>> Privacy(server_reads=("nothing leaves the device",)).text
    'no guarantee'
    >>> stated = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=50, delta=1e-5)
    >>> Privacy.of(stated, []).text
    'user-level ε = 20.68, δ = 1e-05 over 50 releases, against a server that sees the sum of each \
round and who took part'
    """

    guarantee: str = "none"
    """What is guaranteed, in words; "none" without a formal guarantee."""
    summary: str | None = None
    """The same in a few words, for a cell of a table."""
    epsilon: float | None = None
    """Of all releases together."""
    delta: float | None = None
    """0 for Laplace noise."""
    view: Literal["local", "secure_sum", "released_model"] | None = None
    """What the adversary sees: every upload, the sums of rounds, or the final model."""
    adjacency: str | None = None
    """What is compared: two histories of one user, or a user's contributions and nothing."""
    mechanism: Literal["gaussian", "laplace", "skellam"] | None = None
    """The noise."""
    norm: Literal[1, 2] | None = None
    """In which `bound` and `sensitivity` are: sums of absolute values, or Euclidean."""
    bound: float | None = None
    """The most that one user adds to a release."""
    sensitivity: float | None = None
    """How far apart releases of neighbours are."""
    noise: float | None = None
    """On what the adversary sees: standard deviation, or the scale of Laplace noise."""
    releases: int | None = None
    """The most that any user takes part in."""
    epsilon_per_release: float | None = None
    """Of one release alone."""
    selection_covered: bool | None = None
    """Whether the run chose nothing by looking at validation; `assumes` tells of choices before."""
    assumes: tuple[str, ...] | None = None
    """What the guarantee takes for granted, and what it does not speak of, in sentences."""
    server_reads: tuple[str, ...]
    """What the method discloses to the server, in sentences."""

    @classmethod
    def of(
        cls, guarantee: Guarantee | None, server_reads: Sequence[str], in_sight: bool = False
    ) -> Privacy:
        """The part of a record that a guarantee fills, or its absence; `in_sight` is as in
        `assumptions`."""
        if guarantee is None:
            return cls(server_reads=tuple(server_reads))
        return cls(
            guarantee=guarantee.text,
            summary=guarantee.short,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            view=guarantee.view,
            adjacency=guarantee.adjacency,
            mechanism=guarantee.mechanism,
            norm=guarantee.norm,
            bound=guarantee.bound,
            sensitivity=guarantee.sensitivity,
            noise=guarantee.noise,
            releases=guarantee.releases,
            epsilon_per_release=guarantee.epsilon_per_release,
            selection_covered=guarantee.selection_covered,
            assumes=assumptions(guarantee, in_sight),
            server_reads=tuple(server_reads),
        )

    @property
    def guaranteed(self) -> bool:
        """Whether there is a formal guarantee."""
        return self.guarantee != "none"

    @property
    def text(self) -> str:
        """The words that stand beside the numbers of a run everywhere."""
        return self.guarantee if self.guaranteed else NO_GUARANTEE

    @property
    def short(self) -> str:
        """The same for a cell of a table; never a bare number."""
        return self.summary or NO_GUARANTEE

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        told = {
            name: getattr(self, name) is not None
            for name in type(self).model_fields
            if name not in ("guarantee", "server_reads")
        }
        if not self.guaranteed and any(told.values()):
            named = next(name for name, there in told.items() if there)
            raise ValueError(f"{named} belongs to a guarantee, and there is none")
        if self.guaranteed and not all(told.values()):
            named = next(name for name, there in told.items() if not there)
            raise ValueError(f"a guarantee is never told without its {named}")
        return self


class Cost(RecordPart):
    """Bytes per client and exchange, and of all clients up to the selected round."""

    bytes_up: int
    """Sent by a client in one exchange."""
    bytes_down: int
    """Received by a client in one exchange."""
    exchanges: int
    """Of all clients, up to the selected round."""
    bytes_total_to_selected_round: int
    """Up and down, of all clients, up to the selected round."""
    bytes_once: int | None = Field(default=None, exclude_if=_is_absent)
    """Content that a client receives before the first round; only composed methods count it."""
    client_bytes: int
    """Kept by a client between rounds."""
    client_bytes_at_peak: int | None = Field(default=None, exclude_if=_is_absent)
    """Held by a client at most; only composed methods count it."""


class Counts(RecordPart):
    """How much data there is, and how it was split."""

    users: int
    items: int
    train: int
    """Interactions in the training part."""
    valid: int
    """Interactions in the validation part."""
    test: int
    """Interactions in the test part."""
    evaluated_users: int
    """Users whose test items are ranked."""
    users_too_short: int
    """Users with fewer interactions than the split needs."""
    users_without_train: int
    unseen_test_items: int
    """Distinct test items that are in nobody's training data."""
    masked_test_items: int
    """Test items that the ranking masks, so that they cannot be hit."""
    users_with_latest_tied: int
    """Users whose latest interactions have the same time."""
    warm_items: int | None = Field(default=None, exclude_if=_is_absent)
    """Items of the training part; only with a cold split."""
    cold_test_items: int | None = Field(default=None, exclude_if=_is_absent)
    """Untouched items of the test part; only with a cold split."""
    left_out: int | None = Field(default=None, exclude_if=_is_absent)
    """Interactions in no part; only where the first new item after a moment is held out."""


class Order(RecordPart):
    """What the order of histories is by, and whether the method looks at it.

    >>> Order(by="time", tied=3, latest_of_tied="first_row", read=True).text
    'The method reads the order of histories: it is by time, and of the 3 train interactions that \
are tied with an earlier one the first row of the file is the latest.'
    """

    by: Literal["time", "file", "shuffled"]
    """Time, the rows of the source where it has no time for every interaction, or chance: in the
    control without order."""
    tied: int
    """Train interactions that have the time of another one of their user before them."""
    latest_of_tied: Literal["first_row", "last_row"]
    """Which of several rows of equal time counts as the latest, as the split has it."""
    read: bool
    """Whether clients look at the order when they train or rank."""

    @property
    def text(self) -> str:
        """One sentence for people, of a method that reads the order."""
        said = "The method reads the order of histories: it is"
        if self.by == "shuffled":
            return f"{said} a random one in this control."
        if self.by == "file":
            return f"{said} that of the rows in the file, which has no time for every interaction."
        row = "first" if self.latest_of_tied == "first_row" else "last"
        if not self.tied:
            return f"{said} by time, and no two train interactions of a user are tied."
        return (
            f"{said} by time, and of the {self.tied:,} train interactions that are tied with an "
            f"earlier one the {row} row of the file is the latest."
        )


class DataSize(RecordPart):
    """The size of a dataset."""

    users: int
    items: int
    interactions: int


class DataStep(RecordPart):
    """A rule that was applied to the data, with its size before and after."""

    rule: str
    before: DataSize
    after: DataSize


class TestRelease(RecordPart):
    """The one round whose test ranks were opened."""

    __test__: ClassVar[bool] = False  # no test, whatever its name begins with

    round: int
    validation_value: float
    """The value of the selecting metric on validation."""


class MeanDeviation(RecordPart):
    """Mean and standard deviation of one metric."""

    mean: float
    deviation: float


class Draws(RecordPart):
    """Every metric over several draws of a generator's noise, as in `draws["Recall@20"].mean`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, MeanDeviation] = Field(init=False)

    number: int
    """How many draws."""

    def __getitem__(self, metric: str) -> MeanDeviation:
        return self.__pydantic_extra__[metric]


class WithoutContent(RecordPart):
    """Test items that have none of the content which a generator reads."""

    items: int
    held_out: int
    """Test interactions of these items."""
    metrics: Numbers


class Cold(RecordPart):
    """What only runs on untouched items have."""

    metrics: Numbers
    """Recall, precision and NDCG at 20, 50 and 100, in the full ranking."""
    same_for_all: Numbers
    """The same metrics of one list for everybody, made from the mean scores."""
    ndcg_index_order: Numbers
    """NDCG of released code, with discounts in the order of item codes; not comparable."""
    top_shares: Numbers
    """The share of test interactions that the most touched cold items hold."""
    without_content: WithoutContent | None = Field(default=None, exclude_if=_is_absent)
    """Only where some test items have no content."""
    generator_seconds_a_round: float | None = Field(default=None, exclude_if=_is_absent)
    """Processor time of the generator; only with one."""
    draws: Draws | None = Field(default=None, exclude_if=_is_absent)
    """Only where the generator draws noise."""


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
    cold: Cold | None = Field(default=None, exclude_if=_is_absent)
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
        known = _format(found)
        if known > RECORD_FORMAT:
            raise DamagedError(f"it is of format {known}, which a newer version of tacit wrote")
        try:
            return cls.model_validate_json(json.dumps(_present_format(found)))
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
    valid: Metrics | None = Field(default=None, exclude_if=_is_absent)

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


def format_of(content: bytes) -> int:
    """The format of a `run.json`; 1 is from before there was one.

    >>> format_of(b'{"method": "fedmf"}'), format_of(b'{"format": 2}')
    (1, 2)
    """
    return _format(object_in(content))


def _format(found: dict[str, Any]) -> int:
    known = found.get("format", 1)
    if not isinstance(known, int) or isinstance(known, bool):
        raise DamagedError("format: input should be a valid integer")
    return known


# Older files. Format 4 had no guarantee to tell of, and did not tell what crossed. Format 3 did not
# tell how histories are ordered. Format 2 told the engine in one sentence, and neither the kind of
# method nor the device. Format 1 had no digest of its data either.


def _present_format(found: dict[str, Any]) -> dict[str, Any]:
    """What a `run.json` holds, in the present format; what it never said is filled in."""
    if found.get("format") == RECORD_FORMAT:
        return found
    unsaid = {"unit": "round", "data": None, "order": None, "ledger": None}
    now = {**unsaid, **found, "format": RECORD_FORMAT}
    sentence, notes, counts = (found.get(key) for key in ("engine", "notes", "counts"))
    if isinstance(sentence, str):
        engine = _engine_of_sentence(sentence)
        kind = {"central": "central", "custom": "custom"}.get(engine.path, "composed")
        device = "cuda" if re.search(r" on cuda\b", sentence) else "cpu"
        now = {"kind": kind, "device": device, **now, "engine": vars(engine)}
    if isinstance(notes, list) and isinstance(counts, dict):
        users = counts.get("evaluated_users")
        few = few_evaluated(users) if isinstance(users, int) and users > 0 else None
        by_labels = [note for note in notes if note == BY_LABELS]
        now = {"cautions": [*by_labels, *([few] if few else [])], **now}
    return now


_PATHS = {
    "loop": "loop",
    "cohort": "cohort",
    "compiled": "compiled",
    "fused": "fused",
    "direct": "custom",
    "central": "central",
}


def _engine_of_sentence(text: str) -> EnginePath:
    """The facts in the sentence with which engines described themselves.

    >>> said = "compiled: additive kernel, blocks of 64 clients on cpu (not asked for)"
    >>> _engine_of_sentence(f"{said}; scores: linear kernel").reason
    'not asked for'
    """
    training, *rest = re.split(r"; (?=guidance: |scores: )", text)
    path, _, words = training.partition(": ")
    steps = dict(part.split(": ", 1) for part in rest)
    if path not in _PATHS:
        raise DamagedError(f"engine: {path!r} is no path that is known")
    named = re.search(r"(?:^|[(])([\w+]+) kernel(?:, |[)])", words)
    kernel = "ragged" if words.startswith("crowd kernels of ") else named and named[1]
    reason = re.search(r" [(](.*)[)]$", words) if path in ("cohort", "compiled", "direct") else None
    return EnginePath(
        path=_PATHS[path],  # type: ignore[arg-type]
        text=text,
        kernel=kernel,
        reason=None if reason is None else reason[1],
        scoring=_kernel(steps.get("scores", "")),
        guidance=_kernel(steps.get("guidance", "")),
    )


def _kernel(words: str) -> str | None:
    found = re.match(r"([\w+]+) kernel$", words)
    return None if found is None else found[1]


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
