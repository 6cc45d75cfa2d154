"""Methods whose release begins with noisy counts: bounds, noise, paths, and numbers by hand."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.algorithm import ClientData
from tacit.core.custom import CustomMethod
from tacit.core.optim import Adam
from tacit.core.recency import Recency
from tacit.core.types import Params, Task
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.errors import TacitError
from tacit.experiment.resolve import override, resolve
from tacit.experiment.toml import dumps, loads
from tacit.experiment.trainer import Trainer
from tacit.methods import METHODS as LISTED
from tacit.methods import DpAls, FedEase, FedNext, FedPop, FedSpectral
from tacit.methods.counts_first import CountsFirst, share_for
from tacit.methods.fednext import PRIVATE_RECENCY
from tacit.methods.private_pairs import PrivatePairs
from tacit.methods.private_spectrum import PrivateSpectrum
from tacit.parts.cold.features import Features
from tacit.parts.cold.simple import Ridge
from tacit.plugins.private import can_claim, private
from tacit.privacy.guarantee import PrivacyRequest
from tacit.testing.custom_tests import custom_trace
from tacit.testing.play import same_to
from tacit.testing.synthetic import ragged, with_content

WIDE = torch.float64
REQUEST = PrivacyRequest(epsilon=8.0)
ALL_HEARD: dict[str, Any] = {"cut": -1e9, "item_power": 0.0}  # so that counts decide nothing
METHODS: dict[str, CountsFirst] = {
    "near": PrivatePairs(privacy=REQUEST),
    "near, latest": PrivatePairs(last=3, privacy=REQUEST),
    "all": private(FedEase(), epsilon=8.0),
    "all, latest": private(FedEase(recency=Recency(2.0)), epsilon=8.0),
    "spectrum": private(FedSpectral(), epsilon=8.0),
    "als": DpAls(dim=3, privacy=REQUEST),
    "als, own": DpAls(dim=3, own_share=0.4, iterations=3, privacy=REQUEST),
}


def view_of(*histories: list[int], n_items: int) -> TrainView:
    start = np.concatenate([[0], np.cumsum([len(one) for one in histories])]).astype(np.int64)
    keys = np.arange(1, len(histories) + 1, dtype=np.uint64)
    item_N = np.array([item for one in histories for item in one], dtype=np.int64)
    return TrainView(n_items, Lists(start, item_N), keys, Lists.empty(len(histories)))


def client(history: list[int]) -> ClientData:
    nothing, order_H = torch.zeros(0), torch.arange(len(history))
    real_H = torch.ones(len(history), dtype=WIDE)
    known = (torch.tensor(0), torch.tensor(history), real_H, nothing.long(), nothing, nothing)
    return ClientData(*known, order_H=order_H)


def first_values(method: CountsFirst, n_items: int) -> Params:
    """Random items, an orthonormal basis, and weights between 0 and 1 of which some are 0."""
    generator = torch.Generator().manual_seed(3)
    drawn = {
        name: torch.randn(init.shape, generator=generator, dtype=WIDE)
        for name, init in method.shared(Task(1, n_items)).items()
    }
    drawn["item_weight"] = drawn["item_weight"].clamp(0, 1)
    if "basis" in drawn:
        drawn["basis"] = torch.linalg.qr(drawn["basis"])[0]
    return drawn


def square_of(method: CountsFirst, upload: Params, data: ClientData, n_items: int) -> float:
    """The squared norm of what an upload adds to sums."""
    square = 0.0
    for name, value in upload.items():
        if name in method.row_parameters:
            table = torch.zeros(n_items, value.shape[1], dtype=WIDE)
            value = table.index_add(0, data.history_H, value)
        square += float(value.square().sum())
    return square


# The bound.


@pytest.mark.parametrize("name", sorted(METHODS))
@settings(max_examples=60, deadline=None)
@given(history=st.lists(st.integers(0, 7), min_size=1, max_size=12))
def test_all_that_a_client_ever_sends_has_norm_1_at_most(name: str, history: list[int]) -> None:
    """Items that stand twice, histories of one item, items of weight 0: all parts together."""
    method = replace(METHODS[name], share=0.3)
    received = method.broadcast(first_values(method, 8), torch.tensor(0))
    data, square = client(history), 0.0
    for number in range(1, 6):
        _, upload = method.update(received, {}, data, number)
        assert set(upload) == (method.sent_in(number) if method.sends(number) else set())
        square += square_of(method, upload, data, 8)
    assert square <= 1 + 1e-12
    _, counts = method.update(received, {}, data, 1)
    assert square_of(method, counts, data, 8) == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["near", "all", "als", "als, own"])
def test_who_has_something_to_say_says_it_as_loud_as_the_bound_allows(name: str) -> None:
    method = replace(METHODS[name], share=0.3)
    values = {**first_values(method, 8), "item_weight": torch.ones(8, dtype=WIDE)}
    data = client([4, 1, 6, 1])
    received = method.broadcast(values, torch.tensor(0))
    squares = [
        square_of(method, method.update(received, {}, data, number)[1], data, 8)
        for number in range(1, 2 + method.parts)
    ]
    assert sum(squares) == pytest.approx(1.0)
    assert squares[1:] == pytest.approx([0.7 / method.parts] * method.parts)


# The noise, and what is promised.


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_promise_is_that_of_one_release(name: str) -> None:
    algorithm = METHODS[name].algorithm(Task(20, 30, releases=1 + METHODS[name].parts))
    assert algorithm.protection is not None
    assert algorithm.protection.noise == pytest.approx(REQUEST.noise(1.0, releases=1))
    found = algorithm.guarantee(1 + METHODS[name].parts)
    assert found is not None
    assert (found.epsilon, found.bound) == (pytest.approx(8.0), 1.0)
    assert algorithm.guarantee(0) is None


def test_a_clip_of_single_uploads_counts_every_one_of_them() -> None:
    method = PrivatePairs(privacy=PrivacyRequest(epsilon=8.0, clip=0.5))
    algorithm = method.algorithm(Task(20, 30, releases=2))
    assert algorithm.protection is not None
    assert algorithm.protection.noise == pytest.approx(REQUEST.noise(0.5, releases=2))
    assert algorithm.protection.noise == pytest.approx(method.noise_on_sums(1))
    found = algorithm.guarantee(2)
    assert found is not None
    assert found.epsilon == pytest.approx(8.0)


def totals(method: CountsFirst, view: TrainView, engine: Any) -> list[Params]:
    """The sums that the server's steps see."""
    seen: list[Params] = []

    algorithm = method.algorithm(Task.of(view, 1 + method.parts))
    real = type(algorithm).step

    def step(self: Any, server: Any, total: Any, round_number: int) -> Any:
        seen.append({name: torch.from_numpy(np.array(v)) for name, v in total.sums.items()})
        return real(self, server, total, round_number)

    watched = type("Watching", (type(algorithm),), {"step": step})
    other = watched(algorithm.method, algorithm.task)
    state = engine.start(other, view, seed=3)
    for _ in range(1 + method.parts):
        engine.round(other, view, state, everybody(view), seed=3)
    return seen


@pytest.mark.parametrize("view", ["secure_sum", "local"])
def test_noise_on_both_parts_is_the_one_that_is_claimed(view: Any) -> None:
    """Independent, of one standard deviation, on every entry; the server knows it."""
    data = split_dataset(ragged(n_users=20, n_items=60), CLEAN).train
    request = PrivacyRequest(epsilon=8.0, view=view)
    method = PrivatePairs(privacy=request, share=0.2, **ALL_HEARD)
    noisy = totals(method, data, CustomEngine(WIDE))
    quiet = totals(replace(method, privacy=None), data, CustomEngine(WIDE))
    clients = len(everybody(data).user_P)
    claimed = request.noise(1.0, releases=1) * (clients**0.5 if view == "local" else 1.0)
    assert method.noise_on_sums(clients) == pytest.approx(claimed)
    table = (noisy[1]["pairs"] - quiet[1]["pairs"]) / claimed
    assert float(table.std()) == pytest.approx(1.0, rel=4 / 60)
    both = torch.stack((table.triu(1).flatten(), table.T.triu(1).flatten()))
    assert abs(float(torch.corrcoef(both)[0, 1])) < 4 / 60  # the two triangles are drawn apart
    counts = (noisy[0]["counts"] - quiet[0]["counts"]) / claimed
    assert float(counts.std()) == pytest.approx(1.0, abs=0.4)


# All paths.


@pytest.mark.parametrize("name", sorted(METHODS))
def test_loop_blocks_and_ragged_batches_agree(name: str) -> None:
    data = split_dataset(ragged(), CLEAN).train
    method = replace(METHODS[name], cut=0.0)  # so few clients are hardly heard otherwise
    alone, *others = (
        custom_trace(method, data, engine, rounds=1 + method.parts)  # type: ignore[arg-type]
        for engine in (LoopEngine(WIDE), CustomEngine(WIDE, block=5), CustomEngine(WIDE))
    )
    assert alone.change("item_weight") > 0
    for other in others:
        for parameter, value in alone.end.items():
            assert same_to(value, other.end[parameter], 1e-10 * max(1.0, alone.change(parameter)))


def test_ragged_scores_are_those_of_one_client_after_another() -> None:
    data = split_dataset(ragged(), CLEAN).train
    method = replace(METHODS["all"], cut=0.0)
    state = custom_trace(method, data, CustomEngine(WIDE), rounds=2).state
    algorithm, users = method.algorithm(Task.of(data, 2)), np.arange(data.n_users)
    one, together = (CustomScorer(algorithm, data, state, block)(users) for block in (1, 64))
    assert np.abs(one - together).max() <= 1e-10 * np.abs(one).max()
    assert np.abs(one).max() > 0


# By hand.


def test_two_items_in_both_parts_by_hand() -> None:
    """x = (1, 1, 0): counts sqrt(.2) / sqrt(2) each. One pair at distance 1, gain 1: as a symmetric
    table both entries are sqrt(.8) / sqrt(2), and the server finds 1 again."""
    method = PrivatePairs(share=0.2, **ALL_HEARD)
    view = view_of([0, 1], n_items=3)
    counts, pairs = totals(method, view, LoopEngine(WIDE))
    assert counts["counts"].tolist() == pytest.approx([math.sqrt(0.1), math.sqrt(0.1), 0.0])
    half = math.sqrt(0.4)
    assert pairs["pairs"].tolist() == [
        pytest.approx([0.0, half, 0.0]),
        pytest.approx([half, 0.0, 0.0]),
        pytest.approx([0.0, 0.0, 0.0]),
    ]
    shared = {"counts": torch.ones(3), "item_weight": torch.ones(3)}
    found = method.step(shared, pairs, 1, 2)["pairs"]
    assert found.flatten().tolist() == pytest.approx([0, 1, 0, 1, 0, 0, 0, 0, 0])


def test_the_weights_and_the_cut_by_hand() -> None:
    """Counts of 9, 4 and 1 in units of their noise: a cut of 3 leaves two. The floor is half of the
    mean, 7/3; the two lose one deviation of noise."""
    method = PrivatePairs(share=0.25, cut=3.0, item_power=0.5, privacy=REQUEST)
    noise = method.noise_on_sums(1)
    told = method.heard({}, torch.tensor([9.0, 4.0, 1.0], dtype=WIDE) * noise, 1)
    unit = 2 * noise  # sums hold half of a count: the root of its share
    assert (told["counts"] / unit).tolist() == pytest.approx([8.0, 3.0, 7 / 3])
    weights = [(7 / 3 / 8) ** 0.5, (7 / 3 / 3) ** 0.5, 0.0]
    assert told["item_weight"].tolist() == pytest.approx(weights)


def test_what_is_not_heard_is_not_ranked() -> None:
    """Rows and columns of such items would hold nothing but noise."""
    view = view_of(*([0, 1, 2] for _ in range(400)), [3, 0], n_items=5)
    method = PrivatePairs(privacy=REQUEST)
    engine = CustomEngine(WIDE)
    algorithm = method.algorithm(Task.of(view, 2))
    state = engine.start(algorithm, view, seed=0)
    for _ in range(2):
        engine.round(algorithm, view, state, everybody(view), seed=0)
    table = state.shared["pairs"]
    assert (table[:3, :3] - torch.diag(table.diagonal()[:3])).abs().min(dim=1).values.max() == 0
    assert table[:3, :3].sum() > 100
    assert not table[3:].any()
    assert not table[:, 3:].any()


def test_ease_of_a_quiet_release_is_ease_by_hand() -> None:
    """Two clients with items 0 and 1: G_ij / |triangle| sums to 2 / sqrt(3) everywhere."""
    method = PrivatePairs(near=False, ridge=4.0, share=0.5, **ALL_HEARD)
    view = view_of([0, 1], [0, 1], n_items=2)
    engine, algorithm = LoopEngine(WIDE), method.algorithm(Task.of(view, 2))
    state = engine.start(algorithm, view, seed=0)
    for _ in range(2):
        engine.round(algorithm, view, state, everybody(view), seed=0)
    # without noise the ridge is 0.3 of the diagonal: P = (G + .3 d I)^-1, -P_01 / P_11 = 1 / 1.3
    assert state.shared["pairs"].tolist() == [
        pytest.approx([0.0, 1 / 1.3]),
        pytest.approx([1 / 1.3, 0.0]),
    ]


def test_one_step_of_als_by_hand() -> None:
    """One client, one item, width 1: u is brought to 1, so b = 1 and A = u u^T = 1."""
    method = DpAls(dim=1, iterations=1, share=0.5, user_ridge=0.5, background=2.0, **ALL_HEARD)
    shared = {
        "counts": torch.ones(2, dtype=WIDE),
        "item_weight": torch.ones(2, dtype=WIDE),
        "items": torch.tensor([[3.0], [1.0]], dtype=WIDE),
    }
    data = client([0])
    # (2 (9 + 1) + 9 + .5) u = 3
    assert method.solve(shared["items"], data).item() == pytest.approx(3 / 29.5)
    _, sent = method.update(shared, {}, data, 2)
    assert sent["gram"].item() == pytest.approx(math.sqrt(0.5 * 0.1))
    assert sent["right"].item() == pytest.approx(math.sqrt(0.5 * 0.9))
    total = {"gram": sent["gram"], "right": torch.cat((sent["right"], torch.zeros(1, 1)))}
    after = method.step(shared, total, 1, 2)
    # all items share 2 * (1 client / 2 counts) * 1 + .5; rows are brought to a mean norm of 1
    assert after["items"].flatten().tolist() == pytest.approx([2.0, 0.0])


def test_features_begin_the_rows_and_draw_them() -> None:
    data = split_dataset(with_content(ragged()), CLEAN).train
    plain, public = DpAls(dim=3), DpAls(dim=3, content=Features())
    assert public.ranks_unseen
    assert not plain.ranks_unseen
    task = Task.of(data, 3)
    engine = CustomEngine(WIDE)
    ends = []
    for method in (plain, public):
        algorithm = method.algorithm(task)
        state = engine.start(algorithm, data, seed=0)
        for _ in range(3):
            engine.round(algorithm, data, state, everybody(data), seed=0)
        ends.append(state.shared)
    assert ends[1]["features"].any()
    assert not torch.allclose(ends[0]["items"], ends[1]["items"])
    assert "features" not in public.broadcast(ends[1], torch.tensor(0))


# Without a claim nothing changes, and under one the settings are fixed.


def test_a_claim_takes_fixed_settings_and_nothing_else_changes() -> None:
    assert isinstance(private(FedNext()), PrivatePairs)
    assert isinstance(private(FedEase()), PrivatePairs)
    assert isinstance(private(FedSpectral()), PrivateSpectrum)
    assert isinstance(private(FedNext(width=5)), FedNext)
    for method in (FedNext(), FedEase(), FedSpectral(), DpAls(), FedPop()):
        claimed = [private(method, epsilon=epsilon) for epsilon in (8.0, 1.0)]
        assert claimed[0].settings_tried == 1
        assert replace(claimed[0], privacy=None) == replace(claimed[1], privacy=None)


def test_the_share_of_the_counts_is_a_rule_of_public_sizes() -> None:
    method = PrivatePairs(privacy=PrivacyRequest(epsilon=2.0))
    algorithm = method.algorithm(Task(n_users=100, n_items=150, releases=2))
    noise = PrivacyRequest(epsilon=2.0).noise(1.0, 1)
    assert algorithm.method.share == share_for(noise, 100, 150) == pytest.approx(0.045 * noise)


def test_bytes_count_both_parts() -> None:
    data = split_dataset(ragged(n_users=9, n_items=24), CLEAN).train
    experiment = resolve("fednext", plugins=["private"], data="planted")
    trainer = Trainer(experiment, data)
    for _ in range(2):
        trainer.run_round()
    cost = trainer.cost(2)
    table, row = 4 * 24 * 24, 4 * 24
    assert cost["bytes_up"] == table + row
    down = table + row  # item weights and the table to rank with
    assert cost["bytes_total_to_selected_round"] == 9 * (table + row) + 2 * 9 * down


def test_settings_that_make_no_sense_are_refused() -> None:
    for build in (
        lambda: PrivatePairs(share=0.0),
        lambda: PrivatePairs(last=0),
        lambda: PrivatePairs(past=0.0),
        lambda: PrivatePairs(ridge=0.0),
        lambda: PrivateSpectrum(width=0),
        lambda: DpAls(dim=0),
        lambda: DpAls(user_ridge=0.0),
        lambda: DpAls(own_share=1.0),
    ):
        with pytest.raises(TacitError):
            build()


def test_private_popularity_by_hand() -> None:
    """Rows of 1 and of 4 items: x / |x| counts 1 and 1/2 for each item."""
    view = view_of([2], [0, 1, 2, 3], n_items=5)
    engine, algorithm = LoopEngine(WIDE), FedPop(scale="norm").algorithm(Task.of(view))
    state = engine.start(algorithm, view, seed=0)
    engine.round(algorithm, view, state, everybody(view), seed=0)
    assert state.shared["counts"].tolist() == [0.5, 0.5, 1.5, 0.5, 0.0]


# What was set on the method whose place a recipe takes.

OTHER: dict[str, Any] = {  # for fields of which a default tells no other value
    "recency": Recency(2.0),
    "width": 3,
    "content": {"fednext": Ridge(), "dpals": Features(), "fedease": Features()},
    "share": 0.3,
    "last": 3,
}


def others_than(method: str, name: str, value: Any, hint: Any) -> list[Any]:
    """Values of a field that are not its default."""
    choices = [one for one in get_args(hint) if isinstance(one, str)]
    if choices:
        return [one for one in choices if one != value]
    if value is None:
        found = OTHER[name]
        return [found[method]] if isinstance(found, dict) else [found]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, tuple):
        return [value[:1] * 2, tuple(others_than(method, name, value[0], hint)[:1])]
    if isinstance(value, Adam):
        return [replace(value, rate=2 * value.rate)]
    if isinstance(value, Sampling):
        return [replace(value, negatives=1 + value.negatives)]
    assert isinstance(value, int | float), f"say another value of {name}"
    return [value + 1 if value else 0.5]


def claiming() -> list[str]:
    built = {name: entry.method() for name, entry in LISTED.items()}
    return [
        name
        for name, method in built.items()
        if isinstance(method, CustomMethod) and can_claim(method)
    ]


def kept_under_a_claim(method: CustomMethod, name: str, selection: Any) -> tuple[Any, str]:
    """The value of a field under a claim, or a refusal."""
    try:
        return getattr(private(method, selection=selection), name), ""
    except TacitError as error:
        return None, str(error)


@pytest.mark.parametrize("name", claiming())
@pytest.mark.parametrize("selection", ["last", "uncovered"])
def test_no_setting_is_dropped_in_silence(name: str, selection: Any) -> None:
    """Each field of each method that can claim, set to another value: it is there under the claim,
    or a sentence names it."""
    method = LISTED[name].method()
    hints, looked_at = get_type_hints(type(method)), 0
    for field in fields(method):  # type: ignore[arg-type]
        if field.name == "privacy":
            continue
        for value in others_than(name, field.name, getattr(method, field.name), hints[field.name]):
            try:
                changed = replace(method, **{field.name: value})  # type: ignore[type-var]
            except TacitError:
                continue  # not by itself
            looked_at += 1
            kept, said = kept_under_a_claim(changed, field.name, selection)
            refused = rf"{field.name} of {name} is .* has no meaning under private; leave it out\."
            assert kept == value or re.fullmatch(refused, said)
    assert looked_at >= len(fields(method)) - 2  # type: ignore[arg-type]


def test_what_a_recipe_has_too_is_kept() -> None:
    assert private(FedSpectral(width=7)).width == 7
    assert private(FedSpectral()).width == PrivateSpectrum().width
    near = private(FedNext(past=5.0, horizon=3))
    assert (near.past, near.horizon, near.recency) == (5.0, 3, PRIVATE_RECENCY)
    assert private(FedEase(recency=Recency(3.0))).recency == Recency(3.0)
    saved = loads(dumps(resolve("fedease", sets=["ridges=[5.0]"])))
    with pytest.raises(TacitError, match=r"ridges of fedease is \(5.0,\), which has no meaning"):
        override(saved, plugins=["private"])


def test_a_grid_that_somebody_set_is_not_cut_to_its_first_value() -> None:
    """A preset's is, since nobody chose it for a claim."""
    assert private(FedNext(learns="ridge", ridges=(4.0, 5.0))).ridges == (4.0, 5.0)
    assert private(FedNext(learns="ridge")).ridges == FedNext().ridges[:1]
    assert private(LISTED["fednext"].method("ridge")).half_lives == (2.8,)
    kept = private(FedNext(learns="ridge"), selection="uncovered")
    assert kept.ridges == FedNext().ridges
    with pytest.raises(TacitError, match="scale of fednext is 'length'"):
        private(FedNext(learns="ridge", scale="length"))
