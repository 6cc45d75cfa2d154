"""`load`: a named source, the planted world, or a path, with its rules applied."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tacit.data.dataset import Dataset
from tacit.data.readers import read_path
from tacit.data.readers.published import read_cold_split
from tacit.data.rules import Duplicates, KCore, MinRating, MinUser, Rule
from tacit.data.sources import SOURCES, Source
from tacit.errors import TacitError, nearest

PLANTED = "planted"


def load(
    name_or_path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    min_user: int | None = None,
    min_rating: float | None = None,
    core: int | None = None,
    duplicates: Literal["earliest", "keep"] = "earliest",
    data_dir: str | Path | None = None,
) -> Dataset:
    """A dataset by name or path: read, filtered by its rules, then repeated pairs decided.

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
    name = str(name_or_path)
    decide, own = Duplicates(duplicates), own_rules(min_rating, min_user, core)
    if name == PLANTED:
        return decide.apply(_planted(columns, own))
    source = SOURCES.get(name)
    if source is not None:
        if columns:
            raise TacitError(f"The columns of source {name!r} are known; leave out --columns.")
        dataset = _read_source(source, data_dir)
        rules = source.rules
    elif os.path.exists(name_or_path):
        dataset = read_path(name_or_path, columns)
        rules = ()
    else:
        known = nearest(name, [*SOURCES, PLANTED])
        raise TacitError(f"There is no source and no file or folder called {name!r}; {known}")
    for rule in _together(rules, own):
        dataset = rule.apply(dataset)
    if source is not None and not own:
        dataset = _compare(dataset, source)
    return decide.apply(dataset)


def cache_dir() -> Path:
    """Where files that were fetched are kept: `$TACIT_CACHE`, or the platform's cache folder.

    >>> cache_dir().is_absolute()
    True
    """
    if chosen := os.environ.get("TACIT_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "tacit"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tacit"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit"


def find_source(source: Source, data_dir: str | Path | None = None) -> Path:
    """The folder that holds the source's files; if there is none, the words on how to get one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "ml-100k").mkdir()
    ...     find_source(SOURCES["ml-100k"], folder).name
    'ml-100k'
    """
    chosen = data_dir if data_dir is not None else os.environ.get("TACIT_DATA")
    roots = [Path(chosen).expanduser()] if chosen else []
    for root in (*roots, cache_dir()):
        if (root / source.folder).is_dir():
            return root / source.folder
    raise TacitError(how_to_get(source))


def how_to_get(source: Source) -> str:
    """One sentence: where the owner publishes the source, and which file to put where.

    >>> "GroupLens" in how_to_get(SOURCES["ml-100k"])
    True
    """
    place = str(cache_dir() / source.folder)
    return (
        f"The files of {source.name!r} are not here: get them from their owner "
        f"({source.owner_page}) and put {source.files_expected} into {place!r}, or "
        f"into {source.folder!r} under the folder that TACIT_DATA names ({source.licence})."
    )


def _read_source(source: Source, data_dir: str | Path | None) -> Dataset:
    folder = find_source(source, data_dir)
    raw = folder / source.raw_file if source.raw_file else folder
    path, columns = (raw, source.raw_columns) if raw.is_file() else (folder, None)
    dataset = read_path(path, columns, source.name, quirks=source.quirks)
    if not source.has_time:
        dataset = replace(dataset, interactions=replace(dataset.interactions, time_N=None))
    if source.cold_split is not None and (folder / source.cold_split).is_file():
        part_I = read_cold_split(folder / source.cold_split, dataset.interactions.items)
        dataset = replace(dataset, cold_part_I=part_I)
    return replace(dataset, notes=(*dataset.notes, *source.notes))


def _planted(columns: Mapping[str, str] | None, own: Sequence[Rule]) -> Dataset:
    if columns or own:
        # Its truth is stored per user and item, and rules do not reach it.
        raise TacitError(
            "The planted world is complete: leave out --columns, --min-user, --min-rating and "
            "--core."
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
