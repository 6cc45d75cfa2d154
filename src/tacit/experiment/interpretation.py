"""What a run's numbers say: the tables of a report, and plain sentences made from the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.evaluation.metrics import parse_metric
from tacit.experiment.amounts import metric_text as m4
from tacit.experiment.amounts import whole_text

# The tables of a report, from the result of a run: which scorers, which columns, which values.

SAMPLED = "sampled99"
RANKINGS = {"full": "Full ranking", SAMPLED: "Against 99 sampled"}
REFERENCES = {
    "popularity": "Popularity",
    "chance": "Chance",
    "never_sampled": "Never-sampled oracle",
}
SAME_FOR_ALL = "One list for everybody"

# what runs on untouched items are read by, in the result and round by round
COLD_COLUMNS = ("Recall@20", "Recall@50", "Recall@100", "NDCG@20")
COLD_CURVES = COLD_COLUMNS[:3]


def is_cold(run: Mapping[str, Any]) -> bool:
    """Whether a run was judged on items that nobody has touched; only such results say `cold`.

    >>> is_cold({"method": "fedmf"})
    False
    """
    return "cold" in run


def unit_of(run: Mapping[str, Any]) -> str:
    """What validation chose among: rounds, or the settings of a closed form.

    >>> unit_of({"unit": "setting"}), unit_of({})
    ('setting', 'round')
    """
    return str(run.get("unit", "round"))  # results of earlier versions do not say


def headline(run: Mapping[str, Any]) -> int:
    """The cut-off at which a run was selected and is read, the largest where there are several;
    every result and every validated round has its metrics.

    >>> headline({"select_metric": "HR@50"}), headline({"select_metric": "HR@15+30"})
    (50, 30)
    """
    return parse_metric(run["select_metric"])[1]


def main_columns(run: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What the main table shows of each ranking.

    >>> main_columns({"select_metric": "HR@50"})["full"][-2:]
    ('HR@50', 'NDCG@50')
    """
    if is_cold(run):
        return {"full": COLD_COLUMNS, SAMPLED: ("HR@10", "NDCG@10")}
    at = dict.fromkeys((10, 20, headline(run)))
    full = tuple(f"{name}@{k}" for k in at for name in ("HR", "NDCG"))
    return {"full": full, SAMPLED: ("HR@10", "NDCG@10")}


def curve_columns(run: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What is drawn round by round: metrics that every validated round has.

    >>> curve_columns({"select_metric": "HR@50"})["full"]
    ('HR@50', 'NDCG@50')
    """
    if is_cold(run):
        return {"full": COLD_CURVES, SAMPLED: ("HR@10", "NDCG@10")}
    both = tuple(f"{name}@{headline(run)}" for name in ("HR", "NDCG"))
    return {"full": both, SAMPLED: both}


@dataclass(frozen=True)
class Group:
    """Columns of one ranking; a row per scorer of (value, its share of the column's largest).

    >>> Group("Full ranking", ("HR@10",), {"method": [(0.2, 1.0)]}).columns
    ('HR@10',)
    """

    title: str
    columns: tuple[str, ...]
    rows: dict[str, list[tuple[float | None, float]]]


def main_table(run: Mapping[str, Any]) -> dict[str, Group]:
    """The method, then its references, in both rankings.

    Runs on untouched items also have the list that is the same for everybody, in the full ranking.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run as play
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = main_table(play(resolve("popularity"), Path(folder, "one")))
    >>> table["full"].rows["method"] == table["full"].rows["Popularity"]
    True
    """
    groups = {}
    for kind, title in RANKINGS.items():
        columns = main_columns(run)[kind]
        scorers: dict[str, Mapping[str, float]] = {"method": run["metrics"][kind]}
        if is_cold(run):
            scorers[SAME_FOR_ALL] = run["cold"]["same_for_all"] if kind == "full" else {}
        scorers |= {name: run["reference"][kind][key] for key, name in REFERENCES.items()}
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
        groups[kind] = Group(title, columns, rows)
    return groups


def cutoffs(run: Mapping[str, Any]) -> list[int]:
    """All cut-offs of the result's metrics, smallest first.

    >>> cutoffs({"metrics": {"full": {"HR@20": 0.3, "NDCG@5": 0.1}}})
    [5, 20]
    """
    names = [name for values in run["metrics"].values() for name in values]
    return sorted({int(name.partition("@")[2]) for name in names})


def by_cutoff(run: Mapping[str, Any]) -> list[tuple[str, str, list[float | None]]]:
    """A row (metric, ranking, value at each cut-off) for everything that was measured; a result on
    untouched items has precision too, at some cut-offs.

    >>> by_cutoff({"metrics": {"full": {"HR@5": 0.1, "HR@10": 0.2}, "sampled99": {}}})
    [('HR', 'Full ranking', [0.1, 0.2])]
    """
    rows = []
    for kind, title in RANKINGS.items():
        values = dict(run["metrics"][kind])
        if is_cold(run) and kind == "full":
            values |= run["cold"]["metrics"]
        for metric in dict.fromkeys(name.partition("@")[0] for name in values):
            rows.append((metric, title, [values.get(f"{metric}@{at}") for at in cutoffs(run)]))
    return rows


def warmth_rows(run: Mapping[str, Any]) -> list[tuple[str, int, list[float | None], float | None]]:
    """Warm and unseen test items: name, users, values of the main columns, and what they add to
    the headline's hits. A kind without users has no values; where a user has several held-out
    items, kinds do not add up to the whole. None of this is for runs whose test items are all
    untouched.

    >>> part = {"users": 0, "full": {}, "adds": {}}
    >>> run = {"select_metric": "HR@10", "breakdown": {"warm": part, "unseen": part}}
    >>> warmth_rows(run)[0]
    ('Warm', 0, [None, None, None, None], None)
    """
    if is_cold(run):
        return []
    hits, columns = f"HR@{headline(run)}", main_columns(run)["full"]
    parts = {kind: run["breakdown"][kind] for kind in ("warm", "unseen")}
    summed = any(part["adds"] for part in parts.values())
    rows = []
    for kind, part in parts.items():
        values = [part["full"][name] if part["full"] else None for name in columns]
        adds = (part["adds"][hits] if part["adds"] else 0.0) if summed else None
        rows.append((kind.capitalize(), part["users"], values, adds))
    return rows


# What a run's numbers say, in plain sentences made from the numbers alone.

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

    >>> rules = {"negatives_exclude": "train", "duplicates": "earliest", "test_mask": "train+valid"}
    >>> unclean_sentence("mine", rules)
    "Not comparable with clean numbers: protocol 'mine' has other rules, see the settings below."
    """
    reasons = [text for (name, value), text in HABITS.items() if fields[name] == value]
    if not reasons:
        reasons = [f"protocol {protocol!r} has other rules, see the settings below"]
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


def guarantee_words(privacy: Mapping[str, Any]) -> str:
    """What a result says of a formal guarantee; these words stand beside its numbers everywhere.

    >>> guarantee_words({"guarantee": "none", "epsilon": None, "delta": None})
    'no guarantee'
    >>> guarantee_words({"guarantee": "user-level privacy", "epsilon": 4.5, "delta": 1e-5})
    'user-level privacy, ε = 4.5, δ = 1e-05'
    """
    if privacy["guarantee"] == "none":
        return "no guarantee"
    numbers = (("ε", privacy["epsilon"]), ("δ", privacy["delta"]))
    told = (f"{sign} = {value:.4g}" for sign, value in numbers if value is not None)
    return ", ".join((str(privacy["guarantee"]), *told))


def reading(run: Mapping[str, Any]) -> list[str]:
    """The sentences below the main table, for the full ranking on the test part.

    They speak of the cut-off at which the run was selected, and for runs on untouched items of
    the recall that their table shows.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run as play
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = play(resolve("popularity"), Path(folder, "one"))
    >>> reading(result)[0]
    'Scores as popularity does: HR@10 is 0.1433 for both.'
    """
    if is_cold(run):
        return cold_reading(run)
    full: Values = run["metrics"]["full"]
    reference: Mapping[str, Values] = run["reference"]["full"]
    users, k = int(run["counts"]["evaluated_users"]), headline(run)
    hits = f"HR@{k}"
    hit, chance, oracle = full[hits], reference["chance"][hits], reference["never_sampled"][hits]
    sentences = [
        against_popularity(full, reference["popularity"], users, k),
        against_chance(hit, chance, users, hits),
    ]
    if text := about_unseen(run["breakdown"], hit, k):
        sentences.append(text)
    text = about_oracle(hit, oracle, chance, users, clean=run["clean"], k=k)
    # What explains the whole result comes before what the result would otherwise say.
    explains_all = oracle >= hit and _tells(oracle, chance, users)
    sentences.insert(0 if explains_all else len(sentences), text)
    return sentences


def cold_reading(run: Mapping[str, Any]) -> list[str]:
    """What a result on untouched items says: against chance, against one list for everybody, and
    over draws of noise, all in the first metric of its table."""
    name = COLD_COLUMNS[0]
    cold, value = run["cold"], run["metrics"]["full"][name]
    chance = run["reference"]["full"]["chance"][name]
    users = int(run["counts"]["evaluated_users"])
    sentences = [
        against_chance(value, chance, users, name),
        against_one_list(value, cold["same_for_all"][name], users, name),
    ]
    if "draws" in cold:
        mean, deviation = (m4(cold["draws"][name][key]) for key in ("mean", "deviation"))
        sentences.append(
            f"Over {cold['draws']['number']} draws of the generator's noise {name} is {mean} ± "
            f"{deviation}."
        )
    sentences.append(
        "Counting says nothing of items that nobody has touched, and they are never drawn as "
        "negatives: popularity and the never-sampled oracle are no bars here."
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


def about_unseen(breakdown: Mapping[str, Any], hit: float, k: int = 10) -> str:
    """How much of the hits is of test items in nobody's train; nothing where there are none, and
    where users have several held-out items, whose kinds do not add up.

    >>> unseen = {"held_out": 2, "adds": {"HR@10": 0.3}}
    >>> about_unseen({"warm": {"held_out": 3}, "unseen": unseen}, 0.5)
    "2 of 5 test items are in nobody's train: they give 0.3000 of the HR@10 of 0.5000."
    """
    unseen, warm = breakdown["unseen"], breakdown["warm"]
    if not unseen["adds"]:
        return ""
    return (
        f"{whole_text(unseen['held_out'])} of {whole_text(unseen['held_out'] + warm['held_out'])} "
        f"test items are in nobody's train: they give {m4(unseen['adds'][f'HR@{k}'])} of the "
        f"HR@{k} of {m4(hit)}."
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
