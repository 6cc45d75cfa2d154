"""What a node keeps on its disk: encrypted boxes, and files of encrypted rows.

A box is one file: a mark, a fresh nonce, and what ChaCha20-Poly1305 makes of its content. The name
of the box, the identity of the node and the format are covered, so that a box cannot be taken for
another. It is written whole or not at all: a temporary file beside it, `fsync`, a rename, and
`fsync` of the folder. A kill or a full disk leaves the old box or the new one.

Rows lie in SQLite, each in a box of its own, so that an application may append while a round is
played.

What is not covered: somebody who can write in the folder can put back an old copy of it, or delete
rows. That needs hardware which counts, and there is none here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError, shown
from tacit.files import reading, whole_file, writing

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

try:
    import fcntl
except ImportError:  # Windows: there one process at a time must see to it by itself
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
MARK = b"tacit box 1\n"
NONCE_BYTES, KEY_BYTES = 12, 32
HEADER, LOCK, BOX = "node.json", "lock", ".box"
KEY_VARIABLE = "TACIT_NODE_KEY"
WAIT_SECONDS = 20.0  # for another process that writes rows, or answers
ROW_BYTES = 128  # rows are as long as a multiple of that
_HEX = re.compile(r"[0-9a-fA-F]{64}")


# The key: 32 random bytes in hexadecimal, in a file that only its owner reads, or in the
# environment. It is never an argument of a command.


def make_key(file: Path) -> bytes:
    """A new key in a new file that only its owner may read."""
    key = secrets.token_bytes(KEY_BYTES)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as stream:
                stream.write(key.hex() + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            _sync_folder(file.parent)  # a node whose key is lost is lost
        except BaseException:
            file.unlink(missing_ok=True)  # half a key is none
            raise
    return key


def read_key(file: Path | None = None) -> bytes:
    """The key in a file, or without one in the environment variable TACIT_NODE_KEY."""
    if file is None:
        text = os.environ.get(KEY_VARIABLE, "")
        if not text:
            raise TacitError(
                f"A node needs its key; name its file with --key-file, or set the environment "
                f"variable {KEY_VARIABLE}."
            )
        return _key_of(text, f"The environment variable {KEY_VARIABLE}")
    with reading(file, "give the file with the node's key"):
        mode, content = file.stat().st_mode, file.read_bytes()
    if os.name == "posix" and mode & 0o077:
        raise TacitError(
            f"Others than its owner may read the key in {str(file)!r}; take that away "
            f"(chmod 600), and think of the key as known."
        )
    return _key_of(content[:1000].decode("ascii", "replace"), f"The file {str(file)!r}")


def _key_of(text: str, where: str) -> bytes:
    if not _HEX.fullmatch(text.strip()):
        raise TacitError(f"{where} holds no key; a key is 64 hexadecimal digits.")
    return bytes.fromhex(text.strip())


# Content of a box: values that JSON can hold, and named arrays.


@dataclass(frozen=True, eq=False)
class Content:
    """What is in a box.

    >>> again = Content.from_bytes(Content({"round": 3}, {"items": np.ones(2)}).to_bytes())
    >>> again.values, again.arrays["items"].tolist()
    ({'round': 3}, [1.0, 1.0])
    """

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The arrays as safetensors, with the values as one more array of bytes."""
        from safetensors.numpy import save

        text = json.dumps(self.values, separators=(",", ":")).encode()
        # `np.ascontiguousarray` would give a single number a dimension
        arrays = {f"array.{name}": np.array(a, order="C") for name, a in self.arrays.items()}
        saved: bytes = save({"values": np.frombuffer(text, dtype=np.uint8), **arrays})
        return saved

    @classmethod
    def from_bytes(cls, content: bytes) -> Content:
        from safetensors.numpy import load

        found = load(content)
        values = json.loads(found.pop("values").tobytes())
        return cls(values, {name.removeprefix("array."): a for name, a in found.items()})


# The store.


@dataclass(frozen=True)
class Header:
    """The one file that is not encrypted: it says what the folder is, and nothing of anybody."""

    identity: str  # random, in hexadecimal
    check: str  # by which a wrong key is told from a damaged box
    key_file: str | None = None  # where the key was, for commands that are not told


class Store:
    """The encrypted folder of one node. Use `create` or `open`."""

    def __init__(self, folder: Path, key: bytes, header: Header) -> None:
        if not INSTALLED:
            raise TacitError(
                "A node needs the package 'cryptography', which is not installed; get it with "
                'pip install "tacit[privacy]"'
            )
        self.folder, self.header = folder, header
        self._key = key

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"

    @classmethod
    @contextlib.contextmanager
    def create(cls, folder: Path, key: bytes, key_file: Path | None = None) -> Iterator[Store]:
        """A new store in a folder that is not there yet, or is empty. The header is written when
        the block ends: until then the folder is no node's. Where the block fails, nothing stays."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise TacitError(
                f"There is something at {str(folder)!r} already; name a new folder for the node."
            )
        named = None if key_file is None else str(key_file.absolute())
        store = cls(folder, key, Header(secrets.token_hex(16), _check_of(key), named))
        try:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o700)
            yield store
            text = json.dumps({"format": FORMAT, **vars(store.header)}, indent=1) + "\n"
            store._write_file(HEADER, text.encode())
            with writing(folder):
                _sync_folder(folder.absolute().parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def open(cls, folder: Path, key: bytes | None = None) -> Store:
        """The store in a folder. Without a key, the environment has it, or the file that was named
        when the node was made."""
        header = read_header(folder)
        if key is None and KEY_VARIABLE in os.environ:
            key = read_key()
        if key is None:
            key = read_key(None if header.key_file is None else Path(header.key_file))
        if _check_of(key) != header.check:
            raise TacitError(
                f"This key does not open the node at {str(folder)!r}; give the one that it was "
                "made with."
            )
        return cls(folder, key, header)

    # Boxes

    def write(self, name: str, content: Content) -> None:
        """Write a box, whole or not at all."""
        self._write_file(name + BOX, MARK + self.seal(name, content.to_bytes()))

    def read(self, name: str) -> Content | None:
        """What is in a box; None where there is none."""
        path = self.folder / (name + BOX)
        if not path.exists():
            return None
        with reading(path, "check the disk that it is on"):
            sealed = path.read_bytes()
        text = self.unseal(name, sealed[len(MARK) :]) if sealed.startswith(MARK) else None
        if text is None:
            raise TacitError(
                f"The box {str(path)!r} is damaged; bring back a copy of the node's folder, or "
                "leave and join again."
            )
        return Content.from_bytes(text)

    def remove(self, name: str) -> None:
        with writing(self.folder / (name + BOX)):
            (self.folder / (name + BOX)).unlink(missing_ok=True)
            _sync_folder(self.folder)

    def names(self) -> list[str]:
        """The boxes that are there."""
        return sorted(path.name.removesuffix(BOX) for path in self.folder.glob(f"*{BOX}"))

    def seal(self, label: str, text: bytes) -> bytes:
        """Encrypted under a fresh nonce, which stands before it."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + ChaCha20Poly1305(self._key).encrypt(nonce, text, self._covered(label))

    def unseal(self, label: str, sealed: bytes) -> bytes | None:
        """What was sealed under that label; None where anything was changed."""
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return ChaCha20Poly1305(self._key).decrypt(nonce, rest, self._covered(label))
        except (InvalidTag, ValueError):
            return None

    def digest(self, text: bytes) -> bytes:
        """A name for something that tells nothing of it to whoever lacks the key."""
        return hashlib.blake2b(text, digest_size=16, key=self._key, person=b"tacit name").digest()

    def _covered(self, label: str) -> bytes:
        return json.dumps(["tacit node", FORMAT, self.header.identity, label]).encode()

    # Files

    def _write_file(self, name: str, content: bytes) -> None:
        path = self.folder / name
        with whole_file(path) as temporary:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
        with writing(path):
            _sync_folder(self.folder)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, no other process plays or writes boxes of this node."""
        with _locked(self.folder / LOCK):
            yield

    @staticmethod
    def delete_at(folder: Path) -> None:
        """Everything of a node, its header first: from then on the folder is no node's. It needs no
        key: whoever lost it can still leave. A request that is being answered is waited for, or it
        would write its box into the folder again."""
        with writing(folder):
            (folder / HEADER).unlink(missing_ok=True)
            with _locked(folder / LOCK, WAIT_SECONDS):
                shutil.rmtree(folder)


def _sync_folder(folder: Path) -> None:
    """Names of files in a folder last from then on."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(file: Path, patience: float = math.inf) -> Iterator[None]:
    """Inside, nobody else has the lock, unless it was waited for in vain for so many seconds."""
    if fcntl is None:
        yield
        return
    with writing(file):
        stream = file.open("ab")
    with stream:
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if patience == math.inf else fcntl.LOCK_NB))
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(0.05)
                    continue
            break
        try:
            yield
        finally:
            fcntl.flock(stream, fcntl.LOCK_UN)


def read_header(folder: Path) -> Header:
    """What says that a folder is a node's."""
    path = folder / HEADER
    if not path.is_file():
        raise TacitError(
            f"There is no node at {str(folder)!r}; make one with `tacit node init`, or check the "
            "path."
        )
    with reading(path, "check the disk that it is on"):
        content = path.read_bytes()
    try:
        found = json.loads(content)
        if found.pop("format") != FORMAT:
            raise TacitError(
                f"The node at {str(folder)!r} was made by another version of tacit; use that one."
            )
        header = Header(**found)
        if not all(isinstance(one, str) for one in (header.identity, header.check)) or not (
            header.key_file is None or isinstance(header.key_file, str)
        ):
            raise ValueError("a field holds something else than text")
        return header
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TacitError(
            f"The file {str(path)!r} is damaged; bring back a copy of the node's folder."
        ) from error


def _check_of(key: bytes) -> str:
    return hashlib.blake2b(b"", digest_size=8, key=key, person=b"tacit check").hexdigest()


# Rows.


@dataclass(frozen=True)
class Row:
    """One row that was opened; `place` counts rows from 1, and `person` is the person's number."""

    place: int
    person: int
    text: bytes


def _padded(text: bytes) -> bytes:
    return text.ljust(-(-len(text) // ROW_BYTES) * ROW_BYTES)


class Rows:
    """A file of encrypted rows. Several processes may append at once; a row is there whole or not.

    A row with a `name` takes the place of the one with the same name. Texts are filled up with
    spaces, which none has at its end: by its length a box would tell which item it is about.
    """

    def __init__(self, store: Store, file: str) -> None:
        self._store, self._file, self.path = store, file, store.folder / file

    def append(self, person: int, text: bytes, name: bytes | None = None) -> None:
        """Write one row; it lasts when this returns."""
        self.extend([(person, text)], name)

    def extend(self, texts: Iterable[tuple[int, bytes]], name: bytes | None = None) -> None:
        """Write rows of people, all of them or none; they last when this returns."""
        boxes = [
            (person, name, self._store.seal(self._label(person), _padded(text)))
            for person, text in texts
        ]
        with self._connection() as connection:
            connection.executemany(
                "INSERT INTO rows (person, name, box) VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET person = excluded.person, box = excluded.box",
                boxes,
            )

    def read(self) -> list[Row]:
        """All rows, in the order in which they were written first."""
        if not self.path.exists():
            return []
        with self._connection() as connection:
            found = connection.execute("SELECT place, person, box FROM rows ORDER BY place")
            rows = found.fetchall()
        opened = []
        for place, person, box in rows:
            text = self._store.unseal(self._label(person), box)
            if text is None:
                raise TacitError(
                    f"Row {shown(place)} of {str(self.path)!r} is damaged; bring back a copy of "
                    "the node's folder."
                )
            opened.append(Row(place, person, text.rstrip(b" ")))
        return opened

    def _label(self, person: int) -> str:
        return f"{self._file}:{person}"

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with writing(self.path):  # SQLite would let everybody read a new file
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            with contextlib.closing(
                sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level="IMMEDIATE")
            ) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                with connection:
                    connection.execute(
                        "CREATE TABLE IF NOT EXISTS rows (place INTEGER PRIMARY KEY AUTOINCREMENT, "
                        "person INTEGER NOT NULL, name BLOB UNIQUE, box BLOB NOT NULL)"
                    )
                    yield connection
        except sqlite3.Error as error:
            raise TacitError(
                f"The file {str(self.path)!r} cannot be read or written ({error}); check the disk "
                "that it is on, and bring back a copy of the node's folder if it is damaged."
            ) from error
