"""Methods whose server reads single tables: played where it is allowed, as in the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tacit.coordinator.memory import Faults, NodeDownError
from tacit.coordinator.robust import RobustRule
from tacit.coordinator.rules import Rules
from tacit.coordinator.secure import SecureSettings
from tacit.core.types import OWN_ITEMS
from tacit.data.dataset import Dataset
from tacit.engines.participation import Participants, everybody
from tacit.engines.select import scorer_of
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.node.agreement import Agreement
from tacit.node.runs import RunBox
from tacit.testing.nodes import nodes_of
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import Give, Moment, Play, Received, Refused, Request

PEOPLE = 7
DATA: Dataset = with_content(ragged(n_users=PEOPLE, n_items=16))
SMALL = ["backbone.dim=4"]
TABLES = Rules("shop", "first", allow_tables=True)
EXPERIMENTS = {
    "gpfedrec": resolve("gpfedrec", sets=SMALL, rounds=3),
    "cofedrec": resolve("cofedrec", sets=[*SMALL, "server.clusters=4"], rounds=3),
    "gpfedrec + fedmr": resolve(
        "gpfedrec", plugins=["fedmr"], sets=["backbone.dim=6", "items.width=6"], rounds=3
    ),
}


@pytest.fixture
def agreed(deployment: Callable[..., Any]) -> Callable[..., Any]:
    """A deployment whose owners send their tables."""

    def made(experiment: Any, **others: Any) -> Any:
        small = deployment(experiment, DATA, **{"rules": TABLES, **others})
        for node in small.nodes.values():
            node.settings = replace(node.settings, agreement=Agreement(allow_tables=True))
            node.settings.write(node.store)
        return small

    return made


def assert_same(small: Any, server: Any, state: Any) -> None:
    """Shared and private parameters to the last bits of float64."""
    for name, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[name], value, rtol=0.0, atol=1e-12)
    for user, node in enumerate(small.nodes.values()):
        box = RunBox.read(node.store, Moment("shop", "first", 1))
        assert box is not None
        for name, value in state.private.items():
            found = torch.from_numpy(box.state[f"private.{name}"])
            torch.testing.assert_close(found[0], value[user], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_parameters_are_those_of_the_reference_engine(
    name: str, agreed: Callable[..., Any]
) -> None:
    small = agreed(replace(EXPERIMENTS[name], precision="float64"))
    server = small.server()
    outcome = server.run()
    assert (outcome.rounds, outcome.given_up) == (3, 0)
    state = small.simulated([everybody(small.train)] * 3)
    assert_same(small, server, state)
    # the list of the selected round is the simulation's
    chosen = small.simulated([everybody(small.train)] * outcome.selected_round)
    score_UI = scorer_of(small.algorithm, small.train, chosen, 0)(np.arange(PEOPLE))
    for user, node in enumerate(small.nodes.values()):
        held = {item for _, item, _ in node.history()}
        order = [DATA.interactions.items[i] for i in np.argsort(-score_UI[user], kind="stable")]
        wanted = [item for item in order if item not in held][:5]
        assert [line.item for line in node.recommend(5)] == wanted
        sent = [one.name for entry in node.ledger.read() for one in entry.parameters]
        assert sent.count(OWN_ITEMS) == 3  # the owner sees that a whole table left


class Away(Faults):
    """One node does not train in the second round."""

    def __init__(self, name: str) -> None:
        self.name = name

    def before(self, name: str, request: Request) -> None:
        if name == self.name and isinstance(request, Play) and request.moment.round_number == 2:
            raise NodeDownError


@pytest.mark.parametrize("name", ["gpfedrec", "cofedrec"])
def test_only_tables_that_arrived_are_read(name: str, agreed: Callable[..., Any]) -> None:
    away = DATA.interactions.users[3]
    small = agreed(replace(EXPERIMENTS[name], precision="float64"), faults=Away(away))
    server = small.server(validates=False)
    server.run()
    others = np.array([user for user in range(PEOPLE) if user != 3])
    some = Participants(others, np.ones(PEOPLE - 1, bool))
    everyone = everybody(small.train)
    assert_same(small, server, small.simulated([everyone, some, everyone]))
    told = [one for one in server.records.read() if one.name == "made from tables"]
    assert all(one.answered == one.invited for one in told)
    assert away not in told[1].invited


def test_what_is_given_fits_or_is_refused(agreed: Callable[..., Any]) -> None:
    small = agreed(EXPERIMENTS["gpfedrec"])
    server = small.server(validates=False)
    server.advance()
    node, moment = next(iter(small.nodes.values())), Moment("shop", "first", 1)
    shape = server.algorithm.private[OWN_ITEMS].shape
    good = Give(moment, server.plan, {OWN_ITEMS: np.ones(shape, np.float32)})
    before = RunBox.read(node.store, moment)
    wrong = {
        "stale": replace(good, moment=replace(moment, round_number=2)),
        "wrong step": replace(good, moment=replace(moment, exchange=1)),
    }
    for reason, request in wrong.items():
        assert node.answer(request).reason == reason
    table = good.arrays[OWN_ITEMS]
    for arrays in (
        {OWN_ITEMS: table[:-1]},
        {OWN_ITEMS: table * np.nan},
        {OWN_ITEMS: table.astype(np.float64)},
        {"user": np.ones(4, np.float32)},  # the person's own, which no server writes
    ):
        assert node.answer(replace(good, arrays=arrays)).reason == "unreadable"
    after = RunBox.read(node.store, moment)
    assert before is not None
    assert after is not None
    assert all(np.array_equal(before.state[name], value) for name, value in after.state.items())
    for _ in range(2):
        assert isinstance(node.answer(good), Received)


def test_owners_and_rules_have_to_agree(
    agreed: Callable[..., Any], deployment: Callable[..., Any], tmp_path: Any
) -> None:
    experiment = EXPERIMENTS["gpfedrec"]
    small = agreed(experiment)
    for others, said in (
        ({"allow_tables": False}, "which nothing protects"),
        ({"secure": SecureSettings(5, bound=9.0)}, "secure sums and claims of privacy rule out"),
        ({"rule": RobustRule("median")}, "The rule median is about sums"),
    ):
        with pytest.raises(TacitError, match=said):
            small.server(**others)
    with pytest.raises(TacitError):  # the method itself keeps no claim
        resolve("gpfedrec", plugins=["private"], rounds=3).check()
    plan = small.server().plan
    request = Play(Moment("shop", "first", 1), plan, {})
    [silent, *_] = nodes_of(DATA, tmp_path / "silent")
    answer = silent.answer(request)
    assert isinstance(answer, Refused)
    assert (answer.reason, "the owner sends none" in answer.sentence) == ("not agreed", True)
    asks = Agreement(allow_tables=True, only_secure=True)
    [careful, *_] = nodes_of(DATA, tmp_path / "careful", agreement=asks)
    assert careful.answer(request).reason == "not agreed"
    assert silent.ledger.read() == careful.ledger.read() == []


def test_a_node_of_many_people_has_no_single_table(deployment: Callable[..., Any]) -> None:
    groups = [[0, 1], [2, 3, 4], [5], [6]]
    small = deployment(EXPERIMENTS["gpfedrec"], DATA, rules=TABLES, groups=groups)
    with pytest.raises(TacitError, match="has several people; use nodes with one person each"):
        small.server()
