"""A coordinator and its nodes play what the simulation plays, to the last bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.coordinator.admission import Limits
from tacit.coordinator.memory import Faults, MemoryTransport, NodeDownError
from tacit.coordinator.records import RecordFile, RoundRecord
from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rounds import Coordinator
from tacit.coordinator.rules import Offer, Rules
from tacit.core.types import Task
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.split import split_dataset
from tacit.engines.participation import Participants, everybody
from tacit.engines.scoring import RowScorer
from tacit.engines.select import scorer_of
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS
from tacit.node.catalogue import Catalogue
from tacit.node.play import OwnRun
from tacit.testing.nodes import catalogue_of
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import CatalogueUpdate, Letter, Play, Request

DATA: Dataset = with_content(ragged(n_users=12, n_items=20))
SMALL = ["backbone.dim=4"]

EXPERIMENTS: dict[str, Experiment] = {
    "pfedrec": resolve("pfedrec", sets=SMALL, rounds=3),
    "fedmf + fedrkg": resolve("fedmf", plugins=["fedrkg:every=1"], sets=SMALL, rounds=3),
    "fcf + fedmr": resolve(
        "fcf", plugins=["fedmr"], sets=["backbone.dim=6", "items.width=6"], rounds=3
    ),
    "fedease": resolve("fedease", rounds=3),
    "fedspectral": resolve("fedspectral", sets=["width=3"], rounds=3),
}


BOTH = [
    pytest.param(
        name,
        precision,
        marks=[pytest.mark.slow] if precision == "float32" and name != "pfedrec" else [],
    )
    for name in EXPERIMENTS
    for precision in ("float32", "float64")
]


@pytest.mark.parametrize(("name", "precision"), BOTH)
def test_shared_parameters_are_those_of_the_reference_engine(
    name: str, precision: str, deployment: Callable[..., Any]
) -> None:
    experiment = replace(EXPERIMENTS[name], precision=precision)  # type: ignore[arg-type]
    small = deployment(experiment, DATA)
    server = small.server(validates=False)
    outcome = server.run()
    state = small.simulated([everybody(small.train)] * server.rounds)
    assert outcome.given_up == 0
    assert outcome.rounds == server.rounds
    assert server.server.shared.keys() == state.shared.keys()
    most = 1e-6 if precision == "float32" else 1e-12
    for key, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[key], value, rtol=0.0, atol=most)
    assert outcome.selected_round == outcome.rounds


def assert_same(server: Any, state: Any) -> None:
    """The server's parameters to the last bit."""
    for key, value in state.shared.items():
        assert torch.equal(server.server.shared[key], value), key


FEW: Dataset = ragged(n_users=6, n_items=16)


def deployable() -> Iterable[str]:
    """Custom methods whose server needs sums."""
    for name in METHODS:
        try:
            custom = resolve(name).method.algorithm(Task(6, 16)).custom
        except TacitError:  # it needs content
            continue
        if custom is not None and custom.method.reads != "each":
            yield name


@pytest.mark.parametrize("name", list(deployable()))
def test_every_custom_method_is_played_by_nodes_as_it_is_simulated(
    name: str, deployment: Callable[..., Any]
) -> None:
    """Nodes rank after each round, also where nothing is learnt yet; and they get what the method
    hands to clients, never what the server keeps."""
    experiment = replace(resolve(name, rounds=2), precision="float64")
    heard = Requests()
    small = deployment(experiment, FEW, faults=heard)
    server = small.server(validates=False)
    outcome = server.run()
    assert outcome.given_up == 0
    assert not server.admission.declined
    state = small.simulated([everybody(small.train)] * server.rounds)
    for key, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[key], value, rtol=0.0, atol=1e-9)
    received = set(small.algorithm.broadcast(state.shared, torch.tensor(0)))
    assert {name for one in heard.plays for name in one.arrays} == received


class Requests(Faults):
    """Keeps what nodes were asked to play."""

    def __init__(self) -> None:
        self.plays: list[Play] = []

    def before(self, name: str, request: Request) -> None:
        if isinstance(request, Play):
            self.plays.append(request)


def test_a_list_that_cannot_be_made_costs_no_upload(
    deployment: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> None:
        raise RuntimeError("singular")

    small = deployment(resolve("fedease", rounds=1), FEW)
    server = small.server(validates=False)
    with monkeypatch.context() as patch:
        patch.setattr(OwnRun, "scores", broken)
        server.run()
    assert not server.progress.delivered  # nor could the final model be ranked with
    assert_same(server, small.simulated([everybody(small.train)]))


def test_nodes_are_invited_as_a_simulation_invites_people(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=3, participation=0.4)
    small = deployment(experiment, DATA)
    server = small.server(validates=False)
    server.run()
    drawn = [experiment.participation.draw(small.train, 0, number) for number in (1, 2, 3)]
    told = [one for one in server.records.read() if one.kind == "exchange"]
    names = list(small.nodes)
    for record, who in zip(told, drawn, strict=True):
        assert record.invited == record.answered == tuple(names[user] for user in who.user_P)
    assert_same(server, small.simulated(drawn))


def test_nodes_with_many_people_are_the_same_to_rounding(deployment: Callable[..., Any]) -> None:
    experiment = replace(resolve("fedmf", sets=SMALL, rounds=2), precision="float64")
    small = deployment(experiment, FEW, groups=[[0, 1, 2], [3], [4, 5]])
    server = small.server(validates=False)
    server.run()
    told = [one for one in server.records.read() if one.kind == "exchange"]
    assert [one.clients for one in told] == [6, 6]
    state = small.simulated([everybody(small.train)] * 2)
    for key, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[key], value, rtol=0.0, atol=1e-12)


def metrics_of(small: Any, state: Any) -> dict[str, float]:
    """Metrics of the validation part, simulated."""
    valid = split_dataset(small.dataset, small.experiment.protocol).valid
    found = rank(scorer_of(small.algorithm, small.train, state, 0), valid)
    return {
        f"{kind}:{name}": metric(ranks, name)
        for kind, ranks in (("full", found.full), ("sampled", found.sampled))
        for name in ("HR@10", "NDCG@10")
    }


def test_the_round_with_the_best_sums_of_hits_is_selected_and_delivered(
    deployment: Callable[..., Any],
) -> None:
    experiment = resolve("pfedrec", sets=SMALL, rounds=4)
    small = deployment(experiment, FEW)
    server = small.server()
    outcome = server.run()
    told = [one for one in server.records.read() if one.kind == "validation"]
    for number, record in enumerate(told, start=1):
        wanted = metrics_of(small, small.simulated([everybody(small.train)] * number))
        assert record.metrics == pytest.approx(wanted, abs=1e-9)
        assert record.people == 6
    protocol = experiment.protocol
    name = f"{protocol.select_on}:{protocol.select_metric}"
    values = [record.metrics[name] for record in told]
    best = max(values)
    places = [place for place, value in enumerate(values, start=1) if value == best]
    assert outcome.selected_round == places[0 if protocol.select_of_equals == "first" else -1]
    state = small.simulated([everybody(small.train)] * outcome.selected_round)
    score_UI = scorer_of(small.algorithm, small.train, state, 0)(np.arange(6))
    for user, node in enumerate(small.nodes.values()):
        held = {item for _, item, _ in node.history()}
        order = [small.dataset.interactions.items[i] for i in np.argsort(-score_UI[user])]
        wanted_list = [item for item in order if item not in held][:5]
        assert [line.item for line in node.recommend(5)] == wanted_list


def test_a_run_that_takes_the_last_round_asks_for_no_hits(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", sets=[*SMALL, "protocol.select=last"], rounds=2)
    small = deployment(experiment, FEW)
    server = small.server()
    assert server.run().selected_round == 2
    kinds = [one.kind for one in server.records.read()]
    assert kinds == ["catalogue", "exchange", "exchange", "delivery"]


# What goes wrong


class Some(Faults):
    """Some nodes are down in some rounds."""

    def __init__(self, down: dict[int, list[str]]) -> None:
        self.down = down

    def before(self, name: str, request: Request) -> None:
        number = request.moment.round_number if isinstance(request, Play) else 0
        if name in self.down.get(number, ()):
            raise NodeDownError


def test_without_a_quorum_the_exchange_is_given_up_and_the_server_takes_no_step(
    deployment: Callable[..., Any],
) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=3)
    names = list(FEW.interactions.users)
    small = deployment(experiment, FEW, faults=Some({1: names[:1], 2: names[:4]}))
    server = small.server(validates=False)
    outcome = server.run()
    assert outcome.given_up == 1
    told = [one for one in server.records.read() if one.kind == "exchange"]
    assert [bool(one.given_up) for one in told] == [False, True, False]
    assert told[1].given_up.startswith("Only 2 of 6 nodes answered in time and 3 are needed")
    first = Participants(np.arange(1, 6), np.ones(5, bool))
    second = Participants(np.arange(4, 6), np.zeros(2, bool))
    assert_same(server, small.simulated([first, second, everybody(small.train)]))


def test_an_exchange_closes_when_enough_have_answered(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=2)
    small = deployment(experiment, FEW)
    server = small.server(validates=False, enough=0.5)
    server.run()
    told = [one for one in server.records.read() if one.kind == "exchange"]
    assert [len(one.answered) for one in told] == [3, 3]


class AwayAtFirst(Faults):
    """A node is away for the first rounds; what it is sent is counted."""

    def __init__(self, absent: str, rounds: int) -> None:
        self.absent, self.rounds = absent, rounds
        self.catalogues, self.played = 0, list[int]()

    def before(self, name: str, request: Request) -> None:
        if name != self.absent:
            return
        if isinstance(request, Play):
            self.played.append(request.moment.round_number)
        self.catalogues += isinstance(request, CatalogueUpdate)
        if len(self.played) < self.rounds:
            raise NodeDownError


@pytest.mark.parametrize("has_it", [True, False])
def test_a_node_that_is_away_is_waited_for_once_with_the_catalogue(
    has_it: bool, deployment: Callable[..., Any]
) -> None:
    """Each request to a node that is away takes a whole deadline."""
    data = ragged(n_users=4, n_items=16)
    absent = data.interactions.users[0]  # who has the first items
    away = AwayAtFirst(absent, rounds=4)
    small = deployment(resolve("fedmf", sets=SMALL, rounds=7), data, faults=away)
    if not has_it:  # the node was made with the first items alone
        catalogue_of(data, items=12).write(small.nodes[absent].store)
    server = small.server(validates=False)
    server.run()
    assert away.played == list(range(1, 8))
    assert away.catalogues == (1 if has_it else 2)
    told = [one for one in server.records.read() if one.kind == "exchange"]
    answered = [one.round_number for one in told if absent in one.answered]
    assert answered == ([4, 5, 6, 7] if has_it else [5, 6, 7])


class Poisoned(Faults):
    """Before every answer comes something damaged, and one node never sends anything else."""

    def __init__(self, always: str) -> None:
        self.always, self.count = always, 0

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        if not isinstance(request, Play):
            return [(name, answer)]
        self.count += 1
        values = dict(answer.values)
        bad = [
            Letter("Played", values, {k: v[:-1] for k, v in answer.arrays.items()}),
            Letter("Played", values, {k: v * np.nan for k, v in answer.arrays.items()}),
            Letter("Played", values | {"clients": 7}, answer.arrays),
            Letter("Played", values | {"moment.round_number": 0}, answer.arrays),
            Letter("Played", values | {"format": 7}, answer.arrays),
        ][self.count % 5]
        found = [(name, bad), ("nobody", answer), (name, answer)]
        return found[:2] if name == self.always else found


def test_damaged_messages_change_nothing_and_an_offender_is_dropped(
    deployment: Callable[..., Any],
) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=6)
    names = list(FEW.interactions.users)
    rules = Rules("shop", "first", limits=Limits(offences=3), validates=False)
    small = deployment(experiment, FEW, faults=Poisoned(names[2]), rules=replace(rules))
    server = small.server(limits=Limits(offences=6))
    server.run()
    others = np.array([0, 1, 3, 4, 5])
    without = Participants(np.arange(6), np.arange(6) != 2)
    told = [one for one in server.records.read() if one.kind == "exchange"]
    assert all(set(one.answered) == {names[user] for user in others} for one in told)
    refused = sum((Counter(one.refused) for one in told), Counter[str]())
    assert {"wrong shape", "not finite", "wrong count", "another moment", "unreadable"} <= set(
        refused
    )
    assert refused["unknown sender"] > 20
    assert_same(server, small.simulated([without] * 6))
    again = small.server(limits=Limits(offences=4))
    assert names[2] in again.admission.dropped  # a restart absolves nobody


def test_who_leaves_is_asked_no_more(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=3)
    small = deployment(experiment, FEW)
    server = small.server(validates=False)
    names = list(small.nodes)
    server.advance()
    small.nodes[names[0]].leave()
    server.run()
    told = [one for one in server.records.read() if one.kind == "exchange"]
    assert [len(one.answered) for one in told] == [6, 5, 5]
    assert [one.declined for one in told] == [{}, {"left": 1}, {}]
    assert told[2].dropped == (names[0],)


# New items


def test_new_items_get_rows_and_reach_the_nodes(deployment: Callable[..., Any]) -> None:
    plugins = ["ridge:modalities=text"]
    sets = [*SMALL, "protocol.select=last"]
    experiment = resolve("pfedrec", plugins=plugins, split="time", sets=sets, rounds=2)
    data = with_content(FEW)
    small = deployment(experiment, data)
    server = small.server()
    server.run()
    assert server.best is not None
    assert server.cold is not None
    known = len(data.interactions.items)
    every = np.ones(known + 2, bool)
    content = Modalities(
        {
            name: FeatureTable(np.concatenate([one.value_IF, one.value_IF[:2]]), every)
            for name, one in data.modalities.items()
        }
    )
    arrays = {name: one.value_IF for name, one in content.items()}
    later = Catalogue(
        (*data.interactions.items, "new-1", "new-2"),
        (),
        arrays | {f"{name}@present": every for name in arrays},
        version=2,
    )
    offer = Offer(later.message("shop"), content)
    assert server.add_items(offer) == list(small.nodes)
    node = next(iter(small.nodes.values()))
    lines = node.recommend(known + 2)
    # scores of the new items are those of the generator's rows
    row_CD = server.cold.made(
        server.best,
        torch.from_numpy(server.cold.fitted.rows(content.take(np.arange(known, known + 2)), 2)),
        offer.item_key_I[known:],
    )
    state = small.simulated([everybody(small.train)] * server.best.round_number)
    wanted = RowScorer.of(small.algorithm, state, small.train, row_CD, Modalities())(np.array([0]))[
        0
    ]
    told = {line.item: line.score for line in lines}
    assert [told["new-1"], told["new-2"]] == pytest.approx(wanted.tolist(), abs=1e-5)


# What is refused


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("gpfedrec", r"reads single tables of people, .* allow it \(allow_tables\)"),
        ("metamf", "reads every single upload"),
        ("ease", "wants whole histories"),
    ],
)
def test_methods_whose_server_needs_more_than_sums_are_refused(
    method: str, said: str, tmp_path: Path
) -> None:
    catalogue = catalogue_of(FEW).message("shop")
    with pytest.raises(TacitError, match=said):
        Coordinator(
            resolve(method, rounds=1),
            Roster.of(["a", "b"]),
            Offer(catalogue),
            MemoryTransport({}),
            tmp_path,
            Rules("shop", "first"),
        )


def test_splits_that_no_device_makes_alone_are_refused(deployment: Callable[..., Any]) -> None:
    small = deployment(resolve("pfedrec", plugins=["ridge"], sets=SMALL, rounds=1), FEW)
    with pytest.raises(TacitError, match="looks at all people together, which no device can"):
        small.server()


def test_a_folder_belongs_to_one_run(deployment: Callable[..., Any]) -> None:
    small = deployment(resolve("fedmf", sets=SMALL, rounds=1), FEW)
    small.server(validates=False).run()
    small.experiment = replace(small.experiment, seed=3)
    with pytest.raises(TacitError, match="holds another run"):
        small.server(validates=False)


def test_a_damaged_checkpoint_is_said(deployment: Callable[..., Any]) -> None:
    small = deployment(resolve("fedmf", sets=SMALL, rounds=1), FEW)
    small.server(validates=False).run()
    [file] = (small.folder / "server" / "checkpoint").glob("last-*.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(TacitError, match=r"checkpoint in .* is damaged"):
        small.server(validates=False)


def test_records_are_read_back_and_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "rounds.jsonl")
    one = RoundRecord("shop", "a", "exchange", 1, 0, "train", ("a",), ("a",), {"too often": 2})
    file.append(one)
    file.append(replace(one, round_number=2, epsilon=1.5))
    with file.path.open("a") as stream:
        stream.write('{"deployment": "sh')
    assert [record.round_number for record in file.read()] == [1, 2]
    assert file.read()[0] == one
    file.keep(1)
    assert file.path.read_text().count("\n") == 1
    with pytest.raises(TacitError, match="is no record of an exchange"):
        RoundRecord.of_json('{"deployment": 3}')


def test_a_roster_is_read_back_and_refuses_what_is_there_twice(tmp_path: Path) -> None:
    roster = Roster((Member("ann", 4, 2, "ab"), Member("bob", 1)))
    roster.write(tmp_path / "roster.json")
    assert Roster.read(tmp_path / "roster.json") == roster
    with pytest.raises(TacitError, match="'bob' has no public key"):
        _ = roster.directory
    with pytest.raises(TacitError, match="Two nodes of the roster have the name 'ann'"):
        Roster((Member("ann", 1), Member("ann", 2)))
    with pytest.raises(TacitError, match="Two nodes of the roster have the number '1'"):
        Roster((Member("ann", 1), Member("bob", 1)))
