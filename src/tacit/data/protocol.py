"""Protocols are values: how data is split, what may be a negative, who is ranked against whom.

`clean` is the default, and the only one whose numbers stand without a mark. The others repeat the
quirks of released code, so that printed tables can be compared with; see docs/protocols.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

ADDED_LATER = "added later"  # a key of a field's metadata


def added_later(default: Any) -> Any:
    """A field that came after results without it were published: at its default it is not written
    down, so that an experiment keeps its text, and with it its name.

    >>> added_later("shared").default
    'shared'
    """
    return field(default=default, metadata={ADDED_LATER: True})


@dataclass(frozen=True)
class SplitRule:
    """How a user's interactions become train, validation and test.

    `order` says what "last" means in leave-one-out: by `time`, at `random` (seeded), by file `row`,
    or by `item_appearance` (the item that appears latest in the unfiltered file: a pseudo-time that
    released code uses for data without timestamps). `ties` among equal times: the `first_row` of
    the file counts as the latest, or the `last_row`. Neither is truer; the first is what released
    code does, so that by default all protocols hold out the same items. `released` is `labels`
    where the file has them and `leave_one_out` where it has none. `cold` parts the items, not the
    interactions: all of an item's interactions go where the item goes, so that nobody has touched a
    held-out item; `cold_published` is such a split that comes with the data. `global_time` cuts
    everybody at the same moments (data/by_time.py).
    """

    kind: Literal[
        "leave_one_out", "global_time", "ratio", "labels", "released", "cold", "cold_published"
    ] = "leave_one_out"
    order: Literal["time", "random", "row", "item_appearance"] = "time"
    ties: Literal["first_row", "last_row"] = "first_row"
    valid_share: float = 0.1  # for global_time, ratio and cold
    test_share: float = 0.1
    seed: int = 0  # for random orders, ratio, cold and shuffled histories
    # For global_time: what is held out of a person's rows after a cut, of people with how many
    # items before it, and whether validation is a window in time or each person's latest item.
    held_out: Literal["all", "first"] = added_later("all")
    min_history: int = added_later(5)
    validation: Literal["window", "latest"] = added_later("window")

    @property
    def holds_out_first(self) -> bool:
        """Whether it holds out each person's first new item after a moment in time.

        >>> SplitRule("global_time", held_out="first").holds_out_first
        True
        """
        return self.kind == "global_time" and self.held_out == "first"

    @property
    def is_cold(self) -> bool:
        """Whether held-out items are items that nobody has touched.

        >>> SplitRule("cold").is_cold
        True
        """
        return self.kind in ("cold", "cold_published")

    @property
    def text(self) -> str:
        """How results name the split: the order is said where it decides.

        >>> SplitRule().text, SplitRule("labels").text, SplitRule("ratio").text
        ('leave_one_out by time', 'labels', 'ratio at random')
        >>> SplitRule("global_time", test_share=0.2, held_out="first").text
        'global_time, first new item from 80% on, validated from 70% on, 5 or more items before'
        """
        if self.holds_out_first:
            tested, valid = 1 - self.test_share, 1 - self.test_share - self.valid_share
            by = f"from {_percent(valid)} on" if self.validation == "window" else "on latest items"
            return (
                f"global_time, first new item from {_percent(tested)} on, validated {by}, "
                f"{self.min_history} or more items before"
            )
        if self.kind in ("leave_one_out", "released"):
            return f"{self.kind} by {self.order}"
        return "ratio at random" if self.kind == "ratio" else self.kind


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


@dataclass(frozen=True)
class Protocol:
    """Everything that decides what a number means, apart from the method itself."""

    name: str = "clean"
    split: SplitRule = SplitRule()
    duplicates: Literal["earliest", "keep"] = "earliest"
    # Which items may be drawn as negatives: all but the user's train items; all but everything the
    # user ever touched, which hides held-out items from training, the leak of the papers; or all
    # but the user's train items and the `unseen` ones, which are in nobody's train.
    negatives_exclude: Literal["train", "all", "unseen"] = "train"
    # What is taken out of the ranking: the user's own items of those parts, or all `others` than
    # the items of the held-out part (under a cold split: cold items are ranked among themselves).
    valid_mask: Literal["train", "others"] = "train"
    test_mask: Literal["train", "train+valid", "others"] = "train+valid"
    # In which order a method sees the train items of a person. `shuffled` is a control, which asks
    # what a number would be without order; `split.seed` draws it, and what is held out stays.
    history: Literal["in_order", "shuffled"] = added_later("in_order")
    sampled: int = 99  # candidates drawn once per user, from items the user never touched
    candidate_seed: int = 0
    ties: Literal["expected", "pessimistic"] = "expected"
    select_on: Literal["full", "sampled"] = "full"
    select_metric: str = "NDCG@10"
    select_of_equals: Literal["last", "first"] = "last"  # which of rounds with the same value
    # Whether the best round on validation is taken, or the last one, whatever validation says.
    select: Literal["best", "last"] = added_later("best")
    patience: int | None = None  # stop after so many rounds without a better validation value

    @property
    def is_clean(self) -> bool:
        return self.name == "clean"

    @property
    def keeps_clean(self) -> bool:
        """Whether the fields that make numbers honest have their clean values.

        How the split orders items, how many candidates are sampled and when to stop may differ.
        """
        masks = (self.valid_mask, self.test_mask)
        among_cold = self.split.is_cold and masks == ("others", "others")
        return (
            self.negatives_exclude == "train"
            and self.duplicates == "earliest"
            and self.history == "in_order"
            and (among_cold or masks == ("train", "train+valid"))
        )


CLEAN = Protocol()

PFEDREC = Protocol(
    name="pfedrec",
    duplicates="keep",
    negatives_exclude="all",
    ties="pessimistic",  # negatives are listed first, so a tie counts against the positive
    select_on="sampled",
    select_metric="HR@10",
)

FEDRKG = Protocol(
    name="fedrkg",
    duplicates="keep",
    negatives_exclude="all",
    select_on="full",
    select_metric="HR@10",
    patience=100,
)

FEDMR = Protocol(
    name="fedmr",
    split=SplitRule(kind="released"),
    duplicates="keep",
    negatives_exclude="unseen",
    test_mask="train",
    select_metric="HR@50",
    select_of_equals="first",  # a round is chosen when it is strictly better
    patience=20,
)

COLD_METRIC = "Recall@20+50+100"
COLD_SPLIT = SplitRule(kind="cold", valid_share=0.1, test_share=0.3)

MDIFFFR = Protocol(
    name="mdifffr",
    split=COLD_SPLIT,
    duplicates="keep",
    valid_mask="others",
    test_mask="others",
    select_metric=COLD_METRIC,
)

PROTOCOLS: dict[str, Protocol] = {p.name: p for p in (CLEAN, PFEDREC, FEDRKG, FEDMR, MDIFFFR)}


def among_cold_items(protocol: Protocol) -> Protocol:
    """The protocol with a cold split: cold items of a part are ranked among themselves.

    >>> among_cold_items(CLEAN).keeps_clean, among_cold_items(CLEAN).test_mask
    (True, 'others')
    """
    return replace(
        protocol,
        split=COLD_SPLIT,
        valid_mask="others",
        test_mask="others",
        select_metric=COLD_METRIC,
    )
