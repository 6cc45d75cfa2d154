"""Hashed n-grams against the same numbers worked out by hand."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np

from tacit.content.plain import NGrams


def place(feature: str) -> tuple[int, float]:
    number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
    return (number // 2) % 128, 1.0 if number % 2 else -1.0


def expected(words: dict[str, int], pieces: dict[str, int]) -> np.ndarray:
    halves = []
    for features in (words, pieces):
        half = np.zeros(128)
        for feature, count in features.items():
            where, sign = place(feature)
            half[where] += sign * (1 + np.log(count))
        halves.append(half / np.linalg.norm(half))
    return np.concatenate(halves) / np.sqrt(2)


def test_a_short_text_by_hand() -> None:
    value_D = NGrams().encode(["Ab  AB"])[0]
    words = {"ab": 2, "ab ab": 1}
    two = {" a": 2, "ab": 2, "b ": 2}
    three = {" ab": 2, "ab ": 2, "b a": 1}
    four = {" ab ": 2, "ab a": 1, "b ab": 1}
    np.testing.assert_allclose(value_D, expected(words, {**two, **three, **four}), atol=1e-7)
    assert value_D.dtype == np.float32


def test_a_row_depends_on_its_text_alone() -> None:
    texts = ["The Quiet Harbour", "Лунная комета", "静かな港", "!!!", "e\u0301"]
    together_ND = NGrams().encode(texts)
    for text, value_D in zip(texts, together_ND, strict=True):
        assert (NGrams().encode([text])[0] == value_D).all()
    np.testing.assert_allclose(np.linalg.norm(together_ND[:3], axis=1), 1.0, atol=1e-6)
    assert np.linalg.norm(together_ND[3]) > 0.99  # no word, but characters
    assert (NGrams().encode(["é"])[0] == together_ND[4]).all()


def test_word_order_counts_case_does_not() -> None:
    one, same, other = NGrams().encode(["night train", "NIGHT  Train ", "train night"])
    assert (one == same).all()
    assert 0.5 < one @ other < 0.99


def test_another_process_gives_the_same_numbers() -> None:
    program = (
        "from tacit.content.plain import NGrams; "
        "print(NGrams().encode(['Quiet Harbour']).tobytes().hex())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {NGrams().encode(["Quiet Harbour"]).tobytes().hex() + "\n"}
