"""`ngrams`: hashed words and pieces of words. No weights, any language, the same everywhere."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tacit.content.encoder import About, unit_rows

HALF = 128  # places for words, and as many for pieces of words
PIECES = (2, 3, 4)  # letters; two, because in some scripts two already make a word
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class NGrams:
    """Words and pairs of words in one half of a row, runs of 2 to 4 characters in the other.

    A row depends on its own text alone, so an item that arrives later gets the row it would have
    had from the start.

    >>> near, same, far = NGrams().encode(["The Quiet Harbour", "quiet harbours", "Toasted Spoons"])
    >>> bool(near @ same > 0.4 > near @ far)
    True
    """

    @property
    def width(self) -> int:
        return 2 * HALF

    @property
    def about(self) -> About:
        return About(
            encoder="ngrams",
            preprocessing={
                "text": "Unicode NFKC, case folded, blanks collapsed",
                "words": f"1 and 2 words, {HALF} signed places",
                "characters": f"runs of {PIECES[0]} to {PIECES[-1]}, {HALF} signed places",
                "counts": "1 + log(count)",
                "hash": "BLAKE2b, 64 bits",
                "rows": "each half, then the whole, of length 1",
            },
        )

    def encode(self, content: Sequence[str]) -> np.ndarray:
        value_ND = np.zeros((len(content), 2 * HALF))
        for row, text in enumerate(content):
            plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
            _add(value_ND[row, :HALF], _words(plain))
            _add(value_ND[row, HALF:], _pieces(f" {plain} "))
        halves_ND = unit_rows(value_ND.reshape(-1, HALF)).reshape(len(content), -1)
        return unit_rows(halves_ND)


def _words(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    yield from words
    yield from (f"{one} {two}" for one, two in pairwise(words))


def _pieces(text: str) -> Iterator[str]:
    for length in PIECES:
        yield from (text[start : start + length] for start in range(len(text) - length + 1))


def _add(value_D: np.ndarray, features: Iterator[str]) -> None:
    counts: dict[str, int] = {}
    for feature in features:
        counts[feature] = counts.get(feature, 0) + 1
    for feature, count in counts.items():
        place, sign = _place(feature)
        value_D[place] += sign * (1.0 + np.log(count))


@lru_cache(maxsize=1 << 16)
def _place(feature: str) -> tuple[int, float]:
    """Where a feature goes and with which sign: Python's own hash differs from run to run."""
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return (number >> 1) % HALF, 1.0 if number & 1 else -1.0
