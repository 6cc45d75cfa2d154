"""A dataset under a protocol: the part of each interaction, and the views made of the parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tacit import streams
from tacit.compiled import compiled
from tacit.data.by_time import (
    LATER,
    PASSED,
    POSITIONS,
    TEST,
    TRAIN,
    VALID,
    are_positions,
    by_global_time,
    share_of,
    timestamps,
)
from tacit.data.dataset import Dataset
from tacit.data.protocol import Protocol, SplitRule
from tacit.data.sampling import draw_candidates
from tacit.data.views import HeldOut, Lists, Split, TrainView
from tacit.errors import TacitError, argument, shown
from tacit.streams import SPLIT, draw_unit, stream_key

# Which part each interaction belongs to: train, validation or test.

SHORTEST = 3  # what a user needs to leave one interaction in each part


def part_of_rows(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """One part per interaction: 0 train, 1 validation, 2 test; 3 and 4 are in none of them.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 4, ["a", "b", "c", "d"], time=[1, 4, 3, 2])
    >>> part_of_rows(Dataset("few", rows), SplitRule()).tolist()
    [0, 2, 1, 0]
    """
    if not len(dataset.interactions):
        return np.zeros(0, np.int8)
    rule = resolved_split(rule, dataset)
    if rule.is_cold:
        return part_of_items(dataset, rule)[dataset.interactions.item_N]
    if rule.kind == "labels":
        return _predefined(dataset)
    if rule.kind == "leave_one_out":
        return _latest_held_out(dataset, _recency(dataset, rule), rule.ties, 0.0, 0.0)
    _check_shares(rule)
    if rule.kind == "ratio":
        recency_N = _random(dataset, rule.seed)
        return _latest_held_out(dataset, recency_N, rule.ties, rule.valid_share, rule.test_share)
    return by_global_time(dataset, rule)


def resolved_split(rule: SplitRule, dataset: Dataset) -> SplitRule:
    """The rule that splits this dataset: `released` is what its file makes of it, and an order by
    time, where there are no times but labels, is the labels.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], time=[1, 2, 3])
    >>> resolved_split(SplitRule(kind="released"), Dataset("few", rows)).kind
    'leave_one_out'
    >>> rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], label=[0, 1, 2])
    >>> resolved_split(SplitRule(), Dataset("few", rows)).kind
    'labels'
    """
    if rule.kind == "released":
        labelled = dataset.interactions.label_N is not None
        return replace(rule, kind="labels" if labelled else "leave_one_out")
    return replace(rule, kind="labels") if by_labels_instead(rule, dataset) else rule


def by_labels_instead(rule: SplitRule, dataset: Dataset) -> bool:
    """Whether the rule asks for each person's latest by time, and the file has labels instead.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], label=[0, 1, 2])
    >>> by_labels_instead(SplitRule(order="random"), Dataset("few", rows))
    False
    """
    rows = dataset.interactions
    latest = rule.kind == "leave_one_out" and rule.order == "time"
    return latest and rows.time_N is None and rows.label_N is not None


def _train_times(dataset: Dataset, part_N: np.ndarray) -> np.ndarray | None:
    """The time of each train entry, packed as the train items are; None where one is unknown.

    A source whose times are text, or missing in some rows, is as one without times: a history that
    is ordered in part by time and in part by chance would be worse than the order of the file.
    """
    rows = dataset.interactions
    time_N = rows.time_N
    if time_N is None or time_N.dtype.kind not in "iufM" or np.isnan(time_N).any():
        return None
    if time_N.dtype.kind in "uM":
        time_N = time_N.astype(np.int64)  # differences of times may be taken, dates are numbers
    user_N = rows.user_N[part_N == TRAIN]
    return time_N[part_N == TRAIN][np.argsort(user_N, kind="stable")]


def _predefined(dataset: Dataset) -> np.ndarray:
    label_N = dataset.interactions.label_N
    if label_N is None:
        raise TacitError(
            f"Dataset {dataset.name!r} has no predefined split labels; use "
            f"{argument('split', 'time')} or random, or name the label column of the file."
        )
    strange = np.flatnonzero((label_N < TRAIN) | (label_N > TEST))
    if len(strange):
        raise TacitError(
            f"Dataset {dataset.name!r} has the split label {label_N[strange[0]]} in row "
            f"{strange[0]}; use 0 for train, 1 for validation and 2 for test."
        )
    return label_N


def _recency(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """A number per interaction; the largest of a user is the latest."""
    rows = dataset.interactions
    if rule.order == "time":
        return timestamps(dataset)
    if rule.order == "random":
        return _random(dataset, rule.seed)
    if rule.order == "item_appearance":
        return rows.item_N
    return np.arange(len(rows))


def _latest_held_out(
    dataset: Dataset, recency_N: np.ndarray, ties: str, valid_share: float, test_share: float
) -> np.ndarray:
    """Hold out each user's latest rows: at least one per part, or nothing from short histories."""
    rows = dataset.interactions
    row_N = np.arange(len(rows))
    order = np.lexsort((row_N if ties == "last_row" else -row_N, recency_N, rows.user_N))
    size_U = np.bincount(rows.user_N, minlength=rows.n_users)
    test_U = np.minimum(share_of(size_U, test_share), size_U - 2)
    valid_U = np.minimum(share_of(size_U, valid_share), size_U - 1 - test_U)
    long_N = (size_U >= SHORTEST)[rows.user_N]
    from_end_N = np.empty(len(rows), np.int64)
    from_end_N[order] = np.cumsum(size_U)[rows.user_N[order]] - 1 - row_N
    part_N = np.full(len(rows), TRAIN, np.int8)
    part_N[long_N & (from_end_N < (valid_U + test_U)[rows.user_N])] = VALID
    part_N[long_N & (from_end_N < test_U[rows.user_N])] = TEST
    return part_N


def _check_shares(rule: SplitRule) -> None:
    valid, test = rule.valid_share, rule.test_share
    if not (valid > 0 and test > 0 and valid + test < 1):
        raise TacitError(
            f"The shares of validation ({valid}) and test ({test}) make no sense; both must be "
            "above 0 and together below 1, so that something is left to train on."
        )


@compiled(error_model="numpy")
def _fill_random(seed, user_N, user_key_U, out_N):  # type: ignore[no-untyped-def]
    n_seen_U = np.zeros(len(user_key_U), np.int64)
    for row in range(len(user_N)):
        user = user_N[row]
        key = stream_key(seed, SPLIT, 0, user_key_U[user])
        out_N[row] = draw_unit(key, n_seen_U[user])
        n_seen_U[user] += 1


def _random(dataset: Dataset, seed: int) -> np.ndarray:
    """A random number per interaction, from the user's own stream: order of users is nothing."""
    rows = dataset.interactions
    random_N = np.empty(len(rows), np.float64)
    _fill_random(seed, np.ascontiguousarray(rows.user_N), rows.user_key_U, random_N)
    return random_N


# A cold split parts the items: whoever is held out has been touched by nobody in training.


def part_of_items(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """One part per item: 0 train (warm), 1 validation, 2 test (cold); every interaction follows.

    An item's place depends on its id and the seed alone, not on the order of the file.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 10, list("abcdefghij"))
    >>> rule = SplitRule("cold", valid_share=0.1, test_share=0.3)
    >>> np.bincount(part_of_items(Dataset("few", rows), rule)).tolist()
    [6, 1, 3]
    """
    if rule.kind == "cold_published":
        if dataset.cold_part_I is None:
            raise TacitError(
                f"Dataset {dataset.name!r} has no published split of its items; use "
                f"{argument('split', 'cold')}."
            )
        return dataset.cold_part_I
    valid, test = rule.valid_share, rule.test_share
    if not (valid > 0 and test > 0 and valid + test < 1):
        raise TacitError(
            f"The shares of validation ({valid}) and test ({test}) items make no sense; both must "
            "be above 0 and together below 1, so that some items stay warm."
        )
    items = dataset.interactions.items
    name_I = np.array([streams.name_of(item) for item in items], dtype=np.uint64)
    draw_I = streams.uniforms(rule.seed, streams.SPLIT, 1, name_I, 1)[:, 0]
    order = np.argsort(draw_I, kind="stable")
    n_test, n_valid = round(len(items) * test), round(len(items) * valid)
    part_I = np.zeros(len(items), np.int8)
    part_I[order[:n_test]] = 2
    part_I[order[n_test : n_test + n_valid]] = 1
    return part_I


# A dataset under a protocol becomes a train view and two held-out views.
#
# Views, masks, pools and candidates follow from the part of each interaction alone, whatever rule
# made the parts. The train view is built without looking at the held-out parts, unless the protocol
# says by name that its negatives must avoid them.

FEWEST_EVALUATED = 20  # people: with fewer, one person moves every number by more than 5 %
BY_LABELS = (
    "The file has a split label and no timestamps, so the labels are the split (0 train, 1 "
    "validation, 2 test); --split random, row or item_appearance parts it otherwise."
)
SHUFFLED = (
    "Control: the order inside each train history was shuffled, so no number here owes anything to "
    "order; held-out items are the true ones."
)
MOST_SAMPLED = 1_000_000  # candidates per user
MOST_HIDDEN = 50_000_000  # 400 MB: what lists of unseen items, one per user, may take


def split_dataset(
    dataset: Dataset,
    protocol: Protocol,
    part_N: np.ndarray | None = None,
    *,
    nobody_evaluated: Literal["refuse", "accept"] = "refuse",
) -> Split:
    """The views of `dataset` under `protocol`, and the counts that a report prints; `part_N` are
    the parts of its interactions where they are known already. A device has too few people to
    refuse data of which nobody can be evaluated.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 4, ["a", "b", "c", "d"], time=[1, 4, 3, 2])
    >>> split = split_dataset(Dataset("few", rows), Protocol())
    >>> split.train.positives[0].tolist(), split.valid.relevant[0].tolist()
    ([0, 3], [2])
    >>> split.test.relevant[0].tolist(), split.test.masked[0].tolist()
    ([1], [0, 2, 3])
    """
    rows = dataset.interactions
    n_items, n_users = rows.n_items, rows.n_users
    if not 0 <= protocol.sampled <= MOST_SAMPLED:
        raise TacitError(
            f"sampled is {shown(protocol.sampled)}; use 0 or more candidates per user, and at most "
            f"{MOST_SAMPLED}."
        )
    if part_N is None:
        part_N = part_of_rows(dataset, protocol.split)
    train, valid, test, passed, later = (
        Lists.from_pairs(rows.user_N[part_N == part], rows.item_N[part_N == part], n_users)
        for part in (TRAIN, VALID, TEST, PASSED, LATER)
    )
    left_out = distinct(n_items, passed, later)
    # A person without train interactions has nothing to learn from: counted, not evaluated.
    trained_U = train.size_U > 0
    in_valid_U, in_test_U = trained_U & (valid.size_U > 0), trained_U & (test.size_U > 0)
    if nobody_evaluated == "refuse":
        _refuse_empty(dataset, protocol, in_valid_U, in_test_U)
    if not protocol.split.is_cold and "others" in (protocol.valid_mask, protocol.test_mask):
        raise TacitError(
            "Ranking held-out items among themselves makes sense where nobody has touched them; "
            f"use {argument('split', 'cold')}, or mask 'train'."
        )
    if protocol.duplicates == "earliest":
        _refuse_overlap(dataset, train, valid, test)

    hidden = Lists.empty(n_users)
    if protocol.negatives_exclude == "all":
        hidden = distinct(n_items, valid, test, left_out)
    elif protocol.negatives_exclude == "unseen":
        hidden = _unseen_for_all(dataset, train)
    valid_mask = distinct(n_items, train)
    test_mask = distinct(n_items, train, valid, passed)
    if protocol.test_mask == "train":
        test_mask = valid_mask
    touched = distinct(n_items, train, valid, test, left_out)
    sampled_valid, sampled_test = draw_candidates(
        touched,
        in_valid_U | in_test_U,
        rows.user_key_U,
        n_items,
        protocol.sampled,
        protocol.candidate_seed,
    )
    held_valid = _held_out("valid", n_items, in_valid_U, valid, valid_mask, sampled_valid)
    held_test = _held_out("test", n_items, in_test_U, test, test_mask, sampled_test)
    warm_W = None
    if protocol.split.is_cold:
        part_I = part_of_items(dataset, protocol.split)
        warm_W = np.flatnonzero(part_I == TRAIN)
        if protocol.valid_mask == "others":
            among = (np.flatnonzero(part_I == VALID), touched, rows.user_key_U, protocol)
            held_valid = _among_themselves(held_valid, *among)
        if protocol.test_mask == "others":
            among = (np.flatnonzero(part_I == TEST), touched, rows.user_key_U, protocol)
            held_test = _among_themselves(held_test, *among)
    rule = resolved_split(protocol.split, dataset)
    counts = {
        "users": n_users,
        "items": n_items,
        "train": len(train.item_N),
        "valid": len(valid.item_N),
        "test": len(test.item_N),
        "evaluated_users": len(held_test.user_E),
        "users_too_short": _n_too_short(rule, train, valid, test),
        "users_without_train": int((~trained_U).sum()),
        "unseen_test_items": len(np.setdiff1d(test.item_N, train.item_N)),
        "masked_test_items": n_repeated(n_items, held_test.relevant, held_test.masked),
        "users_with_latest_tied": _n_latest_tied(dataset),
    }
    if warm_W is not None:
        counts |= {"warm_items": len(warm_W), "cold_test_items": int((part_I == TEST).sum())}
    if rule.holds_out_first:
        counts["left_out"] = len(passed.item_N) + len(later.item_N)
    view = TrainView(
        n_items,
        train,
        rows.user_key_U,
        hidden,
        dataset.modalities,
        warm_W,
        rows.item_key_I,
        _train_times(dataset, part_N),
        protocol.split.ties,
    )
    if protocol.history == "shuffled":
        view = view.shuffled(protocol.split.seed)
    return Split(view, held_valid, held_test, counts, left_out)


def cautions(dataset: Dataset, protocol: Protocol, split: Split) -> tuple[str, ...]:
    """What a reader of results must know of the split itself.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 3, ["a", "b", "c"], time=[1, 2, 3])
    >>> few = Dataset("few", rows)
    >>> cautions(few, Protocol(), split_dataset(few, Protocol()))[0][:43]
    'Only 1 person can be evaluated on the test:'
    """
    notes = []
    if by_labels_instead(protocol.split, dataset):
        notes.append(BY_LABELS)
    if protocol.history == "shuffled":
        notes.append(SHUFFLED)
    if protocol.split.kind == "global_time" and are_positions(dataset.interactions):
        notes.append(POSITIONS)
    if few := few_evaluated(split.counts["evaluated_users"]):
        notes.append(few)
    return tuple(notes)


def few_evaluated(users: int) -> str | None:
    """The caution that stands beside numbers over very few people.

    >>> few_evaluated(20) is None
    True
    """
    if users >= FEWEST_EVALUATED:
        return None
    people = "1 person" if users == 1 else f"{users} people"
    return (
        f"Only {people} can be evaluated on the test: a single one moves every share by "
        f"{1 / users:.0%}, so differences between methods mean little; use data with at least "
        f"{FEWEST_EVALUATED}."
    )


def distinct(n_items: int, *parts: Lists) -> Lists:
    """The distinct items of each user over some parts, in order of code.

    >>> one = Lists.from_pairs(np.array([0, 0, 1]), np.array([5, 3, 4]), n_lists=2)
    >>> two = Lists.from_pairs(np.array([0, 0]), np.array([3, 1]), n_lists=2)
    >>> distinct(6, one, two)[0].tolist()
    [1, 3, 5]
    """
    pair_N = np.sort(np.concatenate([_pairs(n_items, lists) for lists in parts]))
    pair_N = pair_N[np.append(True, pair_N[1:] != pair_N[:-1])[: len(pair_N)]]
    return Lists.from_pairs(pair_N // n_items, pair_N % n_items, len(parts[0]))


def n_repeated(n_items: int, *parts: Lists) -> int:
    """How many (list, item) pairs stand in more than one part, counted once per further part.

    >>> one = Lists.from_pairs(np.array([0, 0, 1]), np.array([5, 3, 4]), n_lists=2)
    >>> n_repeated(6, one, Lists.from_pairs(np.array([0, 1]), np.array([3, 5]), n_lists=2))
    1
    """
    each = sum(len(distinct(n_items, lists).item_N) for lists in parts)
    return each - len(distinct(n_items, *parts).item_N)


def _pairs(n_items: int, lists: Lists) -> np.ndarray:
    """Each (list, item) pair as one number."""
    return np.repeat(np.arange(len(lists)), lists.size_U) * n_items + lists.item_N


def _held_out(
    part: Literal["valid", "test"],
    n_items: int,
    evaluated_U: np.ndarray,
    lists: Lists,
    mask: Lists,
    sampled: Lists,
) -> HeldOut:
    user_E = np.flatnonzero(evaluated_U)
    # A held-out item that is also in train (kept duplicates) stays masked: it cannot be hit.
    relevant = distinct(n_items, lists).take(user_E)
    return HeldOut(part, n_items, user_E, relevant, mask.take(user_E), sampled.take(user_E))


def _among_themselves(
    held_out: HeldOut,
    item_C: np.ndarray,
    touched: Lists,
    user_key_U: np.ndarray,
    protocol: Protocol,
) -> HeldOut:
    """The held-out part with its own items as the only candidates, sampled ones included."""
    evaluated_U = np.zeros(len(touched), bool)
    evaluated_U[held_out.user_E] = True
    sampled, _ = draw_candidates(
        touched.within(item_C),
        evaluated_U,
        user_key_U,
        len(item_C),
        protocol.sampled,
        protocol.candidate_seed,
    )
    sampled = Lists(sampled.start_U1, item_C[sampled.item_N]).take(held_out.user_E)
    nothing = Lists.empty(len(held_out.user_E))
    return replace(held_out, masked=nothing, sampled=sampled, among_C=item_C)


def _unseen_for_all(dataset: Dataset, train: Lists) -> Lists:
    """The items in nobody's train, as everybody's list."""
    n_items, n_users = dataset.interactions.n_items, len(train)
    unseen = np.setdiff1d(np.arange(n_items), train.item_N)
    if n_users * len(unseen) > MOST_HIDDEN:
        raise TacitError(
            f"Hiding the {len(unseen)} items of dataset {dataset.name!r} that are in nobody's "
            f"train from each of {n_users} users takes more than {MOST_HIDDEN} entries; use "
            "negatives_exclude 'train', or keep fewer items."
        )
    start_U1 = np.arange(n_users + 1, dtype=np.int64) * len(unseen)
    return Lists(start_U1, np.tile(unseen, n_users))


def _n_too_short(rule: SplitRule, train: Lists, valid: Lists, test: Lists) -> int:
    """Users with fewer interactions than the split needs of them."""
    if rule.holds_out_first:
        past_U = train.size_U + (valid.size_U if rule.validation == "latest" else 0)
        return int((past_U < rule.min_history).sum())
    needs_three = rule.kind in ("leave_one_out", "ratio")
    return int((train.size_U + valid.size_U + test.size_U < SHORTEST).sum()) if needs_three else 0


def _n_latest_tied(dataset: Dataset) -> int:
    """Users whose latest timestamp stands on several rows: there a tie rule decides."""
    rows = dataset.interactions
    if rows.time_N is None or not len(rows):
        return 0
    order = np.lexsort((rows.time_N, rows.user_N))
    user_N, time_N = rows.user_N[order], rows.time_N[order]
    last_N = np.append(user_N[1:] != user_N[:-1], True)
    tied_N = np.append(False, (user_N[1:] == user_N[:-1]) & (time_N[1:] == time_N[:-1]))
    return int((last_N & tied_N).sum())


def _refuse_empty(
    dataset: Dataset, protocol: Protocol, in_valid_U: np.ndarray, in_test_U: np.ndarray
) -> None:
    rule = resolved_split(protocol.split, dataset)
    past = f"{rule.min_history} or more items before" if rule.holds_out_first else "a train"
    for name, evaluated_U in (("validation", in_valid_U), ("test", in_test_U)):
        if not evaluated_U.any():
            raise TacitError(
                f"Nobody is left to evaluate: under the split {rule.kind!r} none of the "
                f"{len(evaluated_U)} users of dataset {dataset.name!r} has both {past} and a "
                f"{name} interaction; use longer histories or another split."
            )


def _refuse_overlap(dataset: Dataset, *parts: Lists) -> None:
    n_twice = n_repeated(dataset.interactions.n_items, *parts)
    if n_twice:
        raise TacitError(
            f"In dataset {dataset.name!r} {n_twice} pairs of user and item stand in two parts of "
            "the split; keep only the earliest of repeated interactions, or use a protocol that "
            "keeps duplicates and counts them as misses."
        )
