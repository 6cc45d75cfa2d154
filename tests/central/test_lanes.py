"""Layers over pairs that lie side by side."""

import numpy as np
import pytest

from tacit.central.tower import LANES, backward, forward

# relu([1 -2 3 0.5 -1] x + 0.25) with x = (lane, 1, 1, 1, 1): lane + 0.75, and its negative + 0.5
WEIGHT_KJ = np.array([[1.0, -1.0], [-2.0, 2.0], [3.0, -3.0], [0.5, -0.5], [-1.0, 1.0]])
BIAS_J = np.array([0.25, 0.25])
X_KB = np.ones((5, LANES))
X_KB[0] = np.arange(LANES) - 10.0


def test_a_layer_by_hand() -> None:
    y_JB = np.empty((2, LANES))
    forward(WEIGHT_KJ, BIAS_J, X_KB, y_JB)
    assert y_JB[0] == pytest.approx(np.maximum(X_KB[0] + 0.75, 0))
    assert y_JB[1] == pytest.approx(np.maximum(-X_KB[0] - 0.25, 0))


def test_slopes_by_hand() -> None:
    """Lanes 0 to 9 pass through the second unit only, all others through the first."""
    y_JB, slope_JB = np.empty((2, LANES)), np.ones((2, LANES))
    forward(WEIGHT_KJ, BIAS_J, X_KB, y_JB)
    slope_JB[1] = 2.0
    weight_KJ, bias_J, x_KB = np.zeros((5, 2)), np.full(2, 100.0), np.empty((5, LANES))
    backward(WEIGHT_KJ, X_KB, y_JB, slope_JB, weight_KJ, bias_J, x_KB)
    first, second = X_KB[0, 10:].sum(), 2 * X_KB[0, :10].sum()
    assert weight_KJ[0].tolist() == pytest.approx([first, second])
    assert weight_KJ[4].tolist() == pytest.approx([LANES - 10, 20])
    assert bias_J.tolist() == pytest.approx([100 + LANES - 10, 120])  # added to what was there
    assert x_KB[:, 10].tolist() == pytest.approx([1, -2, 3, 0.5, -1])
    assert x_KB[:, 9].tolist() == pytest.approx([-2, 4, -6, -1, 2])


def test_what_is_not_a_number_does_not_vanish_in_a_layer() -> None:
    y_JB, x_KB = np.empty((2, LANES)), X_KB.copy()
    x_KB[3, 7] = np.nan
    forward(WEIGHT_KJ, BIAS_J, x_KB, y_JB)
    assert np.isnan(y_JB[:, 7]).all()
    assert not np.isnan(y_JB[:, 8]).any()
