"""Files that do not fit into memory, and files that are none: a sentence before they are read."""

from __future__ import annotations

import gzip
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tacit.data.readers.text_file as text_file
import tacit.memory as memory
from tacit.content.sources import read_items
from tacit.data.download import Manifest, ManifestFile, get, read_manifest
from tacit.data.readers import read_path
from tacit.data.readers.features import read_array, read_feature_ids
from tacit.data.readers.parquet_file import contents_of, read_parquet
from tacit.errors import TacitError
from tacit.experiment.recommend import read_history
from tacit.experiment.toml import read_config


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Say how many bytes are free."""

    def set_free(n_bytes: int) -> None:
        monkeypatch.setattr(memory, "available_bytes", lambda: n_bytes)
        monkeypatch.setattr(text_file, "available_bytes", lambda: n_bytes)

    return set_free


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(TacitError) as caught:
        read()
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def many_rows(path: Path, n_rows: int) -> Path:
    """A file of kilobytes that unpacks to very many rows."""
    one = pl.repeat(1, n_rows, dtype=pl.Int64)
    columns = pl.LazyFrame({"x": [0]}).select(one.alias("user_id"), one.alias("item_id"))
    columns.sink_parquet(path)
    return path


def test_parquet_that_unpacks_to_too_many_rows(tmp_path: Path, free) -> None:
    path = many_rows(tmp_path / "few.parquet", 5_000_000)
    assert path.stat().st_size < 100_000
    free(400_000_000)
    said = refusal(lambda: read_path(path))
    assert "The 5,000,000 rows of " in said
    assert "need 0.5 GB of memory but only 0.4 GB are free" in said
    assert "use a smaller file or a machine with more memory" in said


@pytest.mark.slow
def test_the_300_million_rows_of_a_megabyte(tmp_path: Path, free) -> None:
    path = many_rows(tmp_path / "few.parquet", 300_000_000)
    assert path.stat().st_size < 2_000_000
    free(25_000_000_000)  # whatever this machine has
    assert "The 300,000,000 rows of " in refusal(lambda: read_path(path))


def test_parquet_that_unpacks_to_long_texts(tmp_path: Path, free) -> None:
    path = tmp_path / "few.parquet"
    texts = [f"{row}" + "x" * 1_000_000 for row in range(20)]
    pl.DataFrame({"user_id": texts, "item_id": texts}).write_parquet(path, compression="zstd")
    assert path.stat().st_size < 200_000
    assert contents_of(path).unpacked_bytes > 20_000_000
    free(10_000_000)
    assert "need 0.0 GB of memory" in refusal(lambda: read_path(path))


def test_what_a_footer_announces(tmp_path: Path) -> None:
    path = tmp_path / "few.parquet"
    for frame in (
        pl.DataFrame({"a": range(1000), "b": [str(n) for n in range(1000)]}),
        pl.DataFrame({"a": [[1, 2], [], None], "b": [True, None, False]}),
        pl.DataFrame({"a": []}, schema={"a": pl.Int64}),
    ):
        for group in (None, 100):
            frame.write_parquet(path, row_group_size=group)
            assert contents_of(path).rows == frame.height
            assert read_parquet(path).equals(frame)


def test_a_footer_that_nobody_wrote(tmp_path: Path) -> None:
    path = tmp_path / "few.parquet"
    for middle in (b"", b"\xff" * 20, b"\x19\xfc\xff\xff\xff\x7f", b"\x1c" * 5000, b"\x00"):
        length = len(middle).to_bytes(4, "little")
        path.write_bytes(b"PAR1" + middle + length + b"PAR1")
        assert "damaged or cut-off Parquet" in refusal(lambda: read_path(path))
    path.write_bytes(b"PAR1" + (2**31).to_bytes(4, "little") + b"PAR1")
    assert "damaged or cut-off Parquet" in refusal(lambda: read_path(path))


def test_gzip_that_unpacks_to_too_much(tmp_path: Path, free, monkeypatch) -> None:
    path = tmp_path / "few.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n" + b"ann,tea\n" * 4_000_000))
    monkeypatch.setattr(text_file, "_PIECE", 1 << 16)
    free(8_000_000)
    assert "holds more than 0.0 GB of text" in refusal(lambda: read_path(path))


def test_text_that_does_not_fit(tmp_path: Path, free) -> None:
    path = tmp_path / "few.csv"
    path.write_bytes(b"user,item\n" + b"ann,tea\n" * 100_000)
    free(800_000)
    assert "holds more than 0.0 GB of text" in refusal(lambda: read_path(path))
    free(80_000_000)
    assert len(read_path(path).interactions) == 100_000


def test_features_that_do_not_fit(tmp_path: Path, free) -> None:
    path = tmp_path / "text_feat.npy"
    np.save(path, np.ones((1000, 10)))
    free(100_000)
    assert "The numbers of " in refusal(lambda: read_array(path))


def test_features_that_announce_more_than_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "text_feat.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2**10)}
        np.lib.format.write_array_header_1_0(file, header)
    assert "needs more memory than there is" in refusal(lambda: read_array(path))


@pytest.mark.parametrize("error", [MemoryError(), PermissionError(13, "Permission denied")])
@pytest.mark.parametrize(
    "name", ["few.csv", "few.parquet", "u.data", "few.inter", "interactions.csv"]
)
def test_no_memory_and_no_permission_in_any_reader(
    name: str, error: Exception, tmp_path: Path, monkeypatch
) -> None:
    path = tmp_path / name
    header = "" if name == "u.data" else "user_id,item_id,rating,timestamp\n"
    text = f"{header}1,2,3,4\n"
    if name == "few.parquet":
        pl.DataFrame({"user_id": [1], "item_id": [2]}).write_parquet(path)
    else:
        path.write_text(text.replace(",", "\t") if name == "few.inter" else text)

    def refuse(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("tacit.data.readers.build.resolve", refuse)
    said = refusal(lambda: read_path(tmp_path if name == "interactions.csv" else path))
    assert str(tmp_path) in said
    assert "more memory" in said or "cannot be read (Permission denied)" in said


def test_limits_of_the_process_count(monkeypatch) -> None:
    import resource

    free = memory.available_bytes()
    assert free is not None
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1, 1))
    assert memory.available_bytes() == 0


@contextmanager
def at_once() -> Iterator[None]:
    """A read that waits for a writer never ends: break it off, as a failure."""

    def too_long(*_: object) -> None:
        raise AssertionError("it waits for somebody to write")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(10)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fetched(path: Path) -> object:
    file = ManifestFile(path.as_uri(), "0" * 64, 10, "few.csv")
    return get(Manifest("few", "free", (file,)), path.parent / "out")


READS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "table": ("few.csv", read_path),
    "any file": ("few.xyz", read_path),
    "movielens": ("ratings.csv", read_path),
    "ninerec": ("few_pair.csv", read_path),
    "recbole": ("few.inter", read_path),
    "parquet": ("few.parquet", read_path),
    "parquet alone": ("few.parquet", read_parquet),
    "folder of one table": ("few.csv", lambda path: read_path(path.parent)),
    "folder of pairs": ("few_pair.csv", lambda path: read_path(path.parent)),
    "features": ("text_feat.npy", read_array),
    "feature ids": ("text_item_ids.txt", read_feature_ids),
    "items": ("items.csv", read_items),
    "configuration": ("run.toml", read_config),
    "history": ("history.txt", read_history),
    "manifest": ("few.toml", read_manifest),
    "address": ("few.csv", fetched),
}


@pytest.mark.parametrize("kind", READS)
def test_a_pipe_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    name, read = READS[kind]
    path = tmp_path / name
    os.mkfifo(path)
    with at_once():
        said = refusal(lambda: read(path))
    assert f"{str(path)!r} is a pipe (FIFO), not a file" in said


def test_devices_and_sockets(tmp_path: Path, monkeypatch) -> None:
    with at_once():
        assert "'/dev/zero' is a device" in refusal(lambda: read_manifest(Path("/dev/zero")))
        assert "'/dev/zero' is a device" in refusal(lambda: read_path("/dev/zero"))
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("few.csv")
        assert "'few.csv' is a socket" in refusal(lambda: read_path("few.csv"))
