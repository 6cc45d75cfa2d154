"""Where there is a GPU: servers that read single tables do on it what they do here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines.cohort import CohortEngine
from tacit.methods import cofedrec, gpfedrec
from tacit.testing.play import same_to, trace
from tacit.testing.worlds import ragged

TRAIN = split_dataset(ragged(n_users=9, n_items=24), CLEAN).train
METHODS = {
    "gpfedrec": gpfedrec(dim=5, strength=2.0),
    "cofedrec": cofedrec(dim=5, strength=0.5, clusters=3, sample=None),
    "cofedrec on a sample": cofedrec(dim=5, strength=0.5, clusters=3, sample=9),
}


def slow(method: Method) -> Method:
    changes = {"batch": 16, "epochs": 2, "items": Sgd(0.1, per_item=2.0)}
    return replace(method, local=replace(method.local, **changes))  # type: ignore[type-var]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_gives_the_same_numbers(name: str) -> None:
    method = slow(METHODS[name])
    expected = trace(method, TRAIN, CohortEngine(torch.float64))
    found = trace(method, TRAIN, CohortEngine(torch.float64, device="cuda"))
    assert found.state.private["items.own"].is_cuda  # it stays there between rounds
    for leaf, value in expected.end.items():
        assert same_to(value, found.end[leaf].cpu(), 1e-9 * max(expected.change(leaf), 1.0)), leaf
    assert expected.change("items.own") > 0.01


def test_a_state_moves_without_a_copy_where_it_is() -> None:
    state = trace(slow(METHODS["gpfedrec"]), TRAIN, CohortEngine(torch.float64), rounds=1).state
    here = state.on("cpu")
    assert here.private["items.own"] is state.private["items.own"]
    assert (here.round_number, here.loss) == (state.round_number, state.loss)
    there = state.on("meta")
    assert {leaf.device.type for leaf in (*there.shared.values(), *there.private.values())} == {
        "meta"
    }
    assert not state.private["items.own"].is_meta
