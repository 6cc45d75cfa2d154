import numpy as np

from tacit.evaluation.breakdown import Share, by_warmth
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranks import Ranks

ROWS = [(0, 0, 0, 0, 50), (0, 1, 20, 0, 50), (1, 1, 3, 0, 50), (2, 2, 30, 0, 50)]
RANKS = Ranks(*np.array(ROWS).T, part="test", candidate_set="full")


def test_warm_and_unseen_apart():
    shares = by_warmth(RANKS, np.array([4, 0, 1]), cutoffs=(10, 40), names=("Recall",))
    # Warm: user 0 item 0 (found), user 2 item 2. Unseen: user 0 item 1, user 1 item 1 (found).
    assert shares["warm"] == Share(2, 2, {"Recall@10": 0.5, "Recall@40": 1.0})
    assert shares["unseen"] == Share(2, 2, {"Recall@10": 0.5, "Recall@40": 1.0})


def test_only_warm_items_are_the_whole_result():
    shares = by_warmth(RANKS, np.array([4, 1, 1]), ties="pessimistic")
    assert shares["unseen"] == Share(0, 0, {})
    assert shares["warm"].held_out == 4
    assert shares["warm"].values["NDCG@10"] == metric(RANKS, "NDCG@10")
