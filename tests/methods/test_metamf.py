"""MetaMF by hand: the server's half of the gradient is what autograd gives through the whole."""

import pytest
import torch

from tacit.core.algorithm import ClientData
from tacit.core.optim import without_optimizer_state
from tacit.core.types import Params, Task
from tacit.methods.metamf import MetaMF
from tacit.parts.objectives import BinaryCrossEntropy

TASK = Task(n_users=4, n_items=7)
METHOD = MetaMF(dim=3, left=2, predictor=2, user_width=3, memory=5, hidden=6)


def server() -> Params:
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(init.shape, generator=generator, dtype=torch.float64).abs()
        for name, init in METHOD.shared(TASK).items()
    }


def client(user: int) -> ClientData:
    weight = torch.full((5,), 0.2, dtype=torch.float64)
    label = torch.tensor([1, 0, 0, 1, 0], dtype=torch.float64)
    item = torch.tensor([2, 5, 0, 6, 5])
    return ClientData(
        torch.tensor(user), torch.tensor([2, 6]), torch.ones(2).double(), item, label, weight
    )


def test_the_head_of_the_item_table_is_the_big_one() -> None:
    """4096 I weights: 512 x 8 I."""
    parameters = MetaMF().shared(Task(n_users=6040, n_items=3706))
    assert parameters["left.w"].count == 4096 * 3706
    assert parameters["right.w"].count == 512 * 256
    assert parameters["left.w"].scale == pytest.approx((2 / (512 + 8 * 3706)) ** 0.5)


def test_what_a_client_receives() -> None:
    """I·32 + 32·8 + 8 + 8 + 1 floats, and none of the server's own."""
    task = Task(n_users=3, n_items=10)
    method = MetaMF()
    shared = {name: torch.zeros(init.shape) for name, init in method.shared(task).items()}
    received = method.broadcast(shared, torch.tensor(1))
    assert sum(value.numel() for value in received.values()) == 10 * 32 + 32 * 8 + 8 + 8 + 1
    assert not set(received) & set(shared)


def test_the_table_is_the_product_of_two_generated_factors() -> None:
    shared = server()
    vector = shared["users"][2] @ shared["memory"]
    hidden = torch.relu(vector @ shared["items.w"] + shared["items.b"])
    left = (hidden @ shared["left.w"] + shared["left.b"]).reshape(7, 2)
    right = (hidden @ shared["right.w"] + shared["right.b"]).reshape(2, 3)
    assert torch.allclose(METHOD.broadcast(shared, torch.tensor(2))["items"], left @ right)


def test_absorb_is_autograd_through_the_whole_composition() -> None:
    shared, data = server(), client(1)
    received = METHOD.broadcast(shared, data.user)
    _, upload = METHOD.update(received, {}, data, 1)
    found = METHOD.absorb(shared, data.user, upload)
    free = {k: v.clone().requires_grad_() for k, v in without_optimizer_state(shared).items()}
    logits = METHOD.score(METHOD.broadcast(free, data.user), {}, data)[data.item_N]
    loss = BinaryCrossEntropy().loss(logits, data.label_N, data.weight_N)
    slope = dict(zip(free, torch.autograd.grad(loss, list(free.values())), strict=True))
    assert set(found) == set(free)
    for name, value in slope.items():
        assert torch.allclose(found[name], value, rtol=1e-12, atol=1e-14), name
    assert found["users"][1].abs().max() > 0
    assert found["users"][[0, 2, 3]].abs().max() == 0


def test_a_block_absorbs_the_sum() -> None:
    shared = server()
    uploads = []
    for user in (1, 3):
        data = client(user)
        uploads.append(METHOD.update(METHOD.broadcast(shared, data.user), {}, data, 1)[1])
    stacked = {name: torch.stack([upload[name] for upload in uploads]) for name in uploads[0]}
    found = METHOD.absorb_block(shared, torch.tensor([1, 3]), stacked)
    each = [
        METHOD.absorb(shared, torch.tensor(user), upload)
        for user, upload in zip((1, 3), uploads, strict=True)
    ]
    for name, value in found.items():
        assert torch.allclose(value, each[0][name] + each[1][name], rtol=1e-12, atol=1e-14), name


def test_a_newcomer_gets_the_mean_vectors_model() -> None:
    shared = server()
    mean = {**shared, "users": shared["users"].mean(0, keepdim=True)}
    one = METHOD.broadcast(shared, torch.tensor(-1))["items"]
    assert torch.allclose(one, METHOD.broadcast(mean, torch.tensor(0))["items"])


def test_the_server_clips_the_mean() -> None:
    """A mean gradient of norm 50 enters Adam's first moment as one of norm 5."""
    shared = {k: torch.zeros(init.shape) for k, init in METHOD.shared(TASK).items()}
    total = {k: torch.zeros_like(v) for k, v in shared.items() if "/" not in k}
    total["b1.b"] = torch.tensor([100.0])
    after = METHOD.step(shared, total, 2, 1)
    assert after["b1.b/first"].item() == pytest.approx(0.1 * 5.0)
    assert after["b1.b"].item() == pytest.approx(-METHOD.server.rate)
