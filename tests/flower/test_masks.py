"""A secure sum over Flower's own bytes: eight nodes, two of which are gone after masking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit.coordinator.secure as secure_module
from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rounds import Coordinator, Offer, Rules
from tacit.coordinator.secure import OpenedSum, SecureSettings
from tacit.core.algorithm import Exchange
from tacit.core.types import Task
from tacit.data.split import split_dataset
from tacit.engines.layout import VectorLayout
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.experiment.resolve import resolve
from tacit.flower.apps import make_client_app
from tacit.flower.in_process import InProcessGrid
from tacit.flower.transport import FlowerTransport
from tacit.node.device import Node
from tacit.testing.nodes import KEY, catalogue_of, nodes_of
from tacit.testing.synthetic import ragged

pytest.importorskip("flwr.app")

DATA = ragged(n_users=8, n_items=24)
FEDMF = resolve("fedmf", sets=["backbone.dim=4"], rounds=1)
GONE = (2, 6)


@dataclass
class GoneAfterMasking(InProcessGrid):
    """Some nodes get no message any more once vectors are masked."""

    gone: tuple[int, ...] = ()

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str]:
        return [
            ""  # a message that the SuperLink did not take
            if one.metadata.dst_node_id in self.gone
            and one.content["values"].get("step") == "unmask"
            else next(iter(super(GoneAfterMasking, self).push_messages([one])))
            for one in messages
        ]


def plain_vectors() -> list[np.ndarray]:
    """What each person alone adds to the sum of the first round."""
    train = split_dataset(DATA, FEDMF.protocol).train
    algorithm = FEDMF.method.algorithm(Task.of(train))
    engine, layout = LoopEngine(), VectorLayout.of(algorithm, Exchange())
    found = []
    for user in range(train.n_users):
        state = engine.start(algorithm, train, FEDMF.seed)
        alone = Participants(np.array([user]), np.ones(1, bool))
        total = engine.play(algorithm, train, state, Exchange(), alone, FEDMF.seed)
        found.append(layout.flat(total.sums, total.weight))
    return found


def heard_by_the_server(folder: Path, secure: SecureSettings | None) -> bytes:
    """All bytes that reach the server in a run of one round."""
    nodes, users = nodes_of(DATA, folder / "nodes"), DATA.interactions.users
    roster = Roster(
        tuple(
            Member(user, number, 1, node.public_key.hex())
            for number, (user, node) in enumerate(zip(users, nodes, strict=True))
        )
    )
    for node in nodes:
        node.set_directory(roster.directory)
    heard: list[bytes] = []
    numbers = {user: 100 + place for place, user in enumerate(users)}
    grid = GoneAfterMasking(
        make_client_app(lambda folder, _: Node.open(folder, KEY)),
        {100 + place: {"folder": str(node.store.folder)} for place, node in enumerate(nodes)},
        lambda way, _, content: heard.append(content) if way == "to server" else None,
        gone=tuple(100 + place for place in GONE),
    )
    server = Coordinator(
        FEDMF,
        roster,
        Offer(catalogue_of(DATA).message("shop")),
        FlowerTransport(grid, numbers, pause=0.0),
        folder / "server",
        Rules("shop", "first", validates=False, secure=secure),
    )
    assert server.run().given_up == 0
    return b"\0".join(heard)


def test_the_sum_is_exact_and_no_plain_upload_is_in_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[Any, OpenedSum]] = []
    play_sum = secure_module.play_sum

    def watched(plan: Any, *others: Any) -> OpenedSum:
        opened.append((plan, play_sum(plan, *others)))
        return opened[-1][1]

    monkeypatch.setattr(secure_module, "play_sum", watched)
    masked = heard_by_the_server(tmp_path / "masked", SecureSettings(5, bound=50.0, bits=64))
    plain = heard_by_the_server(tmp_path / "plain", None)
    [(plan, found)] = opened
    assert found.survivors == DATA.interactions.users  # those who are gone have masked before
    vectors = plain_vectors()
    units = [plan.code.encode(one) for one in vectors]
    assert np.array_equal(found.value_N, plan.code.decode(np.sum(units, axis=0)))
    for vector, unit in zip(vectors, units, strict=True):
        first = int(np.flatnonzero(vector)[0])
        sent = vector.astype(np.float32)[first : first + 4].tobytes()
        assert sent in plain  # the control: without masks it is found
        for other in (vector, unit, unit.astype(np.uint64)):
            assert other[first : first + 4].tobytes() not in masked
        assert sent not in masked
