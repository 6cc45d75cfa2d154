"""What a run advances: a federation round by round, or a central method setting by setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from tacit.core.central import CentralMethod, TrainedCentralMethod
from tacit.core.direct import DirectMethod
from tacit.core.method import Method
from tacit.data.sampling import DrawnNegatives
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.evaluation.ranking import ScoreBlock
from tacit.experiment.central_course import CentralCourse
from tacit.experiment.direct_course import DirectCourse
from tacit.experiment.federated_course import FederatedCourse
from tacit.experiment.spec import Experiment
from tacit.experiment.trained_course import TrainedCourse


class Course(Protocol):
    """One run's moving part, as the run loop sees it."""

    @property
    def rounds(self) -> int: ...
    @property
    def loss(self) -> float | None: ...
    def describe(self) -> str: ...
    def advance(self) -> None: ...
    def scores(self) -> ScoreBlock: ...
    def mark_best(self) -> None: ...
    def best_scores(self) -> ScoreBlock: ...
    def save(self, folder: Path, note: dict[str, Any]) -> None: ...
    def restore(self, folder: Path) -> dict[str, Any] | None: ...
    def save_best(self, folder: Path, note: dict[str, Any] | None = None) -> None: ...
    def drawn(self, rounds: int) -> DrawnNegatives: ...
    def cost(self, rounds: int) -> dict[str, int]: ...
    def server_reads(self) -> list[str]: ...


def course_of(experiment: Experiment, train: TrainView, threads: int) -> Course:
    """The course that an experiment's method takes."""
    if isinstance(experiment.method, Method):
        return FederatedCourse(experiment, train, threads)
    if train.warm_W is not None and not isinstance(experiment.method, CentralMethod):
        raise TacitError(
            f"{experiment.name} knows items by who touched them alone, so it cannot rank items "
            "that nobody has touched; use another --split."
        )
    if isinstance(experiment.method, DirectMethod):
        return DirectCourse(experiment, experiment.method, train)
    if isinstance(experiment.method, TrainedCentralMethod):
        return TrainedCourse(experiment, experiment.method, train)
    return CentralCourse(experiment, experiment.method, train)
