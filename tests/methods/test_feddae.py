"""FedDAE by hand: schedule, gate, counts, what travels, and gradients against plain autograd."""

import math
from dataclasses import replace

import pytest
import torch

from tacit.core.algorithm import ClientData
from tacit.core.optim import Sgd, without_optimizer_state
from tacit.core.types import Initializer, Params, Task
from tacit.methods.feddae import FedDAE
from tacit.methods.feddae_model import gate_weights, kept

TASK = Task(n_users=4, n_items=9)


def drawn(declared: dict[str, Initializer], seed: int) -> Params:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 2 * torch.rand(init.shape, generator=generator, dtype=torch.float64) - 1
        for name, init in declared.items()
    }


def client(method: FedDAE, padding: int = 0) -> ClientData:
    history = torch.tensor([2, 5, 7] + [0] * padding)
    real = torch.tensor([1.0] * 3 + [0.0] * padding, dtype=torch.float64)
    nothing = torch.zeros(0, dtype=torch.float64)
    noise = drawn(method.noise(TASK), 3)
    return ClientData(torch.tensor(0), history, real, nothing.long(), nothing, nothing, noise)


def both(method: FedDAE) -> tuple[Params, Params]:
    return without_optimizer_state(drawn(method.shared(TASK), 1)), drawn(method.private(TASK), 2)


def test_beta_is_a_function_of_the_round() -> None:
    method = FedDAE(beta=0.5)
    assert method.beta_at(1) == 0.0
    assert method.beta_at(11) == pytest.approx(0.5 * math.tanh(1.0))
    assert method.beta_at(101) == pytest.approx(0.5, abs=1e-8)
    quirk = FedDAE(beta=0.5, annealing="cumulative")
    assert [quirk.beta_at(t) for t in (1, 2, 50)] == [0.5, 0.0, 0.0]


def test_counts_of_the_comparison() -> None:
    """Two encoders of 64 I + 4224, a decoder of 65 I + 2112, a gate of 32 I + 98."""
    method, n = FedDAE(), 1682
    task = Task(n_users=943, n_items=n)
    private = sum(init.count for init in method.private(task).values())
    parameters = method.shared(task)
    model = sum(init.count for name, init in parameters.items() if "/" not in name)
    assert private == 64 * n + 4224 + 32 * n + 98
    assert model == 64 * n + 4224 + 65 * n + 2112
    assert private + model == 225 * n + 10658


def test_the_gate_sums_to_one() -> None:
    method = FedDAE(hidden=6, latent=3, gate=4)
    _, own = both(method)
    data = client(method)
    rows = {**own, "gate.rows": own["gate.rows"][data.history_H]}
    weight = gate_weights(rows, data, {})
    assert weight.shape == (2,)
    assert weight.sum().item() == pytest.approx(1.0)
    hidden = torch.relu(own["gate.rows"][[2, 5, 7]].sum(0) + own["gate.b0"])
    expected = torch.softmax(hidden @ own["gate.w1"] + own["gate.b1"], 0)
    assert torch.allclose(weight, expected)


def test_dropout_halves_and_doubles() -> None:
    assert kept(torch.tensor([-0.9, -0.1, 0.1, 0.9]), 0.5).tolist() == [2.0, 2.0, 0.0, 0.0]
    assert kept(torch.tensor([-0.9, 0.9]), 0.0).tolist() == [1.0, 1.0]


def test_a_repeated_item_counts_once() -> None:
    method = FedDAE(hidden=6, latent=3, gate=4)
    shared, own = both(method)
    once, twice = client(method), client(method, padding=2)
    twice = replace(twice, history_H=torch.tensor([2, 5, 7, 5, 2]), real_H=torch.ones(5).double())
    assert torch.allclose(method.score(shared, own, once), method.score(shared, own, twice))
    one, two = (method.update(shared, own, data, 2)[0] for data in (once, twice))
    assert torch.allclose(one["local.rows"], two["local.rows"])


def test_the_score_is_the_decoded_mean_of_the_whole_row() -> None:
    """Written again over dense rows of the catalogue, without sampling or dropout."""
    method = FedDAE(hidden=6, latent=3, gate=4)
    shared, own = both(method)
    x = torch.zeros(9, dtype=torch.float64)
    x[[2, 5, 7]] = 1.0

    def mean(p: Params, name: str) -> torch.Tensor:
        hidden = torch.tanh(x / math.sqrt(3) @ p[f"{name}.rows"] + p[f"{name}.b0"])
        return (hidden @ p[f"{name}.w1"] + p[f"{name}.b1"])[:3]

    hidden = torch.relu(x @ own["gate.rows"] + own["gate.b0"])
    first, second = torch.softmax(hidden @ own["gate.w1"] + own["gate.b1"], 0)
    latent = first * mean(own, "local") + second * mean(shared, "global")
    middle = torch.tanh(latent @ shared["decoder.w0"] + shared["decoder.b0"])
    expected = middle @ shared["decoder.w1"] + shared["decoder.b1"]
    assert torch.allclose(method.score(shared, own, client(method)), expected)


def test_one_pass_is_one_gradient() -> None:
    """With one epoch and plain descent: a client steps along its part of the gradient and sends
    the other part, at the history's rows."""
    method = FedDAE(hidden=6, latent=3, gate=4, epochs=1, local=Sgd(rate=0.5))
    shared, own = both(method)
    data = client(method, padding=2)
    after, upload = method.update(shared, own, data, 6)
    free = {k: v.clone().requires_grad_() for k, v in (*shared.items(), *own.items())}

    def rows(parameters: Params) -> Params:
        at = data.history_H
        return {k: free[k][at] if k.endswith(".rows") else free[k] for k in parameters}

    noise = {name: value[0] for name, value in data.noise.items()}
    loss = method._loss(rows(own), rows(shared), data, noise, method.beta_at(6))
    slope = dict(zip(free, torch.autograd.grad(loss, list(free.values())), strict=True))
    for parameter, value in after.items():
        assert torch.allclose(value, own[parameter] - 0.5 * slope[parameter]), parameter
    assert torch.allclose(upload["decoder.w1"], slope["decoder.w1"])
    assert torch.allclose(upload["global.rows"][:3], slope["global.rows"][[2, 5, 7]])
    assert upload["global.rows"][3:].abs().max() == 0.0
    assert torch.equal(after["local.rows"][0], own["local.rows"][0])


def test_private_parts_never_travel() -> None:
    method = FedDAE(hidden=6, latent=3, gate=4)
    shared, own = both(method)
    after, upload = method.update(shared, own, client(method), 1)
    assert set(upload) == set(shared)
    assert not any(name.startswith(("local.", "gate.")) for name in upload)
    assert set(after) == set(own)
    full = drawn(method.shared(TASK), 1)
    assert not any("/" in name for name in method.broadcast(full, torch.tensor(0)))


def test_the_server_takes_adams_first_step() -> None:
    """From zero moments Adam's first step is the rate times the sign of the mean gradient."""
    method = FedDAE(hidden=2, latent=1, gate=1)
    shared = {k: torch.zeros(init.shape) for k, init in method.shared(TASK).items()}
    total = {k: torch.full_like(v, -6.0) for k, v in shared.items() if "/" not in k}
    after = method.step(shared, total, 3, 1)
    assert torch.allclose(after["decoder.b1"], torch.full((9,), 0.001))
    assert torch.allclose(after["decoder.b1/first"], torch.full((9,), -0.2))
