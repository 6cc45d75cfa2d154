"""Checks of the method's own score: swapped test items, the honest pool, unseen items, clients
alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.audit.subject import AuditFinding, Subject, does_not_apply
from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.references import chance, chance_bound
from tacit.experiment.amounts import metric_text as m4
from tacit.methods.controls import local_only
from tacit.parts.channel import Dense
from tacit.parts.server import Mean
from tacit.parts.sync import Isolated

# The method's own client, never communicating: what can it know of an item it never saw?


def twin_alone(subject: Subject) -> tuple[Method, str] | None:
    """The method without its federation, and what it is; None where there are no clients.

    A client that shares part of its model with others is none without them; PFedRec's client,
    drawing negatives as the method does, then stands in.
    """
    if subject.sampling is None:
        return None
    method = subject.experiment.method.composed
    if method is not None:
        own = replace(method, sync=Isolated(), channel=(Dense(),), server=Mean(), privacy=None)
        try:
            compose(own, Task(n_users=1, n_items=1))
        except TacitError:
            pass
        else:
            return own, "The method's own client"
    return replace(local_only(), sampling=subject.sampling[0]), "PFedRec's client, standing in,"


def alone(subject: Subject) -> AuditFinding:
    """HR@10 of clients that train alone, under the audited pool and under the honest one.

    On item numbers without content a client alone cannot tell one unseen item from another. The two
    trainings differ in the pool and in nothing else, so what the one has over the other is the
    leak's, whatever the order was that both began with.
    """
    name = "local training alone"
    twin = twin_alone(subject)
    if twin is None:
        return does_not_apply(name, "there are no clients that draw negatives")
    method, what = twin
    try:
        audited = subject.hits(subject.outcome("audited", method, ", alone").test.full)
        honest = subject.hits(subject.outcome("honest", method, ", alone").test.full)
    except TacitError as error:  # its personal tables do not fit, or it diverged: say so, go on
        return AuditFinding(name, "note", f"Could not be trained: {error}")
    popularity = subject.hits(subject.popularity.full)
    bound = subject.bound(max(subject.chance, honest))
    # with content a client alone may rightly beat popularity; by numbers it may not
    beats_counting = subject.ids_only and audited > max(popularity, subject.bound(subject.chance))
    flagged = audited > bound or beats_counting
    text = f"{what} reaches HR@10 {m4(audited)} without any communication"
    if subject.split.train.leaks:
        text += f", and {m4(honest)} when its negatives may be any item but its train items"
    text += f"; popularity has {m4(popularity)}, chance {m4(subject.chance)}"
    if audited > bound:
        text += ": what it gains by the pool is not knowledge of the person."
    elif beats_counting:
        text += ": nobody who is alone can know so much; look for a leak."
    else:
        text += "."
    return AuditFinding(
        name,
        "FLAG" if flagged else "pass",
        text,
        {
            "HR@10, audited pool": audited,
            "HR@10, honest pool": honest,
            "popularity": popularity,
            "chance": subject.chance,
            "bound": bound,
        },
        m4(audited),
        f"≤ {m4(bound)}",
    )


# Checks of the method's own score: swapped test items, the honest pool, unseen items.

K = 10


def swapped(subject: Subject) -> AuditFinding:
    """The method once more, with held-out items that have nothing to do with their users."""
    name = "held-out item swapped"
    if not len(subject.swapped.test.user_E):
        return does_not_apply(name, "nobody has an item left that they never touched")
    at_chance = chance(subject.swapped.test)
    real, other = subject.outcome("audited").test, subject.outcome("swapped").swapped
    users = len(subject.swapped.test.user_E)
    numbers: dict[str, float | int] = {"users": users}
    flagged = False
    for kind, ending in (("full", ""), ("sampled", " vs sampled")):
        hit = subject.hits(getattr(other, kind))
        level = metric(getattr(at_chance, kind), "HR@10")
        bound = chance_bound(users, level)[1]
        flagged |= hit > bound
        numbers |= {
            f"HR@10{ending}, real": subject.hits(getattr(real, kind)),
            f"HR@10{ending}, swapped": hit,
            f"chance{ending}": level,
            f"bound{ending}": bound,
        }
    full, against = numbers["HR@10, swapped"], numbers["HR@10 vs sampled, swapped"]
    text = (
        f"With a random untouched item in the place of each held-out one, HR@10 is {m4(full)} "
        f"({m4(against)} against sampled items) where the real ones give "
        f"{m4(numbers['HR@10, real'])} ({m4(numbers['HR@10 vs sampled, real'])}); chance is "
        f"{m4(numbers['chance'])} ({m4(numbers['chance vs sampled'])})"
    )
    text += ": that much of the score is the leak's, not the person's." if flagged else "."
    return AuditFinding(
        name,
        "FLAG" if flagged else "pass",
        text,
        numbers,
        f"{m4(full)} / {m4(against)}",
        f"≤ {m4(numbers['bound'])} / {m4(numbers['bound vs sampled'])}",
    )


def references(subject: Subject) -> AuditFinding:
    """The method beside popularity and chance, and beside itself under the honest pool."""
    split = subject.split
    own, honest = subject.outcome("audited").test, subject.outcome("honest").test
    counted, at_chance = subject.popularity, chance(split.test)
    numbers: dict[str, float] = {}
    for kind, ending in (("full", ""), ("sampled", " vs sampled")):
        numbers |= {
            f"HR@10{ending}": subject.hits(getattr(own, kind)),
            f"HR@10{ending}, honest pool": subject.hits(getattr(honest, kind)),
            f"popularity{ending}": subject.hits(getattr(counted, kind)),
            f"chance{ending}": metric(getattr(at_chance, kind), "HR@10"),
        }
    endings = ("", " vs sampled")
    levels = {e: max(numbers[f"chance{e}"], numbers[f"HR@10{e}, honest pool"]) for e in endings}
    bounds = {e: subject.bound(levels[e]) for e in endings}
    inflated = any(numbers[f"HR@10{e}"] > bounds[e] for e in endings)
    beats = numbers["HR@10"] > numbers["popularity"]
    text = (
        f"HR@10 is {m4(numbers['HR@10'])} in the full ranking and "
        f"{m4(numbers['HR@10 vs sampled'])} against sampled items; popularity has "
        f"{m4(numbers['popularity'])} and {m4(numbers['popularity vs sampled'])}, chance "
        f"{m4(numbers['chance'])} and {m4(numbers['chance vs sampled'])}"
    )
    if split.train.leaks and subject.sampling is not None:
        text += (
            "; with negatives from all but the train items, on the same split, it is "
            f"{m4(numbers['HR@10, honest pool'])} and "
            f"{m4(numbers['HR@10 vs sampled, honest pool'])}"
        )
    text += "." if beats else "; it does not beat popularity in the full ranking."
    return AuditFinding(
        "score and references",
        "FLAG" if inflated else "pass" if beats else "note",
        text,
        {**numbers, "bound": bounds[""], "bound vs sampled": bounds[" vs sampled"]},
        f"{m4(numbers['HR@10'])} / {m4(numbers['HR@10 vs sampled'])}",
        f"≤ {m4(bounds[''])} / {m4(bounds[' vs sampled'])}" if split.train.leaks else "",
    )


def unseen(subject: Subject) -> AuditFinding:
    """Test items that occur in nobody's train: item numbers alone cannot rank them.

    Hits are averaged by item and bounded by the number of items: users who share an unseen item
    share its luck.
    """
    name = "unseen test items"
    popularity_I = subject.split.train.popularity_I()
    ranks = subject.outcome("audited").test.full
    cold = ranks.where(popularity_I[ranks.item_H] == 0)
    share = len(cold) / len(ranks)
    numbers: dict[str, float | int] = {"share": share, "held out": len(cold)}
    if not len(cold):
        return AuditFinding(
            name, "pass", "Every test item occurs in somebody's train items.", numbers, "0.0%", ""
        )
    item_C, place_N = np.unique(cold.item_H, return_inverse=True)
    users_C = np.bincount(place_N)
    hit_N = hit_of_rows(cold, pessimistic=subject.experiment.protocol.ties == "pessimistic")
    hit = float((np.bincount(place_N, weights=hit_N) / users_C).mean())
    level_N = np.minimum(1.0, K / np.maximum(cold.candidates_H, 1))
    level = float((np.bincount(place_N, weights=level_N) / users_C).mean())
    bound = chance_bound(len(item_C), level)[1]
    flagged = subject.ids_only and hit > bound
    numbers |= {"items": len(item_C), "HR@10 by item": hit, "chance": level, "bound": bound}
    text = (
        f"{len(cold)} of {len(ranks)} test items ({share:.1%}; {len(item_C)} distinct) occur in "
        f"nobody's train; on them HR@10, averaged by item, is {m4(hit)}, chance {m4(level)}"
    )
    if flagged:
        text += ": numbers alone cannot tell these items apart, so something else does."
    elif subject.ids_only:
        text += "; methods that know items by number only cannot find them."
    else:
        text += "; content may help here, numbers cannot."
    return AuditFinding(
        name,
        "FLAG" if flagged else "note",
        text,
        numbers,
        f"{share:.1%}: {m4(hit)}",
        f"≤ {m4(bound)}" if subject.ids_only else "",
    )


def hit_of_rows(ranks: Ranks, *, pessimistic: bool) -> np.ndarray:
    """The chance that each held-out item stands among the first ten, on its own.

    >>> ranks = Ranks(*np.array([[0, 1], [5, 5], [9, 9], [1, 0], [50, 9]]), "test", "full")
    >>> hit_of_rows(ranks, pessimistic=False).tolist(), hit_of_rows(ranks, pessimistic=True).sum()
    ([0.5, 0.0], np.float64(0.0))
    """
    size_H = ranks.tied_H + 1
    if pessimistic:
        hit_H = (ranks.above_H + size_H <= K).astype(float)
    else:
        hit_H = np.clip(K - ranks.above_H, 0, size_H) / size_H
    return np.where(ranks.missed_H, 0.0, hit_H)
