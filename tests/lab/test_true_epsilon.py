"""Epsilon of papers' noise: composed from what runs, checked by hand, and never made up."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lab import true_epsilon
from lab.definition import Data, Reading, Row, Table, load_table
from lab.fill import Filling
from lab.results import Results, UploadNorms
from lab.true_epsilon import stated, upload_norm
from tacit.attack.uploads import play_one
from tacit.core.types import Task, Upload
from tacit.experiment.prepare import prepare
from tacit.experiment.trainer import Trainer
from tacit.methods import fedmf

AS_IT_RUNS = Reading("as it runs")
CLIPPED = Reading("if clipped to 1", bound=1.0)
MEDIAN = Reading("if clipped to the median", bound="median")
IN_STEPS = Reading("if in each step", released="steps")
MULTIPLIED = Reading("if σ multiplies the bound", released="steps", multiplier=0.001)
TAIL = 4.264891  # a standard normal variable is above it with the chance 1e-5


def noisy(*plugins: str, method: str = "pfedrec", rounds: int = 100) -> Row:
    return Row("noisy", method, plugins=plugins, rounds=rounds, search_rounds=rounds, free=True)


def norms(median: float = 500.0, steps: int = 4) -> UploadNorms:
    return UploadNorms(run="runs/one", users=100, order=1, median=median, steps=steps)


def epsilon(row: Row, reading: Reading, known: UploadNorms | None = None) -> float:
    found = stated(row, reading, known)
    assert found is not None
    assert found.guarantee is not None
    assert found.guarantee.view == "local"
    return found.guarantee.epsilon


@pytest.mark.parametrize(("scale", "by_hand"), [(0.1, 2000.0), (0.5, 400.0), (50.0, 4.0)])
def test_laplace_noise_adds_up_over_releases(scale: float, by_hand: float) -> None:
    """T · 2C / scale, with T = 100 and C = 1."""
    row = noisy(f"laplace:scale={scale}")
    assert epsilon(row, CLIPPED) == pytest.approx(by_hand)
    assert epsilon(row, MEDIAN, norms(500.0)) == pytest.approx(500.0 * by_hand)
    as_it_is = stated(row, AS_IT_RUNS)
    assert as_it_is is not None
    assert (as_it_is.guarantee, as_it_is.bound, as_it_is.releases) == (None, None, 100)
    assert as_it_is.short == "no guarantee"


@pytest.mark.parametrize(
    ("row", "reading", "mu_once", "releases"),
    [
        # FedMR: variance 0.1, an upload of norm at most 1
        (noisy("gaussian:sigma=0.31623"), CLIPPED, 2 / 0.31623, 100),
        # FedRKG: sensitivity 0.1 of one upload, so 0.2 between two histories
        (noisy("clip:bound=0.1", "gaussian:sigma=0.001"), AS_IT_RUNS, 200.0, 100),
        (noisy("clip:bound=0.1", "gaussian:sigma=0.001"), IN_STEPS, 200.0, 400),
        # personal tables are sent at every hundredth round
        (
            noisy("fedrkg", "clip:bound=0.1", "gaussian:sigma=0.001", method="fedmf", rounds=1000),
            AS_IT_RUNS,
            200.0,
            10,
        ),
    ],
    ids=["fedmr", "fedrkg, uploads", "fedrkg, steps", "fedrkg, guided"],
)
def test_gaussian_noise_is_one_gaussian_of_all_releases(
    row: Row, reading: Reading, mu_once: float, releases: int
) -> None:
    """For a large mu the formula is Phi(mu/2 - epsilon/mu) = delta but for a term that makes
    epsilon a little smaller: epsilon = mu²/2 + 4.26 mu, with mu = mu_once sqrt(releases)."""
    mu = math.sqrt(releases) * mu_once
    by_hand = mu**2 / 2 + TAIL * mu
    found = epsilon(row, reading, norms(steps=4))
    assert by_hand - 2.0 < found < by_hand
    told = stated(row, reading, norms(steps=4))
    assert told is not None
    assert told.releases == releases


def test_an_epsilon_beyond_all_promises_is_told_as_none() -> None:
    """σ = 0.001 of the bound: mu = 2000 in each of 500 steps, epsilon above mu²/2 · 500 = 10⁹."""
    row = noisy("clip:bound=0.1", "gaussian:sigma=0.001")
    found = stated(row, MULTIPLIED, norms(steps=5))
    assert found is not None
    assert found.noise.scale == pytest.approx(0.0001)
    assert (found.releases, found.guarantee) == (500, None)
    assert found.short == "no guarantee (above 1e+09)"
    fewer = epsilon(row, MULTIPLIED, norms(steps=1))
    assert fewer == pytest.approx(2000.0**2 / 2 * 100 + TAIL * 20000.0, rel=1e-6)


def test_no_bound_is_made_up_for_a_row_that_has_one() -> None:
    row = noisy("clip:bound=1,order=1", "laplace:scale=0.5")
    assert epsilon(row, AS_IT_RUNS) == pytest.approx(400.0)
    assert stated(row, replace(CLIPPED, bound=0.001)) is None
    assert stated(row, MEDIAN, norms()) is None


def test_an_euclidean_bound_is_none_for_laplace_noise() -> None:
    found = stated(noisy("clip:bound=1", "laplace:scale=0.5"), AS_IT_RUNS)
    assert found is not None
    assert found.guarantee is None


def test_without_noise_nothing_is_told_and_without_a_run_nothing_is_guessed() -> None:
    assert stated(noisy(), AS_IT_RUNS) is None
    assert stated(noisy("laplace:scale=0"), AS_IT_RUNS) is None
    for reading in (MEDIAN, IN_STEPS):
        found = stated(noisy("laplace:scale=0.5"), reading)
        assert found is not None
        assert found.short == "not measured yet"


def test_rows_of_one_item_fall_together_in_a_norm() -> None:
    algorithm = fedmf(dim=1).algorithm(Task(n_users=1, n_items=6))
    upload = Upload(torch.tensor([5, 5, 0]), {"items": torch.tensor([[3.0], [1.0], [-3.0]])})
    assert "items" in algorithm.sent_by_row
    assert upload_norm(upload, algorithm, 1) == 7.0
    assert upload_norm(upload, algorithm, 2) == 5.0


ROWS = (
    replace(noisy("laplace:scale=0.5", method="fedmf", rounds=2), evaluate_every=2),
    replace(noisy(method="fedmf", rounds=2), name="plain", evaluate_every=2),
)
FEW = Table(
    "few",
    "Few",
    ROWS,
    (Data("planted"), Data("elsewhere", columns=())),
    (("full", "HR@10"),),
    1,
    paper="pfedrec",
    epsilon=(AS_IT_RUNS, CLIPPED, MEDIAN),
)


def test_a_table_measures_its_uploads_and_tells_every_reading(tmp_path: Path) -> None:
    results = Filling(FEW, tmp_path, seeds=1).fill()
    text = (tmp_path / "table-few.md").read_text(encoding="utf-8")
    assert list(results.uploads) == ["noisy | planted | paper"]
    found = results.uploads["noisy | planted | paper"]

    experiment = FEW.places[0].experiment((), 0)
    trainer = Trainer(experiment, prepare(experiment).split.train)
    users = np.unique(np.linspace(0, trainer.train.n_users - 1, true_epsilon.WATCHED).round())
    exchange, by_hand = trainer.algorithm.exchanges(1)[0], []
    for user in users.astype(int):
        state = trainer.state.copy()
        total = play_one(trainer.algorithm, trainer.train, state, exchange, user, 0)
        by_hand.append(sum(float(np.abs(value).sum()) for value in total.sums.values()))
    assert found.median == pytest.approx(float(np.median(by_hand)), rel=1e-5)
    assert found.users == len(users)

    composed = 2 * 2 * found.median / 0.5  # two releases
    lines = [line for line in text.splitlines() if line.startswith("| noisy | if clipped to the")]
    assert len(lines) == 1  # nothing is measured in the block that cannot be run
    assert lines[0].endswith(f"| {true_epsilon.epsilon_text(composed)} |")
    assert text.count("| noisy | if clipped to 1 | Laplace, scale 0.5 | 1 | 2 | 2 | 4 | 8 |") == 2
    assert text.count(true_epsilon.HOW_TO_READ) == 1
    assert "| plain | as it runs" not in text
    header = "| method | metric | published | ours, pfedrec | ours, clean | ε | popularity |"
    assert header in text

    # what was measured stands in the file, and a fresh clone needs no run for it
    again = Results.read("few", results.path)
    assert again.uploads == results.uploads
    assert again.text == results.path.read_text(encoding="utf-8")


def test_gradients_are_uploads_divided_by_the_rate_of_items() -> None:
    """The paper's sensitivity 0.1 and σ = 0.001, times the rate at which FilmTrust's items step."""
    table, seen = load_table("privacy-fedrkg"), 0
    for place in table.places:
        if "on gradients" in place.row.name:
            method = place.experiment((), 0).method
            rate = method.local.items.rate_at(1, n_items=2042)  # type: ignore[union-attr]
            clip, noise = method.channel[-2:]  # type: ignore[union-attr]
            assert clip.bound == pytest.approx(0.1 * rate)
            assert noise.noise is not None
            assert noise.noise.scale == pytest.approx(0.001 * rate)
            seen += 1
    assert seen == 6
