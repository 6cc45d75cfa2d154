"""What a run writes down for people holds nobody's history and nobody's private parameters."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tacit
from tacit.cli.main import main
from tacit.experiment.checkpoint import load_model
from tacit.experiment.folder import RunFolder

# Ranks, ids and the kept model are the simulation's own tables: they are for whoever runs it, and
# are read by programs. All else is a log.
TABLES = (".parquet", ".safetensors")
NUMBER = re.compile(r"-?\d+\.\d{4,}(?:e-?\d+)?")


def logs_of(folder: Path) -> str:
    """Everything in a run folder that is no table."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return "\n".join(path.read_text("utf-8") for path in files if path.suffix not in TABLES)


def leaks(text: str, private: np.ndarray) -> list[str]:
    """Names of marked people and items, and numbers that are one of some private values."""
    names = re.findall(r"canary-(?:user|item)-\d+", text)
    told = NUMBER.findall(text)
    size = np.abs(private[private != 0].astype(np.float32))
    # as a program prints a number of single precision: widened, or in its own shortest form
    known = np.concatenate([size.astype(np.float64), size.astype(str).astype(np.float64)])
    known_N = np.isin(np.abs(np.array(told, dtype=np.float64)), known)
    return [*names, *(number for number, known in zip(told, known_N, strict=True) if known)]


@pytest.fixture(scope="module")
def marked() -> pl.DataFrame:
    generator = np.random.default_rng(0)
    rows = [
        (f"canary-user-{user}", f"canary-item-{item}", when)
        for user in range(30)
        for when, item in enumerate(generator.permutation(40)[:9])
    ]
    return pl.DataFrame(rows, schema=["user", "item", "timestamp"], orient="row")


@pytest.mark.parametrize(
    ("method", "plugins"),
    [
        ("pfedrec", ()),
        ("fedmf", ("fedrkg:every=1",)),
        ("fcf_als", ()),
        ("feddae", ()),
        ("ease", ()),
        ("mf", ()),
    ],
)
def test_logs_hold_no_history_and_no_private_value(
    marked: pl.DataFrame, tmp_path: Path, method: str, plugins: tuple[str, ...]
) -> None:
    folder = tmp_path / "run"
    tacit.run(tacit.resolve(method, data=marked, rounds=2, plugins=plugins), folder)
    private = np.zeros(1)
    if method not in ("ease", "fcf_als"):  # closed forms keep nothing for a person
        state = load_model(RunFolder(folder))
        kept = {**state.private, **(state.shared if method == "mf" else {})}
        private = np.concatenate([value.double().numpy().ravel() for value in kept.values()])
        assert len(private) > 30
    assert leaks(logs_of(folder), private) == []


def test_the_terminal_names_nobody(
    marked: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "marked.csv"
    marked.write_csv(table)
    arguments = ["train", "pfedrec", "--rounds", "2", "--data", str(table)]
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert "HR@10" in said.out
    assert leaks(said.out + said.err, np.zeros(1)) == []


def test_a_leak_is_found() -> None:
    private = np.array([0.123456789, 2.0], dtype=np.float32)
    text = f"loss 0.5000, canary-item-7, {float(private[0])}, {private[0]!s}, 0.98765"
    assert leaks(text, private) == ["canary-item-7", "0.12345679104328156", "0.12345679"]
