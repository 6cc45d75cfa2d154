"""The report of a finished run: one HTML file that needs nothing but itself."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined, UndefinedError

from tacit.errors import TacitError
from tacit.experiment.amounts import bytes_text, metric_text, seconds_text, whole_text
from tacit.experiment.charts import Series, line_chart
from tacit.experiment.folder import RunFolder
from tacit.experiment.interpretation import (
    SAMPLED,
    by_cutoff,
    curve_columns,
    cutoffs,
    guarantee_words,
    headline,
    is_cold,
    main_columns,
    main_table,
    reading,
    unclean_sentence,
    unit_of,
    warmth_rows,
)
from tacit.files import write_text

# Which items the full ranking is over, by the protocol's mask of the test part.
CANDIDATES = {
    "others": "the untouched items of the test part alone",
    "train": "all items outside the person's own training data",
    "train+valid": "all items outside the person's own training and validation data",
}


def write_report(folder: Path) -> Path:
    """Read a finished run and write `report.html` beside its result.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     result = run(resolve("popularity"), Path(place, "one"))
    ...     report = write_report(Path(place, "one"))
    ...     shown = report.read_text(encoding="utf-8")
    >>> report.name, f"{result['metrics']['full']['HR@10']:.4f}" in shown
    ('report.html', True)
    """
    files = RunFolder(Path(folder))
    run = _result(files.result_file)
    history = _history(files.metrics_file)
    settings = _text(files.experiment_file)
    try:
        page = render(run, history, settings)
    except (KeyError, TypeError, ValueError, AttributeError, UndefinedError) as error:
        raise TacitError(
            f"The run at {str(files.path)!r} lacks what a report shows ({error}), so one of its "
            "files is damaged or of another version; run `tacit train` again."
        ) from error
    write_text(files.report_file, page)
    return files.report_file


def render(run: Mapping[str, Any], history: Sequence[Mapping[str, Any]], settings: str) -> str:
    """The page as text, from the result, the lines by round and the settings.

    Every run has every key that the page reads; one that is missing is an error, never a gap.

    >>> render({"method": "fedmf"}, [], "")
    Traceback (most recent call last):
    KeyError: 'protocol'
    """
    environment = Environment(
        loader=PackageLoader("tacit.experiment", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "metric": known(metric_text),
        "whole": known(whole_text),
        "bytes": known(bytes_text),
        "seconds": known(seconds_text),
    }
    protocol = tomllib.loads(settings)["protocol"]
    return environment.get_template("report.html.jinja").render(
        run=run,
        headline=headline(run),
        candidates=CANDIDATES[protocol["test_mask"]],
        sampled=protocol["sampled"],
        name=" + ".join([run["method"], *run["plugins"]]),
        run_name=Path(run["run"]).name,  # where it lay on a disk is nobody's business
        guarantee=guarantee_words(run["privacy"]),
        unclean=None if run["clean"] else unclean_sentence(run["protocol"], protocol),
        groups=main_table(run),
        cutoffs=cutoffs(run),
        by_cutoff=by_cutoff(run),
        warmth=warmth_rows(run),
        warmth_columns=main_columns(run)["full"],
        cold=run["cold"] if is_cold(run) else None,
        sentences=reading(run),
        unit=unit_of(run),
        charts=_charts(run, history),
        settings=settings,
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


def _charts(run: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Loss, then validation in both rankings; what has fewer than two points is left out."""
    selected, unit = run["selected_round"], unit_of(run)
    validated = [line for line in history if "valid" in line]

    def of_ranking(kind: str) -> list[Series]:
        return [
            Series.of(name, [(line["round"], line["valid"][kind][name]) for line in validated])
            for name in curve_columns(run)[kind]
        ]

    numbers = [line["round"] for line in history]
    losses = [Series.of("loss", [(line["round"], line["loss"]) for line in history])]
    charts = []
    for title, series, from_zero in (
        ("Training loss", losses, False),
        ("Validation, full ranking", of_ranking("full"), True),
        ("Validation, 99 sampled", of_ranking(SAMPLED), True),
    ):
        svg = line_chart(
            series,
            label=f"{title} by {unit}",
            unit=unit,
            span=(min(numbers), max(numbers)) if numbers else None,
            selected=selected,
            from_zero=from_zero,
        )
        chosen = [(one.name, value) for one in series for at, value in one.points if at == selected]
        if svg:
            charts.append({"title": title, "svg": svg, "chosen": chosen})
    return charts


def _result(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise TacitError(
            f"No result at {str(path)!r}; give the folder of a finished run, or finish this one "
            "with --resume."
        )
    return _object(_text(path), str(path))


def _history(path: Path) -> list[dict[str, Any]]:
    lines = _text(path).splitlines()
    return [
        _object(line, f"line {number} of {str(path)!r}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TacitError(f"{where} is not JSON ({error}); run `tacit train` again.") from error
    if not isinstance(value, dict):
        raise TacitError(f"{where} holds no JSON object; run `tacit train` again.")
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TacitError(f"Cannot read {str(path)!r}: {error}.") from error
