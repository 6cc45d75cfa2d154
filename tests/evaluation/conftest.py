from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tacit.data.views import HeldOut, Lists


def packed(lists: Sequence[Sequence[int]]) -> Lists:
    pairs = [(u, item) for u, items in enumerate(lists) for item in items]
    list_N = np.array([u for u, _ in pairs], dtype=np.int64)
    item_N = np.array([item for _, item in pairs], dtype=np.int64)
    return Lists.from_pairs(list_N, item_N, len(lists))


@pytest.fixture(scope="session")
def held_out_of() -> Callable[..., HeldOut]:
    """A held-out part from plain lists, for users 0, 1, 2, ... unless codes are given."""

    def build(n_items, relevant, masked=None, sampled=None, users=None):
        n = len(relevant)
        return HeldOut(
            "test",
            n_items,
            np.arange(n) if users is None else np.array(users),
            packed(relevant),
            packed(masked or [[]] * n),
            packed(sampled or [[]] * n),
        )

    return build
