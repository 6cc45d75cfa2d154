"""What a run's numbers say, in plain sentences made from the numbers alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tacit.experiment.amounts import metric_text as m4
from tacit.experiment.amounts import whole_text
from tacit.experiment.tables import headline

Values = Mapping[str, float]

# What each habit of released code does, by the protocol's field and its value.
HABITS: dict[tuple[str, str], str] = {
    ("negatives_exclude", "all"): (
        "negatives never include held-out items, so the test item is one that its own device can "
        "never push down"
    ),
    ("negatives_exclude", "unseen"): (
        "negatives never include items that are in nobody's train, so held-out items among them "
        "are never pushed down"
    ),
    ("duplicates", "keep"): (
        "repeated pairs are kept, so a held-out item may also lie in train and then is never hit"
    ),
    ("test_mask", "train"): "validation items stay in the test ranking",
}


def unclean_sentence(protocol: str, fields: Mapping[str, Any]) -> str:
    """Why numbers of this protocol may not stand beside clean ones.

    >>> unclean_sentence("mine", {})
    "Not comparable with clean numbers: protocol 'mine' has other rules, see the settings below."
    """
    reasons = [text for (name, value), text in HABITS.items() if fields.get(name) == value]
    if not reasons:
        reasons = [f"protocol {protocol!r} has other rules, see the settings below"]
    return f"Not comparable with clean numbers: {'; '.join(reasons)}."


def reading(run: Mapping[str, Any]) -> list[str]:
    """The sentences below the main table, for the full ranking on the test part.

    They speak of the cut-off at which the run was selected.

    >>> full, popularity = {"HR@10": 0.12, "NDCG@10": 0.06}, {"HR@10": 0.08, "NDCG@10": 0.04}
    >>> run = {"metrics": {"full": full}, "reference": {"full": {"popularity": popularity}}}
    >>> reading(run)[0]
    'Beats popularity by a factor of 1.50 in HR@10 (0.1200 against 0.0800) and 1.50 in NDCG@10.'
    """
    full: Values = run["metrics"].get("full") or {}
    reference: Mapping[str, Values] = run["reference"].get("full") or {}
    users = int((run.get("counts") or {}).get("evaluated_users") or 0)
    popularity = reference.get("popularity") or {}
    k = headline(run)
    hits = f"HR@{k}"
    chance = (reference.get("chance") or {}).get(hits)
    oracle = (reference.get("never_sampled") or {}).get(hits)
    sentences = []
    if hits in full and hits in popularity:
        sentences.append(against_popularity(full, popularity, users, k))
    if hits in full and chance is not None:
        sentences.append(against_chance(full[hits], chance, users, k))
    if text := about_unseen(run.get("breakdown") or {}, full.get(hits), k):
        sentences.append(text)
    if hits in full and chance is not None and oracle is not None:
        clean = bool(run.get("clean"))
        text = about_oracle(full[hits], oracle, chance, users, clean=clean, k=k)
        # What explains the whole result comes before what the result would otherwise say.
        explains_all = oracle >= full[hits] and _tells(oracle, chance, users)
        sentences.insert(0 if explains_all else len(sentences), text)
    return sentences


def about_unseen(breakdown: Mapping[str, Any], hit: float | None, k: int = 10) -> str:
    """How much of the hits is of test items in nobody's train; nothing where there are none.

    >>> kinds = {"warm": {"held_out": 3}, "unseen": {"held_out": 2, "adds": {"HR@10": 0.3}}}
    >>> about_unseen(kinds, 0.5)
    "2 of 5 test items are in nobody's train: they give 0.3000 of the HR@10 of 0.5000."
    """
    unseen, warm = (breakdown.get(kind) or {} for kind in ("unseen", "warm"))
    part = (unseen.get("adds") or {}).get(f"HR@{k}")
    if part is None or hit is None:
        return ""
    return (
        f"{whole_text(unseen['held_out'])} of {whole_text(unseen['held_out'] + warm['held_out'])} "
        f"test items are in nobody's train: they give {m4(part)} of the HR@{k} of {m4(hit)}."
    )


def against_popularity(full: Values, popularity: Values, users: int, k: int = 10) -> str:
    """Does the method know more than counting does?

    >>> against_popularity({"HR@10": 0.05}, {"HR@10": 0.08}, users=0)
    'Does not beat popularity: HR@10 is 0.0500 against 0.0800.'
    """
    hit, counted = full[f"HR@{k}"], popularity[f"HR@{k}"]
    gain, counted_gain = full.get(f"NDCG@{k}"), popularity.get(f"NDCG@{k}")
    both = gain is not None and counted_gain is not None
    higher = both and gain > counted_gain  # type: ignore[operator]
    if m4(hit) == m4(counted) and m4(gain) == m4(counted_gain):
        return f"Scores as popularity does: HR@{k} is {m4(hit)} for both."
    if not hit > counted:
        text = f"Does not beat popularity: HR@{k} is {m4(hit)} against {m4(counted)}"
        if higher:
            text += f", though NDCG@{k} is higher ({m4(gain)} against {m4(counted_gain)})"
    elif counted == 0:
        text = f"Beats popularity, which finds nothing: HR@{k} is {m4(hit)}"
    else:
        factor = _factor(hit / counted)
        text = (
            f"Beats popularity by a factor of {factor} in HR@{k} ({m4(hit)} against {m4(counted)})"
        )
        if higher and counted_gain:
            text += f" and {_factor(gain / counted_gain)} in NDCG@{k}"  # type: ignore[operator]
        elif both and not higher:
            text += f", but not in NDCG@{k} ({m4(gain)} against {m4(counted_gain)})"
    error = standard_error(hit, users)
    if users and abs(hit - counted) < 2 * error:
        text += (
            f"; the difference in HR@{k} is under two standard errors ({m4(2 * error)} with "
            f"{whole_text(users)} users), so this run alone does not settle it"
        )
    return text + "."


def against_chance(hit: float, chance: float, users: int, k: int = 10) -> str:
    """Has the method learnt anything at all?

    >>> against_chance(0.12, 0.01, users=500)
    'HR@10 is 12 times that of a random order (0.0100).'
    """
    if hit <= chance + 2 * standard_error(chance, users):
        return (
            f"Does not stand clear of chance (HR@{k} {m4(chance)}): nothing shows that this run "
            "has learnt anything."
        )
    if chance == 0:
        return "A random order finds nothing."
    return f"HR@{k} is {_factor(hit / chance)} times that of a random order ({m4(chance)})."


def about_oracle(
    hit: float, oracle: float, chance: float, users: int, *, clean: bool, k: int = 10
) -> str:
    """What the never-sampled oracle says about a leak through the pool of negatives.

    >>> about_oracle(0.12, 0.011, 0.01, users=500, clean=True)[:55]
    'The never-sampled oracle stays at chance (HR@10 0.0110)'
    """
    start = f"The never-sampled oracle, which learns nothing, reaches HR@{k} {m4(oracle)}"
    if not _tells(oracle, chance, users):
        return (
            f"The never-sampled oracle stays at chance (HR@{k} {m4(oracle)}): which items were "
            "drawn as negatives gives nothing away about the test items."
        )
    if oracle >= hit:
        text = (
            f"{start}, no less than the method: the whole result can be explained by which items "
            "were never drawn as negatives, without any learning."
        )
    else:
        text = (
            f"{start}, far above chance ({m4(chance)}): the pool of negatives gives test items "
            "away, and as much of the result as that can be explained without any learning."
        )
    if clean:
        text += " Under the clean protocol this should not happen; look for a leak."
    return text


def _tells(oracle: float, chance: float, users: int) -> bool:
    """Whether the oracle is far enough above chance to speak of a leak."""
    return oracle > 2 * chance and oracle > chance + 3 * standard_error(chance, users)


def standard_error(share: float, users: int) -> float:
    """Of a share of hits over independent users; 0 when their number is not known.

    >>> standard_error(0.5, 100)
    0.05
    """
    return math.sqrt(max(share * (1 - share), 0.0) / users) if users else 0.0


def _factor(factor: float) -> str:
    """
    >>> _factor(1.312), _factor(1.0033), _factor(12.4)
    ('1.31', '1.0033', '12')
    """
    if factor >= 9.95:
        return f"{factor:,.0f}"
    return f"{factor:.2f}" if factor >= 1.01 else f"{factor:.4f}"
