"""`load`: a named source, the planted dataset, a path, or data in memory, with rules applied."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, Protocol

from tacit.data.dataset import Dataset
from tacit.data.readers import read_path
from tacit.data.readers.published import read_cold_split
from tacit.data.readers.table import read_frame
from tacit.data.rules import Duplicates, KCore, MinRating, MinUser, Rule
from tacit.data.sources import PLANTED as PLANTED
from tacit.data.sources import SOURCES, Source
from tacit.errors import TacitError, argument, nearest, outcome_of, shown
from tacit.files import cache_dir as cache_dir
from tacit.names import not_loaded

IN_MEMORY = "frame:"  # what the name of data in memory begins with; a digest of it follows


class Frame(Protocol):
    """A table in memory with named columns: a polars or pandas frame."""

    @property
    def columns(self) -> Any: ...
    def __getitem__(self, name: Any, /) -> Any: ...


# Everything that is data: a source's name, a path, a dataset, a frame, a dictionary of columns.
Data = str | os.PathLike[str] | Dataset | Frame | Mapping[str, Any]


def load(
    data: Data,
    *,
    columns: Mapping[str, str] | None = None,
    min_user: int | None = None,
    min_rating: float | None = None,
    core: int | None = None,
    duplicates: Literal["earliest", "keep"] = "earliest",
    data_dir: str | Path | None = None,
) -> Dataset:
    """A dataset by name, by path or from a frame: read, filtered, then repeated pairs decided.

    A source's rules count rows as published, repeats included. `min_user` takes the place of the
    source's own user filter, `core` that of its own k-core; ratings below `min_rating` go before
    anybody is counted. Files of a source are looked for in `data_dir` (or `$TACIT_DATA`),
    then in the cache.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "plays.csv"
    ...     _ = file.write_text("user,item\\nann,x\\nann,x\\nann,y\\nbob,x\\n")
    ...     [step.after["interactions"] for step in load(file, min_user=2).steps]
    [3, 2]
    """
    decide, own = Duplicates(duplicates), own_rules(min_rating, min_user, core)
    if not isinstance(data, str | os.PathLike):
        if isinstance(data, Dataset) and columns:
            raise TacitError(f"A Dataset has its columns already; leave out {argument('columns')}.")
        dataset = data if isinstance(data, Dataset) else read_frame(data, columns)
        for rule in _together((), own):
            dataset = rule.apply(dataset)
        return decide.apply(dataset)
    name = str(data)
    if name == PLANTED:
        return decide.apply(_planted(columns, own))
    source = SOURCES.get(name)
    if source is not None:
        if columns:
            raise TacitError(
                f"The columns of source {name!r} are known; leave out {argument('columns')}."
            )
        dataset = _made(source) if source.load is not None else _read_source(source, data_dir)
        rules = source.rules
    elif os.path.exists(name):
        dataset = read_path(name, columns)
        rules = ()
    elif name.startswith(IN_MEMORY):
        raise TacitError(
            f"{name} was data in the memory of another program, and it is stored nowhere; give the "
            "same data again, or use a model that was saved with model.save."
        )
    else:
        known = nearest(name, [*SOURCES, PLANTED]) + not_loaded()
        raise TacitError(f"There is no source and no file or folder called {name!r}; {known}")
    for rule in _together(rules, own):
        dataset = rule.apply(dataset)
    if source is not None and source.statistics and not own:
        dataset = _compare(dataset, source)
    return decide.apply(dataset)


def find_source(source: Source, data_dir: str | Path | None = None) -> Path:
    """The folder that holds the source's files; if there is none, the words on how to get one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "ml-100k").mkdir()
    ...     find_source(SOURCES["ml-100k"], folder).name
    'ml-100k'
    """
    if source.load is not None:
        raise TacitError(f"The dataset {source.name!r} is made by a function and has no files.")
    chosen = data_dir if data_dir is not None else os.environ.get("TACIT_DATA")
    roots = [Path(chosen).expanduser()] if chosen else []
    for root, name in product((*roots, cache_dir()), source.folders):
        if (root / name).is_dir():
            return root / name
    raise TacitError(how_to_get(source))


def how_to_get(source: Source) -> str:
    """One sentence: where the owner publishes the source, and which file to put where.

    >>> "GroupLens" in how_to_get(SOURCES["ml-100k"])
    True
    """
    place = str(cache_dir() / source.folder)
    folders = " or ".join(repr(name) for name in source.folders)
    return (
        f"The files of {source.name!r} are not here: get them from their owner "
        f"({source.owner_page}) and put {source.files_expected} into {place!r}, or "
        f"into {folders} under the folder that TACIT_DATA names ({source.licence})."
    )


def _made(source: Source) -> Dataset:
    """What the function of a user's own dataset returns."""
    assert source.load is not None
    what = f"The function that makes the dataset {source.name!r}"
    dataset = outcome_of(what, source.load)
    if not isinstance(dataset, Dataset):
        raise TacitError(f"{what} returned {shown(dataset)}; it must return a tacit.Dataset.")
    return replace(_timed(dataset, source), name=source.name)


def _timed(dataset: Dataset, source: Source) -> Dataset:
    """The dataset with the notes of its source, and without times that are none."""
    if not source.has_time:
        dataset = replace(dataset, interactions=replace(dataset.interactions, time_N=None))
    return replace(dataset, notes=(*dataset.notes, *source.notes))


def _read_source(source: Source, data_dir: str | Path | None) -> Dataset:
    folder = find_source(source, data_dir)
    raw = folder / source.raw_file if source.raw_file else folder
    path, columns = (raw, source.raw_columns) if raw.is_file() else (folder, None)
    dataset = read_path(path, columns, source.name, quirks=source.quirks)
    if source.cold_split is not None and (folder / source.cold_split).is_file():
        part_I = read_cold_split(folder / source.cold_split, dataset.interactions.items)
        dataset = replace(dataset, cold_part_I=part_I)
    return _timed(dataset, source)


def _planted(columns: Mapping[str, str] | None, own: Sequence[Rule]) -> Dataset:
    if columns or own:
        # Its truth is stored per user and item, and rules do not reach it.
        raise TacitError(
            f"The planted dataset is complete: leave out {argument('columns')}, "
            f"{argument('min_user')}, {argument('min_rating')} and {argument('core')}."
        )
    from tacit.data.planted import planted_dataset

    return planted_dataset()


def own_rules(min_rating: float | None, min_user: int | None, core: int | None) -> tuple[Rule, ...]:
    """The rules that the caller asks for."""
    return (
        *(() if min_rating is None else (MinRating(min_rating),)),
        *(() if min_user is None else (MinUser(min_user),)),
        *(() if core is None else (KCore(core),)),
    )


def _together(rules: Sequence[Rule], own: Sequence[Rule]) -> list[Rule]:
    """The source's rules and the caller's, which take the place of those of their kind. Low ratings
    go before anybody is counted."""
    kinds = {type(rule) for rule in own}
    kept = [rule for rule in rules if type(rule) not in kinds]
    ratings = [rule for rule in own if isinstance(rule, MinRating)]
    return [*ratings, *kept, *(rule for rule in own if rule not in ratings)]


def _compare(dataset: Dataset, source: Source) -> Dataset:
    counts = dataset.interactions.counts
    if counts == source.statistics:
        return dataset
    said = [", ".join(f"{n} {what}" for what, n in c.items()) for c in (counts, source.statistics)]
    note = f"This copy has {said[0]}; the published counts are {said[1]}: results may differ."
    return replace(dataset, notes=(*dataset.notes, note))
