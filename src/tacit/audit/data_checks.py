"""Checks of the split alone: pairs that stand in two parts, and times that decide nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tacit.audit.finding import Finding, Verdict, does_not_apply
from tacit.audit.subject import Subject
from tacit.audit.swap import of_all_users
from tacit.data.interactions import Interactions
from tacit.data.parts import settled
from tacit.data.split import n_repeated, split_dataset
from tacit.evaluation.candidates import Candidates
from tacit.evaluation.references import popularity
from tacit.experiment.amounts import metric_text as m4

CEILING = 0.99  # a ceiling below this is flagged, a few lost users are only noted


def repeats(subject: Subject) -> Finding:
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
    says = "No (user, item) pair stands in two parts."
    if lost:
        says = (
            f"{lost} of {subject.users} users have only test items that are already among their "
            f"own masked items, so no method can exceed HR@10 {m4(ceiling)} in the full ranking; "
            "against sampled items the same repeats are easy hits."
        )
    elif elsewhere:
        says = f"{elsewhere} pairs stand in two parts, but every user can still be hit."
    return Finding(
        "repeated pairs", verdict, says, numbers, f"ceiling {m4(ceiling)}", "ceiling 1.0000"
    )


def tied_times(subject: Subject) -> Finding:
    """How many users' test item was decided by the order of rows, since their times are equal."""
    name, dataset = "tied times", subject.prepared.dataset
    protocol = subject.experiment.protocol
    rule, data = settled(protocol.split, dataset), dataset.interactions
    if rule.kind != "leave_one_out" or rule.order != "time" or data.time_N is None:
        by = rule.order if rule.kind == "leave_one_out" else rule.kind
        return does_not_apply(name, f"the split is by {by}, and no single time decides it")
    tied = int(tied_users(data)[subject.split.test.user_E].sum())
    share = tied / subject.users
    if not tied:
        return Finding(
            name, "pass", "Every user's latest time is of one item.", {"share": 0.0}, "0.0%", ""
        )
    other: Literal["first_row", "last_row"] = (
        "last_row" if rule.ties == "first_row" else "first_row"
    )
    turned = replace(protocol, split=replace(rule, ties=other))
    counted = {
        ties: subject.hits(popularity(split.train, split.test).full)
        for ties, split in ((rule.ties, subject.split), (other, split_dataset(dataset, turned)))
    }
    says = (
        f"For {tied} of {subject.users} users ({share:.1%}) several items share the latest time, "
        f"and the rule {rule.ties} chose the test item; popularity has HR@10 "
        f"{m4(counted[rule.ties])} by this rule and {m4(counted[other])} by {other}."
    )
    numbers = {
        "users": tied,
        "share": share,
        **{f"popularity, {ties}": value for ties, value in counted.items()},
    }
    return Finding(name, "note", says, numbers, f"{share:.1%} of users", "")


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
