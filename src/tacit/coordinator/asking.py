"""Asking nodes: requests go out, answers pass the door, and what happened is counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tacit.coordinator.admission import Admission, Expected, letter_bytes
from tacit.coordinator.memory import Transport
from tacit.coordinator.rules import Rules
from tacit.core.types import Params
from tacit.errors import TacitError
from tacit.wire.messages import Arrays, Request, to_letter


class GivenUpError(TacitError):
    """Nothing comes of an exchange; the sentence says why."""


def arrays_of(shared: Params) -> Arrays:
    """Parameters as a request carries them."""
    return {name: value.detach().cpu().numpy() for name, value in shared.items()}


class Tally(NamedTuple):
    """What was counted since `begin`."""

    refused: dict[str, int]  # by reason
    declined: dict[str, int]  # by what nodes say
    bytes_down: int
    bytes_up: int
    seconds: float


class Asking:
    """A server's way to its nodes."""

    def __init__(
        self,
        transport: Transport,
        admission: Admission,
        rules: Rules,
        clock: Callable[[], float],
    ) -> None:
        self._transport, self._admission = transport, admission
        self._rules, self._clock = rules, clock
        self.begin()

    def begin(self) -> None:
        """Count from here on."""
        self._down, self._up, self._began = 0, 0, self._clock()
        self._refused = self._admission.refused.copy()
        self._declined = self._admission.declined.copy()

    @property
    def said_no(self) -> frozenset[tuple[str, str]]:
        """Nodes that declined since `begin`, and what they said."""
        return frozenset((self._admission.declined - self._declined).keys())

    def tally(self) -> Tally:
        refused: Counter[str] = Counter()
        for (_, reason), count in (self._admission.refused - self._refused).items():
            refused[reason] += count
        declined: Counter[str] = Counter()
        for (_, said), count in (self._admission.declined - self._declined).items():
            declined[said] += count
        seconds = self._clock() - self._began
        return Tally(dict(refused), dict(declined), self._down, self._up, seconds)

    def ask(
        self, requests: Mapping[str, Request], expected: Expected, *, all_of_them: bool = False
    ) -> dict[str, Any]:
        """Answers that are let in, in the order of the roster.

        It ends when all have answered, when enough have, or at the deadline. Those of a secure sum
        are all waited for: whoever is left out there has to be unmasked by others.
        """
        admitted: dict[str, Any] = {}
        share = 1.0 if all_of_them else self._rules.enough
        enough = max(1, math.ceil(share * len(requests) - 1e-9))
        sizes: dict[int, int] = {}  # most nodes are sent the same request
        for request in requests.values():
            if id(request) not in sizes:
                sizes[id(request)] = letter_bytes(to_letter(request))
            self._down += sizes[id(request)]
        self._admission.open(expected, frozenset(requests))
        until = self._clock() + self._rules.deadline
        try:
            for sender, message in self._transport.ask(requests, self._rules.deadline):
                answer = self._admission.admit(sender, message)
                if answer is not None:
                    admitted[sender] = answer
                    self._up += letter_bytes(to_letter(answer))
                late = self._clock() > until
                if len(admitted) >= enough or self._admission.all_heard or late:
                    break
        finally:
            self._admission.close()
        members = self._admission.roster.members
        return {one.name: admitted[one.name] for one in members if one.name in admitted}

    def require_quorum(self, answered: int, asked: int) -> None:
        """Enough answers, of those who were asked and have something to train on."""
        idle = sum(said == "no data" for _, said in self.said_no)
        needed = max(1, math.ceil(self._rules.quorum * (asked - idle) - 1e-9))
        if answered < needed:
            raise GivenUpError(
                f"Only {answered} of {asked} nodes answered in time and {needed} are needed; the "
                "exchange is given up."
            )
