"""Parts of the record of a run: metrics, references, breakdowns, privacy, cost and counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from tacit.experiment.claims import assumptions
from tacit.privacy.guarantee import Guarantee

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


def is_absent(value: object) -> bool:
    """Whether a field is left out of the file."""
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
    bytes_once: int | None = Field(default=None, exclude_if=is_absent)
    """Content that a client receives before the first round; only composed methods count it."""
    client_bytes: int
    """Kept by a client between rounds."""
    client_bytes_at_peak: int | None = Field(default=None, exclude_if=is_absent)
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
    warm_items: int | None = Field(default=None, exclude_if=is_absent)
    """Items of the training part; only with a cold split."""
    cold_test_items: int | None = Field(default=None, exclude_if=is_absent)
    """Untouched items of the test part; only with a cold split."""
    left_out: int | None = Field(default=None, exclude_if=is_absent)
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
    without_content: WithoutContent | None = Field(default=None, exclude_if=is_absent)
    """Only where some test items have no content."""
    generator_seconds_a_round: float | None = Field(default=None, exclude_if=is_absent)
    """Processor time of the generator; only with one."""
    draws: Draws | None = Field(default=None, exclude_if=is_absent)
    """Only where the generator draws noise."""
