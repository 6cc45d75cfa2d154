"""FedRKG's guidance, from hand-computed numbers and at its neutral settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.core.types import ITEMS, OWN_ITEMS, Task
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants, Participation
from tacit.engines.round import Engine
from tacit.errors import TacitError
from tacit.methods import METHODS, fedmf, fedncf, fedrecon, pfedrec
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.sync import Isolated, Replace
from tacit.plugins import (
    clip,
    dual_personalised,
    fedrkg,
    global_table,
    knowledge_guidance,
    personal_table,
)
from tacit.testing import SyncTests, ragged
from tacit.testing.play import Trace, same_to, trace

EVERYBODY = Participation()
ENGINES: dict[str, Engine] = {
    "loop": LoopEngine(torch.float64),
    "cohort": CohortEngine(torch.float64, block=5, fused="never"),
    "fused": CohortEngine(torch.float64, fused="always"),
}


class TestGuidance(SyncTests):
    sync = AdaptiveGuidance(every=1)


def train() -> TrainView:
    return split_dataset(ragged(n_users=12, n_items=24), CLEAN).train


def still(method: Method) -> Method:
    """Local training that moves nothing, so that only guidance does."""
    local = replace(method.local, model=Sgd(0.0), items=Sgd(0.0))  # type: ignore[type-var]
    return replace(method, local=local)


def two_users() -> TrainView:
    lists = Lists(np.array([0, 1, 2]), np.array([0, 1]))
    return TrainView(3, lists, np.array([11, 12], dtype=np.uint64), Lists.empty(2))


@pytest.mark.parametrize("name", ENGINES)
def test_two_users_by_hand(name: str) -> None:
    """G is the mean of the tables sent at this very guidance, and all exchange: the one who took
    part in the round, and the one who did not. β = ½: P ← ½ P + ½ G."""
    engine, data = ENGINES[name], two_users()
    algorithm = compose(still(knowledge_guidance(fedmf(dim=1), beta=0.5, every=2)), Task(2, 3))
    state = engine.start(algorithm, data, seed=0)
    state.shared[ITEMS][:] = 99.0  # an older global table: it must not be mixed in
    state.private[OWN_ITEMS][0] = torch.tensor([[1.0], [2.0], [3.0]])
    state.private[OWN_ITEMS][1] = torch.tensor([[5.0], [0.0], [-3.0]])
    only_first = Participants(np.array([0]), np.array([True]))
    engine.round(algorithm, data, state, only_first, seed=0)
    assert state.private[OWN_ITEMS][1].flatten().tolist() == [5.0, 0.0, -3.0]  # not yet
    engine.round(algorithm, data, state, only_first, seed=0)
    assert state.shared[ITEMS].flatten().tolist() == [3.0, 1.0, 0.0]
    assert state.private[OWN_ITEMS][0].flatten().tolist() == [2.0, 1.5, 1.5]
    assert state.private[OWN_ITEMS][1].flatten().tolist() == [4.0, 0.5, -1.5]


@pytest.mark.parametrize("name", ENGINES)
def test_guidance_at_the_next_round(name: str) -> None:
    """The released timing: tables are sent at the end of round 2, and mixed in round 3."""
    engine, data = ENGINES[name], two_users()
    algorithm = compose(
        still(knowledge_guidance(fedmf(dim=1), beta=0.5, every=2, at="next")), Task(2, 3)
    )
    state = engine.start(algorithm, data, seed=0)
    state.private[OWN_ITEMS][0] = 1.0
    state.private[OWN_ITEMS][1] = 3.0
    everyone = Participants(np.array([0, 1]), np.array([True, True]))
    for _ in range(2):
        engine.round(algorithm, data, state, everyone, seed=0)
    assert state.private[OWN_ITEMS][0].flatten().tolist() == [1.0, 1.0, 1.0]
    engine.round(algorithm, data, state, everyone, seed=0)
    assert state.private[OWN_ITEMS][0].flatten().tolist() == [1.5, 1.5, 1.5]


def test_gate_by_hand() -> None:
    """g = σ(W·[P; G; P − G] + b), P' = β P + 2(1 − β) g G, for one item of width 1."""
    p = {
        OWN_ITEMS: torch.tensor([[2.0]]),
        ITEMS: torch.tensor([[3.0]]),
        "gate.w": torch.tensor([0.5, -0.25, 1.0]),
        "gate.b": torch.tensor(0.75),
    }
    sync = AdaptiveGuidance(beta=0.9)
    opened = 1 / (1 + np.exp(-(1.0 - 0.75 - 1.0 + 0.75)))
    assert sync.gate(p).item() == pytest.approx(opened)
    assert sync.mix(p).item() == pytest.approx(0.9 * 2 + 2 * 0.1 * opened * 3)


@pytest.mark.parametrize(
    ("kind", "logit"),
    [("own_global", 1.25), ("difference", 0.25), ("own", 1.75), ("global", 2.25)],
)
def test_other_gate_inputs(kind: str, logit: float) -> None:
    sync = AdaptiveGuidance(gate_input=kind)  # type: ignore[arg-type]
    width = sync.private(compose(fedmf(dim=1), Task(1, 1)).shared[ITEMS])["gate.w"].count
    p = {
        OWN_ITEMS: torch.tensor([[2.0]]),
        ITEMS: torch.tensor([[3.0]]),
        "gate.w": torch.tensor([0.5, -0.1666666667])[:width],
        "gate.b": torch.tensor(0.75),
    }
    assert sync.gate_logit(p).item() == pytest.approx(logit)


def test_proposition_1() -> None:
    """Knowledge guidance is one step of descent on (λ/2)‖P − G‖² with step (1 − β)/λ."""
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(4, 3, generator=generator, requires_grad=True)
    table = torch.randn(4, 3, generator=generator)
    strength, beta = 0.7, 0.8
    penalty = strength / 2 * ((own - table) ** 2).sum()
    (gradient,) = torch.autograd.grad(penalty, own)
    stepped = own - (1 - beta) / strength * gradient
    gate = {"gate.w": torch.zeros(9), "gate.b": torch.zeros(())}
    mixed = AdaptiveGuidance(beta=beta).mix({OWN_ITEMS: own, ITEMS: table, **gate})
    assert torch.allclose(stepped, mixed, atol=1e-6)


@pytest.mark.parametrize("name", ENGINES)
def test_beta_0_every_round_is_replacement(name: str) -> None:
    """With nothing of the personal table left, guidance in every round is PFedRec's replacement."""
    base = pfedrec(dim=6)
    guided = knowledge_guidance(replace(base, sync=Replace()), beta=0.0, every=1, at="next")
    one = trace(base, train(), ENGINES[name], participation=EVERYBODY)
    two = trace(guided, train(), ENGINES[name], participation=EVERYBODY)
    for parameter in (ITEMS, "head.w", "head.b"):
        assert same_to(one.end[parameter], two.end[parameter], 1e-10 * one.change(parameter)), (
            parameter
        )


@pytest.mark.parametrize("name", ENGINES)
def test_zero_gate_epochs_are_knowledge_guidance(name: str) -> None:
    base = fedmf(dim=6)
    one = trace(fedrkg(base, every=2, epochs=0), train(), ENGINES[name])
    two = trace(knowledge_guidance(base, every=2), train(), ENGINES[name])
    for parameter, value in one.end.items():
        assert torch.equal(value, two.end[parameter])
    assert float(one.end["gate.w"].abs().max()) == 0.0


@pytest.mark.parametrize("at", ["same", "next"])
@pytest.mark.parametrize(
    "base",
    [fedmf(dim=6), pfedrec(dim=6), fedncf(dim=6, layers=(4, 1))],
    ids=["fedmf", "pfedrec", "fedncf"],
)
def test_engines_agree_on_trained_gates(base: Method, at: str) -> None:
    method = fedrkg(base, beta=0.5, every=2, gate_rate=0.5, at=at, clip=0.5)  # type: ignore[arg-type]
    method = replace(method, local=replace(method.local, batch=16))  # type: ignore[type-var]
    reference = trace(method, train(), ENGINES["loop"])
    assert reference.change("gate.w") > 0
    for name in ("cohort", "fused"):
        found = trace(method, train(), ENGINES[name])
        for parameter, value in reference.end.items():
            assert same_to(value, found.end[parameter], 1e-10 * reference.change(parameter)), (
                name,
                parameter,
            )


def test_the_gate_learns_what_helps() -> None:
    """Gate training lowers the loss of the mixed table: with many epochs the gate moves away from
    one half, and what else the client holds stands still."""
    method = still(fedrkg(fedmf(dim=4), beta=0.5, every=1, epochs=20, gate_rate=5.0))
    found = trace(method, train(), LoopEngine(torch.float64), rounds=1, participation=EVERYBODY)
    assert found.change("gate.w") > 1e-3
    assert torch.equal(found.start["user"], found.end["user"])


def test_gates_stay_at_one_half_at_the_released_rate_and_move_where_they_are_told_to() -> None:
    """At 1e-4 adaptive guidance is the fixed one in all but name; `gates="moving"` is not."""
    planted = split_dataset(planted_dataset(), CLEAN).train

    def played(method: Method) -> Trace:
        engine = CohortEngine(fused="always")
        return trace(method, planted, engine, rounds=10, participation=EVERYBODY)

    fixed = played(knowledge_guidance(fedmf(), beta=0.5, every=5))
    away, difference = {}, {}
    for gates in ("released", "moving"):
        method = fedrkg(fedmf(), beta=0.5, every=5, gates=gates)  # type: ignore[arg-type]
        found = played(method)
        sync = method.sync.guidance
        assert isinstance(sync, AdaptiveGuidance)
        names = (*sync.gate_parameters, OWN_ITEMS)
        gate_UI = torch.stack(
            [
                sync.gate({ITEMS: found.end[ITEMS], **{name: found.end[name][u] for name in names}})
                for u in range(planted.n_users)
            ]
        )
        away[gates] = float((gate_UI - 0.5).abs().mean())
        difference[gates] = float((found.end[OWN_ITEMS] - fixed.end[OWN_ITEMS]).abs().mean())
    scale = float(fixed.end[OWN_ITEMS].abs().mean())
    assert away["released"] < 1e-3
    assert difference["released"] < 1e-3 * scale
    assert away["moving"] > 0.05
    assert difference["moving"] > 0.01 * scale


def test_a_gate_rate_wins_over_a_named_one() -> None:
    for changes, rate in (({}, 1e-4), ({"gates": "moving"}, 1.0), ({"gate_rate": 0.1}, 0.1)):
        sync = fedrkg(fedmf(), **changes).sync  # type: ignore[arg-type]
        assert isinstance(sync, AdaptiveGuidance)
        assert sync.gate_optimiser == Sgd(rate)
    both = fedrkg(fedmf(), gate_rate=0.1, gates="moving").sync
    assert isinstance(both, AdaptiveGuidance)
    assert both.gate_optimiser == Sgd(0.1)


def test_a_noisy_channel_reaches_guidance() -> None:
    """What is sent at a guidance goes through the channel like any upload."""
    plain = knowledge_guidance(fedmf(dim=4), beta=0.5, every=1)
    bounded = clip(plain, bound=0.01)
    one = trace(plain, train(), LoopEngine(torch.float64), rounds=1)
    two = trace(bounded, train(), LoopEngine(torch.float64), rounds=1)
    moved = (two.end[ITEMS] - two.start[ITEMS]).norm()
    assert float(moved) <= 0.01 + 1e-12
    assert float((one.end[ITEMS] - one.start[ITEMS]).norm()) > 0.01


def test_ablations_by_name() -> None:
    assert global_table(fedmf()) == fedmf()
    assert isinstance(personal_table(fedncf()).sync, Isolated)
    assert knowledge_guidance(fedmf()).sync == AdaptiveGuidance(epochs=0)


def test_a_shared_scorer_becomes_private() -> None:
    algorithm = compose(fedrkg(fedncf(dim=4, layers=(3, 1))), Task(2, 5))
    assert not algorithm.uploads
    assert set(algorithm.shared) == {ITEMS}
    assert {"mlp.w0", OWN_ITEMS, "gate.w", "user"} <= set(algorithm.private)


def test_cost_counts_guidance_rounds_only() -> None:
    algorithm = compose(fedrkg(fedmf(dim=4), every=3), Task(7, 5))
    # nobody is played to tell it: a composed method declares what it sends
    told = [algorithm.traffic(pytest.fail, [2] * n, width=4).exchanges for n in range(7)]
    assert told == [0, 0, 0, 7, 7, 7, 14]
    assert algorithm.floats_up == algorithm.floats_down == 20
    # spec: md + 4d + 1 with the user vector, and md more while the global table is there
    assert algorithm.floats_on_client == 20 + 4 * 4 + 1
    assert algorithm.floats_at_peak == 2 * 20 + 4 * 4 + 1


@pytest.mark.parametrize("plugin", [fedrkg, personal_table, global_table, dual_personalised])
def test_two_rules_for_one_table_are_refused(plugin: object) -> None:
    with pytest.raises(
        TacitError, match="both decide how the item table is combined with the global one"
    ):
        plugin(fedrkg(fedmf()))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"beta": 1.5}, "sync.beta is 1.5; it must lie between 0 and 1."),
        ({"every": 0}, "sync.every is 0; it must be at least 1."),
        ({"epochs": -1}, "sync.epochs is -1; it must not be negative."),
    ],
)
def test_mistakes(changes: dict[str, float], sentence: str) -> None:
    with pytest.raises(TacitError) as caught:
        AdaptiveGuidance(**changes)  # type: ignore[arg-type]
    assert str(caught.value) == sentence


def test_dual_personalised_hosts() -> None:
    assert dual_personalised(replace(fedmf(), backbone=pfedrec().backbone)) == pfedrec()
    assert dual_personalised(fedncf()).backbone.shared() == {}
    recon = dual_personalised(fedrecon())
    assert recon.local == fedrecon().local
    assert recon.sync == Replace(keep=True)
    assert "fedrecon" in METHODS
