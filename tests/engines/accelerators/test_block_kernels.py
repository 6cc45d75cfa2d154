"""Compiled blocks against the general ones, under the options that they know, and when they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling
from tacit.data.split import split_dataset
from tacit.data.views import Lists
from tacit.engines import block
from tacit.engines.accelerators import block_claim
from tacit.engines.accelerators.claims import Claim
from tacit.engines.cohort import CohortEngine
from tacit.engines.participation import Participation
from tacit.methods import cofedrec, fedrap, gpfedrec, pfedrec
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Additive, Proximal
from tacit.testing.play import algorithm_for, same_to, trace
from tacit.testing.synthetic import ragged

TRAIN = split_dataset(ragged(n_users=9, n_items=24), CLEAN).train
WHO = Participation(ratio=0.8, dropout=0.2)


def small(method: Method, **local: object) -> Method:
    changes = {"batch": 16, "epochs": 2, **local}
    return replace(method, local=replace(method.local, **changes))  # type: ignore[type-var]


SLOW = Sgd(0.1, per_item=2.0)
RULES = {
    "fedrap": small(fedrap(dim=5, rate=0.1, item_rate=5.0), model=Sgd(0.1), items=Sgd(5.0)),
    "fedrap fixed": small(
        replace(fedrap(dim=5, rate=0.1, item_rate=5.0), sync=Additive(0.5, 0.3, "fixed"))
    ),
    "fedrap without a norm": small(
        replace(fedrap(dim=5, rate=0.1, item_rate=5.0), sync=Additive(0.5, 0.3, "fixed", "none"))
    ),
    "cofedrec": small(cofedrec(dim=5, strength=0.5, clusters=3, sample=None), items=SLOW),
    "cofedrec on a sample": small(cofedrec(dim=5, strength=0.5, clusters=3, sample=9), items=SLOW),
    "gpfedrec": small(gpfedrec(dim=5, strength=2.0), items=SLOW),
    "gpfedrec without a pull": small(replace(gpfedrec(dim=5), sync=Proximal(0.0)), items=SLOW),
}
OPTIONS: dict[str, Callable[[Method], Method]] = {
    "plain": lambda m: m,
    "probabilities": lambda m: replace(m, objective=BinaryCrossEntropy("probabilities")),
    "one batch for all": lambda m: small(m, batch=10_000),
    "redraw every epoch": lambda m: replace(m, sampling=Sampling(4, "epoch")),
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("rule", RULES)
def test_it_is_the_general_block(rule: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # every positive twice: rows are drawn more than once in a batch
    doubled = Lists.from_pairs(
        np.repeat(np.arange(TRAIN.n_users), 2 * TRAIN.positives.size_U),
        np.repeat(TRAIN.positives.item_N, 2),
        TRAIN.n_users,
    )
    train = replace(TRAIN, positives=doubled, time_N=None)
    method, engine = OPTIONS[option](RULES[rule]), CohortEngine(torch.float64, fused="never")
    assert block_claim(algorithm_for(method, train), "cpu").kernel is not None
    found = trace(method, train, engine, participation=WHO)
    monkeypatch.setattr(block, "block_claim", lambda algorithm, device: Claim(None))
    expected = trace(method, train, engine, participation=WHO)
    for name, value in expected.end.items():
        assert same_to(value, found.end[name], 1e-10 * expected.change(name)), name
    assert found.state.loss == pytest.approx(expected.state.loss, rel=1e-10)
    assert expected.change("items.own") > 0.01


@pytest.mark.parametrize(
    "method",
    [
        pfedrec(dim=5),
        small(fedrap(dim=5), gradient_clip=1.0),
        small(fedrap(dim=5), model=Adam()),
        fedrap(dim=5, weight_decay=1e-3),
        replace(gpfedrec(dim=5), local=replace(cofedrec().local, items=SLOW)),
    ],
)
def test_where_it_does_not_apply(method: Method) -> None:
    assert block_claim(algorithm_for(method, TRAIN), "cpu").kernel is None


def test_a_gpu_has_the_general_block() -> None:
    assert block_claim(algorithm_for(fedrap(dim=5), TRAIN), "cuda").kernel is None
