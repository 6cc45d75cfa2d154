"""A reason names the run that shows it: one that does not, or says something else, is refused."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lab.reasons as command
from lab.definition import (
    HOME,
    Because,
    Data,
    Place,
    Published,
    Reason,
    Row,
    Table,
    load_table,
    read_table,
    table_names,
)
from lab.proofs import FILE, PUBLISHED, ProofRun, Proofs, share_near, share_text, unexplained
from lab.reasons import Beside, Change, as_markdown, defined, known
from lab.render import as_markdown as table_as_markdown
from lab.results import Cell, DoneCell, References, Results
from tacit.cli.main import main
from tacit.errors import TacitError
from tacit.experiment.toml import dumps, loads
from tacit.study.study import digest

HIT, GAIN = ("full", "HR@10"), ("full", "NDCG@10")
FEDMF = Row("fedmf", "fedmf", rounds=4, search_rounds=2, evaluate_every=2)
FEW = Table(
    name="few",
    title="Few",
    rows=(FEDMF,),
    datasets=(Data("planted"),),
    metrics=(HIT, GAIN),
    settings=1,
    paper="pfedrec",
    published={
        ("fedmf", "planted", HIT): Published(80.0),
        ("fedmf", "planted", GAIN): Published(40.0),
    },
    tolerance=2.0,
)
PLACE = Place(FEW, FEDMF, FEW.datasets[0], "paper")
REASON = Reason("fedmf", "planted", "paper", "more rounds", Because("more", "full HR@10", 79.5))
PUBLISHED_TABLES = [name for name in table_names() if (PUBLISHED / f"table-{name}.json").is_file()]


def made_up(hits: float, gain: float, dataset: str = "planted", seed: int = 0) -> DoneCell:
    numbers = {"full HR@10": hits / 100, "full NDCG@10": gain / 100}
    return DoneCell(
        row="fedmf",
        dataset=dataset,
        column="paper",
        seed=seed,
        protocol="pfedrec",
        split="by time",
        sets=(),
        rounds_run=4,
        selected_round=4,
        validation=0.5,
        metrics=numbers,
        reference=References(popularity=numbers, chance=numbers),
        users=300,
        masked_test_items=0,
        engine="loop",
        seconds=1.0,
        versions={},
        folder=f"runs/paper-seed{seed}-0123456789",
    )


def results_of(table: Table, hits: float, gain: float) -> Results:
    cells: dict[str, DoneCell | Cell] = {PLACE.cell(0): made_up(hits, gain)}
    return Results(path=Path("few.json"), table=table.name, seeds=1, cells=cells)


def proofs_of(folder: Path, **runs: DoneCell) -> Proofs:
    """A folder of results with these runs in its file of reasons."""
    proofs = Proofs(folder)
    proofs.runs = {
        name: ProofRun(
            cell=f"few: {PLACE.key}",
            changed=("rounds=8",),
            command="tacit train fedmf",
            digest="0123456789",
            record="0",
            result=cell,
        )
        for name, cell in runs.items()
    }
    (folder / FILE).write_text(proofs.text)
    return Proofs(folder)


def written(table: Table, results: Results, proofs: Proofs, out: Path) -> list[str]:
    text = table_as_markdown(table, results, out, proofs)
    return [line for line in text.splitlines() if line.startswith("| fedmf |")]


def test_a_far_cell_without_a_reason_is_unexplained(tmp_path: Path) -> None:
    # 1.5 of 80 points is near by both rules; 2.5 is beyond the tolerance, 7 of 40 beyond 15 %
    near, far = results_of(FEW, 78.5, 39.0), results_of(FEW, 77.5, 33.0)
    proofs = Proofs(tmp_path)
    assert [line.endswith("|  |") for line in written(FEW, near, proofs, tmp_path)] == [True, True]
    assert unexplained(FEW, near, proofs) == []
    hit, gain = written(FEW, far, proofs, tmp_path)
    assert hit.endswith("| pfedrec: unexplained |")
    assert gain.endswith("| pfedrec: unexplained |")
    assert unexplained(FEW, far, proofs) == ["fedmf | planted | paper: full HR@10 and full NDCG@10"]
    strict = replace(FEW, tolerance=10.0)  # 15 % counts whatever the tolerance
    assert unexplained(strict, far, proofs) == ["fedmf | planted | paper: full NDCG@10"]


def test_a_reason_stands_with_the_number_of_its_run(tmp_path: Path) -> None:
    table, far = replace(FEW, reasons=(REASON,)), results_of(FEW, 50.0, 20.0)
    proofs = proofs_of(tmp_path, more=made_up(79.5, 30.0))
    hit, gain = written(table, far, proofs, tmp_path)
    assert hit.endswith("| pfedrec: more rounds (run `more`): 79.50 |")
    assert gain.endswith("| pfedrec: as above: 30.00, in part |")
    assert unexplained(table, far, proofs) == []


def test_a_run_that_is_no_nearer_to_print_explains_nothing(tmp_path: Path) -> None:
    table, far = replace(FEW, reasons=(REASON,)), results_of(FEW, 50.0, 20.0)
    proofs = proofs_of(tmp_path, more=made_up(79.5, 19.0))
    hit, gain = written(table, far, proofs, tmp_path)
    assert hit.endswith(": 79.50 |")
    assert gain.endswith("| pfedrec: unexplained |")
    assert unexplained(table, far, proofs) == ["fedmf | planted | paper: full NDCG@10"]


def test_a_run_that_takes_away_less_than_half_of_the_distance_explains_nothing(
    tmp_path: Path,
) -> None:
    table, far = replace(FEW, reasons=(REASON,)), results_of(FEW, 50.0, 20.0)
    hit, gain = written(table, far, proofs_of(tmp_path, more=made_up(79.5, 29.0)), tmp_path)
    assert hit.endswith(": 79.50 |")
    # 9 of 20 points are gone, and one seed has no deviation that they could be within
    assert gain.endswith("| pfedrec: unexplained |")


def test_a_run_that_is_nearer_by_less_than_seeds_differ_explains_nothing(tmp_path: Path) -> None:
    table, results = replace(FEW, reasons=(REASON,)), results_of(FEW, 69.5, 20.0)
    results.cells[PLACE.cell(1)] = made_up(40.5, 20.0, seed=1)  # 55 ± 20.5, and 80 is printed
    because = replace(REASON.because, value=74.0)
    table = replace(table, reasons=(replace(REASON, because=because),))
    proofs = proofs_of(tmp_path, more=made_up(74.0, 30.0))
    hit, _ = written(table, results, proofs, tmp_path)
    assert hit.endswith("| pfedrec: unexplained |")
    because = replace(because, value=76.0)
    table = replace(table, reasons=(replace(REASON, because=because),))
    hit, _ = written(table, results, proofs_of(tmp_path, more=made_up(76.0, 30.0)), tmp_path)
    assert hit.endswith("(run `more`): 76.00 |")


@pytest.mark.parametrize(
    ("because", "said"),
    [
        (Because("others", "full HR@10", 79.5), "by 'others', which nobody has run"),
        (Because("few: fedmf | planted | paper | seed 3", "full HR@10", 79.5), "nobody has run"),
        (Because("more", "full HR@10", 79.4), "says full HR@10 79.4; the run has 79.5"),
        (Because("more", "full HR@20", 79.5), "which has no 'full HR@20'"),
        (Because("elsewhere", "full HR@10", 79.5), "which is a run of ml-100k"),
    ],
)
def test_a_reason_that_its_run_does_not_show_is_refused(
    because: Because, said: str, tmp_path: Path
) -> None:
    proofs = proofs_of(
        tmp_path, more=made_up(79.5, 39.0), elsewhere=made_up(79.5, 39.0, dataset="ml-100k")
    )
    table = replace(FEW, reasons=(replace(REASON, because=because),))
    with pytest.raises(TacitError, match=said):
        table_as_markdown(table, results_of(FEW, 50.0, 20.0), tmp_path, proofs)


def test_a_cell_of_a_results_file_may_be_the_run(tmp_path: Path) -> None:
    results = results_of(FEW, 79.5, 39.0)
    results.write(tmp_path / "table-few.json")
    run = Because("few: fedmf | planted | paper | seed 0", "full HR@10", 79.5)
    proofs, reason = Proofs(tmp_path), replace(REASON, because=run)
    assert proofs.checked(FEW, reason) == results.done[0]


def test_a_reason_without_a_run_is_no_reason(tmp_path: Path) -> None:
    path = tmp_path / "pfedrec-main.toml"
    good = (HOME / "pfedrec-main.toml").read_text().partition("[[reasons]]")[0]
    given = '[[reasons]]\nrow = "mf"\ndataset = "ml-100k"\ncolumn = "clean"\ntext = "so"\n'
    run = 'because = {run = "r", metric = "full HR@10", value = 1.0}\n'
    path.write_text(good + given + run)
    assert read_table(path).reasons[0].because.run == "r"
    for wrong, said in (
        (given, "reasons.0.because: field required"),
        (given + run.replace(", value = 1.0", ""), "reasons.0.because.value: field required"),
        ((given + run).replace('"mf"', '"no"'), r"has no cell \(no, ml-100k\)"),
        ((given + run).replace('row = "mf"', 'rows = ["mf"]'), "reasons.0.row: field required"),
        ((given + run) * 2, "two reasons for one cell"),
    ):
        path.write_text(good + wrong)
        with pytest.raises(TacitError, match=said):
            read_table(path)


def test_the_share_within_15_percent_stands_above(tmp_path: Path) -> None:
    results = results_of(FEW, 70.0, 20.0)
    counts = share_near(FEW, results)
    assert counts == {"paper": (1, 2)}
    assert share_near(FEW, results, []) == {}
    told = "Within 15 % of the published value: 1 of 2 numbers (50 %) under pfedrec."
    assert share_text(FEW, counts) == told
    text = table_as_markdown(FEW, results, tmp_path, Proofs(tmp_path))
    assert f"**{told}**" in text
    assert f"## planted\n\n{told}\n" in text


@pytest.mark.parametrize("name", PUBLISHED_TABLES)
def test_every_reason_of_a_published_table_is_shown_by_its_run(name: str) -> None:
    table, proofs = load_table(name), Proofs()
    results = Results.read(name, PUBLISHED / f"table-{name}.json")
    bare = unexplained(replace(table, reasons=()), results, proofs)
    left = set(unexplained(table, results, proofs))
    for reason in table.reasons:
        proofs.checked(table, reason)
        key = " | ".join(reason.cell)
        before = next((one for one in bare if one.startswith(f"{key}: ")), None)
        assert before is not None, f"{key} is not far from the published value and needs no reason"
        assert before not in left, f"the run of {key} explains nothing"


def test_published_runs_are_what_their_definitions_ask_for_today() -> None:
    changes, proofs = defined(), Proofs()
    assert dict(known(changes, proofs)) == proofs.runs
    assert (PUBLISHED / FILE).read_text(encoding="utf-8") == proofs.text
    text = (PUBLISHED / FILE).with_suffix(".md").read_text(encoding="utf-8")
    assert as_markdown(proofs) == text
    used = {reason.because.run for name in table_names() for reason in load_table(name).reasons}
    assert used & set(proofs.runs), "no reason rests on a run of the file"


def test_a_published_command_runs_the_published_run(capsys: pytest.CaptureFixture[str]) -> None:
    proofs = Proofs()
    for run in list(proofs.runs.values())[::10]:
        capsys.readouterr()
        assert main([*shlex.split(run.command)[1:], "--dry-run"]) == 0
        assert digest(loads(capsys.readouterr().out)) == run.digest, run.command


def test_a_run_begins_from_its_cell_and_changes_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_table", lambda name: FEW)
    results_of(FEW, 50.0, 20.0).write(tmp_path / "table-few.json")
    change = Change("longer", f"few: {PLACE.key}", rounds=6, sets=("local.items.rate=0.05",))
    beside = Beside(change, tmp_path)
    own, other = PLACE.experiment((), 0), beside.asked.experiment()
    items = replace(own.method.local.items, rate=0.05)
    local = replace(own.method.local, items=items)
    assert dumps(other) == dumps(replace(own, rounds=6, method=replace(own.method, local=local)))
    run = beside.run(tmp_path / "runs")
    content = (tmp_path / "runs" / digest(other) / "run.json").read_bytes()
    assert (run.digest, run.record) == (digest(other), hashlib.sha256(content).hexdigest())
    assert run.result.rounds_run == 6
    assert run.changed == ("rounds=6", "local.items.rate=0.05")

    proofs = Proofs(tmp_path)
    proofs.runs = {"longer": run}
    assert dict(known([change], proofs)) == proofs.runs
    assert dict(known([replace(change, rounds=7)], proofs)) == {}
    text = as_markdown(proofs)
    value = 100 * run.result.metrics["full HR@10"]
    assert f"| full HR@10 | 80.00 | 50.00 | {value:.2f} |" in text
    assert run.command in text


def test_mistakes_of_the_definition_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "reasons.toml"
    for text, said in (
        ("runs = [{name = 'a'}]", "cannot be read"),
        ("runs = [{name = 'a', cell = 'b'}, {name = 'a', cell = 'c'}]", "names a run twice"),
    ):
        path.write_text(text)
        with pytest.raises(TacitError, match=said):
            defined(path)
    wrong: Any = Change("a", "pfedrec-main: nobody | ml-100k | clean")
    with pytest.raises(TacitError, match="begins from no cell"):
        _ = Beside(wrong).place
