"""A table as Markdown, from its definition and its results file alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacit.benchmarks.tables.cell_text import cell_text, done_of, line, metric_text, values_of
from tacit.benchmarks.tables.cells import Place, places_of
from tacit.benchmarks.tables.cold_lines import cold_lines
from tacit.benchmarks.tables.definition import Column, Data, Metric, Printed, Table
from tacit.benchmarks.tables.ledger import Ledger
from tacit.benchmarks.tables.record import metric_key
from tacit.benchmarks.tables.warmth import warmth_lines
from tacit.evaluation.significance import Spread
from tacit.experiment.amounts import DASH


def as_markdown(table: Table, ledger: Ledger, seeds: int, verdict: Sequence[str]) -> str:
    """The whole file; `verdict` are the sentences that the numbers of a finished table make."""
    cells = ledger.cells.values()
    done = sum(record["status"] == "done" for record in cells)
    lines = [
        f"# {table.title}",
        "",
        f"Written by `tacit table {table.name}`: {done} of {len(cells)} cells run, seeds 0 to "
        f"{seeds - 1}. Numbers are percent: {_spread(table)}, the number of seeds in brackets. "
        "1+99 ranks the held-out item against 99 sampled ones, full against the whole catalogue.",
        "",
        *(f"- {note}" for note in (*_rules(table), *table.notes, *_accelerated(ledger))),
        "",
    ]
    for data in table.datasets:
        lines += [f"## {data.name}", "", *([data.note, ""] if data.note else [])]
        lines += _compared(table, data, ledger) if table.paper else _plain(table, data, ledger)
        lines += warmth_lines(table, data, ledger)
        lines += cold_lines(table, data, ledger)
        lines.append("")
    if verdict:
        lines += ["## What the numbers say", "", *(f"- {said}" for said in verdict), ""]
    if table.printed:
        lines += ["## Far from print, no reason written yet", ""]
        lines += [f"- {cell}" for cell in unexplained(table, ledger)] or ["None."]
        lines.append("")
    lines += ["## What was chosen on validation", "", *_choices(table, ledger)]
    return "\n".join(lines).rstrip() + "\n"


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
            f"A cell more than {table.tolerance:g} points from print has a written reason in the "
            "last column, or is listed below."
        )
    yield (
        f"Every method chooses among {table.settings} settings, per dataset and protocol, on "
        "validation with seed 0, in a search that never ranks the test part; only then is the cell "
        "run. The round is chosen on validation as well. What was chosen stands below."
    )
    lengths = {(row.rounds, row.search_rounds) for row in table.rows if not row.free}
    for length in sorted(lengths):
        names = [row.name for row in table.rows if (row.rounds, row.search_rounds) == length]
        yield f"Rounds {length[0]}, in the search {length[1]}: {', '.join(names)}."


def _accelerated(ledger: Ledger) -> Iterable[str]:
    """Which cells ran on a GPU, whose sums round otherwise than those of a CPU."""
    where: dict[str, list[str]] = {}
    for record in ledger.cells.values():
        if " on cuda" in record.get("engine", ""):
            names = where.setdefault(record["dataset"], [])
            if record["row"] not in names:
                names.append(record["row"])
    if where:
        told = "; ".join(f"{data}: {', '.join(rows)}" for data, rows in where.items())
        yield f"Cells of these rows ran on a GPU (`--device cuda`): {told}."


def far_from_print(table: Table, ledger: Ledger, place: Place, metric: Metric) -> bool:
    """Whether a cell lies further from print than the table's tolerance."""
    printed = table.printed.get((place.row.name, place.data.name, metric))
    values = values_of(ledger, place, metric)
    if printed is None or not values:
        return False
    return abs(Spread.of(values).mean - printed.mean) > table.tolerance


def unexplained(table: Table, ledger: Ledger) -> list[str]:
    """Cells that are far from print and have no written reason."""
    found = []
    for data in table.datasets:
        for row in table.rows_of(data):
            for column in table.columns_of(data):
                place = Place(row, data, column)
                far = [m for m in table.metrics if far_from_print(table, ledger, place, m)]
                if far and (row.name, data.name, column) not in table.why:
                    names = " and ".join(metric_text(metric) for metric in far)
                    found.append(f"{place.key}: {names}")
    return found


def _compared(table: Table, data: Data, ledger: Ledger) -> list[str]:
    """One line per row and metric, print and both protocols side by side."""
    columns = table.columns_of(data)
    names: dict[Column, str] = {"paper": f"ours, {table.paper}", "clean": "ours, clean"}
    head = ["method", "metric", "print", *names.values(), "popularity", "chance", "why"]
    lines = [line(head), line(["---"] * len(head))]
    for row in table.rows_of(data):
        said: set[str] = set()
        for metric in table.metrics:
            printed: Printed | None = table.printed.get((row.name, data.name, metric))
            places = {column: Place(row, data, column) for column in columns}
            texts = [
                cell_text(ledger, places[column], metric) if column in places else DASH
                for column in names
            ]
            why = []
            for column, place in places.items():
                reason = table.why.get((row.name, data.name, column))
                if reason and far_from_print(table, ledger, place, metric):
                    again = "as above" if reason in said else reason
                    said.add(reason)
                    why.append(f"{table.paper if column == 'paper' else column}: {again}")
            references = [
                _reference(ledger, list(places.values()), name, metric)
                for name in ("popularity", "chance")
            ]
            shown = printed.text if printed else DASH
            cells = [row.name, metric_text(metric), shown, *texts, *references, "; ".join(why)]
            lines.append(line(cells))
    return lines


def _reference(ledger: Ledger, places: Sequence[Place], name: str, metric: Metric) -> str:
    """A reference under each protocol, as the first finished run of the row has it."""
    texts = []
    for place in places:
        done = done_of(ledger, place)
        if done:
            texts.append(f"{100 * done[0]['reference'][name][metric_key(metric)]:.2f}")
        else:
            texts.append(DASH)
    return " / ".join(texts)


def _plain(table: Table, data: Data, ledger: Ledger) -> list[str]:
    """One line per row under clean, the references below."""
    head = ["method", *map(metric_text, table.metrics)]
    lines = [line(head), line(["---"] * len(head))]
    first: list[Place] = []
    for row in table.rows_of(data):
        place = Place(row, data, "clean")
        texts = [
            cell_text(ledger, place, metric, interval=table.split_seeds) for metric in table.metrics
        ]
        lines.append(line([row.name, *texts]))
        if values_of(ledger, place, table.metrics[0]):
            first = first or [place]
    for name in ("popularity", "chance") if first else ():
        texts = [_reference(ledger, first, name, metric) for metric in table.metrics]
        lines.append(line([f"*{name}* (reference)", *texts]))
    return lines


def _choices(table: Table, ledger: Ledger) -> list[str]:
    head = ["method", "dataset", "protocol", "chosen", "validation", "tried", "by"]
    lines = [line(head), line(["---"] * len(head))]
    for key in (place.key for place in places_of(table)):
        note = ledger.choices.get(key, {})
        if note.get("chosen") is None:
            continue
        best = note["tried"][note["chosen"]]
        sets = ", ".join(best["sets"])
        value = f"{100 * best['validation']:.2f}"
        lines.append(line([*key.split(" | "), sets, value, str(len(note["tried"])), note["by"]]))
    return lines if len(lines) > 2 else ["Nothing yet."]
