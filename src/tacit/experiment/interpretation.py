"""What a record's numbers say: the tables of a report, and plain sentences made from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tacit.data.protocol import Protocol
from tacit.experiment.amounts import metric_text as m4
from tacit.experiment.amounts import whole_text
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import Cold, Ranking

# The tables of a report, from the record of a run: which scorers, which columns, which values.

RANKINGS: dict[Ranking, str] = {"full": "Full ranking", "sampled99": "Against 99 sampled"}
SAME_FOR_ALL = "One list for everybody"

# what runs on untouched items are read by, in the result and round by round
COLD_COLUMNS = ("Recall@20", "Recall@50", "Recall@100", "NDCG@20")
COLD_CURVES = COLD_COLUMNS[:3]


def main_columns(record: RunRecord) -> dict[Ranking, tuple[str, ...]]:
    """What the main table shows of each ranking."""
    if record.cold is not None:
        return {"full": COLD_COLUMNS, "sampled99": ("HR@10", "NDCG@10")}
    at = dict.fromkeys((10, 20, record.headline))
    full = tuple(f"{name}@{k}" for k in at for name in ("HR", "NDCG"))
    return {"full": full, "sampled99": ("HR@10", "NDCG@10")}


def curve_columns(record: RunRecord) -> dict[Ranking, tuple[str, ...]]:
    """What is drawn round by round: metrics that every validated round has."""
    if record.cold is not None:
        return {"full": COLD_CURVES, "sampled99": ("HR@10", "NDCG@10")}
    both = tuple(f"{name}@{record.headline}" for name in ("HR", "NDCG"))
    return {"full": both, "sampled99": both}


@dataclass(frozen=True)
class Group:
    """Columns of one ranking; a row per scorer of (value, its share of the column's largest).

    >>> Group("Full ranking", ("HR@10",), {"method": [(0.2, 1.0)]}).columns
    ('HR@10',)
    """

    title: str
    columns: tuple[str, ...]
    rows: dict[str, list[tuple[float | None, float]]]


def main_table(record: RunRecord) -> dict[Ranking, Group]:
    """The method, then its references, in both rankings.

    Runs on untouched items also have the list that is the same for everybody, in the full ranking.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = main_table(run(resolve("popularity"), Path(folder, "one")))
    >>> table["full"].rows["method"] == table["full"].rows["Popularity"]
    True
    """
    groups = {}
    for ranking, title in RANKINGS.items():
        columns = main_columns(record)[ranking]
        scorers: dict[str, Mapping[str, float]] = {"method": record.metrics.of(ranking)}
        if record.cold is not None:
            scorers[SAME_FOR_ALL] = record.cold.same_for_all if ranking == "full" else {}
        reference = record.reference.of(ranking)
        scorers |= {
            "Popularity": reference.popularity,
            "Chance": reference.chance,
            "Never-sampled oracle": reference.never_sampled,
        }
        values = {
            scorer: [row[name] if row else None for name in columns]
            for scorer, row in scorers.items()
        }
        largest = [
            max(filter(None, column), default=1.0) for column in zip(*values.values(), strict=True)
        ]
        rows = {
            scorer: [
                (value, (value or 0.0) / most) for value, most in zip(row, largest, strict=True)
            ]
            for scorer, row in values.items()
        }
        groups[ranking] = Group(title, columns, rows)
    return groups


def cutoffs(record: RunRecord) -> list[int]:
    """All cut-offs of the record's metrics, smallest first."""
    names = (*record.metrics.full, *record.metrics.sampled99)
    return sorted({int(name.partition("@")[2]) for name in names})


def by_cutoff(record: RunRecord) -> list[tuple[str, str, list[float | None]]]:
    """A row (metric, ranking, value at each cut-off) for everything that was measured; a record on
    untouched items has precision too, at some cut-offs."""
    rows = []
    for ranking, title in RANKINGS.items():
        values = dict(record.metrics.of(ranking))
        if record.cold is not None and ranking == "full":
            values |= record.cold.metrics
        for metric in dict.fromkeys(name.partition("@")[0] for name in values):
            at_each = [values.get(f"{metric}@{at}") for at in cutoffs(record)]
            rows.append((metric, title, at_each))
    return rows


def breakdown_rows(record: RunRecord) -> list[tuple[str, int, list[float | None], float | None]]:
    """Warm and unseen test items: name, users, values of the main columns, and what they add to
    the headline's hits. A kind without users has no values; where a user has several held-out
    items, kinds do not add up to the whole. None of this is for runs whose test items are all
    untouched."""
    if record.cold is not None:
        return []
    hits, columns = f"HR@{record.headline}", main_columns(record)["full"]
    parts = {"Warm": record.breakdown.warm, "Unseen": record.breakdown.unseen}
    summed = any(part.adds for part in parts.values())
    rows = []
    for title, part in parts.items():
        values = [part.full[name] if part.full else None for name in columns]
        adds = (part.adds[hits] if part.adds else 0.0) if summed else None
        rows.append((title, part.users, values, adds))
    return rows


# What a run's numbers say, in plain sentences made from the numbers alone.

Values = Mapping[str, float]

# What each quirk of released code does, by the protocol's field and its value.
PROTOCOL_QUIRKS: dict[tuple[str, str], str] = {
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
    ("history", "shuffled"): (
        "this is a control, in which the order inside each train history was shuffled"
    ),
    ("test_mask", "train"): "validation items stay in the test ranking",
}


def unclean_sentence(protocol: Protocol) -> str:
    """Why numbers of this protocol may not stand beside clean ones.

    >>> unclean_sentence(Protocol(name="mine"))
    "Not comparable with clean numbers: protocol 'mine' has other rules, see the settings below."
    """
    reasons = [
        text for (name, value), text in PROTOCOL_QUIRKS.items() if getattr(protocol, name) == value
    ]
    if not reasons:
        reasons = [f"protocol {protocol.name!r} has other rules, see the settings below"]
    return f"Not comparable with clean numbers: {'; '.join(reasons)}."


def sampled_notes(sampled: int) -> list[str]:
    """What must be known where the sampled ranking is over another number than its columns say.

    >>> sampled_notes(99), sampled_notes(50)
    ([], ["The sampled ranking is over 50 drawn items, though its columns are called 'vs 99'."])
    """
    if sampled == 99:
        return []
    return [
        f"The sampled ranking is over {sampled} drawn items, though its columns are called 'vs 99'."
    ]


def interpret(record: RunRecord) -> list[str]:
    """The sentences below the main table, for the full ranking on the test part.

    They speak of the cut-off at which the run was selected, and for runs on untouched items of
    the recall that their table shows.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = run(resolve("popularity"), Path(folder, "one"))
    >>> interpret(record)[0]
    'Scores as popularity does: HR@10 is 0.1433 for both.'
    """
    if record.cold is not None:
        return _interpret_cold(record, record.cold)
    full, reference = record.metrics.full, record.reference.full
    users, k = record.counts.evaluated_users, record.headline
    hits = f"HR@{k}"
    hit, chance, oracle = full[hits], reference.chance[hits], reference.never_sampled[hits]
    sentences = [
        against_popularity(full, reference.popularity, users, k),
        against_chance(hit, chance, users, hits),
    ]
    if text := about_unseen(record):
        sentences.append(text)
    text = about_oracle(hit, oracle, chance, users, clean=record.clean, k=k)
    # What explains the whole result comes before what the result would otherwise say.
    explains_all = oracle >= hit and _tells(oracle, chance, users)
    sentences.insert(0 if explains_all else len(sentences), text)
    return sentences


def _interpret_cold(record: RunRecord, cold: Cold) -> list[str]:
    """What a result on untouched items says: against chance, against one list for everybody, and
    over draws of noise, all in the first metric of its table."""
    name = COLD_COLUMNS[0]
    value, chance = record.metrics.full[name], record.reference.full.chance[name]
    users = record.counts.evaluated_users
    sentences = [
        against_chance(value, chance, users, name),
        against_one_list(value, cold.same_for_all[name], users, name),
    ]
    if cold.draws is not None:
        drawn = cold.draws[name]
        sentences.append(
            f"Over {cold.draws.number} draws of the generator's noise {name} is {m4(drawn.mean)} ± "
            f"{m4(drawn.deviation)}."
        )
    sentences.append(
        "Counting says nothing of items that nobody has touched, and they are never drawn as "
        "negatives: popularity and the never-sampled oracle are no baselines here."
    )
    return sentences


def against_one_list(value: float, same: float, users: int, name: str) -> str:
    """Does the method know people, or only items?

    >>> against_one_list(0.3, 0.2, 900, "Recall@20")
    'One list for everybody reaches Recall@20 0.2000; knowing people gives 0.1000 more.'
    """
    start = f"One list for everybody reaches {name} {m4(same)}"
    if m4(value) == m4(same):
        return f"{start}, as much as the method: nothing here comes from knowing people."
    error = standard_error(value, users)
    if abs(value - same) < 2 * error:
        return (
            f"{start}: the difference is under two standard errors ({m4(2 * error)} with "
            f"{whole_text(users)} users), so this run alone does not show that it knows people."
        )
    if value < same:
        return f"{start}, {m4(same - value)} more than the method."
    return f"{start}; knowing people gives {m4(value - same)} more."


def about_unseen(record: RunRecord) -> str:
    """How much of the hits is of test items in nobody's train; nothing where there are none, and
    where users have several held-out items, whose kinds do not add up."""
    unseen, warm = record.breakdown.unseen, record.breakdown.warm
    if not unseen.adds:
        return ""
    hits = f"HR@{record.headline}"
    return (
        f"{whole_text(unseen.held_out)} of {whole_text(unseen.held_out + warm.held_out)} "
        f"test items are in nobody's train: they give {m4(unseen.adds[hits])} of the "
        f"{hits} of {m4(record.metrics.full[hits])}."
    )


def against_popularity(full: Values, popularity: Values, users: int, k: int = 10) -> str:
    """Does the method know more than counting does?

    >>> counted = {"HR@10": 0.08, "NDCG@10": 0.04}
    >>> against_popularity({"HR@10": 0.05, "NDCG@10": 0.03}, counted, users=0)
    'Does not beat popularity: HR@10 is 0.0500 against 0.0800.'
    """
    hit, counted = full[f"HR@{k}"], popularity[f"HR@{k}"]
    gain, counted_gain = full[f"NDCG@{k}"], popularity[f"NDCG@{k}"]
    higher = gain > counted_gain
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
            text += f" and {_factor(gain / counted_gain)} in NDCG@{k}"
        elif not higher:
            text += f", but not in NDCG@{k} ({m4(gain)} against {m4(counted_gain)})"
    error = standard_error(hit, users)
    if users and abs(hit - counted) < 2 * error:
        text += (
            f"; the difference in HR@{k} is under two standard errors ({m4(2 * error)} with "
            f"{whole_text(users)} users), so this run alone does not settle it"
        )
    return text + "."


def against_chance(value: float, chance: float, users: int, name: str = "HR@10") -> str:
    """Has the method learnt anything at all? A share of hits strays by its standard error; a mean
    of recalls, which lie between 0 and 1 as hits do, by no more than that.

    >>> against_chance(0.12, 0.01, users=500)
    'HR@10 is 12 times that of a random order (0.0100).'
    """
    if value <= chance + 2 * standard_error(chance, users):
        return (
            f"Does not stand clear of chance ({name} {m4(chance)}): nothing shows that this run "
            "has learnt anything."
        )
    if chance == 0:
        return "A random order finds nothing."
    return f"{name} is {_factor(value / chance)} times that of a random order ({m4(chance)})."


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
