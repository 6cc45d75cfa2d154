"""Scorers of people: functions that agree with the lists, and ONNX files that agree with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.experiment.resolve import resolve
from tacit.node.owner import export
from tacit.node.ranking import Ranking
from tacit.node.scorers import HISTORY_IN, scorers
from tacit.testing.nodes import nodes_of
from tacit.testing.synthetic import ragged, with_content

DATA = with_content(ragged(n_users=3, n_items=24))
DIM = ["backbone.dim=4"]
EXPERIMENTS = {
    "pfedrec": resolve("pfedrec", sets=DIM, rounds=3),
    "fedncf": resolve("fedncf", rounds=3),
    "fedmf + fedrkg": resolve("fedmf", plugins=["fedrkg:every=1"], sets=DIM, rounds=3),
    "fcf + fedmr": resolve(
        "fcf", plugins=["fedmr"], sets=["backbone.dim=6", "items.width=6"], rounds=3
    ),
    "fedease": resolve("fedease", rounds=3),
    "fednext": resolve("fednext", rounds=3),
    "fcf_als": resolve("fcf_als", rounds=3),
}


@pytest.fixture
def delivered(tmp_path: Path, tiny_server: Callable[..., Any], request: Any) -> Any:
    """A node of all people with the model of one round."""
    server = tiny_server(EXPERIMENTS[request.param], DATA, nodes_of(DATA, tmp_path, [[0, 1, 2]]))
    server.play_round()
    server.deliver(server.nodes[0])
    return server.nodes[0]


def given(node: Any, name: str, user: int) -> tuple[np.ndarray, np.ndarray]:
    """What goes into a scorer of a person, and the kept scores that have to come out."""
    ranking = Ranking.read(node.store)
    assert ranking is not None
    if name == HISTORY_IN:
        assert ranking.linear is not None
        return ranking.linear.history(user), ranking.score_UI[user]
    item_N = np.arange(len(node.catalogue))[::-2].copy()
    return item_N, ranking.score_UI[user][item_N]


@pytest.mark.parametrize("delivered", EXPERIMENTS, indirect=True)
def test_scorers_are_what_people_rank_with(delivered: Any) -> None:
    for user, (name, scorer) in enumerate(scorers(delivered)):
        codes, expected = given(delivered, name, user)
        with torch.no_grad():
            found = scorer(torch.from_numpy(codes)).numpy()
        scale = max(1.0, float(np.abs(expected).max()))
        assert np.abs(found - expected).max() <= 1e-5 * scale


@pytest.mark.parametrize("delivered", EXPERIMENTS, indirect=True)
def test_onnx_agrees_with_torch(delivered: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    names = export(delivered, tmp_path / "out")
    assert [name for name in names if name.endswith(".onnx")] == [
        f"scorer-{user}.onnx" for user in range(3)
    ]
    for user, (name, scorer) in enumerate(scorers(delivered)):
        session = runtime.InferenceSession(str(tmp_path / "out" / f"scorer-{user}.onnx"))
        codes, _ = given(delivered, name, user)
        for some in (codes, codes[:1]):
            [found] = session.run(None, {name: some.astype(np.int64)})
            with torch.no_grad():
                expected = scorer(torch.from_numpy(some)).numpy()
            assert np.abs(found - expected).max() <= 1e-5


def test_the_model_is_that_of_the_plan(tmp_path: Path, tiny_server: Callable[..., Any]) -> None:
    """An export after the catalogue grew still knows the model that was delivered before."""
    server = tiny_server(EXPERIMENTS["pfedrec"], DATA, nodes_of(DATA, tmp_path / "nodes"))
    server.play_round()
    node = server.nodes[0]
    server.deliver(node)
    larger = replace(node.catalogue, ids=(*node.catalogue.ids, "new"), arrays={}, version=2)
    node.answer(larger.message("shop"))
    assert "history.csv" in export(node, tmp_path / "out")
