"""Histories, catalogues and runs go on: what is kept then, and what begins anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.core.types import OWN_ITEMS, Task
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.engines.state import first_values
from tacit.experiment.resolve import resolve
from tacit.node.agreement import Agreement
from tacit.node.catalogue import Catalogue
from tacit.node.device import Node
from tacit.node.runs import RunBox
from tacit.testing.nodes import KEY, catalogue_of, nodes_of, plan_of
from tacit.testing.synthetic import ragged
from tacit.wire.messages import CatalogueUpdate, Moment, Played, Received, Refused

DATA = ragged(n_users=4, n_items=24)
PFEDREC = resolve("pfedrec", sets=["backbone.dim=4"], rounds=9)
FEDRKG = resolve("fedmf", plugins=["fedrkg:every=1"], sets=["backbone.dim=4"], rounds=9)


def with_row(dataset: Dataset, user: int, item: str, items: tuple[str, ...] = ()) -> Dataset:
    """One more interaction, the latest of all; `items` joined the catalogue."""
    rows = dataset.interactions
    assert rows.time_N is not None
    names = (*rows.items, *items)
    more = Interactions(
        np.append(rows.user_N, user),
        np.append(rows.item_N, names.index(item)),
        rows.users,
        names,
        np.append(rows.time_N, rows.time_N.max() + 1),
    )
    return replace(dataset, interactions=more)


def private(node: Node, run: str = "first") -> dict[str, np.ndarray]:
    box = RunBox.read(node.store, Moment("shop", run, 1))
    assert box is not None
    return box.state


def unknown(dataset: Dataset, user: int) -> str:
    rows = dataset.interactions
    has = set(rows.item_N[rows.user_N == user].tolist())
    return next(name for code, name in enumerate(rows.items) if code not in has)


@pytest.mark.parametrize("experiment", [PFEDREC, FEDRKG], ids=["pfedrec", "fedrkg"])
def test_a_new_interaction_is_used_in_the_next_round(
    experiment: Any, tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    """From round 2 on numbers are those of nodes whose round 1 was the same, with that row."""
    server = tiny_server(experiment, DATA, nodes_of(DATA, tmp_path / "a"))
    still = tiny_server(experiment, DATA, nodes_of(DATA, tmp_path / "b"))
    for one in (server, still):
        one.play_round()
    item, user = unknown(DATA, 2), 2
    grown = with_row(DATA, user, item)
    assert grown.interactions.time_N is not None
    server.nodes[user].record(item, int(grown.interactions.time_N[-1]))
    for one in (server, still):
        one.play_round()
    assert not np.array_equal(
        private(server.nodes[user])["history.item"], private(still.nodes[user])["history.item"]
    )
    name = next(key for key in private(still.nodes[user]) if key.startswith("private."))
    assert not np.array_equal(private(server.nodes[user])[name], private(still.nodes[user])[name])
    # the others see another global table and nothing else
    assert np.array_equal(
        private(server.nodes[0])["history.item"], private(still.nodes[0])["history.item"]
    )


def test_a_new_catalogue_extends_tables(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = tiny_server(FEDRKG, DATA, nodes_of(DATA, tmp_path))
    server.play_round()
    node = server.nodes[1]
    before = private(node)[f"private.{OWN_ITEMS}"]
    larger = Catalogue((*DATA.interactions.items, "new-1", "new-2"), version=2)
    assert asked(node, larger.message("shop")) == Received("shop", 2)
    grown = with_row(DATA, 1, "new-1", ("new-1", "new-2"))
    table_ID = np.concatenate([server.arrays()["items"], np.full((2, 4), 0.25, np.float32)])
    request = replace(
        server.request(),
        plan=replace(plan_of(FEDRKG, grown)),
        arrays={**server.arrays(), "items": table_ID},
    )
    guide = next(
        place
        for place, exchange in enumerate(server.algorithm.exchanges(2))
        if exchange.name == "tables"
    )
    answer = asked(node, replace(request, moment=server.moment(guide)))
    assert isinstance(answer, Played), answer
    after = private(node)[f"private.{OWN_ITEMS}"]
    assert after.shape == (1, before.shape[1] + 2, 4)
    assert np.array_equal(after[:, : before.shape[1]], before)  # nothing was trained in between
    assert (after[:, before.shape[1] :] == 0.25).all()  # the global rows of new items
    node.record("new-1")
    with pytest.raises(Exception, match="No item 'new-9'"):
        node.record("new-9")


def test_tuned_rows_stay_when_the_catalogue_grows(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = tiny_server(PFEDREC, DATA, nodes_of(DATA, tmp_path))
    server.play_round()
    node = server.nodes[0]
    kept = private(node)
    larger = Catalogue((*DATA.interactions.items, "new-1"), version=2)
    asked(node, larger.message("shop"))
    grown = with_row(DATA, 1, "new-1", ("new-1",))
    rows_ID = np.concatenate([server.arrays()["items"], np.ones((1, 4), np.float32)])
    server.plan = plan_of(PFEDREC, grown)
    server.state.shared["items"] = server.state.shared["items"].new_tensor(rows_ID)
    answer = server.deliver(node)
    assert isinstance(answer, Received), answer
    assert len(node.recommend(99)) == len(larger) - len(np.unique(node.histories().item_N))
    assert np.array_equal(private(node)["tuned.value"], kept["tuned.value"])
    assert isinstance(asked(node, server.request()), Played)
    assert private(node)["broadcast"].shape == (len(larger), 4)


def test_catalogues_that_are_older_changed_or_begin_otherwise(
    tmp_path: Path, asked: Callable[..., Any]
) -> None:
    [node, *_] = nodes_of(DATA, tmp_path, deployment="shop")
    whole = catalogue_of(DATA)
    second = replace(whole, ids=(*whole.ids, "new"), titles=(), version=2)
    assert asked(node, second.message("shop")) == Received("shop", 2)
    assert asked(node, second.message("shop")) == Received("shop", 2)
    assert asked(node, whole.message("shop")).reason == "stale"
    other = replace(whole, ids=("new", *whole.ids), titles=(), version=3)
    assert asked(node, other.message("shop")).reason == "not agreed"
    forged: CatalogueUpdate = replace(other.message("shop"), digest="0" * 32)
    assert asked(node, forged).reason == "unreadable"
    assert asked(node, second.message("else")).reason == "another deployment"


def test_a_new_run_begins_with_first_values(
    tmp_path: Path, tiny_server: Callable[..., Any]
) -> None:
    """And what was kept of the run before stays, so that it can go on."""
    nodes = nodes_of(DATA, tmp_path)
    first = tiny_server(PFEDREC, DATA, nodes)
    first.play_round()
    kept = private(nodes[0])
    second = tiny_server(PFEDREC, DATA, nodes, run="second")
    second.play_round()
    assert all(np.array_equal(kept[k], v) for k, v in private(nodes[0], "second").items())
    first.play_round()
    second.play_round()
    assert all(
        np.array_equal(v, private(nodes[0], "second")[k]) for k, v in private(nodes[0]).items()
    )


def test_a_run_does_not_change_its_plan(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = tiny_server(PFEDREC, DATA, nodes_of(DATA, tmp_path))
    server.play_round()
    server.plan = plan_of(resolve("fedmf", sets=["backbone.dim=4"], rounds=9), DATA)
    assert asked(server.nodes[0], server.request()).reason == "unknown run"


def test_requests_that_fit_nothing_change_nothing(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = tiny_server(PFEDREC, DATA, nodes_of(DATA, tmp_path, deployment="shop"))
    node, good = server.nodes[0], server.request()
    table = good.arrays["items"]
    wrong = {
        "another deployment": replace(good, moment=replace(good.moment, deployment="else")),
        "unknown run": replace(good, plan=replace(good.plan, catalogue="0")),
        "wrong step": replace(good, moment=replace(good.moment, exchange=7)),
    }
    for reason, request in wrong.items():
        assert asked(node, request).reason == reason
    for array in (table[:-1], table.astype(np.float64), np.full_like(table, np.nan)):
        assert asked(node, replace(good, arrays={"items": array})).reason == "unreadable"
    assert asked(node, replace(good, arrays={})).reason == "unreadable"
    assert asked(node, replace(good, arrays={**good.arrays, "more": table})).reason == "unreadable"
    for text in ("", "name = 3", good.plan.experiment.replace("rounds = 9", "rounds = -9")):
        answer = asked(node, replace(good, plan=replace(good.plan, experiment=text)))
        assert answer.reason == "unknown run"
    imports = 'imports = ["os"]\n' + good.plan.experiment
    answer = asked(node, replace(good, plan=replace(good.plan, experiment=imports)))
    assert answer.reason == "not agreed"
    assert node.ledger.read() == []
    assert not list(node.store.folder.glob("run-*"))
    assert isinstance(asked(node, good), Played)


def test_the_owner_is_asked(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    asks = {
        "secure": Agreement(only_secure=True),
        "epsilon": Agreement(most_epsilon=4.0),
    }
    for name, agreement in asks.items():
        server = tiny_server(PFEDREC, DATA, nodes_of(DATA, tmp_path / name, agreement=agreement))
        answer = asked(server.nodes[0], server.request())
        assert isinstance(answer, Refused)
        assert answer.reason == "not agreed", name
    local = resolve("fedmf", plugins=["private:epsilon=3,clip=1,view=local"], rounds=3)
    server.experiment = local
    server.algorithm = local.method.algorithm(Task.of(server.train, 3))
    server.state.shared = {
        name: first_values(init, name, 0, np.zeros(1, np.uint64), server.dtype)[0]
        for name, init in server.algorithm.shared.items()
    }
    server.plan = plan_of(local, DATA, releases=3)
    assert isinstance(asked(server.nodes[0], server.request()), Played)
    # a promise about sums is none without secure sums
    sums = resolve("fedmf", plugins=["private:epsilon=3,clip=1"], rounds=3)
    server.plan, server.run = plan_of(sums, DATA, releases=3), "sums"
    assert asked(server.nodes[0], server.request()).reason == "not agreed"
    # nor does a plan promise what nobody keeps
    server.plan, server.run = plan_of(PFEDREC, DATA, promise="epsilon 1"), "words"
    assert asked(nodes_of(DATA, tmp_path / "c")[0], server.request()).reason == "not agreed"


def test_a_person_without_a_history_has_nothing_to_send(
    tmp_path: Path, tiny_server: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    server = tiny_server(PFEDREC, DATA, nodes_of(DATA, tmp_path))
    empty = Node.init(tmp_path / "empty", KEY, catalogue_of(DATA), users=["nobody"])
    assert asked(empty, server.request()).reason == "no data"
    empty.record(DATA.interactions.items[0])
    assert isinstance(asked(empty, server.request()), Played)  # one item is enough to train on
