"""What a ServerApp does: play a run of the deployment over Flower's Grid.

The folder of the deployment comes from the environment of the SuperLink. The settings of a run may
say what to do (`task`) and how the run is called (`run`). A run that was killed goes on from its
checkpoint when it is started again. One ServerApp at a time is at work in a deployment: two would
write the same checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tacit.coordinator.checkpoint import Checkpoint
from tacit.coordinator.rounds import Coordinator
from tacit.deployment.project import Project, open_project
from tacit.deployment.settings import require_name
from tacit.errors import TacitError, shown
from tacit.experiment.folder import TakenError, only_process
from tacit.files import make_folder, write_text
from tacit.flower.transport import FlowerTransport, Grid

LOG = logging.getLogger("tacit")
PLACE = "TACIT_DEPLOYMENT"  # in the environment: the folder of the deployment
REGISTERED = "registered.json"  # the numbers that the SuperLink gave to nodes
ABOUT = "began.json"  # with which catalogue a run began
TASKS = ("train", "new-items", "deliver")
PATIENCE = 30.0  # seconds for a ServerApp whose SuperLink was killed to notice that, and to end


def play(grid: Grid, context: Any) -> None:
    """Play what the settings of this run ask for."""
    place = os.environ.get(PLACE)
    if not place:
        raise TacitError(f"The environment variable {PLACE} does not name a deployment.")
    project = open_project(place)
    with _own_log(project.server / "coordinator.log"):
        try:
            task = str(context.run_config.get("task", "train"))
            found = Served(project, grid).play(task, str(context.run_config.get("run", "")))
            LOG.info("%s: %s", task, found)
        except TacitError as error:
            LOG.error("%s", error)
            raise


@dataclass(frozen=True)
class Served:
    """A deployment with a Grid to its nodes."""

    project: Project
    grid: Grid

    def play(self, task: str, run: str = "") -> str:
        """One task; the sentence says what came of it."""
        if task not in TASKS:
            raise TacitError(f"There is no task {shown(task)}; it is {' or '.join(TASKS)}.")
        self._wait()
        with _alone(self.project):
            return self._played(task, run)

    def _played(self, task: str, run: str) -> str:
        if task == "new-items":
            return self._add_items(run or _last_finished(self.project))
        if task == "deliver":
            return self._deliver_again(run or _last_finished(self.project))
        coordinator = self.coordinator(run or _next_run(self.project))
        outcome = coordinator.run()
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in outcome.metrics.items())
        return (
            f"run {coordinator.rules.run} has played {outcome.rounds} rounds, and round "
            f"{outcome.selected_round} was selected{': ' + metrics if metrics else ''}"
        )

    def coordinator(self, run: str) -> Coordinator:
        """The coordinator of a run: a new one, or on from its checkpoint."""
        require_name(run, "a run")
        project = self.project
        folder = project.runs / run
        experiment = project.experiment()
        items = project.shelf.read(self._catalogue_of(folder))
        return Coordinator(
            experiment,
            project.roster(),
            items.offer(experiment, project.settings.name),
            FlowerTransport(self.grid, registered(project)),
            folder,
            project.settings.rules(run),
        )

    def _catalogue_of(self, folder: Path) -> int:
        """With which version of the catalogue a run began; a new one begins with the latest."""
        path = folder / ABOUT
        if path.is_file():
            return int(json.loads(path.read_text(encoding="utf-8"))["catalogue"])
        version = self.project.shelf.latest.version
        make_folder(folder)
        write_text(path, json.dumps({"catalogue": version}) + "\n")
        return version

    def _wait(self) -> None:
        """For all nodes; after the time that is set for it, those of a quorum are enough."""
        settings, known = self.project.settings, registered(self.project)
        transport = FlowerTransport(self.grid, known)
        try:
            transport.wait_for(known, settings.wait)
        except TacitError as error:
            online = set(self.grid.get_node_ids()) & set(known.values())
            if len(online) < settings.quorum * len(known):
                raise
            LOG.warning("%s", error)

    def _deliver_again(self, run: str) -> str:
        """The final model for nodes that were away at the end of a run."""
        have_it = self.coordinator(run).deliver_again()
        nodes = self.project.settings.nodes
        return f"the model of run {run} is with {len(have_it)} of {len(nodes)} nodes"

    def _add_items(self, run: str) -> str:
        project = self.project
        coordinator = self.coordinator(run)
        latest = project.shelf.latest
        offer = latest.offer(project.experiment(), project.settings.name)
        told = coordinator.add_items(offer)
        return (
            f"version {latest.version} of the catalogue, with {offer.n_items} items, is with "
            f"{len(told)} of {len(project.settings.nodes)} nodes"
        )


def registered(project: Project) -> Mapping[str, int]:
    """The numbers of nodes at the SuperLink, by name."""
    path = project.server / REGISTERED
    if not path.is_file():
        raise TacitError("No node is registered with the SuperLink; run `tacit deploy up`.")
    try:
        return TypeAdapter(dict[str, int]).validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise TacitError(f"{str(path)!r} is damaged; register the nodes anew.") from error


def run_names(project: Project) -> list[str]:
    """All runs, in the order in which they began."""
    folders = [path.parent for path in project.runs.glob(f"*/{ABOUT}")]
    return [path.name for path in sorted(folders, key=lambda one: (one / ABOUT).stat().st_mtime)]


def _is_done(project: Project, run: str) -> bool:
    found = Checkpoint(project.runs / run / "checkpoint").read()
    return found is not None and found[3].stage == "done"


def _next_run(project: Project) -> str:
    """The run that is not over yet, or a new name."""
    names = run_names(project)
    if names and not _is_done(project, names[-1]):
        return names[-1]
    return f"run-{len(names) + 1}"


def _last_finished(project: Project) -> str:
    done = [name for name in run_names(project) if _is_done(project, name)]
    if not done:
        raise TacitError("No run is over yet; new items get rows from a finished one.")
    return done[-1]


@contextmanager
def _alone(project: Project) -> Iterator[None]:
    """Within it, no other ServerApp of this deployment is at work."""
    end = time.monotonic() + PATIENCE
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(only_process(project.runs))
                break
            except TakenError as error:
                if time.monotonic() > end:
                    raise TacitError(
                        "Another ServerApp of this deployment is at work; wait until it has "
                        "ended, or stop it with `flwr stop`."
                    ) from error
            time.sleep(0.2)
        yield


@contextmanager
def _own_log(path: Path) -> Iterator[None]:
    """Within it, what tacit says is also written into a file of the server."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        handler.close()
