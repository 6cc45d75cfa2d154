"""A deployment as files: `Project` knows where everything lies, and `make_project` writes it.

    deployment.toml     names, address and rules: what a person may change
    pyproject.toml, client_app.py, server_app.py    the Flower app that `flwr run .` sends to nodes
    authority/          the certificate authority; only renewing needs it
    server/             certificate, experiment, roster, catalogues, runs and the SuperLink's state
    nodes/NAME/         one node: its keys and its encrypted folder; this goes to its machine
    units/, compose.yaml    how systemd or containers start the same
    .flwr/              where `flwr` finds the SuperLink
    run/                processes that `up` started, and their logs

No file of the app that is sent to nodes holds a secret or a path of the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tacit.coordinator.planned import PlannedRun
from tacit.coordinator.roster import Member, Roster
from tacit.data.dataset import Dataset
from tacit.deployment.catalogues import Items, Shelf
from tacit.deployment.keys import (
    make_authority,
    make_certificate,
    make_node_key,
    read_pair,
)
from tacit.deployment.settings import LOOPBACK, SETTINGS, Settings, read_settings, write_texts
from tacit.errors import TacitError, nearest, shown
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import document, loads
from tacit.files import make_folder, reading, whole_folder, write_text
from tacit.node.agreement import Agreement
from tacit.node.device import Node
from tacit.node.store import make_key


@dataclass(frozen=True)
class NodePlace:
    """Where the files of one node lie."""

    name: str
    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def key(self) -> Path:
        return self.folder / "node.key"

    @property
    def auth(self) -> tuple[Path, Path]:
        """The public and the private half by which the SuperLink knows the node."""
        return self.folder / "auth.pub", self.folder / "auth.key"

    @property
    def runtime(self) -> tuple[Path, Path]:
        """Certificate and key of what a SuperNode and its own ClientApp talk through."""
        return self.folder / "runtime.pem", self.folder / "runtime.key"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"


@dataclass(frozen=True)
class Project:
    """A deployment on disk. Use `open_project` or `make_project`."""

    folder: Path
    settings: Settings

    @property
    def authority(self) -> tuple[Path, Path]:
        return self.folder / "authority" / "ca.pem", self.folder / "authority" / "ca.key"

    @property
    def server(self) -> Path:
        return self.folder / "server"

    @property
    def certificate(self) -> tuple[Path, Path]:
        return self.server / "server.pem", self.server / "server.key"

    @property
    def flower_home(self) -> Path:
        """Where the command `flwr` looks for connections."""
        return self.folder / ".flwr"

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.server / "catalogue")

    @property
    def runs(self) -> Path:
        return self.server / "runs"

    def node(self, name: str) -> NodePlace:
        if name not in self.settings.nodes:
            raise TacitError(f"No node {shown(name)} here; {nearest(name, self.settings.nodes)}")
        return NodePlace(name, self.folder / "nodes" / name)

    @property
    def nodes(self) -> list[NodePlace]:
        return [self.node(name) for name in self.settings.nodes]

    def experiment(self) -> Experiment:
        path = self.server / "experiment.toml"
        with reading(path, "bring back a copy of it"):
            return loads(path.read_text(encoding="utf-8"))

    def roster(self) -> Roster:
        return Roster.read(self.server / "roster.json")

    # Keys that are made anew

    def renew_certificate(self, hosts: Sequence[str] = ()) -> None:
        """A new certificate of the same authority for the server; nodes need not be told."""
        pair = read_pair(*self.authority)
        names = list(dict.fromkeys((*hosts, self.settings.host, *LOOPBACK)))
        make_certificate(pair, self.settings.name, names).write(*self.certificate)

    def renew_node_key(self, name: str) -> None:
        """A new key pair for a node. The SuperLink has to be told: registering forgets the old."""
        make_node_key(name).write(*self.node(name).auth)


def open_project(folder: str | Path) -> Project:
    """The deployment in a folder; what is none is refused."""
    path = Path(folder).absolute() / SETTINGS
    if not path.is_file():
        raise TacitError(
            f"There is no deployment at {str(folder)!r}; make one with `tacit deploy init`."
        )
    return Project(path.parent, read_settings(path))


@dataclass(frozen=True, eq=False)
class Plan:
    """What a new deployment is about. `people` are the names of those on each node, in the order
    of the nodes, and `data` their histories so far, where there are any."""

    settings: Settings
    experiment: Experiment
    items: Items
    people: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data: Dataset | None = None
    hosts: tuple[str, ...] = ()  # names under which the server is reached besides


def make_project(folder: str | Path, plan: Plan) -> Project:
    """Write a new deployment: whole, or not at all."""
    where, settings = Path(folder).absolute(), plan.settings
    if where.exists() and (not where.is_dir() or any(where.iterdir())):
        raise TacitError(f"There is something at {str(folder)!r} already; name a new folder.")
    _require_playable(plan)
    with whole_folder(where) as part:
        part.chmod(0o700)
        project = Project(part, settings)
        _write_keys(project, plan)
        _write_server(project, plan)
        nodes = [
            _write_node(place, number, project, plan) for number, place in enumerate(project.nodes)
        ]
        roster = _roster(settings.nodes, nodes)
        roster.write(project.server / "roster.json")
        for node in nodes:  # from here, and not from the server, they know each other's keys
            node.set_directory(roster.directory)
        write_texts(part, settings, plan.experiment.label, where)
    return Project(where, settings)


def _require_playable(plan: Plan) -> None:
    """Refuse now what the server would refuse when its first run begins."""
    settings, people = plan.settings, plan.people
    members = tuple(
        Member(name, number, max(1, len(people.get(name, ()))))
        for number, name in enumerate(settings.nodes)
    )
    offer = plan.items.offer(plan.experiment, settings.name)
    PlannedRun(plan.experiment, Roster(members), offer, settings.rules("check")).check()


def _write_keys(project: Project, plan: Plan) -> None:
    make_folder(project.authority[0].parent)
    authority = make_authority(project.settings.name)
    authority.write(*project.authority)
    make_folder(project.server)
    project.renew_certificate(plan.hosts)
    for place in project.nodes:
        make_folder(place.folder)
        place.folder.chmod(0o700)
        make_node_key(place.name).write(*place.auth)
        make_certificate(authority, place.name, LOOPBACK).write(*place.runtime)
        write_text(place.authority, authority.public.decode())
    write_text(project.server / "ca.pem", authority.public.decode())


def _write_server(project: Project, plan: Plan) -> None:
    write_text(project.server / "experiment.toml", document(plan.experiment))
    project.shelf.write(plan.items)


def _write_node(place: NodePlace, number: int, project: Project, plan: Plan) -> Node:
    """One node with its people; with data, with their histories."""
    people = plan.people.get(place.name, ())
    catalogue = plan.items.for_devices(plan.experiment)
    node = Node.init(
        place.data,
        make_key(place.key),
        catalogue,
        users=people,
        deployment=project.settings.name,
        agreement=Agreement(allow_tables=project.settings.allow_tables),
        number=number,
    )
    if plan.data is not None:
        rows = plan.data.interactions
        own = {code for code, user in enumerate(rows.users) if user in set(people)}
        times = range(len(rows)) if rows.time_N is None else rows.time_N.tolist()
        node.record_all(
            (rows.items[item], time, rows.users[user])
            for user, item, time in zip(
                rows.user_N.tolist(), rows.item_N.tolist(), times, strict=True
            )
            if user in own
        )
    return node


def _roster(names: Sequence[str], nodes: Sequence[Node]) -> Roster:
    members = [
        Member(name, number, len(node.people), node.public_key.hex())
        for number, (name, node) in enumerate(zip(names, nodes, strict=True))
    ]
    return Roster(tuple(members))


def rehearsal(settings: Settings, experiment: Experiment, hosts: Sequence[str] = ()) -> Plan:
    """The people of the experiment's own data, dealt to nodes in their order: a simulation as a
    deployment, with the same numbers."""
    data = experiment.data.load(experiment.protocol.duplicates)
    users, count = data.interactions.users, len(settings.nodes)
    if len(users) < count:
        raise TacitError(f"{len(users)} people cannot be dealt to {count} nodes; take fewer.")
    bounds = [len(users) * place // count for place in range(count + 1)]
    people = {
        name: users[begin:end]
        for name, begin, end in zip(settings.nodes, bounds, bounds[1:], strict=False)
    }
    items = Items(data.interactions.items, data.texts.get("title", ()), data.modalities)
    return Plan(settings, experiment, items, people, data, tuple(hosts))
