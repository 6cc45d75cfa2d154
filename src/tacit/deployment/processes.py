"""A deployment as processes on this machine: a SuperLink and a SuperNode for every node.

They are what Flower's own commands start, with TLS and authentication. All that is started carries
a mark of the deployment in its environment. Stopping finds processes by that mark, whoever their
parent is by now, so that nothing is left behind and nobody else's process is ever touched.

No secret is in a command line: commands name files. Flower itself gives every process of an app a
token as an argument; it is good for one message, on this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tacit.deployment.project import NodePlace, Project
from tacit.deployment.server import PLACE, REGISTERED, registered
from tacit.errors import TacitError, shown
from tacit.files import make_folder, write_text, writing
from tacit.flower.records import flower

SUPERLINK = "superlink"
MARK = "TACIT_DEPLOYMENT_MARK"
START_SECONDS = 60.0
STOP_SECONDS = 15.0
MISSED_SECONDS = 120.0  # a SuperLink notices within 60 that a SuperNode was killed
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "TACIT_CACHE")
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Started:
    """What `up` started: the mark of its processes, and the first process of each name."""

    mark: str
    processes: Mapping[str, int]


@dataclass(frozen=True)
class Processes:
    """The processes of one deployment."""

    project: Project

    @property
    def folder(self) -> Path:
        return self.project.folder / "run"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def started(self) -> Started | None:
        """What was started and not stopped since."""
        path = self.folder / "processes.json"
        if not path.is_file():
            return None
        try:
            return TypeAdapter(Started).validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            raise TacitError(f"{str(path)!r} is damaged; delete it.") from error

    def alive(self) -> dict[str, bool]:
        """Which of the processes that were started still run."""
        started = self.started()
        if started is None:
            return {}
        running = set(marked(started.mark))
        return {name: number in running for name, number in started.processes.items()}

    # Up

    def up(self, copies: Path | None = None) -> tuple[str, ...]:
        """Start what does not run: the SuperLink, which is told the keys of all nodes, and these.
        What was started is returned by name. In `copies` every node keeps what it sends, in a
        folder of its name."""
        _require_linux()
        alive = self.alive()
        if any(alive.values()):
            return self._up_again(alive, copies)
        command = self._superlink_command()
        self._write(Started(secrets.token_hex(16), {}))
        try:
            self._start_superlink(command)
            register(self.project)
            for place in self.project.nodes:
                self.start_node(place, _within(copies, place))
        except BaseException:  # all of it, or nothing
            self.down()
            raise
        return (SUPERLINK, *self.project.settings.nodes)

    def _up_again(self, alive: Mapping[str, bool], copies: Path | None) -> tuple[str, ...]:
        """Start what has ended beside what still runs, which is left alone."""
        ended = [place for place in self.project.nodes if not alive.get(place.name)]
        if alive.get(SUPERLINK) and not ended:
            raise TacitError(
                f"The deployment at {str(self.project.folder)!r} is up; see `tacit deploy status`."
            )
        started = []
        if not alive.get(SUPERLINK):
            self._start_superlink(self._superlink_command())
            started.append(SUPERLINK)
        register(self.project)
        self._wait_until_missed(ended)
        for place in ended:
            self.start_node(place, _within(copies, place))
            started.append(place.name)
        return tuple(started)

    def _superlink_command(self) -> list[str]:
        """How the SuperLink is started, where it can be."""
        port = self.project.settings.port
        if not is_free(port):
            raise TacitError(
                f"Something else listens on port {port} of this machine; set another port in "
                "deployment.toml and .flwr/config.toml."
            )
        return superlink_command(self.project)

    def _start_superlink(self, command: list[str]) -> None:
        self.start(SUPERLINK, command, self.project.folder)
        self._wait_for_superlink()

    def _wait_until_missed(self, places: Iterable[NodePlace]) -> None:
        """A SuperLink lets no second SuperNode in with the same key, and believes for up to a
        minute that one which was killed is still there. What does not run is waited for."""
        known = registered(self.project)
        numbers = {known[place.name]: place.name for place in places}
        end = time.monotonic() + MISSED_SECONDS
        while online := sorted(numbers[one] for one in numbers.keys() & online_nodes(self.project)):
            if time.monotonic() > end:
                raise TacitError(
                    f"The SuperLink says that {', '.join(online)} is online, and no process of "
                    "this deployment is it; does it run on another machine?"
                )
            time.sleep(1.0)

    def start_node(self, place: NodePlace, copies: Path | None = None) -> int:
        """Start the SuperNode of one node; `copies` is a folder for all that it sends."""
        command = supernode_command(self.project, place, free_port(), copies)
        return self.start(place.name, command, place.folder)

    def start(self, name: str, command: list[str], folder: Path) -> int:
        """Start a process with a log of its own; its number."""
        started = self.started()
        assert started is not None
        make_folder(self.logs)
        home = self.project.server if name == SUPERLINK else folder
        environment = {**_environment(started.mark), "FLWR_HOME": str(home / ".flwr")}
        if name == SUPERLINK:
            environment[PLACE] = str(self.project.folder)
        file = self.logs / f"{name}.log"
        with writing(file):
            log = file.open("ab")
        with log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._write(Started(started.mark, {**started.processes, name: process.pid}))
        return process.pid

    def forget(self, name: str) -> None:
        """A process that has ended by itself is no longer looked after."""
        started = self.started()
        assert started is not None
        _reap([started.processes[name]])
        left = {one: number for one, number in started.processes.items() if one != name}
        self._write(Started(started.mark, left))

    def _wait_for_superlink(self) -> None:
        end = time.monotonic() + START_SECONDS
        while is_free(self.project.settings.port):
            if time.monotonic() > end or not self.alive()[SUPERLINK]:
                raise TacitError(
                    f"The SuperLink did not come up; {str(self.logs / 'superlink.log')!r} says why."
                )
            time.sleep(0.1)

    # Down

    def down(self) -> int:
        """Stop everything that was started, and wait until it is gone; how many there were."""
        started = self.started()
        if started is None:
            return 0
        found = set(marked(started.mark))
        for by in (signal.SIGTERM, signal.SIGKILL):
            _signal_all(started.mark, by)
            end = time.monotonic() + STOP_SECONDS
            while marked(started.mark) and time.monotonic() < end:
                _reap(started.processes.values())
                time.sleep(0.1)
        _reap(started.processes.values(), patience=2.0)
        left = marked(started.mark)
        if left:
            raise TacitError(f"{len(left)} processes of the deployment do not end: {left}.")
        (self.folder / "processes.json").unlink(missing_ok=True)
        return len(found)

    def _write(self, started: Started) -> None:
        make_folder(self.folder)
        write_text(self.folder / "processes.json", json.dumps(asdict(started), indent=1) + "\n")

    # Logs

    def log(self, name: str, lines: int) -> list[str]:
        """The end of a log."""
        path = self.logs / f"{name}.log"
        if name == "coordinator":
            path = self.project.server / "coordinator.log"
        if not path.is_file():
            known = sorted(one.stem for one in self.logs.glob("*.log"))
            there = f"there are {', '.join(known)}" if known else "nothing was started yet"
            raise TacitError(f"There is no log of {shown(name)}; {there}.")
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]


# The commands, and what they run in.


def program(name: str) -> str:
    """A command of Flower, from the same environment as this Python."""
    flower()
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise TacitError(f"There is no command {name!r}; install it: pip install 'tacit[flower]'")
    return found


def superlink_command(project: Project) -> list[str]:
    certificate, key = project.certificate
    return [
        program("flower-superlink"),
        *("--host", "127.0.0.1", "--port", str(project.settings.port)),
        *("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key)),
        *("--ssl-ca-certfile", str(project.server / "ca.pem")),
        *("--database", str(project.server / "superlink.db")),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
    ]


def supernode_command(
    project: Project, place: NodePlace, port: int, copies: Path | None = None
) -> list[str]:
    """Paths are relative to the folder of the node, as on a machine of its own."""
    config = {"folder": place.data.name, "key": place.key.name}
    if copies is not None:
        config["copies"] = str(copies)
    certificate, key = place.runtime
    return [
        program("flower-supernode"),
        *("--superlink", f"127.0.0.1:{project.settings.port}"),
        *("--root-certificates", place.authority.name),
        *("--auth-supernode-private-key", place.auth[1].name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--ssl-certfile", certificate.name, "--ssl-keyfile", key.name),
        *("--ssl-ca-certfile", place.authority.name),
        *("--node-config", " ".join(f"{name}={json.dumps(path)}" for name, path in config.items())),
    ]


def _environment(mark: str) -> dict[str, str]:
    """What processes get of the environment: little, and nothing that phones home."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    programs = str(Path(sys.executable).parent)
    path = f"{programs}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return {**kept, **QUIET, "PATH": path, MARK: mark}


def flower_command(project: Project, *arguments: str) -> dict[str, object]:
    """Run Flower's own command `flwr` for this deployment; what it says as JSON."""
    environment = {**_environment(""), "FLWR_HOME": str(project.flower_home)}
    command = [program("flwr"), *arguments, "--format", "json"]
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TacitError(
            f"`flwr {' '.join(arguments)}` did not end in {START_SECONDS:g} seconds; is the "
            f"SuperLink at {project.settings.address} up?"
        ) from error
    text = done.stdout
    try:
        found: dict[str, object] = json.loads(text[text.index("{") :])
    except ValueError as error:
        raise TacitError(f"`flwr {' '.join(arguments)}` says {shown(text)}.") from error
    if found.get("success") is not True:
        said = str(found.get("error-message"))
        if "Connection to the SuperLink" in said:
            raise TacitError(
                f"No SuperLink answers at {project.settings.address}; start it with `tacit deploy "
                "up`, or correct the address in .flwr/config.toml."
            )
        raise TacitError(f"`flwr {' '.join(arguments)}` failed: {shown(said)}")
    return found


def register(project: Project) -> Mapping[str, int]:
    """Make the SuperLink know the public keys of all nodes, and write down their numbers. A key
    that it knows already keeps its number; one that was replaced is forgotten, and a SuperLink that
    has lost its database is told again."""
    path = project.server / REGISTERED
    keys_file = project.server / "registered-keys.json"
    known = _read_registered(keys_file)
    there = {one.number for one in _listed(project)} if known else set()
    for place in project.nodes:
        public = place.auth[0].read_text(encoding="ascii").split()[1]
        if place.name in known and int(str(known[place.name]["number"])) in there:
            if known[place.name]["key"] == public:
                continue
            flower_command(project, "supernode", "unregister", str(known[place.name]["number"]))
        found = flower_command(
            project, "supernode", "register", str(place.auth[0]), "--name", place.name
        )
        known[place.name] = {"key": public, "number": found["node-id"]}
        write_text(keys_file, json.dumps(known, indent=1) + "\n")
    numbers = {name: int(str(one["number"])) for name, one in known.items()}
    write_text(path, json.dumps(numbers, indent=1) + "\n")
    return numbers


@dataclass(frozen=True)
class _Listed:
    """A node as the SuperLink lists it."""

    number: int
    status: str


def _listed(project: Project) -> list[_Listed]:
    found = flower_command(project, "supernode", "ls")["nodes"]
    rows = TypeAdapter(list[dict[str, object]]).validate_python(found)
    return [_Listed(int(str(one["node-id"])), str(one["status"])) for one in rows]


def online_nodes(project: Project) -> set[int]:
    """The numbers of nodes that the SuperLink believes to be there."""
    return {one.number for one in _listed(project) if one.status == "online"}


def _read_registered(path: Path) -> dict[str, dict[str, object]]:
    """Key and number of each node that was registered before, by name."""
    if not path.is_file():
        return {}
    try:
        return TypeAdapter(dict[str, dict[str, object]]).validate_json(path.read_bytes())
    except ValidationError as error:
        raise TacitError(
            f"{str(path)!r} is damaged; delete it, unregister all nodes (`flwr supernode ls` has "
            "their numbers), and start again."
        ) from error


def start_run(project: Project, **settings: str) -> str:
    """`flwr run .` in the folder of the deployment; the number of the run at the SuperLink."""
    given = [f'{name}="{value}"' for name, value in settings.items()]
    options = ["--run-config", " ".join(given)] if given else []
    return str(flower_command(project, "run", str(project.folder), *options)["run-id"])


# Ports and processes of this machine.


def _within(copies: Path | None, place: NodePlace) -> Path | None:
    return None if copies is None else copies / place.name


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def is_free(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(1.0)
        return one.connect_ex(("127.0.0.1", port)) != 0


def _require_linux() -> None:
    if not Path("/proc/self/environ").is_file():
        raise TacitError(
            "Starting a deployment needs Linux, which says whose processes are whose; elsewhere "
            "start the commands of units/ yourself, or use compose.yaml."
        )


def marked(mark: str) -> list[int]:
    """The processes that carry a mark; those that have ended and only wait to be seen do not."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return sorted(found)


def _signal_all(mark: str, by: signal.Signals) -> None:
    for number in marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, by)


def _reap(numbers: Iterable[int], patience: float = 0.0) -> None:
    """Look at our own children that have ended, so that they are gone; one that is just ending is
    waited for so many seconds."""
    end = time.monotonic() + patience
    for number in numbers:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(number, os.WNOHANG)[0] == 0 and time.monotonic() < end:
                time.sleep(0.05)
