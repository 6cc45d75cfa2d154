"""CoFedRec's contrast term against its definition, and what it is before there are labels."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.errors import TacitError
from tacit.methods import cofedrec
from tacit.parts.contrast import LABEL, SAMPLE, GroupKept, supervised_contrast
from tacit.parts.graph import GraphMean
from tacit.parts.server import Mean
from tacit.parts.sync import Isolated
from tacit.testing.play import algorithm_for
from tacit.testing.synthetic import ragged

TRAIN = split_dataset(ragged(), CLEAN).train


def definition(row_SD: torch.Tensor, label_S: torch.Tensor, temperature: float) -> torch.Tensor:
    """The loss as it is written, one anchor after another."""
    z = row_SD / row_SD.norm(dim=1, keepdim=True)
    total = row_SD.new_zeros(())
    for i in range(len(z)):
        others = [a for a in range(len(z)) if a != i]
        positives = [a for a in others if label_S[a] == label_S[i] and label_S[i] > 0]
        if positives:
            below = torch.logsumexp(z[others] @ z[i] / temperature, 0)
            total = (
                total - torch.stack([z[a] @ z[i] / temperature - below for a in positives]).mean()
            )
    return total / len(z)


@pytest.mark.parametrize("size", [5, 64, 150])  # one, exactly one and several blocks of anchors
def test_value_and_slope_are_those_of_the_definition(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    row = torch.randn(size, 4, generator=generator, dtype=torch.float64)
    label = torch.randint(0, 4, (size,), generator=generator).double()  # 0: has no cluster
    results = []
    for loss in (definition, supervised_contrast):
        free = row.clone().requires_grad_()
        value = loss(free, label, 0.1)
        results.append((value.detach(), torch.autograd.grad(value, free)[0]))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-12)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-9, atol=1e-14)
    assert results[0][1].abs().max() > 1e-3


def test_before_there_are_labels_there_is_no_term() -> None:
    row = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    value = GroupKept(strength=1.0).table_penalty({OWN_ITEMS: row, LABEL: torch.zeros(6)})
    (slope,) = torch.autograd.grad(value, row)
    assert value.item() == 0.0
    assert not slope.any()


def test_strength_and_temperatures_multiply() -> None:
    row = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    label = torch.tensor([1.0, 1, 2, 2, 2, 3], dtype=torch.float64)
    found = GroupKept(strength=0.005).table_penalty({OWN_ITEMS: row, LABEL: label})
    assert found.item() == pytest.approx(0.005 * 0.2 * definition(row, label, 0.1).item())


def test_only_the_sample_is_drawn_together() -> None:
    row = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    label = torch.tensor([1.0, 1, 2, 2, 1, 2])
    tables = {OWN_ITEMS: row, LABEL: label, SAMPLE: torch.tensor([0.0, 1.0, 3.0])}
    (slope,) = torch.autograd.grad(GroupKept().table_penalty(tables), row)
    assert (slope.abs().sum(1) > 0).tolist() == [True, True, False, True, False, False]


def test_the_first_round_is_training_alone_but_for_the_group() -> None:
    """There are no labels yet: scorers are those of isolated clients, and so are all tables that
    the group did not replace; the replaced ones are equal to each other."""
    method, engine = cofedrec(dim=4, per_item=2.0), LoopEngine(torch.float64)
    kept = algorithm_for(method, TRAIN)
    alone = algorithm_for(replace(method, sync=Isolated(), server=Mean()), TRAIN)
    states = [engine.start(algorithm, TRAIN, seed=0) for algorithm in (kept, alone)]
    states[1].private[OWN_ITEMS].copy_(states[0].private[OWN_ITEMS])
    for algorithm, state in zip((kept, alone), states, strict=True):
        engine.round(algorithm, TRAIN, state, everybody(TRAIN), seed=0)
    grouped, single = (state.private[OWN_ITEMS] for state in states)
    assert torch.equal(states[0].private["head.w"], states[1].private["head.w"])
    replaced = (grouped != single).flatten(1).any(1)
    assert 1 < replaced.sum() < TRAIN.n_users
    mean = single[replaced].mean(0)
    assert torch.allclose(grouped[replaced], mean.expand(int(replaced.sum()), -1, -1), atol=1e-12)


def test_it_needs_the_server_that_makes_labels() -> None:
    with pytest.raises(TacitError, match=r"GroupKept looks at 'cluster.label', which GraphMean"):
        algorithm_for(replace(cofedrec(dim=4), server=GraphMean()), TRAIN)


def test_a_client_does_not_hold_the_mean_table() -> None:
    algorithm = algorithm_for(cofedrec(dim=4, sample=20), TRAIN)
    table, head = TRAIN.n_items * 4, 5
    assert algorithm.floats_on_client == table + head + TRAIN.n_items + 20
    assert algorithm.floats_up == table
    assert ITEMS in algorithm.shared
