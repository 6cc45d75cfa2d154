"""`tacit deploy`: a server and nodes over Flower, as files and as processes of this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import plain_table, say, show
from tacit.errors import TacitError

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.coordinator.records import RoundRecord
    from tacit.deployment.project import Plan, Project, Settings
    from tacit.experiment.spec import Experiment

app = typer.Typer(help="A deployment: a server and nodes over Flower.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the deployment.")]
SHOWN_LINES = 12  # of exchanges, in the table of `status`


@app.callback()
def deploy() -> None:
    """A deployment: a server and nodes over Flower."""


@app.command("init")
@options.with_flags
def init(
    folder: Folder,
    *,
    method: Annotated[str, typer.Option(help="A method of `tacit list`.")],
    nodes: Annotated[int, typer.Option(help="How many nodes.", min=1)],
    flags: options.ExperimentFlags,
    seed: options.Seed = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="Items of a deployment without data: a CSV with item and title, or one id a line."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The deployment's name. Default: that of its folder.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where nodes reach the server.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The one port of the server.")] = 9091,
    secure: Annotated[
        int | None,
        typer.Option(
            metavar="FEWEST",
            help="Add uploads up under masks; a sum of fewer nodes is never opened.",
        ),
    ] = None,
    allow_tables: Annotated[
        bool,
        typer.Option(
            "--allow-tables", help="Play a method whose server reads single tables of people."
        ),
    ] = False,
    imports: options.Import = None,
) -> None:
    """Write a project: authority, keys, nodes, the Flower app, systemd units and a compose file.

    With --data the people of that data are dealt to nodes with their histories: a rehearsal. With
    --catalogue nodes begin empty, and applications record what happens.
    """
    from tacit.coordinator.secure import SecureSettings
    from tacit.deployment.project import Settings, make_project, rehearsal

    if catalogue is not None and flags.data is not None:
        raise TacitError("Give --data or --catalogue, not both.")
    experiment = options.experiment_of(None, flags.given(method=method, seed=seed))
    settings = Settings(
        name=name or folder.absolute().name.lower().replace("_", "-"),
        host=host,
        port=port,
        nodes=tuple(f"node-{number}" for number in range(1, nodes + 1)),
        secure=None if secure is None else SecureSettings(secure),
        allow_tables=allow_tables,
    )
    if catalogue is None:
        plan = rehearsal(settings, experiment, hosts=(host,))
    else:
        plan = _empty(settings, experiment, catalogue)
    project = make_project(folder, plan)
    say(f"project   {folder}: {experiment.label} on {nodes} nodes, {len(plan.items.ids):,} items")
    say(f"keys      {project.authority[1]} signs certificates: keep it off the server")
    say(f"start     tacit deploy up {folder}")


def _empty(settings: Settings, experiment: Experiment, catalogue: Path) -> Plan:
    from tacit.deployment.catalogues import Items
    from tacit.deployment.project import Plan
    from tacit.node.catalogue import read_catalogue_file

    found = read_catalogue_file(catalogue)
    return Plan(settings, experiment, Items(found.ids, found.titles), hosts=(settings.host,))


@app.command("up")
def up(folder: Folder) -> None:
    """Start the SuperLink and all nodes on this machine, with TLS and authentication.

    Where some of them still run, those that have ended are started again. A SuperLink notices
    within a minute that a node was killed, which is waited for.
    """
    from tacit.deployment.processes import Processes

    project = _project(folder)
    started = Processes(project).up()
    if len(started) <= len(project.nodes):
        say(f"again     {', '.join(started)}; the rest was up")
    say(f"up        SuperLink at {project.settings.address}, {len(project.nodes)} nodes")
    say(f"train     FLWR_HOME={project.flower_home} flwr run {project.folder}")
    say(f"stop      tacit deploy down {folder}")


@app.command("status")
def status(
    folder: Folder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it anew every second until Ctrl-C.")
    ] = False,
) -> None:
    """Who is up, and what the last run's exchanges came to."""
    project = _project(folder)
    if not watch:
        show(_table(project))
        say(_processes_line(project))
        return
    from rich.console import Group
    from rich.live import Live

    with Live(_table(project), refresh_per_second=2) as live:
        while True:
            live.update(Group(_table(project), _processes_line(project)))
            time.sleep(1.0)


@app.command("logs")
def logs(
    folder: Folder,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="superlink, coordinator or a node.")
    ] = "coordinator",
    lines: Annotated[int, typer.Option(help="How many of the last lines.", min=1)] = 40,
) -> None:
    """The end of one log."""
    from tacit.deployment.processes import Processes

    for line in Processes(_project(folder)).log(name, lines):
        say(line)


@app.command("down")
def down(folder: Folder) -> None:
    """Stop everything that `up` started."""
    from tacit.deployment.processes import Processes

    count = Processes(_project(folder)).down()
    say(f"down      {count} processes stopped" if count else "down      nothing was up")


@app.command("register")
def register(folder: Folder) -> None:
    """Make a SuperLink that runs elsewhere know the public keys of all nodes."""
    from tacit.deployment.processes import register as register_all

    numbers = register_all(_project(folder))
    say(f"known     {len(numbers)} nodes; server/registered.json has their numbers")


@app.command("renew")
def renew(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="server, or a node.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Another name of the server; may be repeated.")
    ] = None,
) -> None:
    """A new certificate for the server, or a new key pair for a node."""
    project = _project(folder)
    if name == "server":
        project.renew_certificate(host or ())
        say("renewed   the server's certificate; start the SuperLink anew")
        return
    project.renew_node_key(name)
    say(f"renewed   the key of {name}; start the deployment anew to register it")


def _project(folder: Path) -> Project:
    from tacit.deployment.project import open_project

    return open_project(folder)


def _table(project: Project) -> Table:
    """The last exchanges of the last run."""
    from tacit.coordinator.records import RecordFile
    from tacit.deployment.server import run_names

    names = run_names(project)
    found = RecordFile(project.runs / names[-1] / "rounds.jsonl").read() if names else []
    title = f"{project.settings.name}: {names[-1] if names else 'no run yet'}"
    columns = ["what", "answered", "refused", "validation", "round", "epsilon", "down", "up", "s"]
    rows = [_row(one) for one in found[-SHOWN_LINES:]]
    return plain_table(title, columns, rows, numbers=5)


def _row(record: RoundRecord) -> list[str]:
    from tacit.experiment.amounts import bytes_text

    refused = [f"{reason} {count}" for reason, count in record.refused.items()]
    refused += [f"declined: {said} {count}" for said, count in record.declined.items()]
    metrics = [f"{name} {value:.4f}" for name, value in record.metrics.items() if "HR@10" in name]
    return [
        f"{record.kind} {record.name}{' (given up)' if record.given_up else ''}",
        f"{len(record.answered)} of {len(record.invited)}",
        ", ".join(refused),
        ", ".join(metrics),
        str(record.round_number),
        "" if record.epsilon is None else f"{record.epsilon:.3g}",
        bytes_text(record.bytes_down),
        bytes_text(record.bytes_up),
        f"{record.seconds:.1f}",
    ]


def _processes_line(project: Project) -> str:
    from tacit.deployment.keys import days_left
    from tacit.deployment.processes import Processes

    alive = Processes(project).alive()
    up = [name for name, lives in alive.items() if lives]
    gone = [name for name, lives in alive.items() if not lives]
    said = f"up: {', '.join(up) or 'nothing'}" + (f"; ended: {', '.join(gone)}" if gone else "")
    return f"{said}; the server's certificate lasts {days_left(project.certificate[0])} days"
