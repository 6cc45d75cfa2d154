"""A Markov chain and SLIST, against numbers by hand and against their objective written out."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain as joined

import numpy as np
import pytest

from tacit.data.views import History, Lists, TrainView
from tacit.engines.central import fitted_of
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.methods.item_to_item import train_matrix
from tacit.methods.order_references import Markov, Slist, solved

KEY = np.zeros(1, np.uint64)


def view(*histories: list[int], n_items: int, time: list[int] | None = None) -> TrainView:
    """Histories in the order of their rows, or in that of the times of all rows."""
    sizes = [len(history) for history in histories]
    lists = Lists(np.cumsum([0, *sizes]), np.array([*joined.from_iterable(histories)], np.int64))
    key_U = np.arange(len(histories), dtype=np.uint64)
    time_N = None if time is None else np.array(time)
    return TrainView(n_items, lists, key_U, Lists.empty(len(histories)), time_N=time_N)


def scores(model: object, *items: int) -> np.ndarray:
    found: np.ndarray = model.score([History(np.array(items, np.int64))], KEY)[0]  # type: ignore[attr-defined]
    return found


def test_markov_by_hand() -> None:
    """0 -> 1 twice and 0 -> 2 once; popularity 3, 2, 2, 1 of 8."""
    train = view([0, 1, 2], [0, 1], [0, 2], [3], n_items=4)
    model = Markov(smoothings=(4.0,)).fit(train, 0, 0)
    popular_I = np.array([3, 2, 2, 1]) / 8
    assert np.allclose(scores(model, 3, 0), (np.array([0, 2, 1, 0]) + 4 * popular_I) / 7)
    assert np.allclose(scores(model, 1), (np.array([0, 0, 1, 0]) + 4 * popular_I) / 5)
    assert np.allclose(scores(model, 2), popular_I)  # nobody went on from it
    assert np.allclose(scores(model), popular_I)
    assert scores(model, 2, 0).sum() == pytest.approx(1.0)


def test_markov_reads_times_not_rows() -> None:
    train = view([2, 0, 1], n_items=3, time=[9, 1, 5])  # 0, 1, 2 in time
    assert scores(Markov(smoothings=(1e-9,)).fit(train, 0, 0), 1).argmax() == 2


def test_slist_sums_by_hand() -> None:
    """One history 0, 1, 2: cut after 0, and after 1."""
    train, d = view([0, 1, 2], n_items=3), 0.5
    past_II, next_II = Slist().sums(train, 0.0, d)
    assert np.allclose(past_II, [[1 + d * d, d, 0], [d, 1, 0], [0, 0, 0]])
    assert np.allclose(next_II, [[0, 1, 2 * d], [0, 0, 1], [0, 0, 0]])
    past_II, next_II = Slist().sums(train, 0.25, d)
    assert np.allclose(past_II, 0.25 + 0.75 * np.array([[1 + d * d, d, 0], [d, 1, 0], [0, 0, 0]]))
    assert np.allclose(next_II, 0.25 + 0.75 * np.array([[0, 1, 2 * d], [0, 0, 1], [0, 0, 0]]))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("row_decay", [None, 0.5])
def test_slist_solves_its_objective(share: float, row_decay: float | None) -> None:
    """Against least squares on the rows themselves: X, S, T and the roots of the ridge."""
    histories = [[0, 3, 1, 4], [2, 4], [1], [4, 0, 2]]
    time = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    train, d = view(*histories, n_items=5, time=time), np.exp(-1 / 2.0)
    unit = np.eye(5)
    left, right = [], []
    for history, latest in zip(histories, (3, 5, 6, 10), strict=True):
        weight = 1.0 if row_decay is None else np.exp(-((10 - latest) / 10) / row_decay)
        x = unit[history].sum(0)
        left.append(np.sqrt(share) * weight * x)
        right.append(np.sqrt(share) * weight * x)
        for cut in range(1, len(history)):
            past = sum(d ** (cut - 1 - p) * unit[history[p]] for p in range(cut))
            future = sum(d ** (p - cut) * unit[history[p]] for p in range(cut, len(history)))
            left.append(np.sqrt(1 - share) * weight * past)
            right.append(np.sqrt(1 - share) * weight * future)
    rows, targets = np.vstack([*left, np.sqrt(0.7) * unit]), np.vstack([*right, 0 * unit])
    expected = np.linalg.lstsq(rows, targets, rcond=None)[0]
    grid = {"position_decays": (2.0,), "inference_decays": (4.0,)}
    method = Slist(ridges=(0.7,), shares=(share,), row_decay=row_decay, **grid)
    model = method.fit(train, 0, 0)
    assert np.allclose(model.weight_II, expected, atol=1e-9)
    d = np.exp(-1 / 4.0)
    assert np.allclose(scores(model, 2, 0, 1), d * d * expected[2] + d * expected[0] + expected[1])


@pytest.mark.parametrize("several", [True, False])
def test_items_of_one_list_alone_are_eliminated_exactly(several: bool) -> None:
    """Against a solve of the whole: items of nobody, of one list and of several, and one twice."""
    histories = [[0, 3, 1, 6, 9], [2, 4], [5], [4, 0, 8, 9], [7, 7]]
    if not several:
        histories = [[0, 3], [2, 4], [5]]
    train = view(*histories, n_items=11)
    square_II, right_II = Slist().sums(train, 0.3, 0.6)
    square_II += 0.5 * np.eye(11)
    expected = np.linalg.solve(square_II, right_II)
    solved(square_II, right_II, train_matrix(train))
    assert np.abs(right_II - expected).max() < 1e-14
    assert not right_II[10].any()


def test_settings_of_slist_are_those_of_its_grid_in_any_order() -> None:
    train = view([0, 3, 1, 4], [2, 4], [4, 0, 2], n_items=5)
    method = Slist(ridges=(1.0, 5.0), shares=(0.2,), position_decays=(1.0, 2.0))
    assert method.settings == 12
    assert method.grid[4] == (1.0, 0.2, 2.0, 4.0)
    forwards = [scores(method.fit(train, number, 0), 2, 0) for number in range(12)]
    for number in (11, 3, 4, 0):
        alone = method.fit(train.take(np.arange(3)), number, 0)
        assert np.array_equal(scores(alone, 2, 0), forwards[number])
        assert np.array_equal(scores(method.fit(train, number, 0), 2, 0), forwards[number])
    assert len({tuple(found) for found in forwards}) == 12
    other = replace(method, row_decay=None, ridges=(1.0, 6.0))
    assert not np.array_equal(scores(other.fit(train, 11, 0), 2, 0), forwards[11])


# A chain: every history is a stretch of one circle of items, so the next item follows the last one.

ROUND, STRETCH, PEOPLE = 20, 7, 120


def chain(seed: int | None = None) -> TrainView:
    """Stretches in their order, or shuffled with a seed: then either end may be the next."""
    generator = np.random.default_rng(5)
    start_U = generator.integers(0, ROUND, PEOPLE)
    histories = [[(start + step) % ROUND for step in range(STRETCH)] for start in start_U.tolist()]
    if seed is not None:
        histories = [
            np.random.default_rng(seed + u).permutation(h).tolist() for u, h in enumerate(histories)
        ]
    return view(*histories, n_items=ROUND)


NETWORK = ("dim=16", "batch=16", "dropout=0.0", "length=8", "optimiser.rate=0.02")
LEARNERS = {
    "markov": (),
    "slist": (),
    "sasrec": NETWORK,
    "gru4rec": NETWORK,
    "sasrec with a softmax": (*NETWORK, "loss=softmax"),
    "gru4rec with bpr_max": (*NETWORK, "loss=bpr_max"),
    "gru4rec with cross_entropy": (*NETWORK, "loss=cross_entropy"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_chain_is_learned_from_its_order_and_not_without_it(name: str) -> None:
    experiment = resolve(name.split()[0], sets=LEARNERS[name])
    hits = []
    for train in (chain(), chain(seed=0)):
        trainer = Trainer(experiment, train)
        for _ in range(1 if trainer.algorithm.max_rounds else 12):
            trainer.run_round()
        method = trainer.algorithm.central
        assert method is not None
        fitted = fitted_of(method, train, trainer.state, 0)
        score_UI = method.scores(fitted, train, np.arange(PEOPLE))
        hit = 0
        for user in range(PEOPLE):
            item_H = chain().history(user).item_H
            score_UI[user, item_H] = -np.inf
            hit += score_UI[user].argmax() == (item_H[-1] + 1) % ROUND
        hits.append(hit / PEOPLE)
    assert hits[0] > 0.95, hits
    assert hits[1] < 0.7, hits  # both ends of a stretch are alike


def test_bad_grids_are_one_sentence() -> None:
    for wrong, said in (
        ({"ridges": ()}, r"ridges are \(\); give at least one, all above 0."),
        ({"position_decays": (0.0,)}, "position_decays are"),
        ({"shares": (1.5,)}, r"shares are \(1.5,\); give at least one, all from 0 to 1."),
        ({"row_decay": 0.0}, "row_decay is 0.0; it must be above 0, or None."),
    ):
        with pytest.raises(TacitError, match=said):
            Slist(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TacitError, match="smoothings are"):
        Markov(smoothings=(-1.0,))
    with pytest.raises(TacitError, match="has no time for every interaction; leave row_decay out"):
        Slist(row_decay=0.5).fit(view([0, 1], n_items=2), 0, 0)
    assert resolve("slist", sets=["row_decay=0.5"]).method == Slist(row_decay=0.5)
