"""A table as Markdown, from its definition and its results file alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lab.definition import Column, Data, Metric, Place, Table
from lab.proofs import UNEXPLAINED, Proofs, share_near, share_text, unexplained, why
from lab.results import KINDS, DoneCell, Kind, Results, metric_key, values_of
from lab.true_epsilon import HOW_TO_READ, epsilon_lines, short_epsilon
from lab.verdict import gain_lines, verdict
from tacit.evaluation.significance import Spread
from tacit.experiment.amounts import DASH, bytes_text
from tacit.study.search import Choice
from tacit.study.writer import as_markdown as table_in_markdown

CANDIDATES = {"full": "full", "sampled99": "1+99"}


def as_markdown(table: Table, results: Results, out: Path, proofs: Proofs | None = None) -> str:
    """The whole file. Tests of rows that were run below `out` and are not tested yet are made."""
    proofs = proofs or Proofs()
    lines = [
        f"# {table.title}",
        "",
        f"Written by `python -m lab.table {table.name}`: {len(results.done)} of "
        f"{len(results.cells)} cells run, {_seeds(results)}. Numbers are percent: "
        f"{_spread(table)}, the number of seeds in brackets. "
        "1+99 ranks the held-out item against 99 sampled ones, full against the whole catalogue.",
        "",
        *_share(table, results),
        *(
            f"- {note}"
            for note in (
                *_guarantees(results),
                *_rules(table),
                *table.notes,
                *([HOW_TO_READ] if table.epsilon else []),
                *_accelerated(results),
            )
        ),
        "",
    ]
    for data in table.datasets:
        lines += [f"## {data.name}", "", *([data.note, ""] if data.note else [])]
        lines += _share(table, results, [data])
        lines.append(
            _compared(table, data, results, proofs) if table.paper else _plain(table, data, results)
        )
        lines += seen_unseen_lines(table, data, results)
        lines += _cold_lines(table, data, results)
        lines += gain_lines(table, data, results, out)
        lines += epsilon_lines(table, data, results)
        lines.append("")
    if said := verdict(table, results, out):
        lines += ["## What the numbers say", "", *(f"- {one}" for one in said), ""]
    if table.published:
        lines += ["## Far from the published value and unexplained", ""]
        lines += [f"- {cell}" for cell in unexplained(table, results, proofs)] or ["None."]
        lines.append("")
    lines += ["## What was chosen on validation", "", _choices(table, results)]
    lines += _tried_lines(table, results)
    return "\n".join(lines).rstrip() + "\n"


def _seeds(results: Results) -> str:
    """Which seeds there are; a published cell beyond those asked for stays, and is said.

    >>> _seeds(Results(path=Path("few.json"), table="few", seeds=3))
    'seeds 0 to 2'
    """
    asked = f"seeds 0 to {results.seeds - 1}"
    most = max((cell.seed for cell in results.done), default=0)
    return asked if most < results.seeds else f"{asked}, of some rows up to {most}"


def _share(table: Table, results: Results, datasets: Sequence[Data] | None = None) -> list[str]:
    """How much of a table, or of some of its datasets, is near published values, if it has any."""
    told = share_text(table, share_near(table, results, datasets))
    return [f"**{told}**" if datasets is None else told, ""] if told else []


def _spread(table: Table) -> str:
    if not table.split_seeds:
        return "the mean over seeds ± their standard deviation"
    return (
        "the mean over seeds, each with a split of its own where the split is drawn, ± half of its "
        "95 % interval (Student's t, so that three seeds give 2.48 standard deviations)"
    )


def _rules(table: Table) -> Iterable[str]:
    if table.paper:
        yield (
            f"*{table.paper}* is the protocol of the paper, *clean* ours; see docs/protocols.md. "
            "Numbers of the two are not comparable with one another. Popularity and chance are "
            "given under both, in that order."
        )
        yield (
            f"A cell more than {table.tolerance:g} points or 15 % from the published value names, "
            "in the last column, the run that shows why, with that run's number, or says "
            f"{UNEXPLAINED!r}. A run shows something where half of the distance to the published "
            "value is gone, and more than seeds differ; `in part`: it is not within 15 % of the "
            "published value. "
            "docs/results/reasons.md has the runs that were made for this and the cells of other "
            "tables that show it."
        )
    yield from _searches(table)


def _searches(table: Table) -> Iterable[str]:
    """How settings are chosen, and how long runs and searches are."""
    chosen = "The round is chosen on validation as well."
    searched = [row for row in table.rows if not row.free]
    if table.settings == 1 or not searched:
        yield f"Every row has one setting, and nothing is searched. {chosen}"
    else:
        yield (
            f"Every method chooses among {table.settings} settings, per dataset and protocol, on "
            "validation with seed 0, in a search that never ranks the test part; only then is the "
            f"cell run. {chosen} What was chosen stands below."
        )
        if free := [row.name for row in table.rows if row.free]:
            yield f"Outside of this, with one setting and no search: {', '.join(free)}."
    lengths: dict[tuple[int, tuple[tuple[str, int], ...], int], list[str]] = {}
    for row in searched or table.rows:
        search = 0 if row.free or table.settings == 1 else row.search_rounds
        lengths.setdefault((row.rounds, row.rounds_on, search), []).append(row.name)
    for (rounds, elsewhere, search), names in sorted(lengths.items()):
        told = "".join(f" ({other} on {data})" for data, other in elsewhere)
        told += f", in the search {search}" if search else ""
        yield f"Rounds {rounds}{told}: {', '.join(names)}."


def _guarantees(results: Results) -> Iterable[str]:
    """What rows promise, where they promise anything; choosing their settings is never covered."""
    told: dict[str, dict[str, None]] = {}
    for cell in results.done:
        if cell.privacy is not None:
            told.setdefault(cell.privacy, {})[cell.row] = None
    for words, rows in told.items():
        chosen = "the choice of their settings is not covered"
        yield f"Guarantee of {', '.join(rows)}: {words}; {chosen}."


def _accelerated(results: Results) -> Iterable[str]:
    """Which cells ran on a GPU, whose sums round otherwise than those of a CPU."""
    where: dict[str, dict[str, None]] = {}
    for cell in results.done:
        if cell.device != "cpu":
            where.setdefault(cell.dataset, {})[cell.row] = None
    if where:
        told = "; ".join(f"{data}: {', '.join(rows)}" for data, rows in where.items())
        yield f"Cells of these rows ran on a GPU (`--device cuda`): {told}."


# What stands in a cell: numbers over the finished seeds, or why there are none.


def metric_text(metric: Metric) -> str:
    """A metric as a heading.

    >>> metric_text(("sampled99", "HR@10"))
    'HR@10 1+99'
    """
    return f"{metric[1]} {CANDIDATES[metric[0]]}"


def cell_text(
    results: Results,
    place: Place,
    metric: Metric,
    kind: Kind | None = None,
    *,
    interval: bool = False,
) -> str:
    """The number with its deviation over seeds, or with its interval; or why there is none."""
    values = values_of(results, place, metric, kind)
    if not values:
        cells = results.of(place)
        return cells[0].status if cells and not isinstance(cells[0], DoneCell) else DASH
    spread = Spread.of(values)
    if spread.deviation is None:
        return f"{spread.mean:.2f} (1)"
    around = spread.half_width() if interval else spread.deviation
    return f"{spread.mean:.2f} ± {around:.2f} ({spread.seeds})"


# The tables of one dataset.


def _compared(table: Table, data: Data, results: Results, proofs: Proofs) -> str:
    """One line per row and metric, the published value and both protocols side by side."""
    columns = table.columns_of(data)
    names: dict[Column, str] = {"paper": f"ours, {table.paper}", "clean": "ours, clean"}
    heading = ["method", "metric", "published", *names.values()]
    heading += [*(["ε"] if table.epsilon else []), "popularity", "chance", "why"]
    lines = []
    for row in table.rows_of(data):
        epsilon = [short_epsilon(table, row, data, results)] if table.epsilon else []
        said: set[Column] = set()
        for metric in table.metrics:
            published = table.published.get((row.name, data.name, metric))
            places = {column: Place(table, row, data, column) for column in columns}
            texts = [
                cell_text(results, places[column], metric, interval=table.split_seeds)
                if column in places
                else DASH
                for column in names
            ]
            reasons = []
            for column, place in places.items():
                reason = why(results, place, metric, proofs, brief=column in said)
                if reason is not None:
                    name = table.paper if column == "paper" else column
                    reasons.append(f"{name}: {reason}")
                    said |= set() if reason == UNEXPLAINED else {column}
            references = [
                " / ".join(_reference(results, place, name, metric) for place in places.values())
                for name in ("popularity", "chance")
            ]
            shown = published.text if published else DASH
            first = [row.name, metric_text(metric), shown, *texts, *epsilon]
            lines.append([*first, *references, "; ".join(reasons)])
    return table_in_markdown(heading, lines)


def _reference(results: Results, place: Place, name: str, metric: Metric) -> str:
    """A reference, as the first finished run of the row has it."""
    done = results.done_of(place)
    if not done:
        return DASH
    reference = done[0].reference
    values = reference.popularity if name == "popularity" else reference.chance
    return f"{100 * values[metric_key(metric)]:.2f}"


def _plain(table: Table, data: Data, results: Results) -> str:
    """One line per row under clean, the references below."""
    heading = ["method", *map(metric_text, table.metrics)]
    heading += ["up, per client and round"] if table.bytes_up else []
    lines = []
    first: Place | None = None
    for row in table.rows_of(data):
        place = Place(table, row, data, "clean")
        texts = [
            cell_text(results, place, metric, interval=table.split_seeds)
            for metric in table.metrics
        ]
        lines.append([row.name, *texts, *_bytes_up(table, results, place)])
        if first is None and results.done_of(place):
            first = place
    if first is not None:
        for name in ("popularity", "chance"):
            texts = [_reference(results, first, name, metric) for metric in table.metrics]
            texts += [DASH] if table.bytes_up else []
            lines.append([f"*{name}* (reference)", *texts])
    return table_in_markdown(heading, lines)


def _bytes_up(table: Table, results: Results, place: Place) -> list[str]:
    """What a client of a row sends, which is the same for all seeds; nothing for tables that do not
    ask."""
    if not table.bytes_up:
        return []
    done = results.done_of(place)
    return [bytes_text(done[0].bytes_up) if done else DASH]


def seen_unseen_lines(table: Table, data: Data, results: Results) -> list[str]:
    """What each kind of test item adds to the full-ranking numbers of a dataset; nothing for a
    table that does not ask, or before its first cell."""
    columns = table.columns_of(data)
    names: dict[Column, str] = {"paper": table.paper or "", "clean": "clean"}
    counts = {names[c]: count for c in columns if (count := _count(table, data, c, results))}
    if not table.seen_unseen or not counts:
        return []
    if not any(unseen for unseen, _ in counts.values()):
        return ["", "Every test item is in somebody's train."]
    told = ", ".join(f"{unseen} of {all_} under {name}" for name, (unseen, all_) in counts.items())
    parts = [(column, kind) for column in columns for kind in KINDS]
    heading = ["method", "metric", *(f"{names[column]}, {kind}" for column, kind in parts)]
    lines = [
        [
            row.name,
            metric_text(metric),
            *(cell_text(results, Place(table, row, data, c), metric, kind) for c, kind in parts),
        ]
        for row in table.rows_of(data)
        for metric in table.metrics
        if metric[0] == "full"
    ]
    return [
        "",
        f"### {data.name}: warm and unseen test items",
        "",
        f"What test items in somebody's train (warm) and in nobody's (unseen) add to the numbers "
        f"above; the two sum to the whole. Unseen are {told}.",
        "",
        table_in_markdown(heading, lines),
    ]


def _count(table: Table, data: Data, column: Column, results: Results) -> tuple[int, int] | None:
    """How many test items are unseen, and how many there are, in the first finished run."""
    for row in table.rows_of(data):
        for cell in results.done_of(Place(table, row, data, column)):
            if cell.breakdown is not None:
                unseen, warm = cell.breakdown.unseen.held_out, cell.breakdown.warm.held_out
                return unseen, unseen + warm
    return None


def _cold_lines(table: Table, data: Data, results: Results) -> list[str]:
    """What stands beside the numbers of a cold-start table: the list that is the same for
    everybody, the deviation over draws of noise, items without content, the NDCG that papers
    print. Nothing for tables that do not ask."""
    if not table.cold:
        return []
    name, wrong = "Recall@20", "NDCG@20"
    heading = ["method", f"{name}, same list for all", f"{name}, deviation over noise"]
    heading += [f"{name}, items without content", f"{wrong} in index order (not comparable)"]
    heading += ["generator, s a round"]
    lines = []
    shares: dict[str, float] = {}
    for row in table.rows_of(data):
        done = results.done_of(Place(table, row, data, "clean"))
        found = [cell.cold for cell in done if cell.cold is not None]
        if not found:
            continue
        shares = shares or dict(found[0].top_shares)
        columns = [
            [one.same_for_all[name] for one in found],
            [one.draws[name].deviation for one in found if one.draws is not None],
            [
                one.without_content.metrics[name]
                for one in found
                if one.without_content is not None and name in one.without_content.metrics
            ],
            [one.ndcg_index_order[wrong] for one in found],
        ]
        seconds = [one.generator_seconds_a_round for one in found]
        spent = [one for one in seconds if one is not None]
        lines.append(
            [
                row.name,
                *(_mean(values) for values in columns),
                f"{np.mean(spent):.3f}" if spent else DASH,
            ]
        )
    if not shares:
        return []
    held = ", ".join(f"{100 * share:.1f} % ({which})" for which, share in shares.items())
    told = f"The most touched cold items hold this share of the test interactions: {held}."
    beside = table_in_markdown(heading, lines)
    return ["", f"### {data.name}: beside the numbers", "", told, "", beside]


def _mean(values: Sequence[float]) -> str:
    return f"{100 * Spread.of(values).mean:.2f} ({len(values)})" if values else DASH


def _choices(table: Table, results: Results) -> str:
    heading = ["method", "dataset", "protocol", "chosen", "validation", "tried", "by"]
    lines: list[list[object]] = []
    alike: list[str] = []
    for place in table.places:
        choice = results.choices.get(place.key)
        if choice is None or choice.chosen is None:
            continue
        best = choice.tried[choice.chosen]
        assert best.validation is not None  # a setting without a value is not chosen
        value = f"{100 * best.validation:.2f}"
        where = [place.row.name, place.data.name, place.column]
        lines.append([*where, ", ".join(best.sets), value, len(choice.tried), choice.by])
        if _all_alike(choice):
            alike.append(place.key)
    if not lines:
        return "Nothing yet."
    told = "".join(
        f"\n\nNothing told the settings of {key} apart: all have the same validation value, and "
        "the first was taken."
        for key in alike
    )
    return table_in_markdown(heading, lines) + told


def _all_alike(choice: Choice) -> bool:
    """Whether validation had the same value for every setting that was tried."""
    return len(choice.tried) > 1 and len({one.validation for one in choice.tried}) == 1


def _tried_lines(table: Table, results: Results) -> list[str]:
    """Every setting of the search so far, best first; nothing for tables that do not ask."""
    if not table.all_tried:
        return []
    lines = ["", "## All that was tried, on validation", ""]
    for place in table.places:
        choice = results.choices.get(place.key)
        if choice is None or len(place.settings) < 2:
            continue
        told = [
            [", ".join(one.sets), f"{100 * one.validation:.2f}", one.round]
            for one in sorted(choice.tried, key=lambda one: -(one.validation or 0.0))
            if one.validation is not None
        ]
        some = f"{len(choice.tried)} of {len(place.settings)} settings tried"
        heading = ["setting", choice.by, "best round"]
        lines += [f"### {place.key}: {some}", "", table_in_markdown(heading, told), ""]
    return lines
