"""Checks that train nothing: of the parts of a split, of its times, of the drawn negatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tacit.audit.subject import AuditFinding, Subject, Verdict, does_not_apply, of_all_users
from tacit.data.by_time import tied_first
from tacit.data.interactions import Interactions
from tacit.data.split import distinct, n_repeated, part_of_rows, resolved_split, split_dataset
from tacit.evaluation import references
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranks import Candidates
from tacit.evaluation.references import popularity
from tacit.experiment.amounts import metric_text as m4

# Checks of the split alone: pairs that stand in two parts, and times that decide nothing.

CEILING = 0.99  # a ceiling below this is flagged, a few lost users are only noted


def repeats(subject: Subject) -> AuditFinding:
    """(user, item) pairs in two parts: a test item that is masked can never be hit."""
    split, n_items = subject.split, subject.split.train.n_items
    candidates = Candidates.of(split.test)
    found_E = np.bincount(candidates.list_H, weights=~candidates.missed_H, minlength=subject.users)
    ceiling = float((found_E > 0).mean())
    train, users = split.train.positives, split.train.n_users
    valid, test = of_all_users(split.valid, users), of_all_users(split.test, users)
    numbers: dict[str, float | int] = {
        "ceiling": ceiling,
        "users who cannot hit": int((found_E == 0).sum()),
        "pairs in train and test": n_repeated(n_items, train, test),
        "pairs in validation and test": n_repeated(n_items, valid, test),
        "pairs in train and validation": n_repeated(n_items, train, valid),
    }
    lost = numbers["users who cannot hit"]
    elsewhere = sum(value for key, value in numbers.items() if key.startswith("pairs"))
    verdict: Verdict = "FLAG" if ceiling < CEILING else "note" if elsewhere else "pass"
    text = "No (user, item) pair stands in two parts."
    if lost:
        text = (
            f"{lost} of {subject.users} users have only test items that are already among their "
            f"own masked items, so no method can exceed HR@10 {m4(ceiling)} in the full ranking; "
            "against sampled items the same repeats are easy hits."
        )
    elif elsewhere:
        text = f"{elsewhere} pairs stand in two parts, but every user can still be hit."
    return AuditFinding(
        "repeated pairs", verdict, text, numbers, f"ceiling {m4(ceiling)}", "ceiling 1.0000"
    )


def tied_times(subject: Subject) -> AuditFinding:
    """How many users' test item was decided by the order of rows, since their times are equal."""
    name, dataset = "tied times", subject.prepared.dataset
    protocol = subject.experiment.protocol
    rule, data = resolved_split(protocol.split, dataset), dataset.interactions
    by_time = rule.kind == "leave_one_out" and rule.order == "time"
    if data.time_N is None or not (by_time or rule.holds_out_first):
        by = rule.order if rule.kind == "leave_one_out" else rule.kind
        return does_not_apply(name, f"the split is by {by}, and no single time decides it")
    tied_U = tied_users(data) if by_time else tied_first(data, part_of_rows(dataset, rule))
    tied = int(tied_U[subject.split.test.user_E].sum())
    which = "latest time" if by_time else "first time after the cut"
    share = tied / subject.users
    if not tied:
        return AuditFinding(
            name, "pass", f"Every user's {which} is of one item.", {"share": 0.0}, "0.0%", ""
        )
    other: Literal["first_row", "last_row"] = (
        "last_row" if rule.ties == "first_row" else "first_row"
    )
    turned = replace(protocol, split=replace(rule, ties=other))
    counted = {
        ties: subject.hits(popularity(split.train, split.test).full)
        for ties, split in ((rule.ties, subject.split), (other, split_dataset(dataset, turned)))
    }
    text = (
        f"For {tied} of {subject.users} users ({share:.1%}) several items share the {which}, "
        f"and the rule {rule.ties} chose the test item; popularity has HR@10 "
        f"{m4(counted[rule.ties])} by this rule and {m4(counted[other])} by {other}."
    )
    numbers = {
        "users": tied,
        "share": share,
        **{f"popularity, {ties}": value for ties, value in counted.items()},
    }
    return AuditFinding(name, "note", text, numbers, f"{share:.1%} of users", "")


def tied_users(data: Interactions) -> np.ndarray:
    """Users with several distinct items at their latest time; rows of one item are no tie.

    >>> rows = Interactions.from_ids("aaabb", "xyzxx", time=[1, 2, 2, 5, 5])
    >>> tied_users(rows).tolist()
    [True, False]
    """
    assert data.time_N is not None
    order = np.lexsort((data.time_N, data.user_N))
    last_U = np.cumsum(np.bincount(data.user_N, minlength=data.n_users)) - 1
    at_latest_N = data.time_N == data.time_N[order[last_U]][data.user_N]
    pair_N = np.unique(data.user_N[at_latest_N] * data.n_items + data.item_N[at_latest_N])
    return np.asarray(np.bincount(pair_N // data.n_items, minlength=data.n_users) > 1)


# Checks of the negatives that were drawn: nothing is trained, the draws are only repeated.

LIMIT = 3.89  # standard deviations: beyond them, on one side, once in 20,000 honest audits


def never_sampled(subject: Subject) -> AuditFinding:
    """HR@10 of an order that learns nothing: what was never drawn as a negative stands first."""
    name = "never-sampled oracle"
    if subject.sampling is None:
        return does_not_apply(name, "the method draws no negatives")
    ranks = references.never_sampled(subject.drawn, subject.split.test, subject.threads)
    hit, honest = metric(ranks.full, "HR@10"), subject.bound(subject.chance)
    rounds = subject.experiment.rounds
    flagged = hit > honest
    text = (
        f"An order that puts what was never drawn in {rounds} round(s) first, and learns nothing, "
        f"has HR@10 {m4(hit)}; chance is {m4(subject.chance)}"
    )
    if flagged:
        text += ": the draws alone give test items away."
    elif subject.split.train.leaks:
        text += ": the pool hides items, but so few rounds do not show it yet."
    else:
        text += ": the draws give nothing away."
    return AuditFinding(
        name,
        "FLAG" if flagged else "pass",
        text,
        {
            "HR@10": hit,
            "NDCG@10": metric(ranks.full, "NDCG@10"),
            "HR@10 vs sampled": metric(ranks.sampled, "HR@10"),
            "chance": subject.chance,
            "bound": honest,
            "rounds": rounds,
        },
        m4(hit),
        f"≤ {m4(honest)}",
    )


def drawn_less(subject: Subject) -> AuditFinding:
    """Are held-out items drawn as negatives as often as the other items outside train?

    If the draws do not know them, a user's held-out items are any of the items outside that user's
    train: the sum of their counts then has a known mean and variance, exactly.
    """
    name = "draws of held-out items"
    if subject.sampling is None:
        return does_not_apply(name, "the method draws no negatives")
    train, n_users = subject.split.train, subject.split.train.n_users
    test = of_all_users(subject.split.test, n_users)
    held_out = distinct(train.n_items, of_all_users(subject.split.valid, n_users), test)
    rounds = subject.experiment.rounds
    # how many items were drawn in 0, 1, 2, ... rounds, over all users
    held_R, others_R = np.zeros(rounds + 1, np.int64), np.zeros(rounds + 1, np.int64)
    surprise, variance = 0.0, 0.0
    checked = np.flatnonzero((held_out.size_U > 0) & (train.positives.size_U > 0))
    for user, count_I in subject.rounds_drawn(checked):
        outside_I = np.ones(train.n_items, bool)
        outside_I[train.positives[user]] = False
        is_held_I = np.zeros(train.n_items, bool)
        is_held_I[held_out[user]] = True
        own, every = count_I[is_held_I & outside_I], count_I[outside_I]
        held_R += np.bincount(own, minlength=rounds + 1)
        others_R += np.bincount(count_I[outside_I & ~is_held_I], minlength=rounds + 1)
        surprise += float(own.sum() - len(own) * every.mean()) if len(own) else 0.0
        if len(every) > 1:
            spare = (len(every) - len(own)) / (len(every) - 1)
            variance += len(own) * float(every.var()) * spare
    if not held_R.any() or not others_R.any():
        return does_not_apply(name, "every held-out item is also in train, or nothing else is")
    deviations = surprise / variance**0.5 if variance > 0 else 0.0
    flagged = deviations < -LIMIT
    mean_own, mean_other = (
        float(n_R @ np.arange(len(n_R)) / n_R.sum()) for n_R in (held_R, others_R)
    )
    never_own, never_other = (float(n_R[0] / n_R.sum()) for n_R in (held_R, others_R))
    text = (
        f"Of {rounds} round(s) {mean_own:.3g} on average drew a held-out item, and "
        f"{mean_other:.3g} another item outside train ({deviations:+.1f} standard deviations); "
        f"{never_own:.1%} of the former and {never_other:.1%} of the latter were never drawn"
    )
    text += ": the pool avoids held-out items." if flagged else "."
    return AuditFinding(
        name,
        "FLAG" if flagged else "pass",
        text,
        {
            "mean rounds, held out": mean_own,
            "mean rounds, others": mean_other,
            "standard deviations": deviations,
            "never drawn, held out": never_own,
            "never drawn, others": never_other,
            "histogram": histogram(held_R, others_R),
        },
        f"{mean_own:.3g} of {rounds} rounds",
        f"≈ {mean_other:.3g}",
    )


def histogram(held_R: np.ndarray, others_R: np.ndarray) -> list[dict[str, str | float]]:
    """Shares of both kinds of items by how many rounds drew them; bins double in width. Given is
    how many items were drawn in 0, 1, 2, ... rounds.

    >>> histogram(np.array([2, 1, 0, 0]), np.array([1, 0, 1, 2]))[0]
    {'rounds': '0', 'held out': 0.6666666666666666, 'others': 0.25}
    >>> [row["rounds"] for row in histogram(np.array([1]), np.eye(8, dtype=int)[7])]
    ['0', '1', '2-3', '4-7']
    """
    most = max(int(np.flatnonzero(n_R)[-1]) for n_R in (held_R, others_R))
    rows: list[dict[str, str | float]] = []
    for number in range(1 + most.bit_length()):
        first, last = (2 ** (number - 1), 2**number - 1) if number else (0, 0)
        held, others = (float(n[first : last + 1].sum() / n.sum()) for n in (held_R, others_R))
        label = str(first) if first == last else f"{first}-{last}"
        rows.append({"rounds": label, "held out": held, "others": others})
    return rows
