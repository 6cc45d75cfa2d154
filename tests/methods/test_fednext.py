"""FedNext against sums by hand, against its definition place by place, and on planted chains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.core.algorithm import Bound, ClientData
from tacit.core.recency import Recency
from tacit.core.types import Task
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.data.views import History, Lists, TrainView
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.newcomer import custom_newcomer_scores
from tacit.engines.participation import Participation, everybody
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance
from tacit.experiment.reasons import HistoryReason
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods import FedEase, FedNext
from tacit.methods.fednext import public_projection
from tacit.parts.cold.features import Features
from tacit.parts.cold.simple import Ridge
from tacit.testing import ragged

WIDE = torch.float64


def client(history: list[int], real: list[float] | None = None) -> ClientData:
    """A history in its order; padding stands at the end."""
    nothing, real_H = torch.zeros(0), torch.tensor(real or [1.0] * len(history), dtype=WIDE)
    order_H = torch.arange(len(history)) * (real_H > 0)
    item_H = torch.tensor(history)
    return ClientData(
        torch.tensor(0), item_H, real_H, nothing.long(), nothing, nothing, order_H=order_H
    )


def received(method: FedNext, n_items: int) -> dict[str, torch.Tensor]:
    shared = method.shared(Task(n_users=1, n_items=n_items))
    return {name: torch.zeros(init.shape, dtype=WIDE) for name, init in shared.items()}


def sent(method: FedNext, data: ClientData, n_items: int) -> dict[str, torch.Tensor]:
    """What a client sends, as whole tables."""
    _, upload = method.update(received(method, n_items), {}, data, 1)
    real = data.real_H > 0
    return {
        name: torch.zeros(n_items, value.shape[1], dtype=WIDE).index_add(
            0, data.history_H[real], value[real]
        )
        for name, value in upload.items()
    }


def by_places(history: list[int], past: float, horizon: int, n_items: int) -> tuple[Any, Any]:
    """sum_t p_t y_t^T and sum_t p_t p_t^T, place after place, as they are defined."""
    next_II, past_II = np.zeros((n_items, n_items)), np.zeros((n_items, n_items))
    for t in range(len(history) - 1):
        p_I, y_I = np.zeros(n_items), np.zeros(n_items)
        for j in range(t + 1):
            p_I[history[j]] += 2.0 ** (-(t - j) / past)
        for k in range(1, horizon + 1):
            if t + k < len(history):
                y_I[history[t + k]] += 1.0 / k
        next_II += np.outer(p_I, y_I)
        past_II += np.outer(p_I, p_I)
    return next_II, past_II


def test_three_items_by_hand() -> None:
    """History 2, 0, 1, half-life 1, horizon 2.

    p_1 = e_2 and y_1 = e_0 + e_1 / 2; p_2 = e_0 + e_2 / 2 and y_2 = e_1. So 2 -> 0 has 1, 2 -> 1
    has 1/2 + 1/2, and 0 -> 1 has 1. The pasts are e_2 e_2' and (e_0 + e_2 / 2)(e_0 + e_2 / 2)'.
    """
    method = FedNext(learns="ridge", past=1.0, horizon=2)
    found = sent(method, client([2, 0, 1]), 3)
    assert found["transitions"].tolist() == [[0, 1, 0], [0, 0, 0], [1, 1, 0]]
    assert found["pasts"].tolist() == [[1, 0, 0.5], [0, 0, 0], [0.5, 0, 1.25]]


@pytest.mark.parametrize("scale", ["none", "length", "norm"])
def test_four_items_in_each_scale_by_hand(scale: str) -> None:
    """Horizon 1 and half-life 1: pairs of distance 1, 2 and 3 have 1, 1/2 and 1/4. There are 3, 2
    and 1 of them, so the squared norm is 3 + 2/4 + 1/16."""
    method = FedNext(past=1.0, horizon=1, scale=scale)  # type: ignore[arg-type]
    found = sent(method, client([0, 1, 2, 3]), 4)["transitions"]
    plain = torch.tensor(
        [[0, 1, 0.5, 0.25], [0, 0, 1, 0.5], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=WIDE
    )
    factor = {"none": 1.0, "length": 1 / 3, "norm": 1 / (3 + 2 / 4 + 1 / 16) ** 0.5}[scale]
    assert torch.allclose(found, factor * plain)


@pytest.mark.parametrize("history", [[3, 1, 4, 0, 5, 2, 6], [1, 4, 1, 0, 4], [2]])
@pytest.mark.parametrize(("past", "horizon"), [(0.7, 1), (2.8, 3), (5.6, 10)])
def test_sums_of_pairs_are_the_sums_over_places(
    history: list[int], past: float, horizon: int
) -> None:
    method = FedNext(learns="ridge", past=past, horizon=horizon, ease=(1.0,))
    next_II, past_II = by_places(history, past, horizon, 7)
    row_I = np.bincount(history, minlength=7)
    padded = client([*history, 0, 0], [1.0] * len(history) + [0.0, 0.0])
    for data in (client(history), padded):
        found = sent(method, data, 7)
        assert np.allclose(found["transitions"], next_II, atol=1e-12)
        assert np.allclose(found["pasts"], past_II, atol=1e-12)
        assert np.allclose(found["gram"], np.outer(row_I, row_I), atol=1e-12)


@pytest.mark.parametrize("history", [[3, 1, 4, 0, 5, 2, 6], [1, 4, 1, 0, 4], [2]])
def test_narrow_rows_are_transitions_times_a_projection(history: list[int]) -> None:
    """And the two last columns are the sums of their rows and of their columns."""
    method = FedNext(past=1.4, horizon=3, width=3, sketch="gaussian")
    next_II, _ = by_places(history, 1.4, 3, 7)
    found = sent(method, client(history), 7)["rows"].numpy()
    assert np.allclose(found[:, :3], next_II @ public_projection(7, 3, "gaussian").numpy())
    assert np.allclose(found[:, 3:], np.stack((next_II.sum(1), next_II.sum(0)), axis=1))


TRAIN = split_dataset(ragged(), CLEAN).train
VARIANTS: dict[str, FedNext] = {
    "transitions": FedNext(half_lives=(1.0, 3.0)),
    "norm": FedNext(scale="norm"),
    "length": FedNext(scale="length"),
    "ridge": FedNext(learns="ridge", past=5.6, horizon=3, ridges=(0.5, 2.0), half_lives=(1.0, 3.0)),
    "mixed": FedNext(
        learns="ridge", ease=(0.0, 0.5), scale="norm", ridges=(1.0,), half_lives=(2.0,)
    ),
    "range": FedNext(width=6, half_lives=(1.0, 3.0)),
    "range, norm": FedNext(width=6, scale="norm"),
    "gaussian": FedNext(width=6, sketch="gaussian", scale="length"),
    "count": FedNext(width=6, sketch="count", scale="norm"),
}


def twice(train: TrainView) -> TrainView:
    """The same people, with the first item of each history once more at its end."""
    lists = [np.append(train.positives[u], train.positives[u][:1]) for u in range(train.n_users)]
    start_U1 = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    positives = Lists(start_U1, np.concatenate(lists))
    return TrainView(train.n_items, positives, train.user_key_U, Lists.empty(train.n_users))


@pytest.mark.parametrize("train", [TRAIN, twice(TRAIN)], ids=["once", "twice"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_loop_and_the_ragged_batch_agree(name: str, train: TrainView) -> None:
    method = VARIANTS[name]
    algorithm = method.algorithm(Task.of(train))
    states = []
    for engine in (LoopEngine(WIDE), CustomEngine(WIDE)):
        state = engine.start(algorithm, train, 0)  # type: ignore[arg-type]
        for number in range(1, 4):
            who = Participation(ratio=0.7, dropout=0.2).draw(train, 0, number)
            engine.round(algorithm, train, state, who, 0)  # type: ignore[arg-type]
        states.append(state)
    loop, fast = states
    assert "ragged" in CustomEngine(WIDE).describe(algorithm).text
    for parameter, value in loop.shared.items():
        assert value.abs().max() > 0, parameter
        found = fast.shared[parameter]
        assert (value - found).abs().max() < 1e-9 * max(1.0, float(value.abs().max())), parameter
    users = np.arange(train.n_users)
    alone_UI = CustomScorer(algorithm, train, loop, block=1)(users)
    together_UI = CustomScorer(algorithm, train, loop)(users)
    assert np.abs(alone_UI - together_UI).max() < 1e-10 * np.abs(alone_UI).max()


@pytest.mark.parametrize("name", ["norm", "mixed", "range, norm", "count"])
def test_what_one_client_sends_has_the_norm_that_the_contract_names(name: str) -> None:
    algorithm = VARIANTS[name].algorithm(Task.of(twice(TRAIN)))
    assert algorithm.bound == Bound(2, 1.0)
    engine = LoopEngine(WIDE, uploads=[])
    train = twice(TRAIN)
    state = engine.start(algorithm, train, 0)
    engine.round(algorithm, train, state, everybody(train), 0)
    engine.round(algorithm, train, state, everybody(train), 0)
    assert engine.uploads
    for _, upload in engine.uploads:
        square = 0.0
        for value in upload.change.values():
            table = torch.zeros(train.n_items, value.shape[1], dtype=WIDE)
            square += float(table.index_add(0, upload.item_R, value).square().sum())
        assert square == pytest.approx(1.0)


def test_a_bound_is_not_inherited_by_another_update() -> None:
    class Louder(FedNext):
        def update(self, received, private, data, round_number):  # type: ignore[no-untyped-def]
            kept, upload = FedNext.update(self, received, private, data, round_number)
            return kept, {name: 2 * value for name, value in upload.items()}

    assert FedNext().algorithm(Task.of(TRAIN)).bound is None
    assert Louder(scale="norm").algorithm(Task.of(TRAIN)).bound is None


def played(method: FedNext | FedEase, train: TrainView, rounds: int) -> Any:
    engine, algorithm = CustomEngine(WIDE), method.algorithm(Task.of(train))
    state = engine.start(algorithm, train, 0)
    for _ in range(rounds):
        engine.round(algorithm, train, state, everybody(train), 0)
    return state


def test_two_items_by_hand_on_the_server() -> None:
    """C = [[0, 4], [1, 0]] has row sums 4, 1 and column sums 1, 4; both powers 1/2: 4 / (2 · 2) and
    1 / (1 · 1). The ridge with A = diag(1, 3) and twice its mean diagonal: 4 / 5 and 1 / 7."""
    next_II = torch.tensor([[0.0, 4.0], [1.0, 0.0]], dtype=WIDE)
    plain = FedNext(normalise=((0.5, 0.5),), half_lives=(4.0,))
    shared = received(plain, 2)
    stepped = plain.step(shared, {"transitions": next_II}, 1, 1)
    assert stepped["weight"].tolist() == [[0, 1], [1, 0]]
    assert stepped["decay"].item() == 0.25
    solved = FedNext(learns="ridge", ridges=(2.0,))
    total = {"transitions": next_II, "pasts": torch.diag(torch.tensor([1.0, 3.0], dtype=WIDE))}
    weight_II = solved.step(received(solved, 2), total, 1, 1)["weight"]
    assert torch.allclose(weight_II, torch.tensor([[0, 4 / 5], [1 / 7, 0]], dtype=WIDE))


def test_the_share_of_ease_is_the_matrix_of_fedease() -> None:
    """The Gram matrix is diagonal only by chance: its mean diagonal times 2 is EASE's own ridge."""
    mixed = FedNext(learns="ridge", ridges=(2.0,), ease=(0.0, 0.5), half_lives=(1.0,))
    alone, both = (played(mixed, TRAIN, rounds).shared for rounds in (1, 2))
    ridge = 2.0 * float(both["gram"].diagonal().mean())
    gram = {"gram": both["gram"]}
    ease_II = FedEase((ridge,)).step({**gram, "weight": both["gram"]}, gram, 1, 1)["weight"]
    expected_II = alone["weight"] / alone["weight"].norm() + 0.5 * ease_II / ease_II.norm()
    assert torch.allclose(both["weight"], expected_II)


def test_rounds_are_settings_and_only_the_first_sends() -> None:
    method = FedNext(learns="ridge", ridges=(1.0, 5.0), ease=(0.0, 1.0), half_lives=(1.0, 2.0))
    algorithm = method.algorithm(Task.of(TRAIN))
    assert algorithm.max_rounds == 8
    assert algorithm.releases(8) == 1
    found = [method.setting(number) for number in (1, 2, 3, 5, 8, 9)]
    powers = FedNext(half_lives=(1.0,)).settings
    assert [one.powers for one in powers] == [(0.7, 0.2), (0.3, 0.0)]
    assert [(one.ridge, one.share, one.half_life) for one in found] == [
        (1.0, 0.0, 1.0),
        (1.0, 0.0, 2.0),
        (1.0, 1.0, 1.0),
        (5.0, 0.0, 1.0),
        (5.0, 1.0, 2.0),
        (5.0, 1.0, 2.0),
    ]
    one, two, three = (played(method, TRAIN, rounds).shared for rounds in (1, 2, 3))
    assert torch.equal(one["weight"], two["weight"])
    assert not torch.equal(two["weight"], three["weight"])
    assert FedNext(width=4).algorithm(Task.of(TRAIN)).releases(9) == 2


def test_a_range_as_wide_as_the_catalogue_is_the_dense_sum() -> None:
    users = np.arange(TRAIN.n_users)
    dense = FedNext(half_lives=(2.0,))
    narrow = replace(dense, width=TRAIN.n_items)
    dense_UI, narrow_UI = (
        CustomScorer(method.algorithm(Task.of(TRAIN)), TRAIN, played(method, TRAIN, rounds))(users)
        for method, rounds in ((dense, 1), (narrow, 2))
    )
    assert np.abs(dense_UI - narrow_UI).max() < 1e-9 * np.abs(dense_UI).max()


def chain(*, shuffled: bool) -> tuple[TrainView, np.ndarray]:
    """120 histories on a ring of 30 items: each item is followed by the seventh after it, from
    anywhere on. The last item of each is the one to find. Shuffled, every order is as likely."""
    generator, n_users, n_items, length = np.random.default_rng(5), 120, 30, 8
    row_UH = (
        generator.integers(0, n_items, n_users)[:, None] + 7 * np.arange(length + 1)
    ) % n_items
    if shuffled:
        row_UH = generator.permuted(row_UH, axis=1)
    lists = Lists(np.arange(n_users + 1) * length, row_UH[:, :-1].flatten())
    key_U = np.arange(1, n_users + 1, dtype=np.uint64)
    return TrainView(n_items, lists, key_U, Lists.empty(n_users)), row_UH[:, -1]


def hits(method: FedNext | FedEase, rounds: int, *, shuffled: bool) -> float:
    train, next_U = chain(shuffled=shuffled)
    algorithm, everyone = method.algorithm(Task.of(train)), np.arange(train.n_users)
    score_UI = CustomScorer(algorithm, train, played(method, train, rounds))(everyone)
    score_UI[train.positives.list_N, train.positives.item_N] = -np.inf
    return float((score_UI.argmax(1) == next_U).mean())


@pytest.mark.parametrize("name", ["transitions", "ridge", "norm", "range"])
def test_a_planted_chain_is_learned_and_order_free_data_gives_no_gain(name: str) -> None:
    """What EASE finds without order it finds in both: which items stand together."""
    narrow = 20 if name == "range" else None
    method = replace(VARIANTS[name], past=1.0, horizon=1, half_lives=(1.0,), width=narrow)
    ease = FedEase((5.0,))
    assert hits(method, 2, shuffled=False) >= 0.95
    assert hits(ease, 1, shuffled=False) < 0.7
    assert hits(method, 2, shuffled=True) <= hits(ease, 1, shuffled=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_contributions_add_up_to_the_logits(name: str) -> None:
    method = VARIANTS[name]
    state = played(method, TRAIN, 3)
    got = method.broadcast(state.shared, torch.tensor(0))
    data = client(TRAIN.history(5).item_H.tolist())
    score_I = method.score(got, {}, data)
    assert torch.allclose(method.contributions(got, data).sum(0), score_I)


@pytest.mark.parametrize("name", ["transitions", "mixed", "range", "count"])
def test_a_newcomer_needs_no_training_and_new_interactions_count_at_once(name: str) -> None:
    """Somebody with a known history has its logits; one more item moves them as a weight says."""
    method = VARIANTS[name]
    algorithm, state = method.algorithm(Task.of(TRAIN)), played(method, TRAIN, 3)
    history = TRAIN.history(5)
    known_I = CustomScorer(algorithm, TRAIN, state)(np.array([5]))[0]
    person = {"name": 1, "seed": 0, "rounds": 2}
    new_I = custom_newcomer_scores(algorithm, state.shared, History(history.item_H), **person)
    assert np.allclose(new_I, known_I)
    more = next(item for item in range(TRAIN.n_items) if item not in history.item_H)
    longer = History(np.append(history.item_H, more))
    longer_I = custom_newcomer_scores(algorithm, state.shared, longer, **person)
    alone_I = custom_newcomer_scores(algorithm, state.shared, History(np.array([more])), **person)
    shrink = Recency(method.setting(3).half_life).of_ages(np.array([1]))[0]
    assert np.allclose(longer_I, shrink * known_I + alone_I)


def test_bytes_of_the_dense_and_the_narrow_form() -> None:
    """ML-1M's 3,706 items: a table of 55 MB once each way, or 256 columns and two more up and twice
    256 down, twice."""
    task = Task(n_users=2, n_items=3706)
    dense, narrow = (FedNext(width=width).shared(task) for width in (None, 256))
    assert dense["weight"].count * 4 == 54_937_744
    assert narrow["rows"].count * 4 == 3_824_592
    assert narrow["left"].count == narrow["right"].count == 3706 * 256
    assert "right" not in FedNext(width=256, sketch="count").shared(task)


def test_settings_that_make_no_sense_are_refused() -> None:
    for sets, message in (
        (["past=0.0"], "past is 0.0"),
        (["horizon=0"], "horizon 0"),
        (["half_lives=[0.0]"], "half_lives are"),
        (["ridges=[-1.0]"], "ridges are"),
        (["ease=[-0.5]"], "ease is"),
        (["normalise=[[0.5]]"], "pair of powers|normalise"),
        (["width=0"], "width is 0"),
        (["width=8", "learns=ridge"], "needs? those|keeps no square table"),
    ):
        with pytest.raises(TacitError, match=message):
            resolve("fednext", sets=sets)


# Items that nobody has touched

COLD_PROTOCOL = among_cold_items(CLEAN)
COLD = split_dataset(planted_dataset(), COLD_PROTOCOL)
WARM_W = COLD.train.warm_W


def cold_trainer(method: FedNext, rounds: int = 2) -> Trainer:
    trainer = Trainer(Experiment("fednext", method, 9, protocol=COLD_PROTOCOL), COLD.train, 1)
    for _ in range(rounds):
        trainer.run_round()
    return trainer


def recall(method: FedNext) -> float:
    return metric(rank(cold_trainer(method).scores(), COLD.test).full, "Recall@20")


@pytest.mark.parametrize("name", ["transitions", "ridge", "range"])
def test_new_items_are_ranked_by_their_content(name: str) -> None:
    """Well above chance; features that say nothing leave every new item the same, at chance."""
    width = 16 if name == "range" else None
    method = replace(
        VARIANTS[name], width=width, half_lives=(5.6,), ridges=(10.0,), content=Ridge()
    )
    by_chance = metric(chance(COLD.test).full, "Recall@20")
    assert recall(method) > 1.5 * by_chance
    nothing = replace(method, content=Ridge(Features(reduce=False, kind="zero")))
    assert recall(nothing) == pytest.approx(by_chance)


def test_rows_and_columns_of_new_items_are_the_ridge_of_the_others() -> None:
    """Touched items keep what they had; a new row is what the ridge says, and so is a column."""
    made, plain = FedNext(content=Ridge()), FedNext()
    weight_II = cold_trainer(made, 1).state.shared["weight"].double()
    engine, warm = CustomEngine(torch.float32), COLD.train.existing()
    algorithm = plain.algorithm(Task.of(warm))
    state = engine.start(algorithm, warm, 0)
    engine.round(algorithm, warm, state, everybody(warm), 0)
    warm_W = torch.from_numpy(np.asarray(WARM_W))
    warm_WW = state.shared["weight"].double()
    assert torch.allclose(weight_II[warm_W][:, warm_W], warm_WW)
    is_warm_I = torch.zeros(COLD.train.n_items, dtype=torch.bool)
    is_warm_I[warm_W] = True
    feature_IF = Features(reduce=False).rows(COLD.train.content, is_warm_I.numpy(), 1)
    wide_IF = torch.from_numpy(feature_IF).double()
    known_WF, new_CF = wide_IF[is_warm_I], wide_IF[~is_warm_I]
    centre_F, middle_W = known_WF.mean(0), warm_WW.mean(0)
    square_FF = (known_WF - centre_F).T @ (known_WF - centre_F)
    square_FF += torch.eye(len(square_FF), dtype=WIDE) * square_FF.diagonal().mean()
    slope_FW = torch.linalg.solve(square_FF, (known_WF - centre_F).T @ (warm_WW - middle_W))
    expected_CW = middle_W + (new_CF - centre_F) @ slope_FW
    assert torch.allclose(weight_II[~is_warm_I][:, warm_W], expected_CW, atol=1e-5)
    assert (weight_II[:, ~is_warm_I].abs().sum(0) > 0).all()


def test_a_run_with_new_items_recommends_them_and_says_why(tmp_path: Path) -> None:
    experiment = resolve("fednext", preset="content", split="cold", rounds=1)
    run(experiment, tmp_path / "one")
    everything = COLD.train.n_items
    best = recommend(tmp_path / "one", user="user-3", k=everything, explain=True)
    cold = {f"item-{code}" for code in np.setdiff1d(np.arange(everything), np.asarray(WARM_W))}
    found = [line for line in best if line.item in cold]
    assert found
    for line in found:
        assert isinstance(line.reason, HistoryReason)
        brought = sum(one.contribution for one in line.reason.history)
        assert brought == pytest.approx(line.score, rel=1e-4, abs=1e-5)


def test_new_items_without_content_are_refused() -> None:
    with pytest.raises(TacitError, match="makes rows of new items from content"):
        played(FedNext(content=Ridge()), TRAIN, 1)
    with pytest.raises(TacitError, match="columns are drawn for every item"):
        FedNext(content=Ridge(), width=4, sketch="count")
    with pytest.raises(TacitError, match="cannot rank items"):
        Trainer(Experiment("fednext", FedNext(), 1, protocol=COLD_PROTOCOL), COLD.train, 1)
