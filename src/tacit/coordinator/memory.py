"""A transport within one process: for tests, for trying a deployment out, and for its faults.

Every message is taken apart and put together again, as on a wire, and arrays are copied. `Faults`
says what goes wrong on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from tacit.wire.messages import Answer, Letter, Request, from_letter, to_letter


class Transport(Protocol):
    """How a server reaches its nodes."""

    def ask(
        self, requests: Mapping[str, Request], deadline: float
    ) -> Iterable[tuple[str, Answer | Letter]]:
        """Send each node its request, and give answers with their senders as they come. It ends
        when all have answered, or so many seconds after it began."""
        ...


class AnswersRequests(Protocol):
    """A node, as a transport knows it."""

    def answer(self, request: Request) -> Answer: ...


class NodeDownError(Exception):
    """A node is not there, or died before its answer was on the way."""


class Faults:
    """What goes wrong; the base class lets everything pass."""

    def before(self, name: str, request: Request) -> None:
        """Called before a node sees a request; NodeDownError where it never does."""

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        """What arrives at the server for one answer: usually that answer alone."""
        return [(name, answer)]


class MemoryTransport:
    """Nodes in this process, asked one after another."""

    def __init__(self, nodes: Mapping[str, AnswersRequests], faults: Faults | None = None) -> None:
        self.nodes = nodes
        self.faults = faults or Faults()

    def ask(
        self, requests: Mapping[str, Request], deadline: float
    ) -> Iterator[tuple[str, Answer | Letter]]:
        for name, request in requests.items():
            try:
                self.faults.before(name, request)
                came = from_letter(copied(to_letter(request)))
                answer = self.nodes[name].answer(came)  # type: ignore[arg-type]
                arrived = list(self.faults.after(name, request, copied(to_letter(answer))))
            except NodeDownError:
                continue
            yield from arrived


def copied(letter: Letter) -> Letter:
    """The same letter, which shares no array with the sender's.

    >>> import numpy as np
    >>> letter = Letter("Played", {}, {"a": np.zeros(2)})
    >>> copied(letter).arrays["a"] is letter.arrays["a"]
    False
    """
    return Letter(
        letter.kind,
        dict(letter.values),
        {name: array.copy() for name, array in letter.arrays.items()},
    )
