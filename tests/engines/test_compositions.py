"""Compositions that fast paths do not claim give the same numbers on every engine: fused items
beside a server that reads tables, private towers, refitted models, weights under a cap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData, ClientState, Declared
from tacit.core.client import local_update
from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.fit import CompositionError, LeaveOut, Use
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.core.types import ITEMS, OWN_ITEMS, Task
from tacit.data.batches import draw_block, history_of_block
from tacit.data.protocol import CLEAN
from tacit.data.sampling import samples_per_user
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation, everybody
from tacit.experiment.resolve import resolve
from tacit.methods import cofedrec, fedavg, fedneumf, fedrecon, gpfedrec, pfedrec
from tacit.parts.channel import Clip, Dense, Gaussian
from tacit.parts.graph import GraphMean
from tacit.parts.server import Mean, ServerSteps, TablesBeside
from tacit.plugins.fedrkg import fedrkg, personal_table
from tacit.plugins.fusion import fedmr, fedvlr
from tacit.plugins.personal import dual_personalised
from tacit.testing.play import same_to, trace
from tacit.testing.synthetic import ragged, with_content

TRAIN: TrainView = split_dataset(with_content(ragged(n_users=10, n_items=16)), CLEAN).train


def smaller(method: Method) -> Method:
    local = method.local
    return replace(method, local=replace(local, batch=16))  # type: ignore[type-var]


def fused(method: Method, sends: str = "gradients") -> Method:
    return fedmr(smaller(method), sends=sends, id_width=5)  # type: ignore[arg-type]


COMPOSED = {
    "gpfedrec + fedmr": fused(gpfedrec(dim=6)),
    "gpfedrec + fedmr, changes": fused(gpfedrec(dim=6), "change"),
    "gpfedrec + fedmr, the last gradient": fused(gpfedrec(dim=6), "last_gradient"),
    "gpfedrec + fedvlr": fedvlr(smaller(gpfedrec(dim=6)), id_width=5),
    "cofedrec + fedmr": fused(cofedrec(dim=6, clusters=4, sample=12)),
    "fedrecon + fedmr": fused(fedrecon(dim=6)),
    "fedneumf + dual": dual_personalised(smaller(fedneumf(dim=6))),
    "fedneumf + pie": personal_table(smaller(fedneumf(dim=6))),
    "fedneumf + fedrkg": fedrkg(smaller(fedneumf(dim=6)), every=1, beta=0.5),
    "fedneumf + fedmr + fedrkg": fedrkg(fused(fedneumf(dim=6)), every=2, beta=0.5, clip=1.0),
    "fedavg under a cap": replace(fedavg(dim=6), server=Mean("examples", cap=9)),
    "fedavg under a cap, with noise": replace(
        fedavg(dim=6),
        server=Mean("examples", cap=9),
        channel=(Dense(), Clip(0.1), Gaussian(0.01)),
    ),
}


def algorithm_of(method: Method) -> ComposedAlgorithm:
    return compose(method, Task.of(TRAIN))


@pytest.mark.parametrize("name", COMPOSED)
def test_engines_agree(name: str) -> None:
    """And nothing that a part declares stays where it began: no half of a composition is lost."""
    method = COMPOSED[name]
    reference = trace(method, TRAIN, LoopEngine(torch.float64))
    still = {parameter for parameter in reference.start if reference.change(parameter) == 0}
    assert not still - {"cluster.sample"}, still
    for engine in (
        CohortEngine(torch.float64, block=7, fused="never"),
        CohortEngine(torch.float64),
    ):
        found = trace(method, TRAIN, engine)
        for parameter, value in reference.end.items():
            allowed = 1e-10 * max(reference.change(parameter), 1e-3)
            assert same_to(value, found.end[parameter], allowed), (
                f"{name}: {parameter} under {engine}"
            )
        assert abs(found.state.loss - reference.state.loss) < 1e-10


def test_tables_aggregate_as_without_fusion_and_the_encoder_steps_along_the_mean_gradient() -> None:
    """One round by hand: tables to the graph, the sum of gradients to the server's descent."""
    method = fused(gpfedrec(dim=6))
    assert isinstance(method.server, TablesBeside)
    steps = replace(method.server.steps, encoder=Sgd(0.5))
    method = replace(method, server=replace(method.server, steps=steps))
    algorithm, engine = algorithm_of(method), LoopEngine(torch.float64)
    state = engine.start(algorithm, TRAIN, seed=0)
    before = state.copy()
    sums = {name: np.zeros(algorithm.shared[name].shape) for name in algorithm.uploads}
    tables = []
    users = everybody(TRAIN).user_P
    for user in users:
        draws = draw_block(
            TRAIN,
            np.array([user]),
            samples_per_user(TRAIN, method.sampling),
            method.sampling,
            batch=method.local.batch,
            epochs=method.local.epochs,
            seed=0,
            round_number=1,
            dtype=np.float64,
            all_rows=True,
        )
        private = {name: value[user] for name, value in before.private.items()}
        history = history_of_block(TRAIN, np.array([user]), draws)
        result = local_update(
            algorithm, before.shared, ClientState(private), ClientData.of_draws(draws, history), 1
        )
        assert set(result.upload.change) == set(algorithm.uploads)
        assert not {ITEMS, OWN_ITEMS} & set(result.upload.change)
        for name, gradient in result.upload.change.items():
            sums[name] += gradient.numpy()
        tables.append(result.rows[OWN_ITEMS])
    engine.round(algorithm, TRAIN, state, Participation().draw(TRAIN, 0, 1), seed=0)
    assert sums
    for name, total in sums.items():
        stepped = before.shared[name].numpy() - 0.5 * total / len(users)
        np.testing.assert_allclose(state.shared[name].numpy(), stepped, rtol=1e-12, atol=1e-15)
    order = np.argsort(TRAIN.user_key_U[users], kind="stable")
    met = GraphMean().aggregate_tables(
        torch.stack([tables[place] for place in order]), before.shared, np.random.default_rng(0)
    )
    torch.testing.assert_close(state.shared[ITEMS], met.shared[ITEMS], rtol=1e-12, atol=1e-14)


def test_what_travels_where_tables_are_read_and_items_are_fused() -> None:
    plain = algorithm_of(gpfedrec(dim=6))
    both = algorithm_of(fused(gpfedrec(dim=6)))
    table = TRAIN.n_items * 5
    encoder = sum(both.shared[name].count for name in both.uploads)
    assert encoder > 0
    assert plain.floats_up == TRAIN.n_items * 6
    assert both.floats_up == table + encoder
    assert both.floats_down == 2 * table + encoder


def test_private_towers_begin_alike_and_are_never_sent() -> None:
    for plugin in (dual_personalised, fedrkg, personal_table):
        algorithm = algorithm_of(plugin(fedneumf(dim=6)))
        towers = [name for name in algorithm.private if name.startswith("tower.")]
        assert len(towers) == 8
        assert not [name for name in algorithm.shared if name.startswith("tower.")]
        state = LoopEngine().start(algorithm, TRAIN, seed=0)
        for name in towers:
            assert torch.equal(state.private[name][0], state.private[name][-1])


def test_a_private_tower_scores_as_the_shared_one_does() -> None:
    shared = fedneumf(dim=6).backbone
    private = dual_personalised(fedneumf(dim=6)).backbone
    one = LoopEngine().start(algorithm_of(Method(shared)), TRAIN, seed=0)
    two = LoopEngine().start(algorithm_of(Method(private)), TRAIN, seed=0)
    first = {name: value[3] for name, value in one.private.items()}
    second = {name: value[3] for name, value in two.private.items()}
    rows = one.shared[ITEMS]
    torch.testing.assert_close(
        shared.score({**one.shared, **first}, rows), private.score({**two.shared, **second}, rows)
    )


def test_no_client_counts_for_more_than_one_under_a_cap() -> None:
    """With a bound on uploads, what a client adds to the sum stays within that bound."""
    weights = [Mean("examples", cap=9).weight(Declared(n)) for n in (1, 9, 500)]
    assert weights == [1 / 9, 1.0, 1.0]
    assert [ServerSteps(weights="examples", cap=9).weight(Declared(n)) for n in (3, 900)] == [
        1 / 3,
        1.0,
    ]
    assert Mean("examples").weight(Declared(7)) == 7.0

    one = replace(fedavg(dim=6), server=Mean("examples", cap=2), channel=(Dense(), Clip(1e-3)))
    alone = TRAIN.take(np.array([1]))
    moved = trace(one, alone, LoopEngine(torch.float64), rounds=1, participation=Participation())
    change = moved.end[ITEMS] - moved.start[ITEMS]
    assert float(change.norm()) == pytest.approx(1e-3)


def test_without_noise_a_cap_beyond_all_histories_changes_nothing_but_roundings() -> None:
    plain = trace(fedavg(dim=6), TRAIN, LoopEngine(torch.float64))
    wide = replace(fedavg(dim=6), server=Mean("examples", cap=10**6))
    capped = trace(wide, TRAIN, LoopEngine(torch.float64))
    assert torch.allclose(plain.end[ITEMS], capped.end[ITEMS], rtol=0, atol=1e-12)


def test_caps_that_make_no_sense() -> None:
    for cap, weights, sentence in (
        (0, "examples", "server.cap is 0; it must be at least 1"),
        (5, "uniform", "server.cap is 5, but clients count alike, so there is nothing to bound"),
    ):
        with pytest.raises(Exception, match=sentence):
            algorithm_of(replace(fedavg(), server=Mean(weights, cap)))  # type: ignore[arg-type]


def test_fusion_takes_the_weights_of_its_base() -> None:
    capped = replace(fedavg(dim=6), server=Mean("examples", cap=9))
    assert fedmr(capped).server == ServerSteps(capped.local.items, Adam(0.01), "examples", 9)


class Sharing(type(pfedrec().backbone)):  # type: ignore[misc]
    """A backbone with a shared parameter and no way to keep it private."""

    def shared(self):  # type: ignore[no-untyped-def]
        return {"tower": resolve("fedneumf").method.backbone.shared()["tower.out.b"]}


@pytest.mark.parametrize(
    ("plugin", "name"),
    [(dual_personalised, "dual_personalised"), (fedrkg, "fedrkg"), (personal_table, "pie")],
)
def test_a_scorer_that_cannot_be_private_is_refused(plugin, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="shares 'tower' and has no field `scorer`") as error:
        plugin(replace(fedavg(), backbone=Sharing(6)))
    assert error.value.remedies == (LeaveOut((name,)),)


def test_a_private_scorer_is_advised_only_where_there_is_such_a_field() -> None:
    isolated = personal_table(fedavg(dim=6))
    for backbone, advised in ((Sharing(6), False), (fedneumf(dim=6).backbone, True)):
        with pytest.raises(CompositionError) as caught:
            algorithm_of(replace(isolated, backbone=backbone))
        assert ("backbone.scorer=private" in str(caught.value)) == advised
        assert "use Replace()" in str(caught.value)


def problem_of(method: Method) -> str | None:
    try:
        algorithm_of(method)
    except CompositionError as error:
        return error.problem
    return None


@pytest.mark.parametrize(
    "method",
    [
        replace(fedavg(dim=6), server=GraphMean()),
        replace(fedneumf(dim=6), sync=gpfedrec().sync, server=GraphMean()),
        replace(gpfedrec(dim=6), server=Mean()),
        replace(cofedrec(dim=6), server=Mean()),
        replace(fedrkg(fedavg(dim=6)), server=GraphMean()),
        replace(fused(gpfedrec(dim=6)), server=GraphMean()),
        replace(fedavg(dim=6), channel=(Gaussian(), Clip(), Dense())),
        replace(fedavg(dim=6), server=Mean("uniform", 7)),
        replace(fused(fedavg(dim=6)), sync=pfedrec().sync),
        replace(personal_table(fedneumf(dim=6)), backbone=fedneumf(dim=6).backbone),
        replace(fused(fedavg(dim=6)), server=Mean()),
        replace(fedavg(dim=6), local=replace(fedavg().local, items=Adam(lifetime="persistent"))),
    ],
)
def test_remedies_in_python_work_too(method: Method) -> None:
    """Parts that no plug-in puts together; some have two faults, so remedies follow each other."""
    for _ in range(4):
        try:
            trace(method, TRAIN, LoopEngine(), rounds=1)
            return
        except CompositionError as error:
            refused = error
        for remedy in refused.remedies:
            assert isinstance(remedy, Use)
            assert remedy.words in str(refused)
            assert problem_of(remedy.applied(method)) != refused.problem
        method = refused.remedies[0].applied(method)  # type: ignore[union-attr]
    raise AssertionError(f"still refused: {refused}")
