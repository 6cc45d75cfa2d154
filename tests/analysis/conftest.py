"""A few short runs on the planted dataset, made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tacit.core.optim import Sgd
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.parts.guidance import AdaptiveGuidance


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of four rounds: some methods, and two clients with guidance, with and without gates."""
    torch.set_num_threads(1)  # once numba has opened its threads, torch's own spin beside them
    place = tmp_path_factory.mktemp("runs")
    for name in ("fedmf", "pfedrec", "local_only", "fedrap", "popularity"):
        run(resolve(name, rounds=4), place / name)
    alone = resolve("local_only", rounds=4)
    for name, epochs in (("gated", 5), ("kept_half", 0)):
        sync = AdaptiveGuidance(beta=0.7, every=2, epochs=epochs, gate_optimiser=Sgd(rate=0.05))
        guided = replace(alone, name=name, method=replace(alone.method, sync=sync))
        run(guided, place / name)
    return place


@pytest.fixture(scope="session")
def fused_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds of narrow methods with content, one of each kind."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("fused")
    small = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
    for name, base, plugin in (
        ("mixed", "fcf", "fedmr"),
        ("sent", "fcf", "fedvlr"),
        ("single", "fcf", "fedmr:views=single"),
        ("alone", "fcf", "fedmr:views=sum"),
        ("rap", "fedrap", "fedmr"),
    ):
        sets = [*small, "local.inner.epochs=2"] if name == "rap" else small
        run(resolve(base, plugins=[plugin], rounds=2, sets=sets), place / name)
    run(resolve("fedvbpr", protocol="clean", rounds=2, sets=["backbone.dim=8"]), place / "vbpr")
    return place


@pytest.fixture(scope="session")
def cold_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generators beside PFedRec: on untouched items, ranked alone and among all, and on all items;
    `first` is the first round of `cold` as a run of its own."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("cold")
    for name, plugin, rounds, split in (
        ("cold", "mdifffr", 4, "cold"),
        ("first", "mdifffr", 1, "cold"),
        ("together", "ridge", 2, "cold_together"),
        ("warm", "ridge", 1, "time"),
    ):
        sets = ["backbone.dim=8"]
        chosen = resolve("pfedrec", plugins=[plugin], rounds=rounds, split=split, sets=sets)
        run(chosen, place / name)
    run(resolve("popularity", split="cold"), place / "popularity")
    return place
