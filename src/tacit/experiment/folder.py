"""The run folder: what a run writes, where, and never half.

experiment.toml   the resolved value          metrics.jsonl   one line per round
checkpoint/       what the next round needs   model/          the selected round
ranks.parquet     the selected round's test   run.json        the result
report.html       the result for people       catalogue/      items added by `tacit add-items`
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.experiment.codec import UnknownPartError
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps, loads
from tacit.files import make_folder, write_text


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run, and atomic writes into it.

    >>> RunFolder(Path("runs/one")).result_file.name
    'run.json'
    """

    path: Path

    @property
    def experiment_file(self) -> Path:
        return self.path / "experiment.toml"

    @property
    def result_file(self) -> Path:
        return self.path / "run.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def ranks_file(self) -> Path:
        return self.path / "ranks.parquet"

    @property
    def report_file(self) -> Path:
        return self.path / "report.html"

    @property
    def checkpoint_dir(self) -> Path:
        return self.path / "checkpoint"

    @property
    def model_dir(self) -> Path:
        return self.path / "model"

    @property
    def catalogue_dir(self) -> Path:
        return self.path / "catalogue"

    @property
    def finished(self) -> bool:
        return self.result_file.is_file()

    def open(self, experiment: Experiment, *, resume: bool) -> None:
        """Begin or continue a run here; refuse a folder that holds another one."""
        if self.path.is_file():
            raise TacitError(f"{str(self.path)!r} is a file; give a folder with --out.")
        if self.experiment_file.is_file():
            if self.experiment() != experiment:
                raise TacitError(
                    f"{str(self.path)!r} holds another experiment (see its experiment.toml); "
                    "choose another --out, or remove that folder."
                )
            if not resume:
                raise TacitError(
                    f"{str(self.path)!r} already holds this run; add --resume to continue it, or "
                    "choose another --out."
                )
            return
        if self.path.is_dir() and any(self.path.iterdir()):
            raise TacitError(
                f"{str(self.path)!r} is not empty and holds no run; choose another --out."
            )
        make_folder(self.path)
        write_text(self.experiment_file, dumps(experiment))

    def experiment(self) -> Experiment:
        """The experiment that was run here."""
        if not self.experiment_file.is_file():
            raise TacitError(
                f"No run at {str(self.path)!r}: there is no experiment.toml; give a folder that "
                "`tacit train` wrote."
            )
        try:
            return loads(self.experiment_file.read_text(encoding="utf-8"))
        except UnknownPartError as error:  # nothing is damaged: somebody has parts of their own
            raise TacitError(
                f"{str(self.experiment_file)!r} names the part {error.name!r} at {error.where}, "
                "which nobody has registered here; register it before the run is opened, as the "
                "program did that trained it (from tacit.experiment.parts import register; "
                f'register("{error.name}", YourClass)), or bring the file back if that is no name '
                "of yours."
            ) from error
        except (ValueError, TacitError) as error:
            raise TacitError(f"{str(self.experiment_file)!r} is damaged: {error}") from error

    def result(self) -> dict[str, Any]:
        """The result of a finished run."""
        self.experiment()
        if not self.finished:
            raise TacitError(
                f"The run at {str(self.path)!r} is not finished; continue it with --resume."
            )
        try:
            result: dict[str, Any] = json.loads(self.result_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TacitError(f"{str(self.result_file)!r} is damaged: {error}.") from error
        return result
