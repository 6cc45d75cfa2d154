"""Streams: known values that must never change, the shape of what is drawn, and what keys it."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import streams

KEY = 0xC34A6CD42A96EBAD  # of (seed 7, NEGATIVES, round 2, name 12345)


def names(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@pytest.mark.parametrize(
    ("seed", "purpose", "round_number", "name", "key"),
    [
        (0, streams.INIT, 0, 0, 0x9B2903F7BF1ED983),
        (7, streams.NEGATIVES, 2, 12345, KEY),
        (2**31 - 1, streams.DROPOUT, 2**63, 2**64 - 1, 0x33C0E660F0E44879),
    ],
)
def test_keys_are_pinned(seed: int, purpose: int, round_number: int, name: int, key: int) -> None:
    found = streams.stream_key(seed, purpose, np.uint64(round_number), np.uint64(name))
    assert int(found) == key


def _splitmix(z: int) -> int:
    """The finaliser in plain Python integers."""
    whole = 2**64 - 1
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & whole
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & whole
    return z ^ (z >> 31)


def test_the_compiled_mixing_is_splitmix64() -> None:
    golden, whole = 0x9E3779B97F4A7C15, 2**64 - 1
    for counter in range(5):
        expected = _splitmix((KEY + golden * (counter + 1)) & whole)
        assert int(streams.draw(np.uint64(KEY), counter)) == expected


def test_draws_are_pinned() -> None:
    key = np.uint64(KEY)
    assert [int(streams.draw(key, c)) for c in range(3)] == [
        0x895769864858C2B3,
        0x03D8EEB5073D0A93,
        0x0B6A8B677D0E6001,
    ]
    assert [int(streams.draw_below(key, c, 1000)) for c in range(5)] == [536, 15, 44, 480, 32]
    assert float(streams.draw_unit(key, 0)) == float.fromhex("0x1.12aed30c90b18p-1")


def test_names_are_pinned() -> None:
    assert streams.name_of("u1") == 15378189911849802130
    assert streams.name_of("") == 13020603013274838756
    assert streams.name_of("héros") == 5009538155092420386


def test_uniforms_and_normals_are_pinned() -> None:
    found = streams.uniforms(5, streams.INIT, 3, names(11, 12), 2)
    assert found.tolist() == [
        [0.8026665084686772, 0.08258956723988786],
        [0.4256369651834552, 0.7276966061707324],
    ]
    # Box-Muller calls log1p, sqrt, cos and sin, whose last digit may differ between systems
    expected = [1.468987182306009, -0.4135098576048867, 1.0429750334479606]
    found = streams.normals(5, streams.INIT, 3, names(11), 3)[0]
    assert np.allclose(found, expected, rtol=1e-14, atol=0)


def test_generators_are_pinned() -> None:
    found = streams.numpy_generator(0, streams.NOISE, 3, 4).integers(0, 1000, 4)
    assert found.tolist() == [230, 709, 393, 360]


def test_purposes_have_numbers_of_their_own() -> None:
    purposes = {name: value for name, value in vars(streams).items() if name.isupper()}
    purposes = {name: value for name, value in purposes.items() if isinstance(value, int)}
    assert purposes == {
        "INIT": 1,
        "PARTICIPANTS": 2,
        "NEGATIVES": 3,
        "SHUFFLE": 4,
        "NOISE": 5,
        "SPLIT": 6,
        "CANDIDATES": 7,
        "AVAILABILITY": 8,
        "DROPOUT": 9,
        "SYNTHETIC": 10,
        "RESAMPLE": 11,
        "CLIENT_NOISE": 12,
        "SWAP": 13,
        "COLD": 14,
        "HISTORY_ORDER": 15,
        "NETWORK_DROPOUT": 20,
        "PRIVATE_NOISE": 21,
        "UPLOAD": 26,
        "PUBLIC": 27,
    }


def test_uniforms_fill_the_unit_interval_evenly() -> None:
    found = streams.uniforms(1, streams.INIT, 1, names(*range(200)), 500).ravel()
    assert found.min() >= 0.0
    assert found.max() < 1.0
    count = np.bincount((found * 20).astype(int), minlength=20)
    # chi-square with 19 degrees of freedom: 43.8 is passed once in a thousand
    assert ((count - 5000) ** 2 / 5000).sum() < 43.8


def test_whole_numbers_below_a_bound_are_even() -> None:
    count = np.bincount(
        [int(streams.draw_below(np.uint64(KEY), c, 7)) for c in range(7000)], minlength=7
    )
    assert len(count) == 7
    assert ((count - 1000) ** 2 / 1000).sum() < 22.5  # 6 degrees of freedom, once in a thousand


@pytest.mark.parametrize(
    "other",
    [
        (2, streams.INIT, 1, 5),
        (1, streams.NOISE, 1, 5),
        (1, streams.INIT, 2, 5),
        (1, streams.INIT, 1, 6),
    ],
)
def test_streams_that_differ_in_one_part_of_the_key_are_independent(
    other: tuple[int, int, int, int],
) -> None:
    one = streams.uniforms(1, streams.INIT, 1, names(5), 4000)[0]
    two = streams.uniforms(*other[:3], names(other[3]), 4000)[0]
    # the correlation of independent draws has a standard deviation of 1 / sqrt(4000) = 0.016
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.064
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.064


def test_normals_have_mean_0_and_variance_1() -> None:
    found = streams.normals(3, streams.INIT, 0, names(*range(40)), 501)
    assert found.shape == (40, 501)
    count = found.size
    assert abs(found.mean()) < 4 / np.sqrt(count)
    assert abs(found.var() - 1) < 4 * np.sqrt(2 / count)
    assert np.mean(np.abs(found) < 1.96) == pytest.approx(0.95, abs=4 * np.sqrt(0.0475 / count))


def test_numbers_belong_to_the_name_and_not_to_the_place() -> None:
    alone = streams.normals(3, streams.INIT, 0, names(8), 5)[0]
    among = streams.normals(3, streams.INIT, 0, names(1, 2, 8, 3), 5)
    assert np.array_equal(alone, among[2])
    assert not np.array_equal(alone, among[1])


def test_a_longer_uniform_stream_begins_as_the_shorter_one() -> None:
    few = streams.uniforms(3, streams.INIT, 0, names(8), 3)[0]
    many = streams.uniforms(3, streams.INIT, 0, names(8), 9)[0]
    assert np.array_equal(few, many[:3])
