"""A leaderboard as people and programs read it: one HTML file, Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Template

from tacit.experiment.amounts import DASH, bytes_text, metric_text, seconds_text, whole_text
from tacit.experiment.report import known, page_environment
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import document
from tacit.files import write_text
from tacit.methods import METHODS
from tacit.study.leaderboard import SORTED_BY, BoardRow, Leaderboard, Measure, NotRanked, Section
from tacit.study.writer import as_csv, as_markdown

STEM = "leaderboard"
SHOWN = 0.0001  # what four decimals can show
HOW_TO_READ = (
    "Protocol clean, full ranking: a test item stands among all items that the person had not "
    "touched.",
    "A number is the mean over seeds; beside it stands its 95 % interval over people, who are "
    "drawn again with replacement; that seeds differ is not in it. ± is the standard deviation "
    "over seeds.",
    "Bytes up are what one person sends in the whole training; a central system takes the history "
    "itself.",
    "Seconds are those of a clock in one run, with all settings of a grid of its own. Rows ran on "
    "different machines, some of them busy: compare orders of magnitude.",
    "Search budgets differ: a row whose method has a grid of its own chose among so many settings "
    "on validation; a row with 1 has the settings of its preset, which nobody tuned to this data "
    "for the page. So a place tells what one gets without tuning, and not how good a method can "
    "be. No test value chose any setting for this page. Where settings of a preset were chosen on "
    "data before, the row says so. The preset called paper has what a paper gives, and what is "
    "ours where it is silent: of mf, ncf and neumf Adam is ours.",
)
COLD_TITLE = "Items that nobody has touched"
COLD_WORDS = (
    "All interactions of the test items were held out, and these items are ranked among "
    "themselves. Numbers do not compare with those above."
)


def write_page(board: Leaderboard, experiments: Mapping[str, Experiment], out: Path) -> list[Path]:
    """The page, its tables and its numbers, and the experiments that its commands read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     [path.name for path in write_page(Leaderboard(sections=()), {}, Path(place))]
    ['leaderboard.html', 'leaderboard.md', 'leaderboard.csv', 'leaderboard.json']
    """
    texts = {
        f"{STEM}.html": as_page(board),
        f"{STEM}.md": markdown(board),
        f"{STEM}.csv": as_csv(*numbers(board)),
        f"{STEM}.json": json_text(board),
        **{name: document(experiment) for name, experiment in experiments.items()},
    }
    for name, text in texts.items():
        write_text(out / name, text)
    return [out / name for name in texts]


def json_text(board: Leaderboard) -> str:
    """All numbers, unrounded, as `Leaderboard` reads them again.

    >>> Leaderboard.model_validate_json(json_text(Leaderboard(sections=()))).refused
    ()
    """
    return board.model_dump_json(indent=1) + "\n"


# Texts of single cells.


def measure_text(measure: Measure) -> str:
    """
    >>> measure_text(Measure(mean=0.2, low=0.1, high=0.3, by_seed=(0.2,)))
    '0.2000 [0.1000, 0.3000]'
    """
    return f"{metric_text(measure.mean)} [{metric_text(measure.low)}, {metric_text(measure.high)}]"


def seeds_text(row: BoardRow) -> str:
    """How many seeds a row has, and how far they lie apart.

    >>> one = Measure(mean=0.2, low=0.1, high=0.3, by_seed=(0.2, 0.2))
    >>> seeds_text(BoardRow.model_construct(seeds=(0, 1), results=1, metrics={SORTED_BY: one}))
    '2 seeds, all alike'
    """
    if len(row.seeds) == 1:
        return "1 seed"
    if row.results == 1:
        return f"{len(row.seeds)} seeds, all alike"
    deviation = row.metrics[SORTED_BY].seed_spread.deviation or 0.0
    around = f"±{metric_text(deviation)}" if deviation >= SHOWN else f"± under {metric_text(SHOWN)}"
    return f"{len(row.seeds)} seeds, {around}"


def time_text(row: BoardRow) -> str:
    """What a run takes, and where it was, if not on a CPU.

    >>> time_text(BoardRow.model_construct(seconds=12.0, device="cuda"))
    '12.0 s on cuda'
    """
    return seconds_text(row.seconds) + (f" on {row.device}" if row.device != "cpu" else "")


def search_text(row: BoardRow) -> str:
    """Settings tried for the page, and those that we had tried before for its preset.

    >>> search_text(BoardRow.model_construct(system="fedrecon", preset="paper", search="1"))
    '1; about 12 tried before on ml-100k'
    """
    before = METHODS[row.system].chosen.get(row.preset) if row.system in METHODS else None
    return row.search if before is None else f"{row.search}; {before.text}"


def overlaps_first(section: Section, row: BoardRow) -> bool:
    """Whether a row other than the first has an interval that reaches that of the first."""
    first = section.rows[0]
    return row is not first and row.metrics[SORTED_BY].overlaps(first.metrics[SORTED_BY])


def reasons(named: Iterable[NotRanked]) -> dict[str, list[str]]:
    """What is not there, by the reason. A sentence that begins with the name is said once of all.

    >>> reasons([NotRanked(name="a", why="x"), NotRanked(name="b", why="x")])
    {'x': ['a', 'b']}
    >>> reasons([NotRanked(name="a", why="a reads no order."), NotRanked(name="b", why="late")])
    {'reads no order.': ['a'], 'late': ['b']}
    """
    found: dict[str, list[str]] = {}
    for one in named:
        found.setdefault(one.why.removeprefix(f"{one.name} "), []).append(one.name)
    return found


# Markdown and CSV.


def markdown(board: Leaderboard, written_by: str = "tacit leaderboard") -> str:
    """The whole file.

    >>> markdown(Leaderboard(sections=())).splitlines()[0]
    '# Leaderboard'
    """
    lines = ["# Leaderboard", "", f"Written by `{written_by}`.", ""]
    lines += [f"- {sentence}" for sentence in HOW_TO_READ]
    for section in board.warm:
        lines += ["", f"## {section.dataset}", "", *_section_lines(section)]
    if board.cold:
        lines += ["", f"## {COLD_TITLE}", "", COLD_WORDS]
    for section in board.cold:
        lines += ["", f"### {section.dataset}", "", *_section_lines(section)]
    if board.refused:
        lines += ["", "## Not ranked", ""]
        lines += [f"- {', '.join(names)}: {why}" for why, names in reasons(board.refused).items()]
    return "\n".join(lines) + "\n"


def _section_lines(section: Section) -> list[str]:
    heading = ["", "system", *(f"{name} (95 %)" for name in section.metrics), "seeds"]
    heading += ["seconds", "bytes up, a person", "privacy", "settings tried", "run again"]
    body = [
        [
            place + (" ≈" if overlaps_first(section, row) else ""),
            f"{row.system}{' (central)' if row.kind == 'central' else ''}",
            *(measure_text(row.metrics[name]) for name in section.metrics),
            seeds_text(row),
            time_text(row),
            bytes_text(row.bytes_up),
            row.privacy,
            search_text(row),
            f"`{row.command}`",
        ]
        for place, row in zip(section.places, section.rows, strict=True)
    ]
    for name, values in section.reference.items():
        shown = [metric_text(values[metric]) for metric in section.metrics]
        body.append([DASH, f"*{name}* (reference)", *shown, *[DASH] * 6])
    absent = [f"{', '.join(names)}: {why}" for why, names in reasons(section.not_run).items()]
    unchecked = dict.fromkeys(note for row in section.rows for note in row.unchecked)
    told = [*section.sentences, *section.cautions, *unchecked, *absent]
    counted = (
        f"{whole_text(section.users)} people, {whole_text(section.items)} items, "
        f"{len(section.rows)} systems"
    )
    legend = "≈: the interval reaches that of the first row." if len(section.rows) > 1 else ""
    facts = f"Split {section.split}, {counted}. {legend}".rstrip()
    table = [facts, "", as_markdown(heading, body), ""] if section.rows else []
    return [*table, *(f"- {one}" for one in told)]


def numbers(board: Leaderboard) -> tuple[list[str], list[list[object]]]:
    """All rows of all sections in one table, unrounded."""
    shown = tuple(dict.fromkeys(name for one in board.sections for name in one.metrics))
    heading = ["dataset", "split", "cold", "place", "system", "kind", "preset", "seeds"]
    for name in shown:
        heading += [name, f"{name} low", f"{name} high", f"popularity {name}", f"chance {name}"]
    heading += ["seconds", "device", "bytes_up", "privacy", "epsilon", "delta", "view"]
    heading += ["settings_tried", "command"]
    rows = []
    for section in board.sections:
        for place, row in zip(section.places, section.rows, strict=True):
            cells: list[object] = [section.dataset, section.split, section.cold, place, row.system]
            cells += [row.kind, row.preset, " ".join(map(str, row.seeds))]
            for name in shown:
                one = row.metrics.get(name)
                measured = [None] * 3 if one is None else [one.mean, one.low, one.high]
                beside = [section.reference[which].get(name) for which in ("popularity", "chance")]
                cells += [*measured, *beside]
            cells += [row.seconds, row.device, row.bytes_up, row.privacy, row.epsilon, row.delta]
            rows.append([*cells, row.view, row.tried, row.command])
    return heading, rows


# One HTML file that needs nothing but itself.


def as_page(board: Leaderboard) -> str:
    """The page as text.

    >>> "<script" in as_page(Leaderboard(sections=()))
    False
    """
    return _page().render(
        board=board,
        how_to_read=HOW_TO_READ,
        cold_title=COLD_TITLE,
        cold_words=COLD_WORDS,
        sorted_by=SORTED_BY,
    )


def reach(section: Section) -> float:
    """The value at the right end of a section's bars."""
    return max([row.metrics[SORTED_BY].high for row in section.rows], default=1.0) or 1.0


@cache
def _page() -> Template:
    """The page with gaps, translated to code once."""
    environment = page_environment("tacit.study")
    environment.filters |= {
        "metric": known(metric_text),
        "whole": known(whole_text),
        "bytes": known(bytes_text),
        "time": time_text,
        "search": search_text,
        "seeds": seeds_text,
        "reach": reach,
        "reasons": reasons,
    }
    environment.globals["overlaps_first"] = overlaps_first
    return environment.get_template(f"{STEM}.html.jinja")
