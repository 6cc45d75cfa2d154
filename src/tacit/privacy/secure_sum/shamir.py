"""Shamir's shares: a secret of 32 bytes in parts, of which a fixed number give it back.

A polynomial of degree needed - 1 over a prime field has the secret as its value at 0 and random
other coefficients. A share is its value at some x other than 0. Any `needed` shares determine the
polynomial; fewer say nothing at all about the secret (Shamir, "How to share a secret", 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tacit.errors import TacitError

PRIME = 2**256 + 297  # the smallest prime above all secrets of 32 bytes
SECRET_BYTES = 32
SHARE_BYTES = 33

Entropy = Callable[[int], bytes]  # so many random bytes


def split(secret: bytes, points: Sequence[int], needed: int, entropy: Entropy) -> dict[int, bytes]:
    """One share for each point x; any `needed` of them give the secret back.

    >>> shares = split(bytes(32), points=[1, 2, 3], needed=2, entropy=lambda n: b"a" * n)
    >>> combine({1: shares[1], 3: shares[3]}, needed=2) == bytes(32)
    True
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes")
    if not 1 <= needed <= len(points):
        raise TacitError(
            f"{needed} shares of {len(points)} cannot be needed; the number must lie between 1 "
            "and the number of holders."
        )
    if len(set(points)) != len(points) or not all(0 < x < PRIME for x in points):
        raise ValueError("points must differ and be above 0")
    coefficients = [int.from_bytes(secret, "big")]
    # sixteen bytes more than the prime has, so that the remainder is as good as uniform
    coefficients += [int.from_bytes(entropy(49), "big") % PRIME for _ in range(needed - 1)]
    return {x: _value_at(coefficients, x).to_bytes(SHARE_BYTES, "big") for x in points}


def combine(shares: Mapping[int, bytes], needed: int) -> bytes:
    """The secret from shares by their points; only the first `needed` of them are read.

    Wrong shares give a wrong secret, or a number that is none, which is refused. Who combines has
    to compare what comes out with something that was known before.
    """
    if len(shares) < needed:
        raise TacitError(f"There are {len(shares)} shares of a secret that needs {needed}.")
    points = list(shares)[:needed]
    total = 0
    for x in points:
        above = below = 1
        for other in points:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        total += int.from_bytes(shares[x], "big") * above * pow(below, -1, PRIME)
    secret = total % PRIME
    if secret >= 2**256:
        raise TacitError("Shares of a secret do not fit together; at least one of them is wrong.")
    return secret.to_bytes(SECRET_BYTES, "big")


def _value_at(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value
