"""Give items that did not exist in training a row, so that a finished run can recommend them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit import streams
from tacit.content.recipes import TITLE, Given, NewTable, new_tables, optional_columns, recipes_of
from tacit.content.sources import read_items
from tacit.core.compose import compose
from tacit.core.parts import ColdStart
from tacit.core.types import Task
from tacit.data.dataset import Modalities
from tacit.engines.cold import ColdServer
from tacit.engines.device import one_torch_thread
from tacit.engines.state import State
from tacit.errors import TacitError, argument
from tacit.experiment.catalogue import NewItems, read_catalogue, refuse_known, write_version
from tacit.experiment.checkpoint import load_model
from tacit.experiment.data_record import prepare_again
from tacit.experiment.folder import RunFolder, only_process
from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment

# A finished run's generator, for whoever wants rows of it: attacks, maps, new items.


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
    record = run_folder.record()
    method = experiment.method.composed
    if method is None or method.cold is None:
        raise TacitError(
            f"The run at {str(run_folder.path)!r} ({experiment.label}) makes no rows for new "
            f"items; train with a generator, for example {argument('plugins', 'mdifffr')}."
        )
    state = load_model(run_folder)
    prepared = prepare_again(experiment, run_folder, record)
    train = prepared.split.train
    algorithm = compose(method, Task.of(train.existing()))
    server = ColdServer.of(algorithm, train, experiment.seed)
    return ColdModel(experiment, prepared, server, state)


# Give items that did not exist in training a row, so that a finished run can recommend them.


@dataclass(frozen=True, eq=False)
class Added:
    """A version of the catalogue that was just written: what came of each item's content.

    `tables` says for every feature table that the run reads who made it and who has no row in it;
    `without` are the items that have no row in any. `unused` are options that the run has no use
    for.
    """

    version: int
    file: Path
    ids: tuple[str, ...]
    tables: dict[str, dict[str, Any]]
    without: tuple[str, ...]
    unused: tuple[str, ...]


@one_torch_thread()
def add_items(
    folder: str | Path, items: str | Path, given: Given | None = None, id_column: str | None = None
) -> Added:
    """Generate rows for the items of a file and write them into the run as a new version.

    Content goes through the encoders, the scaling and the generator of the run. An item without
    content gets what the generator makes of the mean item.

    >>> import tempfile
    >>> from tacit.experiment.recommend import recommend
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run(resolve("pfedrec", plugins=["ridge"], rounds=1), Path(place) / "one")
    ...     _ = Path(place, "new.csv").write_text("item_id,title\\nx,Quiet Harbour\\ny,\\n")
    ...     added = add_items(Path(place) / "one", Path(place, "new.csv"))
    ...     best = recommend(Path(place) / "one", user="user-1", k=500)
    >>> added.version, added.without, [line.title for line in best if line.item == "x" and line.new]
    (1, ('y',), ['Quiet Harbour'])
    """
    RunFolder(Path(folder)).record()  # whoever gives no finished run is told so, and nothing else
    with only_process(Path(folder)):
        return _added(RunFolder(Path(folder)), Path(items), given or Given(), id_column)


def _added(run_folder: RunFolder, items: Path, given: Given, id_column: str | None) -> Added:
    model = load_cold_model(run_folder.path)
    _refuse_controls(model)
    widths = _widths(model)
    recipes = recipes_of(model.experiment.data.name, tuple(widths))
    found = read_items(items, given.text, id_column, optional=optional_columns(recipes, given))
    before = read_catalogue(run_folder)
    refuse_known(found.ids, model.prepared.dataset.interactions.items, before.ids)
    made = new_tables(found, widths, recipes, given)
    content = Modalities({name: one.table for name, one in made.items()})
    row_ND = _rows(model, content, found.ids)
    titles = found.texts.get(TITLE, ("",) * len(found.ids))
    new = NewItems(
        found.ids,
        tuple(title or None for title in titles),
        row_ND,
        Modalities({name: content[name] for name in _read_by_encoder(model)}),
        before.versions + 1,
    )
    tables = {name: _described(one, found.ids) for name, one in made.items()}
    file = write_version(run_folder, new, tables)
    absent = [~one.table.present_I for one in made.values()]
    without = _named(np.all(absent, axis=0), found.ids) if absent else ()
    kinds = {recipes[name].modality for name in widths if name not in given.features}
    unused = tuple(
        option
        for option, kind, was_given in (
            ("--text", "text", bool(given.text)),
            ("--images", "image", given.images is not None),
        )
        if was_given and kind not in kinds
    )
    return Added(new.versions, file, new.ids, tables, without, unused)


def _widths(model: ColdModel) -> dict[str, int]:
    """How wide the tables are that the generator or the item encoder reads."""
    features = model.cold.features
    read = features.modalities if features.kind == "content" else ()
    content = model.prepared.dataset.modalities
    names = dict.fromkeys((*read, *_read_by_encoder(model)))
    return {name: int(content[name].value_IF.shape[1]) for name in names}


def _read_by_encoder(model: ColdModel) -> tuple[str, ...]:
    algorithm = model.server.algorithm
    return tuple(algorithm.method.items.content(algorithm.task.content))


def _rows(model: ColdModel, content: Modalities, ids: tuple[str, ...]) -> torch.Tensor:
    feature_NF = torch.from_numpy(model.server.fitted.rows(content, len(ids)))
    key_N = np.array([streams.name_of(name) for name in ids], dtype=np.uint64)
    row_ND = model.server.made(model.state, feature_NF, key_N)
    finite_N = torch.isfinite(row_ND).all(dim=1).numpy()
    if not finite_N.all():
        raise TacitError(
            f"The generator of {model.label} made no finite row for item "
            f"{_named(~finite_N, ids)[0]!r}; train it with a smaller rate."
        )
    return row_ND


def _refuse_controls(model: ColdModel) -> None:
    """Controls that tie numbers to places in the training catalogue have none for anybody else."""
    items = model.server.algorithm.method.items
    if model.cold.features.kind == "random" or items.shuffled:
        raise TacitError(
            f"{model.label} is a control that gives every training item numbers of another origin "
            "in place of its content, so it has none for new items; use a run that reads content."
        )


def _described(one: NewTable, ids: tuple[str, ...]) -> dict[str, Any]:
    return {
        "encoder": one.encoder,
        "columns": list(one.columns),
        "width": int(one.table.value_IF.shape[1]),
        "without": list(_named(~one.table.present_I, ids)),
    }


def _named(chosen_N: np.ndarray, ids: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name, chosen in zip(ids, chosen_N, strict=True) if chosen)
