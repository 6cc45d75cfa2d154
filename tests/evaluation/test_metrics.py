import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.evaluation.metrics import METRICS, metric, per_user, summary
from tacit.evaluation.ranking import rank
from tacit.evaluation.ranks import Ranks


def ranks_of(*rows):
    return Ranks(*np.array(rows).T, part="test", candidate_set="full")


def naive(name, order, relevant, k):
    """A metric of one fixed order of candidates, straight from its definition."""
    hits = [place for place, item in enumerate(order[:k], start=1) if item in relevant]
    if name == "HR":
        return float(bool(hits))
    if name == "Recall":
        return len(hits) / len(relevant)
    if name == "Precision":
        return len(hits) / k
    if name == "NDCG":
        ideal = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(relevant)) + 1))
        return sum(1 / math.log2(place + 1) for place in hits) / ideal
    if name == "MRR":
        return 1 / hits[0] if hits else 0.0
    return sum(n / place for n, place in enumerate(hits, start=1)) / len(relevant)


def orders(score_I, candidates):
    """Every order of the candidates that their scores allow."""
    levels = sorted({score_I[item] for item in candidates}, reverse=True)
    groups = [[item for item in candidates if score_I[item] == level] for level in levels]
    for choice in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield list(itertools.chain(*choice))


@st.composite
def one_user(draw):
    n_items = draw(st.integers(1, 7))
    score_I = draw(st.lists(st.integers(0, 2), min_size=n_items, max_size=n_items))
    relevant = draw(st.sets(st.integers(0, n_items - 1), min_size=1))
    masked = draw(st.sets(st.integers(0, n_items - 1), max_size=2))
    return score_I, relevant, masked


@settings(deadline=None, max_examples=60)
@given(one_user())
def test_expected_is_the_mean_over_all_tie_orders(held_out_of, user):
    score_I, relevant, masked = user
    part = held_out_of(len(score_I), [list(relevant)], [list(masked)])
    ranks = rank(lambda _: np.array([score_I]), part).full
    candidates = [item for item in range(len(score_I)) if item not in masked]
    possible = list(orders(score_I, candidates))
    for name in METRICS:
        for k in (1, 2, 3, 5, 9):
            brute = np.mean([naive(name, order, relevant, k) for order in possible])
            assert metric(ranks, f"{name}@{k}") == pytest.approx(brute, abs=1e-12), (name, k)


@settings(deadline=None, max_examples=60)
@given(one_user())
def test_pessimistic_is_the_order_with_relevant_items_last_in_their_ties(held_out_of, user):
    score_I, relevant, masked = user
    part = held_out_of(len(score_I), [list(relevant)], [list(masked)])
    ranks = rank(lambda _: np.array([score_I]), part).full
    candidates = [item for item in range(len(score_I)) if item not in masked]
    worst = sorted(candidates, key=lambda item: (-score_I[item], item in relevant))
    for name in METRICS:
        for k in (1, 2, 3, 5, 9):
            value = metric(ranks, f"{name}@{k}", ties="pessimistic")
            assert value == pytest.approx(naive(name, worst, relevant, k), abs=1e-12), (name, k)


@settings(deadline=None, max_examples=40)
@given(st.lists(one_user(), min_size=1, max_size=5))
def test_bounds_and_growth_with_k(held_out_of, users):
    for score_I, relevant, masked in users:
        part = held_out_of(len(score_I), [list(relevant)], [list(masked)])
        ranks = rank(lambda _, row=score_I: np.array([row]), part).full
        for name in METRICS:
            values = [metric(ranks, f"{name}@{k}") for k in range(1, 10)]
            pessimistic = [metric(ranks, f"{name}@{k}", "pessimistic") for k in range(1, 10)]
            assert min(pessimistic) >= 0
            assert (np.array(pessimistic) <= np.array(values) + 1e-12).all()
            assert max(values) <= 1 + 1e-12
            if name in ("HR", "Recall", "MRR", "MAP"):
                assert all(a <= b + 1e-12 for a, b in itertools.pairwise(values))


def test_hand_computed_single_item():
    # Rank 3 without ties, and a tie over ranks 2, 3, 4.
    plain, tied = ranks_of((0, 0, 2, 0, 50)), ranks_of((0, 0, 1, 2, 50))
    assert metric(plain, "HR@2") == 0.0
    assert metric(plain, "HR@3") == metric(plain, "Recall@3") == 1.0
    assert metric(plain, "NDCG@3") == pytest.approx(0.5)
    assert metric(plain, "MRR@3") == metric(plain, "MAP@3") == pytest.approx(1 / 3)
    assert metric(plain, "Precision@5") == 0.2
    assert metric(tied, "HR@3") == pytest.approx(2 / 3)
    assert metric(tied, "NDCG@3") == pytest.approx((1 / math.log2(3) + 1 / math.log2(4)) / 3)
    assert metric(tied, "MRR@3") == pytest.approx((1 / 2 + 1 / 3) / 3)
    assert metric(tied, "HR@3", "pessimistic") == 0.0
    assert metric(tied, "MRR@4", "pessimistic") == 0.25


def test_hand_computed_several_items():
    # Two relevant items in a tie over ranks 1 to 4, one at rank 6; k = 2.
    ranks = ranks_of((0, 0, 0, 3, 10), (0, 1, 0, 3, 10), (0, 2, 5, 0, 10))
    assert metric(ranks, "Recall@2") == pytest.approx(1 / 3)  # one of three, expected
    assert metric(ranks, "HR@2") == pytest.approx(5 / 6)  # 1 - C(2,2) / C(4,2)
    # First relevant at rank 1: 1/2; at rank 2: 1/2 * 2/3 = 1/3.
    assert metric(ranks, "MRR@2") == pytest.approx(1 / 2 + 1 / 3 / 2)
    # Rank 1: 1/2 * 1; rank 2: 1/2 * (1 + 1/3) / 2; over three relevant items.
    assert metric(ranks, "MAP@2") == pytest.approx((1 / 2 + 1 / 3) / 3)


@pytest.mark.parametrize("ties", ["expected", "pessimistic"])
@pytest.mark.parametrize("name", list(METRICS))
def test_missed_items_count_as_relevant_and_never_as_found(name, ties):
    missed = ranks_of((0, 0, 5, 0, 5), (1, 0, 5, 0, 5), (1, 1, 5, 0, 5))
    assert metric(missed, f"{name}@1000", ties) == 0.0
    user_E, value_E = per_user(ranks_of((0, 0, 0, 0, 5), (0, 1, 5, 0, 5)), f"{name}@10", ties)
    expected = {"HR": 1, "Recall": 0.5, "Precision": 0.1, "MRR": 1, "MAP": 0.5}
    expected["NDCG"] = 1 / (1 + 1 / math.log2(3))
    assert user_E.tolist() == [0]
    assert value_E[0] == pytest.approx(expected[name])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_agrees_with_ir_measures(held_out_of):
    import ir_measures
    from ir_measures import AP, RR, P, R, Success, nDCG

    generator = np.random.default_rng(11)
    n_users, n_items = 60, 120
    score_UI = np.stack([generator.permutation(n_items) for _ in range(n_users)]).astype(float)
    relevant = [generator.permutation(n_items)[: 1 + u % 13].tolist() for u in range(n_users)]
    part = held_out_of(n_items, relevant)
    ranks = rank(lambda user_B: score_UI[user_B], part).full
    names = {"HR": Success, "Recall": R, "Precision": P, "NDCG": nDCG, "MRR": RR, "MAP": AP}
    qrels = {str(u): {str(i): 1 for i in items} for u, items in enumerate(relevant)}
    run = {str(u): {str(i): score_UI[u, i] for i in range(n_items)} for u in range(n_users)}
    wanted = {(name, k): measure @ k for name, measure in names.items() for k in (1, 5, 10, 50)}
    theirs = {
        (str(value.measure), value.query_id): value.value
        for value in ir_measures.iter_calc(list(wanted.values()), qrels, run)
    }
    assert len(theirs) == len(wanted) * n_users
    for (name, k), measure in wanted.items():
        user_E, value_E = per_user(ranks, f"{name}@{k}")
        reference = [theirs[str(measure), str(u)] for u in user_E]
        np.testing.assert_allclose(value_E, reference, rtol=0, atol=1e-9, err_msg=f"{name}@{k}")


def test_users_come_by_rising_code_whatever_the_row_order():
    rows = [(9, 0, 0, 0, 50), (4, 1, 30, 0, 50), (9, 2, 30, 0, 50)]
    user_E, value_E = per_user(ranks_of(*rows), "Recall@10")
    assert user_E.tolist() == [4, 9]
    assert value_E.tolist() == [0.0, 0.5]


def test_summary_holds_every_name_and_cutoff():
    ranks = ranks_of((0, 0, 7, 0, 50), (1, 0, 2, 3, 50))
    values = summary(ranks)
    assert list(values) == [
        f"{name}@{k}" for name in ("HR", "Recall", "NDCG") for k in (5, 10, 20, 50, 100)
    ]
    for key, value in values.items():
        assert value == metric(ranks, key)
    only = summary(ranks, cutoffs=[5], names=["MAP"], ties="pessimistic")
    assert only == {"MAP@5": metric(ranks, "MAP@5", "pessimistic")}


@pytest.mark.parametrize("name", ["NDCG", "NDCG@", "NDCG@0", "NDCG@-3", "NDCG@ten", "NDCG@1.5"])
def test_bad_cutoff_is_said(name):
    with pytest.raises(TacitError, match="whole cut-off of at least 1 after '@', as in 'NDCG@10'"):
        metric(ranks_of((0, 0, 0, 0, 5)), name)


def test_unknown_metric_names_the_nearest():
    with pytest.raises(TacitError, match="did you mean 'Recall'"):
        metric(ranks_of((0, 0, 0, 0, 5)), "Recal@10")
    with pytest.raises(TacitError, match="did you mean 'NDCG'"):
        summary(ranks_of((0, 0, 0, 0, 5)), names=["NDGC"])
