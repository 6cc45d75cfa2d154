"""Data that are called alike are told apart: in default folders, and in tables and figures."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from tacit.analysis.finished import finished_runs
from tacit.cli.settings import folder_to_resume
from tacit.experiment.folder import RunFolder
from tacit.experiment.names import data_below, dataset_name, dataset_names
from tacit.experiment.resolve import resolve
from tacit.study.sweep import sweep
from tacit.study.sweep_files import sweep_chart

# Files whose last part without endings is the same, or that of a named source.
ALIKE = (
    "a/plays.csv",
    "b/plays.csv",
    "b/c/plays.csv",
    "a/plays.txt",
    "planted.csv",
    "x/plays!.csv",
)


@pytest.fixture
def files(tacit, plays, small):
    """The same few rows under names that are alike, in the folder of the command."""
    for name in ALIKE:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(plays, name)
    return small[2:]  # how the columns are called


def only_data(folder: Path) -> str:
    """The data of the runs in a folder, which must be one."""
    (name,) = data_below(folder)
    return name


def test_default_run_folders_are_not_shared(tacit, files):
    for data in (*ALIKE, "planted"):
        said = tacit("train", "popularity", "--data", data, *files[: 0 if data == "planted" else 2])
        assert said.code == 0, said.err
    folders = {RunFolder(path).experiment().data.name: path.name for path in Path("runs").iterdir()}
    assert set(folders) == {*ALIKE, "planted"}
    assert not [name for name in folders.values() if name.endswith("-2")]  # no mere repeats
    assert folders["a/plays.csv"] == "popularity-plays-clean-seed0"
    assert folders["b/plays.csv"] == "popularity-b_plays.csv-clean-seed0"
    assert folders["a/plays.txt"] == "popularity-plays.txt-clean-seed0"
    assert folders["planted"] == "popularity-planted-clean-seed0"
    assert folders["planted.csv"] == "popularity-planted.csv-clean-seed0"
    for data in ALIKE:  # each is found again, whatever else has come since
        columns = {"user": "listener", "item": "song", "time": "played"}
        experiment = resolve("popularity", data=data, columns=columns)
        assert folder_to_resume(experiment) == Path("runs", folders[data])
        again = tacit("train", "popularity", "--data", data, *files, "--resume")
        assert again.code == 0, again.err


def test_another_method_on_other_data_has_a_name_of_its_own(tacit, files):
    assert tacit("train", "popularity", "--data", "a/plays.csv", *files).code == 0
    assert tacit("train", "random", "--data", "b/plays.csv", *files).code == 0
    names = sorted(path.name for path in Path("runs").iterdir())
    assert names == ["popularity-plays-clean-seed0", "random-b_plays.csv-clean-seed0"]


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "popularity", "random", "--seeds", 1),
        ("sweep", "fedmf", "--rounds", 1, "--over", "local.epochs=1,2"),
    ],
)
def test_comparisons_and_sweeps_of_other_data_stay_apart(tacit, files, command):
    def places() -> dict[str, str]:
        return {only_data(path): path.name for path in Path("runs").iterdir()}

    for data in ALIKE[:2]:
        said = tacit(*command, "--data", data, *files)
        assert said.code == 0, said.err
        assert data in said.out.replace("\n", "")  # the heading says which
    first = places()
    assert set(first) == set(ALIKE[:2])
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("run.json")}
    for data in ALIKE[:2]:  # finished runs are found and used again
        assert tacit(*command, "--data", data, *files).code == 0
    assert places() == first
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_tables_and_figures_say_which_data(tacit, files, tmp_path):
    for name in ALIKE[:2]:
        said = tacit("train", "popularity", "--data", name, *files, "--out", name.replace("/", "-"))
        assert said.code == 0, said.err
    folders = [name.replace("/", "-") for name in ALIKE[:2]]
    said = tacit("analyse", "cost", *folders, "--out", "cost")
    assert said.code == 0, said.err
    with Path("cost", "cost.csv").open(newline="") as stream:
        assert [row["dataset"] for row in csv.DictReader(stream)] == ["a_plays.csv", "b_plays.csv"]
    assert [run.place for run in finished_runs(folders)] == ["a/plays.csv", "b/plays.csv"]
    columns = {"user": "listener", "item": "song", "time": "played"}
    table = sweep("fedmf", ["rounds=1,2"], tmp_path, data="b/plays.csv", columns=columns)
    assert sweep_chart(table).get_suptitle() == "fedmf on b/plays.csv"
    refused = tacit("compare", *folders)
    assert refused.code == 2
    assert "data is 'a/plays.csv' for the one and 'b/plays.csv' for the other" in refused.err
    result = json.loads(Path(folders[1], "run.json").read_text())
    assert result["dataset"] == "b/plays.csv"


def test_no_two_files_have_the_same_names_throughout():
    """Signs that no folder name has may be all that differs."""
    ä, ö = "x/plays ä.csv", "x/plays ö.csv"
    assert dataset_names(ä)[0] == dataset_names(ö)[0]
    assert dataset_name(ä, [ö]) != dataset_name(ö, [ä])
    assert dataset_name("plays.csv", ["./plays.csv"]) == "plays"  # the same file
    assert dataset_name("./planted") != "planted"
