"""Clients that train on views in one compiled pass: the loop's numbers, and which path ran."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.method import Method
from tacit.core.optim import Adam
from tacit.core.types import ITEMS
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling
from tacit.data.split import split_dataset
from tacit.engines.accelerators import views, why_not_fused
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.engines.scoring import Scorer, with_history
from tacit.errors import TacitError
from tacit.methods import fcf, fedavg, fedmf, fedncf, fedrap, pfedrec
from tacit.parts.local import GradientsOnly, Reconstruct
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.plugins.channel import clip
from tacit.plugins.fusion import fedmr, fedvlr, id_only_control
from tacit.testing.play import algorithm_for, same_to, trace
from tacit.testing.synthetic import ragged, with_content
from tacit.testing.threads import assert_threads_change_nothing

WIDE = torch.float64
TRAIN = split_dataset(with_content(ragged(n_users=12, n_items=24)), CLEAN).train


def fused(base: Method, **settings: object) -> Method:
    """With small steps of the encoder: large ones make routers so sure that torch's own slope of a
    softmax loses half of its digits, and nothing can agree with it."""
    return fedmr(base, id_width=5, encoder_rate=0.05, **settings)  # type: ignore[arg-type]


def trained(method: Method, epochs: int, batch: int) -> Method:
    assert isinstance(method.local, GradientsOnly)
    inner = replace(method.local.inner, epochs=epochs, batch=batch)  # type: ignore[type-var]
    return replace(method, local=replace(method.local, inner=inner))


SOFT = BinaryCrossEntropy(on="probabilities")
COMPILED = {
    "one step": trained(fused(fcf(dim=4, rate=1.0)), 1, 2048),
    "five steps, products of rows": trained(fused(fcf(dim=4, rate=1.0)), 5, 2048),
    "many steps, some step by step": trained(fused(fcf(dim=4, rate=1.0)), 2, 16),
    "alternating": trained(fused(pfedrec(dim=4, per_item=1.0)), 3, 2048),
    "alternating, one step": trained(fused(pfedrec(dim=4, per_item=1.0)), 1, 2048),
    "alternating, last alone": fused(pfedrec(dim=4, per_item=1.0), sends="last_gradient"),
    "last alone": trained(fused(fcf(dim=4, rate=1.0), sends="last_gradient"), 2, 16),
    "no bias": trained(fused(fedmf(dim=4, per_item=1.0)), 3, 32),
    "by examples": trained(fused(fedavg(dim=4)), 3, 32),
    "one view": id_only_control(fcf(dim=4), id_width=5),
    "two softmaxes": trained(fused(fcf(dim=4, rate=1.0), softmaxes=2), 3, 2048),
    "normalised": fedvlr(fcf(dim=4, rate=1.0), id_width=5),
    "probabilities": replace(fused(fcf(dim=4)), objective=SOFT),
    "drawn once a round": replace(fused(fcf(dim=4)), sampling=Sampling(3, redraw="round")),
    "not found again": fused(fcf(dim=4), restores=False),
}
REFUSED = {
    "the router is shared": fused(fcf(dim=4), router="shared"),
    "one weight each for a reader": fused(fcf(dim=4), rule="item"),
    "SharedMlp is not linear": fused(fedncf(dim=4, layers=(3, 1))),
    "not plain gradient descent": fused(
        replace(fcf(dim=4), local=replace(fcf().local, model=Adam()))  # type: ignore[type-var]
    ),
    "bounds steps": fedvlr(
        replace(fcf(dim=4), local=replace(fcf().local, gradient_clip=1.0)),  # type: ignore[type-var]
        id_width=5,
    ),
    "the channel clips": clip(fedvlr(fcf(dim=4), id_width=5), 1.0),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_path_gives_the_loops_numbers(name: str) -> None:
    method, engine = COMPILED[name], CohortEngine(WIDE, fused="always")
    assert engine.describe(algorithm_for(method, TRAIN)).text.startswith("fused: views kernel")
    reference, found = (trace(method, TRAIN, e) for e in (LoopEngine(WIDE), engine))
    for parameter, value in reference.end.items():
        allowed = 1e-9 * max(reference.change(parameter), float(value.abs().max()))
        assert same_to(value, found.end[parameter], allowed), parameter
    assert found.state.loss == pytest.approx(reference.state.loss, rel=1e-10)


def test_clients_move_and_differ() -> None:
    """Else equality would say little."""
    found = trace(COMPILED["five steps, products of rows"], TRAIN, CohortEngine(WIDE))
    for name in (ITEMS, "head.w", "router.in.w", "router.out.w", "project.text.w"):
        assert found.change(name) > 1e-4, name
    assert found.end["router.in.w"].std(0).max() > 1e-4


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_compiled_says_why(reason: str) -> None:
    algorithm = algorithm_for(REFUSED[reason], TRAIN)
    assert algorithm.with_server_views is not None
    assert reason in str(why_not_fused(algorithm.with_server_views, "cpu"))
    assert CohortEngine().describe(algorithm).text.startswith("cohort: ")
    with pytest.raises(TacitError, match=reason):
        CohortEngine(fused="always").start(algorithm, TRAIN, 0)


def test_private_rows_and_other_phases_are_not_compiled() -> None:
    assert algorithm_for(fused(fedrap(dim=4)), TRAIN).with_server_views is None
    method = fused(fcf(dim=4))
    other = algorithm_for(
        replace(method, local=GradientsOnly(Reconstruct())), TRAIN
    ).with_server_views
    assert other is not None
    assert "phases of its own" in views.claims(other).reason


def test_single_precision_stays_close() -> None:
    method = COMPILED["five steps, products of rows"]
    reference = trace(method, TRAIN, LoopEngine())
    found = trace(method, TRAIN, CohortEngine())
    for name in ("head.w", "router.in.w", "router.out.w"):
        assert same_to(reference.end[name], found.end[name], 1e-4 * reference.change(name), 4), name


@pytest.mark.parametrize("name", ["many steps, some step by step", "alternating"])
def test_threads_change_nothing(name: str) -> None:
    many = split_dataset(with_content(ragged(n_users=150)), CLEAN).train
    assert_threads_change_nothing(lambda engine: trace(COMPILED[name], many, engine, rounds=2))


@pytest.mark.parametrize(
    "name", ["many steps, some step by step", "two softmaxes", "one view", "no bias", "shared"]
)
def test_scores_are_those_of_each_reader_alone(name: str) -> None:
    method = fused(fcf(dim=4), router="shared") if name == "shared" else COMPILED[name]
    algorithm, engine = algorithm_for(method, TRAIN), CohortEngine(WIDE)
    state = engine.start(algorithm, TRAIN, 0)
    engine.round(algorithm, TRAIN, state, Participation().draw(TRAIN, 0, 1), 0)
    users = np.array([5, 0, 11, 1])
    score_BI = Scorer(algorithm, state, train=TRAIN)(users)
    for b, user in enumerate(users):
        p = {
            **state.shared,
            **{parameter: value[user] for parameter, value in state.private.items()},
        }
        alone = algorithm.logits(with_history(algorithm, p, TRAIN.history(user)))
        assert torch.allclose(alone, torch.from_numpy(score_BI[b]), rtol=1e-10, atol=1e-12)
