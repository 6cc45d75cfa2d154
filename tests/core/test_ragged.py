"""Ragged batches: parts of them, and methods whose round is also written for many clients at
once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.algorithm import Exchange
from tacit.core.custom import CustomMethod
from tacit.core.optim import Adam, Momentum, Sgd
from tacit.core.types import Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.clients import ClientDraws
from tacit.engines.custom import CustomEngine
from tacit.engines.participation import Participants
from tacit.engines.ragged import ragged_batch
from tacit.methods.fcf_als import FcfAls
from tacit.methods.feddae import FedDAE
from tacit.methods.fedpergnn import FedPerGNN
from tacit.methods.metamf import MetaMF
from tacit.testing.custom_tests import custom_trace
from tacit.testing.play import same_to
from tacit.testing.synthetic import ragged

SMALL = FedPerGNN(dim=5, hidden=4, neighbours=3)
META = MetaMF(dim=5, user_width=4, memory=6, hidden=7)


def train() -> TrainView:
    return split_dataset(ragged(), CLEAN).train


def test_a_client_draws_in_a_ragged_batch_what_it_draws_alone() -> None:
    view = train()
    data = ClientDraws.of(SMALL.algorithm(Task.of(view)), Exchange(), view, 3, 2, torch.float64)
    user_P = np.array([4, 1, 7])
    batch = ragged_batch(data, Participants(user_P, np.array([True, False, True])))
    for place, user in enumerate(user_P):
        _, history, _, item, label, _, noise, _ = data.block(np.array([user]))
        assert batch.history[place].tolist() == history[0].tolist()
        assert batch.samples[place].tolist() == item[0].tolist()
        begin, end = batch.samples.start_U1[place : place + 2]
        assert batch.label_N[begin:end].tolist() == label[0].tolist()
        entry = np.array([0, 5])
        assert torch.equal(batch.noise_at("slot", np.full(2, user), entry), noise["slot"][0][entry])
        assert torch.equal(batch.noise("slot", np.array([user])), noise["slot"])


def test_part_of_a_ragged_batch() -> None:
    data = ClientDraws.of(
        SMALL.algorithm(Task.of(train())), Exchange(), train(), 3, 2, torch.float64
    )
    batch = ragged_batch(
        data, Participants(np.arange(5), np.array([True, False, True, True, False]))
    )
    pieces = list(batch.pieces(2))
    assert [piece.user_P.tolist() for piece in pieces] == [[0, 1], [2, 3], [4]]
    assert np.concatenate([piece.label_N for piece in pieces]).tolist() == batch.label_N.tolist()
    other = batch.take(np.array([3, 0]))
    assert other.samples[0].tolist() == batch.samples[3].tolist()
    assert other.label_N[-len(batch.samples[0]) :].sum() == len(batch.history[0])


@pytest.mark.parametrize(
    "method",
    [
        replace(SMALL, hidden=0, negatives=False),
        replace(SMALL, negatives=False),
        replace(SMALL, dim=3, neighbours=1),
        replace(META, left=3, predictor=2),
        replace(META, left=9, clip=1e-3),
        replace(META, server=Adam(rate=0.01, weight_decay=0.1)),
        FedDAE(hidden=5, latent=3, gate=4, epochs=3, local=Adam(0.01, weight_decay=0.1)),
        FedDAE(hidden=5, latent=3, gate=4, dropout=0.0, annealing="cumulative"),
        FedDAE(hidden=5, latent=3, gate=4, epochs=3, local=Sgd(0.1, weight_decay=0.2)),
        FedDAE(hidden=5, latent=3, gate=4, local=Sgd(0.001, per_item=4.0, decay=0.9)),
        FcfAls(dim=4, confidence=0.0, ridge=0.5),
        FcfAls(dim=6, confidence=7.0),
    ],
    ids=str,
)
def test_a_ragged_batch_gives_what_its_clients_would(method: CustomMethod) -> None:
    """Settings that the battery leaves out; some clients sit out, some never report."""
    assert method.algorithm(Task.of(train())).ragged is method
    alone, batch = (
        custom_trace(method, train(), CustomEngine(torch.float64, block)) for block in (1, None)
    )
    for name, value in alone.end.items():
        assert same_to(value, batch.end[name], 1e-10 * max(1.0, alone.change(name))), name


def test_what_needs_each_clients_gradient_runs_no_ragged_batch() -> None:
    assert not replace(SMALL, clip=1.0).runs_ragged
    assert not replace(SMALL, laplace=1.0).runs_ragged
    assert not FedDAE(local=Momentum(0.1)).runs_ragged  # no kernel has its velocity


def test_a_ragged_batch_that_never_reports_moves_no_server() -> None:
    view, engine = train(), CustomEngine()
    for method in (SMALL, META, FedDAE(hidden=5, latent=3, gate=4), FcfAls(dim=4)):
        state = engine.start(method.algorithm(Task.of(view)), view, seed=0)
        before = {name: value.clone() for name, value in state.shared.items()}
        silent = Participants(np.arange(3), np.zeros(3, dtype=bool))
        engine.round(method.algorithm(Task.of(view)), view, state, silent, seed=0)
        assert all(torch.equal(before[name], value) for name, value in state.shared.items())
        assert state.round_number == 1
