"""Checks of order: what a score owes to it, and how much of it people have in common.

A method that reads the order of histories may learn what a person wants next. It may also learn in
which order a site showed its items to everybody. The first check trains without order, the second
compares neighbours in the histories of different people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.audit.subject import AuditFinding, Subject, Verdict, does_not_apply
from tacit.data.views import Histories, Lists, TrainView
from tacit.evaluation.metrics import per_user
from tacit.evaluation.significance import paired_bootstrap
from tacit.experiment.amounts import metric_text as m4

# What the score would be without order.


def shuffled_order(subject: Subject) -> AuditFinding:
    """The method once more, with the order inside each train history shuffled.

    The held-out item stays the true one, and so does everything that is drawn.
    """
    name = "order shuffled"
    if not subject.algorithm.reads_order:
        return does_not_apply(name, "the method does not look at the order of a history")
    if subject.split.train.shuffle_N is not None:
        return does_not_apply(name, "histories are shuffled already")
    ties = subject.experiment.protocol.ties
    true, other = subject.outcome("audited").test.full, subject.without_order().test.full
    numbers: dict[str, float] = {}
    for metric in ("HR@10", "NDCG@10"):
        with_U, without_U = (per_user(ranks, metric, ties)[1] for ranks in (true, other))
        gain = paired_bootstrap(with_U, without_U, seed=subject.experiment.seed)
        numbers |= {
            metric: float(with_U.mean()),
            f"{metric}, shuffled": float(without_U.mean()),
            f"{metric}, gain": gain.difference,
            f"{metric}, gain from": gain.low,
            f"{metric}, gain to": gain.high,
            f"{metric}, p-value": gain.p_value,
        }
    tied = tied_with_neighbour(subject.split.train.histories)
    if tied:
        no_rows = subject.without_order(ties_only=True).test.full
        numbers |= {"tied with a neighbour": tied, "HR@10, ties at random": subject.hits(no_rows)}
    low, high = numbers["HR@10, gain from"], numbers["HR@10, gain to"]
    text = (
        f"HR@10 is {m4(numbers['HR@10'])} with the true order and "
        f"{m4(numbers['HR@10, shuffled'])} with the order inside each history shuffled: order "
        f"gives {numbers['HR@10, gain']:+.4f} (95% interval {low:+.4f} to {high:+.4f})"
    )
    if low > 0:
        text += "."
    elif high < 0:
        text += ", so the method is better without it."
    else:
        text += ", which cannot be told from nothing."
    if tied:
        text += (
            f" {tied:.1%} of interactions have the exact time of a neighbour; with those in random "
            f"order it is {m4(numbers['HR@10, ties at random'])}, so that no row of a file decides."
        )
    return AuditFinding(
        name,
        "note",
        text,
        numbers,
        f"{m4(numbers['HR@10'])}, shuffled {m4(numbers['HR@10, shuffled'])}",
    )


# How much of the order people have in common.

MORE_OFTEN = 2.0  # times as often as in shuffled histories: from here on the check speaks
LIMIT = 3.89  # standard deviations, as for the draws: a few common neighbours are chance
SHUFFLES = 3  # of which the mean is what histories without order have


@dataclass(frozen=True)
class CommonNeighbours:
    """How often the same two items follow each other in the histories of two people.

    >>> CommonNeighbours(found=6, shuffled=2.0, tied=0.5, untied=3).ratio
    3.0
    """

    found: int
    shuffled: float  # the mean over histories in random order
    tied: float | None  # the share of interactions with the time of a neighbour; None: no times
    untied: int | None  # the same count with tied interactions in random order

    @classmethod
    def of(cls, train: TrainView) -> CommonNeighbours:
        found = n_common(train.histories.items)
        drawn = [n_common(train.shuffled(seed).histories.items) for seed in range(SHUFFLES)]
        tied = untied = None
        if train.time_N is not None and train.shuffle_N is None:
            tied = tied_with_neighbour(train.histories)
            untied = n_common(train.ties_shuffled(0).histories.items)
        return cls(found, float(np.mean(drawn)), tied, untied)

    @property
    def ratio(self) -> float:
        return self.found / max(self.shuffled, 1.0)

    @property
    def ratio_untied(self) -> float | None:
        return None if self.untied is None else self.untied / max(self.shuffled, 1.0)


def neighbours(subject: Subject) -> AuditFinding:
    """Do the same two items follow each other for many people, more than without order?"""
    name, train = "common neighbours", subject.split.train
    if train.n_users < 2 or not (train.histories.items.size_U > 1).any():
        return does_not_apply(name, "no two histories have neighbours")
    counted = CommonNeighbours.of(train)
    found, expected, ratio = counted.found, counted.shuffled, counted.ratio
    common = ratio >= MORE_OFTEN and found - expected > LIMIT * max(expected, 1.0) ** 0.5
    numbers: dict[str, float | int] = {
        "common neighbours": found,
        "common neighbours, shuffled": expected,
        "ratio": ratio,
    }
    text = (
        f"Over all pairs of people the same two items follow each other {found:,} times, "
        f"{ratio:.1f} times as often as in shuffled histories ({expected:,.0f})"
    )
    if common:
        text += (
            ": people share an order, such as the one in which a site shows its items. A gain from "
            "order is in part knowledge of that"
        )
    else:
        text += ": people share no order worth a word"
    tied, untied = counted.tied, counted.ratio_untied
    if tied is not None and untied is not None:
        numbers |= {"tied with a neighbour": tied, "ratio, ties at random": untied}
        text += f"; {tied:.1%} of interactions have the exact time of a neighbour"
        if tied:
            text += f", and with those in random order it is {untied:.1f} times"
        if common and excess(untied) < excess(ratio) / 2:
            text += (
                ". Most of it is the order of rows in the file, which decides between equal times"
            )
    elif train.shuffle_N is None:
        text += "; there are no times, so this is the order of the file"
    verdict: Verdict = "note" if common else "pass"
    return AuditFinding(name, verdict, f"{text}.", numbers, f"{ratio:.1f} times", "≈ 1.0 times")


def excess(ratio: float) -> float:
    """By how much something is more frequent than without order.

    >>> excess(3.0), excess(0.9)
    (2.0, 0.0)
    """
    return max(ratio - 1.0, 0.0)


def n_common(items: Lists) -> int:
    """How many times two people have the same item directly after the same other item.

    A step that c people have counts once for each two of them, c (c - 1) / 2 times; one that a
    person has twice is one.

    >>> both = Lists(np.array([0, 3, 6]), np.array([5, 7, 9, 5, 7, 8]))  # 5 -> 7 in both
    >>> n_common(both)
    1
    """
    user_N, item_N = items.list_N, items.item_N
    step_N = (user_N[1:] == user_N[:-1]) & (item_N[1:] != item_N[:-1])
    n_items, n_users = int(item_N.max(initial=0)) + 1, len(items)
    code_N = item_N[:-1][step_N] * n_items + item_N[1:][step_N]
    own_N = np.sort(code_N * n_users + user_N[1:][step_N])
    own_N = own_N[np.append(True, own_N[1:] != own_N[:-1])[: len(own_N)]] // n_users
    first_S = np.flatnonzero(np.append(True, own_N[1:] != own_N[:-1])[: len(own_N)])
    people = np.diff(np.append(first_S, len(own_N)))
    return int((people * (people - 1) // 2).sum())


def tied_with_neighbour(histories: Histories) -> float:
    """The share of interactions whose time is that of the one before or after them.

    >>> items = Lists(np.array([0, 4]), np.arange(4))
    >>> tied_with_neighbour(Histories(items, np.array([1, 2, 2, 3])))
    0.5
    """
    user_N, time_N = histories.items.list_N, histories.time_N
    if time_N is None or not len(time_N):
        return 0.0
    equal_N = (user_N[1:] == user_N[:-1]) & (time_N[1:] == time_N[:-1])
    tied_N = np.append(equal_N, False) | np.insert(equal_N, 0, False)
    return float(tied_N.mean())
