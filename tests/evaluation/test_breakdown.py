import numpy as np

from tacit.evaluation.metrics import metric
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.references import Share, by_seen

ROWS = [(0, 0, 0, 0, 50), (0, 1, 20, 0, 50), (1, 1, 3, 0, 50), (2, 2, 30, 0, 50)]
RANKS = Ranks(*np.array(ROWS).T, part="test", candidate_set="full")


def test_warm_and_unseen_apart():
    shares = by_seen(RANKS, np.array([4, 0, 1]), cutoffs=(10, 40), names=("Recall",))
    # Warm: user 0 item 0 (found), user 2 item 2. Unseen: user 0 item 1, user 1 item 1 (found).
    # User 0 has one of each, so the kinds do not add up to the whole, and nothing says they do.
    assert shares["warm"] == Share(2, 2, {"Recall@10": 0.5, "Recall@40": 1.0}, {})
    assert shares["unseen"] == Share(2, 2, {"Recall@10": 0.5, "Recall@40": 1.0}, {})


def test_kinds_add_up_to_the_whole_where_everybody_has_one_held_out_item():
    rows = [(0, 0, 0, 0, 50), (1, 1, 3, 0, 50), (2, 2, 30, 0, 50), (3, 1, 9, 1, 50)]
    ranks = Ranks(*np.array(rows).T, part="test", candidate_set="full")
    shares = by_seen(ranks, np.array([4, 0, 1]), cutoffs=(10,), names=("HR",))
    # Warm: a hit and a miss. Unseen: a hit, and a tie of two for the tenth place.
    assert shares["warm"] == Share(2, 2, {"HR@10": 0.5}, {"HR@10": 0.25})
    assert shares["unseen"] == Share(2, 2, {"HR@10": 0.75}, {"HR@10": 0.375})
    assert metric(ranks, "HR@10") == 0.625


def test_only_warm_items_are_the_whole_result():
    shares = by_seen(RANKS, np.array([4, 1, 1]), ties="pessimistic")
    assert shares["unseen"] == Share(0, 0, {}, {})
    assert shares["warm"].held_out == 4
    assert shares["warm"].values["NDCG@10"] == metric(RANKS, "NDCG@10")
