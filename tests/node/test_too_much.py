"""A server that asks for more than was agreed: more rounds, more uploads, more rankings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.core.protection import Protection
from tacit.core.types import Task
from tacit.engines.loop import LoopEngine
from tacit.engines.state import initial_state
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.node.agreement import Agreement
from tacit.node.ledger import spent_by_all
from tacit.testing.nodes import nodes_of
from tacit.testing.synthetic import ragged
from tacit.wire.messages import Played, Ranked, Refused

DATA = ragged(n_users=3, n_items=24)
FEDMF = resolve("fedmf", sets=["backbone.dim=2"], rounds=2)


def claimed(name: str, rounds: int, releases: int, tiny_server: Any, folder: Path) -> Any:
    """A server of a run that claims the local view and plans so many uploads."""
    local = resolve(name, plugins=["private:epsilon=8,view=local"], rounds=rounds)
    server = tiny_server(local, DATA, nodes_of(DATA, folder))
    server.plan = replace(server.plan, releases=releases)
    server.algorithm = local.method.algorithm(Task.of(server.train, releases))
    server.state = initial_state(server.algorithm, server.train, 0, server.dtype)
    return server


def test_rounds_after_the_last_planned_one_are_not_played(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = tiny_server(FEDMF, DATA, nodes_of(DATA, tmp_path))
    node = server.nodes[0]
    for _ in range(2):
        server.play_round()
    sent = len(node.ledger.read())
    for number in (3, 2**62):
        later = replace(server.request(), moment=replace(server.moment(), round_number=number))
        answer = asked(node, later)
        assert isinstance(answer, Refused)
        assert answer.reason == "not agreed"
    server.state.round_number = 3
    assert server.rank(node).reason == "not agreed"
    assert len(node.ledger.read()) == sent


def test_parameters_beyond_the_memory_are_not_made(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = tiny_server(FEDMF, DATA, nodes_of(DATA, tmp_path))
    for width in ("1_000_000_000_000", "9_000_000_000_000_000_000"):
        text = server.plan.experiment.replace("dim = 2", f"dim = {width}")
        assert text != server.plan.experiment
        plan = replace(server.plan, experiment=text)
        answer = asked(server.nodes[0], replace(server.request(), plan=plan, arrays={}))
        assert (answer.reason, "more than the memory" in answer.sentence) == ("unknown run", True)
    assert isinstance(asked(server.nodes[0], server.request()), Played)


@pytest.mark.parametrize("name", ["fedmf", "fedspectral"])
def test_noise_for_few_uploads_does_not_cover_many(
    name: str, tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """A plan may say one release and many rounds: then there is little noise on each upload."""
    server = claimed(name, 9, 1, tiny_server, tmp_path)
    node = server.nodes[0]
    answers = []
    for number in range(9):
        server.state.round_number = number
        answers.append(asked(node, server.request()))
    sent = [one for one in answers if isinstance(one, Played) and one.arrays]
    assert len(sent) == 1
    assert answers[-1].reason == "not agreed"
    entries = node.ledger.read()
    assert len(entries) == 1
    assert entries[0].epsilon == pytest.approx(8.0)


def test_a_method_plays_no_more_rounds_than_it_has(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """One bound for all uploads of a run together holds for as many as the method sends."""
    server = claimed("fedspectral", 50, 50, tiny_server, tmp_path)
    last = server.algorithm.max_rounds
    assert last is not None
    server.state.round_number = last
    assert asked(server.nodes[0], server.request()).reason == "not agreed"


def test_a_refused_upload_leaves_everything_as_it_was(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = claimed("fedmf", 9, 1, tiny_server, tmp_path)
    node = server.nodes[0]
    first = asked(node, server.request())
    later = replace(server.request(), moment=replace(server.moment(), round_number=2))
    assert asked(node, later).reason == "not agreed"
    again = asked(node, server.request())
    assert np.array_equal(first.arrays["items"], again.arrays["items"])


def test_the_test_part_is_ranked_once_and_ends_rankings(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    server = tiny_server(FEDMF, DATA, nodes_of(DATA, tmp_path))
    node = server.nodes[0]
    server.play_round()
    first = server.rank(node, "test")
    assert isinstance(first, Ranked)
    assert server.rank(node, "test").arrays == first.arrays  # the kept answer
    assert server.rank(node, "valid").reason == "stale"
    server.state.round_number = 2
    for part in ("valid", "test"):
        assert server.rank(node, part).reason == "stale"


def test_a_refusal_does_not_quote_what_is_private(
    tmp_path: Path,
    tiny_server: Callable[..., Any],
    asked: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error inside a method may name anything: an item, a person, a value."""
    server = tiny_server(FEDMF, DATA, nodes_of(DATA, tmp_path))
    node = server.nodes[0]
    without = asked(node, replace(server.request(), arrays={}))
    assert (without.reason, without.sentence) == (
        "unreadable",
        "A request lacks the parameter 'items'.",
    )
    for error in (KeyError("canary"), ValueError("canary"), TacitError("canary")):

        def fails(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(LoopEngine, "play", fails)
        answer = asked(node, server.request())
        assert isinstance(answer, Refused)
        assert "canary" not in answer.sentence


def test_a_budget_holds_over_all_runs(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """A server that gives each run another name does not get the epsilon of a run each time."""
    server = claimed("fedmf", 1, 1, tiny_server, tmp_path)
    agreed = Agreement(most_epsilon=8.0, total_epsilon=20.0)
    [node, *_] = nodes_of(DATA, tmp_path / "agreed", agreement=agreed)
    answers = []
    for run in ("a", "b", "c", "d"):
        server.run = run
        answers.append(asked(node, server.request()))
    assert [type(one) for one in answers] == [Played, Played, Refused, Refused]
    assert answers[2].reason == "not agreed"
    assert spent_by_all(node.ledger.read()) == pytest.approx(16.0)
    # what was sent may be asked for again, and nothing leaves without a promise
    server.run = "b"
    assert np.array_equal(asked(node, server.request()).arrays["items"], answers[1].arrays["items"])
    plain = tiny_server(FEDMF, DATA, [node], run="plain")
    assert asked(node, plain.request()).reason == "not agreed"


@pytest.mark.parametrize("agreed", [Agreement(most_epsilon=8.0), Agreement(total_epsilon=8.0)])
def test_a_small_epsilon_at_a_large_delta_is_not_what_was_agreed_to(
    agreed: Agreement, tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """At delta = 0.99 an epsilon of 1 needs hardly any noise, and a server could ask for it."""
    loose = resolve("fedmf", plugins=["private:epsilon=1,delta=0.99,view=local,clip=1"], rounds=1)
    assert Protection.of(loose.method.privacy, None, 1).noise < 0.4
    kinds = {"any": Agreement(), "meant": replace(agreed, most_delta=0.99), "asks": agreed}
    found = {}
    for name, agreement in kinds.items():
        [node, *_] = nodes_of(DATA, tmp_path / name, agreement=agreement)
        server = tiny_server(loose, DATA, [node])
        server.plan = replace(server.plan, releases=1)
        server.algorithm = loose.method.algorithm(Task.of(server.train, 1))
        found[name] = asked(node, server.request())
    assert isinstance(found["any"], Played)
    assert isinstance(found["meant"], Played)
    assert found["asks"].reason == "not agreed"
    assert "a delta of at most 1e-05" in found["asks"].sentence
    assert not node.ledger.read()


@pytest.mark.parametrize("agreed", [Agreement(most_epsilon=8.0), Agreement(total_epsilon=8.0)])
def test_who_asks_for_an_epsilon_tells_no_hits_in_the_open(
    agreed: Agreement, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    """Nor does anybody in a run that promises one."""
    uncovered = ["private:epsilon=8,view=local,selection=uncovered"]
    local, plain = resolve("fedmf", plugins=uncovered, rounds=1), FEDMF
    cases = (
        (plain, Agreement(), Ranked),
        (plain, agreed, Refused),
        (local, Agreement(), Refused),
        (local, agreed, Refused),
    )
    for place, (experiment, agreement, found) in enumerate(cases):
        nodes = nodes_of(DATA, tmp_path / str(place), agreement=agreement)
        server = tiny_server(experiment, DATA, nodes)
        releases = None if experiment is plain else 1
        server.plan = replace(server.plan, releases=releases)
        server.algorithm = experiment.method.algorithm(Task.of(server.train, releases))
        server.state = initial_state(server.algorithm, server.train, 0, server.dtype)
        server.state.round_number = 1
        assert isinstance(server.rank(nodes[0]), found)
