"""The report of a finished run: one HTML file that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    PackageLoader,
    StrictUndefined,
    Template,
    Undefined,
    UndefinedError,
)

from tacit.data.protocol import Protocol
from tacit.errors import TacitError, argument
from tacit.experiment.amounts import bytes_text, metric_text, seconds_text, whole_text
from tacit.experiment.charts import Series, line_chart
from tacit.experiment.folder import RunFolder
from tacit.experiment.interpretation import (
    breakdown_rows,
    by_cutoff,
    curve_columns,
    cutoffs,
    interpret,
    main_columns,
    main_table,
    unclean_sentence,
)
from tacit.experiment.record import RoundRecord, RunRecord
from tacit.experiment.record_parts import Ranking
from tacit.experiment.sealed import DamagedError, content_of
from tacit.files import write_text

# Which items the full ranking is over, by the protocol's mask of the test part.
CANDIDATES = {
    "others": "the untouched items of the test part alone",
    "train": "all items outside the person's own training data",
    "train+valid": "all items outside the person's own training and validation data",
}
UNTIL_TEST = "all items that the person had not touched before the test began"


def write_report(folder: Path) -> Path:
    """Read a finished run and write `report.html` beside its record.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     record = run(resolve("popularity"), Path(place, "one"))
    ...     report = write_report(Path(place, "one"))
    ...     shown = report.read_text(encoding="utf-8")
    >>> report.name, f"{record.metrics.full['HR@10']:.4f}" in shown
    ('report.html', True)
    """
    files = RunFolder(Path(folder))
    if not files.finished:
        raise TacitError(
            f"No result at {str(files.result_file)!r}; give the folder of a finished run, or "
            f"finish this one with {argument('resume', True)}."
        )
    settings = _content(files.experiment_file).decode("utf-8", "replace")
    history = _history(files.metrics_file)
    try:
        record = RunRecord.of_json(_content(files.result_file))
        page = render(record, history, files.experiment().protocol, settings)
    except (DamagedError, KeyError, UndefinedError) as error:
        raise TacitError(
            f"The run at {str(files.path)!r} lacks what a report shows ({error}), so one of its "
            "files is damaged or of another version; run `tacit train` again."
        ) from error
    write_text(files.report_file, page)
    return files.report_file


def render(
    record: RunRecord, history: Sequence[RoundRecord], protocol: Protocol, settings: str
) -> str:
    """The page as text, from the record, the rounds, the protocol and the settings as TOML.

    A name that the page reads and a record does not have is an error, never a gap.
    """
    return _page().render(
        run=record,
        candidates=_candidates(protocol),
        sampled=protocol.sampled,
        run_name=Path(record.run).name,  # where it lay on a disk is nobody's business
        unclean=None if record.clean else unclean_sentence(protocol),
        groups=main_table(record),
        cutoffs=cutoffs(record),
        by_cutoff=by_cutoff(record),
        breakdown=breakdown_rows(record),
        breakdown_columns=main_columns(record)["full"],
        counts=record.counts.model_dump(exclude_none=True),
        sentences=interpret(record),
        charts=_charts(record, history),
        settings=settings,
    )


def _candidates(protocol: Protocol) -> str:
    """Among which items a person's test item is ranked."""
    if protocol.split.holds_out_first and protocol.test_mask == "train+valid":
        return UNTIL_TEST
    return CANDIDATES[protocol.test_mask]


@cache
def _page() -> Template:
    """The page with gaps; it is translated to code once, since a study writes many reports."""
    environment = page_environment("tacit.experiment")
    environment.filters |= {
        "metric": known(metric_text),
        "whole": known(whole_text),
        "bytes": known(bytes_text),
        "seconds": known(seconds_text),
    }
    return environment.get_template("report.html.jinja")


def page_environment(package: str) -> Environment:
    """What every page is made in: templates of a package, with the style of the report of a run.

    >>> "--paper" in page_environment("tacit.study").get_template("report.css").render()
    True
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in (package, "tacit.experiment")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def known(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """A filter that shows values; a key that is not there is none, not even a dash.

    >>> known(metric_text)(0.25)
    '0.2500'
    """

    def shown(value: Any) -> str:
        if isinstance(value, Undefined):
            str(value)  # a strict one says here what is missing
        return show(value)

    return shown


def _charts(record: RunRecord, history: Sequence[RoundRecord]) -> list[dict[str, Any]]:
    """Loss, then validation in both rankings; what has fewer than two points is left out."""
    selected = record.selected_round
    validated = [(line.round, line.valid) for line in history if line.valid is not None]

    def of_ranking(ranking: Ranking) -> list[Series]:
        return [
            Series.of(name, [(number, valid.of(ranking)[name]) for number, valid in validated])
            for name in curve_columns(record)[ranking]
        ]

    numbers = [line.round for line in history]
    losses = [Series.of("loss", [(line.round, line.loss) for line in history])]
    charts = []
    for title, series, from_zero in (
        ("Training loss", losses, False),
        ("Validation, full ranking", of_ranking("full"), True),
        ("Validation, 99 sampled", of_ranking("sampled99"), True),
    ):
        svg = line_chart(
            series,
            label=f"{title} by {record.unit}",
            unit=record.unit,
            span=(min(numbers), max(numbers)) if numbers else None,
            selected=selected,
            from_zero=from_zero,
        )
        chosen = [(one.name, value) for one in series for at, value in one.points if at == selected]
        if svg:
            charts.append({"title": title, "svg": svg, "chosen": chosen})
    return charts


def _history(path: Path) -> list[RoundRecord]:
    found = []
    for number, line in enumerate(_content(path).splitlines(), start=1):
        try:
            found.append(RoundRecord.of_json(line))
        except DamagedError as error:
            raise TacitError(
                f"line {number} of {str(path)!r} is damaged: {error}; run `tacit train` again."
            ) from error
    return found


def _content(path: Path) -> bytes:
    try:
        return content_of(path)
    except DamagedError as error:
        raise TacitError(f"Cannot read {str(path)!r}: {error}.") from error
