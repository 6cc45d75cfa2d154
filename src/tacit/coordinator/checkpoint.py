"""What a server has to know to go on after a kill: its parameters and how far it has come.

A checkpoint is written after every step and before the next request. One sealed file names the
tensor files of the last and of the selected state with their checksums and is renamed into place
last. So a kill at any moment leaves the step before or the step after, and nothing between.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file

from tacit.core.types import Params
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.checkpoint import write_tensors
from tacit.experiment.sealed import (
    DamagedError,
    file_checksum,
    read_sealed,
    require_checksum,
    write_sealed,
)
from tacit.files import make_folder

Stage = Literal["exchange", "validate", "deliver", "finish", "done"]
SIDECAR = "server.json"


@dataclass
class Progress:
    """How far a run has come, and what must not be forgotten of it.

    `origin` tells this run from others: checksums of its experiment, roster and catalogue.
    `stage` is what comes next; in "exchange" it is exchange `exchange` of round `rounds_done` + 1.
    """

    deployment: str
    run: str
    origin: str
    stage: Stage = "exchange"
    rounds_done: int = 0
    exchange: int = 0
    given_up: int = 0  # exchanges of which nothing came
    selected_round: int = 0
    selected_value: float = float("-inf")
    better_round: int = 0
    lines: int = 0  # of rounds.jsonl
    # of noise that the server adds to sums; the experiment's seed is known to everybody
    noise_seed: int = field(default_factory=lambda: secrets.randbits(63))
    informed: list[str] = field(default_factory=list)  # who has this run's catalogue
    left: list[str] = field(default_factory=list)
    refused: list[tuple[str, str, int]] = field(default_factory=list)  # sender, reason, count
    releases: dict[str, int] = field(default_factory=dict)  # uploads that a node was asked for
    hits: dict[str, int] = field(default_factory=dict)  # masked hits that a node was asked for
    # of the last secure sums under a claim: variance and norms, by what is summed
    noise: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    delivered: list[str] = field(default_factory=list)  # who has the final model
    metrics: dict[str, float] = field(default_factory=dict)  # of the selected round


class Checkpoint:
    """The files of a server's state in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._best: tuple[State, Path] | None = None  # the selected state, and where it lies

    def write(self, step: int, last: State, best: State | None, progress: Progress) -> None:
        make_folder(self.folder)
        files = {"last": self._tensors(f"last-{step:08d}", last)}
        if best is not None:
            if self._best is None or self._best[0] is not best:
                self._best = best, self._tensors(f"best-{step:08d}", best)
            files["best"] = self._best[1]
        write_sealed(
            self.folder / SIDECAR,
            {
                "step": step,
                "files": {part: [path.name, file_checksum(path)] for part, path in files.items()},
                "rounds": {
                    "last": last.round_number,
                    "best": 0 if best is None else best.round_number,
                },
                "progress": asdict(progress),
            },
        )
        kept = {path.name for path in files.values()}
        for old in self.folder.glob("*.safetensors*"):
            if old.name not in kept:
                old.unlink()

    def _tensors(self, name: str, state: State) -> Path:
        path = self.folder / f"{name}.safetensors"
        tensors = {f"shared.{key}": value.contiguous() for key, value in state.shared.items()}
        tensors |= {f"server.{key}": value.contiguous() for key, value in state.server.items()}
        write_tensors(path, tensors)
        return path

    def read(self) -> tuple[int, State, State | None, Progress] | None:
        """What was written last; None where nothing was, TacitError where it is damaged."""
        if not (self.folder / SIDECAR).exists():
            return None
        try:
            found = read_sealed(self.folder / SIDECAR)
            progress = TypeAdapter(Progress).validate_python(found["progress"])
            states = {part: self._read(found, part) for part in found["files"]}
            step, last, best = int(found["step"]), states["last"], states.get("best")
            if best is not None:
                self._best = best, self.folder / Path(found["files"]["best"][0]).name
        except (
            DamagedError,
            ValidationError,
            SafetensorError,
            OSError,
            KeyError,
            ValueError,
            TypeError,
        ) as error:
            raise TacitError(
                f"The server's checkpoint in {str(self.folder)!r} is damaged; bring back a copy of "
                "that folder, or begin another run."
            ) from error
        return step, last, best, progress

    def _read(self, found: Mapping[str, dict[str, list[str]]], part: str) -> State:
        name, expected = found["files"][part]
        path = self.folder / Path(name).name
        require_checksum(path, expected)
        tensors = load_file(path)

        def group(prefix: str) -> Params:
            return {
                key.removeprefix(prefix): value
                for key, value in tensors.items()
                if key.startswith(prefix)
            }

        number = int(found["rounds"][part])  # type: ignore[call-overload]
        return State(group("shared."), {}, round_number=number, server=group("server."))
