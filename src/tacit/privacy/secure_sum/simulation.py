"""A whole round of a secure sum in one process: every message crosses as bytes.

For tests, for measurements, and to see what a round costs. Clients run one after the other, and the
server adds each vector as it comes, so memory holds a few vectors whatever the crowd.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.secure_sum.client import SumClient
from tacit.privacy.secure_sum.messages import (
    FromClient,
    Message,
    Reason,
    from_bytes,
    to_bytes,
)
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.secure_sum.primitives import NodeKey
from tacit.privacy.secure_sum.server import SumResult, SumServer
from tacit.privacy.secure_sum.shamir import Entropy

M = TypeVar("M", bound=Message)
Made = TypeVar("Made")


@dataclass(frozen=True)
class SimulatedRound:
    """What came out, and what it cost: bytes of each client, CPU seconds of all clients and of the
    server, packing and signatures included."""

    result: SumResult
    sent_bytes: dict[int, int]
    received_bytes: dict[int, int]
    client_seconds: float
    server_seconds: float
    refused: Counter[Reason]


def seeded_entropy(seed: int) -> Entropy:
    """Random bytes that are the same for the same seed. For tests only: nothing here is secret.

    >>> seeded_entropy(3)(8) == seeded_entropy(3)(8)
    True
    """
    return np.random.Generator(np.random.Philox(key=seed)).bytes


def simulate_round(
    plan: SumPlan,
    vector: Callable[[int], NDArray[np.floating[Any]]],
    *,
    absent: Collection[int] = (),
    leave_before_sharing: Collection[int] = (),
    leave_before_masking: Collection[int] = (),
    leave_after_masking: Collection[int] = (),
    entropy: Entropy = secrets.token_bytes,
) -> SimulatedRound:
    """Play a round of nodes 0, 1, ... with `vector(node)` as contributions.

    Nodes may be absent, or leave after their keys, after their shares, or after their vector. Those
    of the last kind are survivors: their vector counts, but they reveal no shares.

    >>> from tacit.privacy.secure_sum.plan import plan_sum
    >>> plan = plan_sum(clients=5, fewest=3, colluders=1, bound=1.0, length=2, step=2**-8)
    >>> played = simulate_round(plan, lambda node: np.array([0.5, -0.25]), leave_before_masking=[2])
    >>> played.result.value_N, played.result.survivors
    (array([ 2., -1.]), (0, 1, 3, 4))
    """
    nodes = [node for node in range(plan.clients) if node not in absent]
    keys = {node: NodeKey(node, entropy(32)) for node in range(plan.clients)}
    directory = {node: key.public for node, key in keys.items()}
    sent, received = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    clock = time.process_time
    client_seconds = server_seconds = 0.0

    def down(node: int, message: M) -> M:
        data = to_bytes(message)
        received[node] += len(data)
        read = from_bytes(data)
        assert isinstance(read, type(message))
        return read

    def up(message: FromClient) -> FromClient:
        data = to_bytes(message)
        sent[message.sender] += len(data)
        read = from_bytes(data)
        assert not isinstance(read, SumPlan)
        return read  # type: ignore[return-value]

    def by_server(act: Callable[[], Made]) -> Made:
        nonlocal server_seconds
        begin = clock()
        made = act()
        server_seconds += clock() - begin
        return made

    server = by_server(lambda: SumServer(plan, directory, entropy))

    def answer(act: Callable[[], FromClient]) -> None:
        nonlocal client_seconds
        begin = clock()
        message = up(act())
        client_seconds += clock() - begin
        by_server(lambda: server.receive(message))

    begin = clock()
    clients = {node: SumClient(down(node, plan), keys[node], directory, entropy) for node in nodes}
    client_seconds += clock() - begin
    for client in clients.values():
        answer(client.advertise)

    neighbourhoods = by_server(server.neighbourhoods)
    for node, neighbourhood in neighbourhoods.items():
        if node not in leave_before_sharing:
            answer(lambda n=node, m=neighbourhood: clients[n].share(down(n, m)))  # type: ignore[misc]

    deliveries = by_server(server.deliveries)
    for node, delivery in deliveries.items():
        if node not in leave_before_masking:
            value_N = vector(node)
            answer(lambda n=node, m=delivery, v=value_N: clients[n].mask(down(n, m), v))  # type: ignore[misc]

    requests = by_server(server.requests)
    for node, request in requests.items():
        if node not in leave_after_masking:
            answer(lambda n=node, m=request: clients[n].unmask(down(n, m)))  # type: ignore[misc]

    result = by_server(server.total)
    return SimulatedRound(result, sent, received, client_seconds, server_seconds, server.refused)
