"""Where commands write, and results as rich tables: results to stdout, all else to stderr."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import typer

from tacit.experiment.amounts import bytes_text, metric_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from tacit.experiment.record import RunRecord
    from tacit.experiment.record_parts import Privacy


# Where commands write: results to stdout, everything else to stderr.
#
# Titles, ids and names of columns come out of other people's files. What is in them reaches the
# terminal through `printable`, so that none of it can move the cursor, colour the screen or forge a
# line.

PLAIN_WIDTH = 120  # of tables when stdout is a file or a pipe
LONGEST_SENTENCE = 1500  # characters of one mistake; its beginning and its end are kept
_HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # controls, half characters, and ends of lines
_TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # of direction


def printable(text: str) -> str:
    """The text with what a terminal would obey, and not show, written as escapes.

    >>> printable("Alien \\x1b[31m, café")
    'Alien \\\\u001b[31m, café'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in _HIDDEN or c in _TURNS else c for c in text
    )


def one_sentence(text: str) -> str:
    """A mistake as it is printed: one line, of bounded length, with nothing a terminal obeys.

    >>> one_sentence("One\\nline.")
    'One line.'
    """
    line = " ".join(text.splitlines())
    if len(line) > LONGEST_SENTENCE:
        line = f"{line[: LONGEST_SENTENCE * 2 // 3]} … {line[-LONGEST_SENTENCE // 3 :]}"
    return printable(line)


def say_json(value: Any) -> None:
    """One JSON object on stdout."""
    typer.echo(json.dumps(value, indent=1))


def say(text: str = "") -> None:
    """One line for people on stdout, as it is: no wrapping, no markup."""
    typer.echo(printable(text))


def warn(text: str) -> None:
    """One line for people on stderr."""
    typer.echo(printable(text), err=True)


def say_lines(text: str) -> None:
    """Several lines for people on stdout."""
    for line in text.split("\n"):
        say(line)


def show(renderable: RenderableType) -> None:
    """A rich table on stdout."""
    _stdout().print(renderable)


def _stdout() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    return console


# Results as rich tables.

SAMPLED = ("HR@10", "NDCG@10")


def plain_table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0
) -> Table:
    """A table of texts as they are, made printable; the last `numbers` columns stand to the
    right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=None if title is None else Text(printable(title)),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for place, column in enumerate(columns):
        right = place >= len(columns) - numbers
        # a word that is too long goes on in the next line; nothing of a name is cut away
        overflow: Literal["ellipsis", "fold"] = "ellipsis" if right else "fold"
        justify: Literal["right", "left"] = "right" if right else "left"
        heading = Text(printable(column))
        table.add_column(heading, justify=justify, no_wrap=right, overflow=overflow)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def full_columns(record: RunRecord) -> tuple[str, ...]:
    """Metrics of the full ranking: at 10, or also at the cut-off at which the run was selected."""
    from tacit.experiment.interpretation import COLD_COLUMNS

    if record.cold is not None:
        return COLD_COLUMNS
    k = record.headline
    if k == 10:
        return ("HR@5", "HR@10", "HR@20", "NDCG@10")
    return tuple(dict.fromkeys(("HR@10", "HR@20", f"HR@{k}", f"NDCG@{k}")))


def result_table(record: RunRecord) -> Table:
    """The method beside popularity, chance and the never-sampled oracle."""
    shown = full_columns(record)

    def row(name: str, full: Mapping[str, float], sampled: Mapping[str, float]) -> list[str]:
        values = [*(full[metric] for metric in shown), *(sampled[metric] for metric in SAMPLED)]
        return [name, *map(metric_text, values)]

    full, sampled = record.reference.full, record.reference.sampled99
    rows = [
        row(record.label, record.metrics.full, record.metrics.sampled99),
        row("popularity", full.popularity, sampled.popularity),
        row("chance", full.chance, sampled.chance),
        row("never-sampled oracle", full.never_sampled, sampled.never_sampled),
    ]
    columns = ["", *shown, *(f"{name} vs 99" for name in SAMPLED)]
    return plain_table(None, columns, rows, numbers=len(shown) + len(SAMPLED))


def _beside(record: RunRecord) -> list[str]:
    """What stands beside a result on items that nobody has touched."""
    from tacit.experiment.interpretation import COLD_COLUMNS

    if record.cold is None:
        return []
    cold, name = record.cold, COLD_COLUMNS[0]
    told = [f"one list for everybody has {name} {metric_text(cold.same_for_all[name])}"]
    if cold.draws is not None:
        drawn = cold.draws[name]
        told.append(
            f"{cold.draws.number} draws of noise {metric_text(drawn.mean)} ± "
            f"{metric_text(drawn.deviation)}"
        )
    if cold.without_content is not None:
        told.append(f"{cold.without_content.items} test items have no content")
    return [f"cold      {'; '.join(told)}"]


def _claimed(privacy: Privacy) -> list[str]:
    """What a guarantee is made of, and what it takes for granted."""
    if not privacy.guaranteed:
        return []
    norm = "sum of absolute values" if privacy.norm == 1 else "norm"
    return [
        f"claim     {privacy.adjacency}; {privacy.mechanism} noise {privacy.noise:.4g} on uploads "
        f"of {norm} {privacy.bound:.4g}, sensitivity {privacy.sensitivity:.4g}, ε = "
        f"{privacy.epsilon_per_release:.4g} per release, {privacy.releases} in all",
        f"assumes   {'; '.join(privacy.assumes or ())}",
    ]


def lines_of_result(record: RunRecord) -> list[str]:
    """What must be known beside the numbers: where they come from, what they cost, who can read."""
    from tacit.experiment.interpretation import about_unseen
    from tacit.study.compare import protocol_warning

    # where all test items are unseen, the table speaks of nothing else
    unseen = about_unseen(record) if record.cold is None else ""
    cost, privacy = record.cost, record.privacy
    warning = protocol_warning(record.protocol, record.clean)
    often = ", once" if record.kind == "central" else " and round"
    return [
        *([warning] if warning else []),
        f"protocol  {record.protocol}, split {record.split}, preset {record.preset}, "
        f"seed {record.seed}",
        f"selected  {record.unit} {record.selected_round} of {record.rounds_run} "
        f"({record.selection})",
        *([f"unseen    {unseen}"] if unseen else []),
        *_beside(record),
        f"bytes     {bytes_text(cost.bytes_up)} up and {bytes_text(cost.bytes_down)} down "
        f"per client{often}, {bytes_text(cost.bytes_total_to_selected_round)} in all",
        f"privacy   {privacy.text}: {'; '.join(privacy.server_reads)}",
        *_claimed(privacy),
        f"engine    {record.engine.text}, {record.seconds:.1f} s",
        *(f"note      {note}" for note in record.notes),
    ]
