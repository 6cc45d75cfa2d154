"""Writers: a full disk, a read-only folder and too little memory are one sentence; nothing
half-written stays, and what stood before still stands."""

from __future__ import annotations

import ast
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import tacit
from tacit.analysis.finding import Column, Finding, Table
from tacit.audit.audit import Audit, write_audit
from tacit.cli.main import main
from tacit.content.encode import encode_table
from tacit.content.plain import NGrams
from tacit.content.sources import Items, Texts
from tacit.data.download import Manifest, ManifestFile, get
from tacit.errors import TacitError
from tacit.evaluation.ranks import Ranks
from tacit.experiment import catalogue
from tacit.experiment.catalogue import NewItems, write_version
from tacit.experiment.charts import save_figure
from tacit.experiment.folder import RunFolder
from tacit.files import NotWrittenError, append_line, whole_file, whole_folder, write_text

SOURCE = Path(tacit.__file__).parent
COLUMNS = "user=who,item=what,time=when"


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """The system refuses files longer than this, as a full disk does."""
    resource = pytest.importorskip("resource", reason="limits of files are set otherwise there")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# --- every writer of the project --------------------------------------------------------------


def _ranks(folder: Path) -> None:
    above = np.arange(2000)
    Ranks(above, above, above, above, above + 1, "test", "full").save(folder / "ranks.parquet")


def _audit(folder: Path) -> None:
    write_audit([Audit("m", "d", "clean", True, "s", 0, 9, 5, "5", "e", ())], folder / "audit")


def _encode(folder: Path) -> None:
    texts = Texts.of(Items(("a", "b"), {"title": ("Alien", "Comet")}))
    encode_table(texts, NGrams(), folder)


def _download(folder: Path) -> None:
    origin = next(up / "origin.bin" for up in folder.parents if (up / "origin.bin").is_file())
    digest = hashlib.sha256(origin.read_bytes()).hexdigest()
    file = ManifestFile(origin.as_uri(), digest, origin.stat().st_size, "few.bin")
    get(Manifest("few", "free", (file,)), folder)


def _catalogue(folder: Path) -> None:
    items = NewItems(("x",), (None,), torch.zeros(1, 4), versions=1)
    write_version(RunFolder(folder), items, {})


def _finding(folder: Path) -> None:
    table = Table("cost", "What it costs", (Column("one"),), ((1.0,),) * 100)
    Finding("cost", (table,), Figure()).write(folder)


def _figure(folder: Path) -> None:
    save_figure(Figure(), folder / "one")


WRITERS: dict[str, Callable[[Path], None]] = {
    "a text file": lambda folder: write_text(folder / "one.txt", "x" * 1000),
    "a line": lambda folder: append_line(folder / "lines.jsonl", "x" * 1000),
    "ranks": _ranks,
    "an audit": _audit,
    "an encoded table": _encode,
    "fetched data": _download,
    "a version of the catalogue": _catalogue,
    "an analysis": _finding,
    "a figure": _figure,
}
ONCE = ("an audit", "an encoded table", "fetched data")  # a second call finds them there
BY_LIBRARIES = ("ranks", "a version of the catalogue")  # files that no Python code opens


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "origin.bin").write_bytes(bytes(100_000))
    monkeypatch.setattr(catalogue, "_model_of", lambda folder: "a model")
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize("size", [0, 90])
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_one_sentence_and_leaves_nothing(name: str, place: Path, size: int) -> None:
    with longest_file(size), pytest.raises(NotWrittenError) as caught:
        WRITERS[name](place)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(place) in sentence
    assert "make room on that disk" in sentence
    left = contents_of(place)
    assert not [path for path in left if path.endswith(".part")]
    assert [path for path, content in left.items() if content] == []
    WRITERS[name](place)  # and with room again the same call succeeds
    assert any(contents_of(place).values())


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ONCE])
def test_what_stood_before_still_stands(name: str, place: Path) -> None:
    WRITERS[name](place)
    before = contents_of(place)
    with longest_file(0), pytest.raises(NotWrittenError, match="what was written before"):
        WRITERS[name](place)
    assert contents_of(place) == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_cannot_be_is_one_sentence(name: str, place: Path) -> None:
    (place / "file").write_text("a file")
    inside = place / "file"
    with pytest.raises(TacitError) as caught:
        WRITERS[name](inside)
    assert str(inside) in str(caught.value)
    assert contents_of(place) == {"file": b"a file"}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("name", [name for name in WRITERS if name not in BY_LIBRARIES])
def test_a_read_only_folder_is_one_sentence(
    name: str, place: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not bind the superuser, so the system's answer is given by hand. (Parquet
    and safetensors are opened by their libraries; a folder that cannot be stands for them above.)
    """
    import io

    real_open, real_mkdir = io.open, Path.mkdir

    def refuse(path: Any) -> None:
        if str(path).startswith(str(place)):
            raise OSError(number, os.strerror(number), str(path))

    def opened(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        if set(mode) & set("wax+"):
            refuse(file)
        return real_open(file, mode, *more, **named)

    def made(self: Path, *more: Any, **named: Any) -> None:
        if not self.exists():
            refuse(self)
        real_mkdir(self, *more, **named)

    monkeypatch.setattr(io, "open", opened)
    monkeypatch.setattr("builtins.open", opened)
    monkeypatch.setattr(Path, "mkdir", made)
    with pytest.raises(NotWrittenError, match="choose a folder that may be written") as caught:
        WRITERS[name](place)
    assert str(place) in str(caught.value)
    monkeypatch.undo()
    assert contents_of(place) == {}


def _half(block: Any, error: BaseException) -> None:
    with block as temporary:
        (temporary / "one" if temporary.is_dir() else temporary).write_text("half")
        raise error


def test_too_little_memory_while_writing(tmp_path: Path) -> None:
    with pytest.raises(NotWrittenError, match="too little memory; use a machine with more"):
        _half(whole_file(tmp_path / "one"), MemoryError())
    with pytest.raises(NotWrittenError, match="make room on that disk"):
        _half(whole_folder(tmp_path / "two"), OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(ValueError, match="a fault of ours"):
        _half(whole_file(tmp_path / "three"), ValueError("a fault of ours"))
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_cut_short_is_taken_back(tmp_path: Path) -> None:
    append_line(tmp_path / "lines", "one")
    with longest_file(10), pytest.raises(NotWrittenError):
        append_line(tmp_path / "lines", "a line of more than ten letters")
    assert (tmp_path / "lines").read_text() == "one\n"


# --- the command ------------------------------------------------------------------------------


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.chdir(tmp_path)
    rows = [f"u{u},i{(u * 7 + k * 3) % 30},{k}" for u in range(40) for k in range(8)]
    Path("plays.csv").write_text("who,what,when\n" + "\n".join(rows) + "\n")

    def call(*arguments: object, size: int | None = None) -> tuple[int, str]:
        capsys.readouterr()
        if size is None:
            code = main([str(one) for one in arguments])
        else:
            with longest_file(size):
                code = main([str(one) for one in arguments])
        return code, capsys.readouterr().err

    return call


DATA = ("--data", "plays.csv", "--columns", COLUMNS)
POPULARITY = ("train", "popularity", *DATA, "--out")


def is_one_sentence(found: tuple[int, str], place: str) -> None:
    code, said = found
    assert code == 2, said
    assert said.startswith("tacit: ")
    assert said.count("\n") == 1
    assert place in said
    assert "make room" in said


@pytest.mark.parametrize("size", [0, 600, 3000])
def test_train_on_a_full_disk(command: Callable[..., tuple[int, str]], size: int) -> None:
    assert command(*POPULARITY, "before")[0] == 0  # kernels are there: no note of compiling
    is_one_sentence(command(*POPULARITY, "run", size=size), "run")
    assert not list(Path().rglob("*.part"))
    assert not Path("run", "run.json").exists()


def test_compare_sweep_and_analyse_on_a_full_disk(
    command: Callable[..., tuple[int, str]],
) -> None:
    for name in ("popularity", "ease"):
        assert command("train", name, *DATA, "--out", name)[0] == 0
    assert command("compare", "popularity", "ease", "--out", "both")[0] == 0
    before = contents_of(Path("both"))
    is_one_sentence(command("compare", "ease", "popularity", "--out", "both", size=50), "both")
    assert contents_of(Path("both")) == before
    grid = ("sweep", "fedmf", *DATA, "--rounds", 1, "--over", "backbone.dim=2,3", "--out", "grid")
    assert command(*grid)[0] == 0
    before = contents_of(Path("grid"))
    is_one_sentence(command(*grid, size=50), "grid")
    assert contents_of(Path("grid")) == before
    is_one_sentence(command("analyse", "groups", "ease", "--out", "new", size=0), "new")
    assert not list(Path().rglob("*.part"))


def test_encode_and_data_get_on_a_full_disk(command: Callable[..., tuple[int, str]]) -> None:
    Path("items.csv").write_text("item_id,title\na,Alien\nb,Comet\n")
    encode = ("encode", "items.csv", "--text", "title", "--out", "tables")
    is_one_sentence(command(*encode, size=50), "tables")
    origin = Path("origin.csv")
    origin.write_text("user,item\n" * 100)
    digest = hashlib.sha256(origin.read_bytes()).hexdigest()
    Path("few.toml").write_text(
        f'name = "few"\nlicence = "free"\n[[file]]\nurl = "{origin.absolute().as_uri()}"\n'
        f'sha256 = "{digest}"\nbytes = {origin.stat().st_size}\npath = "few.csv"\n'
    )
    is_one_sentence(command("data", "get", "few.toml", "--to", "there", size=50), "there/few.csv")
    assert not list(Path().rglob("*.part"))
    assert command(*encode)[0] == 0
    assert command("data", "get", "few.toml", "--to", "there")[0] == 0


MEMORY = {
    "python": MemoryError(),
    "numpy": np._core._exceptions._ArrayMemoryError((10**12,), np.dtype(float)),  # type: ignore[attr-defined]
    "torch": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 PB"),
    "a device": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
}


@pytest.mark.parametrize("who", MEMORY)
def test_too_little_memory_anywhere_is_one_sentence(
    command: Callable[..., tuple[int, str]], who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: object, **named: object) -> None:
        raise MEMORY[who]

    monkeypatch.setattr("tacit.experiment.run.prepare", run)
    code, said = command(*POPULARITY, "run")
    assert code == 2
    assert said.startswith("tacit: There is too little memory for this command; use smaller data")
    assert said.count("\n") == 1


def test_other_faults_of_a_library_are_not_called_memory(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: object, **named: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr("tacit.experiment.run.prepare", run)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        command(*POPULARITY, "run")


def test_what_the_system_refuses_elsewhere_names_the_path_and_what_to_do(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: object, **named: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "/far/away")

    monkeypatch.setattr("tacit.experiment.run.prepare", run)
    code, said = command(*POPULARITY, "run")
    assert (code, said) == (
        2,
        "tacit: The system refused at '/far/away' (Input/output error); check that path, and the "
        "disk it is on.\n",
    )


# --- no writer beside files.py ----------------------------------------------------------------

METHODS = {"write_text", "write_bytes", "write_parquet", "write_csv", "write_ipc", "write_ndjson"}
METHODS |= {"savefig", "save_file", "savez", "savez_compressed", "to_csv", "touch", "mkdir"}
CALLS = {"os.replace", "os.rename", "os.mkdir", "os.makedirs", "np.save", "torch.save", "json.dump"}
CALLS |= {"shutil.copyfile", "shutil.copy", "shutil.copytree", "shutil.move", "pickle.dump"}
GUARDS = {"whole_file", "whole_folder", "writing"}
FILES = {"files.py"}  # the one place
ALLOWED = {
    ("compiled.py", "mkdir"),  # a kernel that cannot be kept is compiled in memory, in silence
    ("compiled.py", "touch"),
    ("compiled.py", "write_bytes"),
    ("compiled.py", "os.replace"),
}


def _called(node: ast.Call) -> str | None:
    """What a call writes with; None if it writes nothing."""
    function = node.func
    if isinstance(function, ast.Name):
        opened = function.id == "open"
        name = function.id if function.id in ("save_file",) else None
    elif isinstance(function, ast.Attribute):
        whole = ast.unparse(function)
        opened = function.attr == "open"
        name = whole if whole in CALLS else function.attr if function.attr in METHODS else None
    else:
        return None
    if opened:
        first = 1 if isinstance(function, ast.Name) else 0  # of `open(path, mode)`
        words = [*node.args[first:], *(keyword.value for keyword in node.keywords)]
        modes = [n.value for word in words for n in ast.walk(word) if isinstance(n, ast.Constant)]
        if any(isinstance(mode, str) and mode[:1] in "wax" and len(mode) < 4 for mode in modes):
            return "open"
    return name


def writers_beside(tree: ast.AST) -> list[tuple[int, str]]:
    """Calls that write and do not stand in a block of `GUARDS`, with their lines."""
    found = []

    def visit(node: ast.AST, guarded: bool) -> None:
        if isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items]
            names = {ast.unparse(one.func) for one in calls if isinstance(one, ast.Call)}
            guarded = guarded or bool(names & GUARDS)
        if isinstance(node, ast.Call) and not guarded and (name := _called(node)):
            found.append((node.lineno, name))
        for child in ast.iter_child_nodes(node):
            visit(child, guarded)

    visit(tree, False)
    return found


def test_every_writer_goes_through_one_place() -> None:
    beside = []
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if name in FILES:
            continue
        for line, what in writers_beside(ast.parse(file.read_text())):
            if (name, what) not in ALLOWED:
                beside.append(f"{name}:{line} {what}")
    assert beside == []


@pytest.mark.parametrize(
    "line",
    [
        "Path('x').write_text('y')",
        "path.write_bytes(b'')",
        "open('x', 'w')",
        "path.open('ab' if done else 'wb')",
        "path.open(mode='a', encoding='utf-8')",
        "frame.write_parquet(path)",
        "figure.savefig(path)",
        "save_file(tensors, path)",
        "np.savez(path, a)",
        "os.replace(a, b)",
        "shutil.copyfile(a, b)",
        "folder.mkdir()",
        "with path.open('w') as stream: pass",
    ],
)
def test_the_walk_finds_writers(line: str) -> None:
    assert len(writers_beside(ast.parse(line))) == 1
    assert writers_beside(ast.parse(f"with whole_file(p) as q:\n  {line}")) == []


@pytest.mark.parametrize(
    "line", ["write_text(path, 'x')", "path.open('rb')", "open('x')", "text.replace('a', 'b')"]
)
def test_the_walk_leaves_readers_alone(line: str) -> None:
    assert writers_beside(ast.parse(line)) == []
