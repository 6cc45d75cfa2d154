"""NineRec KU under `fedmr`: orders that need no model, beside which its numbers must be read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tacit.data.protocol import FEDMR
from tacit.data.split import split_dataset
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.methods import UnseenFirst
from tacit.testing.synthetic import noise

KU = Path(os.environ.get("TACIT_DATA", "")) / "ninerec-ku"
needs_ku = pytest.mark.skipif(
    "TACIT_DATA" not in os.environ or not KU.is_dir(),
    reason="the real dataset ninerec-ku is not here: TACIT_DATA names no folder that holds it",
)


def test_unseen_items_stand_above_all_others_and_the_rest_by_count() -> None:
    train = split_dataset(noise(n_users=6, n_items=60, history=8), FEDMR).train
    count_I = train.popularity_I()
    seen_I = count_I > 0
    assert 0 < seen_I.sum() < 60
    for method, sign in ((UnseenFirst(), 1), (UnseenFirst(then="rare"), -1)):
        score_I = method.fit(train, 0, seed=0).score_I
        assert np.array_equal(score_I[seen_I], sign * count_I[seen_I])
        assert score_I[~seen_I].min() > score_I[seen_I].max()


@needs_ku
@pytest.mark.parametrize(
    ("method", "sets", "hit", "gain"),
    [
        ("popularity", [], 0.18673, 0.05399),
        ("unseen_first", [], 0.53791, 0.18710),
        ("unseen_first", ["then=rare"], 0.69407, 0.21919),
    ],
)
def test_orders_without_a_model_on_ku(
    method: str, sets: list[str], hit: float, gain: float, tmp_path: Path
) -> None:
    """Expectations over ties, of which KU has many: 426 of its 560 items have five interactions."""
    experiment = resolve(method, data="ninerec-ku", protocol="fedmr", sets=sets)
    result = run(experiment, tmp_path / "one")
    assert result.split == "labels"
    assert result.counts.train == 3081
    full, breakdown = result.metrics.full, result.breakdown
    assert full["HR@50"] == pytest.approx(hit, abs=5e-6)
    assert full["NDCG@50"] == pytest.approx(gain, abs=5e-6)
    assert (breakdown.warm.users, breakdown.unseen.users) == (116, 88)
    # all 16 unseen items stand in the first 50 places, or in none of them
    unseen = 88 / 204 if method == "unseen_first" else 0.0
    assert breakdown.unseen.adds["HR@50"] == pytest.approx(unseen, abs=1e-12)
    assert result.reference.full.popularity["HR@50"] == pytest.approx(0.18673, abs=5e-6)
    # the first 50 of 560 items less each user's distinct train items: validation items stay
    train = prepare(experiment).split.train.positives
    chance = np.mean([50 / (560 - len(set(train[u].tolist()))) for u in range(204)])
    assert result.reference.full.chance["HR@50"] == pytest.approx(chance, rel=1e-12)


@needs_ku
def test_the_published_orders_on_ku_are_one_way_to_break_ties() -> None:
    """Counted apart from this code, where equal counts stand in order of first appearance in the
    file (in the last order: of last appearance) and unseen items in order of their ids."""
    prepared = prepare(resolve("popularity", data="ninerec-ku", protocol="fedmr"))
    split, rows = prepared.split, prepared.dataset.interactions
    assert int((np.bincount(rows.item_N) == 5).sum()) == 426
    count_I = split.train.popularity_I().astype(np.float64)
    assert int((count_I == 0).sum()) == 16
    assert int((count_I[split.valid.relevant.item_N] == 0).sum()) == 46
    appearance_I = np.arange(560) / 560
    by_id_I = np.array([int(name) for name in rows.items]) / 560
    unseen_I = count_I == 0
    for score_I, hit, gain in (
        (count_I - appearance_I, 0.186, 0.055),
        (np.where(unseen_I, 1e6 - by_id_I, count_I - appearance_I), 0.544, 0.206),
        (np.where(unseen_I, 1e6 - by_id_I, appearance_I - count_I), 0.691, 0.236),
    ):
        score_EI = np.tile(score_I, (204, 1))
        ranks = rank(score_EI.__getitem__, split.test).full
        assert round(metric(ranks, "HR@50"), 3) == hit
        assert round(metric(ranks, "NDCG@50"), 3) == gain
