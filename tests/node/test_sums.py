"""Secure sums over nodes: four steps, kept between processes, and nothing plain leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.core.algorithm import Exchange
from tacit.core.types import Task
from tacit.engines.layout import VectorLayout, bounded_length
from tacit.engines.state import initial_state
from tacit.experiment.resolve import resolve
from tacit.node.device import Node
from tacit.node.runs import RunBox
from tacit.privacy.fixed_point import FixedPoint
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.secure_sum.messages import (
    MaskedUpload,
    UnmaskRequest,
    from_bytes,
    to_bytes,
)
from tacit.privacy.secure_sum.plan import SumPlan, plan_sum
from tacit.privacy.secure_sum.server import SumServer
from tacit.privacy.skellam import skellam_noise
from tacit.testing.nodes import KEY, nodes_of
from tacit.testing.synthetic import ragged
from tacit.wire.messages import Refused, SumAnswer, SumRequest

DATA = ragged(n_users=5, n_items=24)
FEDMF = resolve("fedmf", sets=["backbone.dim=2"], rounds=3)
STEPS = ("keys", "shares", "mask", "unmask")


def joined(nodes: list[Node]) -> dict[int, bytes]:
    """All nodes get the directory of all public keys."""
    directory = {node.settings.number: node.public_key for node in nodes}
    for node in nodes:
        node.set_directory(directory)
    return directory


@pytest.fixture
def server(tmp_path: Path, tiny_server: Callable[..., Any]) -> Any:
    found = tiny_server(FEDMF, DATA, nodes_of(DATA, tmp_path))
    found.plan = replace(found.plan, secure=True, fewest=3, colluders=1)
    return found


def request(server: Any, step: str, sums: SumPlan, body: bytes = b"", **other: Any) -> SumRequest:
    arrays = server.arrays() if step == "mask" else {}
    known: dict[str, Any] = {"summed": "update", **other}
    return SumRequest(
        server.moment(len(server.algorithm.exchanges(1)) if known["summed"] == "hits" else 0),
        server.plan,
        step,  # type: ignore[arg-type]
        known["summed"],
        to_bytes(sums),
        body,
        arrays,
    )


def play_sum(
    server: Any, ask: Callable[..., Any], sums: SumPlan, gone: tuple[int, ...] = (), **other: Any
) -> tuple[np.ndarray, list[MaskedUpload]]:
    """All steps; nodes in `gone` drop out after masking. Each node is opened anew for each step,
    and asked twice."""
    directory = {node.settings.number: node.public_key for node in server.nodes}
    total, masked = SumServer(sums, directory), []
    bodies: dict[int, bytes] = dict.fromkeys(directory, b"")
    for step in STEPS:
        for number, body in bodies.items():
            if step == "unmask" and number in gone:
                continue
            again = [
                ask(
                    Node.open(server.nodes[number].store.folder, KEY),
                    request(server, step, sums, body, **other),
                )
                for _ in range(2)
            ]
            assert all(isinstance(answer, SumAnswer) for answer in again), again
            assert again[0].body == again[1].body
            message: Any = from_bytes(again[0].body)
            if step == "mask":
                masked.append(message)
            assert total.receive(message) is None
        following = {
            "keys": total.neighbourhoods,
            "shares": total.deliveries,
            "mask": total.requests,
        }.get(step)
        if following is not None:
            bodies = {number: to_bytes(message) for number, message in following().items()}
    return total.total().value_N, masked


def plain_sum(
    server: Any, ask: Callable[..., Any], tmp_path: Path, unit: float = 1.0
) -> np.ndarray:
    """The same exchange played in the open, on nodes of the same people."""
    open_nodes = nodes_of(DATA, tmp_path / "open")
    layout = VectorLayout.of(server.algorithm, Exchange())
    whole = np.zeros(layout.length)
    for node in open_nodes:
        answer = ask(node, replace(server.request(), plan=replace(server.plan, secure=False)))
        whole += layout.flat(answer.arrays, answer.weight, unit)
    return whole


def test_the_sum_is_exact_when_nodes_drop_out_after_masking(
    server: Any, asked: Callable[..., Any], tmp_path: Path
) -> None:
    joined(server.nodes)
    length = VectorLayout.of(server.algorithm, Exchange()).length
    sums = plan_sum(clients=5, fewest=3, colluders=1, bound=100.0, length=length, bits=64)
    found, masked = play_sum(server, asked, sums, gone=(4,))
    expected = plain_sum(server, asked, tmp_path)
    assert np.abs(expected).max() > 0
    assert np.abs(found - expected).max() <= 5 * sums.code.step
    # what left is no plain vector: the numbers of the ring have nothing to do with it
    for message in masked:
        sent = np.frombuffer(message.payload, dtype="<u8").astype(np.float64)
        assert abs(np.corrcoef(sent, expected)[0, 1]) < 0.9
        assert len(np.unique(sent)) > 0.9 * len(sent)
    kinds = {entry.kind for node in server.nodes for entry in node.ledger.read()}
    assert kinds == {"masked upload"}


def test_a_plain_upload_of_a_run_with_masks_is_refused(
    server: Any, asked: Callable[..., Any]
) -> None:
    joined(server.nodes)
    answer = asked(server.nodes[0], server.request())
    assert isinstance(answer, Refused)
    assert answer.reason == "wrong step"
    # nor does a plan that suddenly has no masks help, once the run has begun
    length = VectorLayout.of(server.algorithm, Exchange()).length
    sums = plan_sum(clients=5, fewest=3, colluders=1, bound=100.0, length=length, bits=64)
    asked(server.nodes[0], request(server, "keys", sums))
    without = replace(server.request(), plan=replace(server.plan, secure=False))
    assert asked(server.nodes[0], without).reason == "unknown run"


def test_a_sum_that_protects_less_is_refused(server: Any, asked: Callable[..., Any]) -> None:
    joined(server.nodes)
    length = VectorLayout.of(server.algorithm, Exchange()).length
    few = plan_sum(clients=5, fewest=2, colluders=0, bound=100.0, length=length, bits=64)
    assert asked(server.nodes[0], request(server, "keys", few)).reason == "not agreed"
    short = plan_sum(clients=5, fewest=3, colluders=1, bound=100.0, length=length - 1, bits=64)
    assert asked(server.nodes[0], request(server, "keys", short)).reason == "unreadable"
    good = plan_sum(clients=5, fewest=3, colluders=1, bound=100.0, length=length, bits=64)
    assert asked(server.nodes[0], request(server, "mask", good)).reason == "wrong step"
    # one neighbour who tells all it knows would open everybody's vector
    open_to_one = replace(good, needed=1)
    assert good.needed > 1
    assert asked(server.nodes[0], request(server, "keys", open_to_one)).reason == "not agreed"
    assert isinstance(asked(server.nodes[0], request(server, "keys", good)), SumAnswer)


def test_the_secrets_of_a_sum_go_with_it(server: Any, asked: Callable[..., Any]) -> None:
    joined(server.nodes)
    length = VectorLayout.of(server.algorithm, Exchange()).length
    sums = plan_sum(clients=5, fewest=3, colluders=1, bound=100.0, length=length, bits=64)
    play_sum(server, asked, sums, gone=(4,))
    saved = []
    for node in server.nodes:
        box = RunBox.read(node.store, server.moment())
        assert box is not None
        saved.append(box.sums["update"].saved)
    assert saved[:4] == ["", "", "", ""]
    assert saved[4]  # it was never asked to unmask
    # and who survived is not asked twice with different answers
    others = UnmaskRequest(sums.context, 0, survivors=(1, 2), dropped=(3,), survived=3)
    second = asked(server.nodes[0], request(server, "unmask", sums, to_bytes(others)))
    assert second.reason == "wrong step"


def test_noise_of_devices_does_not_get_lost_in_a_sum(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    noisy = resolve("fedmf", plugins=["gaussian"], sets=["backbone.dim=2"], rounds=3)
    server = tiny_server(noisy, DATA, nodes_of(DATA, tmp_path))
    joined(server.nodes)
    server.plan = replace(server.plan, secure=True, fewest=3, colluders=1)
    length = VectorLayout.of(server.algorithm, Exchange()).length
    sums = plan_sum(clients=5, fewest=3, colluders=1, bound=100.0, length=length, bits=64)
    answer = asked(server.nodes[0], request(server, "keys", sums))
    assert (answer.reason, "noise of their own" in answer.sentence) == ("not agreed", True)


def test_without_a_directory_a_node_takes_no_part(server: Any, asked: Callable[..., Any]) -> None:
    length = VectorLayout.of(server.algorithm, Exchange()).length
    sums = plan_sum(clients=5, fewest=3, colluders=1, bound=100.0, length=length, bits=64)
    assert asked(server.nodes[0], request(server, "keys", sums)).reason == "not agreed"


def test_under_a_claim_the_ledger_has_the_epsilon_of_the_noise(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    claim = resolve(
        "fedmf", plugins=["private:epsilon=8,clip=1"], sets=["backbone.dim=2"], rounds=3
    )
    server = tiny_server(claim, DATA, nodes_of(DATA, tmp_path))
    joined(server.nodes)
    server.plan = replace(server.plan, secure=True, fewest=3, colluders=1, releases=3)
    server.algorithm = claim.method.algorithm(Task.of(server.train, 3))
    length = VectorLayout.of(server.algorithm, Exchange()).length
    known = {"clients": 5, "fewest": 3, "colluders": 1, "bound": 1.0, "length": length}
    step = plan_sum(**known, noise=2.0).code.step
    noise = skellam_noise(8.0, 1e-5, FixedPoint(1.0, step, length), releases=3) * (1 + 1e-9)
    sums = plan_sum(**known, noise=noise, step=step)
    weak = plan_sum(**known, noise=noise / 2, step=step)
    assert asked(server.nodes[0], request(server, "keys", weak)).reason == "not agreed"
    play_sum(server, asked, sums)
    [entry] = server.nodes[0].ledger.read()
    once = Guarantee.skellam("secure_sum", sums.code, sums.promised_noise, 1, 1e-5)
    assert entry.epsilon == once.epsilon
    assert entry.epsilon < 8.0
    # hits are covered by nothing
    hits = plan_sum(clients=5, fewest=3, colluders=1, bound=3.0, length=5)
    assert (
        asked(server.nodes[0], request(server, "keys", hits, summed="hits")).reason == "not agreed"
    )


def test_parts_of_one_release_may_not_be_cut_one_by_one(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """Counts and pairs have norm 1 together. Cut to a tenth each they have more than a tenth
    together, so noise for one vector of a tenth is not enough."""
    claim = resolve("fedease", plugins=["private:epsilon=8"], rounds=2)
    server = tiny_server(claim, DATA, nodes_of(DATA, tmp_path))
    joined(server.nodes)
    server.plan = replace(server.plan, secure=True, fewest=3, colluders=1, releases=2)
    server.algorithm = claim.method.algorithm(Task.of(server.train, 2))
    length = VectorLayout.of(server.algorithm, server.algorithm.exchanges(1)[0]).length
    whole = bounded_length(server.algorithm, length)
    answers = {}
    for bound in (1.0, 0.1):
        known = {"clients": 5, "fewest": 3, "colluders": 1, "bound": bound, "length": length}
        step = plan_sum(**known, noise=2.0 * bound).code.step
        noise = skellam_noise(8.0, 1e-5, FixedPoint(bound, step, whole)) * (1 + 1e-9)
        sums = plan_sum(**known, noise=noise, step=step)
        answers[bound] = asked(server.nodes[0], request(server, "keys", sums))
    assert isinstance(answers[1.0], SumAnswer)
    assert answers[0.1].reason == "not agreed"
    assert "less than the run promises" in answers[0.1].sentence


def test_hits_are_added_up_under_masks(
    server: Any, asked: Callable[..., Any], tmp_path: Path
) -> None:
    joined(server.nodes)
    server.state.round_number = 1
    assert server.rank(server.nodes[0]).reason == "wrong step"
    open_nodes, names = nodes_of(DATA, tmp_path / "open"), []
    server.plan, secured = replace(server.plan, secure=False), server.plan
    answers = [server.rank(node) for node in open_nodes]
    server.plan = secured
    names = sorted(answers[0].arrays)
    expected = [sum(float(a.arrays[name]) for a in answers) for name in names]
    sums = plan_sum(clients=5, fewest=3, colluders=1, bound=3.0, length=len(names) + 1, bits=64)
    server.state.round_number = 0  # the moment of the tiny server is that of the next round
    found, _ = play_sum(server, asked, sums, summed="hits")
    assert np.allclose(found, [*expected, sum(a.people for a in answers)], atol=1e-9)


def test_hits_of_a_round_are_told_once_whatever_was_begun_since(
    server: Any, asked: Callable[..., Any]
) -> None:
    """With fresh noise on each, the mean of many answers would tell what the noise hides, and the
    ledger would count one."""
    joined(server.nodes)
    node, known = server.nodes[0], {"clients": 5, "fewest": 3, "colluders": 1, "bits": 64}
    sums, other = (plan_sum(**known, bound=3.0, length=5) for _ in range(2))
    play_sum(server, asked, sums, summed="hits")
    assert asked(node, request(server, "keys", other, summed="hits")).reason == "stale"
    server.state.round_number = 1
    begun = asked(node, request(server, "keys", other, summed="hits"))
    assert isinstance(begun, SumAnswer)  # of the next round, and nothing comes of it
    server.state.round_number = 0
    assert asked(node, request(server, "keys", other, summed="hits")).reason == "stale"
    assert [entry.kind for entry in node.ledger.read()] == ["masked hits"]


def test_local_noise_is_drawn_by_each_node_and_not_from_the_seed(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    local = ["private:epsilon=8,clip=1,view=local"]
    claim = resolve("fedmf", plugins=local, sets=["backbone.dim=2"], rounds=3)
    found = []
    for turn in range(2):
        server = tiny_server(claim, DATA, nodes_of(DATA, tmp_path / str(turn)))
        server.plan = replace(server.plan, releases=3)
        found.append(asked(server.nodes[0], server.request()).arrays["items"])
    algorithm = claim.method.algorithm(Task.of(server.train, 3))
    assert algorithm.protection is not None
    sigma = algorithm.protection.noise
    assert not np.array_equal(*found)
    spread = float(np.std(found[0] - found[1])) / np.sqrt(2)
    assert 0.7 * sigma < spread < 1.3 * sigma
    [entry] = server.nodes[0].ledger.read()
    stated = algorithm.guarantee(1)
    assert stated is not None
    assert entry.epsilon == pytest.approx(stated.epsilon)


@pytest.mark.parametrize("name", ["fedmf", "fedease", "fedspectral"])
def test_the_epsilon_of_all_rounds_is_that_of_the_claim(
    name: str, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    """Also where the bound is estimated on the way, or one bound holds for all uploads together."""
    claim = resolve(name, plugins=["private:epsilon=8,view=local"], rounds=3)
    server = tiny_server(claim, DATA, nodes_of(DATA, tmp_path))
    rounds = min(3, server.algorithm.max_rounds or 3)
    releases = server.algorithm.releases(rounds)
    server.plan = replace(server.plan, releases=releases)
    server.algorithm = claim.method.algorithm(Task.of(server.train, releases))
    server.state = initial_state(server.algorithm, server.train, 0, server.dtype)
    for _ in range(rounds):
        server.play_round()
    stated = server.algorithm.guarantee(releases)
    entries = server.nodes[0].ledger.read()
    assert stated is not None
    assert len(entries) == releases
    assert entries[-1].epsilon == stated.epsilon == pytest.approx(8.0)
