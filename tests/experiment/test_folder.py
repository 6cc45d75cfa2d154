"""The run folder: one experiment per folder, and whole files only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.experiment.folder import RunFolder
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.files import write_text


def refusal(folder: RunFolder, *, resume: bool = False) -> str:
    with pytest.raises(TacitError) as caught:
        folder.open(resolve("fedmf"), resume=resume)
    return str(caught.value)


def test_a_new_folder_holds_the_experiment(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "down" / "one")
    experiment = resolve("pfedrec", seed=3)
    folder.open(experiment, resume=False)
    assert folder.experiment() == experiment
    assert not folder.finished
    assert [path.name for path in folder.path.iterdir()] == ["experiment.toml"]


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    RunFolder(tmp_path).open(resolve("fedmf"), resume=True)
    assert RunFolder(tmp_path).experiment() == resolve("fedmf")


def test_the_same_run_is_continued_only_if_asked(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "one")
    folder.open(resolve("fedmf"), resume=False)
    assert refusal(folder) == (
        f"{str(folder.path)!r} already holds this run; add resume=True to continue it, or "
        "choose another out=."
    )
    folder.open(resolve("fedmf"), resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_another_run_is_never_touched(tmp_path: Path, resume: bool) -> None:
    folder = RunFolder(tmp_path / "one")
    folder.open(resolve("fedmf", seed=1), resume=False)
    assert refusal(folder, resume=resume) == (
        f"{str(folder.path)!r} holds another experiment (see its experiment.toml); choose another "
        "out=, or remove that folder."
    )
    assert folder.experiment().seed == 1


def test_folders_and_files_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert refusal(RunFolder(tmp_path)) == (
        f"{str(tmp_path)!r} is not empty and holds no run; choose another out=."
    )
    assert refusal(RunFolder(tmp_path / "notes.txt")) == (
        f"{str(tmp_path / 'notes.txt')!r} is a file; give a folder with out=."
    )


def test_no_run_here(tmp_path: Path) -> None:
    for call in (RunFolder(tmp_path).experiment, RunFolder(tmp_path / "none").record):
        with pytest.raises(TacitError, match=r"there is no experiment\.toml"):
            call()


@pytest.mark.parametrize("damage", ["seed = ", "seed = 3", 'part = "x"', "method = 3"])
def test_a_damaged_experiment_says_so(tmp_path: Path, damage: str) -> None:
    folder = RunFolder(tmp_path)
    folder.open(resolve("fedmf"), resume=False)
    folder.experiment_file.write_text(damage)
    with pytest.raises(TacitError, match=r"experiment\.toml' is damaged: "):
        folder.experiment()
    folder.experiment_file.write_bytes(b"\xff\xfe")
    with pytest.raises(TacitError, match=r"experiment\.toml' is damaged: "):
        folder.experiment()


def test_results_are_read_only_when_finished(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.open(resolve("fedmf", rounds=1), resume=False)
    with pytest.raises(TacitError, match="is not finished; continue it with resume=True"):
        folder.record()
    run(resolve("fedmf", rounds=1), tmp_path, resume=True)
    assert folder.finished
    assert folder.record().json_text == folder.result_file.read_text()
    folder.result_file.write_text('{"selected')
    with pytest.raises(TacitError, match=r"run\.json' is damaged: "):
        folder.record()


def test_text_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "below" / "x.txt"
    write_text(path, "first\n")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "second \udcff")
    assert path.read_text(encoding="utf-8") == "first\n"
    write_text(path, "größer")
    assert path.read_text(encoding="utf-8") == "größer"
