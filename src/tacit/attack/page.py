"""An inversion attack as people and programs read it: tables, one JSON object, figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from tacit.analysis.finding import Column, Table, word
from tacit.attack.inversion import Attempt, Inversion
from tacit.attack.radar_figure import MEASURES, radar_figure
from tacit.attack.structure_figure import structure_figure
from tacit.experiment.amounts import whole_text
from tacit.experiment.figures import save_figure
from tacit.experiment.names import slug
from tacit.files import write_text

# What MDiffFR's privacy section proves, and what of it holds for the generator as it is released.
BOUND = (
    "MDiffFR argues that diffusion hides content by bounding what an embedding can tell about it. "
    "The bound speaks of a generator that adds noise at every reverse step; the released one adds "
    "none, so the random start is all that differs between two draws, and the last step returns "
    "what the network makes of the content. The entropy that the argument counts on, (p/2) "
    "log(2 pi e variance), is taken to be positive; that needs a variance above 0.0585, and "
    "the paper's schedule has at most 0.0002, so it is negative and the comparison says nothing. "
    "Nor does a bound for one draw cover many: whoever is sent fresh draws round after round can "
    "average them. So no guarantee stands behind these numbers. They say what these attackers "
    "found; a better one may find more."
)
OTHER_CONTENT = (
    "These runs were generated from different content, so MSE, MAE and structure do not compare "
    "between them; compare each with its own floor, as the radar chart does."
)


def notes(found: Mapping[str, Inversion]) -> list[str]:
    """What must be known beside the numbers; the paragraph on the bound comes last.

    >>> notes({}) == [BOUND]
    True
    """
    # the same seeds leak the same items, so equal content has equal floors
    floors = {astuple(one.floor.mean) for one in found.values()}
    return [*([OTHER_CONTENT] if len(floors) > 1 else []), BOUND]


def spread_text(value: tuple[float, float | None]) -> str:
    """A mean over seeds with its deviation.

    >>> spread_text((0.12345, 0.0111)), spread_text((0.5, None))
    ('0.123 ±0.011', '0.500')
    """
    mean, deviation = value
    return f"{mean:.3f}" + ("" if deviation is None else f" ±{deviation:.3f}")


def text_table(found: Mapping[str, Inversion]) -> Table:
    """One row for each run, attacker and view, as it is printed.

    >>> import numpy as np
    >>> from tacit.attack.measures import Measures
    >>> one = Attempt("mean", "nothing", Measures(1.0, 0.8, 0.0, 0.0, 1.0), None, np.zeros((2, 2)))
    >>> text_table({"a run": Inversion(20, 80, 64, 64, 1, 1, (one,))}).texts()
    [['a run', 'mean', 'nothing', '1.000', '0.800', '0.000', '0.000', '1.000']]
    """
    one = next(iter(found.values()))
    title = f"Content of {one.unknown} cold items from their embeddings, {one.known} items leaked"
    columns = [Column(name, word) for name in ("run", "attacker", "sees")]
    columns += [Column(name, spread_text) for name in MEASURES]
    rows = []
    for name, result in found.items():
        for attempt in result.attempts:
            # a long name in every row would take the room of the numbers
            label = name if attempt is result.floor else ""
            rows.append((label, attempt.attacker, attempt.view, *_spreads(attempt)))
    return Table("inversion", title, tuple(columns), tuple(rows))


def _spreads(attempt: Attempt) -> list[tuple[float, float | None]]:
    means = astuple(attempt.mean)
    none = (None,) * len(means)
    deviations = none if attempt.deviation is None else astuple(attempt.deviation)
    return list(zip(means, deviations, strict=True))


def number_table(found: Mapping[str, Inversion]) -> Table:
    """The same rows unrounded, a number in a column, for the CSV file.

    >>> import numpy as np
    >>> from tacit.attack.measures import Measures
    >>> one = Attempt("mean", "nothing", Measures(1.0, 0.8, 0.0, 0.0, 1.0), None, np.zeros((2, 2)))
    >>> number_table({"a run": Inversion(20, 80, 64, 64, 1, 1, (one,))}).header[3:7]
    ['known', 'unknown', 'MSE', 'MSE deviation']
    """
    columns = [Column(name, word) for name in ("run", "attacker", "sees")]
    columns += [Column(name, whole_text) for name in ("known", "unknown")]
    for name in MEASURES:
        columns += [Column(name), Column(f"{name} deviation")]
    rows = tuple(
        (name, attempt.attacker, attempt.view, one.known, one.unknown, *chain(*_spreads(attempt)))
        for name, one in found.items()
        for attempt in one.attempts
    )
    return Table("inversion", "Inversion attack", tuple(columns), rows)


def as_json(found: Mapping[str, Inversion]) -> dict[str, Any]:
    """Everything that was found, as plain values; the file and `--json` hold the same object.

    >>> as_json({})["runs"]
    []
    """
    runs = []
    for name, one in found.items():
        attempts = [
            {
                "attacker": attempt.attacker,
                "sees": attempt.view,
                "mean": asdict(attempt.mean),
                "deviation": None if attempt.deviation is None else asdict(attempt.deviation),
                "leakage": asdict(one.leakage(attempt)) if attempt in one.attacks else None,
                "differences": attempt.difference_VV.tolist(),
            }
            for attempt in one.attempts
        ]
        counts = {
            count: getattr(one, count)
            for count in ("known", "unknown", "width", "content_width", "draws", "seeds")
        }
        runs.append({"run": name, **counts, "attempts": attempts})
    return {"attack": "inversion", "runs": runs, "notes": notes(found), "tacit": version("tacit")}


def write_page(found: Mapping[str, Inversion], out: Path) -> list[Path]:
    """Write the numbers as CSV and JSON, heat maps for each run and one radar chart (PNG and SVG).

    >>> import tempfile
    >>> import numpy as np
    >>> from tacit.attack.inversion import invert
    >>> content_CF = np.random.default_rng(0).normal(size=(60, 3))
    >>> found = {"a run": invert(content_CF[None], content_CF, seeds=1)}
    >>> with tempfile.TemporaryDirectory() as place:
    ...     [path.name for path in write_page(found, Path(place)) if path.suffix != ".svg"]
    ['inversion.csv', 'inversion.json', 'inversion-radar.png', 'inversion-structure.png']
    """
    numbers, page = out / "inversion.csv", out / "inversion.json"
    write_text(numbers, number_table(found).csv())
    write_text(page, json.dumps(as_json(found), indent=1))
    written = [numbers, page, *save_figure(radar_figure(found), out / "inversion-radar")]
    for name, one in found.items():
        ending = f"-{slug(name)}" if len(found) > 1 else ""
        stem = out / f"inversion-structure{ending}"
        written += save_figure(structure_figure(name, one), stem)
    return written
