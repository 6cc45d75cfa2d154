"""The data of a run is part of the run: written down when it begins, compared later."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from tacit.core.types import Task
from tacit.data.by_time import N_PARTS
from tacit.data.digest import DataDigest, changed_names
from tacit.data.protocol import Protocol
from tacit.data.split import split_dataset
from tacit.errors import TacitError, argument
from tacit.experiment.folder import RunFolder, train_again
from tacit.experiment.prepare import Prepared, prepare, tables_read
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import Counts
from tacit.experiment.sealed import (
    DamagedError,
    file_checksum,
    read_sealed,
    require_checksum,
    write_sealed,
)
from tacit.experiment.spec import DataSpec, Experiment
from tacit.files import whole_file

USERS, ITEMS, LINES = "users.parquet", "items.parquet", "lines.parquet"
OLD = (
    "This run was made by a version that did not record its data, so of all that may have changed "
    "since only the counts and the held-out items can be checked."
)
_DIGEST = TypeAdapter(DataDigest)


class NoOrderError(TacitError):
    """The same data in another order, and a run that kept no ids."""


@dataclass(frozen=True, eq=False)
class DataRecord:
    """What a run folder says about its data."""

    folder: RunFolder
    digest: DataDigest
    files: dict[str, str]  # checksums of the tables

    @classmethod
    def read(cls, folder: RunFolder) -> DataRecord | None:
        """None where a folder has no record: nothing was begun, or an older version did it."""
        if not folder.digest_file.exists():
            if folder.finished and not folder.is_old:
                raise TacitError(
                    f"The run at {str(folder.path)!r} has lost its data/digest.json, so its data "
                    f"cannot be checked; {train_again()}."
                )
            return None
        try:
            found = read_sealed(folder.digest_file)
            digest = _DIGEST.validate_python(found["data"])
            files = TypeAdapter(dict[str, str]).validate_python(found["files"])
        except (DamagedError, KeyError, ValidationError) as error:
            raise TacitError(
                f"{str(folder.digest_file)!r} is damaged: {str(error).splitlines()[0]}; "
                f"{train_again()}."
            ) from error
        if folder.finished:
            folder.verified(folder.digest_file)
        return cls(folder, digest, files)

    @classmethod
    def write(cls, folder: RunFolder, experiment: Experiment, prepared: Prepared) -> DataRecord:
        """Write down the data with which a run begins."""
        rows, place = prepared.dataset.interactions, folder.data_dir
        by_user = np.argsort(rows.user_N, kind="stable")
        lines_U = np.bincount(rows.user_N, minlength=rows.n_users)
        tables = {
            USERS: pl.DataFrame({"user": list(rows.users), "lines": lines_U.astype(np.int64)}),
            ITEMS: pl.DataFrame({"item": list(rows.items)}),
            LINES: pl.DataFrame(
                {
                    "item": rows.item_N[by_user].astype(np.int32),
                    "part": prepared.part_N[by_user].astype(np.int8),
                }
            ),
        }
        for name, table in tables.items():
            with whole_file(place / name, library_errors=(pl.exceptions.PolarsError,)) as part:
                table.write_parquet(part, compression="zstd")
        files = {name: file_checksum(place / name) for name in tables}
        digest = prepared.digest.reading(tables_read(experiment, prepared.dataset))
        write_sealed(folder.digest_file, {"data": asdict(digest), "files": files})
        return cls(folder, digest, files)

    def require(
        self, experiment: Experiment, now: DataDigest, prepared: Prepared | None = None
    ) -> None:
        """Refuse data that is not the data of the run, and say what has changed."""
        task = Task(self.digest.n_users, self.digest.n_items)
        what = self.digest.changes(now, ordered=experiment.method.algorithm(task).reads_order)
        if what is None:
            return
        if prepared is not None:
            what = self._by_name(now, prepared) or what
        raise TacitError(
            f"{experiment.data.name} has changed since the run at {str(self.folder.path)!r}: "
            f"{what}; bring the old data back (or the version of tacit, if it is the same data), "
            f"or train again into another {argument('out')}."
        )

    def _by_name(self, now: DataDigest, prepared: Prepared) -> str | None:
        """Who is gone and who is new, where the folder still has the ids."""
        rows = prepared.dataset.interactions
        try:
            if now.users != self.digest.users:
                return changed_names(self._column(USERS, "user"), rows.users, "users")
            if now.items != self.digest.items:
                return changed_names(self._column(ITEMS, "item"), rows.items, "items")
        except TacitError:  # the sentence has counts instead
            pass
        return None

    def arranged(self, prepared: Prepared, protocol: Protocol) -> Prepared:
        """The same data in the order of the run: its codes, and its lines user by user."""
        if prepared.digest.order == self.digest.order:
            return prepared
        users, items = self._column(USERS, "user"), self._column(ITEMS, "item")
        lines_U, item_N, part_N = (
            self._table(name)[column].to_numpy()
            for name, column in ((USERS, "lines"), (LINES, "item"), (LINES, "part"))
        )
        user_N = np.repeat(np.arange(len(users)), lines_U)
        own = prepared.dataset.arranged(users, items, np.arange(len(prepared.part_N)))
        rows = own.interactions
        # rows of one user, item and part are alike to everybody, so the first takes the first place
        run_N = (user_N * len(items) + item_N) * N_PARTS + part_N
        now_N = (rows.user_N * len(items) + rows.item_N) * N_PARTS + prepared.part_N
        place_N = np.empty(len(run_N), np.int64)
        place_N[np.argsort(run_N, kind="stable")] = np.argsort(now_N, kind="stable")
        dataset = prepared.dataset.arranged(users, items, place_N)
        parts = prepared.part_N[place_N]
        found = Prepared(dataset, split_dataset(dataset, protocol, parts), parts)
        if found.digest.order != self.digest.order:
            raise self._lost(LINES, "it does not fit digest.json")
        return found

    def _column(self, name: str, column: str) -> tuple[str, ...]:
        return tuple(self._table(name)[column].to_list())

    def _table(self, name: str) -> pl.DataFrame:
        path = self.folder.data_dir / name
        if not self.files:
            raise NoOrderError(
                f"The lines of the data stand in another order than in the run at "
                f"{str(self.folder.path)!r}, which kept no ids to restore it; bring the old order "
                f"back, or train again into another {argument('out')}."
            )
        try:
            require_checksum(path, self.files.get(name))
            return pl.read_parquet(path)
        except (DamagedError, OSError, pl.exceptions.PolarsError) as error:
            raise self._lost(name, str(error)) from error

    def _lost(self, name: str, why: str) -> TacitError:
        return TacitError(
            f"{str(self.folder.data_dir / name)!r} is damaged: {why}; {train_again()}."
        )

    def drop_tables(self) -> None:
        """A run that keeps no model needs no ids beside it."""
        write_sealed(self.folder.digest_file, {"data": asdict(self.digest), "files": {}})
        for name in (USERS, ITEMS, LINES):
            (self.folder.data_dir / name).unlink(missing_ok=True)


def prepare_again(experiment: Experiment, folder: RunFolder, result: RunRecord) -> Prepared:
    """The data of a run as the run had it; data that has changed since is refused in a sentence.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     one = resolve("popularity")
    ...     result = run(one, Path(place) / "one")
    ...     prepare_again(one, RunFolder(Path(place) / "one"), result).split.counts["users"]
    300
    """
    record = require_same(experiment, folder, result, prepared := prepare(experiment))
    return prepared if record is None else record.arranged(prepared, experiment.protocol)


def require_same(
    experiment: Experiment, folder: RunFolder, result: RunRecord, prepared: Prepared
) -> DataRecord | None:
    """Refuse data that is not the data of a finished run; the record of it, if there is one. Where
    there is none, the run is from before data was recorded, and its ranks must do."""
    record = DataRecord.read(folder)
    if record is not None:
        record.require(experiment, prepared.digest, prepared)
    else:
        counts = Counts(**prepared.split.counts)
        _require_ranked(experiment, folder, result, counts, _held_out(prepared))
    return record


def _held_out(prepared: Prepared) -> pl.DataFrame:
    """The test items of everybody, by code and by id, as a run's ranks have them."""
    test, rows = prepared.split.test, prepared.dataset.interactions
    user_H, item_H = np.repeat(test.user_E, test.relevant.size_U), test.relevant.item_N
    names = (("user_id", rows.users, user_H), ("item_id", rows.items, item_H))
    held_out = pl.DataFrame({"user": user_H.astype(np.int64), "item": item_H.astype(np.int64)})
    return held_out.with_columns(
        pl.Series(name, ids, dtype=pl.String).gather(code_H) for name, ids, code_H in names
    ).sort("user", "item")


def _require_ranked(
    experiment: Experiment,
    folder: RunFolder,
    result: RunRecord,
    counts: Counts,
    held_out: pl.DataFrame,
) -> None:
    """Refuse data that cannot be that of a run without a record: there are other counts, or the
    people and items of its ranks are not in their places, and a model would score somebody else."""
    what = None
    if counts != result.counts:
        what = "it has other counts"
    elif not _ranked(folder).equals(held_out):
        what = "its held-out items differ, or its users and items stand in another order"
    if what is not None:
        raise TacitError(
            f"{experiment.data.name} has changed since the run at {str(folder.path)!r}: {what}; "
            f"bring the old data back, or train again into another {argument('out')}."
        )


def _ranked(folder: RunFolder) -> pl.DataFrame:
    """The test items that a run has ranked."""
    path = folder.ranks_file
    try:
        table = pl.read_parquet(path).filter(pl.col("candidate_set") == "full")
        columns = {"user": pl.Int64, "item": pl.Int64, "user_id": pl.String, "item_id": pl.String}
        return table.select(pl.col(k).cast(v) for k, v in columns.items()).sort("user", "item")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise TacitError(
            f"{str(path)!r} is damaged or lost, and nothing else says on which data the run was "
            f"made; {train_again()}."
        ) from error


def require_one_data(names: tuple[str, str], records: tuple[RunRecord, RunRecord]) -> None:
    """Refuse to put two runs beside each other that were made on different data."""
    first, second = records
    what = None
    if first.data is not None and second.data is not None:
        what = replace(first.data, content={}).changes(second.data)
        if what is None and first.data.order != second.data.order:
            what = "its lines stood in another order"  # other codes draw other candidates
    elif first.counts != second.counts:
        what = "other counts"
    if what is not None:
        raise TacitError(
            f"{names[0]} and {names[1]} do not compare: the data has changed between their runs "
            f"({what}); run one of them again into another {argument('out')}."
        )


class DataNow:
    """The data as it is now, read once for all runs of one command that were made on it."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[DataSpec, Protocol], tuple[DataDigest, Counts, pl.DataFrame] | None
        ] = {}
        self.absent: list[str] = []  # a note for each data that is not here

    def require(self, experiment: Experiment, folder: RunFolder) -> None:
        """Refuse a finished run whose data has changed; data that is not here has a note."""
        key = (experiment.data, experiment.protocol)
        if key not in self._known:
            try:
                prepared = prepare(experiment)
                counts = Counts(**prepared.split.counts)
                digest = prepared.digest.reading(prepared.dataset.modalities)
                self._known[key] = (digest, counts, _held_out(prepared))
            except TacitError as error:
                self._known[key] = None
                self.absent.append(f"The data could not be checked: {error}")
        known = self._known[key]
        if known is None:
            return
        digest, counts, held_out = known
        record = DataRecord.read(folder)
        if record is not None:
            record.require(experiment, digest)
        else:
            _require_ranked(experiment, folder, folder.record(), counts, held_out)
