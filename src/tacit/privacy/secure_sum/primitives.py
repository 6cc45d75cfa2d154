"""All that secure sums take from `cryptography`: keys, boxes, signatures and masks.

Every key is derived by HKDF with the round's context as salt, and every box and signature covers
that context. It is a hash of the whole plan, with its session and its round number. So nothing of
one round is of use in another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.fixed_point import Ring
from tacit.privacy.secure_sum.shamir import Entropy

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

KEY_BYTES = 32
SIGNATURE_BYTES = 64
# A key of a box or a mask is used once, so its nonce can stand still.
BOX_NONCE = bytes(12)
MASK_NONCE = bytes(16)  # four bytes of counter, which begins at 0, and twelve of nonce


def require_cryptography() -> None:
    """Refuse to begin without the package that all of this stands on."""
    if not INSTALLED:
        raise TacitError(
            "Secure sums need the package 'cryptography', which is not installed; get it with "
            'pip install "tacit[privacy]"'
        )


@dataclass(frozen=True)
class NodeKey:
    """The lasting identity of a node: its number and its Ed25519 secret, which never leaves it.

    >>> key = NodeKey(7, secret=bytes(32))
    >>> is_signed(key.public, key.sign(b"text"), b"text"), is_signed(key.public, bytes(64), b"text")
    (True, False)
    """

    node: int
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        require_cryptography()
        if not 0 <= self.node < 2**64 or len(self.secret) != KEY_BYTES:
            raise TacitError("A node has a number below 2**64 and a secret of 32 bytes.")

    @property
    def public(self) -> bytes:
        """What the directory of nodes holds."""
        private = Ed25519PrivateKey.from_private_bytes(self.secret)
        return private.public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        """A signature of 64 bytes."""
        return Ed25519PrivateKey.from_private_bytes(self.secret).sign(text)


def is_signed(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the owner of that public key signed the text."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


class AgreementKey:
    """An X25519 key pair of one round, from a secret of 32 bytes.

    >>> one, two = AgreementKey(bytes([1] * 32)), AgreementKey(bytes([2] * 32))
    >>> agreed = one.agree(two.public, b"round 1", b"mask")
    >>> agreed == two.agree(one.public, b"round 1", b"mask")
    True
    >>> agreed == two.agree(one.public, b"round 2", b"mask")
    False
    """

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, public: bytes, context: bytes, label: bytes) -> bytes:
        """A key that only the owners of the two secrets can derive."""
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise TacitError("A neighbour's public key is no key; the round stops here.") from None
        return derived_key(shared, context, label)


def derived_key(material: bytes, context: bytes, label: bytes) -> bytes:
    """A key of 32 bytes for one purpose in one round."""
    return HKDF(SHA256(), KEY_BYTES, salt=context, info=label).derive(material)


def seal(key: bytes, text: bytes, covered: bytes) -> bytes:
    """Encrypt with ChaCha20-Poly1305; `covered` is not hidden, but cannot be changed."""
    return ChaCha20Poly1305(key).encrypt(BOX_NONCE, text, covered)


def open_box(key: bytes, box: bytes, covered: bytes) -> bytes | None:
    """What was sealed, or None where anything was changed.

    >>> box = seal(bytes(32), b"share", b"round 1")
    >>> open_box(bytes(32), box, b"round 1"), open_box(bytes(32), box, b"round 2")
    (b'share', None)
    """
    try:
        return ChaCha20Poly1305(key).decrypt(BOX_NONCE, box, covered)
    except InvalidTag:
        return None


def add_mask(total_N: Ring, key: bytes, sign: int) -> None:
    """Add or subtract, in place, the ChaCha20 keystream of a key, read as numbers of the ring.

    >>> total = np.zeros(2, dtype="<u4")
    >>> add_mask(total, bytes(32), sign=1)
    >>> total.tobytes().hex()
    '76b8e0ada0f13d90'
    >>> add_mask(total, bytes(32), sign=-1)
    >>> total
    array([0, 0], dtype=uint32)
    """
    stream = Cipher(ChaCha20(key, MASK_NONCE), mode=None).encryptor().update(bytes(total_N.nbytes))
    mask_N = np.frombuffer(stream, dtype=total_N.dtype)
    (np.add if sign > 0 else np.subtract)(total_N, mask_N, out=total_N)


def digest(*parts: bytes) -> bytes:
    """SHA-256 of parts, each with its length, so that no two lists of parts look the same."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()


def number(value: int) -> bytes:
    """A whole number in eight bytes."""
    return value.to_bytes(8, "little")


def generator_from(entropy: Entropy) -> np.random.Generator:
    """A numpy generator with a key of 128 random bits; it is not a cryptographic one."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(entropy(16), "little")))
