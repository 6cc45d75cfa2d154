"""Parts that would like to know more than they are told: none of them learns it unseen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from torch import Tensor

from tacit.core.algorithm import ClientData, Declared
from tacit.core.custom import CustomMethod
from tacit.core.types import Initializer, Params, Task
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines.clients import sample_of
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation, everybody
from tacit.errors import TacitError
from tacit.methods import METHODS, fedmf, gpfedrec
from tacit.parts.channel import Clip, Dense
from tacit.parts.graph import GraphMean
from tacit.parts.server import Mean
from tacit.plugins.fedrkg import fedrkg
from tacit.testing.canaries import follow
from tacit.testing.play import algorithm_for
from tacit.testing.synthetic import ragged

TRAIN = split_dataset(ragged(), CLEAN).train
ENGINES = {"loop": LoopEngine(), "cohort": CohortEngine()}


@dataclass(frozen=True)
class CopiesUserVectors(GraphMean):
    """A graph of users that writes down all that it is given."""

    in_place = True

    def aggregate_tables(self, table_PID, shared, generator):  # type: ignore[no-untyped-def]
        return GraphMean.aggregate_tables(self, table_PID, shared, generator)

    def aggregate_in_place(self, private, user_P, shared, generator):  # type: ignore[no-untyped-def]
        SEEN.append({name: tuple(value.shape) for name, value in private.items()})
        return GraphMean.aggregate_in_place(self, private, user_P, shared, generator)


SEEN: list[dict[str, tuple[int, ...]]] = []


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_server_of_single_tables_sees_the_tables_that_were_sent(engine, share) -> None:
    """No user vector, no scorer, and no table of anybody who did not send one."""
    method = replace(gpfedrec(dim=4), server=CopiesUserVectors())
    algorithm = algorithm_for(method, TRAIN)
    assert "user" in algorithm.private  # there is something to look for
    state = engine.start(algorithm, TRAIN, 0)
    who = Participation(ratio=share).draw(TRAIN, 0, 1)
    SEEN.clear()
    engine.round(algorithm, TRAIN, state, who, 0)
    (seen,) = SEEN
    assert set(seen) == {"items.own", "items.guide"}
    assert {shape[0] for shape in seen.values()} == {len(who.user_P)}


@dataclass(frozen=True)
class NotesLengths(Mean):
    """A mean that writes down what it is told of each client."""

    def weight(self, declared: Declared) -> float:
        LENGTHS.append(declared.examples)
        return 1.0


@dataclass(frozen=True)
class AsksForLengths(NotesLengths):
    """The same, but it asks."""

    tells_examples = True


LENGTHS: list[int | None] = []


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_mean_learns_lengths_of_histories_only_where_that_is_disclosed(engine) -> None:
    for server, told in ((NotesLengths(), False), (AsksForLengths(), True)):
        algorithm = algorithm_for(replace(fedmf(dim=4), server=server), TRAIN)
        state = engine.start(algorithm, TRAIN, 0)
        LENGTHS.clear()
        engine.round(algorithm, TRAIN, state, everybody(TRAIN), 0)
        assert LENGTHS
        assert {length is not None for length in LENGTHS} == {told}
        disclosure = algorithm.disclosure(partial(sample_of, algorithm, TRAIN, state, 0))
        assert disclosure.examples is told
        said = "the server is told how many interactions a client has"
        assert (said in disclosure.sentences()) is told


@dataclass(frozen=True)
class SendsItsHistory(CustomMethod):
    """It uploads the history, and says that nothing leaves the device."""

    as_numbers: bool = False

    def shared(self, task: Task) -> dict[str, Initializer]:
        return {"table": Initializer((task.n_items,)), "ids": Initializer((64,))}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        if self.as_numbers:
            ids = torch.zeros_like(received["ids"])
            return {}, {
                "ids": ids.index_copy(0, torch.arange(len(data.history_H)), data.history_H.to(ids))
            }
        return {}, {
            "table": torch.zeros_like(received["table"]).index_add(0, data.history_H, data.real_H)
        }

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        return {**shared, **total}

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        return received["table"]

    def interpretation(self) -> list[str]:
        return ["nothing leaves the device"]


@pytest.mark.parametrize("as_numbers", [False, True])
def test_a_method_that_sends_its_history_is_caught(as_numbers: bool) -> None:
    algorithm = SendsItsHistory(as_numbers).algorithm(Task.of(TRAIN))
    with pytest.raises(AssertionError, match="show a history, which the disclosure does not say"):
        follow(algorithm, TRAIN)
    state = LoopEngine().start(algorithm, TRAIN, 0)
    disclosure = algorithm.disclosure(partial(sample_of, algorithm, TRAIN, state, 0))
    sent = ", ".join(one.text for one in disclosure.sent)  # whatever the method says of itself
    assert disclosure.sentences()[0] == f"a client sends {sent}"


@dataclass(frozen=True)
class SendsItsVector(SendsItsHistory):
    """It puts a private parameter into a shared one."""

    def private(self, task: Task) -> dict[str, Initializer]:
        return {"secret": Initializer((task.n_items,), "normal")}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        return {"secret": private["secret"]}, {"table": private["secret"]}


def test_a_private_value_in_an_upload_is_found() -> None:
    with pytest.raises(AssertionError, match="a private value is in an upload"):
        follow(SendsItsVector().algorithm(Task.of(TRAIN)), TRAIN)


@dataclass(frozen=True)
class SendsItByName(SendsItsVector):
    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        return {"secret": private["secret"]}, {"secret": private["secret"]}


def test_a_private_parameter_has_no_place_in_an_upload() -> None:
    with pytest.raises(TacitError, match="sends 'secret', which is no parameter that the server"):
        follow(SendsItByName().algorithm(Task.of(TRAIN)), TRAIN)


def test_what_is_compared_is_not_equal_by_chance() -> None:
    """A method that sends honest gradients passes, so that the checks above can fail and pass."""
    follow(algorithm_for(fedmf(dim=4), TRAIN), TRAIN)


@dataclass(frozen=True)
class ClaimsTheUserVector(GraphMean):
    """It names a client's own parameter as one of its making, so as to be given it."""

    def private(self, table: Initializer) -> dict[str, Initializer]:
        return {**GraphMean.private(self, table), "user": Initializer((4,))}


def test_a_server_cannot_claim_what_is_a_clients_own() -> None:
    with pytest.raises(TacitError, match="both declare the parameter 'user'"):
        algorithm_for(replace(gpfedrec(dim=4), server=ClaimsTheUserVector()), TRAIN)


@dataclass(frozen=True)
class WipesVectors(GraphMean):
    """It gives clients a parameter back that it never declared."""

    def aggregate_tables(self, table_PID, shared, generator):  # type: ignore[no-untyped-def]
        made = GraphMean.aggregate_tables(self, table_PID, shared, generator)
        return replace(made, private={**made.private, "user": torch.zeros(len(table_PID), 4)})


def test_a_server_writes_only_what_it_declares() -> None:
    algorithm = algorithm_for(replace(gpfedrec(dim=4), server=WipesVectors()), TRAIN)
    engine = LoopEngine()
    state = engine.start(algorithm, TRAIN, 0)
    with pytest.raises(TacitError, match="gives clients 'user', which it does not declare"):
        engine.round(algorithm, TRAIN, state, everybody(TRAIN), 0)


@dataclass(frozen=True)
class SendsLater(SendsItsHistory):
    """Silent in the first round, so that a look at it would find nothing."""

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        if round_number == 1:
            return {}, {}
        return SendsItsHistory.update(self, received, private, data, round_number)


def test_what_is_sent_later_is_disclosed_too() -> None:
    algorithm = SendsLater().algorithm(Task.of(TRAIN))
    state = LoopEngine().start(algorithm, TRAIN, 0)
    disclosure = algorithm.disclosure(partial(sample_of, algorithm, TRAIN, state, 0))
    assert {one.name for one in disclosure.sent} == {"ids", "table"}
    with pytest.raises(AssertionError, match="show a history, which the disclosure does not say"):
        follow(algorithm, TRAIN)


PLANNED = {"fedmf": 10, "pfedrec": 10, "gpfedrec": 10, "cofedrec": 10, "local_only": 0} | {
    "fedease": 1,
    "fednext": 1,
    "fedspectral": 10,
    "ease": 1,
    "mf": 1,
    "slist": 1,
    "sasrec": 1,
}


def test_planned_releases_of_every_kind() -> None:
    """What an accountant counts: rounds that send, tables that are read, histories that go once."""
    for name, releases in PLANNED.items():
        algorithm = METHODS[name].method().algorithm(Task.of(TRAIN))
        assert algorithm.releases(10) == releases, name
    guided = fedrkg(fedmf(dim=4), every=3).algorithm(Task.of(TRAIN))
    assert guided.releases(10) == 3


def test_a_bound_is_the_clip_times_the_largest_weight() -> None:
    clipped = replace(fedmf(dim=4), channel=(Dense(), Clip(bound=2.0)))
    for server, bound in ((Mean(), 2.0), (Mean("examples", cap=9), 2.0), (Mean("examples"), None)):
        found = algorithm_for(replace(clipped, server=server), TRAIN).bound
        assert (found.value if found else None) == bound
    assert algorithm_for(fedmf(dim=4), TRAIN).bound is None
    assert algorithm_for(replace(clipped, server=NotesLengths()), TRAIN).bound is None
