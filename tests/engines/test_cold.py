"""The generator beside a federation: what it reads, what it makes, and who ranks with it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.core.compose import compose
from tacit.core.parts import Sync
from tacit.core.types import ITEMS, Initializer, Params, Task
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.engines.cold import ColdServer
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.errors import TacitError
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods import fcf, fedncf, local_only, pfedrec
from tacit.methods.cold_start import cold_pfedrec
from tacit.parts.sync import GUIDE, Anchored
from tacit.plugins import cold
from tacit.plugins.fedrkg import fedrkg
from tacit.plugins.fusion import fedmr

COLD = among_cold_items(CLEAN)
SPLIT = split_dataset(planted_dataset(n_users=60, n_items=90), COLD)


def trainer(method, rounds: int = 2, **fields) -> Trainer:
    experiment = Experiment("x", method, rounds, **{"protocol": COLD, **fields})
    made = Trainer(experiment, SPLIT.train, 1)
    for _ in range(rounds):
        made.run_round()
    made.keep_best()
    return made


def test_scores_of_cold_items_are_the_scorer_on_generated_rows():
    made = trainer(cold.ridge(cold_pfedrec(8)))
    rows_CD = made.cold.rows(made.state, made.cold.cold_C)
    users = np.array([3, 7])
    expected = made.state.private["head.w"][users] @ rows_CD.T
    expected = expected + made.state.private["head.b"][users].view(-1, 1)
    found = made.scores()(users)
    np.testing.assert_allclose(found[:, made.cold.cold_C], expected, rtol=1e-5, atol=1e-6)
    assert np.isneginf(found[:, SPLIT.train.warm_W]).all()


def test_ranked_together_warm_items_keep_their_scores():
    protocol = replace(COLD, valid_mask="train", test_mask="train+valid")
    made = trainer(cold.ridge(pfedrec(8)), protocol=protocol)
    alone = trainer(cold.ridge(pfedrec(8)))
    users = np.arange(5)
    both = made.scores()(users)
    assert np.isfinite(both).all()
    np.testing.assert_array_equal(
        both[:, made.cold.cold_C], alone.scores()(users)[:, made.cold.cold_C]
    )


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(fedncf(8, (4, 1)), id="fedncf"),
        pytest.param(fedmr(fcf(8), id_width=8), id="fusion"),
        pytest.param(fedrkg(fcf(8), every=1), id="guidance"),
    ],
)
def test_generators_go_with_other_backbones_fusion_and_guidance(base):
    made = trainer(cold.ridge(base))
    found = made.scores()(np.arange(4))
    assert np.isfinite(found[:, made.cold.cold_C]).all()
    assert found[:, made.cold.cold_C].std() > 0


def test_a_table_that_is_never_aggregated_gives_a_server_nothing_to_learn_from():
    with pytest.raises(TacitError, match="no global item table"):
        trainer(cold.ridge(local_only(8)))


def test_a_method_without_a_generator_is_refused_under_a_cold_split():
    with pytest.raises(TacitError, match=r"plugins=\['mdifffr'\]"):
        trainer(pfedrec(8))


def test_other_draws_have_other_noise_and_the_same_draw_the_same():
    made = trainer(cold.mdifffr(cold_pfedrec(8)))
    item_C = made.cold.cold_C
    one, again = made.cold.rows(made.state, item_C), made.cold.rows(made.state, item_C)
    assert torch.equal(one, again)
    assert not torch.equal(one, made.cold.rows(made.state, item_C, draw=1))
    # an item's row does not depend on the company
    torch.testing.assert_close(made.cold.rows(made.state, item_C[5:7]), one[5:7])


def test_clients_are_pulled_to_what_the_map_makes_of_warm_items():
    made = trainer(cold.ifedrec(cold_pfedrec(8), strength=0.1), rounds=1)
    expected = made.cold.rows(made.state, SPLIT.train.warm_W)
    assert torch.equal(made.state.shared[GUIDE], expected)
    assert GUIDE not in made.algorithm.uploads


def test_the_generator_survives_a_checkpoint(tmp_path):
    made = trainer(cold.mdifffr(cold_pfedrec(8)))
    made.save(tmp_path / "last", {"selected_round": 2})
    made.save_best(tmp_path / "best")
    other = Trainer(made.experiment, SPLIT.train, 1)
    assert other.restore(tmp_path) == {"selected_round": 2}
    other.run_round()
    made.run_round()
    users = np.arange(3)
    np.testing.assert_array_equal(made.scores()(users), other.scores()(users))


def test_clients_of_mdifffr_know_nothing_of_the_generator():
    one = trainer(cold.mdifffr(cold_pfedrec(8)))
    other = trainer(cold.ridge(cold_pfedrec(8)))
    for name in one.state.shared:
        assert torch.equal(one.state.shared[name], other.state.shared[name])
    assert one.cost(2) == other.cost(2)
    assert not any("cold" in name for name in (*one.algorithm.shared, *one.algorithm.private))


def test_the_loop_gives_the_generator_the_same_table():
    method = cold.ridge(cold_pfedrec(8))
    train = SPLIT.train.existing()
    algorithm = compose(method, Task.of(train))
    states = []
    for engine in ("loop", "auto"):
        made = trainer(method, engine=engine, precision="float64")
        states.append(made.cold.rows(made.state, made.cold.cold_C))
    torch.testing.assert_close(*states, rtol=1e-9, atol=1e-9)
    engine = LoopEngine(torch.float64)
    state = engine.start(algorithm, train, 0)
    server = ColdServer.of(algorithm, SPLIT.train, 0)
    server.begin(state)
    for _ in range(2):
        engine.round(algorithm, train, state, everybody(train), 0)
        server.after_round(state)
    torch.testing.assert_close(server.rows(state, server.cold_C), states[0], rtol=1e-9, atol=1e-9)


@dataclass(frozen=True)
class AnchoredByAnother(Sync):
    """A rule that is no subclass of `Anchored`, and is pulled to the same table."""

    rows = "all"
    penalises_tables = True
    needs = (GUIDE,)

    def shared(self, table: Initializer) -> dict[str, Initializer]:
        return {ITEMS: table, GUIDE: Initializer(table.shape)}

    def table_penalty(self, p: Params) -> Tensor:
        return 50.0 * (p[ITEMS] - p[GUIDE]).square().mean()


def test_any_rule_that_declares_a_guide_is_given_it():
    known = trainer(cold.ridge(replace(pfedrec(8), sync=Anchored(50.0))))
    other = trainer(cold.ridge(replace(pfedrec(8), sync=AnchoredByAnother())))
    assert known.state.shared[GUIDE].abs().max() > 0
    for name, value in known.state.shared.items():
        torch.testing.assert_close(other.state.shared[name], value, rtol=1e-3, atol=1e-4)
