"""A client of a secure sum: four answers, in order, each given once.

A client trusts its own plan and the directory of node keys. What it is asked is checked before it
answers. Where an answer would say more than the protocol allows, it raises `RefusedMessageError`
and is out of the round. It never answers a step twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.privacy.fixed_point import Ring, into_ring
from tacit.privacy.secure_sum.messages import (
    Commitment,
    KeyAdvertisement,
    MaskedUpload,
    Neighbourhood,
    RefusedMessageError,
    RevealedShare,
    SealedShares,
    ShareDelivery,
    ShareUpload,
    Unmasking,
    UnmaskRequest,
    has_signature,
    signed,
)
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.secure_sum.primitives import (
    KEY_BYTES,
    AgreementKey,
    NodeKey,
    add_mask,
    derived_key,
    digest,
    generator_from,
    number,
    open_box,
    require_cryptography,
    seal,
)
from tacit.privacy.secure_sum.shamir import SHARE_BYTES, Entropy, split
from tacit.privacy.secure_sum.wire import pack, unpack
from tacit.privacy.skellam import draw_skellam

Step = Literal["advertise", "share", "mask", "unmask", "done"]
STEPS: tuple[Step, ...] = get_args(Step)
Kind = Literal[b"seed", b"key"]


# What both sides compute in the same way.


def box_label(sender: int, recipient: int) -> bytes:
    """A key for boxes from one node to another; the way back has another key."""
    return b"box" + number(sender) + number(recipient)


def pair_label(purpose: bytes, one: int, two: int) -> bytes:
    """A key that a pair has in common, whoever asks."""
    return purpose + number(min(one, two)) + number(max(one, two))


def self_mask_key(seed: bytes, context: bytes, node: int) -> bytes:
    """The key of a client's own mask."""
    return derived_key(seed, context, b"self mask" + number(node))


def pair_sign(node: int, other: int) -> int:
    """The smaller number adds the mask of a pair, the larger one subtracts it."""
    return 1 if node < other else -1


def share_hash(context: bytes, kind: Kind, owner: int, holder: int, share: RevealedShare) -> bytes:
    """By which the server knows a share again that a holder reveals."""
    parts = (number(owner), number(holder), number(share.point), share.value)
    return digest(b"tacit share", context, kind, *parts)


def seed_hash(context: bytes, owner: int, seed: bytes) -> bytes:
    """By which the server knows a whole seed."""
    return digest(b"tacit seed", context, number(owner), seed)


@dataclass(frozen=True)
class SavedClient:
    """What a client has to remember between two steps."""

    plan: SumPlan
    node: int
    step: int
    box_secret: bytes = field(repr=False)
    mask_secret: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    neighbours: tuple[KeyAdvertisement, ...]
    seed_shares: tuple[RevealedShare, ...] = field(repr=False)
    key_shares: tuple[RevealedShare, ...] = field(repr=False)


class SumClient:
    """One node in one round. Call `advertise`, `share`, `mask` and `unmask`, in this order.

    `directory` maps the numbers of nodes to their public node keys. It has to come from somebody
    other than the server where the server is to be kept from swapping keys.
    """

    def __init__(
        self,
        plan: SumPlan,
        key: NodeKey,
        directory: Mapping[int, bytes],
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        require_cryptography()
        self.plan = plan
        self.node = key.node
        self.step: Step = "advertise"
        self._key = key
        self._directory = directory
        self._entropy = entropy
        self._context = plan.context
        self._box_key = AgreementKey(entropy(KEY_BYTES))
        self._mask_key = AgreementKey(entropy(KEY_BYTES))
        self._seed = entropy(KEY_BYTES)
        self._neighbours: dict[int, KeyAdvertisement] = {}
        self._agreed: dict[int, bytes] = {}  # what each neighbour and this client agreed on
        self._seed_shares: dict[int, RevealedShare] = {}
        self._key_shares: dict[int, RevealedShare] = {}

    def advertise(self) -> KeyAdvertisement:
        """Step 1: this round's public keys, signed."""
        self._go("advertise", "share")
        publics = self._box_key.public, self._mask_key.public
        return signed(KeyAdvertisement(self._context, self.node, *publics), self._key)

    def share(self, neighbourhood: Neighbourhood) -> ShareUpload:
        """Step 2: shares of the seed and of the pairwise key, one pair for every neighbour."""
        self._check(neighbourhood.context, neighbourhood.recipient)
        self._go("share", "mask")
        for one in neighbourhood.neighbours:
            self._meet(one)
        if len(self._neighbours) < self.plan.needed:
            raise RefusedMessageError(
                "too few",
                f"A client was given {len(self._neighbours)} neighbours where {self.plan.needed} "
                "are needed to open a secret; it does not take part.",
            )
        point_of = {node: place for place, node in enumerate(sorted(self._neighbours), start=1)}
        points = list(point_of.values())
        seeds = split(self._seed, points, self.plan.needed, self._entropy)
        keys = split(self._mask_key.secret, points, self.plan.needed, self._entropy)
        sealed, commitments = [], []
        for node, point in point_of.items():
            box = seal(
                self._key_of_box(self.node, node),
                number(point) + seeds[point] + keys[point],
                self._context + box_label(self.node, node),
            )
            sealed.append(SealedShares(self.node, node, box))
            commitments.append(
                Commitment(
                    node,
                    self._share_hash(b"seed", node, point, seeds[point]),
                    self._share_hash(b"key", node, point, keys[point]),
                )
            )
        whole = seed_hash(self._context, self.node, self._seed)
        upload = ShareUpload(self._context, self.node, whole, tuple(sealed), tuple(commitments))
        return signed(upload, self._key)

    def mask(self, delivery: ShareDelivery, value_N: NDArray[np.floating[Any]]) -> MaskedUpload:
        """Step 3: the vector, clipped, in fixed point, with its share of noise and all masks."""
        self._check(delivery.context, delivery.recipient)
        self._go("mask", "unmask")
        for one in delivery.sealed:
            self._keep(one)
        if len(self._seed_shares) < self.plan.needed:
            raise RefusedMessageError(
                "too few",
                f"Only {len(self._seed_shares)} neighbours of a client are left where "
                f"{self.plan.needed} are needed to open a secret; it sends nothing.",
            )
        upload = MaskedUpload(self._context, self.node, self._masked(value_N).tobytes())
        return signed(upload, self._key)

    def unmask(self, request: UnmaskRequest) -> Unmasking:
        """Step 4: a share of the seed for each survivor, of the pairwise key for each drop-out."""
        self._check(request.context, request.recipient)
        self._go("unmask", "done")
        survivors, dropped = set(request.survivors), set(request.dropped)
        if survivors & dropped:
            raise RefusedMessageError(
                "both shares",
                "The server asked for both secrets of a node, which would open its vector; "
                "nothing is revealed.",
            )
        if (survivors | dropped) - self._seed_shares.keys():
            raise RefusedMessageError(
                "not a neighbour",
                "The server asked for shares of a node that gave none to this client; nothing is "
                "revealed.",
            )
        if request.survived < self.plan.fewest:
            raise RefusedMessageError(
                "too few",
                f"Only {request.survived} vectors arrived where {self.plan.fewest} are promised; "
                "nothing is revealed.",
            )
        answer = Unmasking(
            self._context,
            self.node,
            tuple(self._seed_shares[node] for node in sorted(survivors)),
            tuple(self._key_shares[node] for node in sorted(dropped)),
        )
        self._seed_shares, self._key_shares = {}, {}
        return signed(answer, self._key)

    # Between two steps, where a device keeps no process alive.

    def saved(self) -> bytes:
        """The client's state, to go on in another process. It holds the secrets of the round: it
        stays on the device, and each state is taken up once, or a step could be answered twice."""
        state = SavedClient(
            self.plan,
            self.node,
            STEPS.index(self.step),
            self._box_key.secret,
            self._mask_key.secret,
            self._seed,
            tuple(self._neighbours.values()),
            tuple(self._seed_shares.values()),
            tuple(self._key_shares.values()),
        )
        return pack(state)

    @classmethod
    def resumed(
        cls,
        saved: bytes,
        key: NodeKey,
        directory: Mapping[int, bytes],
        entropy: Entropy = secrets.token_bytes,
    ) -> SumClient:
        """The client that was saved, ready for its next step."""
        state = unpack(SavedClient, saved)
        if state.node != key.node:
            raise TacitError(f"A saved client is that of node {state.node}, not of {key.node}.")
        client = cls(state.plan, key, directory, entropy)
        client._box_key = AgreementKey(state.box_secret)
        client._mask_key = AgreementKey(state.mask_secret)
        client._seed = state.seed
        for one in state.neighbours:
            client._meet(one)
        client._seed_shares = {one.owner: one for one in state.seed_shares}
        client._key_shares = {one.owner: one for one in state.key_shares}
        client.step = STEPS[state.step]
        return client

    # Inside.

    def _go(self, now: Step, then: Step) -> None:
        if self.step != now:
            raise RefusedMessageError(
                "wrong step",
                f"A client whose next step is {self.step!r} was asked to {now}; steps come in "
                "order, and none comes twice.",
            )
        self.step = then

    def _check(self, context: bytes, recipient: int) -> None:
        if context != self._context:
            raise RefusedMessageError(
                "another round", "A message belongs to another round, session or plan."
            )
        if recipient != self.node:
            raise RefusedMessageError("unknown sender", "A message is meant for another node.")

    def _meet(self, one: KeyAdvertisement) -> None:
        """Take a neighbour's keys, if its own node key signed them for this round."""
        if one.context != self._context:
            raise RefusedMessageError(
                "another round", "A neighbour's keys belong to another round."
            )
        public = self._directory.get(one.sender)
        if public is None or one.sender == self.node:
            raise RefusedMessageError(
                "unknown sender", f"Node {one.sender} is in no directory, or the client itself."
            )
        if not has_signature(one, public):
            raise RefusedMessageError(
                "wrong signature",
                f"The keys of node {one.sender} are not signed by its node key; somebody may have "
                "swapped them.",
            )
        if one.sender in self._neighbours:
            raise RefusedMessageError("sent twice", f"Node {one.sender} is named twice.")
        self._neighbours[one.sender] = one
        label = pair_label(b"shares", self.node, one.sender)
        self._agreed[one.sender] = self._box_key.agree(one.box_public, self._context, label)

    def _keep(self, one: SealedShares) -> None:
        """Open a neighbour's box, and hold its shares until the last step."""
        if one.recipient != self.node or one.sender not in self._neighbours:
            raise RefusedMessageError("not a neighbour", "Shares came from or for somebody else.")
        if one.sender in self._seed_shares:
            raise RefusedMessageError("sent twice", f"Shares of node {one.sender} came twice.")
        covered = self._context + box_label(one.sender, self.node)
        text = open_box(self._key_of_box(one.sender, self.node), one.box, covered)
        if text is None or len(text) != 8 + 2 * SHARE_BYTES:
            raise RefusedMessageError(
                "corrupted",
                f"The shares of node {one.sender} cannot be opened: they were changed on the way, "
                "or belong to another round. This client leaves the round.",
            )
        point, seed, key = int.from_bytes(text[:8], "little"), text[8:41], text[41:]
        self._seed_shares[one.sender] = RevealedShare(one.sender, point, seed)
        self._key_shares[one.sender] = RevealedShare(one.sender, point, key)

    def _masked(self, value_N: NDArray[np.floating[Any]]) -> Ring:
        units_N = self.plan.code.encode(value_N)
        if self.plan.noise > 0:
            generator = generator_from(self._entropy)
            units_N = units_N + draw_skellam(self.plan.noise, len(units_N), generator)
        ring_N = into_ring(units_N, 32 if self.plan.bits == 32 else 64)
        add_mask(ring_N, self_mask_key(self._seed, self._context, self.node), 1)
        for other in self._seed_shares:
            public = self._neighbours[other].mask_public
            label = pair_label(b"mask", self.node, other)
            pair = self._mask_key.agree(public, self._context, label)
            add_mask(ring_N, pair, pair_sign(self.node, other))
        return ring_N

    def _key_of_box(self, sender: int, recipient: int) -> bytes:
        agreed = self._agreed[recipient if sender == self.node else sender]
        return derived_key(agreed, self._context, box_label(sender, recipient))

    def _share_hash(self, kind: Kind, holder: int, point: int, value: bytes) -> bytes:
        share = RevealedShare(self.node, point, value)
        return share_hash(self._context, kind, self.node, holder, share)
