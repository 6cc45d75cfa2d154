"""audit(experiment): every check of one method under one protocol, and the files it gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Template

from tacit.audit.checks import drawn_less, never_sampled, repeats, tied_times
from tacit.audit.order import neighbours, shuffled_order
from tacit.audit.scores import alone, references, swapped, unseen
from tacit.audit.subject import AuditFinding, Subject
from tacit.core.types import EnginePath, Task
from tacit.data.split import cautions, resolved_split
from tacit.engines.device import one_torch_thread
from tacit.errors import TacitError, argument
from tacit.experiment.amounts import metric_text, whole_text
from tacit.experiment.callbacks import Callbacks, together
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.report import known, page_environment
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.files import whole_folder

# An audit as files: one JSON object for programs, one HTML page that needs nothing but itself.

# Names in the files, where they are other than those of the fields.
_IN_FILES = {"text": "says", "rounds_text": "rounds_say"}


def _written(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {_IN_FILES.get(name, name): value for name, value in pairs}


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
            {**asdict(one, dict_factory=_written), "flags": one.flags, "conclusion": one.conclusion}
            for one in audits
        ],
        "tacit": version("tacit"),
    }


def render(audits: Sequence[Audit]) -> str:
    """The page as text: protocols side by side, then every finding with its numbers.

    >>> "a&lt;b" in render([Audit("m", "a<b", "clean", True, "s", 0, 9, 5, "5", "e", ())])
    True
    """
    checks = [finding.name for finding in audits[0].findings]
    return _page().render(audits=audits, checks=checks, first=audits[0])


@cache
def _page() -> Template:
    """The page with gaps, translated to code once."""
    environment = page_environment("tacit.audit")
    environment.filters["amount"] = known(amount)
    return environment.get_template("audit.html.jinja")


def amount(value: object) -> str:
    """A number as people read it: shares with four decimals, counts whole.

    >>> amount(0.12345), amount(1269)
    ('0.1235', '1,269')
    """
    return whole_text(value) if isinstance(value, int) else metric_text(value)


def refuse_used(folder: Path) -> None:
    """A folder to write to is new or empty; asked before anything is trained."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise TacitError(
            f"{str(folder)!r} is not an empty folder; choose another {argument('out')}."
        )


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


# audit(experiment): every check of one method under one protocol.

ROUND_CAP = 200  # of methods that no fused kernel runs: an audit should take minutes

# To add a check: a function of the subject that returns a finding, and its name here.
CHECKS: tuple[Callable[[Subject], AuditFinding], ...] = (
    never_sampled,
    alone,
    swapped,
    drawn_less,
    references,
    unseen,
    repeats,
    tied_times,
    shuffled_order,
    neighbours,
)


@dataclass(frozen=True)
class Audit:
    """What the checks found of one method under one protocol.

    >>> Audit("fedmf", "planted", "clean", True, "by time", 0, 9, 5, "all", "fused", ()).flags
    []
    """

    method: str
    dataset: str
    protocol: str
    clean: bool
    split: str
    seed: int
    users: int
    rounds: int
    rounds_text: str
    engine: str
    findings: tuple[AuditFinding, ...]
    notes: tuple[str, ...] = ()  # what must be known of the split

    @property
    def flags(self) -> list[str]:
        """The names of the checks that flag."""
        return [finding.name for finding in self.findings if finding.verdict == "FLAG"]

    @property
    def conclusion(self) -> str:
        """One sentence on all of them."""
        flags = self.flags
        if not flags:
            return f"None of {len(self.findings)} checks flags protocol {self.protocol!r}."
        verb = "flag" if len(flags) > 1 else "flags"
        return (
            f"{len(flags)} of {len(self.findings)} checks {verb} protocol {self.protocol!r}: "
            f"{', '.join(flags)}."
        )


@one_torch_thread()
def audit(
    experiment: Experiment,
    *,
    cap: int | None = ROUND_CAP,
    threads: int = 1,
    callbacks: Callbacks = (),
    prepared: Prepared | None = None,
) -> Audit:
    """Check a method under its experiment's protocol; nothing is written.

    A method that the fused kernel runs plays all its rounds, another at most `cap`; None is no cap.
    Scores are of the last round, without selection or early stop.

    >>> from tacit.experiment.resolve import resolve
    >>> audit(resolve("popularity")).flags
    []
    """
    experiment.check()
    prepared = prepare(experiment) if prepared is None else prepared
    engine = Trainer(experiment, prepared.split.train, threads).describe()
    rounds, rounds_text = rounds_of(experiment, engine, cap)
    subject = Subject(replace(experiment, rounds=rounds), prepared, threads, together(callbacks))
    protocol = experiment.protocol
    rule = resolved_split(protocol.split, prepared.dataset)
    return Audit(
        method=experiment.label,
        dataset=experiment.data.name,
        protocol=protocol.name,
        clean=protocol.is_clean,
        split=rule.text,
        seed=experiment.seed,
        users=subject.users,
        rounds=rounds,
        rounds_text=rounds_text,
        engine=engine.text,
        findings=tuple(check(subject) for check in CHECKS),
        notes=cautions(prepared.dataset, protocol, prepared.split),
    )


def rounds_of(experiment: Experiment, engine: EnginePath, cap: int | None) -> tuple[int, str]:
    """How many rounds the audit plays, and why.

    >>> from tacit.experiment.resolve import resolve
    >>> rounds_of(resolve("fedncf", rounds=500), EnginePath("loop", "one by one"), 200)[1]
    '200 of 500, since the engine is loop, not fused (--rounds 500 plays all); the last one counts'
    >>> rounds_of(resolve("fedmf", rounds=500), EnginePath("fused", "one pass"), 200)
    (500, 'all 500, since the engine is fused; the last one counts')
    """
    own, path = experiment.rounds, engine.path
    if experiment.method.algorithm(Task(1, 1)).unit == "setting":
        return own, "none: the method is fitted in one go, its setting chosen on validation"
    played, text = own, str(own)
    if cap is not None and own > cap and path == "fused":
        text = f"all {own}, since the engine is fused"
    elif cap is not None and own > cap:
        played = cap
        text = f"{cap} of {own}, since the engine is {path}, not fused (--rounds {own} plays all)"
    return played, f"{text}; the last one counts"
