import numpy as np

from tacit.evaluation.references import item_coverage, mean_popularity


def test_coverage_counts_items_once_and_skips_empty_places():
    top_EK = np.array([[0, 1, 2], [1, 0, -1]])
    assert item_coverage(top_EK, 10) == 0.3
    assert item_coverage(top_EK[:, :1], 10) == 0.2


def test_mean_popularity_counts_every_place():
    popularity_I = np.array([10, 4, 0, 99])
    assert mean_popularity(np.array([[0, 1, 2], [1, 0, -1]]), popularity_I) == 28 / 5


def test_empty_lists_show_nothing():
    nothing = np.full((2, 3), -1)
    assert item_coverage(nothing, 10) == 0.0
    assert mean_popularity(nothing, np.ones(10)) == 0.0
