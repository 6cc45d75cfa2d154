"""Who may take part: nodes by name, their numbers, their keys and how many people each has.

The order of the roster is the order of sums. With one person on each node, listed as a simulation
lists its users, sums are those of the reference engine to the last bit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from tacit import streams
from tacit.data.views import Lists, TrainView
from tacit.engines.participation import Participation
from tacit.errors import TacitError, shown
from tacit.experiment.sealed import DamagedError, checksum, read_sealed, sealed_text, write_sealed


@dataclass(frozen=True)
class Member:
    """One node. `number` is its place in secure sums and `public` its node key there, in hex;
    `people` are those who may be on it."""

    name: str
    number: int
    people: int = 1
    public: str = ""


@dataclass(frozen=True)
class Roster:
    """All nodes of a deployment, in the order of sums.

    >>> roster = Roster.of(["ann", "bob", "cid"])
    >>> roster.people, roster["bob"].number
    (3, 1)
    >>> roster["eve"]
    Traceback (most recent call last):
    tacit.errors.TacitError: There is no node 'eve' on the roster.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise TacitError("The roster is empty; register at least one node.")
        names = Counter(member.name for member in self.members)
        numbers = Counter(str(member.number) for member in self.members)
        for what, found in (("name", names), ("number", numbers)):
            twice = [one for one, count in found.items() if count > 1]
            if twice:
                raise TacitError(f"Two nodes of the roster have the {what} {shown(twice[0])}.")
        for member in self.members:
            if member.people < 1 or member.number < 0 or not member.name:
                raise TacitError(
                    f"Node {shown(member.name)} of the roster needs a name, a number from 0 on and "
                    "at least one person."
                )

    @classmethod
    def of(cls, names: list[str], people: int = 1) -> Roster:
        """Nodes without keys, numbered in their order."""
        return cls(tuple(Member(name, number, people) for number, name in enumerate(names)))

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, name: str) -> Member:
        if name not in self._by_name:
            raise TacitError(f"There is no node {shown(name)} on the roster.")
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, Member]:
        return {member.name: member for member in self.members}

    @cached_property
    def by_number(self) -> dict[int, Member]:
        return {member.number: member for member in self.members}

    @property
    def people(self) -> int:
        return sum(member.people for member in self.members)

    @property
    def directory(self) -> dict[int, bytes]:
        """The public node keys by number, as secure sums want them."""
        keyless = [member.name for member in self.members if not member.public]
        if keyless:
            raise TacitError(
                f"Node {shown(keyless[0])} has no public key on the roster; secure sums need one "
                "of every node."
            )
        return {member.number: bytes.fromhex(member.public) for member in self.members}

    # Who is invited

    @cached_property
    def view(self) -> TrainView:
        """The roster as participation is drawn from it: one client a node, keyed by its name."""
        count = len(self.members)
        keys = [streams.name_of(member.name) for member in self.members]
        one_each = Lists(np.arange(count + 1), np.zeros(count, dtype=np.int64))
        return TrainView(1, one_each, np.array(keys, dtype=np.uint64), Lists.empty(count))

    def invited(self, ratio: float, seed: int, round_number: int) -> tuple[Member, ...]:
        """Who is invited to a round, drawn as a simulation draws: by names, never by data.

        >>> [one.name for one in Roster.of(list("abcdef")).invited(0.5, seed=0, round_number=1)]
        ['a', 'b', 'd']
        """
        drawn = Participation(ratio=ratio).draw(self.view, seed, round_number)
        return tuple(self.members[place] for place in drawn.user_P.tolist())

    # On disk

    @property
    def digest(self) -> str:
        return checksum(sealed_text(asdict(self)).encode())

    def write(self, path: Path) -> None:
        write_sealed(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Roster:
        try:
            found = read_sealed(path)
            members = TypeAdapter(tuple[Member, ...]).validate_python(found.get("members"))
        except (DamagedError, ValidationError) as error:
            raise TacitError(
                f"The roster at {str(path)!r} cannot be read; write it again."
            ) from error
        return cls(members)
