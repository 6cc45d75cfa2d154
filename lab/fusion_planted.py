"""Is the router personal, and does content help? Asked of planted datasets, which know.

`make fusion-planted` runs it (some minutes on 2 cores) and writes `docs/results/fusion-planted.md`
and `.json`. Five datasets, each with a seed of its own. Every row tries the same rates on the
validation part of the first one; test ranks are made only after that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit import streams
from tacit.analysis.router import PREFERENCE, separation
from tacit.cli.output import say
from tacit.core.method import Method
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import Split
from tacit.engines.explain import explain
from tacit.engines.scoring import client_parameters
from tacit.evaluation.metrics import metric, per_user
from tacit.evaluation.ranking import rank
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.files import write_text
from tacit.methods import fcf
from tacit.plugins.fusion import fedmr, fedvlr, id_only_control
from tacit.study.search import Looks, best_of
from tacit.study.writer import as_markdown as table_in_markdown

SEEDS = (0, 1, 2, 3, 4)
ROUNDS, EVERY, WIDTH = 60, 5, 32
# (rate of the private parts, η of the item table, rate of the server's Adam)
RATES = ((1.0, 0.1, 0.003), (1.0, 0.1, 0.01), (1.0, 0.3, 0.003), (0.3, 0.3, 0.003))
CONTROL = "id-only control"
ROWS: dict[str, Callable[[Method, float], Method]] = {
    CONTROL: lambda base, rate: id_only_control(base, 64, rate),
    "single views": lambda base, rate: fedmr(base, "single", encoder_rate=rate, id_width=64),
    "single views of text and image": lambda base, rate: fedmr(
        base, "single_text+single_image", encoder_rate=rate, id_width=64
    ),
    "fedmr": lambda base, rate: fedmr(base, encoder_rate=rate, id_width=64),
    "fedvlr": lambda base, rate: fedvlr(base, encoder_rate=rate, id_width=64),
    "single views, shuffled": lambda base, rate: fedmr(
        base, "single", encoder_rate=rate, id_width=64, shuffled=True
    ),
    "fedmr, shuffled": lambda base, rate: fedmr(
        base, encoder_rate=rate, id_width=64, shuffled=True
    ),
}


@dataclass
class Found:
    """What one row gave: per dataset the users' NDCG@10, and how its weights separate users."""

    rates: tuple[float, float, float]
    gain_U: list[np.ndarray] = field(default_factory=list)
    hits: list[float] = field(default_factory=list)
    by_router: list[float] = field(default_factory=list)
    by_change: list[tuple[float, float, float]] = field(default_factory=list)


def trained(row: str, rates: tuple[float, float, float], seed: int) -> tuple[Trainer, Split, float]:
    """A run of a row on the dataset of a seed, which keeps its best round by validation; and the
    value of that round."""
    rate, per_item, encoder_rate = rates
    method = ROWS[row](fcf(WIDTH, rate, per_item), encoder_rate)
    split = split_dataset(planted_dataset(seed), CLEAN)
    experiment = Experiment(row, method, ROUNDS, seed=seed, evaluate_every=EVERY)
    trainer = Trainer(experiment, split.train, 1)
    looks = Looks(experiment, split.valid, keep=True)
    looks.train(trainer)
    return trainer, split, looks.best


def weigh(trainer: Trainer, split: Split, seed: int, found: Found) -> None:
    """How well image minus text tells who chooses by image: by router weights, and by how much
    scores of own items change when a modality is dropped."""
    algorithm, state, train = trainer.algorithm.composition, trainer.best, split.train
    assert algorithm is not None
    assert state is not None
    routed_U, changed_U = np.full(train.n_users, np.nan), np.full(train.n_users, np.nan)
    for user in range(train.n_users):
        own_H = np.unique(train.positives[user])
        told = explain(
            algorithm, client_parameters(algorithm, state, user, train.history(user)), own_H
        )
        weight_V = told.weight_NV.mean(axis=0)
        routed_U[user] = weight_V[-1] - weight_V[-2]  # the views of image and text come last
        change_M = np.abs(told.input_NM).mean(axis=0)
        changed_U[user] = change_M[-1] - change_M[-2]
    truth_U = planted_dataset(seed).truth[PREFERENCE]
    routed, changed = separation(routed_U, truth_U), separation(changed_U, truth_U)
    assert routed is not None
    assert changed is not None
    found.by_router.append(routed.auc)
    found.by_change.append((changed.auc, changed.low, changed.high))


def collect(report: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """All rows: rates on validation of the first dataset, then every dataset's test."""
    torch.set_num_threads(1)
    results: dict[str, Found] = {}
    for row in ROWS:
        best = best_of([trained(row, rates, SEEDS[0])[2] for rates in RATES])
        assert best is not None
        found = results[row] = Found(RATES[best])
        for seed in SEEDS:
            trainer, split, _ = trained(row, found.rates, seed)
            ranks = rank(trainer.best_scores(), split.test).full
            found.gain_U.append(per_user(ranks, "NDCG@10")[1])
            found.hits.append(metric(ranks, "HR@10"))
            if row != CONTROL and not row.endswith("shuffled"):
                weigh(trainer, split, seed, found)
        report(f"{row}: NDCG@10 {np.mean([g.mean() for g in found.gain_U]):.4f}")
    return {
        row: {
            "rates": found.rates,
            "ndcg": [float(gain_U.mean()) for gain_U in found.gain_U],
            "hits": found.hits,
            "margin": margin(found, results[CONTROL]),
            "auc_by_router": found.by_router,
            "auc_by_change": found.by_change,
        }
        for row, found in results.items()
    }


def margin(one: Found, other: Found, draws: int = 2000) -> tuple[float, float, float]:
    """Mean difference per user over all datasets, and its 95 % interval over users."""
    difference_N = np.concatenate(one.gain_U) - np.concatenate(other.gain_U)
    generator = streams.numpy_generator(0, streams.RESAMPLE, 0, streams.name_of("margin"))
    drawn = generator.integers(0, len(difference_N), size=(draws, len(difference_N)))
    low, high = np.quantile(difference_N[drawn].mean(axis=1), [0.025, 0.975])
    return float(difference_N.mean()), float(low), float(high)


def as_markdown(results: dict[str, dict[str, Any]]) -> str:
    rows = []
    for row, found in results.items():
        mean, low, high = found["margin"]
        over = "" if row == CONTROL else f"{mean:+.4f} ({low:+.4f} to {high:+.4f})"
        # other views mix modalities
        told = found["auc_by_router"] and row.startswith("single views")
        routed = f"{np.mean(found['auc_by_router']):.3f}" if told else ""
        changed = "; ".join(f"{a:.2f} ({b:.2f}-{c:.2f})" for a, b, c in found["auc_by_change"])
        hits, gain = f"{np.mean(found['hits']):.4f}", f"{np.mean(found['ndcg']):.4f}"
        rows.append([row, hits, gain, over, routed, changed])
    heading = ["row", "HR@10", "NDCG@10", "NDCG@10 minus control (95 % over users)"]
    heading += ["AUC by router", "AUC by dropped modality (95 %, per dataset)"]
    return "\n".join(
        [
            "# Planted datasets: is the router personal, does content help?",
            "",
            f"Written by `make fusion-planted`: FCF {WIDTH} wide, {len(SEEDS)} datasets of 300 "
            f"users and about 240 items, {ROUNDS} rounds, protocol `clean`. Each row chose among "
            f"the same {len(RATES)} rates on validation of the first dataset.",
            "",
            table_in_markdown(heading, rows),
            "",
            "AUC: how often a user whose taste was planted in images has a larger image-minus-text "
            "weight than one whose taste was planted in texts. By router: mean over datasets of "
            "the weight of the image view minus that of the text view. By dropped modality: mean "
            "absolute change of the scores of a user's train items when the modality is taken "
            "away. Shuffled: every item has another item's content.",
            "",
        ]
    )


if __name__ == "__main__":
    found = collect(say)
    folder = Path("docs/results")
    write_text(folder / "fusion-planted.md", as_markdown(found))
    write_text(folder / "fusion-planted.json", json.dumps(found, indent=1) + "\n")
