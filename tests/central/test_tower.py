"""Compiled epochs and scores of towers, held to autograd and to the plain logit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.central.pairs import PairModel
from tacit.central.samples import PairSamples
from tacit.central.tower import LANES, TowerModel
from tacit.central.training import TOWER, RowModel
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


def drawn(count: int) -> PairSamples:
    generator = np.random.default_rng(3)
    label_N = generator.integers(0, 2, count).astype(np.uint8)
    return PairSamples(
        generator.integers(0, N_USERS, count), generator.integers(0, N_ITEMS, count), label_N
    )


def trained(model: TowerModel, count: int = 3 * LANES) -> Params:
    parameters = model.start(TRAIN, 0, torch.float64)
    model.descend(parameters, drawn(count), model.step_rule(parameters, 1, N_ITEMS))
    return parameters


@each_model
@pytest.mark.parametrize("batch", [1, LANES, LANES + 5, 2 * LANES, 10**12])
def test_chunks_of_a_batch_make_no_difference(model: TowerModel, batch: int) -> None:
    """Batches below, at and above the lanes of a chunk; the last batch is shorter."""
    model = replace(model, batch=batch)
    found = trained(model, 2 * LANES + 37)
    expected = model.start(TRAIN, 0, torch.float64)
    samples, step_rule = drawn(2 * LANES + 37), model.step_rule(expected, 1, N_ITEMS)
    loss = RowModel.descend(model, expected, samples, step_rule)
    again = model.start(TRAIN, 0, torch.float64)
    assert model.descend(again, samples, step_rule) == pytest.approx(loss, rel=1e-12)
    for name, value in expected.items():
        assert torch.allclose(found[name], value, rtol=0, atol=1e-10), name


@each_model
def test_scores_are_those_of_the_logit(model: TowerModel) -> None:
    parameters = trained(model)
    rows = {name: parameters[name][:7] for name in model.user_tables()}
    found, expected = (
        model.score_rows(parameters, rows),
        PairModel.score_rows(model, parameters, rows),
    )
    assert found.shape == (7, N_ITEMS)
    assert found == pytest.approx(expected, abs=1e-13)
    assert np.ptp(found) > 1e-3


@each_model
def test_equal_items_tie_wherever_they_stand(model: TowerModel) -> None:
    parameters = {name: value.float() for name, value in trained(model).items()}
    for name in model.item_tables():
        parameters[name][:] = parameters[name][0].clone()
    score_BI = model.score(parameters, [], np.arange(N_USERS))
    assert score_BI.dtype == np.float32
    assert (score_BI == score_BI[:, :1]).all()


@each_model
def test_scores_that_are_not_numbers_are_seen(model: TowerModel) -> None:
    parameters = trained(model)
    parameters[TOWER][0, 0] = float("nan")
    assert np.isnan(model.score(parameters, [], np.arange(2))).all()
