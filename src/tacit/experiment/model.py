"""`fit`: data in, a model out. A model recommends, scores, and can be saved and loaded."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.load import PLANTED, Data
from tacit.data.sources import SOURCES
from tacit.engines.device import one_torch_thread
from tacit.errors import TacitError, nearest, shown, whole
from tacit.experiment.callbacks import Callbacks
from tacit.experiment.data_spec import is_stored, write_dataset
from tacit.experiment.folder import LOCK, RunFolder
from tacit.experiment.recommend import (
    OpenRun,
    best_for_newcomer,
    best_for_user,
    known_scores,
    known_user_code,
)
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.files import PART, whole_folder
from tacit.memory import cores

if TYPE_CHECKING:
    import polars as pl


class _Metrics(dict[str, float]):
    def __missing__(self, name: object) -> float:
        raise TacitError(
            f"No metric {shown(name)} was measured; {nearest(str(name), self)} `tacit evaluate` "
            "measures others from the ranks of a run."
        )


class Model:
    """A finished run that answers: what to recommend, what somebody's scores are.

    `fit` and `load` make one; the data and the parameters are read when they are first needed.
    """

    def __init__(self, folder: str | Path, experiment: Experiment | None = None) -> None:
        self._files = RunFolder(Path(folder))
        self.record = self._files.record()
        self.experiment = self._files.experiment() if experiment is None else experiment

    def __repr__(self) -> str:
        about = self.experiment
        names = [name for name in ("HR@10", "NDCG@10", "Recall@20") if name in self.metrics]
        numbers = ", ".join(f"{name} {self.metrics[name]:.4f}" for name in names[:2])
        return (
            f"Model({about.label} on {about.data.name}, protocol {about.protocol.name}, "
            f"seed {about.seed}: {numbers})"
        )

    @property
    def folder(self) -> Path:
        """Where the run lies; a temporary place unless `out` was given."""
        return self._files.path

    @property
    def metrics(self) -> Mapping[str, float]:
        """The test metrics, ranked among all items; `record` has the others, and chance beside."""
        return _Metrics(self.record.metrics.full)

    @cached_property
    def _open(self) -> OpenRun:
        return OpenRun.of(self.folder, self.experiment)

    @property
    def users(self) -> tuple[str, ...]:
        """The ids of all people of the training data."""
        return self._open.prepared.dataset.interactions.users

    @property
    def items(self) -> tuple[str, ...]:
        """The ids of all items; those that joined after training come last."""
        return (*self._open.prepared.dataset.interactions.items, *self._open.new.ids)

    @one_torch_thread()
    def recommend(
        self,
        user: str | int | Sequence[str | int] | None = None,
        k: int = 10,
        *,
        history: Sequence[str | int] | None = None,
    ) -> pl.DataFrame:
        """The best k items that a person does not have yet, as a polars frame.

        `user` is an id of the training data, or several. For somebody new give a `history` of item
        ids in its place. `.to_pandas()` (with pyarrow) makes a pandas frame of it.

        >>> model = fit("planted", "popularity")
        >>> model.recommend("user-1", k=2).columns
        ['user', 'rank', 'item', 'title', 'score']
        """
        import polars as pl

        if (user is None) == (history is None):
            raise TacitError("Give either user= or history=.")
        k = whole("k", k)
        if k < 1:
            raise TacitError(f"k is {k}; ask for at least 1 item.")
        if history is not None:
            lists = {"": best_for_newcomer(self._open, _ids(history), k)}
        else:
            lists = {one: best_for_user(self._open, one, k) for one in _ids(user)}
        rows = [
            (one, line.rank, line.item, line.title, line.score)
            for one, lines in lists.items()
            for line in lines
        ]
        schema = {
            "user": pl.String,
            "rank": pl.Int64,
            "item": pl.String,
            "title": pl.String,
            "score": pl.Float64,
        }
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return frame.drop("user") if history is not None else frame

    @one_torch_thread()
    def scores(
        self,
        users: str | int | Sequence[str | int],
        items: str | int | Sequence[str | int] | None = None,
    ) -> np.ndarray:
        """Logits (users, items): a row for each person, a column for each item (default: all).

        >>> fit("planted", "popularity").scores(["user-1", "user-2"], ["item-0"]).shape
        (2, 1)
        """
        code_of = {name: code for code, name in enumerate(self.items)}
        wanted = self.items if items is None else _ids(items)
        for name in wanted:
            if name not in code_of:
                raise TacitError(
                    f"No item {shown(name)} in {self.experiment.data.name}; ids look like "
                    f"{', '.join(self.items[:3])}."
                )
        codes = np.array([code_of[name] for name in wanted], dtype=np.int64)
        rows = [
            known_scores(self._open, known_user_code(self._open, one))[codes] for one in _ids(users)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(codes))

    def save(self, path: str | Path) -> Path:
        """Write the model to a folder, from which `load` and every `tacit` command reads it.

        Data that was given in memory is stored with it: histories of people are then on the disk.
        """
        target = RunFolder(Path(path))
        if target.path.resolve() != self.folder.resolve():
            if not target.is_blank(self.experiment):
                self._require_same(target)
            else:
                self._copy(target.path)
        held = self.experiment.data.held
        if held is not None and not is_stored(target.stored_data_dir):
            write_dataset(held.dataset(), target.stored_data_dir)
        return target.path

    def _require_same(self, target: RunFolder) -> None:
        """Refuse a folder that holds anything but this model, saved before."""
        same = target.finished and target.experiment() == self.experiment
        if not same or Model(target.path).metrics != self.metrics:
            raise TacitError(
                f"{str(target.path)!r} holds something else than this model; choose another path."
            )

    def _copy(self, path: Path) -> None:
        left_out = shutil.ignore_patterns(LOCK, f"*{PART}", self._files.checkpoint_dir.name)
        with whole_folder(path) as part:
            shutil.copytree(self.folder, part, ignore=left_out, dirs_exist_ok=True)


def fit(
    data: Data,
    method: str = "pfedrec",
    *,
    rounds: int | None = None,
    seed: int = 0,
    plugins: Sequence[str] = (),
    protocol: str = "clean",
    preset: str = "paper",
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    min_user: int | None = None,
    min_rating: float | None = None,
    core: int | None = None,
    duplicates: str | None = None,
    participation: float | None = None,
    engine: str = "auto",
    device: str = "cpu",
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    threads: int | None = None,
    callbacks: Callbacks = (),
    private_on_disk: bool = False,
) -> Model:
    """Train a method on some data and measure it; the model answers for it.

    `data` is a polars or pandas frame, a `Dataset`, a path, or the name of a source. A frame's
    columns are found by their usual names (user, item, time, ...), or named with `columns`. Without
    `out` the run lies in a temporary folder as long as the model lives. With `out` it stays there:
    the same call again gives the finished model, or goes on where it was stopped. With
    `private_on_disk` the rows that clients tune for themselves lie on that disk, not in memory.

    >>> plays = {"user": ["ann"] * 4 + ["bob"] * 4, "item": list("wxyzvwxy")}
    >>> model = fit(plays | {"time": [1, 2, 3, 4] * 2}, "popularity")
    >>> model.recommend("ann", k=1)["item"].to_list()
    ['v']
    """
    experiment = resolve(
        method,
        data=data,
        protocol=protocol,
        preset=preset,
        plugins=plugins,
        rounds=rounds,
        seed=seed,
        split=split,
        columns=columns,
        min_user=min_user,
        min_rating=min_rating,
        core=core,
        duplicates=duplicates,
        participation=participation,
        engine=engine,
        device=device,
        sets=sets,
    )
    how: dict[str, Any] = {
        "threads": threads or cores(),
        "callbacks": callbacks,
        "private_on_disk": private_on_disk,
    }
    if out is not None:
        run(experiment, out, resume=True, **how)
        return Model(out, experiment)
    place = tempfile.mkdtemp(prefix="tacit-")
    try:
        run(experiment, place, **how)
        model = Model(place, experiment)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(model, shutil.rmtree, place, ignore_errors=True)  # or when Python ends
    return model


def load(path: str | Path) -> Model:
    """The model in a folder: one that `Model.save` wrote, or any finished run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = fit("planted", "popularity").save(Path(place, "one"))
    ...     print(load(Path(place, "one")).experiment.name)
    popularity
    """
    if not os.path.isdir(path) and str(path) in (PLANTED, *SOURCES):
        raise TacitError(
            f"{str(path)!r} is a dataset and tacit.load opens models; read it with tacit.load_data."
        )
    return Model(path)


def _ids(given: Any) -> tuple[str, ...]:
    """Ids as text: of one person or item, or of several, such as a column of a frame."""
    if isinstance(given, str | int | np.integer):
        return (str(given),)
    return tuple(str(one) for one in given)
