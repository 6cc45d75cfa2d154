"""Figures in the README are those in the files that commands wrote, and its code runs."""

import re
from pathlib import Path

import pytest
import typer

from tacit.cli.main import app
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.methods import METHODS
from tacit.plugins.entry import PLUGINS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_honest_table_is_the_one_that_was_written() -> None:
    written = (ROOT / "docs" / "results" / "honest-table.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- honest-table -->\n(.*?)<!-- /honest-table -->", README, re.DOTALL)
    assert shown is not None
    assert shown.group(1).strip() == written[written.index("**Protocol") :].strip()


def test_the_timings_are_those_that_were_written() -> None:
    written = (ROOT / "docs" / "results" / "bench.txt").read_text(encoding="utf-8")
    shown = re.search(r"<!-- bench -->\n```\n(.*?)```\n<!-- /bench -->", README, re.DOTALL)
    assert shown is not None
    assert shown.group(1) == written


def test_the_python_example_runs_and_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    monkeypatch.chdir(tmp_path)
    exec(example.group(1), {"__name__": "__main__"})
    first = capsys.readouterr().out
    assert "HR@10" in first
    assert "chance" in first
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    assert len(stamps) == 2
    exec(example.group(1), {"__name__": "__main__"})
    assert capsys.readouterr().out == first
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps  # nothing trained again


def test_the_opening_says_who_has_a_guarantee_and_who_has_none(tmp_path: Path) -> None:
    """With the plug-in that it names a run states one; a run without says what it quotes."""
    opening = " ".join(README[: README.index("## Start")].split())
    named = re.search(r"A run with `--with (\w+)` .*states a guarantee", opening)
    quoted = re.search(r'where none holds, .* say "([a-z ]+)"', opening)
    assert named
    assert quoted
    claimed = run(resolve("fedmf", rounds=2, plugins=[named[1]]), tmp_path / "one").privacy
    assert claimed.guaranteed
    assert claimed.epsilon is not None
    for name in ("fedmf", "popularity"):
        record = run(resolve(name, rounds=2), tmp_path / name)
        assert record.privacy.text == quoted[1]
    assert "`tacit train` is a simulator" in opening


def test_the_speed_in_words_is_the_measured_one() -> None:
    written = (ROOT / "docs" / "results" / "bench.txt").read_text(encoding="utf-8")
    ratio = r"{} +[\d.]+ s +([\d.]+) x the naive loop"
    slow, fast = (
        re.search(ratio.format(name), written) for name in ("CohortEngine", "fused kernel")
    )
    assert slow
    assert fast
    measured = (f"{float(slow[1]):.0f}", f"{float(fast[1]):.0f}")
    for said in (
        r"engines are (\d+) to (\d+) times faster",
        r"(\d+) on the path that every composed method has, (\d+) where a fused kernel",
    ):
        told = re.search(said, README)
        assert told, said
        assert told.groups() == measured


DATASETS = ("ml-100k", "ml-1m", "amazon-video")
LEAD = {  # a row of the first table: its file, its row there, and the column
    "popularity": ("table-order.md", "popularity", 1),
    "FedMF": ("table-order.md", "fedmf", 1),
    "PFedRec": ("table-order.md", "pfedrec", 1),
    "EASE": ("table-order.md", "ease", 1),
    "`fednext`, ours": ("table-order.md", "fednext, ridge and EASE", 1),
    "`fednext`, epsilon 8": ("table-privacy.md", "fednext", 3),
    "`fednext`, epsilon 2": ("table-privacy.md", "fednext", 5),
}


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_first_table_has_the_numbers_of_its_files() -> None:
    block = re.search(r"<!-- lead -->\n(.*?)<!-- /lead -->", README, re.DOTALL)
    assert block is not None
    rows = {cells[0]: cells[1:4] for cells in map(cells_of, block[1].strip().splitlines()[2:])}
    assert set(rows) == set(LEAD)
    for name, (file, row, column) in LEAD.items():
        written = (ROOT / "docs" / "results" / file).read_text(encoding="utf-8")
        for dataset, shown in zip(DATASETS, rows[name], strict=True):
            lines = written.split(f"\n## {dataset}\n")[1].splitlines()
            there = next(cells_of(line) for line in lines if line.startswith(f"| {row} |"))
            assert there[column].split()[0] == shown, (name, dataset)


def test_every_number_of_a_result_stands_in_the_file_that_is_named() -> None:
    block = re.search(r"<!-- results -->\n(.*?)<!-- /results -->", README, re.DOTALL)
    assert block is not None
    lines = block[1].strip().splitlines()
    assert len(lines) == 11
    for line in lines:
        target = re.match(r"- \[[^]]+\]\(([^)]+)\)", line)
        assert target is not None, line
        written = (ROOT / target[1]).read_text(encoding="utf-8")
        numbers = re.findall(r"\d+\.\d+(?: ± \d+\.\d+)?", line.split("): ", 1)[1])
        assert numbers, line
        for number in numbers:
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", written), (
                number,
                target[1],
            )


def test_what_is_named_is_in_the_lists() -> None:
    table = README[README.index("| Name |") : README.index("A plug-in turns")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(named) > 20
    assert named <= set(METHODS)
    plugins = set(re.findall(r"--with ([a-z_]+)", README))
    assert {"dual_personalised", "laplace", "gaussian"} <= plugins <= set(PLUGINS)
    commands = set(re.findall(r"^    \.venv/bin/tacit ([a-z-]+)", README, re.MULTILINE))
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert {"train", "compare", "audit"} <= commands <= known


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
