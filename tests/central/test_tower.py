"""Compiled epochs and scores of towers, held to autograd and to the plain logit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.central.pairs import TOWER, PairModel, Samples
from tacit.central.tower import LANES, TowerModel
from tacit.core.optim import Adam
from tacit.core.types import Params
from tacit.data.views import Lists, TrainView
from tacit.methods import Ncf, NeuMf

N_USERS, N_ITEMS = 40, LANES + 30
TRAIN = TrainView(
    N_ITEMS, Lists.empty(N_USERS), np.arange(1, N_USERS + 1, dtype=np.uint64), Lists.empty(N_USERS)
)
MODELS = (
    Ncf(dim=6, layers=(7,), optimiser=Adam(rate=0.02)),
    Ncf(dim=6, layers=(7, 4, 3), optimiser=Adam(rate=0.02)),
    NeuMf(dim=6, layers=(7,), product=5, optimiser=Adam(rate=0.02)),
    NeuMf(dim=6, layers=(8, 4, 3), product=9, optimiser=Adam(rate=0.02)),
)
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}{m.layers}")


def drawn(count: int) -> Samples:
    generator = np.random.default_rng(3)
    label_N = generator.integers(0, 2, count).astype(np.uint8)
    return Samples(
        generator.integers(0, N_USERS, count), generator.integers(0, N_ITEMS, count), label_N
    )


def trained(model: TowerModel, count: int = 3 * LANES) -> Params:
    leaves = model.start(TRAIN, 0, torch.float64)
    model.descend(leaves, drawn(count), model.law(leaves, 1, N_ITEMS))
    return leaves


@each_model
@pytest.mark.parametrize("batch", [1, LANES, LANES + 5, 2 * LANES, 10**12])
def test_chunks_of_a_batch_make_no_difference(model: TowerModel, batch: int) -> None:
    """Batches below, at and above the lanes of a chunk; the last batch is shorter."""
    model = replace(model, batch=batch)
    found = trained(model, 2 * LANES + 37)
    expected = model.start(TRAIN, 0, torch.float64)
    samples, law = drawn(2 * LANES + 37), model.law(expected, 1, N_ITEMS)
    loss = PairModel.descend(model, expected, samples, law)
    again = model.start(TRAIN, 0, torch.float64)
    assert model.descend(again, samples, law) == pytest.approx(loss, rel=1e-12)
    for leaf, value in expected.items():
        assert torch.allclose(found[leaf], value, rtol=0, atol=1e-10), leaf


@each_model
def test_scores_are_those_of_the_logit(model: TowerModel) -> None:
    leaves = trained(model)
    rows = {leaf: leaves[leaf][:7] for leaf in model.user_tables()}
    found, expected = model.score_rows(leaves, rows), PairModel.score_rows(model, leaves, rows)
    assert found.shape == (7, N_ITEMS)
    assert found == pytest.approx(expected, abs=1e-13)
    assert np.ptp(found) > 1e-3


@each_model
def test_equal_items_tie_wherever_they_stand(model: TowerModel) -> None:
    leaves = {leaf: value.float() for leaf, value in trained(model).items()}
    for leaf in model.item_tables():
        leaves[leaf][:] = leaves[leaf][0].clone()
    score_BI = model.score(leaves, np.arange(N_USERS))
    assert score_BI.dtype == np.float32
    assert (score_BI == score_BI[:, :1]).all()


@each_model
def test_scores_that_are_not_numbers_are_seen(model: TowerModel) -> None:
    leaves = trained(model)
    leaves[TOWER][0, 0] = float("nan")
    assert np.isnan(model.score(leaves, np.arange(2))).all()
