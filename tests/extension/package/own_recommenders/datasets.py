"""A dataset that a function makes."""

from __future__ import annotations

import numpy as np

import tacit


def mornings() -> tacit.Dataset:
    """Forty people who read the news of their own district."""
    user_N, morning_N = np.divmod(np.arange(40 * 12), 12)
    page_N = (user_N % 4) * 15 + (user_N * 7 + morning_N * 4) % 15
    rows = tacit.Interactions.from_ids(user_N.astype(str), page_N.astype(str), time=morning_N)
    return tacit.Dataset("whatever", rows)
