"""Rows of a table against one another, tested user by user, in sentences and in a table of gains.

Tests need the runs of both rows once; what they found is kept in the results file. Where runs of
some seeds were made elsewhere, a test is of the seeds that it has, and says of how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.definition import Data, Metric, Place, Row, Table
from lab.results import DoneCell, PairedTest, Results, metric_key
from tacit.experiment.folder import RunFolder
from tacit.study.compare import Entrant, p_text, tabulate
from tacit.study.writer import as_markdown as table_in_markdown

# One row against all others, in sentences that the numbers make.

SIGNIFICANT = 0.05


@dataclass
class Standing:
    """A row on one dataset: its mean over seeds, and the p-value of its difference from the row
    that all are compared with, None where that was not tested. `part` says which seeds were tested
    where it is not all of them."""

    name: str
    value: float
    p: float | None = None
    central: bool = False
    part: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({100 * self.value:.2f}{', central' if self.central else ''})"

    def corrected(self, rows: int) -> float | None:
        """Bonferroni over rows: what it says of one row needs no other row's runs, which may have
        run on another machine."""
        return None if self.p is None else min(1.0, rows * self.p)


@dataclass(frozen=True)
class Comparison:
    """The row `against` of a table and all others that were run, on one dataset by one metric."""

    own: Standing
    others: Sequence[Standing]
    users: int

    @property
    def above(self) -> list[Standing]:
        """The rows above it, the highest first."""
        ranked = sorted(self.others, key=lambda row: -row.value)
        return [row for row in ranked if row.value > self.own.value]

    def clear(self, row: Standing) -> bool | None:
        """Whether a row's difference is significant; None where it was not tested."""
        p = row.corrected(len(self.others))
        return None if p is None else p < SIGNIFICANT


def verdict(table: Table, results: Results, out: Path) -> list[str]:
    """For each dataset and metric of the full ranking: what is above the row `against`, and what
    that row is above of, tested user by user; nothing for tables that have no such row."""
    if table.against is None or not results.done:
        return []
    said = []
    for data in table.datasets:
        done = _finished(table, data, results)
        if table.against not in done:
            said.append(f"{data.name}: {table.against} was not run, so nothing is said.")
            continue
        for metric in table.metrics:
            if metric[0] == "full" and len(done) > 1:
                found = compared(table, data, metric, results, out)
                said.append(f"{data.name}, {metric[1]}: {sentence(found)}")
        if absent := [row.name for row in table.rows_of(data) if row.name not in done]:
            said.append(f"{data.name}: not in this comparison, because not run: {_and(absent)}.")
    return said


def _finished(table: Table, data: Data, results: Results) -> dict[str, list[DoneCell]]:
    """The finished seeds of every row of a dataset, by its name."""
    return {
        row.name: sorted(cells, key=lambda cell: cell.seed)
        for row in table.rows_of(data)
        if (cells := results.done_of(Place(table, row, data, "clean")))
    }


def compared(table: Table, data: Data, metric: Metric, results: Results, out: Path) -> Comparison:
    """The row `against`, which must have been run here, and the others; tested are the rows that a
    sentence names: those above it, or the nearest below."""
    done = _finished(table, data, results)
    assert table.against is not None
    own = done.pop(table.against)
    base = _standing(own, metric)
    others = [_standing(cells, metric) for cells in done.values()]
    highest = max(row.value for row in others)
    for row in others:
        if row.value > base.value or row.value == highest:
            cells = done[row.name]
            test = paired_test(results, out, metric[1], own, cells)
            if test is not None:
                row.p, row.part = test.p, part_text(test, cells, own)
    return Comparison(base, others, own[0].users)


def _standing(cells: Sequence[DoneCell], metric: Metric) -> Standing:
    values = [cell.metrics[metric_key(metric)] for cell in cells]
    return Standing(cells[0].row, float(np.mean(values)), central=cells[0].kind == "central")


def sentence(found: Comparison) -> str:
    """What beats a row, and whether significantly.

    >>> ease = Standing("ease", 0.4, 0.0005, central=True)
    >>> others = [ease, Standing("fedmf", 0.2, 0.4)]
    >>> print(sentence(Comparison(Standing("ours", 0.3), others, users=9)))
    ease (40.00, central) is above ours (30.00), significantly over 9 users (Bonferroni over 2 \
rows: ease p 0.001). No federated method is above it.
    """
    own, above, users = found.own, found.above, found.users
    rows = f"Bonferroni over {len(found.others)} rows"
    if not above:
        nearest = max(found.others, key=lambda row: row.value)
        p = nearest.corrected(len(found.others))
        told = found.clear(nearest)
        words = "and the two can be told apart" if told else "but the two cannot be told apart"
        test = f"{words} over {users} users (p {p_text(p)}{nearest.part}, {rows})"
        test = "not tested, because its runs are not here" if told is None else test
        return f"nothing is above {own}; the nearest is {nearest}, {test}."
    clear = [row for row in above if found.clear(row)]
    untested = [row.name for row in above if found.clear(row) is None]
    text = f"{_and([str(row) for row in above])} {'is' if len(above) == 1 else 'are'} above {own}, "
    if clear:
        which = "" if len(clear) == len(above) else f"{_and([row.name for row in clear])} "
        values = [(row, row.corrected(len(found.others))) for row in clear]
        each = ", ".join(f"{row.name} p {p_text(p)}{row.part}" for row, p in values)
        text += f"{which}significantly over {users} users ({rows}: {each})"
    elif len(untested) < len(above):
        text += f"but none significantly over {users} users ({rows})"
    if untested:
        text += "; " if not text.endswith(", ") else ""
        text += f"not tested, because the runs are not here: {_and(untested)}"
    text += "."
    if all(row.central for row in above):
        text += " No federated method is above it."
    return text


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def paired_test(
    results: Results,
    out: Path,
    metric: str,
    against: Sequence[DoneCell],
    cells: Sequence[DoneCell],
) -> PairedTest | None:
    """A row against another, before any correction, with all their seeds; where some of the runs
    are not here, with those seeds that are, or as somebody tested some of these very runs. None
    where there is neither. It is made again when there are more runs of the row, or of both rows
    together: a row in which nothing is drawn has one run, however many the other one gets."""
    key = f"{cells[0].row} | {cells[0].dataset} | {metric}"
    known = results.tests.get(key)
    if known is not None and not (
        set(known.runs) <= _folders(cells) and set(known.against) <= _folders(against)
    ):
        known = None  # of runs that the table does not ask for any more
    base, own = _here(out, against, cells)
    if base and own and (known is None or _more(known, base, own)):
        both = [_entrant(out, base), _entrant(out, own)]
        difference = tabulate(both, metric, both[0].name).rows[1].difference
        assert difference is not None  # it is not the row that is tested against
        runs, others = (tuple(cell.folder for cell in one) for one in (own, base))
        known = results.tests[key] = PairedTest(p=difference.p_value, runs=runs, against=others)
    return known


def _more(known: PairedTest, base: Sequence[DoneCell], own: Sequence[DoneCell]) -> bool:
    """Whether there are more runs than a test was made of."""
    before = len(known.runs) + len(known.against)
    return len(own) > len(known.runs) or len(own) + len(base) > before


def _folders(cells: Sequence[DoneCell]) -> set[str]:
    return {cell.folder for cell in cells}


def _here(
    out: Path, against: Sequence[DoneCell], cells: Sequence[DoneCell]
) -> tuple[list[DoneCell], list[DoneCell]]:
    """Of two rows the runs that are here, and of rows with several seeds those that both have."""
    base, own = ([c for c in row if RunFolder(out / c.folder).finished] for row in (against, cells))
    if len(against) > 1 and len(cells) > 1:
        seeds = {cell.seed for cell in base} & {cell.seed for cell in own}
        base, own = ([c for c in row if c.seed in seeds] for row in (base, own))
    return base, own


def part_text(test: PairedTest, cells: Sequence[DoneCell], against: Sequence[DoneCell]) -> str:
    """How many seeds a test is of, where it is not of all; the row `against` is named where it
    lacks others than the row itself."""
    own, base = (len(test.runs), len(cells)), (len(test.against), len(against))
    texts = []
    if own[0] != own[1]:
        texts.append(f"{own[0]} of {own[1]} seeds")
    if base[0] != base[1] and base != own:
        texts.append(f"{base[0]} of {base[1]} seeds of {against[0].row}")
    return f" by {_and(texts)}" if texts else ""


def _entrant(out: Path, cells: Sequence[DoneCell]) -> Entrant:
    folders = tuple(out / cell.folder for cell in cells)
    experiments = tuple(RunFolder(folder).experiment() for folder in folders)
    return Entrant(cells[0].row, experiments, folders)


# What a plug-in gains, method by method.


def gain_lines(table: Table, data: Data, results: Results, out: Path) -> list[str]:
    """Every row with and without the plug-in `table.gains`, on validation and on test; nothing for
    a table that names none, or before the first pair is finished."""
    pairs = table.pairs_of(data) if table.gains is not None else []
    both = [(pair[0], both_done(table, data, results, pair)) for pair in pairs]
    finished = [(plain, cells) for plain, cells in both if all(cells)]
    if not finished:
        return []
    metrics = [metric for metric in table.metrics if metric[0] == "full"]
    heading = ["method", "chosen", "seeds", "validation"]
    heading += [text for _, name in metrics for text in (f"test {name}", "p")]
    lines = []
    for plain, (without, with_) in finished:
        line: list[str | int] = [plain.name, ", ".join(with_[0].sets), len(without)]
        line.append(_gain([c.validation for c in without], [c.validation for c in with_]))
        for metric in metrics:
            key = metric_key(metric)
            line.append(_gain([c.metrics[key] for c in without], [c.metrics[key] for c in with_]))
            test = paired_test(results, out, metric[1], without, with_)
            found = p_text(None if test is None else test.p)
            line.append(found + ("" if test is None else part_text(test, with_, without)))
        lines.append(line)
    told = (
        f"Without and with {table.gains}, and the gain, in points; means over seeds. Validation is "
        "the metric by which the round is chosen, at the chosen round. p is of the difference on "
        "the test part, user by user (paired bootstrap), not corrected for the number of rows."
    )
    title = f"### {data.name}: what {table.gains} gains"
    return ["", title, "", told, "", table_in_markdown(heading, lines)]


def both_done(
    table: Table, data: Data, results: Results, pair: tuple[Row, Row]
) -> tuple[list[DoneCell], list[DoneCell]]:
    """The finished seeds that both rows of a pair have; a row in which nothing is drawn has one."""
    plain, gained = (results.done_of(Place(table, row, data, "clean")) for row in pair)
    seeds = {cell.seed for cell in plain} & {cell.seed for cell in gained}

    def common(cells: list[DoneCell]) -> list[DoneCell]:
        return sorted((c for c in cells if c.seed in seeds), key=lambda cell: cell.seed)

    return common(plain), common(gained)


def _gain(without: Sequence[float], with_: Sequence[float]) -> str:
    """
    >>> _gain([0.1, 0.2], [0.3])
    '15.00 → 30.00 (+15.00)'
    """
    before, after = 100 * float(np.mean(without)), 100 * float(np.mean(with_))
    return f"{before:.2f} → {after:.2f} ({after - before:+.2f})"
