"""What a node keeps of one run, in one box: what was played, the answer to it, and private state.

State and answer are written together, so that a moment is played once: whoever asks again gets the
answer that was kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tacit.node.store import Content, Store
from tacit.wire.messages import Letter, Message, Moment, RunPlan, from_letter, to_letter

When = tuple[int, int]  # round and exchange
STATE, ANSWER, RANKED = "state.", "answer.", "ranked."
PREFIX, DELIVERED, MODEL = "run-", "delivered-", "model"


@dataclass(frozen=True)
class PendingSum:
    """A secure sum between two of its steps: what the client of it saved, and what it answered."""

    when: When
    context: str  # of the plan of the sum, in hexadecimal
    saved: str  # the client's own state, in hexadecimal
    requests: dict[str, str] = field(default_factory=dict)  # a digest of each step's request
    answers: dict[str, str] = field(default_factory=dict)  # each step's answer, in hexadecimal


@dataclass(eq=False)
class RunBox:
    """All that is kept of a run. `trained` is the last round in which people here trained, and
    `closed` the last whose end was played."""

    deployment: str
    run: str
    plan: RunPlan
    played: When = (0, 0)
    ranked: tuple[int, str] = (0, "")
    trained: int = 0
    closed: int = 0
    state: dict[str, np.ndarray] = field(default_factory=dict)
    answer: Letter | None = None  # to the last moment that was played
    hits: Letter | None = None  # to the last request to rank
    sums: dict[str, PendingSum] = field(default_factory=dict)  # by what is summed
    # of the last masked vectors: variance and norms, by what was summed
    noise: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, moment: Moment) -> RunBox | None:
        content = store.read(box_name(moment.deployment, moment.run))
        if content is None:
            return None
        known = content.values
        return cls(
            known["deployment"],
            known["run"],
            RunPlan(**known["plan"]),
            (known["played"][0], known["played"][1]),
            (known["ranked"][0], known["ranked"][1]),
            known["trained"],
            known["closed"],
            _under(content.arrays, STATE),
            _letter(known["answer"], _under(content.arrays, ANSWER)),
            _letter(known["hits"], _under(content.arrays, RANKED)),
            {name: _pending(one) for name, one in known["sums"].items()},
            {name: (one[0], one[1], one[2]) for name, one in known["noise"].items()},
        )

    def write(self, store: Store) -> None:
        arrays = {STATE + name: array for name, array in self.state.items()}
        values = {
            "deployment": self.deployment,
            "run": self.run,
            "plan": asdict(self.plan),
            "played": self.played,
            "ranked": self.ranked,
            "trained": self.trained,
            "closed": self.closed,
            "answer": _values(self.answer),
            "hits": _values(self.hits),
            "sums": {name: asdict(one) for name, one in self.sums.items()},
            "noise": self.noise,
        }
        for prefix, letter in ((ANSWER, self.answer), (RANKED, self.hits)):
            if letter is not None:
                arrays |= {prefix + name: array for name, array in letter.arrays.items()}
        store.write(box_name(self.deployment, self.run), Content(values, arrays))

    def keep(self, answer: Message) -> None:
        self.answer = to_letter(answer)

    def kept(self) -> Any:
        """The answer to the last moment that was played."""
        return None if self.answer is None else from_letter(self.answer)


@dataclass(frozen=True, eq=False)
class Delivered:
    """What people here had in the round of a run that was delivered last, to rank with.

    A server that selects a round says so when it is the best so far, and again at the end, perhaps
    with rows for new items: by then people have trained on. `state_round` is the round that `state`
    is of: another one than `round_number` where a node did not hear in time.
    """

    deployment: str
    run: str
    round_number: int
    plan: RunPlan
    trained: int
    closed: int
    state_round: int
    state: dict[str, np.ndarray]

    @classmethod
    def of(
        cls, moment: Moment, plan: RunPlan, box: RunBox, state_round: int | None = None
    ) -> Delivered:
        """What the box has now, for a model of that moment."""
        known = (moment.deployment, moment.run, moment.round_number, plan)
        here = moment.round_number if state_round is None else state_round
        return cls(*known, box.trained, box.closed, here, box.state)

    def write(self, store: Store) -> None:
        values = {
            "deployment": self.deployment,
            "run": self.run,
            "round_number": self.round_number,
            "plan": asdict(self.plan),
            "trained": self.trained,
            "closed": self.closed,
            "state_round": self.state_round,
        }
        store.write(box_name(self.deployment, self.run, DELIVERED), Content(values, self.state))

    @classmethod
    def read(cls, store: Store, deployment: str, run: str) -> Delivered | None:
        content = store.read(box_name(deployment, run, DELIVERED))
        if content is None:
            return None
        known = {**content.values, "plan": RunPlan(**content.values["plan"])}
        return cls(**known, state=content.arrays)


@dataclass(frozen=True, eq=False)
class SharedModel:
    """The shared parameters of the model that lists are made with now; a node has one."""

    deployment: str
    run: str
    round_number: int
    shared: dict[str, np.ndarray]

    def write(self, store: Store) -> None:
        known = {k: v for k, v in vars(self).items() if k != "shared"}
        store.write(MODEL, Content(known, self.shared))

    @classmethod
    def read(cls, store: Store) -> SharedModel | None:
        content = store.read(MODEL)
        return None if content is None else cls(**content.values, shared=content.arrays)

    def delivered(self, store: Store) -> Delivered | None:
        """What people here had in its round; None where that is not there."""
        found = Delivered.read(store, self.deployment, self.run)
        return found if found is not None and found.round_number == self.round_number else None


def box_name(deployment: str, run: str, prefix: str = PREFIX) -> str:
    """The file of a run; its name tells nothing but that there is one."""
    return prefix + hashlib.blake2b(f"{deployment}\n{run}".encode(), digest_size=12).hexdigest()


def _under(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _values(letter: Letter | None) -> dict[str, Any] | None:
    """Kind and values of a letter as JSON has them; bytes are written in hexadecimal."""
    if letter is None:
        return None
    plain = {k: {"hex": v.hex()} if isinstance(v, bytes) else v for k, v in letter.values.items()}
    return {"kind": letter.kind, "values": plain}


def _letter(known: dict[str, Any] | None, arrays: dict[str, np.ndarray]) -> Letter | None:
    if known is None:
        return None
    values = {
        k: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for k, v in known["values"].items()
    }
    return Letter(known["kind"], values, arrays)


def _pending(known: dict[str, Any]) -> PendingSum:
    return PendingSum(**{**known, "when": (known["when"][0], known["when"][1])})
