"""A finished run's generator, for whoever wants rows of it: attacks, maps, new items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.core.cold import ColdStart
from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.engines.cold import ColdServer
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.checkpoint import load_model
from tacit.experiment.data_record import prepare_again
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment


@dataclass(frozen=True, eq=False)
class ColdModel:
    """The generator that a run selected, with the catalogue it was trained on."""

    experiment: Experiment
    prepared: Prepared
    server: ColdServer
    state: State

    @property
    def label(self) -> str:
        return self.experiment.label

    @property
    def cold(self) -> ColdStart:
        return self.server.cold

    @property
    def feature_IF(self) -> np.ndarray:
        """All items of the catalogue, as the generator reads them."""
        return self.server.feature_IF.numpy()

    @property
    def cold_C(self) -> np.ndarray:
        """The cold items of the test part; without a cold split, items that nobody has touched."""
        among = self.prepared.split.test.among_C
        if among is not None:
            return among
        if self.prepared.split.train.warm_W is not None:
            return self.server.cold_C
        return np.flatnonzero(self.prepared.split.train.popularity_I() == 0)

    def rows(self, item_C: np.ndarray, draw: int = 0) -> np.ndarray:
        """Generated rows (C, D); another draw has other noise."""
        return self.server.rows(self.state, item_C, draw).numpy()


def load_cold_model(folder: str | Path) -> ColdModel:
    """The generator of a finished run; a run without one is refused.

    >>> import tempfile
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run(resolve("pfedrec", plugins=["ridge"], rounds=1), Path(place) / "one")
    ...     model = load_cold_model(Path(place) / "one")
    >>> model.rows(model.cold_C).shape
    (72, 32)
    """
    run_folder = RunFolder(Path(folder))
    experiment = run_folder.experiment()
    result = run_folder.result()
    method = experiment.method
    if not isinstance(method, Method) or method.cold is None:
        raise TacitError(
            f"The run at {str(run_folder.path)!r} ({experiment.label}) makes no rows for new "
            "items; train with a generator, for example --with mdifffr."
        )
    state = load_model(run_folder)
    prepared = prepare_again(experiment, run_folder, result)
    train = prepared.split.train
    algorithm = compose(method, Task.of(train.existing()))
    server = ColdServer.of(algorithm, train, experiment.seed)
    return ColdModel(experiment, prepared, server, state)
