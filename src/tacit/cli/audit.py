"""`tacit audit`: is a score what it says, is a guarantee? `tacit audit METHOD` asks the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tacit.cli import settings as options
from tacit.cli.attack import tell
from tacit.cli.output import say, say_json, show
from tacit.cli.settings import cores, ready_to_compute

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.audit.audit import Audit


LEAKS = "leaks"


class _LeaksUnlessSaid(TyperGroup):
    """`tacit audit METHOD` is `tacit audit leaks METHOD`."""

    unless_said = LEAKS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        said = args[:1]
        if not said or (said[0] not in self.commands and said[0] not in ctx.help_option_names):
            args = [self.unless_said, *args]
        return super().parse_args(ctx, args)


HELP = "Audits: is a score, or a guarantee, what it says? `audit METHOD` is `audit leaks METHOD`."
app = typer.Typer(cls=_LeaksUnlessSaid, help=HELP)


@dataclass(frozen=True)
class AuditFlags(options.ExperimentFlags):
    """The shared flags, of which two have another default here."""

    protocol: Annotated[
        str | None,
        typer.Option(help="One protocol; default: that of the method's paper, and clean beside."),
    ] = None
    rounds: Annotated[
        int | None,
        typer.Option(help="Rounds to play; default as in the paper, 200 at most if not fused."),
    ] = None


@app.command(LEAKS)
@options.with_flags
def audit(
    method: Annotated[str, typer.Argument(help="A method of `tacit list`.")],
    *,
    flags: AuditFlags,
    seed: options.Seed = None,
    threads: options.Threads = None,
    out: options.Out = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Look for leaks: what of a score is there without learning, and under which protocol."""
    from tacit.audit.audit import ROUND_CAP, refuse_used, write_audit
    from tacit.audit.audit import as_json as as_object
    from tacit.audit.audit import audit as audit_experiment
    from tacit.cli.progress import Bar
    from tacit.cli.settings import free_folder
    from tacit.experiment.names import audit_name, data_below
    from tacit.experiment.resolve import resolve

    given = flags.given(seed=seed)
    experiments = []
    for name in ("paper", "clean") if flags.protocol is None else (flags.protocol,):
        experiment = resolve(method, **{**given, "protocol": name})
        if experiment not in experiments:  # a method without a paper has the clean protocol only
            experiments.append(experiment)
    if (folder := out) is None:
        others = data_below(Path("runs"))
        folder = free_folder(
            audit_name(experiments[0], named=flags.protocol is not None, others=others)
        )
    refuse_used(folder)
    ready_to_compute()
    audits = [
        audit_experiment(
            experiment,
            cap=ROUND_CAP if flags.rounds is None else None,
            threads=threads or cores(),
            callbacks=Bar(),
        )
        for experiment in experiments
    ]
    page = write_audit(audits, folder)
    if as_json:
        say_json(as_object(audits))
        return
    show(audit_table(audits))
    for one in audits:
        say_findings(one)
    say(f"page      {page}")
    say(f"numbers   {folder / 'audit.json'}")


def audit_table(audits: Sequence[Audit]) -> Table:
    """One row per check; for each protocol what was measured, its honest bound, the verdict."""
    from tacit.cli.output import plain_table
    from tacit.experiment.amounts import DASH

    columns = [""]
    for one in audits:
        columns += [one.protocol, "if honest", "verdict"]
    rows = [
        [
            findings[0].name,
            *(
                text or DASH
                for finding in findings
                for text in (finding.measured, finding.honest, finding.verdict)
            ),
        ]
        for findings in zip(*(one.findings for one in audits), strict=True)
    ]
    title = f"{audits[0].method} on {audits[0].dataset}; HR@10 is of the full ranking"
    return plain_table(f"{title}, and against sampled items after a stroke", columns, rows)


def say_findings(audit: Audit) -> None:
    """One line per check, then what they say together."""
    say(f"protocol  {audit.protocol}, split {audit.split}, seed {audit.seed}, {audit.users} users")
    say(f"rounds    {audit.rounds_text}")
    say(f"engine    {audit.engine}")
    for finding in audit.findings:
        say(f"{finding.verdict:9} {finding.name}: {finding.text}")
    for note in audit.notes:
        say(f"note      {note}")
    say(f"verdict   {audit.conclusion}")
    say()


@app.command("privacy")
@options.with_flags
def privacy(
    method: Annotated[str, typer.Argument(help="A method of `tacit list`.")],
    *,
    flags: options.ExperimentFlags,
    draws: Annotated[
        int, typer.Option(help="Draws of the noisy sum with the canary, and as many without.")
    ] = 50_000,
    seeds: Annotated[int, typer.Option(help="How often everything is drawn anew.", min=1)] = 1,
    seed: options.Seed = None,
    out: options.Out = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Bound the epsilon of a method from below, by draws of the noise that it adds."""
    from tacit.audit.privacy import audit_privacy, privacy_page, require_settings
    from tacit.cli.progress import ItemsBar
    from tacit.cli.settings import free_folder
    from tacit.experiment.names import audit_name
    from tacit.experiment.resolve import resolve

    experiment = resolve(method, **flags.given(seed=seed))
    require_settings(draws, seeds)
    ready_to_compute()
    bar = ItemsBar("seeds")
    bar.begin(experiment.label, seeds)
    try:
        found = audit_privacy(experiment, draws=draws, seeds=seeds, told=bar.advance)
    finally:
        bar.end()
    name = audit_name(experiment, named=False).replace("audit-", "audit-privacy-", 1)
    tell(privacy_page(found), free_folder(name) if out is None else out, as_json)
