"""The benchmark of fused items: a dataset of the right size, a naive loop of the same model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lab import bench, measuring
from lab.bench import MOVIE, measure
from lab.naive import NaiveFusion
from lab.synthetic import movie_sized_train
from tacit.cli.main import main
from tacit.core.compose import compose
from tacit.core.types import Task
from tacit.methods import fcf
from tacit.plugins.fusion import fedmr
from tacit.privacy.secure_sum.plan import plan_sum
from tacit.privacy.secure_sum.simulation import simulate_round


def test_the_dataset_has_movies_size() -> None:
    train = movie_sized_train()
    assert (train.n_users, train.n_items, len(train.positives.item_N)) == MOVIE
    assert all(len(np.unique(train.positives[u])) == train.positives.size_U[u] for u in range(99))
    assert {name: table.value_IF.shape for name, table in train.content.items()} == {
        "text": (2_528, 512),
        "image": (2_528, 512),
    }


def test_the_naive_loop_has_the_same_parameters_and_learns() -> None:
    train = movie_sized_train(20, 50, 140)
    naive = NaiveFusion(train)
    algorithm = compose(fedmr(fcf()), Task.of(train))
    ours = sum(i.count for i in (*algorithm.shared.values(), *algorithm.private.values()))
    counted = [p.numel() for part in (naive.items, naive.reader) for p in part.parameters()]
    assert sum(counted) == ours
    naive.round(np.array([3, 4]))
    three, four = (naive.kept[user]["router.0.weight"] for user in (3, 4))
    assert not three.equal(four)
    assert all(parameter.grad is not None for parameter in naive.items.parameters())


def test_what_is_measured_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measure((40, 30, 200), repeats=1, sampled=2)
    assert found["ratio"] == pytest.approx(found["naive_seconds"] / found["seconds"])
    assert found["router_gigabytes"] == pytest.approx(40 * 12_547 * 4 / 1e9)

    class Done:
        stdout = f"something said before\n{json.dumps(found)}\n"

    monkeypatch.setattr(measuring.subprocess, "run", lambda *_, **__: Done)
    lines: list[str] = []
    assert bench.fusion(lines.append) == found
    assert "15,908 clients" in lines[0]
    assert f"{found['ratio']:.1f} x the naive loop" in lines[2]


def test_a_secure_sum_is_measured_as_it_is_played() -> None:
    lines: list[str] = []
    found = bench.secure_sums(lines.append, length=300, crowds=(10, 20))
    assert [line.split()[0] for line in lines[1:3]] == ["10", "20"]
    assert "the server of 10 clients, of whom 3 drop out" in lines[3]
    plan = plan_sum(clients=20, fewest=14, colluders=1, bound=1.0, length=300, noise=4.0)
    assert found["20"]["neighbours"] == plan.degree
    played = simulate_round(plan, lambda _: np.zeros(300))
    assert found["20"]["sent_bytes"] == max(played.sent_bytes.values())
    assert found["20"]["received_bytes"] == max(played.received_bytes.values())


def test_bench_hands_its_lines_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(report: bench.Report, *, quick: bool = False) -> dict[str, int]:
        report(f"quick is {quick}")
        return {"rounds": 3}

    monkeypatch.setattr(bench, "bench", measured)
    assert main(["--quick"], bench.app) == 0
    assert capsys.readouterr().out == "quick is True\n"
    assert main(["--json"], bench.app) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ('{\n "rounds": 3\n}\n', "quick is False\n")
