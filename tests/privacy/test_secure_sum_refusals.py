"""What a server or a neighbour may try, and what is answered: one sentence, counted, no harm."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy.secure_sum import client as client_module
from tacit.privacy.secure_sum.client import SavedClient, SumClient
from tacit.privacy.secure_sum.messages import (
    FromClient,
    KeyAdvertisement,
    MaskedUpload,
    Neighbourhood,
    RefusedMessageError,
    ShareDelivery,
    ShareUpload,
    Unmasking,
    UnmaskRequest,
    from_bytes,
    signed,
    to_bytes,
)
from tacit.privacy.secure_sum.plan import SumPlan, plan_sum
from tacit.privacy.secure_sum.primitives import NodeKey
from tacit.privacy.secure_sum.server import SumServer
from tacit.privacy.secure_sum.simulation import seeded_entropy
from tacit.privacy.secure_sum.wire import unpack

CLIENTS, LENGTH = 6, 3
PLAN = plan_sum(
    clients=CLIENTS, fewest=4, colluders=1, bound=8.0, length=LENGTH, step=0.5, session=bytes(16)
)
KEYS = [NodeKey(node, bytes([node + 1] * 32)) for node in range(CLIENTS)]
DIRECTORY = {key.node: key.public for key in KEYS}
STRANGER = NodeKey(77, bytes([77] * 32))
Stage = Literal["keys", "shares", "vectors", "unmasking"]


def vector(node: int) -> np.ndarray:
    return np.array([1.0, node / 2, -0.5])


@dataclass
class Round:
    """A round that was played up to some step, with everything that was sent."""

    plan: SumPlan = PLAN
    seed: int = 0
    clients: list[SumClient] = field(default_factory=list)
    keys: dict[int, KeyAdvertisement] = field(default_factory=dict)
    neighbourhoods: dict[int, Neighbourhood] = field(default_factory=dict)
    shares: dict[int, ShareUpload] = field(default_factory=dict)
    deliveries: dict[int, ShareDelivery] = field(default_factory=dict)
    uploads: dict[int, MaskedUpload] = field(default_factory=dict)
    requests: dict[int, UnmaskRequest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = SumServer(self.plan, DIRECTORY, seeded_entropy(self.seed))
        for key in KEYS:
            entropy = seeded_entropy(100 * self.seed + key.node + 1)
            self.clients.append(SumClient(self.plan, key, DIRECTORY, entropy))

    def until(self, stage: Stage, silent: tuple[int, ...] = ()) -> Round:
        """Play until the server waits for that step's messages."""
        for client in self.clients:
            self.keys[client.node] = client.advertise()
        if stage == "keys":
            return self
        for advertised in self.keys.values():
            assert self.server.receive(advertised) is None
        self.neighbourhoods = self.server.neighbourhoods()
        for node, near in self.neighbourhoods.items():
            self.shares[node] = self.clients[node].share(near)
        if stage == "shares":
            return self
        for upload in self.shares.values():
            assert self.server.receive(upload) is None
        self.deliveries = self.server.deliveries()
        for node, delivery in self.deliveries.items():
            if node not in silent:
                self.uploads[node] = self.clients[node].mask(delivery, vector(node))
        if stage == "vectors":
            return self
        for masked in self.uploads.values():
            assert self.server.receive(masked) is None
        self.requests = self.server.requests()
        return self

    def finish(self, without: tuple[int, ...] = ()) -> list[float]:
        for node, request in self.requests.items():
            if node not in without:
                assert self.server.receive(self.clients[node].unmask(request)) is None
        return self.server.total().value_N.tolist()


def total_of(nodes: list[int]) -> list[float]:
    return [float(len(nodes)), sum(nodes) / 2, -0.5 * len(nodes)]


def reason(now: Round, message: FromClient) -> str:
    refusal = now.server.receive(message)
    assert refusal is not None
    assert refusal.sender == message.sender
    assert refusal.sentence.endswith(".")
    return refusal.reason


def test_the_round_of_these_tests_is_a_good_one() -> None:
    assert PLAN.needed == 3
    assert PLAN.degree == 5
    assert Round().until("unmasking").finish() == total_of([0, 1, 2, 3, 4, 5])
    assert Round().until("unmasking", silent=(1, 4)).finish() == total_of([0, 2, 3, 5])


# Replay: an old round is of no use.

OLD = Round(replace(PLAN, round_number=1), seed=1).until("unmasking")
OTHER_SESSION = Round(replace(PLAN, session=b"x" * 16), seed=2).until("unmasking")


@pytest.mark.parametrize("old", [OLD, OTHER_SESSION])
def test_messages_of_another_round_are_refused_by_the_server(old: Round) -> None:
    for stage, messages in (
        ("keys", old.keys),
        ("shares", old.shares),
        ("vectors", old.uploads),
    ):
        now = Round().until(stage)
        assert reason(now, messages[2]) == "another round"
        assert reason(now, replace(messages[2], context=PLAN.context)) == "wrong signature"
        assert now.server.refused == {"another round": 1, "wrong signature": 1}


@pytest.mark.parametrize("relabelled", [False, True])
def test_messages_of_another_round_are_refused_by_clients(relabelled: bool) -> None:
    context = {"context": PLAN.context} if relabelled else {}
    now = Round().until("keys")
    for advertised in now.keys.values():
        now.server.receive(advertised)
    now.neighbourhoods = now.server.neighbourhoods()
    whole = replace(OLD.neighbourhoods[2], **context)
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[2].share(whole)
    assert refused.value.reason == "another round"
    forged = replace(OLD.keys[3], context=PLAN.context)
    with pytest.raises(RefusedMessageError, match="not signed by its node key") as refused:
        now.clients[4].share(Neighbourhood(PLAN.context, 4, (forged,)))
    assert refused.value.reason == "wrong signature"

    now = Round().until("shares")
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[2].mask(replace(OLD.deliveries[2], **context), vector(2))
    assert refused.value.reason == ("corrupted" if relabelled else "another round")

    now = Round().until("unmasking")
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[2].unmask(OLD.requests[2])
    assert refused.value.reason == "another round"


def test_every_number_of_the_plan_is_bound_into_it() -> None:
    changed = [
        replace(PLAN, session=b"y" * 16),
        replace(PLAN, round_number=5),
        replace(PLAN, clients=7),
        replace(PLAN, fewest=5),
        replace(PLAN, colluders=0),
        replace(PLAN, degree=4),
        replace(PLAN, needed=2),
        replace(PLAN, bits=64),
        replace(PLAN, noise=1.0),
        replace(PLAN, code=replace(PLAN.code, bound=7.0)),
        replace(PLAN, code=replace(PLAN.code, step=1.0)),
        replace(PLAN, code=replace(PLAN.code, length=4)),
    ]
    assert len({plan.context for plan in [PLAN, *changed]}) == 13
    assert all(from_bytes(to_bytes(plan)) == plan for plan in changed)


def test_a_client_with_another_plan_is_not_summed() -> None:
    now = Round().until("keys")
    other = SumClient(replace(PLAN, noise=4.0), KEYS[0], DIRECTORY)
    assert reason(now, other.advertise()) == "another round"


def test_the_same_secrets_give_other_masks_in_another_round() -> None:
    """Even where nodes drew the same numbers again."""
    first, second = Round(seed=3).until("vectors"), Round(replace(PLAN, round_number=1), seed=3)
    second.until("vectors")
    assert first.keys[0].mask_public == second.keys[0].mask_public
    assert first.shares[0].sealed[0].box != second.shares[0].sealed[0].box
    words = [np.frombuffer(one.uploads[0].payload, dtype="<u4") for one in (first, second)]
    assert (words[0] != words[1]).all()


# Keys.


def test_a_server_cannot_swap_keys() -> None:
    """It puts keys of its own in a neighbour's place: they are not signed by that node."""
    now = Round().until("keys")
    mine = SumClient(PLAN, replace(STRANGER, node=3), DIRECTORY).advertise()
    honest = tuple(now.keys[node] for node in (1, 2, 4, 5))
    with pytest.raises(RefusedMessageError, match="swapped") as refused:
        now.clients[0].share(Neighbourhood(PLAN.context, 0, (*honest, mine)))
    assert refused.value.reason == "wrong signature"


@pytest.mark.parametrize(
    ("neighbours", "reason"),
    [
        ((1, 2, 3, 3), "sent twice"),
        ((0, 1, 2), "unknown sender"),
        ((1, 2), "too few"),
    ],
)
def test_odd_neighbourhoods(neighbours: tuple[int, ...], reason: str) -> None:
    now = Round().until("keys")
    given = Neighbourhood(PLAN.context, 0, tuple(now.keys[node] for node in neighbours))
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[0].share(given)
    assert refused.value.reason == reason


def test_strangers_and_messages_for_others() -> None:
    now = Round().until("keys")
    stranger = SumClient(PLAN, STRANGER, DIRECTORY).advertise()
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[0].share(Neighbourhood(PLAN.context, 0, (stranger,)))
    assert refused.value.reason == "unknown sender"
    with pytest.raises(RefusedMessageError, match="another node"):
        now.clients[1].share(Neighbourhood(PLAN.context, 0, ()))
    assert reason(now, stranger) == "unknown sender"
    borrowed = replace(stranger, sender=3)
    assert reason(now, borrowed) == "wrong signature"
    short = signed(replace(now.keys[0], box_public=b"short"), KEYS[0])
    assert reason(now, short) == "wrong size"
    assert now.server.receive(now.keys[0]) is None
    assert reason(now, now.keys[0]) == "sent twice"
    assert sum(now.server.refused.values()) == 4


def test_more_nodes_than_planned_find_no_room() -> None:
    plan = replace(PLAN, clients=5, degree=4)
    server = SumServer(plan, DIRECTORY)
    refused = [server.receive(SumClient(plan, key, DIRECTORY).advertise()) for key in KEYS]
    assert [one is None for one in refused] == [True] * 5 + [False]


# Shares.


def test_a_corrupted_box_sends_its_reader_home_and_the_round_goes_on() -> None:
    now = Round().until("shares")
    for upload in now.shares.values():
        now.server.receive(upload)
    deliveries = now.server.deliveries()
    first, *others = deliveries[0].sealed
    for place in (0, 40, len(first.box) - 1):
        box = bytearray(first.box)
        box[place] ^= 1
        spoilt = replace(deliveries[0], sealed=(replace(first, box=bytes(box)), *others))
        client = Round().until("shares").clients[0]
        with pytest.raises(RefusedMessageError, match="cannot be opened") as refused:
            client.mask(spoilt, vector(0))
        assert refused.value.reason == "corrupted"
    for node in range(1, 6):  # node 0 has left
        assert now.server.receive(now.clients[node].mask(deliveries[node], vector(node))) is None
    now.requests = now.server.requests()
    assert now.finish() == total_of([1, 2, 3, 4, 5])


@pytest.mark.parametrize("case", ["twice", "foreign", "turned", "few"])
def test_odd_deliveries(case: str) -> None:
    now = Round().until("shares")
    for upload in now.shares.values():
        now.server.receive(upload)
    sealed = now.server.deliveries()[0].sealed
    given, reason = {
        "twice": ((*sealed, sealed[0]), "sent twice"),
        "foreign": ((*sealed, replace(sealed[0], recipient=1)), "not a neighbour"),
        "turned": ((replace(sealed[0], sender=sealed[1].sender),), "corrupted"),
        "few": (sealed[:2], "too few"),
    }[case]
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[0].mask(ShareDelivery(PLAN.context, 0, given), vector(0))
    assert refused.value.reason == reason


def test_shares_that_are_not_one_per_neighbour() -> None:
    now = Round().until("shares")
    good = now.shares[0]
    for changed in (
        replace(good, sealed=good.sealed[1:]),
        replace(good, commitments=good.commitments[::-1]),
        replace(good, sealed=(*good.sealed[:-1], replace(good.sealed[-1], sender=3))),
    ):
        assert reason(now, signed(changed, KEYS[0])) == "not a neighbour"
    assert now.server.receive(good) is None
    assert reason(now, good) == "sent twice"
    assert now.server.refused == {"not a neighbour": 3, "sent twice": 1}


def test_shares_that_do_not_fit_together_stop_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that deals points of no polynomial: what comes out is not what it had promised."""

    def dealt(secret: bytes, points: list[int], needed: int, entropy: object) -> dict[int, bytes]:
        return {x: bytes([x] * 33) for x in points}

    for silent in ((), (0,)):
        now = Round()
        honest = now.clients[0].share

        def cheat(given: Neighbourhood, honest: object = honest) -> ShareUpload:
            with monkeypatch.context() as patch:
                patch.setattr(client_module, "split", dealt)
                return honest(given)

        monkeypatch.setattr(now.clients[0], "share", cheat)
        now.until("unmasking", silent=silent)
        with pytest.raises(TacitError, match="node 0 gave away do not fit together"):
            now.finish()


# Vectors.


def test_odd_uploads_are_refused_and_counted() -> None:
    now = Round().until("vectors")
    good = now.uploads[0]
    wide = replace(good, payload=good.payload * 2)  # numbers of 64 bits
    assert reason(now, signed(wide, KEYS[0])) == "wrong size"
    empty = signed(replace(good, payload=b""), KEYS[0])
    assert reason(now, empty) == "wrong size"
    changed = replace(good, payload=bytes(len(good.payload)))
    assert reason(now, changed) == "wrong signature"
    foreign = signed(replace(good, sender=77), STRANGER)
    assert reason(now, foreign) == "unknown sender"
    assert reason(now, now.keys[0]) == "wrong step"
    assert now.server.receive(good) is None
    assert reason(now, good) == "sent twice"
    twice = signed(replace(good, payload=bytes(len(good.payload))), KEYS[0])
    assert reason(now, twice) == "sent twice"
    for node in range(1, 6):
        assert now.server.receive(now.uploads[node]) is None
    assert now.server.refused == {
        "wrong size": 2,
        "wrong signature": 1,
        "unknown sender": 1,
        "wrong step": 1,
        "sent twice": 2,
    }
    now.requests = now.server.requests()
    assert now.finish() == total_of([0, 1, 2, 3, 4, 5])  # nothing of it was added


def test_a_vector_that_comes_late_is_not_added() -> None:
    """Its pairwise masks are being opened; its own mask still hides it, and it stays outside."""
    now = Round().until("vectors")
    for node in (0, 1, 2, 3, 4):
        assert now.server.receive(now.uploads[node]) is None
    now.requests = now.server.requests()
    assert reason(now, now.uploads[5]) == "wrong step"
    assert now.finish() == total_of([0, 1, 2, 3, 4])


def test_a_client_refuses_vectors_of_another_shape() -> None:
    now = Round().until("shares")
    for upload in now.shares.values():
        now.server.receive(upload)
    with pytest.raises(TacitError, match=r"shape \(4,\)"):
        now.clients[0].mask(now.server.deliveries()[0], np.zeros(4))


def test_a_client_that_sent_no_shares_cannot_send_a_vector() -> None:
    now = Round().until("shares")
    for node in range(5):
        now.server.receive(now.shares[node])
    now.server.deliveries()
    forged = signed(MaskedUpload(PLAN.context, 5, bytes(4 * LENGTH)), KEYS[5])
    assert reason(now, forged) == "wrong step"


# Unmasking.


def test_both_shares_of_one_node_are_never_given() -> None:
    now = Round().until("unmasking", silent=(5,))
    request = now.requests[0]
    assert request.dropped == (5,)
    both = replace(request, dropped=(3, 5))
    with pytest.raises(RefusedMessageError, match="both secrets") as refused:
        now.clients[0].unmask(both)
    assert refused.value.reason == "both shares"
    # in two requests, one after the other, neither
    assert now.clients[1].unmask(now.requests[1])
    turned = replace(now.requests[1], survivors=(), dropped=(0, 2, 3, 4))
    with pytest.raises(RefusedMessageError, match="none comes twice") as refused:
        now.clients[1].unmask(turned)
    assert refused.value.reason == "wrong step"
    with pytest.raises(RefusedMessageError):  # who refused once says nothing any more
        now.clients[0].unmask(request)


def test_odd_requests_reveal_nothing() -> None:
    now = Round().until("unmasking", silent=(5,))
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[0].unmask(replace(now.requests[0], survivors=(0, 1)))  # itself
    assert refused.value.reason == "not a neighbour"
    with pytest.raises(RefusedMessageError) as refused:
        now.clients[1].unmask(replace(now.requests[1], dropped=(77,)))
    assert refused.value.reason == "not a neighbour"
    with pytest.raises(RefusedMessageError, match="Only 3 vectors arrived where 4") as refused:
        now.clients[2].unmask(replace(now.requests[2], survived=3))
    assert refused.value.reason == "too few"
    with pytest.raises(RefusedMessageError, match="next step is 'unmask'"):
        now.clients[3].mask(now.deliveries[3], vector(3))
    with pytest.raises(RefusedMessageError, match="next step is 'unmask'"):
        now.clients[4].advertise()


def test_a_server_asks_for_one_share_of_each_neighbour() -> None:
    now = Round().until("unmasking", silent=(1, 4))
    assert set(now.requests) == {0, 2, 3, 5}
    for node, request in now.requests.items():
        assert not {*request.survivors} & {*request.dropped}
        assert {*request.survivors} == {0, 2, 3, 5} - {node}
        assert request.dropped == (1, 4)
        assert request.survived == 4


def altered(answer: Unmasking, node: int, place: int) -> Unmasking:
    """The answer with one bit of one share changed."""
    first = answer.seed_shares[place]
    value = bytes([first.value[0], first.value[1] ^ 1, *first.value[2:]])
    shares = list(answer.seed_shares)
    shares[place] = replace(first, value=value)
    return signed(replace(answer, seed_shares=tuple(shares)), KEYS[node])


def test_wrong_shares_are_counted_and_the_others_do() -> None:
    now = Round().until("unmasking")
    for node, request in now.requests.items():
        answer = now.clients[node].unmask(request)
        now.server.receive(altered(answer, node, 0) if node in (0, 3) else answer)
    assert now.server.refused == {"wrong share": 2}
    assert now.server.total().value_N.tolist() == total_of([0, 1, 2, 3, 4, 5])


def test_too_many_wrong_shares_open_nothing() -> None:
    now = Round().until("unmasking")
    for node, request in now.requests.items():
        answer = now.clients[node].unmask(request)
        place = request.survivors.index(5) if node in (0, 1, 2) else 0
        now.server.receive(altered(answer, node, place) if node in (0, 1, 2) else answer)
    with pytest.raises(TacitError, match="Only 2 neighbours revealed a share of node 5 where 3"):
        now.server.total()


def test_odd_answers() -> None:
    now = Round().until("unmasking", silent=(5,))
    answer = now.clients[0].unmask(now.requests[0])
    one = answer.seed_shares[0]
    key = answer.key_shares[0]
    swapped = replace(
        answer,
        seed_shares=(replace(one, point=9), replace(one, owner=77), replace(one, value=b"")),
        key_shares=(one,),
    )
    assert now.server.receive(signed(swapped, KEYS[0])) is None
    # another point, an owner that is nobody, no value; and a seed's share as one of a key
    assert now.server.refused == {"wrong share": 4}
    assert reason(now, answer) == "sent twice"
    late = signed(Unmasking(PLAN.context, 5, (), (key,)), KEYS[5])
    assert reason(now, late) == "wrong step"
    assert now.finish(without=(0,)) == total_of([0, 1, 2, 3, 4])
    assert reason(now, answer) == "wrong step"


def test_a_share_that_was_not_asked_for_is_not_kept() -> None:
    """A client that reveals both: the server takes the one it may have."""
    now = Round().until("unmasking")
    other = now.clients[0]._key_shares[3]
    answer = now.clients[0].unmask(now.requests[0])
    assert now.server.receive(signed(replace(answer, key_shares=(other,)), KEYS[0])) is None
    assert now.server.refused == {"both shares": 1}
    assert now.finish(without=(0,)) == total_of([0, 1, 2, 3, 4, 5])


# Clients that are stopped and taken up again between any two steps.


def test_a_round_of_clients_that_never_stay_alive() -> None:
    def again(client: SumClient) -> SumClient:
        return SumClient.resumed(client.saved(), KEYS[client.node], DIRECTORY)

    server = SumServer(PLAN, DIRECTORY)
    clients = [again(SumClient(PLAN, key, DIRECTORY)) for key in KEYS]
    for client in clients:
        assert server.receive(client.advertise()) is None
    clients = [again(client) for client in clients]
    for node, near in server.neighbourhoods().items():
        assert server.receive(clients[node].share(near)) is None
    clients = [again(client) for client in clients]
    for node, delivery in server.deliveries().items():
        if node != 2:
            assert server.receive(clients[node].mask(delivery, vector(node))) is None
    clients = [again(client) for client in clients]
    for node, request in server.requests().items():
        assert server.receive(clients[node].unmask(request)) is None
        with pytest.raises(RefusedMessageError, match="next step is 'done'"):
            again(clients[node]).unmask(request)
    assert server.total().value_N.tolist() == total_of([0, 1, 3, 4, 5])


def test_a_saved_client_is_its_owners() -> None:
    saved = Round().until("vectors").clients[0].saved()
    with pytest.raises(TacitError, match="node 0, not of 1"):
        SumClient.resumed(saved, KEYS[1], DIRECTORY)
    with pytest.raises(TacitError, match="cut off"):
        SumClient.resumed(saved[:-1], KEYS[0], DIRECTORY)
    state = unpack(SavedClient, saved)
    assert str(state.seed) not in repr(state)
    assert str(state.seed_shares[0].value) not in repr(state)


# The order of the server's own steps.


def test_a_server_goes_step_by_step() -> None:
    now = Round()
    for act in (now.server.deliveries, now.server.requests, now.server.total):
        with pytest.raises(TacitError, match="in the step 'keys'"):
            act()
    now = Round().until("unmasking")
    with pytest.raises(TacitError, match="in the step 'unmasking'"):
        now.server.neighbourhoods()
    assert now.finish() == total_of([0, 1, 2, 3, 4, 5])
    with pytest.raises(TacitError, match="in the step 'done'"):
        now.server.total()


def test_a_server_that_waits_longer_may_go_on() -> None:
    """A step that could not be closed is still open."""
    now = Round().until("vectors")
    for node in (0, 1, 2):
        now.server.receive(now.uploads[node])
    with pytest.raises(TacitError, match="Only 3 of 6 clients sent vectors"):
        now.server.requests()
    now.server.receive(now.uploads[5])
    now.requests = now.server.requests()
    assert now.finish() == total_of([0, 1, 2, 5])


def ring_round() -> Round:
    """Six nodes in a circle, each with two neighbours, of which one opens a secret."""
    return Round(replace(PLAN, degree=2, needed=1, fewest=3), seed=4).until("vectors")


def test_survivors_that_fall_into_parts_are_not_opened() -> None:
    now = ring_round()
    graph = {n: [one.sender for one in near.neighbours] for n, near in now.neighbourhoods.items()}
    one, two = graph[0]
    away = next(n for n in range(1, 6) if n not in (one, two) and one not in graph[n])
    for node, upload in now.uploads.items():
        if node not in (one, away):
            now.server.receive(upload)
    with pytest.raises(TacitError, match="fall into parts"):
        now.server.requests()


def test_who_has_too_few_neighbours_left_is_left_out() -> None:
    plan = replace(PLAN, degree=2, needed=2, fewest=3)
    now = Round(plan, seed=4).until("shares")
    for node in range(1, 6):
        now.server.receive(now.shares[node])
    # a circle without one node unravels from both ends
    with pytest.raises(TacitError, match="Only 0 of 6 clients have enough neighbours left"):
        now.server.deliveries()
    now.server.receive(now.shares[0])
    assert set(now.server.deliveries()) == {0, 1, 2, 3, 4, 5}


# Bytes.

SENT = [
    PLAN,
    OLD.keys[0],
    OLD.neighbourhoods[0],
    OLD.shares[0],
    OLD.deliveries[0],
    OLD.uploads[0],
    OLD.requests[0],
    OLD.clients[1].unmask(OLD.requests[1]),
]


@pytest.mark.parametrize("message", SENT, ids=lambda message: type(message).__name__)
def test_messages_survive_the_trip(message: object) -> None:
    data = to_bytes(message)
    assert from_bytes(data) == message
    for wrong in (data[:-1], data + b"x", b"", bytes([99]) + data[1:], data[:1]):
        with pytest.raises(RefusedMessageError) as refused:
            from_bytes(wrong)
        assert refused.value.reason == "unreadable"


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SENT[1:]), st.data())
def test_damaged_bytes_are_refused_or_another_message(message: object, data: st.DataObject) -> None:
    whole = bytearray(to_bytes(message))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RefusedMessageError):
        assert to_bytes(from_bytes(bytes(whole))) == bytes(whole)
