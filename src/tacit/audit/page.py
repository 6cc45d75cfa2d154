"""An audit as files: one JSON object for programs, one HTML page that needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from tacit.audit.audit import Audit
from tacit.errors import TacitError
from tacit.experiment.amounts import metric_text, whole_text
from tacit.experiment.report import known
from tacit.files import whole_folder


def as_json(audits: Sequence[Audit]) -> dict[str, Any]:
    """Everything that was found, as plain values; `--json` prints the same object.

    >>> as_json([Audit("m", "d", "clean", True, "s", 0, 9, 5, "5", "e", ())])["audits"][0]["flags"]
    []
    """
    return {
        "method": audits[0].method,
        "dataset": audits[0].dataset,
        "seed": audits[0].seed,
        "audits": [
            {**asdict(one), "flags": one.flags, "conclusion": one.conclusion} for one in audits
        ],
        "tacit": version("tacit"),
    }


def render(audits: Sequence[Audit]) -> str:
    """The page as text: protocols side by side, then every finding with its numbers.

    >>> "a&lt;b" in render([Audit("m", "a<b", "clean", True, "s", 0, 9, 5, "5", "e", ())])
    True
    """
    environment = Environment(
        # the style is that of the report of a run
        loader=ChoiceLoader(
            [PackageLoader("tacit.audit", "."), PackageLoader("tacit.experiment", ".")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["amount"] = known(amount)
    template = environment.get_template("audit.html.jinja")
    checks = [finding.name for finding in audits[0].findings]
    return template.render(audits=audits, checks=checks, first=audits[0])


def amount(value: object) -> str:
    """A number as people read it: shares with four decimals, counts whole.

    >>> amount(0.12345), amount(1269)
    ('0.1235', '1,269')
    """
    return whole_text(value) if isinstance(value, int) else metric_text(value)


def refuse_used(folder: Path) -> None:
    """A folder to write to is new or empty; asked before anything is trained."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise TacitError(f"{str(folder)!r} is not an empty folder; choose another --out.")


def write_audit(audits: Sequence[Audit], folder: Path) -> Path:
    """Write `audit.json` and `audit.html` into a new folder, both or neither; returns the page.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     one = Audit("m", "d", "clean", True, "s", 0, 9, 5, "5", "e", ())
    ...     sorted(path.name for path in write_audit([one], Path(place, "new")).parent.iterdir())
    ['audit.html', 'audit.json']
    """
    refuse_used(folder)
    files = {"audit.json": json.dumps(as_json(audits), indent=1), "audit.html": render(audits)}
    with whole_folder(folder) as unfinished:
        for name, text in files.items():
            (unfinished / name).write_text(text, encoding="utf-8")
    return folder / "audit.html"
