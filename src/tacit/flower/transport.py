"""The transport of a coordinator over Flower's Grid: requests go out, answers come as they come.

A node is addressed by the number that the SuperLink gave it when its public key was registered. Who
registered by another way is never asked. A message lives as long as its exchange, so that what
comes too late is dropped on the way.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tacit.errors import TacitError, listed
from tacit.flower.records import LIMITS, Limits, flower, from_records, to_records
from tacit.wire.messages import Answer, Letter, Play, Rank, Refused, Request, SumRequest, to_letter

# Flower's codes of errors: a message or its reply is lost, a node is offline, its process died.
NOT_THERE = frozenset({3, 4, 5, 8})
LEAST_SECONDS = 1.0  # that a message lives


class Grid(Protocol):
    """What is used of Flower's Grid."""

    def get_node_ids(self) -> Iterable[int]: ...

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str]: ...

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]: ...


@dataclass
class FlowerTransport:
    """Nodes by name over a Grid, which is asked for answers every `pause` seconds."""

    grid: Grid
    node_ids: Mapping[str, int]
    pause: float = 0.2
    limits: Limits = LIMITS
    one_by_one: bool = False  # whether replies are fetched singly, since one was damaged

    def ask(
        self, requests: Mapping[str, Request], deadline: float
    ) -> Iterator[tuple[str, Answer | Letter]]:
        """Send each node its request, and give answers with their senders as they come. It ends
        when all have answered, or so many seconds after it began."""
        end = time.monotonic() + deadline
        waiting = self._push(requests, max(deadline, LEAST_SECONDS))
        while waiting:
            for number, reply in self._pulled(list(waiting)):
                name = waiting.pop(number, None)
                answer = None if name is None else self._answer(reply, self.node_ids[name])
                if name is not None and answer is not None:
                    yield name, answer
            left = end - time.monotonic()
            if left <= 0:
                return
            if waiting:
                time.sleep(min(self.pause, left))

    def wait_for(self, names: Iterable[str], seconds: float) -> None:
        """Wait until these nodes are online; who is missing then is said."""
        wanted, end = {self.node_ids[name]: name for name in names}, time.monotonic() + seconds
        while True:
            missing = wanted.keys() - set(self.grid.get_node_ids())
            if not missing:
                return
            if time.monotonic() > end:
                raise TacitError(
                    f"{len(missing)} of {len(wanted)} nodes are not online after {seconds:g} "
                    f"seconds: {listed(sorted(wanted[one] for one in missing))}; see their logs."
                )
            time.sleep(self.pause)

    def _push(self, requests: Mapping[str, Request], seconds: float) -> dict[str, str]:
        """Messages on their way, by number: the names of the nodes that will answer them."""
        app = flower()
        records: dict[int, Any] = {}  # one for all nodes that are sent the same request
        messages = []
        for name, request in requests.items():
            if id(request) not in records:
                records[id(request)] = to_records(to_letter(request))
            content, node = records[id(request)], self.node_ids[name]
            messages.append(app.Message(content, node, message_type(request), ttl=seconds))
        numbers = self.grid.push_messages(messages)
        # a message that the SuperLink would not take has no number
        return {n: name for n, name in zip(numbers, requests, strict=False) if n}

    def _pulled(self, numbers: list[str]) -> Iterator[tuple[str, Any]]:
        """Replies that are there, each with the number of its request; None for one that Flower
        itself cannot read.

        Flower reads all replies of a call together, and loses all of them where one is damaged.
        Once that has happened they are fetched one by one, and whose it was is known.
        """
        batches = [[number] for number in numbers] if self.one_by_one else [numbers]
        for batch in batches:
            try:
                found = list(self.grid.pull_messages(batch))
            except _unreadable():
                if len(batch) == 1:
                    yield batch[0], None
                self.one_by_one = True
                continue
            for reply in found:
                yield reply.metadata.reply_to_message_id, reply

    def _answer(self, reply: Any, node: int) -> Answer | Letter | None:
        """What a node answered; None where it was not there. Whoever is not asked is not heard."""
        if reply is None:
            return Letter("unreadable", {"sentence": "Flower cannot read it."}, {})
        if reply.has_error():
            if reply.error.code in NOT_THERE:
                return None
            return Refused("failed", f"Flower reports the error {int(reply.error.code)}.")
        if reply.metadata.src_node_id != node:
            return None
        try:
            return from_records(reply.content, self.limits)
        except TacitError as error:
            return Letter("unreadable", {"sentence": str(error)}, {})


def _unreadable() -> tuple[type[Exception], ...]:
    """What Flower raises where the bytes of a node are no message; a lost connection is not it."""
    decode = flower("google.protobuf.message").DecodeError
    return (ValueError, TypeError, LookupError, AttributeError, RecursionError, decode)


def message_type(request: Request) -> str:
    """Under which of Flower's categories a request travels; nodes treat them alike.

    >>> from tacit.wire.messages import CatalogueUpdate
    >>> message_type(CatalogueUpdate("shop", 1, "", [], []))
    'query'
    """
    if isinstance(request, Rank):
        return "evaluate"
    return "train" if isinstance(request, Play | SumRequest) else "query"
