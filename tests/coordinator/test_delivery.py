"""What nodes rank with once a model came: the selected round's, whichever round that was.

Rounds after the selected one move what people keep for themselves. Every delivery has to find what
they had in its round, also where it brings rows for new items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.coordinator.memory import Faults, MemoryTransport, NodeDownError
from tacit.coordinator.rounds import Coordinator
from tacit.coordinator.rules import Offer
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.engines.participation import everybody
from tacit.engines.scoring import RowScorer
from tacit.engines.select import scorer_of
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.node.catalogue import Catalogue
from tacit.node.device import Node
from tacit.node.owner import facts, inspection
from tacit.node.ranking import Ranking
from tacit.testing.nodes import KEY, catalogue_of
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import Deliver, Moment, Received, Request

PEOPLE = 5
DATA: Dataset = with_content(ragged(n_users=PEOPLE, n_items=16))
SMALL = ["backbone.dim=4"]
NEW = ("new-1", "new-2")

METHODS: dict[str, Experiment] = {
    "pfedrec": resolve("pfedrec", sets=SMALL, rounds=3),
    "fedmf": resolve("fedmf", sets=SMALL, rounds=3),
    "fedmf + fedrkg": resolve("fedmf", plugins=["fedrkg:every=1"], sets=SMALL, rounds=3),
    "fedease": resolve("fedease", rounds=3),
    "fednext": resolve("fednext", rounds=3),
}
GENERATED = {
    name: resolve(
        method, plugins=[*more, "ridge:modalities=text"], split="time", sets=SMALL, rounds=3
    )
    for name, method, more in (
        ("pfedrec", "pfedrec", []),
        ("fedmf", "fedmf", []),
        ("fedmf + fedrkg", "fedmf", ["fedrkg:every=1"]),
    )
}


@pytest.fixture
def first_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hits fall from round to round, so that the first is selected."""

    def ranked(self: Coordinator, part: str, number: int) -> dict[str, float]:
        protocol = self.experiment.protocol
        return {f"{protocol.select_on}:{protocol.select_metric}": 1.0 / number}

    monkeypatch.setattr(Coordinator, "_ranked", ranked)


def ranking_of(node: Node) -> Ranking:
    found = Ranking.read(node.store)
    assert found is not None
    return found


def scores_of(node: Node) -> np.ndarray:
    """(I,) what a person here ranks with; read by another process' eyes."""
    again = Node.open(node.store.folder, KEY)
    return ranking_of(again).scores(0, again.histories())


def assert_lists_of(small: Any, rounds: int, n_items: int) -> np.ndarray:
    """Scores of the first items are those of the simulation after so many rounds, and those of
    later rounds are others where people keep something."""
    state = small.simulated([everybody(small.train)] * rounds)
    wanted_UI = scorer_of(small.algorithm, small.train, state, 0)(np.arange(PEOPLE))
    for user, node in enumerate(small.nodes.values()):
        np.testing.assert_allclose(scores_of(node)[:n_items], wanted_UI[user], atol=1e-6)
    return wanted_UI


@pytest.mark.usefixtures("first_is_best")
@pytest.mark.parametrize("name", METHODS)
def test_a_selected_round_before_the_last_keeps_its_scores_when_the_catalogue_grows(
    name: str, deployment: Callable[..., Any]
) -> None:
    small = deployment(METHODS[name], DATA)
    server = small.server()
    assert server.run().selected_round == 1
    known = len(DATA.interactions.items)
    first_UI = assert_lists_of(small, 1, known)
    if server.rounds > 1:
        last = small.simulated([everybody(small.train)] * server.rounds)
        last_UI = scorer_of(small.algorithm, small.train, last, 0)(np.arange(PEOPLE))
        assert np.abs(last_UI - first_UI).max() > 1e-4  # or nothing was seen here
    # the same model with rows for two more items: those of the first two items
    later = _later(DATA)
    wider = _as_for_two_more(server, len(later))
    plan = replace(server.plan, catalogue=later.digest)
    moment = Moment("shop", "first", 1)
    for user, node in enumerate(small.nodes.values()):
        assert node.answer(later.message("shop")) == Received("shop", 2)
        assert isinstance(node.answer(Deliver(moment, plan, True, wider)), Received)
        found = scores_of(node)
        assert found.shape == (known + 2,)
        np.testing.assert_allclose(found[:known], first_UI[user], atol=1e-6)
        items = [line.item for line in node.recommend(known + 2)]
        assert set(NEW) <= set(items)


def _later(data: Dataset) -> Catalogue:
    """The catalogue with two more items, which look like the first two."""
    arrays = {
        name: np.concatenate([array, array[:2]])
        for name, array in catalogue_of(data).arrays.items()
    }
    return Catalogue((*data.interactions.items, *NEW), (), arrays, version=2)


def _as_for_two_more(server: Coordinator, n_items: int) -> dict[str, np.ndarray]:
    """The selected parameters; every axis over items has two more places, with what is in its first
    two."""
    assert server.best is not None
    known, found = n_items - 2, {}
    for name, value in server.best.shared.items():
        array = value.numpy()
        for axis, size in enumerate(array.shape):
            if size == known:
                more = np.take(array, [0, 1], axis)
                array = np.concatenate([array, more], axis)
        found[name] = array
    return found


def _offer(data: Dataset) -> Offer:
    later = _later(data)
    every = np.ones(len(later), bool)
    content = Modalities(
        {
            name: FeatureTable(np.concatenate([one.value_IF, one.value_IF[:2]]), every)
            for name, one in data.modalities.items()
        }
    )
    return Offer(later.message("shop"), content)


@pytest.mark.usefixtures("first_is_best")
@pytest.mark.parametrize("name", GENERATED)
def test_new_items_are_ranked_by_what_people_had_in_the_selected_round(
    name: str, deployment: Callable[..., Any]
) -> None:
    """As `tacit add-items` and `tacit recommend` do: rows of the generator, scored by the selected
    state."""
    small = deployment(GENERATED[name], DATA)
    server = small.server()
    assert server.run().selected_round == 1
    offer, known = _offer(DATA), len(DATA.interactions.items)
    assert server.add_items(offer) == list(small.nodes)
    assert_lists_of(small, 1, known)
    assert server.best is not None
    assert server.cold is not None
    feature_CF = server.cold.fitted.rows(offer.content.take(np.arange(known, known + 2)), 2)
    row_CD = server.cold.made(server.best, torch.from_numpy(feature_CF), offer.item_key_I[known:])
    state = small.simulated([everybody(small.train)])
    wanted_UC = RowScorer.of(small.algorithm, state, small.train, row_CD, Modalities())(
        np.arange(PEOPLE)
    )
    for user, node in enumerate(small.nodes.values()):
        np.testing.assert_allclose(scores_of(node)[known:], wanted_UC[user], atol=1e-5)
        assert set(NEW) <= {line.item for line in node.recommend(known + 2)}


class DownAtTheEnd(Faults):
    """Nobody is there for the final model, until they are back."""

    back = False

    def before(self, name: str, request: Request) -> None:
        if isinstance(request, Deliver) and request.final and not self.back:
            raise NodeDownError


@pytest.mark.usefixtures("first_is_best")
@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_comes_again_is_that_of_its_round(
    name: str, deployment: Callable[..., Any]
) -> None:
    faults = DownAtTheEnd()
    small = deployment(METHODS[name], DATA, faults=faults)
    server = small.server()
    server.run()
    known = len(DATA.interactions.items)
    assert_lists_of(small, 1, known)  # the best so far is there already
    faults.back = True
    assert sorted(server.deliver_again()) == sorted(small.nodes)
    assert_lists_of(small, 1, known)
    assert all(ranking_of(node).final for node in small.nodes.values())
    assert all(ranking_of(node).state_round == 1 for node in small.nodes.values())


@pytest.mark.usefixtures("first_is_best")
def test_a_model_of_an_earlier_run_finds_what_people_had_in_it(
    deployment: Callable[..., Any], tmp_path: Path
) -> None:
    """A second run has told of its best round in the meantime."""
    small = deployment(GENERATED["pfedrec"], DATA)
    server = small.server()
    server.run()
    second = replace(small.rules, run="second")
    transport = MemoryTransport(small.nodes)
    other = Coordinator(
        small.experiment, small.roster, small.offer, transport, tmp_path / "second", second
    )
    for _ in range(4):
        other.advance()
    assert {ranking_of(node).run for node in small.nodes.values()} == {"second"}
    assert server.add_items(_offer(DATA)) == list(small.nodes)
    assert {ranking_of(node).run for node in small.nodes.values()} == {"first"}
    assert_lists_of(small, 1, len(DATA.interactions.items))


class MissesTheBest(Faults):
    """One node does not hear of rounds that are the best so far."""

    def __init__(self, name: str) -> None:
        self.name = name

    def before(self, name: str, request: Request) -> None:
        if name == self.name and isinstance(request, Deliver) and not request.final:
            raise NodeDownError


@pytest.mark.usefixtures("first_is_best")
@pytest.mark.parametrize(("method", "told"), [("pfedrec", 3), ("fedease", 1)])
def test_a_node_that_missed_the_best_round_says_so(
    method: str, told: int, deployment: Callable[..., Any]
) -> None:
    """Where people keep something; a list that depends on shared parameters alone is right."""
    deaf = DATA.interactions.users[2]
    small = deployment(METHODS[method], DATA, faults=MissesTheBest(deaf))
    server = small.server()
    assert server.run().selected_round == 1
    for name, node in small.nodes.items():
        about = ranking_of(node).about
        wanted = told if name == deaf else 1
        assert (about["round"], about["state_round"]) == (1, wanted)
        assert facts(node)["model"] == about
        said = f"private state is of round {told}: nobody told this node in time that round 1"
        assert any(said in line for line in inspection(node)) == (wanted != 1)
