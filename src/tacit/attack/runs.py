"""The inversion attack on the cold items of finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tacit.analysis.finished import finished_runs, require_alike
from tacit.attack.inversion import Inversion, invert, require_settings
from tacit.errors import TacitError
from tacit.experiment.cold_model import load_cold_model


def invert_runs(
    folders: Sequence[str | Path], *, leaked: float = 0.2, seeds: int = 5, draws: int = 10
) -> dict[str, Inversion]:
    """What each run's generated rows say about the content that they were generated from, for the
    cold items of the test part; a generator without noise has one draw, whatever `draws` says.

    >>> invert_runs(["nowhere"])
    Traceback (most recent call last):
    tacit.errors.TacitError: No run at 'nowhere': there is no experiment.toml; give a folder that \
`tacit train` wrote.
    """
    require_settings(leaked, seeds)
    if draws < 1:
        raise TacitError(f"draws is {draws}; there must be at least one.")
    runs = finished_runs(folders)
    require_alike(runs)
    models = {run.name: load_cold_model(run.folder.path) for run in runs}
    found = {}
    for name, model in models.items():
        n = draws if model.cold.noise else 1
        embedding_RCD = np.stack([model.rows(model.cold_C, draw) for draw in range(n)])
        content_CF = model.feature_IF[model.cold_C]
        try:
            found[name] = invert(embedding_RCD, content_CF, leaked=leaked, seeds=seeds)
        except TacitError as error:
            raise TacitError(f"{name}: {error}") from error
    return found
