"""Checks of the negatives that were drawn: nothing is trained, the draws are only repeated."""

from __future__ import annotations

import numpy as np

from tacit.audit.finding import Finding, does_not_apply
from tacit.audit.subject import Subject
from tacit.audit.swap import of_all_users
from tacit.data.split import distinct
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import never_sampled_scores
from tacit.experiment.amounts import metric_text as m4

LIMIT = 3.89  # standard deviations: beyond them, on one side, once in 20,000 honest audits


def never_sampled(subject: Subject) -> Finding:
    """HR@10 of an order that learns nothing: what was never drawn as a negative stands first."""
    name = "never-sampled oracle"
    if subject.sampling is None:
        return does_not_apply(name, "the method draws no negatives")
    ranks = rank(never_sampled_scores(subject.rounds_drawn_UI), subject.split.test)
    hit, honest = metric(ranks.full, "HR@10"), subject.bound(subject.chance)
    rounds = subject.experiment.rounds
    flagged = hit > honest
    says = (
        f"An order that puts what was never drawn in {rounds} round(s) first, and learns nothing, "
        f"has HR@10 {m4(hit)}; chance is {m4(subject.chance)}"
    )
    if flagged:
        says += ": the draws alone give test items away."
    elif subject.split.train.leaks:
        says += ": the pool hides items, but so few rounds do not show it yet."
    else:
        says += ": the draws give nothing away."
    return Finding(
        name,
        "FLAG" if flagged else "pass",
        says,
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


def drawn_less(subject: Subject) -> Finding:
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
    held: list[np.ndarray] = []
    others: list[np.ndarray] = []
    surprise, variance = 0.0, 0.0
    for user in np.flatnonzero((held_out.size_U > 0) & (train.positives.size_U > 0)).tolist():
        outside_I = np.ones(train.n_items, bool)
        outside_I[train.positives[user]] = False
        is_held_I = np.zeros(train.n_items, bool)
        is_held_I[held_out[user]] = True
        count_I = subject.rounds_drawn_UI[user]
        own, every = count_I[is_held_I & outside_I], count_I[outside_I]
        held.append(own)
        others.append(count_I[outside_I & ~is_held_I])
        surprise += float(own.sum() - len(own) * every.mean()) if len(own) else 0.0
        if len(every) > 1:
            spare = (len(every) - len(own)) / (len(every) - 1)
            variance += len(own) * float(every.var()) * spare
    own_N, other_N = np.concatenate(held), np.concatenate(others)
    if not len(own_N) or not len(other_N):
        return does_not_apply(name, "every held-out item is also in train, or nothing else is")
    deviations = surprise / variance**0.5 if variance > 0 else 0.0
    flagged = deviations < -LIMIT
    mean_own, mean_other = float(own_N.mean()), float(other_N.mean())
    never_own, never_other = float((own_N == 0).mean()), float((other_N == 0).mean())
    rounds = subject.experiment.rounds
    says = (
        f"Of {rounds} round(s) {mean_own:.3g} on average drew a held-out item, and "
        f"{mean_other:.3g} another item outside train ({deviations:+.1f} standard deviations); "
        f"{never_own:.1%} of the former and {never_other:.1%} of the latter were never drawn"
    )
    says += ": the pool avoids held-out items." if flagged else "."
    return Finding(
        name,
        "FLAG" if flagged else "pass",
        says,
        {
            "mean rounds, held out": mean_own,
            "mean rounds, others": mean_other,
            "standard deviations": deviations,
            "never drawn, held out": never_own,
            "never drawn, others": never_other,
            "histogram": histogram(own_N, other_N),
        },
        f"{mean_own:.3g} of {rounds} rounds",
        f"≈ {mean_other:.3g}",
    )


def histogram(own_N: np.ndarray, other_N: np.ndarray) -> list[dict[str, str | float]]:
    """Shares of both kinds of items by how many rounds drew them; bins double in width.

    >>> histogram(np.array([0, 0, 1]), np.array([0, 3, 3, 2]))[0]
    {'rounds': '0', 'held out': 0.6666666666666666, 'others': 0.25}
    >>> [row["rounds"] for row in histogram(np.array([0]), np.array([7]))]
    ['0', '1', '2-3', '4-7']
    """
    bins = 1 + int(max(own_N.max(), other_N.max())).bit_length()
    rows: list[dict[str, str | float]] = []
    for number in range(bins):
        first, last = (2 ** (number - 1), 2**number - 1) if number else (0, 0)
        own, other = ((n >= first) & (n <= last) for n in (own_N, other_N))
        label = str(first) if first == last else f"{first}-{last}"
        rows.append({"rounds": label, "held out": float(own.mean()), "others": float(other.mean())})
    return rows
