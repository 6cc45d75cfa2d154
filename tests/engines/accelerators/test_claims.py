"""Which kernels claim which shipped methods, and whether what is said is what ran."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.core.types import Task
from tacit.engines import block, cohort
from tacit.engines.accelerators import (
    block_claim,
    fused_claim,
    gate_claim,
    linear,
    perceptron,
    score_claim,
    views,
)
from tacit.engines.cohort import CohortEngine
from tacit.engines.explain import views_of
from tacit.engines.participation import everybody
from tacit.engines.scoring import Scorer
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.methods import METHODS, fedmf, fedrap, pfedrec
from tacit.parts.backbones import DotProduct
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.mixture import Mixture
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.plugins.entry import PLUGINS
from tacit.testing.paths import small_train

TRAIN = small_train(content=True)

# The path of every shipped method under its own settings, and of every plug-in on three of them. A
# change of this list is a change of speed: none of it may happen unseen.
CLAIMED = {
    "cofedrec": "compiled contrast, scores linear",
    "cs_fcf": "cohort",
    "cs_fedncf": "cohort",
    "fcf": "fused linear",
    "fedavg": "fused linear",
    "fedmf": "fused linear",
    "fedncf": "fused perceptron, scores perceptron",
    "fedneumf": "cohort",
    "fedrap": "compiled additive",
    "fedrecon": "fused linear",
    "fedvbpr": "cohort",
    "gpfedrec": "compiled pulled, scores perceptron",
    "pfedrec": "fused linear",
    "mdifffr": "fused linear",
    "light_mdifffr": "fused linear",
    "ipfedrec": "fused linear",
    "ifedncf": "fused perceptron, scores perceptron",
    "local_only": "fused linear, scores linear",
    "fedmf clip": "fused linear",
    "fedmf gaussian": "fused linear",
    "fedmf laplace": "fused linear",
    "fedmf dual_personalised": "fused linear",
    "fedmf fedrkg": "fused linear, guidance linear, scores linear",
    "fedmf fedrkg_without_ag": "fused linear, guidance linear, scores linear",
    "fedmf fedmr": "fused views, scores views",
    "fedmf fedvlr": "fused views, scores views",
    "fedmf id_only": "fused views, scores views",
    "fedmf mdifffr": "fused linear",
    "fedmf light_mdifffr": "fused linear",
    "fedmf ifedrec": "fused linear",
    "fedmf ridge": "fused linear",
    "fedmf nearest": "fused linear",
    "fedmf random_rows": "fused linear",
    "fedmf gie": "fused linear",
    "fedmf pie": "fused linear, scores linear",
    "pfedrec clip": "fused linear",
    "pfedrec gaussian": "fused linear",
    "pfedrec laplace": "fused linear",
    "pfedrec dual_personalised": "fused linear",
    "pfedrec fedrkg": "fused linear, guidance linear, scores linear",
    "pfedrec fedrkg_without_ag": "fused linear, guidance linear, scores linear",
    "pfedrec fedmr": "fused views, scores views",
    "pfedrec fedvlr": "fused views, scores views",
    "pfedrec id_only": "fused views, scores views",
    "pfedrec mdifffr": "fused linear",
    "pfedrec light_mdifffr": "fused linear",
    "pfedrec ifedrec": "fused linear",
    "pfedrec ridge": "fused linear",
    "pfedrec nearest": "fused linear",
    "pfedrec random_rows": "fused linear",
    "pfedrec gie": "fused linear",
    "pfedrec pie": "fused linear, scores linear",
    "fedncf clip": "fused perceptron, scores perceptron",
    "fedncf gaussian": "fused perceptron, scores perceptron",
    "fedncf laplace": "fused perceptron, scores perceptron",
    "fedncf dual_personalised": "fused perceptron, scores perceptron",
    "fedncf fedrkg": "fused perceptron, guidance perceptron, scores perceptron",
    "fedncf fedrkg_without_ag": "fused perceptron, guidance perceptron, scores perceptron",
    "fedncf fedmr": "cohort",
    "fedncf fedvlr": "cohort",
    "fedncf id_only": "cohort",
    "fedncf mdifffr": "fused perceptron, scores perceptron",
    "fedncf light_mdifffr": "fused perceptron, scores perceptron",
    "fedncf ifedrec": "fused perceptron, scores perceptron",
    "fedncf ridge": "fused perceptron, scores perceptron",
    "fedncf nearest": "fused perceptron, scores perceptron",
    "fedncf random_rows": "fused perceptron, scores perceptron",
    "fedncf gie": "fused perceptron, scores perceptron",
    "fedncf pie": "fused perceptron, scores perceptron",
    # no kernel packs single uploads
    **{
        f"{m} {p}": "cohort" for m in ("fedmf", "pfedrec") for p in ("quantise", "top_k", "project")
    },
    **{f"fedncf {p}": "cohort, scores perceptron" for p in ("quantise", "top_k", "project")},
    "fedmf private": "fused linear",
    "pfedrec private": "fused linear",
    "fedncf private": "fused perceptron, scores perceptron",
    "fedmf recency": "fused linear",
    "pfedrec recency": "fused linear",
    "fedncf recency": "fused perceptron, scores perceptron",
}


def composed(spelling: str) -> ComposedAlgorithm | None:
    name, *plugins = spelling.split(" ")
    try:
        method = resolve(name, plugins=tuple(plugins)).method
    except TacitError:  # what does not go together has no path
        return None
    return compose(method, Task.of(TRAIN)) if isinstance(method, Method) else None


def path_of(algorithm: ComposedAlgorithm) -> str:
    running = algorithm.with_server_views or algorithm
    guided = algorithm.method.sync.guidance is not None
    kernels = {
        "fused": fused_claim(running, "cpu").name,
        "compiled": block_claim(running, "cpu").name,
        "guidance": gate_claim(algorithm, "cpu").name if guided else None,
        "scores": score_claim(running).name,
    }
    assert None in (kernels["fused"], kernels["compiled"])
    said = [f"{kind} {kernel}" for kind, kernel in kernels.items() if kernel is not None]
    if not (kernels["fused"] or kernels["compiled"]):
        said.insert(0, "cohort")
    return ", ".join(said)


def test_every_shipped_method_takes_the_path_that_is_listed() -> None:
    spellings = [*METHODS]
    for name in ("fedmf", "pfedrec", "fedncf"):
        spellings += [f"{name} {plugin}" for plugin in PLUGINS if plugin != "dualper"]
    found = {}
    for spelling in spellings:
        algorithm = composed(spelling)
        if algorithm is not None:
            found[spelling] = path_of(algorithm)
    assert found == CLAIMED


@pytest.mark.parametrize(
    "spelling",
    [
        *("fedmf", "fedncf", "fedrap", "gpfedrec", "cofedrec", "fcf fedmr", "fedncf fedmr"),
        *("fedneumf", "pfedrec fedrkg", "local_only", "fedrecon"),
    ],
)
def test_what_is_said_is_what_ran(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entrance of a path is watched for one round and one block of scores."""
    algorithm = composed(spelling)
    assert algorithm is not None
    if isinstance(algorithm.method.sync, AdaptiveGuidance):
        often = replace(algorithm.method, sync=replace(algorithm.method.sync, every=1))
        algorithm = compose(often, algorithm.task)
    ran: set[str] = set()

    def watch(module: object, name: str, path: str) -> None:
        really = getattr(module, name)

        def watched(*values: object, **named: object) -> object:
            ran.add(path)
            return really(*values, **named)

        monkeypatch.setattr(module, name, watched)

    for one_pass in (linear.Linear, perceptron.Perceptron, views.Views):
        watch(one_pass, "train", "fused")
    for gates in (linear.LinearGates, perceptron.PerceptronGates):
        watch(gates, "guide", "gates")
    watch(cohort, "guide", "general gates")
    watch(block.BlockRun, "_step", "cohort")
    watch(block, "Block", "compiled")
    watch(linear.LinearScores, "score", "scores: linear kernel")
    watch(perceptron.PerceptronScores, "score", "scores: perceptron kernel")
    watch(views.ViewScores, "score", "scores: views kernel")
    watch(Scorer, "_map", "scores: mapped over users")
    engine = CohortEngine()
    state = engine.start(algorithm, TRAIN, 0)
    said = engine.describe(algorithm).text
    engine.round(algorithm, TRAIN, state, everybody(TRAIN), 0)
    scorer = Scorer(algorithm, state, train=TRAIN)
    scorer(np.arange(TRAIN.n_users))
    expected = {said.split(":")[0], scorer.describe().split(" (")[0]}
    if "guidance:" in said:
        expected.add("gates" if said.endswith("kernel") else "general gates")
    assert ran == expected


def test_a_trainer_says_how_it_trains_and_how_it_scores() -> None:
    said = Trainer(resolve("fedrap", rounds=1), TRAIN, 1).describe().text
    assert said == (
        "compiled: additive kernel, blocks of 64 clients on cpu (Additive adds to the loss or to "
        "the row); scores: mapped over users (Additive adds to the loss or to the row)"
    )


def test_guidance_says_why_its_gates_are_not_compiled() -> None:
    own = replace(pfedrec(dim=4), sync=AdaptiveGuidance(gate_input="own"))
    said = CohortEngine().describe(compose(own, Task.of(TRAIN))).text
    assert said.endswith("; guidance: blocks of 64 clients (the gate reads own)")
    slow = replace(own, sync=AdaptiveGuidance(gate_optimiser=Sgd(weight_decay=0.1)))
    said = CohortEngine().describe(compose(slow, Task.of(TRAIN))).text
    assert said.endswith("(sync.gate_optimiser is not plain gradient descent)")


class Louder(BinaryCrossEntropy):
    def loss(
        self, logit_N: torch.Tensor, label_N: torch.Tensor, weight_N: torch.Tensor
    ) -> torch.Tensor:
        return 2 * super().loss(logit_N, label_N, weight_N)


class Other(DotProduct):
    pass


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (replace(fedmf(dim=4), objective=Louder()), "the loss is Louder"),
        (replace(fedmf(dim=4), backbone=Other(4)), "no kernel was written for Other"),
    ],
)
def test_the_fused_engine_refuses_a_subclass_in_one_sentence(method: Method, reason: str) -> None:
    with pytest.raises(TacitError) as caught:
        CohortEngine(fused="always").start(compose(method, Task.of(TRAIN)), TRAIN, 0)
    assert str(caught.value) == (
        f"The fused engine cannot run this method: {reason}; use engine='cohort'."
    )
    said = CohortEngine().describe(compose(method, Task.of(TRAIN))).text
    assert said == f"cohort: blocks of 64 clients on cpu ({reason})"


def test_a_dot_product_has_no_bias_for_the_additive_kernel() -> None:
    dot = replace(fedrap(dim=4), backbone=DotProduct(4))
    assert block_claim(compose(dot, Task.of(TRAIN)), "cpu").kernel is None


def test_views_of_a_mixture_that_may_mix_otherwise_are_not_explained() -> None:
    class Otherwise(Mixture):
        pass

    assert views_of(Method(DotProduct(4), items=Otherwise(width=4))) == ()
    assert views_of(Method(DotProduct(4), items=Mixture(width=4))) == ("sum", "perceptron", "gate")
