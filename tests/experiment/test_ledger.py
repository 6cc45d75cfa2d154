"""The ledger of a run: what it says crossed is what clients really send, byte for byte."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import save

from tacit.core.algorithm import Algorithm, ClientData, ClientState, Exchange, Update
from tacit.core.fit import CompositionError
from tacit.core.ledger import Ledger
from tacit.core.types import BOUND, Params, Task
from tacit.data.views import TrainView
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation, everybody
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.record_parts import Privacy
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.methods import METHODS
from tacit.privacy.guarantee import Guarantee

USERS, ROUNDS = 4, 2
SMALLER = {"metamf": {"sets": ["hidden=8"]}}  # the server is all that is large in it


class Captured(NamedTuple):
    """A message on the wire: who sent it in which exchange, and its bytes."""

    user: int
    exchange: str
    content: bytes


@dataclass(frozen=True, eq=False)
class Tapped:
    """An algorithm whose clients' messages are written down, serialised, before they are used.

    `outer` is the whole algorithm, where clients run the half that a server's views leave them.
    """

    inner: Algorithm
    train: TrainView
    outer: Algorithm
    wire: list[Captured] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def views_sent(self) -> Tapped | None:
        return None if self.inner.views_sent is None else self

    @property
    def with_server_views(self) -> Tapped:
        return replace(self, inner=self.inner.with_server_views)

    def update(
        self,
        exchange: Exchange,
        received: Params,
        client: ClientState,
        data: ClientData,
        round_number: int,
    ) -> Update:
        update = self.inner.update(exchange, received, client, data, round_number)
        self.write_down(exchange, client, data, update)
        return update

    def write_down(
        self, exchange: Exchange, client: ClientState, data: ClientData, update: Update
    ) -> None:
        user = int(data.user)
        declared = self.outer.declared(len(self.train.positives[user]))
        message = self.outer.message(exchange, client, update, declared)
        if message:
            whole = {name: value.contiguous() for name, value in message.items()}
            self.wire.append(Captured(user, exchange.name, save(whole)))


class Run(NamedTuple):
    trainer: Trainer
    ledger: Ledger
    wire: list[Captured]


@pytest.fixture(scope="module")
def planted() -> Prepared:
    return prepare(resolve("popularity"))


@pytest.fixture(scope="module")
def untouched() -> Prepared:
    """With items that nobody has touched, as some methods want it."""
    return prepare(resolve("mdifffr"))


def run_of(name: str, data: tuple[Prepared, Prepared], tap: type[Tapped] = Tapped, **more) -> Run:
    """Some rounds of a method on the reference engine, with every message captured."""
    experiment = resolve(name, **{"rounds": ROUNDS, **SMALLER.get(name, {}), **more})
    prepared = data[experiment.protocol.split.is_cold]
    trainer = Trainer(experiment, prepared.split.train.take(np.arange(USERS)))
    algorithm, train = trainer.algorithm, trainer.train
    listening = tap(algorithm, train, algorithm)
    if algorithm.central is not None:
        history_of_everybody(listening)
        return Run(trainer, trainer.ledger(ROUNDS), listening.wire)
    engine = LoopEngine()
    state = engine.start(algorithm, train, seed=0)
    for number in range(1, trainer.rounds + 1):
        engine.round(listening, train, state, trainer.participants(number), seed=0)
    return Run(trainer, trainer.ledger(trainer.rounds), listening.wire)


def history_of_everybody(listening: Tapped) -> None:
    """The clients of a central method send their histories, in the first round."""
    for user in everybody(listening.train).user_P:
        item_H = torch.from_numpy(listening.train.positives[int(user)].astype(np.int64))
        nothing = torch.zeros(0)
        data = ClientData(torch.tensor(user), item_H, nothing, nothing, nothing, nothing)
        for number in (1, 2):
            for exchange in listening.exchanges(number):
                listening.update(exchange, {}, ClientState({}), data, number)


class Leaf(NamedTuple):
    shape: tuple[int, ...]
    size: int


def leaves(content: bytes) -> dict[str, Leaf]:
    """What a serialised message holds, by name, read out of its bytes; all of them are accounted
    for, or it is no message."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found = {}
    for name, told in header.items():
        begin, end = told["data_offsets"]
        found[name] = Leaf(tuple(told["shape"]), end - begin)
    assert len(content) == 8 + length + sum(leaf.size for leaf in found.values())
    return found


def unaccounted(ledger: Ledger, wire: list[Captured]) -> list[str]:
    """Where messages and ledger differ, in words; nothing, if the one is exactly the other."""
    wrong: list[str] = []
    rows = {(one.exchange, one.parameter): one for one in ledger.up}
    messages, sizes = Counter(), Counter()
    of_user: dict[tuple[str, str], Counter[int]] = {}
    for user, exchange, content in wire:
        for name, leaf in leaves(content).items():
            place = (exchange, name)
            messages[place] += 1
            sizes[place] += leaf.size
            of_user.setdefault(place, Counter())[user] += 1
            row = rows.get(place)
            if row is None:
                wrong.append(f"{place} is in no row")
            elif row.shape is not None and (row.shape, row.bytes) != leaf:
                wrong.append(f"{place} has {leaf}, where {row.shape}, {row.bytes} stands")
    for place, row in rows.items():
        most = max(of_user.get(place, Counter([0])).values())
        counted = (messages[place], most, sizes[place])
        if counted != (row.times, row.times_per_client, row.bytes_total):
            wrong.append(f"{place} crossed {counted}, not as {row}")
    sent = Counter(user for user, _, _ in wire)
    if max(sent.values(), default=0) != ledger.releases:
        wrong.append(f"a client sent {max(sent.values())} times, not {ledger.releases}")
    return wrong


MORE = {  # what no method of the list has by itself
    "tables of everybody": ("fedmf", {"plugins": ["fedrkg:every=1"]}),
    "tables and gates": ("pfedrec", {"plugins": ["fedrkg:every=2"]}),
    "views on the device": ("fcf", {"plugins": ["fedmr"]}),
    "views from the server": ("fcf", {"plugins": ["fedvlr"]}),
    "sums beside tables": ("gpfedrec", {"plugins": ["fedmr"]}),
    "bounded and noisy": ("fedmf", {"plugins": ["clip:bound=1", "gaussian:sigma=0.1"]}),
    "two basis-wide sums": ("fednext", {"sets": ["width=8"]}),
    "claimed for sums": ("fedmf", {"plugins": ["private:epsilon=8"]}),
    "claimed for uploads": ("fedncf", {"plugins": ["private:epsilon=8,view=local"]}),
    "claimed by a closed form": ("fedease", {"plugins": ["private:epsilon=8"]}),
    "claimed with other uploads": ("metamf", {"plugins": ["private"]}),
    "some take part": ("fedmf", {"participation": 0.5, "rounds": 3}),
}


@pytest.mark.parametrize("name", [*METHODS, *MORE])
def test_messages_hold_what_the_ledger_says_and_nothing_else(planted, untouched, name):
    method, more = MORE.get(name, (name, {}))
    run = run_of(method, (planted, untouched), **more)
    assert unaccounted(run.ledger, run.wire) == []
    agrees_with_cost_and_disclosure(run.trainer, run.ledger)


def agrees_with_cost_and_disclosure(trainer: Trainer, ledger: Ledger) -> None:
    """Three ways to say what crosses, derived apart."""
    disclosed, traffic = trainer.disclosure(), trainer.traffic(ledger.rounds)
    told = {one.name: one.numbers for one in disclosed.sent}
    parameters = [one for one in ledger.up if one.parameter != "examples"]
    assert {one.parameter for one in parameters} == told.keys()
    assert any(one.parameter == "examples" for one in ledger.up) == disclosed.examples
    for one in parameters:
        if one.shape is not None:
            assert np.prod(one.shape) == told[one.parameter]
    if not disclosed.sent:
        assert ledger.crossings == ()
    counted = [one for one in ledger.crossings if one.parameter != "examples"]
    moved = sum(one.bytes_total for one in counted if one.exchange != "once")
    assert moved == traffic.total
    assert sum({one.parameter: one.bytes for one in parameters}.values()) == traffic.up
    once = sum(one.bytes for one in counted if one.exchange == "once")
    assert once == (traffic.once or 0)
    assert ledger.releases <= trainer.algorithm.releases(ledger.rounds)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "local_only"])
def test_a_client_needs_nothing_else_than_it_was_sent(planted, untouched, name):
    """An update from the parameters of the ledger alone is the same, bit for bit."""
    experiment = resolve(name, rounds=1, **SMALLER.get(name, {}))
    prepared = (planted, untouched)[experiment.protocol.split.is_cold]
    trainer = Trainer(experiment, prepared.split.train.take(np.arange(2)))
    algorithm = trainer.algorithm
    if algorithm.central is not None:
        assert trainer.ledger(1).down == ()
        return
    came = {one.parameter for one in trainer.ledger(1).down if one.exchange != "once"}

    @dataclass(frozen=True, eq=False)
    class Restricted(Tapped):
        def update(self, exchange, received, client, data, round_number):
            here = {name: value for name, value in received.items() if name in came}
            made = came - here.keys()  # by the server, for one client: it lies with the client
            assert made <= client.parameters.keys()
            return super().update(exchange, here, client, data, round_number)

    plain = run_of(name, (planted, untouched), rounds=1)
    restricted = run_of(name, (planted, untouched), Restricted, rounds=1)
    assert plain.wire == restricted.wire


# Controls: messages that hold more


@dataclass(frozen=True, eq=False)
class Leaking(Tapped):
    """A device that puts its own vector beside the change of the table."""

    def write_down(self, exchange, client, data, update) -> None:
        change = {**update.upload.change, "user": client.parameters["user"]}
        leaky = replace(update, upload=replace(update.upload, change=change))
        super().write_down(exchange, client, data, leaky)


@dataclass(frozen=True, eq=False)
class Wider(Tapped):
    """A device whose table has a column more."""

    def write_down(self, exchange, client, data, update) -> None:
        rows = update.upload.change["items"]
        wide = torch.cat([rows, rows[:, :1]], dim=1)
        more = replace(update, upload=replace(update.upload, change={"items": wide}))
        super().write_down(exchange, client, data, more)


@dataclass(frozen=True, eq=False)
class Twice(Tapped):
    """A device that sends everything twice."""

    def write_down(self, exchange, client, data, update) -> None:
        for _ in range(2):
            super().write_down(exchange, client, data, update)


@pytest.mark.parametrize(
    ("tap", "words"),
    [
        (Leaking, "('train', 'user') is in no row"),
        (Wider, "shape=(240, 33)"),
        (Twice, "a client sent 4 times, not 2"),
    ],
)
def test_messages_that_hold_more_are_seen(planted, untouched, tap, words):
    run = run_of("fedmf", (planted, untouched), tap)
    assert any(words in one for one in unaccounted(run.ledger, run.wire))


def test_a_message_of_rows_alone_would_be_seen(planted, untouched):
    """Rows without their table tell which items were touched."""

    @dataclass(frozen=True, eq=False)
    class Sparse(Tapped):
        def write_down(self, exchange, client, data, update) -> None:
            whole = {name: value.contiguous() for name, value in update.upload.change.items()}
            self.wire.append(Captured(int(data.user), exchange.name, save(whole)))

    assert unaccounted(*run_of("fedmf", (planted, untouched), Sparse)[1:])


# Who can read it


def ledger_of(name: str, planted: Prepared, guarantee: Guarantee | None = None, **more) -> Ledger:
    trainer = Trainer(resolve(name, rounds=2, **more), planted.split.train.take(np.arange(USERS)))
    who = [trainer.participants(n).user_P for n in (1, 2)]
    user_U = everybody(trainer.train).user_P
    return Ledger.of(trainer.algorithm, trainer._sample, who, user_U, 4, guarantee)


def test_the_server_reads_sums_alone_only_where_that_is_claimed(planted):
    noisy = {"bound": 1.0, "noise": 2.0, "releases": 2, "delta": 1e-5}
    summed = Guarantee.gaussian("secure_sum", **noisy)
    local = Guarantee.gaussian("local", **noisy)
    for guarantee, reader in (
        (None, "server_each"),
        (local, "server_each"),
        (summed, "server_sum"),
    ):
        [row] = ledger_of("fedmf", planted, guarantee).up
        assert row.readers == (reader,)
    # no sum is enough here, whatever was claimed
    [row] = ledger_of("gpfedrec", planted, summed).up
    assert row.readers == ("server_each",)
    assert row.private
    rows = {one.parameter: one for one in ledger_of("fedavg", planted, summed).up}
    assert rows["items"].readers == ("server_sum",)
    assert rows["examples"].readers == ("server_each",)


def test_a_run_that_claims_privacy_says_what_stands_between(planted):
    train = planted.split.train.take(np.arange(USERS))
    trainer = Trainer(resolve("fedmf", rounds=3, plugins=["private:epsilon=8,clip=1"]), train)
    ledger, stated = trainer.ledger(3), trainer.algorithm.guarantee(trainer.releases)
    [row] = ledger.up
    assert row.readers == ("server_sum",)
    assert row.through == ("dense", "clip:bound=1,order=2", f"gaussian_sum:sigma={stated.noise:g}")
    assert ledger.releases == row.times_per_client == stated.releases == 3
    assert "only the sum of a round" in ledger.sentence

    estimated = Trainer(resolve("fedmf", rounds=3, plugins=["private:epsilon=8"]), train).ledger(3)
    bit, bound = (
        [one for one in way if one.parameter == BOUND] for way in (estimated.up, estimated.down)
    )
    assert [(one.shape, one.bytes, one.readers) for one in bit] == [((), 4, ("server_sum",))]
    assert [(one.shape, one.bytes) for one in bound] == [((2,), 8)]


def test_a_third_party_is_named(planted):
    rows = {one.parameter: one for one in ledger_of("fedpergnn", planted).up}
    assert rows["slots"].readers == rows["matched"].readers == ("third_party_each",)
    assert rows["slots"].private
    assert rows["matched"].by_history
    assert rows["items"].readers == ("server_each",)


def test_what_everybody_receives_and_what_is_made_for_one(planted):
    rows = {one.parameter: one for one in ledger_of("gpfedrec", planted).down}
    assert rows["items"].readers == ("participants", "released")
    assert rows["items.guide"].readers == ("its_client",)
    assert {one.readers for one in ledger_of("metamf", planted).down} == {("its_client",)}


def test_links_of_the_channel_are_named_with_their_settings(planted):
    plugins = ["clip:bound=1", "gaussian:sigma=0.1"]
    [row] = ledger_of("fedmf", planted, plugins=plugins).up
    assert row.through == ("dense", "clip:bound=1,order=2", "gaussian:sigma=0.1")
    rows = ledger_of("fedease", planted, plugins=["private"]).up
    assert {row.parameter for row in rows} == {"counts", "pairs"}
    for row in rows:
        assert row.through[0] == "own bound:bound=1,order=2"
        assert row.through[1].startswith("gaussian_sum:sigma=")
    tables = ledger_of("cofedrec", planted).up
    assert tables[0].through == ()  # a server that reads tables reads them as they are


@pytest.mark.parametrize("link", ["quantise:bits=8", "top_k:share=0.1", "project:width=8"])
def test_uploads_that_travel_smaller_are_counted_as_they_travel(planted, link):
    dense, smaller = (
        Trainer(
            resolve("fedmf", rounds=2, plugins=plugins),
            planted.split.train.take(np.arange(USERS)),
        )
        for plugins in ([], [link])
    )
    [before], [row] = dense.ledger(2).up, smaller.ledger(2).up
    traffic = smaller.traffic(2)
    assert row.shape == before.shape  # what it stands for
    assert row.bytes == traffic.up < before.bytes
    assert sum(one.bytes_total for one in smaller.ledger(2).crossings) == traffic.total
    assert link.partition(":")[2] in row.through[-1]


def test_how_often_follows_who_took_part(planted):
    train = planted.split.train.take(np.arange(20))
    experiment = resolve("fedmf", rounds=5, participation=0.3)
    trainer = Trainer(experiment, train)
    [row] = trainer.ledger(5).up
    times_U = np.zeros(20, dtype=int)
    for number in range(1, 6):
        times_U[Participation(ratio=0.3).draw(train, 0, number).user_P] += 1
    assert (row.times, row.times_per_client) == (times_U.sum(), times_U.max())
    assert 1 < row.times_per_client < 5
    assert trainer.ledger(5).releases == row.times_per_client


def test_the_sentence_of_a_ledger(planted):
    assert ledger_of("local_only", planted).sentence == "Nothing left a device."
    said = ledger_of("fedease", planted).sentence
    assert said.startswith("A client sent once, all clients together 921,600 bytes")
    assert said.endswith("which these can read: the server, each upload.")


# The two sentences of a report: what is guaranteed, and what the server can read

CLAIMS = {"": [], "sums": ["private:epsilon=8"], "uploads": ["private:epsilon=8,view=local"]}


def can_keep_a_claim(name: str) -> bool:
    """Whether clients send, and nobody needs to read single messages."""
    algorithm = resolve(name).method.algorithm(Task(n_users=4, n_items=6))
    alone = algorithm.central is not None or algorithm.reads_tables is not None
    return not alone and not algorithm.third_party and algorithm.releases(1) > 0


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("name", METHODS)
def test_what_a_report_says_of_privacy_agrees_with_the_ledger(planted, untouched, name, claim):
    if claim and not can_keep_a_claim(name):
        with pytest.raises(CompositionError):
            resolve(name, rounds=3, plugins=CLAIMS[claim])
        return
    experiment = resolve(name, rounds=3, plugins=CLAIMS[claim], **SMALLER.get(name, {}))
    prepared = (planted, untouched)[experiment.protocol.split.is_cold]
    trainer = Trainer(experiment, prepared.split.train.take(np.arange(USERS)))
    privacy = Privacy.of(trainer.guarantee(), trainer.disclosure().sentences())
    ledger = trainer.ledger(trainer.rounds)

    # the first sentence
    assert privacy.guaranteed == bool(claim)
    assert (privacy.text == "no guarantee") == (not claim)
    view = {"": None, "sums": "secure_sum", "uploads": "local"}[claim]
    assert privacy.view == view
    reader = "server_sum" if view == "secure_sum" else "server_each"
    others = {"third_party_each"} if name == "fedpergnn" else set()
    assert {one for row in ledger.up for one in row.readers} in ({reader} | others, set())
    noisy = [row for row in ledger.up if any("gaussian" in link for link in row.through)]
    assert noisy == ([*ledger.up] if claim else [])
    if claim:
        assert privacy.epsilon == pytest.approx(8.0)
        bound = trainer.algorithm.bound
        as_one = bound is not None and bound.together  # all uploads of a client count as one
        assert privacy.releases == (1 if as_one else ledger.releases)
        assert ledger.releases > 0

    # the second
    first, *more = privacy.server_reads
    if not ledger.up:
        assert privacy.server_reads == ("nothing leaves the device",)
        return
    named = re.findall(r"(?:^a client sends |\), )([^(]+?) \(", first)
    assert sorted(named) == sorted({one.parameter for one in ledger.up} - {"examples"})
    for row in ledger.up:
        told = re.search(rf"(?:^a client sends |, ){re.escape(row.parameter)} \(([^)]*)\)", first)
        if row.parameter == "examples":
            assert "the server is told how many interactions a client has" in more
            continue
        assert told is not None
        assert ("rows outside of the history are zero" in told[1]) == row.by_history
        assert ("private values" in told[1]) == row.private
    every = "the server reads every single upload, so a sum would not be enough"
    assert (every in more) == (trainer.disclosure().reads == "each")
    told_examples = any("told how many" in sentence for sentence in more)
    assert ("examples" in {one.parameter for one in ledger.up}) == told_examples
    if claim == "uploads":  # what an upload tells without noise is not what the server reads
        assert not any("reads a client's" in sentence or "touched" in sentence for sentence in more)
