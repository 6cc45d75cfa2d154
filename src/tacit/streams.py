"""Counter-based randomness: number c of a stream is a pure function of the stream's key and c.

A key is made of (seed, purpose, round, name), where the name is a 64-bit hash of the original user
id (0 for things that belong to nobody). So a client draws the same numbers whether it runs alone on
a device, in a block of 64, or on another thread, and whatever the order of users. The mixing is the
splitmix64 finaliser; numba compiles it, and kernels call it from inside their loops.
"""

from __future__ import annotations

import hashlib

import numpy as np

from tacit.compiled import compiled

# What a stream is for. Numbers are part of every result: never reuse or renumber one.
INIT = 1
PARTICIPANTS = 2
NEGATIVES = 3
SHUFFLE = 4
NOISE = 5
SPLIT = 6
CANDIDATES = 7
AVAILABILITY = 8
DROPOUT = 9
SYNTHETIC = 10
RESAMPLE = 11
CLIENT_NOISE = 12
SWAP = 13
COLD = 14
HISTORY_ORDER = 15
NETWORK_DROPOUT = 20  # entries of a network that are left out of a training step
PRIVATE_NOISE = 21  # on sums, under a claim of privacy
UPLOAD = 26  # how a client rounds what it sends
PUBLIC = 27  # what everybody may know of a round: matrices that shorten uploads

# numba turns int64 + uint64 into float64, so every constant is an unsigned 64-bit one.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30 = np.uint64(11), np.uint64(27), np.uint64(30)
_S31, _S32, _ONE = np.uint64(31), np.uint64(32), np.uint64(1)
_UNIT = 1.0 / 9007199254740992.0  # 2 ** -53

_inline = compiled(inline="always", error_model="numpy")
_compiled = compiled(error_model="numpy")


@_inline
def mix(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@_compiled
def stream_key(seed, purpose, round_number, name):  # type: ignore[no-untyped-def]
    """The key of one stream (numba: callable from kernels and from Python)."""
    h = mix(np.uint64(seed) + _GOLDEN)
    h = mix(h ^ (np.uint64(purpose) + _GOLDEN))
    h = mix(h ^ (np.uint64(round_number) + _GOLDEN))
    return mix(h ^ (np.uint64(name) + _GOLDEN))


@_inline
def draw(key, counter):  # type: ignore[no-untyped-def]
    """Number `counter` of the stream: 64 random bits."""
    return mix(np.uint64(key) + _GOLDEN * (np.uint64(counter) + _ONE))


@_inline
def draw_below(key, counter, n):  # type: ignore[no-untyped-def]
    """Number `counter` of the stream as a whole number in [0, n), for n < 2**32."""
    return np.int64(((draw(key, counter) >> _S32) * np.uint64(n)) >> _S32)


@_inline
def draw_unit(key, counter):  # type: ignore[no-untyped-def]
    """Number `counter` of the stream as a float64 in [0, 1)."""
    return np.float64(draw(key, counter) >> _S11) * _UNIT


@_compiled
def _uniforms(seed, purpose, round_number, names, n):  # type: ignore[no-untyped-def]
    out = np.empty((len(names), n), np.float64)
    for u in range(len(names)):
        key = stream_key(seed, purpose, round_number, names[u])
        for c in range(n):
            out[u, c] = draw_unit(key, c)
    return out


def uniforms(seed: int, purpose: int, round_number: int, name_U: np.ndarray, n: int) -> np.ndarray:
    """n numbers in [0, 1) for each name: shape (U, n), float64.

    >>> one = uniforms(0, INIT, 0, np.array([7], np.uint64), 3)
    >>> two = uniforms(0, INIT, 0, np.array([9, 7], np.uint64), 3)
    >>> bool((one[0] == two[1]).all())
    True
    """
    names = np.ascontiguousarray(name_U, dtype=np.uint64)
    return np.asarray(_uniforms(seed, purpose, np.uint64(round_number), names, n))


@_compiled
def _ragged_uniforms(seed, purpose, names, start):  # type: ignore[no-untyped-def]
    out = np.empty(start[-1], np.float64)
    for u in range(len(names)):
        key = stream_key(seed, purpose, np.uint64(0), names[u])
        for place in range(start[u], start[u + 1]):
            out[place] = draw_unit(key, place - start[u])
    return out


def ragged_uniforms(
    seed: int, purpose: int, name_U: np.ndarray, start_U1: np.ndarray
) -> np.ndarray:
    """Numbers in [0, 1), packed: those of name u stand from `start_U1[u]` to `start_U1[u + 1]`.

    >>> names = np.array([9, 7], np.uint64)
    >>> packed = ragged_uniforms(0, INIT, names, np.array([0, 1, 4]))
    >>> bool((packed[1:] == uniforms(0, INIT, 0, names[1:], 3)[0]).all())
    True
    """
    names = np.ascontiguousarray(name_U, dtype=np.uint64)
    start = np.ascontiguousarray(start_U1, dtype=np.int64)
    return np.asarray(_ragged_uniforms(seed, purpose, names, start))


def normals(seed: int, purpose: int, round_number: int, name_U: np.ndarray, n: int) -> np.ndarray:
    """n standard normal numbers for each name: shape (U, n), float64 (Box-Muller)."""
    half = (n + 1) // 2
    pairs = uniforms(seed, purpose, round_number, name_U, 2 * half)
    radius = np.sqrt(-2.0 * np.log1p(-pairs[:, :half]))
    angle = 2.0 * np.pi * pairs[:, half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :n]


def name_of(text: str) -> int:
    """The 64-bit name of a text: of a user id, or of a parameter that has a stream of its own."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def numpy_generator(
    seed: int, purpose: int, round_number: int, name: int = 0
) -> np.random.Generator:
    """A numpy generator at the start of one stream, for draws that need no per-user key.

    >>> a = numpy_generator(0, NOISE, 3).normal(size=2)
    >>> b = numpy_generator(0, NOISE, 3).normal(size=2)
    >>> bool((a == b).all())
    True
    """
    key = int(stream_key(seed, purpose, np.uint64(round_number), np.uint64(name)))
    return np.random.Generator(np.random.Philox(key=key))
