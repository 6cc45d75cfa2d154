"""The run folder: what a run writes, where, never half, and by one process at a time."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.core.codec import UnknownPartError
from tacit.errors import TacitError, argument
from tacit.experiment.data_spec import Stored, is_stored
from tacit.experiment.record import RunRecord
from tacit.experiment.record_format import format_of
from tacit.experiment.sealed import (
    NO_MATCH,
    DamagedError,
    checksum,
    content_of,
    file_checksum,
    read_sealed,
    require_checksum,
    write_sealed,
)
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import ImportNeededError, document, loads
from tacit.files import PART, make_folder, said, write_text

# One process at a time writes into a run folder; the system lets go when a process dies.

LOCK = ".lock"
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_NO_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL)

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class TakenError(TacitError):
    """Another process is at work in a folder."""


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Holds a run folder (and makes it if it is not there); whoever comes second is told so.

    The lock belongs to the open file, not to its name: a killed process leaves at most an empty
    file behind, and holds nothing. On a file system without locks nobody is held off.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name, only_process(Path(name)):
    ...     try:
    ...         with only_process(Path(name)):
    ...             print("two at once")
    ...     except TacitError as error:
    ...         print(str(error).startswith("Another process is running in"))
    True
    """
    make_folder(folder)
    handle = _held(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # on Windows an open file keeps its name until it is closed
            (folder / LOCK).unlink()
        os.close(handle)
        with suppress(OSError):
            if sys.platform == "win32":
                (folder / LOCK).unlink()


def _held(folder: Path) -> int:
    path = folder / LOCK
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise TacitError(
                f"{str(path)!r} could not be written ({said(error)}); choose a folder that may be "
                f"written with {argument('out')}."
            ) from error
        try:
            _take(handle)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return handle
            os.close(handle)
            if error.errno not in _TAKEN:
                raise TacitError(
                    f"{str(path)!r} could not be locked ({said(error)}); choose another "
                    f"{argument('out')}."
                ) from error
            raise TakenError(
                f"Another process is running in {str(folder)!r}; wait until it has ended, or "
                f"choose another {argument('out')}."
            ) from error
        if _is_still(path, handle):
            return handle
        os.close(handle)  # who held it before has removed its name: take the new one


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


# The run folder: what a run writes, where, and never half.
#
# experiment.toml   the resolved value          metrics.jsonl   one line per round
# data/             which data this is          checkpoint/     what the next round needs
# model/            the selected round          ranks.parquet   the selected round's test
# run.json          the result                  report.html     the result for people
# checksums.json    of the files that stay      catalogue/      items added by `tacit add-items`
#
# `checksums.json` is written just before `run.json`, which is written last: a folder with a result
# has the checksums of all that belongs to it, and every reader looks at them first.


def train_again() -> str:
    """What to do about a run whose files are not what they were."""
    return f"bring it back, or train again into another {argument('out')}"


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
    def checksums_file(self) -> Path:
        return self.path / "checksums.json"

    @property
    def data_dir(self) -> Path:
        return self.path / "data"

    @property
    def digest_file(self) -> Path:
        return self.data_dir / "digest.json"

    @property
    def stored_data_dir(self) -> Path:
        return self.data_dir / "dataset"

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
    def has_checkpoint(self) -> bool:
        return (self.checkpoint_dir / "last" / "state.json").exists()

    @property
    def finished(self) -> bool:
        return self.result_file.is_file()

    def open(self, experiment: Experiment, *, resume: bool) -> None:
        """Begin or continue a run here; refuse a folder that holds another one."""
        self.refuse_another(experiment, resume=resume)
        if not self.experiment_file.is_file() or self.is_blank(experiment):
            make_folder(self.path)
            write_text(self.experiment_file, document(experiment))

    def refuse_another(self, experiment: Experiment, *, resume: bool) -> None:
        """All that `open` refuses, before anything is written."""
        if self.path.is_file():
            raise TacitError(f"{str(self.path)!r} is a file; give a folder with {argument('out')}.")
        if self.is_blank(experiment):
            return
        if not self.experiment_file.is_file():
            raise TacitError(
                f"{str(self.path)!r} is not empty and holds no run; choose another "
                f"{argument('out')}."
            )
        if self.experiment() != experiment:
            raise TacitError(
                f"{str(self.path)!r} holds another experiment (see its experiment.toml); "
                f"choose another {argument('out')}, or remove that folder."
            )
        if not resume:
            raise TacitError(
                f"{str(self.path)!r} already holds this run; add {argument('resume', True)} to "
                f"continue it, or choose another {argument('out')}."
            )

    def is_blank(self, experiment: Experiment) -> bool:
        """Whether nothing is lost by beginning this experiment here: there is no folder, an empty
        one, or what a kill before the first whole file has left behind."""
        if not self.path.is_dir():
            return not self.path.exists()
        names = {path.name for path in self.path.iterdir()}
        left = {name for name in names if name != LOCK and not name.endswith(PART)}
        if left == {self.experiment_file.name} and self.experiment_file.is_file():
            written = self.experiment_file.read_bytes()  # a system that crashed may have cut it
            whole = document(experiment).encode()
            return len(written) < len(whole) and whole.startswith(written)
        return not left

    def clear_parts(self) -> None:
        """Remove what a kill left half-written."""
        places = (self.path, self.data_dir, self.model_dir)
        for place in (*places, *(self.checkpoint_dir / name for name in ("last", "best"))):
            for path in place.glob(f"*{PART}"):
                if path.is_file():
                    path.unlink(missing_ok=True)

    def experiment(self) -> Experiment:
        """The experiment that was run here."""
        if not self.experiment_file.is_file():
            raise TacitError(
                f"No run at {str(self.path)!r}: there is no experiment.toml; give a folder that "
                "`tacit train` wrote."
            )
        content = self.verified_content(self.experiment_file)
        try:
            return self._with_data(loads(content.decode("utf-8")))
        except ImportNeededError as error:
            raise TacitError(f"{str(self.experiment_file)!r}: {error}") from error
        except UnknownPartError as error:  # nothing is damaged: somebody has parts of their own
            raise TacitError(
                f"{str(self.experiment_file)!r} names the part {error.name!r} at {error.where}, "
                "which nobody has registered here; register it before the run is opened, as the "
                "program did that trained it (from tacit import register; "
                f'register("{error.name}", YourClass); on the command line, --import its module), '
                "or bring the file back if that is no name of yours."
            ) from error
        except (ValueError, RecursionError, TacitError) as error:
            raise TacitError(
                f"{str(self.experiment_file)!r} is damaged: {str(error).rstrip('.')}; "
                f"{train_again()}."
            ) from error

    def _with_data(self, experiment: Experiment) -> Experiment:
        """With the data that `Model.save` stored here, if it did."""
        if not experiment.data.in_memory or not is_stored(self.stored_data_dir):
            return experiment
        held = Stored(self.stored_data_dir)
        return replace(experiment, data=replace(experiment.data, held=held))

    def record(self) -> RunRecord:
        """The record of a finished run."""
        self.experiment()
        if not self.finished:
            raise TacitError(
                f"The run at {str(self.path)!r} is not finished; continue it with "
                f"{argument('resume', True)}."
            )
        try:
            return RunRecord.of_json(self.verified_content(self.result_file))
        except DamagedError as error:
            raise self._damaged(self.result_file, str(error)) from error

    @property
    def is_old(self) -> bool:
        """Whether a run was finished by a version that recorded neither data nor checksums."""
        return self.finished and self._checksums() is None

    def write_checksums(self, result_text: str) -> None:
        """Record the files of a finished run; `result_text` is what `run.json` will hold."""
        stay = (
            self.experiment_file,
            self.digest_file,
            self.metrics_file,
            self.ranks_file,
            self.model_dir / "state.json",
        )
        files = {self._name(path): file_checksum(path) for path in stay if path.is_file()}
        files[self.result_file.name] = checksum(result_text.encode("utf-8"))
        write_sealed(self.checksums_file, {"files": files})

    def verified(self, path: Path) -> Path:
        """A file of a finished run, once it is found to be the very one that was written."""
        known = self._checksums()
        if known is None:
            return path
        if self._name(path) not in known:
            raise self._damaged(path, "checksums.json does not know it")
        try:
            require_checksum(path, known[self._name(path)])
        except DamagedError as error:
            raise self._damaged(path, str(error)) from error
        return path

    def verified_content(self, path: Path) -> bytes:
        """The bytes of a file, which in a finished run must be those that were written."""
        known = self._checksums() if self.finished else None
        try:
            content = content_of(path)
            if known is not None and known.get(self._name(path)) != checksum(content):
                raise DamagedError(NO_MATCH)
        except DamagedError as error:
            raise self._damaged(path, str(error)) from error
        return content

    def _checksums(self) -> dict[str, Any] | None:
        """The checksums of a finished run; None for a folder from before there were any."""
        if not self.checksums_file.exists():
            try:
                newer = format_of(content_of(self.result_file)) > 1
            except DamagedError:
                newer = False  # whoever reads the result says so
            if newer or self.digest_file.exists():
                raise TacitError(
                    f"The run at {str(self.path)!r} has lost its checksums.json, so nothing in it "
                    f"can be trusted; {train_again()}."
                )
            return None
        try:
            files = read_sealed(self.checksums_file).get("files")
            if not isinstance(files, dict):
                raise DamagedError("it names no files")
        except DamagedError as error:
            raise self._damaged(self.checksums_file, str(error)) from error
        return files

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _damaged(self, path: Path, why: str) -> TacitError:
        return TacitError(f"{str(path)!r} is damaged: {why}; {train_again()}.")
