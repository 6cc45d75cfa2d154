"""The server of a secure sum: it collects, passes on, and opens nothing but the sum.

`receive` takes every message of a client and says what it refused; refusals are counted and change
nothing. Between the steps, `neighbourhoods`, `deliveries`, `requests` and `total` close one step
and begin the next; each raises one clear sentence where too few clients are left.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.privacy.fixed_point import Units, out_of_ring, ring_type
from tacit.privacy.secure_sum.client import (
    Kind,
    pair_label,
    pair_sign,
    seed_hash,
    self_mask_key,
    share_hash,
)
from tacit.privacy.secure_sum.messages import (
    Commitment,
    FromClient,
    KeyAdvertisement,
    MaskedUpload,
    Neighbourhood,
    Reason,
    RefusedMessageError,
    RevealedShare,
    SealedShares,
    ShareDelivery,
    ShareUpload,
    Unmasking,
    UnmaskRequest,
    has_signature,
)
from tacit.privacy.secure_sum.plan import SumPlan, draw_graph, is_connected
from tacit.privacy.secure_sum.primitives import (
    KEY_BYTES,
    AgreementKey,
    add_mask,
    require_cryptography,
)
from tacit.privacy.secure_sum.shamir import SHARE_BYTES, Entropy, combine

ServerStep = Literal["keys", "shares", "vectors", "unmasking", "done"]
EXPECTED: dict[ServerStep, type[FromClient] | None] = {
    "keys": KeyAdvertisement,
    "shares": ShareUpload,
    "vectors": MaskedUpload,
    "unmasking": Unmasking,
    "done": None,
}


@dataclass(frozen=True)
class Refusal:
    """A message that was not taken, and why."""

    reason: Reason
    sender: int
    sentence: str


@dataclass(frozen=True)
class SumResult:
    """The sum over the survivors: in steps, exact, and as values."""

    units_N: Units
    value_N: NDArray[np.float64]
    survivors: tuple[int, ...]


class SumServer:
    """One round. `directory` maps the nodes that may take part to their public node keys."""

    def __init__(
        self,
        plan: SumPlan,
        directory: Mapping[int, bytes],
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        require_cryptography()
        self.plan = plan
        self.step: ServerStep = "keys"
        self.refusals: list[Refusal] = []
        self._directory = directory
        self._entropy = entropy
        self._context = plan.context
        self._keys: dict[int, KeyAdvertisement] = {}
        self._graph: dict[int, tuple[int, ...]] = {}
        self._shares: dict[int, ShareUpload] = {}
        self._total_N = np.zeros(plan.code.length, dtype=ring_type(32 if plan.bits == 32 else 64))
        self._survivors: set[int] = set()
        self._answered: set[int] = set()
        self._revealed: dict[tuple[Kind, int], dict[int, bytes]] = {}

    @property
    def refused(self) -> Counter[Reason]:
        """How many messages were refused, by reason."""
        return Counter(one.reason for one in self.refusals)

    def receive(self, message: FromClient) -> Refusal | None:
        """Take a message, or refuse and count it; None means that it was taken."""
        try:
            self._check(message)
            match message:
                case KeyAdvertisement():
                    self._take_keys(message)
                case ShareUpload():
                    self._take_shares(message)
                case MaskedUpload():
                    self._take_vector(message)
                case Unmasking():
                    self._take_unmasking(message)
        except RefusedMessageError as error:
            return self._refuse(error.reason, message.sender, str(error))
        return None

    def neighbourhoods(self) -> dict[int, Neighbourhood]:
        """End of step 1: draw the graph, and tell each client the keys of its neighbours."""
        self._require("keys", self._keys, "sent keys")
        self.step = "shares"
        self._graph = draw_graph(sorted(self._keys), self.plan.degree, self._entropy)
        return {
            node: Neighbourhood(self._context, node, tuple(self._keys[one] for one in near))
            for node, near in self._graph.items()
        }

    def deliveries(self) -> dict[int, ShareDelivery]:
        """End of step 2: pass the sealed shares on, between those who are still there.

        A client of whose neighbours fewer are left than open a secret is left out: its masks could
        not be taken away. This may leave others with too few, so it is repeated.
        """
        self._require("shares", self._shares, "sent shares")
        there = set(self._shares)
        while lonely := {node for node in there if len(self._near(node, there)) < self.plan.needed}:
            there -= lonely
        self._require("shares", there, "have enough neighbours left")
        self.step = "vectors"
        self._shares = {node: self._shares[node] for node in sorted(there)}
        boxes: dict[int, list[SealedShares]] = {node: [] for node in self._shares}
        for upload in self._shares.values():
            for one in upload.sealed:
                if one.recipient in boxes:
                    boxes[one.recipient].append(one)
        return {
            node: ShareDelivery(self._context, node, tuple(sealed))
            for node, sealed in boxes.items()
        }

    def requests(self) -> dict[int, UnmaskRequest]:
        """End of step 3: ask each survivor for one share of each of its neighbours' secrets."""
        self._require("vectors", self._survivors, "sent vectors")
        if not is_connected(self._graph, self._survivors):
            raise TacitError(
                "The survivors of the round fall into parts that share no mask, whose sums could "
                "be told apart; nothing is opened. Play the round again with more neighbours."
            )
        self.step = "unmasking"
        dropped = set(self._shares) - self._survivors
        return {
            node: UnmaskRequest(
                self._context,
                node,
                self._near(node, self._survivors),
                self._near(node, dropped),
                len(self._survivors),
            )
            for node in sorted(self._survivors)
        }

    def total(self) -> SumResult:
        """End of step 4: take the masks away and give the sum."""
        if self.step != "unmasking":
            raise TacitError(f"A sum cannot be opened in the step {self.step!r}.")
        secrets_of: dict[tuple[Kind, int], bytes] = {}
        for node in self._shares:
            kind: Kind = b"seed" if node in self._survivors else b"key"
            secrets_of[kind, node] = self._opened(kind, node)
        self.step = "done"
        for (kind, node), secret in secrets_of.items():
            if kind == b"seed":
                add_mask(self._total_N, self_mask_key(secret, self._context, node), -1)
                continue
            mask_key = AgreementKey(secret)
            for survivor in self._near(node, self._survivors):
                public = self._keys[survivor].mask_public
                label = pair_label(b"mask", node, survivor)
                pair = mask_key.agree(public, self._context, label)
                add_mask(self._total_N, pair, -pair_sign(survivor, node))
        units_N = out_of_ring(self._total_N)
        value_N = self.plan.code.decode(units_N)
        return SumResult(units_N, value_N, tuple(sorted(self._survivors)))

    # What is taken in each step.

    def _check(self, message: FromClient) -> None:
        sender = message.sender
        if message.context != self._context:
            raise RefusedMessageError("another round", f"Node {sender} answered to another round.")
        public = self._directory.get(sender)
        if public is None:
            raise RefusedMessageError("unknown sender", f"Node {sender} is in no directory.")
        if not isinstance(message, EXPECTED[self.step] or ()):
            raise RefusedMessageError(
                "wrong step", f"Node {sender} sent a {type(message).__name__} in {self.step!r}."
            )
        if not has_signature(message, public):
            raise RefusedMessageError(
                "wrong signature", f"A message in the name of node {sender} is not signed by it."
            )

    def _take_keys(self, message: KeyAdvertisement) -> None:
        self._once(message.sender, self._keys)
        if len(message.box_public) != KEY_BYTES or len(message.mask_public) != KEY_BYTES:
            raise RefusedMessageError(
                "wrong size", f"Keys of node {message.sender} have a wrong size."
            )
        if len(self._keys) == self.plan.clients:
            raise RefusedMessageError(
                "unknown sender", "More nodes send keys than the plan has room for."
            )
        self._keys[message.sender] = message

    def _take_shares(self, message: ShareUpload) -> None:
        sender = message.sender
        self._takes_part(sender, self._graph)
        self._once(sender, self._shares)
        wanted = self._graph[sender]
        recipients = tuple(one.recipient for one in message.sealed)
        holders = tuple(one.holder for one in message.commitments)
        senders = {one.sender for one in message.sealed}
        if not recipients == holders == wanted or senders != {sender}:
            raise RefusedMessageError(
                "not a neighbour", f"Node {sender} sent shares that are not one per neighbour."
            )
        self._shares[sender] = message

    def _take_vector(self, message: MaskedUpload) -> None:
        sender = message.sender
        self._takes_part(sender, self._shares)
        self._once(sender, self._survivors)
        if len(message.payload) != self._total_N.nbytes:
            raise RefusedMessageError(
                "wrong size",
                f"Node {sender} sent {len(message.payload)} bytes where {self._total_N.nbytes} "
                "belong to a vector.",
            )
        self._total_N += np.frombuffer(message.payload, dtype=self._total_N.dtype)
        self._survivors.add(sender)

    def _take_unmasking(self, message: Unmasking) -> None:
        sender = message.sender
        self._takes_part(sender, self._survivors)
        self._once(sender, self._answered)
        self._answered.add(sender)
        for share in message.seed_shares:
            self._take_share(b"seed", sender, share)
        for share in message.key_shares:
            self._take_share(b"key", sender, share)

    def _take_share(self, kind: Kind, holder: int, share: RevealedShare) -> None:
        """Keep a share that was asked for and is the one its owner gave away; count others."""
        commitment = self._commitment(share.owner, holder)
        known = commitment and (commitment.seed_share if kind == b"seed" else commitment.key_share)
        found = share_hash(self._context, kind, share.owner, holder, share)
        if len(share.value) != SHARE_BYTES or known != found:
            sentence = f"Node {holder} revealed a share that node {share.owner} did not give it."
            self._refuse("wrong share", holder, sentence)
            return
        if kind != (b"seed" if share.owner in self._survivors else b"key"):
            sentence = f"Node {holder} revealed the secret of node {share.owner} not asked for."
            self._refuse("both shares", holder, sentence)
            return
        self._revealed.setdefault((kind, share.owner), {})[share.point] = share.value

    # Inside.

    def _refuse(self, reason: Reason, sender: int, sentence: str) -> Refusal:
        refusal = Refusal(reason, sender, sentence)
        self.refusals.append(refusal)
        return refusal

    def _once(self, sender: int, seen: Collection[int]) -> None:
        if sender in seen:
            raise RefusedMessageError("sent twice", f"Node {sender} sent this step twice.")

    def _takes_part(self, sender: int, there: Collection[int]) -> None:
        if sender not in there:
            raise RefusedMessageError(
                "wrong step", f"Node {sender} is not in this step of the round."
            )

    def _near(self, node: int, among: Collection[int]) -> tuple[int, ...]:
        return tuple(one for one in self._graph[node] if one in among)

    def _commitment(self, owner: int, holder: int) -> Commitment | None:
        upload = self._shares.get(owner)
        if upload is None or holder not in self._graph[owner]:
            return None
        return upload.commitments[self._graph[owner].index(holder)]

    def _require(self, now: ServerStep, left: Collection[int], did: str) -> None:
        """That a step can be closed: it is this one, and enough are left."""
        if self.step != now:
            raise TacitError(f"The step {now!r} cannot be closed in the step {self.step!r}.")
        count = len(left)
        if count < self.plan.fewest:
            raise TacitError(
                f"Only {count} of {self.plan.clients} clients {did}, and the plan asks for at "
                f"least {self.plan.fewest}; the round stops here and nothing is opened."
            )

    def _opened(self, kind: Kind, node: int) -> bytes:
        """A node's seed or pairwise key from its shares, compared with what was known of it."""
        shares = self._revealed.get((kind, node), {})
        if len(shares) < self.plan.needed:
            raise TacitError(
                f"Only {len(shares)} neighbours revealed a share of node {node} where "
                f"{self.plan.needed} are needed; the round stops here and nothing is opened."
            )
        try:
            secret = combine(shares, self.plan.needed)
        except TacitError:
            secret = b""
        if kind == b"seed":
            fits = seed_hash(self._context, node, secret) == self._shares[node].seed
        else:
            fits = bool(secret) and AgreementKey(secret).public == self._keys[node].mask_public
        if not fits:
            raise TacitError(
                f"The shares that node {node} gave away do not fit together; the round stops here "
                "and nothing is opened."
            )
        return secret
