"""The ledger of a run: every parameter that crossed, how often, through what, and who can read it.

It is derived from the contract of `core/algorithm.py` alone: the exchanges of each round, what a
client sends and receives in one, and who took part. Nothing in it is read out of a sentence.

It counts what training moves. What somebody fetches to rank afterwards is the final model, and
metrics or losses of a report are the experimenter's own view: neither is a message of a method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tacit.core.algorithm import EXAMPLES, Algorithm, Disclosure, Exchange, Parcel, Sample
from tacit.core.codec import encode
from tacit.core.parts import Transform
from tacit.core.types import OWN_ITEMS
from tacit.privacy.guarantee import Guarantee

Reader = Literal[
    "server_each", "server_sum", "third_party_each", "participants", "released", "its_client"
]

READERS: dict[Reader, str] = {
    "server_each": "the server, each upload",
    "server_sum": "the server, only the sum of a round",
    "third_party_each": "a third party, each upload",
    "participants": "every client that takes part",
    "released": "outsiders, its last value",
    "its_client": "the client it was made for",
}
ONCE = "once"  # before the first round


@dataclass(frozen=True)
class Crossing:
    """One parameter in one kind of message, over a whole run.

    >>> crossed = Crossing("items", "up", "train", (240, 32), 30720, 600, 100, 18432000,
    ...     through=("dense",), readers=("server_each",), by_history=False, private=True)
    >>> crossed.text, crossed.shape_text, crossed.readers_text
    ('items, private values', '240 × 32', 'the server, each upload')
    """

    parameter: str
    direction: Literal["up", "down"]
    exchange: str
    shape: tuple[int, ...] | None  # None: as long as the client's history
    bytes: int  # of one message; a mean over clients, where they differ
    times: int  # messages of all clients
    times_per_client: int  # the most of any one client
    bytes_total: int
    through: tuple[str, ...]
    readers: tuple[Reader, ...]
    by_history: bool  # whether rows outside of the client's history are zero
    private: bool  # whether it holds values that the client otherwise keeps

    @property
    def text(self) -> str:
        """The parameter, and what must be known of its values."""
        rows = ", zero outside of the history" if self.by_history else ""
        return f"{self.parameter}{rows}{', private values' if self.private else ''}"

    @property
    def shape_text(self) -> str:
        if self.shape is None:
            return "history"
        return " × ".join(f"{size:,}" for size in self.shape) or "1"

    @property
    def readers_text(self) -> str:
        return "; ".join(READERS[reader] for reader in self.readers)


@dataclass(frozen=True)
class Ledger:
    """What crossed in so many rounds; `releases` are the most messages that one client sent.

    >>> Ledger(rounds=3, releases=0, crossings=()).sentence
    'Nothing left a device.'
    """

    rounds: int
    releases: int
    crossings: tuple[Crossing, ...]

    @property
    def up(self) -> tuple[Crossing, ...]:
        return tuple(one for one in self.crossings if one.direction == "up")

    @property
    def down(self) -> tuple[Crossing, ...]:
        return tuple(one for one in self.crossings if one.direction == "down")

    @property
    def sentence(self) -> str:
        """What left a device, and who can read it, in one sentence for people."""
        if not self.up:
            return "Nothing left a device."
        readers = dict.fromkeys(reader for one in self.up for reader in one.readers)
        often = "once" if self.releases == 1 else f"{self.releases:,} times at most"
        size = sum(one.bytes_total for one in self.up)
        return (
            f"A client sent {often}, all clients together {size:,} bytes, which these can read: "
            f"{'; '.join(READERS[reader] for reader in readers)}."
        )

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        sample: Callable[[], Sample],
        participants: Sequence[np.ndarray],
        everybody: np.ndarray,
        width: int,
        guarantee: Guarantee | None = None,
    ) -> Ledger:
        """The ledger of the rounds that these users took part in; `everybody` are the users with
        data, `width` is how many bytes a number has.

        Under a guarantee for sums the server reads sums alone; that is what the guarantee claims.
        In all other cases an upload travels as it is, whatever the server then makes of it.
        """
        counts = _counts(algorithm, participants, everybody)
        disclosed = algorithm.disclosure(sample)
        crossings: list[Crossing] = []
        sent_U = np.zeros(algorithm.task.n_users, dtype=np.int64)
        readers = _server(disclosed, guarantee)
        up: dict[tuple[Exchange, str, Parcel], np.ndarray] = {}
        down: dict[tuple[str, str, Parcel], np.ndarray] = {}
        for exchange, times_U in counts.items():
            uploaded = algorithm.uploaded(exchange, sample, width)
            sent_U += times_U if uploaded else 0
            # rounds that send other parameters are the same exchange for those that they share
            same = replace(exchange, parameters=None)
            for name, parcel in uploaded.items():
                up[same, name, parcel] = up.get((same, name, parcel), 0) + times_U
            for name, parcel in algorithm.downloaded(exchange, sample, width).items():
                key = (exchange.name, name, parcel)
                down[key] = down.get(key, 0) + times_U
        crossings += [
            _up(algorithm, exchange, name, parcel, times_U, readers, disclosed, sample)
            for (exchange, name, parcel), times_U in up.items()
        ]
        crossings += [
            _down(algorithm, exchange, name, parcel, times_U)
            for (exchange, name, parcel), times_U in down.items()
        ]
        once_U = np.zeros_like(sent_U)
        once_U[everybody] = 1
        crossings += [
            _down(algorithm, ONCE, name, parcel, once_U)
            for name, parcel in algorithm.downloaded_once(width).items()
        ]
        return cls(len(participants), int(sent_U.max(initial=0)), tuple(crossings))


def _counts(
    algorithm: Algorithm, participants: Sequence[np.ndarray], everybody: np.ndarray
) -> dict[Exchange, np.ndarray]:
    """How often each user plays each kind of exchange."""
    counts: dict[Exchange, np.ndarray] = {}
    for number, user_P in enumerate(participants, 1):
        for exchange in algorithm.exchanges(number):
            times_U = counts.setdefault(exchange, np.zeros(algorithm.task.n_users, np.int64))
            times_U[everybody if exchange.everybody else user_P] += 1
    return counts


def _server(disclosed: Disclosure, guarantee: Guarantee | None) -> tuple[Reader, ...]:
    sums = guarantee is not None and guarantee.view != "local" and disclosed.reads == "sum"
    return ("server_sum",) if sums else ("server_each",)


def _up(
    algorithm: Algorithm,
    exchange: Exchange,
    name: str,
    parcel: Parcel,
    times_U: np.ndarray,
    readers: tuple[Reader, ...],
    disclosed: Disclosure,
    sample: Callable[[], Sample],
) -> Crossing:
    told = {sent.name: sent for sent in disclosed.sent}
    as_it_is = name == OWN_ITEMS and algorithm.reads_tables is not None
    total = int(times_U.sum()) * parcel.size
    if parcel.shape is None:  # clients differ, and all of them sent once
        total = 8 * sample().interactions
    if name in algorithm.third_party:
        readers = ("third_party_each",)
    elif name == EXAMPLES:
        readers = ("server_each",)
    return Crossing(
        name,
        "up",
        exchange.name,
        parcel.shape,
        parcel.size,
        int(times_U.sum()),
        int(times_U.max(initial=0)),
        total,
        () if as_it_is or name == EXAMPLES else _through(algorithm),
        readers,
        name in told and told[name].by_history,
        name in told and told[name].private,
    )


def _through(algorithm: Algorithm) -> tuple[str, ...]:
    """The links of the channel; before them the bound that a custom method has by itself."""
    links = tuple(spelled(link) for link in algorithm.channel)
    if algorithm.custom is None or algorithm.bound is None:
        return links
    bound = algorithm.bound
    return (f"own bound:bound={bound.value:g},order={bound.norm}", *links)


def _down(
    algorithm: Algorithm, exchange: str, name: str, parcel: Parcel, times_U: np.ndarray
) -> Crossing:
    times = int(times_U.sum())
    for_all = algorithm.is_same_for_all(name)
    return Crossing(
        name,
        "down",
        exchange,
        parcel.shape,
        parcel.size,
        times,
        int(times_U.max(initial=0)),
        times * parcel.size,
        (),
        ("participants", "released") if for_all else ("its_client",),
        by_history=False,
        private=False,
    )


def spelled(link: Transform) -> str:
    """A link of the channel with its settings, as a plug-in is written.

    >>> from tacit.parts.channel import Clip, Dense
    >>> spelled(Dense()), spelled(Clip(0.5))
    ('dense', 'clip:bound=0.5,order=2')
    """
    settings = dict(encode(link))
    name = settings.pop("part", type(link).__name__)
    told = (f"{key}={_value(value)}" for key, value in settings.items())
    return f"{name}:{','.join(told)}" if settings else str(name)


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
