"""Over Flower's messages, in one process: the numbers are those of the reference engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rounds import Coordinator, Offer, Rules
from tacit.coordinator.secure import SecureSettings
from tacit.core.types import Task
from tacit.data.split import split_dataset
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.flower.apps import make_client_app, read_copies
from tacit.flower.in_process import InProcessGrid
from tacit.flower.transport import FlowerTransport
from tacit.node.device import Node
from tacit.testing.nodes import KEY, catalogue_of, nodes_of
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import Deliver, Letter, Moment, Refused, RunPlan, from_letter

app = pytest.importorskip("flwr.app")

DATA = with_content(ragged(n_users=20, n_items=30))
SMALL = ["backbone.dim=6"]
EXPERIMENTS: dict[str, Experiment] = {
    "pfedrec": resolve("pfedrec", sets=SMALL, rounds=3),
    "fedmf + fedrkg": resolve("fedmf", plugins=["fedrkg:every=1"], sets=SMALL, rounds=3),
    "fcf + fedmr": resolve("fcf", plugins=["fedmr"], sets=[*SMALL, "items.width=6"], rounds=3),
    "fedease": resolve("fedease", rounds=3),
    "fedspectral": resolve("fedspectral", sets=["width=3"], rounds=3),
}


def opened(folder: Path, key_file: Path | None) -> Node:
    return Node.open(folder, KEY)


def grid_of(nodes: Sequence[Node], **others: Any) -> InProcessGrid:
    """The nodes under numbers as a SuperLink gives them: large, and in no order."""
    configs = {2**60 - 7 * n: {"folder": str(node.store.folder)} for n, node in enumerate(nodes)}
    return InProcessGrid(make_client_app(opened), configs, **others)


def over(grid: InProcessGrid, names: Sequence[str]) -> FlowerTransport:
    return FlowerTransport(grid, dict(zip(names, grid.node_configs, strict=True)), pause=0.0)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_parameters_are_those_of_the_reference_engine(
    name: str, precision: str, tmp_path: Path
) -> None:
    experiment = replace(EXPERIMENTS[name], precision=precision)  # type: ignore[arg-type]
    nodes, users = nodes_of(DATA, tmp_path / "nodes"), DATA.interactions.users
    server = Coordinator(
        experiment,
        Roster(tuple(Member(user, number) for number, user in enumerate(users))),
        Offer(catalogue_of(DATA).message("shop"), DATA.modalities),
        over(grid_of(nodes), users),
        tmp_path / "server",
        Rules("shop", "first", validates=False),
    )
    outcome = server.run()
    assert (outcome.rounds, outcome.given_up) == (server.rounds, 0)

    train = split_dataset(DATA, experiment.protocol).train
    algorithm = experiment.method.algorithm(Task.of(train))
    engine = LoopEngine(getattr(torch, precision))
    state = engine.start(algorithm, train, experiment.seed)
    before = {key: value.clone() for key, value in state.shared.items()}
    for _ in range(server.rounds):
        engine.round(algorithm, train, state, everybody(train), experiment.seed)
    assert server.server.shared.keys() == state.shared.keys()
    assert any(not torch.equal(before[key], value) for key, value in state.shared.items())
    most = 1e-6 if precision == "float32" else 1e-12
    for key, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[key], value, rtol=0.0, atol=most)


def test_sums_under_masks_over_flower(tmp_path: Path) -> None:
    """All steps of secure sums travel, and what is opened is the sum of the uploads."""
    experiment, users = EXPERIMENTS["fedmf + fedrkg"], DATA.interactions.users[:4]
    found = {}
    for name, secure in (("plain", None), ("masked", SecureSettings(fewest=3, bound=50.0))):
        nodes = nodes_of(DATA, tmp_path / name, [[user] for user in range(4)])
        members = [
            Member(user, number, 1, node.public_key.hex())
            for number, (user, node) in enumerate(zip(users, nodes, strict=True))
        ]
        roster = Roster(tuple(members))
        for node in nodes:
            node.set_directory(roster.directory)
        server = Coordinator(
            experiment,
            roster,
            Offer(catalogue_of(DATA).message("shop"), DATA.modalities),
            over(grid_of(nodes), users),
            tmp_path / f"{name}-server",
            Rules("shop", "first", validates=False, secure=secure),
        )
        assert server.run().given_up == 0
        found[name] = server.server.shared
    for key, value in found["plain"].items():
        torch.testing.assert_close(found["masked"][key], value, rtol=0.0, atol=1e-4)


# What goes wrong on the way.

DELIVER = Deliver(Moment("shop", "first", 1), RunPlan("", "", 1, 1))


def test_a_node_that_cannot_be_opened_says_no_more_than_that(tmp_path: Path) -> None:
    for config in ({}, {"folder": str(tmp_path / "secret-place")}):
        grid = InProcessGrid(make_client_app(opened), {5: config})
        [(name, letter)] = FlowerTransport(grid, {"a": 5}).ask({"a": DELIVER}, 5.0)
        assert isinstance(letter, Letter)
        answer = from_letter(letter)
        assert (name, type(answer)) == ("a", Refused)
        assert "secret" not in str(answer)


def test_an_owner_who_has_left_is_asked_no_more(tmp_path: Path) -> None:
    """Flower starts a new process for every message: it finds no node, and says who is gone."""
    nodes, users = nodes_of(DATA, tmp_path / "nodes")[:3], DATA.interactions.users[:3]
    nodes[1].leave()
    server = Coordinator(
        EXPERIMENTS["pfedrec"],
        Roster(tuple(Member(user, number) for number, user in enumerate(users))),
        Offer(catalogue_of(DATA).message("shop"), DATA.modalities),
        over(grid_of(nodes), users),
        tmp_path / "server",
        Rules("shop", "first", validates=False),
    )
    server.run()
    catalogue, *later = server.records.read()
    assert catalogue.declined == {"left": 1}
    assert all(not one.declined and one.dropped == (users[1],) for one in later)
    assert not nodes[1].store.folder.exists()


def test_what_is_no_request_is_refused_by_the_node(tmp_path: Path) -> None:
    grid = InProcessGrid(make_client_app(opened), {5: {"folder": str(tmp_path)}})
    records = app.RecordDict({"values": app.ConfigRecord({"kind": "Strange"})})
    [number] = grid.push_messages([app.Message(records, 5, "train", ttl=5.0)])
    [reply] = grid.pull_messages([number])
    assert reply.content["values"]["reason"] == "unreadable"


class Replies:
    """A Grid that answers with what it was given, for the first message that is pushed."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)

    def get_node_ids(self) -> list[int]:
        return [5]

    def push_messages(self, messages: Any) -> list[str]:
        return [f"m{place}" for place, _ in enumerate(messages)]

    def pull_messages(self, numbers: Any) -> list[Any]:
        found, self.replies = self.replies, []
        return found


class Reply:
    def __init__(self, to: str, node: int, content: Any = None, code: int | None = None) -> None:
        self.metadata = type("M", (), {"reply_to_message_id": to, "src_node_id": node})
        self.content, self.error = content, type("E", (), {"code": code})
        self.has_error = lambda: code is not None


def asked(*replies: Any) -> list[tuple[str, Any]]:
    transport = FlowerTransport(Replies(*replies), {"a": 5, "b": 6}, pause=0.01)
    return list(transport.ask({"a": DELIVER, "b": DELIVER}, 0.05))


GOOD = app.RecordDict({"values": app.ConfigRecord({"kind": "Received"})})


def test_answers_count_for_those_who_were_asked() -> None:
    assert [name for name, _ in asked(Reply("m1", 6, GOOD), Reply("m0", 5, GOOD))] == ["b", "a"]
    assert asked(Reply("m1", 5, GOOD)) == []  # another node answers in its place
    assert asked(Reply("old", 5, GOOD)) == []  # nobody waits for it
    twice = asked(Reply("m0", 5, GOOD), Reply("m0", 5, GOOD))
    assert [name for name, _ in twice] == ["a"]


def test_errors_of_flower_are_no_answers_or_refusals() -> None:
    assert asked(Reply("m0", 5, code=5)) == []
    [(name, answer)] = asked(Reply("m0", 5, code=2))
    assert (name, answer.reason) == ("a", "failed")
    [(_, letter)] = asked(Reply("m0", 5, app.RecordDict()))
    with pytest.raises(TacitError):
        from_letter(letter)


class DamagedReplies(Replies):
    """Flower cannot read the reply to `m1`, and loses all replies that it reads with it."""

    def pull_messages(self, numbers: Any) -> list[Any]:
        there = [one for one in self.replies if one.metadata.reply_to_message_id in numbers]
        self.replies = [one for one in self.replies if one not in there]
        if any(one.metadata.reply_to_message_id == "m1" for one in there):
            raise KeyError("no such class of objects")
        return there


def test_bytes_that_flower_cannot_read_are_a_refusal_of_their_sender() -> None:
    grid = DamagedReplies(Reply("m0", 5, GOOD), Reply("m1", 6, GOOD))
    transport = FlowerTransport(grid, {"a": 5, "b": 6}, pause=0.01)
    assert list(transport.ask({"a": DELIVER, "b": DELIVER}, 0.05)) == []  # nobody knows whose
    grid.replies = [Reply("m0", 5, GOOD), Reply("m1", 6, GOOD)]
    first, second = transport.ask({"a": DELIVER, "b": DELIVER}, 0.05)
    assert (first[0], first[1].kind) == ("a", "Received")
    assert second[0] == "b"
    with pytest.raises(TacitError, match="format"):
        from_letter(second[1])


def test_a_lost_connection_is_nobodys_offence() -> None:
    class Lost(Replies):
        def pull_messages(self, numbers: Any) -> list[Any]:
            raise ConnectionError("the SuperLink is gone")

    with pytest.raises(ConnectionError):
        list(FlowerTransport(Lost(), {"a": 5}).ask({"a": DELIVER}, 0.05))


def test_nodes_that_do_not_come_online_are_named() -> None:
    transport = FlowerTransport(Replies(), {"a": 5, "b": 6}, pause=0.01)
    transport.wait_for(["a"], 0.0)
    with pytest.raises(TacitError, match=r"1 of 2 nodes are not online after 0.02 seconds: b"):
        transport.wait_for(["a", "b"], 0.02)


def test_the_owner_gets_a_copy_of_all_that_leaves_the_node(tmp_path: Path) -> None:
    [node] = nodes_of(DATA, tmp_path / "nodes", [[0, 1]])
    config = {"folder": str(node.store.folder), "copies": str(tmp_path / "copies")}
    grid = InProcessGrid(make_client_app(opened), {5: config})
    letters = [one for _, one in FlowerTransport(grid, {"a": 5}).ask({"a": DELIVER}, 5.0)]
    [copy] = read_copies(tmp_path / "copies")
    assert isinstance(letters[0], Letter)
    assert (copy.kind, copy.values) == (letters[0].kind, letters[0].values)
