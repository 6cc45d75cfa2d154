"""Whole runs: what they write, what they select, when they stop, and how they continue."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.engines.scoring import Scorer
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment import result
from tacit.experiment.callbacks import Callback, Validation
from tacit.experiment.checkpoint import load_state
from tacit.experiment.prepare import prepare
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import Cost
from tacit.experiment.resolve import resolve
from tacit.experiment.result import read_ranks
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.testing.synthetic import ragged

STILL = ("local.model.rate=0", "local.items.rate=0")  # nothing moves, so all rounds are equal
MEASURED = ("seconds", "cpu_seconds", "threads", "run", "engine")


def small(name: str, plays: Path, *sets: str, **more: Any) -> Experiment:
    sizes = [] if name in ("ease", "popularity", "random", "pure_svd") else ["backbone.dim=4"]
    return resolve(name, data=str(plays), sets=[*sizes, *sets], **more)


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def lines_of(out: Path) -> list[dict[str, Any]]:
    text = (out / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=refuse_constant) for line in text.splitlines()]


def names_in(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


class Stopper(Callback):
    """Raises when a given round is over: a run that dies without a word."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.best: float | None = None
        self.seen: list[tuple[int, float | None]] = []

    def validation(self, found: Validation) -> None:
        self.best = found.best

    def round(self, number: int, loss: float | None) -> None:
        self.seen.append((number, self.best))
        if number == self.at:
            raise RuntimeError("killed")


def test_what_a_run_writes(plays: Path, tmp_path: Path) -> None:
    out = tmp_path / "one"
    result = run(small("pfedrec", plays, rounds=4), out, checkpoint_seconds=1e9)
    assert names_in(out) == {
        "checksums.json",
        "data/digest.json",
        "data/items.parquet",
        "data/lines.parquet",
        "data/users.parquet",
        "experiment.toml",
        "metrics.jsonl",
        "run.json",
        "ranks.parquet",
        "report.html",
        "model/state.json",
        f"model/state-{result.selected_round:06d}.safetensors",
    }
    assert json.loads((out / "run.json").read_text(), parse_constant=refuse_constant)
    assert RunRecord.of_json((out / "run.json").read_bytes()) == result
    assert result.method == "pfedrec"
    assert result.dataset == str(plays)
    assert result.clean is True
    assert result.rounds == result.rounds_run == 4
    assert result.counts.users == 24
    assert result.test_released.round == result.selected_round


def test_a_library_that_is_not_installed_is_missed_before_the_first_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record says which versions ran; without them hours of training would end in nothing."""

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(result, "version", absent)
    result.versions.cache_clear()
    try:
        with pytest.raises(TacitError, match="tacit is on the path without being installed"):
            run(resolve("popularity"), tmp_path / "one")
    finally:
        result.versions.cache_clear()
    assert not (tmp_path / "one").exists()


def test_metrics_have_a_line_per_round_and_the_selected_one_is_the_best(
    plays: Path, tmp_path: Path
) -> None:
    result = run(small("fedmf", plays, rounds=6), tmp_path / "one")
    lines = lines_of(tmp_path / "one")
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert all(line["loss"] > 0 for line in lines)
    values = [line["valid"]["full"]["NDCG@10"] for line in lines]
    last_best = max(number for number, v in enumerate(values, 1) if v == max(values))
    assert result.selected_round == last_best
    assert result.test_released.validation_value == max(values)
    assert {"HR@10", "NDCG@10"} == set(lines[0]["valid"]["sampled99"])


@pytest.mark.parametrize("name", ["fedmf", "pfedrec", "local_only", "fedncf"])
def test_released_ranks_are_those_of_the_saved_model(
    name: str, plays: Path, tmp_path: Path
) -> None:
    experiment = small(name, plays, rounds=3, participation=0.6)
    result = run(experiment, tmp_path / "one")
    prepared = prepare(experiment)
    train = prepared.split.train
    saved = load_state(tmp_path / "one" / "model")
    assert saved is not None
    assert saved[0].round_number == result.selected_round
    assert isinstance(experiment.method, Method)
    algorithm = compose(experiment.method, Task(train.n_users, train.n_items))
    expected = rank(Scorer(algorithm, saved[0]), prepared.split.test)
    found = read_ranks(tmp_path / "one" / "ranks.parquet")
    for kind in ("full", "sampled"):
        one, two = getattr(found, kind), getattr(expected, kind)
        for column in ("user_H", "item_H", "above_H", "tied_H", "candidates_H"):
            assert np.array_equal(getattr(one, column), getattr(two, column))
        assert one.part == "test"
    assert result.metrics.full["HR@10"] == metric(found.full, "HR@10")
    assert result.metrics.sampled99["NDCG@5"] == metric(found.sampled, "NDCG@5")


def test_the_test_part_is_ranked_once_and_last_on_all_threads(
    plays: Path, tmp_path: Path, monkeypatch
) -> None:
    """No test rank exists before all rounds are played; they come from the selected round."""
    ranked: list[tuple[str, int, int]] = []

    def noting(scores, held_out, **options):
        rounds = len(lines_of(tmp_path / "one"))
        ranked.append((held_out.part, rounds, options["threads"]))
        return rank(scores, held_out, **options)

    monkeypatch.setattr("tacit.experiment.run.rank", noting)
    experiment = small("fedmf", plays, "local.items.rate=0", rounds=4)
    result = run(experiment, tmp_path / "one", threads=2, checkpoint_seconds=0.0)
    assert ranked == [*(("valid", done, 2) for done in range(4)), ("test", 4, 2)]
    assert result.selected_round < 4


def test_ranks_carry_original_ids(plays: Path, tmp_path: Path) -> None:
    run(small("popularity", plays), tmp_path / "one")
    table = pl.read_parquet(tmp_path / "one" / "ranks.parquet")
    assert table["user_id"].str.starts_with("person ").all()
    assert table["item_id"].str.starts_with("film ").all()


def test_of_equal_rounds_the_last_is_selected(plays: Path, tmp_path: Path) -> None:
    result = run(small("fedmf", plays, *STILL, rounds=5), tmp_path / "one")
    assert result.selected_round == 5


def test_of_equal_rounds_the_first_is_selected_where_the_protocol_says_so(
    plays: Path, tmp_path: Path
) -> None:
    sets = (*STILL, "protocol.select_of_equals=first")
    result = run(small("fedmf", plays, *sets, rounds=5), tmp_path / "one")
    assert result.selected_round == 1
    assert result.rounds_run == 5
    assert result.selection.endswith("first of equals")


def test_a_run_is_measured_at_the_cutoff_that_selects_it(plays: Path, tmp_path: Path) -> None:
    sets = ("protocol.select_metric=HR@3",)
    result = run(small("fedmf", plays, *sets, rounds=4), tmp_path / "one")
    lines = [line["valid"]["full"] for line in lines_of(tmp_path / "one")]
    assert list(lines[0]) == ["HR@3", "HR@10", "NDCG@3", "NDCG@10"]
    assert lines[result.selected_round - 1]["HR@3"] == max(line["HR@3"] for line in lines)
    assert {"HR@3", "HR@10", "HR@20", "HR@50", "NDCG@50"} <= set(result.metrics.full)
    for row in dict(result.reference.full).values():
        assert set(row) == set(result.metrics.full)
    assert "HR@3" in (tmp_path / "one" / "report.html").read_text(encoding="utf-8")


def test_fedmr_masks_train_only_for_the_method_and_its_references(
    plays: Path, tmp_path: Path
) -> None:
    experiment = small("popularity", plays, protocol="fedmr")
    result = run(experiment, tmp_path / "one")
    assert result.split == "leave_one_out by time"  # the file has no labels
    split = prepare(experiment).split
    train = [set(split.train.positives[u].tolist()) for u in split.test.user_E]
    chance = np.mean([min(20 / (50 - len(own)), 1.0) for own in train])
    assert result.reference.full.chance["HR@20"] == pytest.approx(chance, rel=1e-12)
    # by hand: of the items outside train, so many are more popular, and so many tie
    count_I = split.train.popularity_I()
    hits = []
    for own, relevant in zip(train, split.test.relevant.item_N, strict=True):
        others = [i for i in range(50) if i not in own and i != relevant]
        above = sum(count_I[i] > count_I[relevant] for i in others)
        tied = sum(count_I[i] == count_I[relevant] for i in others)
        hits.append(min(max(20 - above, 0), tied + 1) / (tied + 1))
    expected = pytest.approx(np.mean(hits), rel=1e-12)
    assert result.reference.full.popularity["HR@20"] == expected
    assert result.metrics.full["HR@20"] == expected
    adds = [part.adds.get("HR@20", 0.0) for _, part in result.breakdown]
    assert sum(adds) == expected


def test_patience_counts_from_the_last_better_round(plays: Path, tmp_path: Path) -> None:
    """Round 1 is better than nothing, rounds 2 and 3 are only equal: that is two in vain."""
    sets = (*STILL, "protocol.patience=2")
    result = run(small("fedmf", plays, *sets, rounds=20), tmp_path / "one")
    assert result.rounds_run == 3
    assert result.selected_round == 3
    assert result.rounds == 20
    assert len(lines_of(tmp_path / "one")) == 3


def test_patience_does_not_run_out_before_the_first_look(plays: Path, tmp_path: Path) -> None:
    sets = (*STILL, "protocol.patience=2", "evaluate_every=4")
    result = run(small("fedmf", plays, *sets, rounds=20), tmp_path / "one")
    assert result.rounds_run == 6  # looked at round 4, then two more in vain
    assert result.selected_round == 4


def test_evaluate_every_looks_now_and_then_and_at_the_end(plays: Path, tmp_path: Path) -> None:
    watch = Stopper(at=0)
    run(small("fedmf", plays, "evaluate_every=3", rounds=7), tmp_path / "one", callbacks=watch)
    lines = lines_of(tmp_path / "one")
    assert [line["round"] for line in lines if "valid" in line] == [3, 6, 7]
    assert [best for number, best in watch.seen if number < 3] == [None, None]
    assert watch.seen[2][1] == lines[2]["valid"]["full"]["NDCG@10"]


def test_chance_is_the_analytic_one(plays: Path, tmp_path: Path) -> None:
    experiment = small("fedmf", plays, rounds=1)
    result = run(experiment, tmp_path / "one")
    test = prepare(experiment).split.test
    # one held-out item among those that are not masked, and the first ten places
    candidates_E = test.n_items - test.masked.size_U
    expected = np.minimum(10 / candidates_E, 1.0).mean()
    found = result.reference.full.chance["HR@10"]
    assert found == pytest.approx(expected, rel=1e-12)
    sampled_E = 1 + test.sampled.size_U
    expected = np.minimum(5 / sampled_E, 1.0).mean()
    found = result.reference.sampled99.chance["HR@5"]
    assert found == pytest.approx(expected, rel=1e-12)


def test_cost_by_hand(plays: Path, tmp_path: Path) -> None:
    result = run(small("pfedrec", plays, rounds=3, participation=0.5), tmp_path / "one")
    table = 50 * 4 * 4  # items, width, bytes
    assert result.cost == Cost(
        bytes_up=table,
        bytes_down=table,
        exchanges=12 * result.selected_round,
        bytes_total_to_selected_round=12 * result.selected_round * 2 * table,
        bytes_once=0,
        client_bytes=table + 5 * 4,
        client_bytes_at_peak=table + 5 * 4,
    )
    alone = run(small("local_only", plays, rounds=1), tmp_path / "two")
    assert alone.cost.bytes_total_to_selected_round == 0
    assert alone.privacy.server_reads == ("nothing leaves the device",)


def test_central_methods_select_among_settings(plays: Path, tmp_path: Path) -> None:
    experiment = small("ease", plays, "ridges=[1e9, 5.0, 1e-3]")
    result = run(experiment, tmp_path / "one")
    lines = lines_of(tmp_path / "one")
    values = [line["valid"]["full"]["NDCG@10"] for line in lines]
    assert len(set(values)) > 1
    assert result.rounds_run == 3
    assert values[result.selected_round - 1] == max(values)
    assert [line["loss"] for line in lines] == [None] * 3
    prepared = prepare(experiment)
    train = prepared.split.train
    fitted = experiment.method.fit(train, result.selected_round - 1, 0)  # type: ignore
    expected = rank(
        lambda user_B: fitted.score([train.history(u) for u in user_B], train.user_key_U[user_B]),
        prepared.split.test,
    )
    found = read_ranks(tmp_path / "one" / "ranks.parquet")
    assert np.array_equal(found.full.above_H, expected.full.above_H)
    *facts, told = result.privacy.server_reads
    mean = round(result.counts.train / result.counts.users)
    assert facts == [
        f"a client sends history ({mean} numbers)",
        "the server reads every single upload, so a sum would not be enough",
    ]
    assert told == "every history in full: this is a central method"


def test_papers_protocol_selects_on_sampled_candidates_and_says_it_is_not_clean(
    plays: Path, tmp_path: Path
) -> None:
    result = run(small("fedmf", plays, rounds=4, protocol="paper"), tmp_path / "one")
    assert result.clean is False
    assert result.protocol == "pfedrec"
    values = [line["valid"]["sampled99"]["HR@10"] for line in lines_of(tmp_path / "one")]
    assert values[result.selected_round - 1] == max(values)
    assert result.selection == "sampled-candidates validation HR@10, last of equals"


def test_rounds_in_which_nobody_takes_part_have_no_loss(plays: Path, tmp_path: Path) -> None:
    sets = ("participation.availability=1e-9",)
    result = run(small("fedmf", plays, *sets, rounds=2), tmp_path / "one")
    assert [line["loss"] for line in lines_of(tmp_path / "one")] == [None, None]
    assert result.cost.exchanges == 0


def assert_same_run(one: Path, two: Path) -> None:
    """Equal numbers, ranks, rounds and models, bit for bit; only times and threads may differ."""
    here, there = (json.loads((out / "run.json").read_text()) for out in (one, two))
    for key in here.keys() | there.keys():
        assert key in MEASURED or here[key] == there[key], key
    for name in ("ranks.parquet", "metrics.jsonl"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    states = [load_state(out / "model") for out in (one, two)]
    assert states[0] is not None
    assert states[1] is not None
    for group in ("shared", "private", "optimizer"):
        first, second = getattr(states[0][0], group), getattr(states[1][0], group)
        assert all(torch.equal(value, second[parameter]) for parameter, value in first.items())


CONTINUED = {
    "pfedrec": (),
    "fedmf": ("participation.dropout=0.3", "protocol.patience=3"),
    "fedncf": (
        'local.model={part = "adam", rate = 0.01, lifetime = "persistent"}',
        "backbone.layers=[3, 1]",
    ),
    "local_only": ("evaluate_every=3",),
    # what was not sent yet waits on devices, also over a break
    "fcf": ('channel=[{part = "dense"}, {part = "top_k", share = 0.2}, {part = "quantise"}]',),
}


@pytest.mark.parametrize("name", CONTINUED)
@pytest.mark.parametrize("killed_at", [2, 5])
def test_a_killed_run_continues_to_the_same_end(
    name: str, killed_at: int, plays: Path, tmp_path: Path, monkeypatch
) -> None:
    experiment = small(name, plays, *CONTINUED[name], rounds=6, participation=0.7)
    run(experiment, tmp_path / "whole")
    monkeypatch.setattr("tacit.experiment.run.CHECKPOINT_SECONDS", 0.0)
    broken = tmp_path / "broken"
    with pytest.raises(RuntimeError, match="killed"):
        run(experiment, broken, callbacks=Stopper(killed_at))
    last = load_state(broken / "checkpoint" / "last")
    assert last is not None
    assert last[0].round_number == killed_at - 1  # the last round is lost, and played again
    assert len(lines_of(broken)) == killed_at
    watch = Stopper(at=0)
    run(experiment, broken, threads=2, resume=True, callbacks=watch)
    assert watch.seen[0][0] == killed_at
    assert_same_run(tmp_path / "whole", broken)


def test_a_run_killed_again_and_again_ends_the_same(
    plays: Path, tmp_path: Path, monkeypatch
) -> None:
    experiment = small("pfedrec", plays, rounds=6)
    run(experiment, tmp_path / "whole")
    monkeypatch.setattr("tacit.experiment.run.CHECKPOINT_SECONDS", 0.0)
    for killed_at in (1, 2, 4, 6):
        with pytest.raises(RuntimeError, match="killed"):
            run(experiment, tmp_path / "broken", resume=True, callbacks=Stopper(killed_at))
    run(experiment, tmp_path / "broken", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("victim", ["run.json", "report.html"])
def test_a_run_killed_while_it_releases_its_result(
    victim: str, plays: Path, tmp_path: Path, monkeypatch
) -> None:
    """The best round lies before the checkpoint: its ranks are made of the state that is kept."""
    experiment = small("fedmf", plays, "local.items.rate=0", rounds=4)
    assert run(experiment, tmp_path / "whole").selected_round < 4
    monkeypatch.setattr("tacit.experiment.run.CHECKPOINT_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        target = "write_text" if victim == "run.json" else "write_report"
        module = __import__("tacit.experiment.run", fromlist=["run"])
        plain = getattr(module, target)

        def dying(path: Path, *rest: str) -> Any:
            if target == "write_report" or path.name == victim:
                raise RuntimeError("killed")
            return plain(path, *rest)

        patch.setattr(module, target, dying)
        with pytest.raises(RuntimeError, match="killed"):
            run(experiment, tmp_path / "broken")
    run(experiment, tmp_path / "broken", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    assert (tmp_path / "broken" / "report.html").is_file()


def test_a_finished_run_is_only_read(plays: Path, tmp_path: Path) -> None:
    experiment = small("fedmf", plays, rounds=2)
    result = run(experiment, tmp_path / "one")
    before = (tmp_path / "one" / "run.json").stat().st_mtime_ns
    watch = Stopper(at=1)
    assert run(experiment, tmp_path / "one", resume=True, callbacks=watch) == result
    assert watch.seen == []
    assert (tmp_path / "one" / "run.json").stat().st_mtime_ns == before
    with pytest.raises(TacitError, match="already holds this run"):
        run(experiment, tmp_path / "one")


def stopped(experiment: Experiment, out: Path) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        run(experiment, out, callbacks=Stopper(3), checkpoint_seconds=0.0)


@pytest.mark.parametrize("name", ["fedmf", "local_only"])
def test_the_checkpoint_of_another_experiment_is_refused(
    name: str, plays: Path, tmp_path: Path
) -> None:
    mine = small(name, plays, rounds=5)
    other = small(name, plays, "backbone.dim=5", rounds=5)
    stopped(mine, tmp_path / "mine")
    stopped(other, tmp_path / "other")
    shutil.rmtree(tmp_path / "mine" / "checkpoint")
    shutil.copytree(tmp_path / "other" / "checkpoint", tmp_path / "mine" / "checkpoint")
    with pytest.raises(TacitError, match="belongs to another experiment"):
        run(mine, tmp_path / "mine", resume=True)


def test_damaged_checkpoints_are_refused_in_a_sentence(plays: Path, tmp_path: Path) -> None:
    experiment = small("fedmf", plays, rounds=5)
    stopped(experiment, tmp_path / "one")
    for number, (what, sentence) in enumerate(
        (
            ("metrics.jsonl", "has 0 lines but the checkpoint is of round 2"),
            ("checkpoint/best", "has lost its best round"),
        )
    ):
        out = tmp_path / str(number)
        shutil.copytree(tmp_path / "one", out)
        path = out / what
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        with pytest.raises(TacitError, match=sentence):
            run(experiment, out, resume=True)
    (tmp_path / "one" / "checkpoint" / "last" / "state.json").write_text("[]")
    with pytest.raises(TacitError, match="is damaged"):
        run(experiment, tmp_path / "one", resume=True)


def test_what_cannot_run_leaves_no_folder_behind(plays: Path, tmp_path: Path) -> None:
    for experiment in (
        replace(small("fedmf", plays), rounds=0),
        small("fedmf", tmp_path / "none.csv"),
        small("fedrap", plays, engine="fused"),
        replace(small("fedmf", plays), device="tpu"),
    ):
        with pytest.raises(TacitError):
            run(experiment, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_engines_select_and_rank_alike(plays: Path, tmp_path: Path) -> None:
    results = {
        engine: run(
            replace(small("pfedrec", plays, rounds=3, engine=engine), precision="float64"),
            tmp_path / engine,
        )
        for engine in ("loop", "cohort", "fused")
    }
    for engine in ("cohort", "fused"):
        assert results[engine].metrics == results["loop"].metrics
        assert results[engine].engine.path == engine


def test_what_the_server_can_read_is_said_with_and_without_noise(tmp_path: Path) -> None:
    plain = run(resolve("fedmf", rounds=1), tmp_path / "plain")
    sent = f"a client sends items ({32 * plain.counts.items:,} numbers)"
    assert plain.privacy.server_reads == (
        sent,
        "dense update: the server can read which items were touched, and which were liked",
    )
    noisy = run(resolve("fedmf", rounds=1, plugins=["laplace:scale=0.1"]), tmp_path / "noisy")
    assert noisy.privacy.guarantee == "none"
    assert noisy.privacy.server_reads == (
        sent,
        "Laplace noise, scale 0.1 per entry and client",
        "nothing is promised of what the noise hides",
    )


RECALLS = ["Recall@20", "Recall@50", "Recall@100"]


def test_runs_on_untouched_items_also_write_recall_and_resume_to_the_same_lines(
    tmp_path: Path,
) -> None:
    experiment = resolve("pfedrec", plugins=["mdifffr"], rounds=4, sets=["backbone.dim=8"])
    result = run(experiment, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="killed"):
        run(experiment, tmp_path / "parts", callbacks=Stopper(3), checkpoint_seconds=0)
    run(experiment, tmp_path / "parts", resume=True, checkpoint_seconds=0)
    whole, parts = (tmp_path / name / "metrics.jsonl" for name in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()
    lines = lines_of(tmp_path / "whole")
    for line in lines:
        assert [name for name in line["valid"]["full"] if "Recall" in name] == RECALLS
        assert not any("Recall" in name for name in line["valid"]["sampled99"])
    # the protocol selects by the mean of the three
    means = [np.mean([line["valid"]["full"][name] for name in RECALLS]) for line in lines]
    released = result.test_released
    assert released.validation_value == pytest.approx(max(means), abs=1e-12)
    assert means[released.round - 1] == pytest.approx(max(means), abs=1e-12)


def test_other_runs_write_no_recall(tmp_path: Path) -> None:
    """Not even with a generator: their lines stay as they were."""
    experiment = resolve("pfedrec", plugins=["ridge"], rounds=1, split="time")
    run(experiment, tmp_path / "one")
    (line,) = lines_of(tmp_path / "one")
    assert list(line["valid"]["full"]) == ["HR@10", "NDCG@10"]


def test_the_numbers_do_not_follow_the_threads_of_torch(tmp_path: Path) -> None:
    """FedSpectral on few people turns the last bits of a sum into another ranking."""
    rows = ragged().interactions
    lines = [
        f"{rows.users[user]},{rows.items[item]},{time}"
        for time, (user, item) in enumerate(zip(rows.user_N, rows.item_N, strict=True))
    ]
    plays = tmp_path / "plays.csv"
    plays.write_text("user,item,time\n" + "\n".join(lines) + "\n", encoding="utf-8")
    before, found = torch.get_num_threads(), {}
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            run(resolve("fedspectral", data=str(plays), rounds=5), tmp_path / str(threads))
            assert torch.get_num_threads() == threads
            found[threads] = read_ranks(tmp_path / str(threads) / "ranks.parquet").full.above_H
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(found[1], found[2])
