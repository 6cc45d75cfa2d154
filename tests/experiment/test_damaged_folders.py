"""Every file of a run x kinds of damage x commands that read it: a sentence, or the right numbers.

A case is right if the command ends with exit code 2 and one line, or with exactly the answer that
it gives on the undamaged folder. The whole walk is a slow test; a sample of it runs every time.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

from tacit.cli.main import app, main
from tacit.experiment.callbacks import Callback
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.testing.synthetic import ragged

MEASURED = ("seconds", "cpu_seconds", "threads", "run")
RECORDS = ("experiment.toml", "run.json", "checksums.json", "data/digest.json")
# Which files a command reads; a file that none reads is damaged once, under the first command.
READS = {
    "train --resume": (*RECORDS, "metrics.jsonl", "checkpoint/"),
    "recommend": (*RECORDS, "data/", "model/", "catalogue/"),
    "evaluate": (*RECORDS, "data/", "ranks.parquet"),
    "compare": (*RECORDS, "ranks.parquet"),
    "curves": ("run.json", "checksums.json", "metrics.jsonl"),
    "cost": ("run.json", "experiment.toml"),
    "groups": ("data/digest.json", "ranks.parquet"),
    "embeddings": ("data/digest.json", "model/"),
    "add-items": ("data/digest.json", "model/", "catalogue/"),
    "attack": ("model/",),
}
PERSON = "person 3"
SAMPLE = 120


@dataclass
class Subject:
    """A run folder, its twin from other settings, and the commands that read it."""

    name: str
    folder: Path
    twin: Path
    commands: dict[str, list[str]]
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)  # of the undamaged folder

    @property
    def files(self) -> list[str]:
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return [path.relative_to(self.folder).as_posix() for path in found]


class Stopper(Callback):
    """Kills a run in its third round."""

    def round(self, number: int, loss: float | None) -> None:
        if number == 3:
            raise RuntimeError("killed")


# Kinds of damage: each takes the file, the same file of another run, and a source of randomness.
Damage = Callable[[Path, Path, random.Random], None]


def flip(at: float) -> Damage:
    def damage(path: Path, twin: Path, chooser: random.Random) -> None:
        content = bytearray(path.read_bytes())
        place = min(len(content) - 1, int(at * len(content)) + chooser.randrange(8))
        content[place] ^= 1 << chooser.randrange(8)
        path.write_bytes(bytes(content))

    return damage


def truncate(path: Path, twin: Path, chooser: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chooser.randrange(1, len(content))])


def empty(path: Path, twin: Path, chooser: random.Random) -> None:
    path.write_bytes(b"")


def delete(path: Path, twin: Path, chooser: random.Random) -> None:
    path.unlink()


def garbage(path: Path, twin: Path, chooser: random.Random) -> None:
    path.write_bytes(chooser.randbytes(len(path.read_bytes())))


def longer(path: Path, twin: Path, chooser: random.Random) -> None:
    path.write_bytes(path.read_bytes() + path.read_bytes()[-40:])


def swapped(path: Path, twin: Path, chooser: random.Random) -> None:
    other = twin if twin.is_file() else next(path.parent.iterdir())
    path.write_bytes(other.read_bytes())


def directory(path: Path, twin: Path, chooser: random.Random) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path, twin: Path, chooser: random.Random) -> None:
    """Whoever reads it without a look waits for ever."""
    path.unlink()
    os.mkfifo(path)


def wrong_shape(text: str) -> Damage:
    def damage(path: Path, twin: Path, chooser: random.Random) -> None:
        lines = len(path.read_text(encoding="utf-8").splitlines()) if path.suffix == ".jsonl" else 1
        path.write_text((text + "\n") * lines, encoding="utf-8")

    return damage


def _a_table(found: Any, chooser: random.Random) -> dict[str, Any]:
    """The object itself or one of those in it."""
    tables, here = [found], [found]
    while here:
        here = [v for one in here for v in one.values() if isinstance(v, dict) and v]
        tables += here
    return chooser.choice(tables)


def missing_key(path: Path, twin: Path, chooser: random.Random) -> None:
    if path.suffix == ".toml":
        lines = path.read_text(encoding="utf-8").splitlines()
        del lines[chooser.choice([at for at, line in enumerate(lines) if "=" in line])]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    lines = _objects(path)
    table = _a_table(chooser.choice(lines), chooser)
    del table[chooser.choice(sorted(table))]
    _write(path, lines)


def wrong_type(path: Path, twin: Path, chooser: random.Random) -> None:
    values: list[Any] = [None, 3, -1.5, "text", [], {}, [1, 2], {"a": 1}, True]
    if path.suffix == ".toml":
        lines = path.read_text(encoding="utf-8").splitlines()
        at = chooser.choice([at for at, line in enumerate(lines) if "=" in line])
        other = chooser.choice(['"text"', "3", "-1.5", "[]", "[1, 2]", "true", "{a = 1}"])
        lines[at] = f"{lines[at].split('=')[0]}= {other}"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    lines = _objects(path)
    table = _a_table(chooser.choice(lines), chooser)
    key = chooser.choice(sorted(table))
    table[key] = chooser.choice([value for value in values if value != table[key]])
    _write(path, lines)


def _objects(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    return [json.loads(line) for line in lines]


def _write(path: Path, objects: list[Any]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")


ANY: dict[str, Damage] = {
    "flip 0": flip(0.0),
    "flip 1": flip(0.3),
    "flip 2": flip(0.6),
    "flip 3": flip(0.97),
    "truncate": truncate,
    "empty": empty,
    "delete": delete,
    "garbage": garbage,
    "longer": longer,
    "swapped": swapped,
    "directory": directory,
}
if hasattr(os, "mkfifo"):
    ANY["pipe"] = pipe
TEXT: dict[str, Damage] = {
    "list": wrong_shape("[]"),
    "number": wrong_shape("3"),
    "null": wrong_shape("null"),
    "nothing in it": wrong_shape("{}"),
    "missing key": missing_key,
    "missing key 2": missing_key,
    "wrong type": wrong_type,
    "wrong type 2": wrong_type,
    "wrong type 3": wrong_type,
}
TOML = ("missing key", "missing key 2", "wrong type", "wrong type 2", "wrong type 3")


def damages(file: str) -> dict[str, Damage]:
    if file.endswith((".json", ".jsonl")):
        return ANY | TEXT
    return ANY | ({name: TEXT[name] for name in TOML} if file.endswith(".toml") else {})


@dataclass(frozen=True)
class Case:
    subject: str
    file: str
    damage: str
    command: str


def write_plays(path: Path, stride: int = 7) -> None:
    rows = ragged().interactions
    lines = [
        f"person {rows.users[user]},film {rows.items[item]},{1000 + stride * place % 5003}"
        for place, (user, item) in enumerate(zip(rows.user_N, rows.item_N, strict=True))
    ]
    path.write_text("user,item,time\n" + "\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    """Runs of all kinds, finished and unfinished, one of them with items that joined."""
    place = tmp_path_factory.mktemp("runs")
    plays, other = place / "plays.csv", place / "other.csv"
    write_plays(plays)
    write_plays(other, stride=11)
    found: dict[str, Subject] = {}

    def keep(name: str, folder: Path, twin: Path, commands: dict[str, list[str]]) -> None:
        found[name] = Subject(name, folder, twin, commands)

    beside = place / "beside"
    run(resolve("popularity", data=str(plays)), beside)
    for method in ("pfedrec", "fedspectral", "mf", "ease"):
        flags = ["--data", str(plays), "--rounds", "5"]
        own, twin = (
            resolve(method, data=str(data), rounds=5, seed=seed)
            for data, seed in ((plays, 0), (other, 1))
        )
        resume = ["train", method, *flags, "--threads", "1", "--resume", "--out", "RUN", "--json"]
        for end in ("finished", "stopped"):
            folders = [place / f"{method} {end}{which}" for which in ("", " twin")]
            for folder, experiment in zip(folders, (own, twin), strict=True):
                if end == "finished":
                    run(experiment, folder, checkpoint_seconds=0.0)
                    continue
                with suppress(RuntimeError):
                    run(experiment, folder, callbacks=Stopper(), checkpoint_seconds=0.0)
            commands = {"train --resume": resume}
            if end == "finished":
                commands |= {
                    "recommend": ["recommend", "RUN", "--user", PERSON, "--json"],
                    "evaluate": ["evaluate", "RUN", "--json"],
                }
            if method == "pfedrec" and end == "finished":
                commands |= {
                    "compare": ["compare", "RUN", str(beside), "--json"],
                    "curves": ["analyse", "curves", "RUN", "--json"],
                    "cost": ["analyse", "cost", "RUN", "--json"],
                    "groups": ["analyse", "groups", "RUN", "--n", "2", "--json"],
                    "embeddings": ["analyse", "embeddings", "RUN", "--json"],
                }
            keep(f"{method} {end}", *folders, commands)
    _keep_shuffled(place, keep)
    _keep_cold(place, keep)
    return found


def _keep_shuffled(place: Path, keep: Callable[..., None]) -> None:
    """A file whose lines were shuffled since: now the ids in the folder are read."""
    plays, folders = place / "later.csv", [place / "shuffled", place / "shuffled twin"]
    write_plays(plays)
    experiment = resolve("fedmf", data=str(plays), rounds=2)
    for folder, one in zip(folders, (experiment, resolve("fedmf", rounds=1)), strict=True):
        run(one, folder)
    head, *lines = plays.read_text(encoding="utf-8").splitlines()
    random.Random(0).shuffle(lines)
    plays.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    commands = {
        "recommend": ["recommend", "RUN", "--user", PERSON, "--json"],
        "evaluate": ["evaluate", "RUN", "--json"],
    }
    keep("shuffled", *folders, commands)


def _keep_cold(place: Path, keep: Callable[..., None]) -> None:
    """A generator, and two versions of items that joined."""
    folders = [place / "cold", place / "cold twin"]
    sets = ["backbone.dim=8"]
    new = [place / f"new-{number}.csv" for number in range(3)]
    for number, path in enumerate(new):
        path.write_text(f"item_id,title\nnew-{number},Quiet Harbour {number}\n", encoding="utf-8")
    for seed, folder in enumerate(folders):
        own = resolve("pfedrec", plugins=["ridge"], rounds=2, split="cold", seed=seed, sets=sets)
        run(own, folder)
        for path in new[:2]:
            assert main(["add-items", str(folder), "--items", str(path)]) == 0
    commands = {
        "recommend": ["recommend", "RUN", "--user", "user-3", "-k", "400", "--json"],
        "evaluate": ["evaluate", "RUN", "--json"],
        "add-items": ["add-items", "RUN", "--items", str(new[2]), "--json"],
        "attack": ["attack", "inversion", "RUN", "--seeds", "1", "--json"],
    }
    keep("cold", *folders, commands)


def all_cases(subjects: dict[str, Subject]) -> Iterator[Case]:
    for subject in subjects.values():
        for file in subject.files:
            readers = [name for name in subject.commands if file.startswith(READS[name])]
            for command in readers or list(subject.commands)[:1]:
                for damage in damages(file):
                    yield Case(subject.name, file, damage, command)


def answer_of(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture) -> tuple[int, Any]:
    """The exit code, and what was said: the answer without measured times, or the sentence."""
    capsys.readouterr()
    code = main([str(folder) if argument == "RUN" else argument for argument in arguments])
    captured = capsys.readouterr()
    if code:
        return code, captured.err
    said = json.loads(captured.out)
    if arguments[0] == "train":
        said = {key: value for key, value in said.items() if key not in MEASURED}
    return code, said


def walk(
    subjects: dict[str, Subject], cases: list[Case], place: Path, capsys: pytest.CaptureFixture
) -> Counter[str]:
    """Play cases; how many ended in a sentence and how many in the right numbers."""
    counts: Counter[str] = Counter()
    folder, wrong = place / "case", []
    for subject in subjects.values():
        subject.answers.clear()  # they name the folder
    for case in cases:
        subject = subjects[case.subject]
        arguments = subject.commands[case.command]
        if case.command not in subject.answers:
            shutil.copytree(subject.folder, folder)
            subject.answers[case.command] = answer_of(arguments, folder, capsys)
            shutil.rmtree(folder)
        expected = subject.answers[case.command]
        shutil.copytree(subject.folder, folder)
        chooser = random.Random(f"{case.subject} {case.file} {case.damage}")
        damages(case.file)[case.damage](folder / case.file, subject.twin / case.file, chooser)
        try:
            code, said = answer_of(arguments, folder, capsys)
        except BaseException as error:  # a traceback is what no user may see
            if isinstance(error, KeyboardInterrupt):
                raise
            wrong.append(f"{case}: {type(error).__name__}: {error}")
            counts["traceback"] += 1
        else:
            if code == 2 and said.count("\n") == 1 and said.startswith("tacit: "):
                counts["sentence"] += 1
            elif (code, said) == expected:
                counts["right numbers"] += 1
            else:
                counts["other numbers"] += 1
                wrong.append(f"{case}: {code} {str(said)[:200]}")
        shutil.rmtree(folder)
    with capsys.disabled():
        print(f"\n{len(cases)} damaged folders: {dict(counts)}")
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(wrong[:40])
    return counts


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, and one parse of all options: both take longer than all that is read."""
    command = typer.main.get_command(app)
    monkeypatch.setattr(typer.main, "get_command", lambda _: command)
    monkeypatch.setattr("tacit.analysis.finding.Finding.write", lambda self, out: [])


@pytest.mark.usefixtures("quick")
def test_undamaged_folders_answer(
    subjects: dict[str, Subject], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """A walk in which everything is refused would find nothing."""
    for subject in subjects.values():
        for command, arguments in subject.commands.items():
            folder = tmp_path / "case"
            shutil.copytree(subject.folder, folder)
            code, said = answer_of(arguments, folder, capsys)
            assert code == 0, (subject.name, command, said)
            shutil.rmtree(folder)


@pytest.mark.usefixtures("quick")
def test_a_sample_of_damaged_folders(
    subjects: dict[str, Subject], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    cases = random.Random(17).sample(list(all_cases(subjects)), SAMPLE)
    counts = walk(subjects, cases, tmp_path, capsys)
    assert counts["sentence"] > SAMPLE // 4
    assert counts["right numbers"] > SAMPLE // 20


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_every_file_of_every_run_under_every_damage(
    subjects: dict[str, Subject], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    counts = walk(subjects, list(all_cases(subjects)), tmp_path, capsys)
    assert counts["sentence"] > 1000
    assert counts["right numbers"] > 100
