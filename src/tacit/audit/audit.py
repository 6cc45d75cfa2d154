"""audit(experiment): every check of one method under one protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tacit.audit.alone import alone
from tacit.audit.data_checks import repeats, tied_times
from tacit.audit.draws import drawn_less, never_sampled
from tacit.audit.finding import Finding
from tacit.audit.scores import references, swapped, unseen
from tacit.audit.subject import Subject
from tacit.core.central import CentralMethod
from tacit.data.parts import settled
from tacit.data.split import cautions
from tacit.engines.chunks import one_torch_thread
from tacit.experiment.course import course_of
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.spec import Experiment
from tacit.experiment.watch import Silent, Watcher

ROUND_CAP = 200  # of methods that no fused kernel runs: an audit should take minutes

# To add a check: a function of the subject that returns a finding, and its name here.
CHECKS: tuple[Callable[[Subject], Finding], ...] = (
    never_sampled,
    alone,
    swapped,
    drawn_less,
    references,
    unseen,
    repeats,
    tied_times,
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
    rounds_say: str
    engine: str
    findings: tuple[Finding, ...]
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
    watch: Watcher | None = None,
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
    engine = course_of(experiment, prepared.split.train, threads).describe()
    rounds, rounds_say = rounds_of(experiment, engine, cap)
    subject = Subject(replace(experiment, rounds=rounds), prepared, threads, watch or Silent())
    protocol = experiment.protocol
    rule = settled(protocol.split, prepared.dataset)
    return Audit(
        method=experiment.label,
        dataset=experiment.data.name,
        protocol=protocol.name,
        clean=protocol.is_clean,
        split=rule.text,
        seed=experiment.seed,
        users=subject.users,
        rounds=rounds,
        rounds_say=rounds_say,
        engine=engine,
        findings=tuple(check(subject) for check in CHECKS),
        notes=cautions(prepared.dataset, protocol, prepared.split),
    )


def rounds_of(experiment: Experiment, engine: str, cap: int | None) -> tuple[int, str]:
    """How many rounds the audit plays, and why.

    >>> from tacit.experiment.resolve import resolve
    >>> rounds_of(resolve("fedncf", rounds=500), "loop: one by one", 200)[1]
    '200 of 500, since the engine is loop, not fused (--rounds 500 plays all); the last one counts'
    >>> rounds_of(resolve("fedmf", rounds=500), "fused: one pass", 200)
    (500, 'all 500, since the engine is fused; the last one counts')
    """
    own, kind = experiment.rounds, engine.split(":")[0]
    if isinstance(experiment.method, CentralMethod):
        return own, "none: the method is fitted in one go, its setting chosen on validation"
    played, says = own, str(own)
    if cap is not None and own > cap and kind == "fused":
        says = f"all {own}, since the engine is fused"
    elif cap is not None and own > cap:
        played = cap
        says = f"{cap} of {own}, since the engine is {kind}, not fused (--rounds {own} plays all)"
    return played, f"{says}; the last one counts"
