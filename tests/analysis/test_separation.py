"""AUC of users by hand, and who has no part in it."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.analysis.router import separation


def test_by_hand():
    by_text_U = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 1.0])
    value_U = np.array([3.0, 1.0, 2.0, 1.0, 99.0, np.nan])
    # pairs (image, text): 3>2, 3>1, 1<2, 1=1: 2.5 of 4; 99 is in between, the last has no value
    found = separation(value_U, by_text_U)
    assert found is not None
    assert found.auc == pytest.approx(2.5 / 4)
    assert (found.by_image, found.by_text) == (2, 2)
    assert found.low <= found.auc <= found.high
    assert separation(value_U, by_text_U) == found  # the same draws


def test_more_users_make_a_narrower_interval():
    generator = np.random.default_rng(0)
    widths = []
    for count in (20, 400):
        by_text_U = np.tile([0.0, 1.0], count // 2)
        value_U = generator.normal(size=count) - by_text_U
        found = separation(value_U, by_text_U)
        assert found is not None
        assert found.low < 0.76 < found.high  # that of two normals one apart
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] / 2


def test_one_kind_alone_cannot_be_told_apart():
    assert separation(np.array([1.0, 2.0]), np.array([0.0, 0.5])) is None
