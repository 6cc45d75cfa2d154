"""The messages of a secure sum, one frozen class per step and direction, and their bytes.

Every message names its round by the context of the plan; what a client sends is signed by its node
key. `to_bytes` and `from_bytes` are all that a transport needs: it carries bytes and knows who is
connected, nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from tacit.errors import TacitError
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.secure_sum.primitives import NodeKey, digest, is_signed
from tacit.privacy.secure_sum.wire import pack, unpack

Reason = Literal[
    "unreadable",
    "another round",
    "unknown sender",
    "wrong signature",
    "wrong step",
    "sent twice",
    "wrong size",
    "not a neighbour",
    "wrong share",
    "corrupted",
    "both shares",
    "too few",
]


class RefusedMessageError(TacitError):
    """A client will not answer: the sentence says why, and `reason` names the kind."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason: Reason = reason


# Step 1: keys.


@dataclass(frozen=True)
class KeyAdvertisement:
    """Client to server, and on to its neighbours: fresh keys of this round."""

    context: bytes
    sender: int
    box_public: bytes
    mask_public: bytes
    signature: bytes = b""


@dataclass(frozen=True)
class Neighbourhood:
    """Server to client: the signed keys of its neighbours."""

    context: bytes
    recipient: int
    neighbours: tuple[KeyAdvertisement, ...]


# Step 2: shares.


@dataclass(frozen=True)
class SealedShares:
    """A share of the sender's seed and one of its pairwise key, readable by the recipient only."""

    sender: int
    recipient: int
    box: bytes


@dataclass(frozen=True)
class Commitment:
    """Hashes of the two shares that a holder got, by which the server knows them again."""

    holder: int
    seed_share: bytes
    key_share: bytes


@dataclass(frozen=True)
class ShareUpload:
    """Client to server: sealed shares for all neighbours, and hashes of what is in them."""

    context: bytes
    sender: int
    seed: bytes  # a hash of the whole seed
    sealed: tuple[SealedShares, ...]
    commitments: tuple[Commitment, ...]
    signature: bytes = b""


@dataclass(frozen=True)
class ShareDelivery:
    """Server to client: the shares for it, from those neighbours who are still there."""

    context: bytes
    recipient: int
    sealed: tuple[SealedShares, ...]


# Step 3: masked vectors.


@dataclass(frozen=True)
class MaskedUpload:
    """Client to server: numbers of the ring, little-endian, of which none says anything alone."""

    context: bytes
    sender: int
    payload: bytes
    signature: bytes = b""


# Step 4: unmasking.


@dataclass(frozen=True)
class UnmaskRequest:
    """Server to client: which of its neighbours survived, and which dropped out with masks left."""

    context: bytes
    recipient: int
    survivors: tuple[int, ...]
    dropped: tuple[int, ...]
    survived: int  # in the whole round


@dataclass(frozen=True)
class RevealedShare:
    """One share of one neighbour's secret: the point and the value there."""

    owner: int
    point: int
    value: bytes


@dataclass(frozen=True)
class Unmasking:
    """Client to server: shares of survivors' seeds, and of drop-outs' pairwise keys."""

    context: bytes
    sender: int
    seed_shares: tuple[RevealedShare, ...]
    key_shares: tuple[RevealedShare, ...]
    signature: bytes = b""


FromClient = KeyAdvertisement | ShareUpload | MaskedUpload | Unmasking
FromServer = SumPlan | Neighbourhood | ShareDelivery | UnmaskRequest
Message = FromClient | FromServer
KINDS: tuple[type[Message], ...] = (
    SumPlan,
    KeyAdvertisement,
    Neighbourhood,
    ShareUpload,
    ShareDelivery,
    MaskedUpload,
    UnmaskRequest,
    Unmasking,
)
Signed = TypeVar("Signed", KeyAdvertisement, ShareUpload, MaskedUpload, Unmasking)


def to_bytes(message: Message) -> bytes:
    """One byte for the kind, then the fields.

    >>> request = UnmaskRequest(bytes(32), 1, survivors=(2, 3), dropped=(), survived=3)
    >>> from_bytes(to_bytes(request)) == request
    True
    """
    return pack(message, prefix=bytes([KINDS.index(type(message))]))


def from_bytes(data: bytes) -> Message:
    """The message that was written; damaged bytes are refused."""
    if not data or data[0] >= len(KINDS):
        raise RefusedMessageError("unreadable", "Bytes that should be a message of a sum are none.")
    try:
        return unpack(KINDS[data[0]], data, start=1)
    except RefusedMessageError:
        raise
    except TacitError as error:
        raise RefusedMessageError("unreadable", str(error)) from None


def signed(message: Signed, key: NodeKey) -> Signed:
    """The message with the signature of its sender."""
    return replace(message, signature=key.sign(_covered(message)))


def has_signature(message: FromClient, public: bytes) -> bool:
    """Whether the owner of the node key sent exactly this, in this round."""
    return is_signed(public, message.signature, _covered(message))


def _covered(message: FromClient) -> bytes:
    """What a signature is about: a hash of the kind and of all fields, the round's context too."""
    return digest(b"tacit signed message", to_bytes(replace(message, signature=b"")))
