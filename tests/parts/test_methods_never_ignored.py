"""Custom algorithms, central ones and generators: a subclass is never ignored.

Ragged kernels, kernels of epochs and steps in place say a method's functions once more, for speed;
a subclass that overrides the functions must not run the kernels of its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from tacit.central.embeddings import EmbeddingModel, Embeddings
from tacit.central.pairs import PairModel
from tacit.central.sequences import SequenceModel
from tacit.central.training import RowModel
from tacit.core.algorithm import ClientData
from tacit.core.optim import Adam, Momentum, Sgd
from tacit.core.registry import PARTS
from tacit.core.types import Params, Task
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.data.views import History
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods.aldi import Aldi
from tacit.methods.bm3 import Bm3
from tacit.methods.central_trained import Mf, Ncf, NeuMf
from tacit.methods.cold_start import cold_pfedrec
from tacit.methods.content_references import ContentReference, RanksByVectors
from tacit.methods.cs_diffrec import CsDiffRec
from tacit.methods.feddae import FedDAE
from tacit.methods.fedpergnn import FedPerGNN
from tacit.methods.gar import Gar
from tacit.methods.heater import Heater
from tacit.methods.metamf import MetaMF
from tacit.methods.mgcn import Mgcn
from tacit.methods.pgl import Pgl
from tacit.methods.sequence_models import Gru4Rec, SasRec
from tacit.methods.vbpr import Vbpr
from tacit.parts.cold.diffusion import Corrected, Diffusion
from tacit.parts.cold.features import Features
from tacit.testing.custom_tests import custom_trace
from tacit.testing.paths import small_train
from tacit.testing.play import Trace, same_to
from tacit.testing.synthetic import ragged, with_content

WIDE = torch.float64
TRAIN = small_train(content=True)
EVERYBODY = np.arange(TRAIN.n_users)

CUSTOM: dict[str, Any] = {
    "fedspectral": PARTS["fedspectral"](width=2),
    "fedease": PARTS["fedease"](),
    "fedslim": PARTS["fedslim"](),
    "fedmix": PARTS["fedmix"](),
    "fednext": PARTS["fednext"](),
    "fcf_als": PARTS["fcf_als"](dim=3),
    "fedpop": PARTS["fedpop"](),
    "dpals": PARTS["dpals"](),
    "private_pairs": PARTS["private_pairs"](),
    "private_spectrum": PARTS["private_spectrum"](),
    "feddae": FedDAE(hidden=3, latent=2, gate=2, epochs=2),
    "metamf": MetaMF(dim=3, left=2, predictor=2, user_width=2, memory=3, hidden=4),
    "fedpergnn": FedPerGNN(dim=3, neighbours=2, hidden=2),
}


def overriding(part: Any, **behaviours: Callable[..., Any]) -> Any:
    parent = type(part)
    changed = type(f"Other{parent.__name__}", (parent,), behaviours)
    return changed(**{field.name: getattr(part, field.name) for field in fields(part)})


def louder(method: Any) -> Any:
    """Who has the longer history says more."""
    parent = type(method)

    def update(
        self: Any, received: Params, private: Params, data: ClientData, number: int
    ) -> tuple[Params, Params]:
        kept, upload = parent.update(self, received, private, data, number)
        return kept, {name: value * (1 + 0.1 * data.real_H.sum()) for name, value in upload.items()}

    return overriding(method, update=update)


def shifted(method: Any) -> Any:
    parent = type(method)

    def score(self: Any, received: Params, private: Params, data: ClientData) -> torch.Tensor:
        logit_I = parent.score(self, received, private, data)
        return logit_I + torch.arange(len(logit_I)).to(logit_I)

    return overriding(method, score=score)


def absorbing(method: Any) -> Any:
    parent = type(method)

    def absorb(self: Any, shared: Params, user: torch.Tensor, upload: Params) -> Params:
        absorbed = parent.absorb(self, shared, user, upload)
        return {name: (1 + 0.1 * user) * value for name, value in absorbed.items()}

    return overriding(method, absorb=absorb)


def stepping(method: Any) -> Any:
    parent = type(method)

    def step(self: Any, shared: Params, total: Params, n_clients: int, number: int) -> Params:
        after = parent.step(self, shared, total, n_clients, number)
        return {name: 0.9 * value for name, value in after.items()}

    return overriding(method, step=step)


def same(one: Trace, two: Trace) -> bool:
    return all(
        same_to(value, two.end[name], 1e-9 * max(1.0, one.change(name)))
        for name, value in one.end.items()
    )


@pytest.mark.parametrize("change", [louder, shifted, absorbing, stepping])
@pytest.mark.parametrize("name", CUSTOM)
def test_a_subclass_runs_no_ragged_kernel(name: str, change: Callable[[Any], Any]) -> None:
    other = change(CUSTOM[name])
    alone = custom_trace(other, TRAIN, CustomEngine(WIDE, block=1), rounds=2)
    found = custom_trace(other, TRAIN, CustomEngine(WIDE), rounds=2)
    assert same(alone, found)
    scores = [
        CustomScorer(other.algorithm(Task.of(TRAIN)), TRAIN, alone.state, block)(EVERYBODY)
        for block in (1, 64)
    ]
    assert np.abs(scores[0] - scores[1]).max() <= 1e-9 * max(1.0, np.abs(scores[0]).max())
    parent = custom_trace(CUSTOM[name], TRAIN, CustomEngine(WIDE, block=1), rounds=2)
    if change is shifted:
        plain = CustomScorer(CUSTOM[name].algorithm(Task.of(TRAIN)), TRAIN, parent.state, 1)(
            EVERYBODY
        )
        assert np.abs(scores[0] - plain).max() > 1
    else:
        assert not same(alone, parent)


def test_the_methods_themselves_do_meet_them_and_it_is_said() -> None:
    task = Task(TRAIN.n_users, TRAIN.n_items)
    for name in ("fednext", "fcf_als", "feddae", "metamf", "fedpergnn"):
        kind = type(CUSTOM[name]).__name__
        said = CustomEngine().describe(CUSTOM[name].algorithm(task)).text
        assert said == f"custom: ragged kernels of {kind}, all clients together on cpu"
        other = CustomEngine().describe(louder(CUSTOM[name]).algorithm(task)).text
        assert other.startswith("custom: blocks of")
        assert f"(Other{kind} has other functions" in other
    assert CUSTOM["feddae"].algorithm(Task.of(TRAIN)).history_parameters
    assert (
        not shifted(CUSTOM["feddae"]).algorithm(Task.of(TRAIN)).history_parameters
    )  # it may read any row


def doubled(self: Adam, value: Any, gradient: Any, state: Params, rate: float) -> Any:
    stepped, state = Adam.update(self, value, gradient, state, rate)
    return value + 2 * (stepped - value), state


@pytest.mark.parametrize("field", ["local", "server"])
@pytest.mark.parametrize("name", ["feddae", "metamf", "fedpergnn", "fcf_als"])
def test_an_optimiser_of_a_method_is_never_ignored(name: str, field: str) -> None:
    plain = CUSTOM[name]
    if not hasattr(plain, field):
        return
    other = replace(plain, **{field: overriding(getattr(plain, field), update=doubled)})
    alone, found = (custom_trace(other, TRAIN, CustomEngine(WIDE, b), rounds=2) for b in (1, None))
    assert same(alone, found)
    assert not same(alone, custom_trace(plain, TRAIN, CustomEngine(WIDE, 1), rounds=2))


PAIRS: dict[str, PairModel] = {
    "mf": Mf(dim=3, batch=16),
    "ncf": Ncf(dim=3, batch=16, layers=(3, 2)),
    "neumf": NeuMf(dim=3, batch=16, layers=(3, 2), product=2),
}


def squared(model: Any) -> dict[str, Any]:
    parent = type(model)

    def logit(self: Any, p: Params) -> torch.Tensor:
        item = next(iter(self.item_tables()))
        found: torch.Tensor = parent.logit(self, p) + p[item].square().sum(-1) - 0.5
        return found

    return {"logit": logit}


def played(model: PairModel, epochs: int = 2) -> tuple[Params, np.ndarray]:
    parameters = model.start(TRAIN, 0, WIDE)
    for number in range(1, epochs + 1):
        parameters, _ = model.epoch(parameters, TRAIN, 0, number)
    return parameters, model.score(parameters, [], EVERYBODY)


@pytest.mark.parametrize("name", PAIRS)
def test_a_logit_of_a_subclass_is_trained_and_ranked(name: str) -> None:
    model = PAIRS[name]
    written = {"descend": RowModel.descend, "score_rows": PairModel.score_rows}
    parameters, scores = played(overriding(model, **squared(model)))
    expected, expected_scores = played(overriding(model, **squared(model), **written))
    for parameter, value in expected.items():
        assert torch.allclose(parameters[parameter], value, rtol=1e-9, atol=1e-12), parameter
    assert np.allclose(scores, expected_scores, rtol=1e-9, atol=1e-12)
    assert np.abs(scores - played(model)[1]).max() > 0.1


@pytest.mark.parametrize("optimiser", [Adam(0.01, lifetime="persistent"), Sgd(1.0)])
@pytest.mark.parametrize("name", PAIRS)
def test_an_optimiser_of_a_central_model_is_never_ignored(name: str, optimiser: Any) -> None:
    """A subclass that changes nothing gives the kernels' numbers; one that does gives others."""
    plain = replace(PAIRS[name], optimiser=optimiser)
    again = replace(plain, optimiser=overriding(optimiser))
    (parameters, scores), (found, found_scores) = played(plain), played(again)
    assert plain.kernel is not None
    assert again.kernel is None
    for parameter, value in parameters.items():
        assert torch.allclose(found[parameter], value, rtol=1e-7, atol=1e-10), parameter
    assert np.allclose(scores, found_scores, rtol=1e-7, atol=1e-10)
    kind = type(optimiser)

    def update(self: Any, value: Any, gradient: Any, state: Params, rate: float) -> Any:
        stepped, state = kind.update(self, value, gradient, state, rate)
        return value + 2 * (stepped - value), state

    other = played(replace(plain, optimiser=overriding(optimiser, update=update)))
    assert not np.allclose(scores, other[1], rtol=1e-6, atol=1e-9)
    newcomer = [
        model.score_newcomer(parameters, History(np.array([1, 2])), name=5, seed=0, epochs=3)
        for model in (plain, again, replace(plain, optimiser=overriding(optimiser, update=update)))
    ]
    assert np.allclose(newcomer[0], newcomer[1], rtol=1e-7, atol=1e-10)
    assert not np.allclose(newcomer[0], newcomer[2], rtol=1e-6, atol=1e-9)


def test_a_central_trainer_says_its_kernel() -> None:
    said = []
    for model in (PAIRS["mf"], overriding(PAIRS["mf"]), PAIRS["ncf"]):
        trainer = Trainer(Experiment("test", model, 1), TRAIN, 1)
        assert isinstance(trainer, Trainer)
        said.append(trainer.describe().text.split("(")[1])
    assert said == ["mf kernel)", "batch after batch)", "tower kernel)"]


SEQUENCES: dict[str, SequenceModel] = {
    "sasrec": SasRec(dim=4, blocks=1, length=6, batch=8, dropout=0.2),
    "gru4rec": Gru4Rec(dim=4, length=6, batch=8, dropout=0.2),
}


def read_played(model: SequenceModel) -> np.ndarray:
    parameters = model.start(TRAIN, 0, WIDE)
    for number in (1, 2):
        parameters, _ = model.epoch(parameters, TRAIN, 0, number)
    histories = [TRAIN.history(int(user)) for user in EVERYBODY]
    return model.score(parameters, histories, EVERYBODY)


@pytest.mark.parametrize("name", SEQUENCES)
def test_states_and_optimisers_of_a_sequence_model_are_never_ignored(name: str) -> None:
    plain = SEQUENCES[name]
    parent, adam = type(plain), plain.optimiser

    def states(self: Any, p: Params, read: Any, dropout: Any) -> torch.Tensor:
        found: torch.Tensor = 1.5 * parent.states(self, p, read, dropout)
        return found

    scores = read_played(plain)
    assert np.allclose(scores, read_played(overriding(plain)), rtol=1e-12, atol=1e-12)
    for other in (
        overriding(plain, states=states),
        replace(plain, optimiser=overriding(adam, update=doubled)),
        replace(plain, optimiser=Sgd(0.1)),
        replace(plain, optimiser=replace(adam, lifetime="round")),
        replace(plain, loss="softmax"),
        replace(plain, dropout=0.0),
    ):
        assert not np.allclose(scores, read_played(other), rtol=1e-6, atol=1e-9)


NARROW = {"factors": Mf(dim=3, batch=16), "factor_epochs": 1, "batch": 16}
REFERENCES: dict[str, ContentReference] = {
    "heater": Heater(**NARROW, experts=2, optimiser=Momentum(0.5)),  # type: ignore[arg-type]
    "gar": Gar(**NARROW, hidden=4),  # type: ignore[arg-type]
    "aldi": Aldi(**NARROW, hidden=4),  # type: ignore[arg-type]
}


def epochs_played(model: RanksByVectors | EmbeddingModel[Any]) -> np.ndarray:
    parameters = model.start(TRAIN, 0, WIDE)
    for number in (1, 2):
        parameters, _ = model.epoch(parameters, TRAIN, 0, number)
    return model.score(parameters, [], EVERYBODY)


VECTORS: dict[str, EmbeddingModel[Any]] = {
    "vbpr": Vbpr(dim=3, batch=16),
    "bm3": Bm3(dim=3, batch=16),
    "mgcn": Mgcn(dim=3, batch=16),
    "pgl": Pgl(dim=3, batch=16),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_losses_and_optimisers_of_a_model_are_never_ignored(name: str) -> None:
    plain = VECTORS[name]
    parent, adam = type(plain), plain.optimiser

    def embeddings(self: Any, p: Params, known: Any) -> Embeddings:
        made = parent.embeddings(self, p, known)
        return replace(made, item_ID=1.5 * made.item_ID)

    def batch_loss(self: Any, p: Params, known: Any, batch: Any, generator: Any) -> torch.Tensor:
        found: torch.Tensor = parent.batch_loss(self, p, known, batch, generator)
        return found + p["user"].square().sum()

    scores = epochs_played(plain)
    assert np.allclose(scores, epochs_played(overriding(plain)), rtol=1e-12, atol=1e-12)
    for other in (
        overriding(plain, embeddings=embeddings),
        overriding(plain, batch_loss=batch_loss),
        replace(plain, optimiser=overriding(adam, update=doubled)),
        replace(plain, missing="zero"),
    ):
        assert not np.allclose(scores, epochs_played(other), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", REFERENCES)
def test_vectors_factors_and_optimisers_of_a_reference_are_never_ignored(name: str) -> None:
    plain: Any = REFERENCES[name]
    parent = type(plain)

    def item_vectors(self: Any, p: Params, known: Any) -> torch.Tensor:
        found: torch.Tensor = 3.0 * parent.item_vectors(self, p, known)
        return found

    scores = epochs_played(plain)
    assert np.allclose(scores, epochs_played(overriding(plain)), rtol=1e-12, atol=1e-12)
    thrice = epochs_played(overriding(plain, item_vectors=item_vectors))
    assert np.allclose(thrice, 3.0 * scores, rtol=1e-9, atol=1e-12)
    kind = type(plain.optimiser)

    def update(self: Any, value: Any, gradient: Any, state: Params, rate: float) -> Any:
        stepped, state = kind.update(self, value, gradient, state, rate)
        return value + 2 * (stepped - value), state

    for other in (
        replace(plain, optimiser=overriding(plain.optimiser, update=update)),
        replace(plain, factors=overriding(plain.factors, **squared(plain.factors))),
        replace(plain, features=Features(kind="zero")),
        replace(plain, factor_epochs=2),
    ):
        assert not np.allclose(scores, epochs_played(other), rtol=1e-6, atol=1e-9)


def test_states_noise_and_optimisers_of_cs_diffrec_are_never_ignored() -> None:
    plain: Any = CsDiffRec(hidden=5, content_width=3, batch=16, optimiser=Adam(0.01))

    def item_vectors(self: Any, *known: Any) -> torch.Tensor:
        found: torch.Tensor = 3.0 * CsDiffRec.item_vectors(self, *known)
        return found

    scores = epochs_played(plain)
    assert np.allclose(scores, epochs_played(overriding(plain)), rtol=1e-12, atol=1e-12)
    thrice = epochs_played(overriding(plain, item_vectors=item_vectors))
    assert np.allclose(thrice, 3.0 * scores, rtol=1e-9, atol=1e-12)
    for other in (
        replace(plain, optimiser=overriding(plain.optimiser, update=doubled)),
        replace(plain, loss="unweighted"),
        replace(plain, dropout=0.0),
        replace(plain, features=Features(kind="zero")),
        replace(plain, schedule=replace(plain.schedule, kind="cosine")),
    ):
        assert not np.allclose(scores, epochs_played(other), rtol=1e-6, atol=1e-9)
    train = split_dataset(with_content(ragged()), among_cold_items(CLEAN)).train
    by_start = []
    for start_from in ("gaussian", "matched"):
        model = replace(plain, start_from=start_from)
        by_start.append(model.epoch(model.start(train, 0, WIDE), train, 0, 1)[0]["ranked.items"])
    assert not torch.allclose(*by_start)


@pytest.mark.parametrize(
    "name",
    [
        *("popularity", "random", "unseen_first", "ease", "pure_svd", "mean_profile"),
        *("edlae", "slim", "markov", "slist"),
    ],
)
def test_a_fit_of_a_central_subclass_is_ranked(name: str) -> None:
    parent = PARTS[name]

    class Shifted:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def score(self, histories: list[History], key_B: np.ndarray) -> np.ndarray:
            found = np.asarray(self.inner.score(histories, key_B), dtype=float)
            return found - 7.0 * np.arange(found.shape[1])

    def fit(self: Any, train: Any, setting: int, seed: int) -> Shifted:
        return Shifted(parent.fit(self, train, setting, seed))

    found = []
    for method in (parent(), overriding(parent(), fit=fit)):
        trainer = Trainer(Experiment("test", method, 1), TRAIN, 1)
        trainer.run_round()
        found.append(np.asarray(trainer.scores()(EVERYBODY), dtype=float))
    gap = 7.0 * np.arange(TRAIN.n_items)
    assert np.allclose(found[0] - found[1], gap, rtol=1e-9, atol=1e-6)


GENERATORS: dict[str, Any] = {
    "diffusion": Diffusion(features=Features(modalities=("text",))),
    "corrected": Corrected(),
    **{name: PARTS[name]() for name in ("mapping", "ridge", "nearest", "random_rows", "no_row")},
}


@pytest.mark.parametrize("name", GENERATORS)
def test_rows_of_a_generating_subclass_are_ranked(name: str) -> None:
    parent = type(GENERATORS[name])

    def generate(self: Any, p: Params, feature_CF: Any, noise_CND: Any) -> torch.Tensor:
        found: torch.Tensor = parent.generate(self, p, feature_CF, noise_CND) + 0.5
        return found

    train = split_dataset(with_content(ragged()), among_cold_items(CLEAN)).train
    scores: dict[tuple[str, bool], np.ndarray] = {}
    for engine in ("auto", "loop"):
        for is_other in (False, True):
            made = GENERATORS[name]
            method = replace(
                cold_pfedrec(4), cold=overriding(made, generate=generate) if is_other else made
            )
            experiment = Experiment("test", method, 1, engine=engine, precision="float64")  # type: ignore[arg-type]
            trainer = Trainer(experiment, train, 1)
            trainer.run_round()
            scores[engine, is_other] = trainer.scores()(np.arange(train.n_users))
    there = np.isfinite(scores["loop", True])
    auto, loop = scores["auto", True][there], scores["loop", True][there]
    assert np.allclose(auto, loop, rtol=1e-7, atol=1e-9)
    assert np.abs(loop - scores["loop", False][there]).max() > 1e-3
