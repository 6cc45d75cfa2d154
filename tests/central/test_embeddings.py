"""Triples, and what all models of vectors share: epochs, scores, newcomers, content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tacit import streams
from tacit.central.embeddings import EmbeddingModel
from tacit.central.multimodal import ContentModel
from tacit.central.samples import draw_triples, once
from tacit.core.optim import Adam, Sgd, without_optimizer_state
from tacit.core.types import Task
from tacit.data.dataset import Modalities
from tacit.data.protocol import CLEAN
from tacit.data.sampling import Sampling, draw_samples
from tacit.data.split import split_dataset
from tacit.data.views import History
from tacit.engines.select import runs_on_gpu
from tacit.errors import TacitError
from tacit.methods import Bm3, LightGcn, Mgcn, Pgl, Vbpr
from tacit.testing.synthetic import checkerboard, ragged, with_content

WIDE = torch.float64
TRAIN = split_dataset(with_content(ragged()), CLEAN).train
EVERYBODY = np.arange(TRAIN.n_users)
QUICK = Adam(rate=0.01, lifetime="persistent")
MODELS: dict[str, ContentModel[Any]] = {
    "vbpr": Vbpr(dim=4, batch=64, optimiser=QUICK),
    "vbpr with biases": Vbpr(dim=4, batch=64, optimiser=QUICK, biases=True, penalised="squares"),
    "bm3": Bm3(dim=4, batch=64, optimiser=QUICK),
    "mgcn": Mgcn(dim=4, batch=64, optimiser=QUICK),
    "pgl": Pgl(dim=4, batch=64, optimiser=QUICK),
    "pgl with a contrast": Pgl(dim=4, batch=64, optimiser=QUICK, contrast_weight=0.1),
    "pgl, global": Pgl(dim=4, batch=64, optimiser=QUICK, principal="global"),
}
each_model = pytest.mark.parametrize("name", MODELS)
ON_GPU: dict[str, EmbeddingModel[Any]] = {
    **MODELS,
    "lightgcn": LightGcn(dim=4, batch=64, optimiser=QUICK),
}


def test_triples_are_those_of_federated_clients() -> None:
    drawn = draw_triples(TRAIN, Sampling(negatives=2), seed=3, number=2)
    found = sorted(zip(drawn.user_N, drawn.positive_N, drawn.negative_N, strict=True))
    expected = []
    for user in range(TRAIN.n_users):
        item_N, label_N = draw_samples(
            TRAIN, user, Sampling(negatives=2), seed=3, round_number=2, epoch=0
        )
        expected += [(user, item) for item in item_N[label_N == 0]]
    assert sorted((user, negative) for user, _, negative in found) == sorted(expected)
    every = sorted(zip(TRAIN.positives.list_N, TRAIN.positives.item_N, strict=True))
    assert sorted({(user, positive) for user, positive, _ in found}) == every
    assert len(drawn) == 2 * len(every)
    assert drawn.user_N.tolist() != sorted(drawn.user_N)  # shuffled
    alone = draw_triples(TRAIN, None, seed=3, number=2)
    assert sorted(zip(alone.user_N, alone.positive_N, strict=True)) == every
    assert (alone.negative_N == -1).all()


def test_a_part_of_a_batch_is_that_of_its_samples() -> None:
    drawn, cpu = draw_triples(TRAIN, Sampling(negatives=1), seed=3, number=2), torch.device("cpu")
    part = drawn.take(0, len(drawn), cpu).part(5, 9)
    assert len(part) == 4
    columns = (part.user_B, part.positive_B, part.negative_B)
    for found_B, column_N in zip(columns, drawn.part(5, 9).arrays, strict=True):
        assert found_B.tolist() == column_N.tolist()


def test_on_a_gpu_no_batch_waits_until_its_rows_are_counted() -> None:
    """On the device of torch that has shapes and no numbers: to count there is an error."""
    row_B = torch.tensor([7, 3, 7])
    row_R, place_B = once(row_B)
    assert torch.equal(row_R[place_B], row_B)
    assert len(row_R) == 2
    there_R, place_there_B = once(row_B.to("meta"))
    assert (there_R.shape, place_there_B.shape) == ((3,), (3,))


@each_model
def test_an_epoch_is_autograd_and_torchs_own_adam(name: str) -> None:
    """Batch after batch, with all rows of all tables; dropout is drawn alike."""
    model = MODELS[name]
    parameters = model.start(TRAIN, 1, WIDE)
    values = {
        key: value.clone().requires_grad_()
        for key, value in without_optimizer_state(parameters).items()
    }
    adam = torch.optim.Adam(list(values.values()), lr=0.01)
    for number in (1, 2):
        parameters, loss = model.epoch(parameters, TRAIN, 1, number)
        known = model.in_epoch(model.known(TRAIN, WIDE, torch.device("cpu")), 1, number)
        triples = draw_triples(TRAIN, model.sampling, seed=1, number=number)
        generator, total = streams.numpy_generator(1, streams.NETWORK_DROPOUT, number), 0.0
        for low in range(0, len(triples), 64):
            batch = triples.take(low, low + 64, torch.device("cpu"))
            adam.zero_grad()
            mean = model.batch_loss(values, known, batch, generator)
            mean.backward()
            adam.step()
            total += mean.item() * len(batch)
        assert loss == pytest.approx(total / len(triples), rel=1e-9)
    for key, value in values.items():
        assert torch.allclose(parameters[key], value.detach(), rtol=0, atol=1e-9), key


@pytest.mark.parametrize("name", ON_GPU)
def test_all_say_that_they_run_on_a_gpu(name: str) -> None:
    assert runs_on_gpu(ON_GPU[name].algorithm(Task.of(TRAIN)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", ON_GPU)
def test_a_gpu_gives_the_same_numbers(name: str) -> None:
    model = ON_GPU[name]
    start, scores, losses = model.start(TRAIN, 0, WIDE), [], []
    for device in ("cpu", "cuda"):
        parameters = {key: value.to(device) for key, value in start.items()}
        for number in (1, 2):
            parameters, loss = model.epoch(parameters, TRAIN, 0, number)
        assert all(value.device.type == device for value in parameters.values())
        scores.append(model.score(parameters, [], EVERYBODY))
        losses.append(loss)
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert np.allclose(*scores, rtol=1e-6, atol=1e-6)


@each_model
def test_scores_are_made_of_the_whole_graph(name: str) -> None:
    model = MODELS[name]
    parameters, _ = model.epoch(model.start(TRAIN, 0, WIDE), TRAIN, 0, 1)
    made = model.embeddings(
        without_optimizer_state(parameters), model.known(TRAIN, WIDE, torch.device("cpu"))
    )
    expected_UI = made.user_UD @ made.item_ID.T
    if made.bias_I is not None:
        expected_UI = expected_UI + made.bias_I
        assert made.bias_I.abs().max() > 0
    assert np.allclose(model.score(parameters, [], EVERYBODY), expected_UI.numpy())


@each_model
def test_an_epoch_changes_nothing_that_came_in_and_says_the_same_again(name: str) -> None:
    model = MODELS[name]
    before = model.start(TRAIN, 0, WIDE)
    kept = {key: value.clone() for key, value in before.items()}
    one, two = (model.epoch(before, TRAIN, 0, 1) for _ in range(2))
    assert one[1] == two[1]
    assert all(torch.equal(before[key], value) for key, value in kept.items())
    assert all(torch.equal(one[0][key], value) for key, value in two[0].items())
    other, _ = model.epoch(before, TRAIN, 0, 2)
    assert not torch.equal(one[0]["user"], other["user"])


@each_model
def test_whoever_joins_later_is_ranked_for_by_their_items(name: str) -> None:
    """On the checkerboard, items of the newcomer's own colour come first."""
    dataset = with_content(checkerboard())
    train = split_dataset(dataset, CLEAN).train
    model = replace(MODELS[name], dim=16, batch=256, optimiser=replace(QUICK, rate=0.03))
    parameters = model.start(train, 0)
    for number in range(1, 21):
        parameters, _ = model.epoch(parameters, train, 0, number)
    history = train.history(0)
    score_I = model.score_newcomer(parameters, history, name=9, seed=0, epochs=30)
    again_I = model.score_newcomer(parameters, history, name=9, seed=0, epochs=30)
    assert np.array_equal(score_I, again_I)
    own = set(history.item_H.tolist())
    known_I = model.score(parameters, [history], np.array([0]))[0]
    others = [item for item in range(train.n_items) if item not in own]
    best = sorted(others, key=lambda item: -known_I[item])[0]
    assert best in sorted(others, key=lambda item: -score_I[item])[: len(others) // 4]
    empty_I = model.score_newcomer(
        parameters, History(np.zeros(0, np.int64)), name=9, seed=0, epochs=3
    )
    assert np.isfinite(empty_I).all()


@each_model
def test_rates_decay_and_other_optimisers_are_taken(name: str) -> None:
    plain = MODELS[name]
    scores = []
    for optimiser in (QUICK, replace(QUICK, decay=0.5), replace(QUICK, lifetime="round"), Sgd(0.5)):
        model = replace(plain, optimiser=optimiser)
        parameters = model.start(TRAIN, 0, WIDE)
        for number in (1, 2):
            parameters, _ = model.epoch(parameters, TRAIN, 0, number)
        scores.append(model.score(parameters, [], EVERYBODY))
    for other in scores[1:]:
        assert not np.allclose(scores[0], other, rtol=1e-6, atol=1e-9)


@each_model
def test_content_is_read_and_data_without_it_refused(name: str) -> None:
    model = MODELS[name]
    turned = Modalities(
        {key: replace(table, value_IF=-table.value_IF) for key, table in TRAIN.content.items()}
    )
    scores = []
    for train in (TRAIN, replace(TRAIN, content=turned)):
        parameters, _ = model.epoch(model.start(train, 0, WIDE), train, 0, 1)
        scores.append(model.score(parameters, [], EVERYBODY))
    assert not np.allclose(*scores)
    only = Modalities({"text": TRAIN.content["text"]})
    expected = (
        f"{name.split()[0].rstrip(',')} reads content, and this data has none called 'image' "
        r"\(it has: text\); make it with `tacit encode`"
    )
    with pytest.raises(TacitError, match=expected):
        model.start(replace(TRAIN, content=only), 0)
    with pytest.raises(TacitError, match=r"none called 'text' \(it has: none\)"):
        model.start(replace(TRAIN, content=Modalities()), 0)


def test_a_row_without_content_gets_the_mean_of_the_others() -> None:
    image = TRAIN.content["image"]
    mean_F = image.value_IF[image.present_I].mean(axis=0)
    for missing, row_F in (("mean", mean_F), ("zero", np.zeros(4))):
        found_IF = Vbpr(missing=missing).content(TRAIN)["content.image"]  # type: ignore[arg-type]
        assert np.allclose(found_IF[~image.present_I], row_F)
        assert np.array_equal(found_IF[image.present_I], image.value_IF[image.present_I])


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (Vbpr, {"dim": 0}, "dim is 0; it must be at least 1"),
        (Vbpr, {"batch": 0}, "batch is 0; it must be at least 1"),
        (Vbpr, {"penalty": -1.0}, "penalty is -1.0; it must be at least 0"),
        (Vbpr, {"penalised": "sum"}, "penalised is 'sum'; use norms or squares"),
        (Vbpr, {"modalities": ()}, r"modalities are \[\]; name at least one"),
        (Vbpr, {"missing": "none"}, "missing is 'none'; use mean or zero"),
        (Bm3, {"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
        (Bm3, {"layers": 0}, "layers is 0; it must be at least 1"),
        (Bm3, {"modality_weight": float("nan")}, "modality_weight is nan; it must be at least 0"),
        (Mgcn, {"neighbours": 0}, "neighbours is 0; it must be at least 1"),
        (Mgcn, {"contrast_weight": -0.1}, "contrast_weight is -0.1"),
        (Pgl, {"share": 0.0}, "share is 0.0; it must be above 0 and at most 1"),
        (Pgl, {"neighbours": 0}, "neighbours is 0; it must be at least 1"),
        (Pgl, {"principal": "all"}, "principal is 'all'; use local or global"),
        (Pgl, {"modalities": ("text",)}, "modality_weights are .* give one for each of text"),
    ],
)
def test_settings_without_sense_are_refused(kind: Any, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(TacitError, match=said):
        kind(**wrong)
