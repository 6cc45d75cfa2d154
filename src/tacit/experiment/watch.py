"""Who wants to see a run while it goes on."""

from __future__ import annotations

from typing import Any, Protocol

from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment


class Watcher(Protocol):
    """Who wants to see a run: the progress bar of the command, or nobody."""

    def begin(
        self, experiment: Experiment, prepared: Prepared, engine: str, rounds: int
    ) -> None: ...
    def round(self, record: dict[str, Any], best: float | None) -> None: ...
    def end(self) -> None: ...


class Silent:
    """Nobody watches."""

    def begin(self, experiment: Experiment, prepared: Prepared, engine: str, rounds: int) -> None:
        pass

    def round(self, record: dict[str, Any], best: float | None) -> None:
        pass

    def end(self) -> None:
        pass
