"""The report of a finished run: one HTML file that needs nothing but itself."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from tacit.errors import TacitError
from tacit.experiment.amounts import bytes_text, metric_text, seconds_text, whole_text
from tacit.experiment.charts import Series, line_chart
from tacit.experiment.folder import RunFolder
from tacit.experiment.reading import reading, unclean_sentence
from tacit.experiment.tables import (
    SAMPLED,
    by_cutoff,
    cutoffs,
    headline,
    main_table,
    warmth_columns,
)
from tacit.files import write_text

NEEDED = ("method", "dataset", "protocol", "clean", "seed", "metrics", "reference")


def write_report(folder: Path) -> Path:
    """Read a finished run and write `report.html` beside its result.

    >>> import tempfile
    >>> result = {"method": "fedmf", "dataset": "planted", "protocol": "clean", "clean": True}
    >>> result |= {"seed": 0, "metrics": {"full": {"HR@10": 0.25}}, "reference": {}}
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, "run.json").write_text(json.dumps(result))
    ...     report = write_report(Path(name))
    ...     report.name, "0.2500" in report.read_text(encoding="utf-8")
    ('report.html', True)
    """
    files = RunFolder(Path(folder))
    run = _result(files.result_file)
    history = _history(files.metrics_file)
    settings = _text(files.experiment_file) if files.experiment_file.is_file() else ""
    write_text(files.report_file, render(run, history, settings))
    return files.report_file


def render(run: Mapping[str, Any], history: Sequence[Mapping[str, Any]], settings: str) -> str:
    """The page as text, from the result, the lines by round and the settings.

    >>> run = {"method": "fedmf", "dataset": "a<b", "protocol": "clean", "clean": True, "seed": 0}
    >>> "a&lt;b" in render({**run, "metrics": {}, "reference": {}}, [], "")
    True
    """
    environment = Environment(
        loader=PackageLoader("tacit.experiment", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "metric": metric_text,
        "whole": whole_text,
        "bytes": bytes_text,
        "seconds": seconds_text,
    }
    # A closed-form method has settings where others have rounds, and no loss in any of them.
    without_loss = bool(history) and all(line.get("loss") is None for line in history)
    unit = "setting" if without_loss else "round"
    protocol = _protocol(settings)
    return environment.get_template("report.html.jinja").render(
        run=run,
        headline=headline(run),
        masked="training" if protocol.get("test_mask") == "train" else "training and validation",
        name=" + ".join([str(run["method"]), *map(str, run.get("plugins") or ())]),
        run_name=Path(run.get("run") or "").name,  # where it lay on a disk is nobody's business
        unclean=None if run["clean"] else unclean_sentence(run["protocol"], protocol),
        groups=main_table(run),
        cutoffs=cutoffs(run),
        by_cutoff=by_cutoff(run),
        warmth_columns=warmth_columns(run),
        sentences=reading(run),
        unit=unit,
        charts=_charts(history, run.get("selected_round"), unit, headline(run)),
        settings=settings,
    )


def _charts(
    history: Sequence[Mapping[str, Any]], selected: int | None, unit: str, k: int
) -> list[dict[str, Any]]:
    """Loss, then validation in both rankings; what has fewer than two points is left out."""

    def of_ranking(kind: str) -> list[Series]:
        return [
            Series.of(name, [(line["round"], _valid(line, kind).get(name)) for line in history])
            for name in (f"HR@{k}", f"NDCG@{k}")
        ]

    numbers = [line["round"] for line in history]
    losses = [Series.of("loss", [(line["round"], line.get("loss")) for line in history])]
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


def _valid(line: Mapping[str, Any], kind: str) -> Mapping[str, float | None]:
    return (line.get("valid") or {}).get(kind) or {}


def _protocol(settings: str) -> Mapping[str, Any]:
    """The protocol's fields as the saved experiment spells them; none if it cannot be read."""
    try:
        fields = tomllib.loads(settings).get("protocol")
    except tomllib.TOMLDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _result(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise TacitError(
            f"No result at {str(path)!r}; give the folder of a finished run, or finish this one "
            "with --resume."
        )
    run = _object(_text(path), str(path))
    lacking = [key for key in NEEDED if key not in run]
    if lacking:
        raise TacitError(
            f"{str(path)!r} lacks {lacking[0]!r}, so no report can be made of it; run "
            "`tacit train` again."
        )
    return run


def _history(path: Path) -> list[dict[str, Any]]:
    lines = _text(path).splitlines() if path.is_file() else []
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
