"""What clients and the server of a composed method send to each other, what it costs and tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacit.core.algorithm import (
    EXAMPLES,
    GUIDE,
    TABLES,
    TRAIN,
    ClientState,
    Declared,
    Disclosure,
    Exchange,
    Parcel,
    Sample,
    Sent,
    Traffic,
    Update,
)
from tacit.core.composition import Composition
from tacit.core.types import BOUND, ITEMS, OWN_ITEMS, Initializer, Packed, Params

# where the server makes the views of items, these travel in the place of the item table
VIEWS, VIEW_GRADIENTS = "views", "gradients of views"


@dataclass(frozen=True)
class Communication(Composition):
    """Messages by name, shape and bytes; the numbers that a client holds; what is disclosed."""

    @property
    def communicates(self) -> bool:
        sync = self.method.sync
        return sync.guidance is not None or sync.sends(1)

    def sends_changes(self, round_number: int) -> bool:
        """Whether participants send their uploads: a guided table is aggregated now and then, what
        else is shared goes in every round."""
        sync = self.method.sync
        return bool(self.uploads) and (sync.guidance is not None or sync.sends(round_number))

    def _answers(self, round_number: int, participants: int) -> int:
        """How many clients send in a round: the participants, or at a guidance everybody."""
        sync = self.method.sync
        if sync.guidance is not None and sync.sends(round_number):
            return self.task.n_users
        return participants if self.sends_changes(round_number) or sync.sends(round_number) else 0

    def _bytes(self, round_number: int, participants: int, width: int) -> int:
        """How many bytes cross the network in a round, both ways, for all clients together."""
        sync = self.method.sync
        if sync.guidance is None:
            each = self.bytes_up(width) + self.floats_down * width
            return self._answers(round_number, participants) * each
        tables = self.task.n_users * self._table.count if sync.sends(round_number) else 0
        others = participants * sum(self.shared[name].count for name in self.uploads)
        senders = (self.task.n_users if sync.sends(round_number) else 0) + (
            participants if self.uploads else 0
        )
        return (2 * (tables + others) + 3 * self._bits * senders) * width

    def traffic(
        self, sample: Callable[[], Sample], participants: Sequence[int], width: int
    ) -> Traffic:
        rounds = list(enumerate(participants, 1)) if self.floats_up else []
        return Traffic(
            self.bytes_up(width),
            self.floats_down * width,
            sum(self._answers(number, count) for number, count in rounds),
            sum(self._bytes(number, count, width) for number, count in rounds),
            self.floats_on_client * width,
            self.floats_once * width,
            self.floats_at_peak * width,
        )

    def disclosure(self, sample: Callable[[], Sample]) -> Disclosure:
        if not self.communicates:
            return Disclosure()
        given = {what for link in self.channel for what in link.gives}
        noise = "noise" in given
        # the plain sentence of a dense update is not true under noise, nor is its opposite; what
        # sends some rows alone says itself what these tell
        hushed = noise or "sparse" in given
        speak = [link for link in self.channel if not (hushed and "dense" in link.gives)]
        told = [sentence for link in speak if (sentence := link.interpretation())]
        if noise and self.guarantee(releases=1) is None:
            told.append("nothing is promised of what the noise hides")
        each = self.reads_tables is not None
        whole = each or self.method.sync.guidance is not None or not self.uploads
        views = self.views_travel is not None
        sent = [
            Sent(VIEW_GRADIENTS if views and name == ITEMS else name, packed.numbers)
            for name, packed in ((name, self.packed(name, 4)) for name in self.sent)
        ]
        sent += [Sent(BOUND, 1)] if BOUND in self.shared else []
        if whole and ITEMS not in self.uploads:
            sent.append(Sent(OWN_ITEMS, self._table.count, private=True))
        return Disclosure(tuple(sent), "each" if each else "sum", self.tells_examples, tuple(told))

    def packed(self, name: str, width: int) -> Packed:
        """How one of them travels, after all links of the channel."""
        sent = Packed.of(self.sent[name].shape, width)
        for link in self.channel:
            sent = link.packed(sent)
        return sent

    def bytes_up(self, width: int) -> int:
        """How many bytes a client sends when it sends everything that it ever does."""
        if not self.links.coding or not self.communicates:
            return self.floats_up * width
        return sum(self.packed(name, width).size for name in self.sent)

    def uploaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> dict[str, Parcel]:
        sent = {}
        if exchange.name == TRAIN and exchange.sends:
            for name, init in self.sent.items():
                size = self.packed(name, width).size
                sent[self._called(exchange, name)] = Parcel(init.shape, size)
            if self.tells_examples:
                sent[EXAMPLES] = Parcel.of((), 8)
        own = exchange.name == TABLES or (exchange.name == TRAIN and self.reads_tables is not None)
        if own:
            sent[OWN_ITEMS] = Parcel.of(self._table.shape, width)
        if exchange.sends and BOUND in self.shared:
            sent[BOUND] = Parcel.of((), width)
        return sent

    def downloaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> dict[str, Parcel]:
        tables = self.method.server.tables
        parameters: dict[str, Initializer] = {}
        if exchange.name == GUIDE:
            # everybody trains a gate through the encoder, also who took no part in the round
            trains = self.method.sync.guidance is not None and self.method.sync.guidance.epochs
            parameters = {name: self.shared[name] for name in self.uploads if trains}
            parameters[ITEMS] = self.shared[ITEMS]
        elif exchange.name == TRAIN and self.views_travel is not None and exchange.sends:
            parameters = {VIEWS if k == ITEMS else k: init for k, init in self.sent.items()}
        elif exchange.name == TRAIN and (exchange.sends or tables is not None):
            needed = (*self.uploads, *(name for name in self.method.sync.needs))
            parameters = {name: self.shared[name] for name in needed if name in self.shared}
            if tables is not None:
                parameters |= tables.downloads(self._table)
        if exchange.sends and BOUND in self.shared:
            parameters[BOUND] = self.shared[BOUND]
        return {name: Parcel.of(init.shape, width) for name, init in parameters.items()}

    def downloaded_once(self, width: int) -> dict[str, Parcel]:
        if self.views_travel is not None:
            return {}
        return {name: Parcel.of(tuple(t.shape), width) for name, t in self.content.items()}

    def is_same_for_all(self, name: str) -> bool:
        return name not in self.private

    def message(
        self, exchange: Exchange, client: ClientState, update: Update, declared: Declared
    ) -> Params:
        sent = super().message(exchange, client, update, declared)
        if exchange.name == TRAIN and self.reads_tables is not None:
            table_ID = client.parameters[OWN_ITEMS].clone()
            item_R = update.upload.item_R if update.item_R is None else update.item_R
            table_ID[item_R] = update.rows[OWN_ITEMS]
            sent[OWN_ITEMS] = table_ID
        return {self._called(exchange, name): value for name, value in sent.items()}

    def _called(self, exchange: Exchange, name: str) -> str:
        """What a message calls a parameter: the item table is sometimes something else."""
        if name == ITEMS and exchange.name == TABLES:
            return OWN_ITEMS
        return VIEW_GRADIENTS if name == ITEMS and self.views_travel is not None else name

    @property
    def floats_up(self) -> int:
        """How many numbers a client sends when it sends everything that it ever does."""
        if not self.communicates:
            return 0
        views = self.views_travel
        if views is not None:  # in the place of the table and of what makes the views
            assert self.with_server_views is not None
            return (
                views
                + self._bits
                + sum(
                    self.with_server_views.shared[name].count
                    for name in self.with_server_views.uploads
                    if name != ITEMS
                )
            )
        sent = self._bits + sum(self.shared[name].count for name in self.uploads)
        whole = self.method.sync.guidance is not None or not self.uploads
        whole = whole or self.method.server.tables is not None
        return sent + (self._table.count if whole else 0)  # a personal table goes whole

    @property
    def floats_down(self) -> int:
        """How many numbers a client receives for that."""
        tables = self.method.server.tables
        if tables is not None:
            others = sum(self.shared[name].count for name in self.uploads)
            made = tables.downloads(self._table).values()
            return sum(init.count for init in made) + others
        # what a penalty looks at was made by the server; an estimated bound is one number more
        needs = sum(self.shared[name].count for name in self.method.sync.needs)
        return self.floats_up + self._bits + needs

    @property
    def _bits(self) -> int:
        """How many numbers a client sends for a bound that is estimated on the way."""
        return 1 if BOUND in self.shared else 0

    @property
    def floats_once(self) -> int:
        """How many numbers of content a client receives once, before the first round."""
        if self.views_travel is not None:
            return 0
        return sum(table.numel() for table in self.content.values())

    @property
    def floats_on_client(self) -> int:
        """How many numbers a client holds: its private parameters and its copy of the shared ones.
        A global table that it neither trains nor restarts from is not held."""
        private = sum(init.count for init in self.private.values())
        views = self.views_travel
        if views is not None:
            assert self.with_server_views is not None
            others = [init for name, init in self.with_server_views.shared.items() if name != ITEMS]
            return private + views + sum(init.count for init in others)
        stores_table = ITEMS in self.row_parameters or self.method.sync.restarts
        shared = [init for name, init in self.shared.items() if name != ITEMS or stores_table]
        return private + sum(init.count for init in shared) + self.floats_once

    @property
    def floats_at_peak(self) -> int:
        """How many numbers a client holds at most: at a guidance the global table comes on top."""
        received = self._table.count if self.method.sync.guidance is not None else 0
        return self.floats_on_client + received
