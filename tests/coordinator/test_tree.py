"""Sums through a tree of aggregators are those of one server, to the rounding of float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.coordinator.admission import Limits
from tacit.coordinator.memory import Faults, MemoryTransport, NodeDownError
from tacit.coordinator.robust import RobustRule
from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rounds import Coordinator
from tacit.coordinator.rules import Rules
from tacit.coordinator.secure import SecureSettings
from tacit.coordinator.tree import Aggregator
from tacit.data.dataset import Dataset
from tacit.engines.participation import Participants, everybody
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.testing.nodes import catalogue_of
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import (
    Deliver,
    Letter,
    Moment,
    Play,
    Played,
    Received,
    Refused,
    Request,
    SumAnswer,
    SumRequest,
    from_letter,
)

DATA: Dataset = with_content(ragged(n_users=12, n_items=20))
RULES = Rules("shop", "first")
SMALL = ["backbone.dim=4"]
EXPERIMENTS: dict[str, Experiment] = {
    "pfedrec": resolve("pfedrec", sets=SMALL, rounds=3),
    "fedmf + fedrkg": resolve("fedmf", plugins=["fedrkg:every=1"], sets=SMALL, rounds=3),
    "fcf + fedmr": resolve(
        "fcf", plugins=["fedmr"], sets=["backbone.dim=6", "items.width=6"], rounds=3
    ),
    "fedease": resolve("fedease", rounds=3),
}


class AllDown(Faults):
    def before(self, name: str, request: Request) -> None:
        raise NodeDownError


class Heard(Faults):
    """Notes what arrives from whom; `change` may put something else in its place."""

    def __init__(self, change: Callable[[str, Letter], Letter | None] | None = None) -> None:
        self.arrived: list[tuple[str, Letter]] = []
        self.change = change

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        changed = answer if self.change is None else self.change(name, answer)
        if changed is None:
            raise NodeDownError
        self.arrived.append((name, changed))
        return [(name, changed)]


@dataclass(eq=False)
class Tree:
    """The nodes of a small deployment below two aggregators, of which one has two below itself."""

    small: Any
    folder: Path
    rules: Rules = RULES
    faults: dict[str, Faults] = field(default_factory=dict)
    made: dict[str, Aggregator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = list(self.small.nodes)
        left = self.aggregator("left", names[:4])
        inner = [self.aggregator("middle", names[4:9]), self.aggregator("right", names[9:])]
        above = Roster(
            tuple(
                Member(one, 100 + n, inner[n].people) for n, one in enumerate(("middle", "right"))
            )
        )
        below = dict(zip(("middle", "right"), inner, strict=True))
        rules = replace(self.rules, through_aggregators=True)
        outer = Aggregator(above, self.transport("outer", below), self.folder / "outer", rules)
        self.made |= {"left": left, **below, "outer": outer}

    def aggregator(self, name: str, nodes: list[str]) -> Aggregator:
        roster = Roster(tuple(self.small.roster[one] for one in nodes))
        below = {one: self.small.nodes[one] for one in nodes}
        return Aggregator(roster, self.transport(name, below), self.folder / name, self.rules)

    def transport(self, name: str, below: dict[str, Any]) -> MemoryTransport:
        return MemoryTransport(below, self.faults.get(name))

    def server(self, **others: Any) -> Coordinator:
        roster = Roster(
            tuple(
                Member(name, number, self.made[name].people)
                for number, name in enumerate(("left", "outer"))
            )
        )
        rules = replace(self.rules, through_aggregators=True, **others)
        known = (self.small.experiment, roster, self.small.offer)
        transport = MemoryTransport(self.made, self.faults.get("root"))
        return Coordinator(*known, transport, self.folder / "root", rules)


@pytest.fixture
def tree(deployment: Callable[..., Any], tmp_path: Path) -> Callable[..., Tree]:
    def made(experiment: Experiment, **others: Any) -> Tree:
        rules = others.get("rules", RULES)
        small = deployment(experiment, DATA, rules=rules)
        return Tree(small, tmp_path / "tree", **others)

    return made


def replace_folder(small: Any, folder: Path) -> Any:
    """The same deployment with nodes of its own."""
    return replace(small, folder=folder)


def assert_close(server: Coordinator, state: Any, most: float) -> None:
    assert server.server.shared.keys() == state.shared.keys()
    for key, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[key], value, rtol=0.0, atol=most)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_sum_through_a_tree_is_the_flat_sum(name: str, tree: Callable[..., Tree]) -> None:
    experiment = replace(EXPERIMENTS[name], precision="float64")
    root = Heard()
    grown = tree(experiment, faults={"root": root})
    server = grown.server(validates=False)
    outcome = server.run()
    assert (outcome.rounds, outcome.given_up) == (server.rounds, 0)
    assert_close(
        server, grown.small.simulated([everybody(grown.small.train)] * server.rounds), 1e-12
    )
    uploads = [from_letter(one) for _, one in root.arrived if one.kind == "Played"]
    counts = [one.clients for one in uploads if isinstance(one, Played)]
    assert set(counts) <= {0, 4, 8}  # the root sees sums of whole branches and nothing else
    assert 4 in counts
    assert 8 in counts
    assert sorted(server.progress.delivered) == ["left", "outer"]


def test_in_single_precision_a_sum_keeps_its_digits(tree: Callable[..., Tree]) -> None:
    root = Heard()
    grown = tree(EXPERIMENTS["pfedrec"], faults={"root": root})
    server = grown.server(validates=False)
    server.run()
    assert_close(server, grown.small.simulated([everybody(grown.small.train)] * 3), 1e-6)
    kinds = {
        array.dtype.name
        for _, one in root.arrived
        if one.kind == "Played"
        for array in one.arrays.values()
    }
    assert kinds == {"float64"}


def test_hits_are_added_up_through_a_tree(
    tree: Callable[..., Tree], deployment: Callable[..., Any]
) -> None:
    grown = tree(EXPERIMENTS["fedease"])
    flat = replace_folder(grown.small, grown.folder / "flat").server().run().metrics
    assert flat
    assert grown.server().run().metrics == pytest.approx(flat, abs=1e-12)


def test_who_drops_out_below_is_missing_in_the_sum_and_nowhere_else(
    tree: Callable[..., Tree],
) -> None:
    experiment = replace(EXPERIMENTS["pfedrec"], precision="float64")
    users = DATA.interactions.users
    lost = {users[1], users[6], users[10]}

    def unheard(name: str, letter: Letter) -> Letter | None:
        return None if name in lost and letter.kind == "Played" else letter

    faults = {name: Heard(unheard) for name in ("left", "middle", "right")}
    grown = tree(experiment, faults=faults)
    server = grown.server(validates=False)
    server.run()
    reports = np.array([user not in lost for user in users])
    who = [Participants(np.arange(len(users)), reports)] * 3
    assert_close(server, grown.small.simulated(who), 1e-12)


def test_a_branch_without_a_quorum_says_so_and_the_rest_goes_on(tree: Callable[..., Tree]) -> None:
    experiment = replace(EXPERIMENTS["fedease"], precision="float64")

    def silent(name: str, letter: Letter) -> Letter | None:
        return None if letter.kind == "Played" else letter

    grown = tree(experiment, faults={"left": Heard(silent)})
    server = grown.server(validates=False)
    server.run()
    told = [one for one in server.records.read() if one.kind == "exchange"]
    assert all(one.answered == ("outer",) and one.declined == {"failed": 1} for one in told)
    reports = np.array([place >= 4 for place in range(12)])
    who = [Participants(np.arange(12), reports)] * server.rounds
    assert_close(server, grown.small.simulated(who), 1e-12)


# A moment is answered once.


def play_of(server: Coordinator, number: int) -> Play:
    arrays = {name: value.numpy() for name, value in server.server.shared.items()}
    return Play(Moment("shop", "first", number), server.plan, arrays)


def test_the_same_moment_again_gets_the_same_sum(tree: Callable[..., Tree]) -> None:
    grown = tree(EXPERIMENTS["pfedrec"])
    server, left = grown.server(), grown.made["left"]
    assert isinstance(left.answer(grown.small.offer.catalogue), Received)
    first = left.answer(play_of(server, 1))
    assert isinstance(first, Played)
    assert first.clients == 4
    # a new process, whose nodes are all gone: it tells what it told, and not a smaller sum
    nobody = MemoryTransport(grown.small.nodes, AllDown())
    again = Aggregator(left.roster, nobody, left.folder, left.rules)
    second = again.answer(play_of(server, 1))
    assert isinstance(second, Played)
    assert (second.clients, second.weight) == (4, first.weight)
    assert all(np.array_equal(second.arrays[key], value) for key, value in first.arrays.items())
    later = left.answer(play_of(server, 2))
    assert isinstance(later, Played)
    old = left.answer(play_of(server, 1))
    assert isinstance(old, Refused)
    assert old.reason == "stale"


def test_a_server_and_aggregators_that_are_killed_come_to_the_same_numbers(
    tree: Callable[..., Tree],
) -> None:
    class ServerKilledError(BaseException):
        pass

    class Random(Faults):
        def __init__(self, seed: int) -> None:
            self.random, self.kills = np.random.default_rng(seed), 0

        def after(self, name: str, request: Request, answer: Letter) -> Any:
            if self.random.random() < 0.15:
                self.kills += 1
                raise ServerKilledError
            return [(name, answer)]

    experiment = replace(EXPERIMENTS["pfedrec"], precision="float64")
    root, middle = Random(1), Random(2)
    grown = tree(experiment, faults={"root": root, "middle": middle})
    for _ in range(60):
        try:
            server = grown.server(validates=False)
            server.run()
            break
        except ServerKilledError:  # new processes, from what lies on the disk
            grown = Tree(grown.small, grown.folder, faults=grown.faults)
    assert server.progress.stage == "done"
    assert root.kills > 0
    assert middle.kills > 0
    assert_close(server, grown.small.simulated([everybody(grown.small.train)] * 3), 1e-12)


def test_other_runs_do_not_make_a_moment_new(tree: Callable[..., Tree]) -> None:
    grown = tree(EXPERIMENTS["pfedrec"])
    server, left = grown.server(), grown.made["left"]
    left.answer(grown.small.offer.catalogue)
    first, asked = left.answer(play_of(server, 1)), play_of(server, 1)
    other = left.answer(replace(asked, moment=replace(asked.moment, run="second")))
    assert isinstance(first, Played)
    assert isinstance(other, Played)
    nobody = MemoryTransport(grown.small.nodes, AllDown())
    again = Aggregator(left.roster, nobody, left.folder, left.rules).answer(asked)
    assert isinstance(again, Played)
    assert all(np.array_equal(again.arrays[key], value) for key, value in first.arrays.items())


def test_an_aggregator_imports_nothing_that_a_plan_names(
    tree: Callable[..., Tree], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_by_a_plan.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    grown = tree(EXPERIMENTS["pfedrec"])
    server, left = grown.server(), grown.made["left"]
    left.answer(grown.small.offer.catalogue)
    asked = play_of(server, 1)
    text = f'imports = ["named_by_a_plan"]\n{asked.plan.experiment}'
    answer = left.answer(replace(asked, plan=replace(asked.plan, experiment=text)))
    assert isinstance(answer, Refused)
    assert answer.reason == "not agreed"


def test_a_branch_has_the_model_when_all_its_nodes_have_it(tree: Callable[..., Tree]) -> None:
    users = DATA.interactions.users
    away = {users[0], users[2]}

    def unheard(name: str, letter: Letter) -> Letter | None:
        return None if name in away and letter.kind == "Received" else letter

    grown = tree(EXPERIMENTS["fedease"], faults={"left": Heard(unheard)})
    server = grown.server(validates=False)
    server.run()
    assert server.progress.delivered == ["outer"]
    away.clear()
    assert sorted(server.deliver_again()) == ["left", "outer"]


def test_a_branch_of_one_person_counts_in_single_precision(
    deployment: Callable[..., Any], tmp_path: Path
) -> None:
    small = deployment(EXPERIMENTS["pfedrec"], DATA, rules=RULES)
    names = list(small.nodes)
    made = {}
    for name, below in (("one", names[:1]), ("others", names[1:])):
        roster = Roster(tuple(small.roster[node] for node in below))
        nodes = MemoryTransport({node: small.nodes[node] for node in below})
        made[name] = Aggregator(roster, nodes, tmp_path / name, RULES)
    members = (Member(name, number, made[name].people) for number, name in enumerate(made))
    rules = replace(RULES, through_aggregators=True, validates=False)
    known = (small.experiment, Roster(tuple(members)), small.offer, MemoryTransport(made))
    server = Coordinator(*known, tmp_path / "root", rules)
    server.run()
    assert not server.admission.refused
    assert_close(server, small.simulated([everybody(small.train)] * 3), 1e-6)


# Bounds are checked at every level.


def test_a_bad_upload_is_refused_by_the_first_aggregator_that_sees_it(
    tree: Callable[..., Tree],
) -> None:
    bad = DATA.interactions.users[2]

    def huge(name: str, letter: Letter) -> Letter:
        if name != bad or letter.kind != "Played":
            return letter
        return Letter(letter.kind, letter.values, {k: v + 1e6 for k, v in letter.arrays.items()})

    rules = replace(RULES, limits=Limits(norm=100.0))
    grown = tree(EXPERIMENTS["pfedrec"], faults={"left": Heard(huge)}, rules=rules)
    server = grown.server(validates=False)
    server.run()
    left = grown.made["left"]
    assert left.admission.refused == {(bad, "too long"): 3}
    assert not server.admission.refused
    assert all(value.abs().max() < 100.0 for value in server.server.shared.values())


def test_an_aggregator_that_sends_too_much_is_refused_above(tree: Callable[..., Tree]) -> None:
    def more(name: str, letter: Letter) -> Letter:
        if name != "left" or letter.kind != "Played":
            return letter
        return Letter(letter.kind, letter.values, {k: v + 1e6 for k, v in letter.arrays.items()})

    def crowd(name: str, letter: Letter) -> Letter:
        if name != "middle" or letter.kind != "Played":
            return letter
        return Letter(letter.kind, {**letter.values, "clients": 6}, letter.arrays)

    rules = replace(RULES, limits=Limits(norm=100.0))
    faults = {"root": Heard(more), "outer": Heard(crowd)}
    grown = tree(EXPERIMENTS["pfedrec"], faults=faults, rules=rules)
    server = grown.server(validates=False)
    server.run()
    assert server.admission.refused == {("left", "too long"): 3}
    assert grown.made["outer"].admission.refused == {("middle", "wrong count"): 3}


def test_a_rule_over_uploads_works_in_each_branch(tree: Callable[..., Tree]) -> None:
    rules = replace(RULES, rule=RobustRule("norm_bound", bound=1e-3))
    grown = tree(EXPERIMENTS["pfedrec"], rules=rules)
    server = grown.server(validates=False)
    start = {name: value.clone() for name, value in server.server.shared.items()}
    server.run()
    moved = sum(float((value - start[name]).norm()) for name, value in server.server.shared.items())
    assert 0.0 < moved < 1e-2


# Under secure sums.


def test_masked_crowds_below_aggregators(tree: Callable[..., Tree]) -> None:
    """An aggregator and all above it receive masked vectors and sums of crowds, and no upload."""
    heard = {name: Heard() for name in ("left", "middle", "right", "outer", "root")}
    rules = replace(RULES, secure=SecureSettings(fewest=3, bound=50.0))
    grown = tree(EXPERIMENTS["fedmf + fedrkg"], rules=rules, faults=dict(heard))
    server = grown.server()
    outcome = server.run()
    assert outcome.given_up == 0
    assert outcome.metrics
    assert_close(server, grown.small.simulated([everybody(grown.small.train)] * 3), 1e-4)
    for name in ("left", "middle", "right"):
        sent = {one.kind for _, one in heard[name].arrived}
        assert "SumAnswer" in sent
        told = [from_letter(one) for _, one in heard[name].arrived if one.kind == "Played"]
        assert all(isinstance(one, Played) and not one.arrays for one in told)
    sums = [from_letter(one) for _, one in heard["root"].arrived if one.kind == "Played"]
    assert {one.clients for one in sums if isinstance(one, Played)} <= {0, 4, 8}
    assert not any(isinstance(from_letter(one), SumAnswer) for _, one in heard["root"].arrived)


def test_a_crowd_that_is_too_small_is_never_opened(tree: Callable[..., Tree]) -> None:
    def most_drop_out(name: str, letter: Letter) -> Letter | None:
        down = DATA.interactions.users[9:11]
        return None if name in down and letter.kind == "SumAnswer" else letter

    rules = replace(RULES, secure=SecureSettings(fewest=3, bound=50.0))
    grown = tree(EXPERIMENTS["pfedrec"], rules=rules, faults={"right": Heard(most_drop_out)})
    server = grown.server(validates=False)
    server.run()
    outer = grown.made["outer"].admission
    assert outer.declined == {("right", "failed"): 3}
    told = [one for one in server.records.read() if one.kind == "exchange"]
    assert [one.clients for one in told] == [9, 9, 9]  # left and middle


# What is refused.


@pytest.mark.parametrize(
    ("method", "plugins", "rules", "said"),
    [
        ("pfedrec", ["private:epsilon=8"], {"secure": SecureSettings(3)}, "for each crowd"),
        ("gpfedrec", [], {"allow_tables": True}, "aggregators send sums"),
    ],
)
def test_what_no_tree_can_play_is_refused(
    method: str, plugins: list[str], rules: dict[str, Any], said: str, tree: Callable[..., Tree]
) -> None:
    experiment = resolve(method, plugins=plugins, sets=SMALL, rounds=2)
    with pytest.raises(TacitError, match=said):
        tree(experiment, rules=replace(RULES, **rules)).server()


def test_an_aggregator_refuses_what_is_not_for_it(tree: Callable[..., Tree]) -> None:
    grown = tree(EXPERIMENTS["pfedrec"])
    server, left = grown.server(), grown.made["left"]
    request = play_of(server, 1)

    def reason(asked: Request) -> str:
        answer = left.answer(asked)
        assert isinstance(answer, Refused), answer
        return answer.reason

    assert reason(request) == "unknown run"  # it has no catalogue yet
    assert isinstance(left.answer(grown.small.offer.catalogue), Received)
    moment = request.moment
    assert reason(replace(request, moment=replace(moment, deployment="mall"))) == (
        "another deployment"
    )
    assert reason(replace(request, moment=replace(moment, exchange=7))) == "wrong step"
    assert reason(replace(request, moment=replace(moment, round_number=99))) == "wrong step"
    assert reason(replace(request, plan=replace(request.plan, secure=True))) == "not agreed"
    assert reason(SumRequest(moment, server.plan, "keys", "update", b"")) == "wrong step"
    assert reason(replace(catalogue_of(DATA).message("shop"), digest="0")) == "failed"
    assert reason(replace(catalogue_of(DATA).message("shop"), version=0)) == "stale"
    down = MemoryTransport(grown.small.nodes, AllDown())
    left = Aggregator(left.roster, down, left.folder, left.rules)
    assert reason(Deliver(moment, server.plan)) == "failed"  # nobody below has it
    assert reason(request) == "failed"
