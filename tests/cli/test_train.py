"""`tacit train`: what it prints and writes, configuration files, folders, resuming."""

from __future__ import annotations

import json
import signal
import tomllib
from pathlib import Path

import pytest

from tacit.experiment.callbacks import Callback

KEYS = {
    *("method", "dataset", "protocol", "preset", "seed", "rounds", "selected_round", "engine"),
    *("run", "seconds", "metrics", "reference", "breakdown", "privacy", "cost"),
}


def test_json_is_all_of_stdout(tacit):
    said = tacit("train", "fedmf", "--rounds", 3, "--json")
    assert said.code == 0
    result = json.loads(said.out)
    assert result.keys() >= KEYS
    assert (result["method"], result["dataset"], result["protocol"]) == (
        "fedmf",
        "planted",
        "clean",
    )
    assert result["run"] == "runs/fedmf-planted-clean-seed0"
    assert result == json.loads(Path(result["run"], "run.json").read_text())


def test_writes_all_files(tacit, small):
    said = tacit("train", "fedmf", *small, "--rounds", 2, "--out", "one")
    assert said.code == 0
    files = {path.name for path in Path("one").iterdir()}
    assert files >= {
        "experiment.toml",
        "metrics.jsonl",
        "ranks.parquet",
        "run.json",
        "report.html",
        "model",
    }
    assert len(Path("one", "metrics.jsonl").read_text().splitlines()) == 2
    assert said.out.splitlines()[-2:] == ["run       one", "report    one/report.html"]


def test_table_stands_beside_references(tacit, small):
    out = tacit("train", "fedmf", *small, "--rounds", 1).out
    for row in ("fedmf", "popularity", "chance", "never-sampled oracle"):
        assert any(line.strip().startswith(row) for line in out.splitlines()), row
    assert "not comparable" not in out
    assert "privacy   no guarantee: a client sends items (" in out
    assert "dense update: the server can read" in out.replace("\n", " ")
    assert "engine    fused" in out


def test_unclean_results_are_marked(tacit, small):
    out = tacit("train", "pfedrec", *small, "--rounds", 1, "--protocol", "paper").out
    assert "[pfedrec protocol: not comparable with clean]" in out
    out = tacit("train", "fedmf", *small, "--rounds", 1, "--duplicates", "keep").out
    assert "[custom protocol: not comparable with clean]" in out


def test_dry_run_writes_nothing_and_round_trips(tacit):
    flags = ["--rounds", 7, "--with", "clip:bound=2", "--set", "local.items.rate=0.05"]
    first = tacit("train", "fedmf", "--data", "not-there.csv", *flags, "--seed", 4, "--dry-run")
    assert first.code == 0
    assert list(Path().iterdir()) == []
    Path("saved.toml").write_text(first.out)
    assert tacit("train", "--config", "saved.toml", "--dry-run").out == first.out
    plain = tomllib.loads(first.out)
    assert (plain["rounds"], plain["seed"], plain["data"]["name"]) == (7, 4, "not-there.csv")
    assert plain["method"]["local"]["items"]["rate"] == 0.05


def test_flags_win_over_a_saved_config(tacit):
    Path("saved.toml").write_text(tacit("train", "fedmf", "--rounds", 7, "--dry-run").out)
    said = tacit(
        *("train", "--config", "saved.toml", "--dry-run", "--rounds", 2, "--data", "ml-100k"),
        *("--protocol", "paper", "--split", "random", "--participation", 0.5),
        *("--with", "laplace", "--columns", "user=u,item=i", "--min-user", 4),
    )
    plain = tomllib.loads(said.out)
    assert (plain["rounds"], plain["plugins"]) == (2, ["laplace"])
    assert plain["data"] == {
        "name": "ml-100k",
        "columns": [["item", "i"], ["user", "u"]],
        "min_user": 4,
    }
    assert plain["protocol"]["name"] == "pfedrec"
    assert plain["protocol"]["split"]["order"] == "random"
    assert plain["participation"]["ratio"] == 0.5
    assert plain["method"]["channel"][-1]["part"] == "laplace"


def test_a_saved_config_keeps_its_method(tacit):
    Path("saved.toml").write_text(tacit("train", "fedmf", "--dry-run").out)
    assert tacit("train", "fedmf", "--config", "saved.toml", "--dry-run").code == 0
    said = tacit("train", "pfedrec", "--config", "saved.toml", "--dry-run")
    assert said.code == 2
    assert "'fedmf' out in full" in said.err


def test_a_changed_saved_config_is_not_clean(tacit):
    Path("saved.toml").write_text(tacit("train", "fedmf", "--dry-run").out)
    said = tacit("train", "--config", "saved.toml", "--duplicates", "keep", "--dry-run")
    assert tomllib.loads(said.out)["protocol"]["name"] == "custom"


def test_short_config_and_flags(tacit):
    Path("short.toml").write_text(
        'method = "fedmf"\nrounds = 9\nseed = 3\nplugins = ["clip"]\n[set]\nlocal.batch = 64\n'
    )
    said = tacit(
        *("train", "--config", "short.toml", "--seed", 5, "--dry-run"),
        *("--with", "laplace:scale=0.2", "--set", "local.epochs=2"),
    )
    plain = tomllib.loads(said.out)
    assert (plain["rounds"], plain["seed"]) == (9, 5)
    assert plain["plugins"] == ["clip", "laplace:scale=0.2"]
    assert (plain["method"]["local"]["batch"], plain["method"]["local"]["epochs"]) == (64, 2)


def test_default_folders_are_numbered(tacit, small):
    for folder in ("runs/popularity-plays-clean-seed0", "runs/popularity-plays-clean-seed0-2"):
        assert f"run       {folder}" in tacit("train", "popularity", *small).out


def test_existing_out_is_refused(tacit, small):
    assert tacit("train", "popularity", *small, "--out", "one").code == 0
    same = tacit("train", "popularity", *small, "--out", "one")
    other = tacit("train", "random", *small, "--out", "one")
    assert (same.code, other.code) == (2, 2)
    assert "already holds this run; add --resume" in same.err
    assert "holds another experiment" in other.err
    Path("two").mkdir()
    Path("two", "letter.txt").write_text("dear\n")
    assert "is not empty and holds no run" in tacit("train", "random", "--out", "two").err
    assert [path.name for path in Path("two").iterdir()] == ["letter.txt"]


class Stopped(Callback):
    """A callback that is interrupted after some rounds, as by a second Ctrl-C."""

    def __init__(self, after: int) -> None:
        self.after = after

    def round(self, number: int, loss: float | None) -> None:
        if number == self.after:
            raise KeyboardInterrupt


@pytest.fixture
def stopped(tacit, small, monkeypatch):
    """A run that was killed in round 4, with a checkpoint after round 3."""
    from tacit.cli import progress
    from tacit.experiment import run

    with monkeypatch.context() as patch:
        patch.setattr(run, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr(progress, "Bar", lambda: Stopped(after=4))
        said = tacit("train", "fedmf", *small, "--rounds", 6)
    assert (said.code, said.err) == (2, "tacit: Stopped by the keyboard.\n")
    return Path("runs/fedmf-plays-clean-seed0")


def test_resume_finds_the_unfinished_run(tacit, small, stopped):
    alone = json.loads(
        tacit("train", "fedmf", *small, "--rounds", 6, "--out", "alone", "--json").out
    )
    assert tacit("train", "fedmf", *small, "--rounds", 6).code == 0  # a finished one, newer
    resumed = json.loads(tacit("train", "fedmf", *small, "--rounds", 6, "--resume", "--json").out)
    assert resumed["run"] == str(stopped)
    for key in ("metrics", "reference", "selected_round", "rounds_run", "cost"):
        assert resumed[key] == alone[key], key
    lines = [Path(run, "metrics.jsonl").read_text() for run in (stopped, "alone")]
    assert lines[0] == lines[1]
    again = json.loads(tacit("train", "fedmf", *small, "--rounds", 6, "--resume", "--json").out)
    assert again["run"] == "runs/fedmf-plays-clean-seed0-2"  # all finished: the newest


def test_resume_of_nothing_or_of_another(tacit, small, stopped):
    nothing = tacit("train", "fedmf", *small, "--rounds", 7, "--resume")
    assert nothing.code == 2
    assert "No run of this experiment" in nothing.err
    other = tacit("train", "fedmf", *small, "--rounds", 7, "--resume", "--out", stopped)
    assert other.code == 2
    assert "holds another experiment" in other.err


def test_resume_of_a_damaged_checkpoint(tacit, small, stopped):
    (file,) = (stopped / "checkpoint" / "last").glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-10])
    said = tacit("train", "fedmf", *small, "--rounds", 6, "--resume")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "is damaged (its checksum does not match)" in said.err
    assert not (stopped / "run.json").exists()


def test_a_run_stopped_in_its_last_patient_round_ends_there(tacit, small, monkeypatch):
    """Resuming must not grant a round that an unbroken run does not get."""
    from tacit.cli import progress

    command = ["train", "fedmf", *small, "--rounds", 40, "--set", "protocol.patience=2"]
    alone = json.loads(tacit(*command, "--out", "alone", "--json").out)
    last = alone["rounds_run"]
    assert last < 40

    class CtrlC(Stopped):
        def round(self, number: int, loss: float | None) -> None:
            if number == self.after:
                signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(progress, "Bar", lambda: CtrlC(after=last))
        said = tacit(*command, "--out", "one")
    assert said.err.startswith(f"tacit: Stopped after round {last} of 40")
    resumed = json.loads(tacit(*command, "--out", "one", "--resume", "--json").out)
    assert (resumed["rounds_run"], resumed["metrics"]) == (last, alone["metrics"])
