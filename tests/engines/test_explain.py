"""What a view and an input bring to a logit: against the formula, and against whole scorers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.compose import ComposedAlgorithm
from tacit.core.method import Method
from tacit.core.parts import HistoryRows
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines.explain import explain, fused, views_of
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.engines.scoring import Scorer, client_parameters
from tacit.engines.state import State
from tacit.methods import METHODS, fcf, fedmf, fedneumf, fedrap, fedvbpr
from tacit.parts.mixture import Mixture
from tacit.plugins.fusion import fedmr, fedvlr, id_only_control
from tacit.testing.play import algorithm_for
from tacit.testing.synthetic import ragged, with_content

TRAIN = split_dataset(with_content(ragged()), CLEAN).train
CASES: dict[str, Method] = {
    "linear": fedmr(fcf(dim=4), id_width=5),
    "personal rows": fedmr(fedrap(dim=4), id_width=5),
    "user vector": fedmr(fedmf(dim=4), id_width=5, router="shared"),
    "per item": fedmr(fcf(dim=4), id_width=5, rule="item"),
    "sent": fedvlr(fcf(dim=4), id_width=5),
    "one view": fedmr(fcf(dim=4), "sum", id_width=5),
    "tower": fedmr(fedneumf(dim=8), id_width=5),
    "appended": fedvbpr(dim=8),
}
LINEAR = ("linear", "personal rows", "user vector", "per item", "sent", "one view")


def played(method: Method) -> tuple[ComposedAlgorithm, State]:
    algorithm, engine = algorithm_for(method, TRAIN), LoopEngine(torch.float64)
    state = engine.start(algorithm, TRAIN, 0)
    engine.round(algorithm, TRAIN, state, Participation().draw(TRAIN, 0, 1), 0)
    return algorithm, state


@pytest.mark.parametrize("name", LINEAR)
def test_views_bring_w_theta_f_to_a_linear_logit(name: str) -> None:
    algorithm, state = played(CASES[name])
    encoder, (vector, bias) = algorithm.method.items, algorithm.method.backbone.linear  # type: ignore[misc]
    assert isinstance(encoder, Mixture)
    user, item_N = 5, np.array([3, 0, 41])
    p = client_parameters(algorithm, state, user, TRAIN.history(user))
    found = explain(algorithm, p, item_N)
    read = algorithm.method.sync.read
    view_IW = encoder.views(p, read(p))
    view_NVD = view_IW[item_N].unflatten(-1, (len(encoder.views_of), 4))
    expected_NV = torch.from_numpy(found.weight_NV) * (view_NVD @ p[vector])
    assert np.allclose(found.view_NV, expected_NV.numpy(), atol=1e-10)
    start = float(p[bias]) if bias else 0.0
    assert np.allclose(found.view_NV.sum(axis=1) + start, found.logit_N, atol=1e-10)
    assert np.allclose(found.weight_NV.sum(axis=1), 1.0)
    assert found.views == views_of(algorithm.method)


def test_the_weights_are_those_of_the_router() -> None:
    algorithm, state = played(CASES["linear"])
    encoder, user = algorithm.method.items, 7
    assert isinstance(encoder, Mixture)
    own_H = np.unique(TRAIN.positives[user])
    p = client_parameters(algorithm, state, user, TRAIN.history(user))
    view_HW = encoder.views(p, p["items"])[own_H]
    logit_HV = encoder._route(p, view_HW)
    expected_V = torch.softmax(logit_HV.mean(0), dim=0)
    found = explain(algorithm, p, np.array([1, 2]))
    assert np.allclose(found.weight_NV, expected_V.numpy()[None], atol=1e-12)
    history = HistoryRows(
        p, view_HW, torch.full((len(own_H),), 1 / len(own_H), dtype=torch.float64)
    )
    assert torch.allclose(encoder.weights(p, view_HW, history), expected_V)


@pytest.mark.parametrize("name", CASES)
def test_inputs_bring_what_a_ranking_without_them_lacks(name: str) -> None:
    """The scorer of the method with `without=…`, on the same state, is another way to there."""
    algorithm, state = played(CASES[name])
    encoder, user = fused(algorithm.method), 5
    assert encoder is not None
    p = client_parameters(algorithm, state, user, TRAIN.history(user))
    found = explain(algorithm, p, np.arange(TRAIN.n_items))
    score_I = Scorer(algorithm, state, train=TRAIN)(np.array([user]))[0]
    assert np.allclose(found.logit_N, score_I, atol=1e-9)
    assert found.inputs == ("id", "text", "image")
    for place, dropped in enumerate(found.inputs):
        less = replace(encoder, without=(dropped,))  # type: ignore[type-var]
        other = algorithm_for(replace(algorithm.method, items=less), TRAIN)
        without_I = Scorer(other, state, train=TRAIN)(np.array([user]))[0]
        assert np.allclose(found.input_NM[:, place], score_I - without_I, atol=1e-9)
        assert np.abs(found.input_NM[:, place]).max() > 1e-4


def test_a_tower_loses_a_view_with_its_weights_held() -> None:
    algorithm, state = played(CASES["tower"])
    encoder = algorithm.method.items
    assert isinstance(encoder, Mixture)
    p = client_parameters(algorithm, state, 5, TRAIN.history(5))
    found = explain(algorithm, p, np.arange(3))
    view_NW = encoder.views(p, p["items"])[:3].clone()
    view_NW[:, 4:8] = 0  # the second view, which is 4 wide
    x_ND = encoder.weighed(view_NW, torch.from_numpy(found.weight_NV))
    less_N = algorithm.method.backbone.score(p, x_ND).numpy()
    assert np.allclose(found.view_NV[:, 1], found.logit_N - less_N, atol=1e-12)


def test_what_there_is_nothing_to_explain_of() -> None:
    assert fused(fcf()) is None
    assert fused(id_only_control(fcf())) is None  # as wide, but ids alone
    assert fused(METHODS["popularity"].build()) is None
    assert views_of(fedvbpr()) == ()
    algorithm, state = played(fcf(dim=4))
    with pytest.raises(ValueError, match="nothing of an item but its id"):
        explain(algorithm, client_parameters(algorithm, state, 0), np.array([0]))
