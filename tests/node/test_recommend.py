"""Lists from local state alone: those of the simulation, without torch, and after new rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.data.split import split_dataset
from tacit.engines.select import scorer_of
from tacit.evaluation.metrics import per_user
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.node.device import Node
from tacit.node.ranking import Ranking
from tacit.testing.nodes import KEY, catalogue_of, nodes_of
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import Ranked, Received, Refused

DATA = with_content(ragged(n_users=5, n_items=24))
DIM = ["backbone.dim=4"]
EXPERIMENTS = {
    "pfedrec": resolve("pfedrec", sets=DIM, rounds=3),
    "fedmf": resolve("fedmf", sets=DIM, rounds=3),
    "fedmf + fedrkg": resolve("fedmf", plugins=["fedrkg:every=1"], sets=DIM, rounds=3),
    "fcf + fedmr": resolve(
        "fcf", plugins=["fedmr"], sets=["backbone.dim=6", "items.width=6"], rounds=3
    ),
    "fedease": resolve("fedease", rounds=3),
    "fedspectral": resolve("fedspectral", sets=["width=2"], rounds=3),
    "fednext": resolve("fednext", rounds=3),
}
LINEAR = ("fedease", "fedspectral", "fednext")


def played(tiny_server: Callable[..., Any], name: str, folder: Path, rounds: int = 2) -> Any:
    server = tiny_server(EXPERIMENTS[name], DATA, nodes_of(DATA, folder))
    for _ in range(rounds):
        server.play_round()
    return server


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_lists_and_hits_are_those_of_the_simulation(
    name: str, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    server = played(tiny_server, name, tmp_path)
    state = server.simulated(2)
    scores = scorer_of(server.algorithm, server.train, state, 0)
    rows, split = DATA.interactions, split_dataset(DATA, server.experiment.protocol)
    expected = rank(scores, split.valid).full
    for user, node in enumerate(server.nodes):
        answer = server.rank(node)
        assert isinstance(answer, Ranked), answer
        user_E, value_E = per_user(expected, "NDCG@10")
        own = value_E[user_E == user].sum()
        assert float(answer.arrays["full:NDCG@10"]) == pytest.approx(float(own), abs=1e-6)
        assert isinstance(server.deliver(node), Received)
        score_I = scores(np.array([user]))[0].astype(np.float64)
        score_I[rows.item_N[rows.user_N == user]] = -np.inf
        best = np.argsort(-score_I, kind="stable")[: min(5, int(np.isfinite(score_I).sum()))]
        found = Node.open(node.store.folder, KEY).recommend(5)
        assert [line.item for line in found] == [rows.items[code] for code in best]
        assert np.allclose([line.score for line in found], score_I[best], atol=1e-5)
        linear = Ranking.read(node.store).linear  # type: ignore[union-attr]
        assert (linear is not None) == (name in LINEAR)


@pytest.mark.parametrize("name", LINEAR)
def test_what_was_recorded_a_minute_ago_counts(
    name: str, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    """As if the history had it when the model was delivered: the latest item of all."""
    server = played(tiny_server, name, tmp_path)
    node = server.nodes[2]
    server.deliver(node)
    ranking = Ranking.read(node.store)
    assert ranking is not None
    assert ranking.linear is not None
    before = ranking.scores(0, node.histories())
    item = node.recommend(1)[0].item
    node.record(item, time=10**9)
    after = ranking.scores(0, node.histories())
    code = node.catalogue.code_of[item]
    history = np.append(ranking.linear.history(0), code)
    weights = ranking.linear.weight_A[np.arange(len(history))[::-1]]
    assert np.allclose(after, weights @ ranking.linear.matrix_II[history])
    assert not np.allclose(after, before)
    assert item not in [line.item for line in node.recommend(99)]


def test_the_selected_round_is_the_one_that_was_delivered(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    server = played(tiny_server, "pfedrec", tmp_path, rounds=1)
    node = server.nodes[0]
    server.deliver(node, final=False)
    best, state = node.recommend(5), replace(server.state)
    server.play_round()
    assert node.recommend(5) == best  # what was delivered stays until something else is
    late, server.state = server.state, state
    assert isinstance(server.deliver(node, final=True), Received)
    assert node.recommend(5) == best
    server.state = late
    server.play_round()
    server.state.round_number = 2  # nobody told that this round was the best so far
    refused = server.deliver(node, final=False)
    assert isinstance(refused, Refused)
    assert refused.reason == "stale"
    assert node.recommend(5) == best
    # at the end people rank with what they have, which is better than with nothing
    assert isinstance(server.deliver(node, final=True), Received)
    assert Ranking.read(node.store).round_number == 2  # type: ignore[union-attr]


def test_new_items_come_with_a_model_of_a_round_that_is_over(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """The selected round's private state is found again, and old items keep their scores."""
    server = played(tiny_server, "fedmf", tmp_path, rounds=1)
    node = server.nodes[0]
    server.deliver(node, final=False)
    before, state = node.recommend(99), replace(server.state)
    server.play_round()
    larger = replace(node.catalogue, ids=(*node.catalogue.ids, "new"), arrays={}, version=2)
    assert asked(node, larger.message("shop")) == Received("shop", 2)
    server.state = state
    rows_ID = np.concatenate([server.arrays()["items"], np.full((1, 4), 9.0, np.float32)])
    server.state.shared = {"items": server.state.shared["items"].new_tensor(rows_ID)}
    server.plan = replace(server.plan, catalogue=larger.digest)
    assert isinstance(server.deliver(node), Received)
    after = node.recommend(99)
    assert {line.item for line in after} == {line.item for line in before} | {"new"}
    scores = {line.item: line.score for line in after}
    assert all(scores[line.item] == line.score for line in before)


def test_a_round_is_ranked_once(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """Whoever could ask with many tables would find out what is held out."""
    server = played(tiny_server, "pfedrec", tmp_path)
    node, first = server.nodes[0], server.rank(server.nodes[0])
    server.state.shared["items"] = -server.state.shared["items"]
    again = server.rank(node)
    assert {k: v.tolist() for k, v in first.arrays.items()} == {
        k: v.tolist() for k, v in again.arrays.items()
    }
    assert isinstance(server.rank(node, "test"), Ranked)
    assert server.rank(node, "valid").reason == "stale"
    server.state.round_number -= 1
    assert server.rank(node).reason == "stale"


def test_the_list_is_that_of_tacit_recommend(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    """From the folder of a finished run on the reference engine to one of its people's devices."""
    experiment = resolve(
        "fedmf",
        sets=[*DIM, "protocol.select=last"],
        rounds=2,
        data=str(_file(tmp_path)),
        engine="loop",
    )
    tacit.run(experiment, tmp_path / "run")
    dataset = prepare(experiment).dataset
    server = tiny_server(experiment, dataset, nodes_of(dataset, tmp_path / "nodes"))
    for _ in range(2):
        server.play_round()
    for node in server.nodes:
        server.deliver(node)
        expected = tacit.recommend(tmp_path / "run", user=node.people[0], k=7)
        found = node.recommend(7)
        assert [line.item for line in found] == [line.item for line in expected]
        assert [line.score for line in found] == [line.score for line in expected]


def _file(folder: Path) -> Path:
    rows = ragged(n_users=6, n_items=24).interactions
    assert rows.time_N is not None
    lines = [
        f"p{u},i{i},{t}" for u, i, t in zip(rows.user_N, rows.item_N, rows.time_N, strict=True)
    ]
    path = folder / "plays.csv"
    path.write_text("user,item,time\n" + "\n".join(lines) + "\n")
    return path


OFFLINE = """
import json, socket, sys, time
def cut(*_, **__):
    raise OSError("the network is cut")
socket.socket = socket.create_connection = cut
from tacit.cli.main import main
loaded = time.process_time()
code = main(["node", "recommend", sys.argv[1], "-k", "3", "--json"])
done = time.process_time()
heavy = [name for name in ("torch", "polars", "numba", "scipy") if name in sys.modules]
print(json.dumps([code, heavy, done - loaded]), file=sys.stderr)
"""


def test_recommend_needs_no_torch_and_no_network(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    server = played(tiny_server, "pfedrec", tmp_path)
    node = server.nodes[0]
    server.deliver(node)
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(node.store.folder)],
        env={**os.environ, "TACIT_NODE_KEY": KEY.hex()},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, heavy, seconds = json.loads(done.stderr)
    assert (code, heavy) == (0, [])
    assert [one["item"] for one in json.loads(done.stdout)["items"]] == [
        line.item for line in node.recommend(3)
    ]
    assert seconds < 0.3  # of the processor: how busy the machine is does not count


def test_without_a_model_there_is_no_list(tmp_path: Path) -> None:
    node = Node.init(tmp_path / "node", KEY, catalogue_of(DATA), users=["ada"])
    with pytest.raises(tacit.TacitError, match="no model yet"):
        node.recommend()
