"""FedPerGNN by hand: attention, the third party's table, what travels, and the released row."""

import pytest
import torch

from tacit.core.algorithm import ClientData
from tacit.core.types import Initializer, Params, Task
from tacit.evaluation.metrics import metric
from tacit.experiment.resolve import resolve
from tacit.methods.fedpergnn import FedPerGNN, laplace
from tacit.methods.fedpergnn_model import attention
from tacit.testing import checkerboard
from tacit.testing.play import play

TASK = Task(n_users=4, n_items=6)
METHOD = FedPerGNN(dim=3, neighbours=2, hidden=4)


def drawn(declared: dict[str, Initializer], seed: int) -> Params:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (torch.rand(init.shape, generator=generator, dtype=torch.float64) - 0.3)
        * ("/" not in name)
        for name, init in declared.items()
    }


def server(method: FedPerGNN = METHOD) -> Params:
    shared = drawn(method.shared(TASK), 1)
    shared["slots"][:, :, -1] = 1.0
    shared["slots"][:, 1] = 0.0  # the second slot of each item is empty
    shared["matched"] = torch.zeros(6, dtype=torch.float64)
    return shared


def received(method: FedPerGNN = METHOD) -> Params:
    return method.broadcast(server(method), torch.tensor(0))


def client(unit: list[float] | None = None, padding: int = 0) -> ClientData:
    real = torch.tensor([1.0, 1.0] + [0.0] * padding, dtype=torch.float64)
    history = torch.tensor([1, 4] + [0] * padding)
    item, label = torch.tensor([1, 0, 4]), torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    weight = torch.full((3,), 1 / 3, dtype=torch.float64)
    slot = 2 * torch.tensor(unit or [0.1] * 6, dtype=torch.float64) - 1
    return ClientData(torch.tensor(0), history, real, item, label, weight, {"slot": slot})


def test_attention_sums_to_one_where_something_is_there() -> None:
    real = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    weight = attention(torch.tensor([[1.0, 2.0, 9.0], [1.0, 2.0, 3.0]]), real)
    first = 1 / (1 + torch.tensor(1.0).exp())
    assert torch.allclose(weight[0], torch.tensor([first, 1 - first, 0.0]))
    assert weight[1].tolist() == [0.0, 0.0, 0.0]


def test_claims_thin_out_with_the_number_of_matches() -> None:
    """With 10 matches and 2 slots a unit draw u names number ⌊10 u⌋; below 2 it is a slot."""
    matched = torch.tensor([0.0, 10.0, 0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    data = client([0.0, 0.15, 0.0, 0.0, 0.6, 0.0], padding=1)
    assert METHOD.claims(matched, data).tolist() == [[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
    data = client([0.0, 0.25, 0.0, 0.0, 0.4, 0.0])
    assert METHOD.claims(matched, data).tolist() == [[0.0, 0.0], [1.0, 0.0]]


def test_a_slot_takes_the_vector_of_its_only_sender() -> None:
    shared = server()
    before = shared["slots"].clone()
    total = {name: torch.zeros_like(value) for name, value in shared.items() if "/" not in name}
    total["slots"][1, 0] = torch.tensor([5.0, 6.0, 7.0, 1.0])  # one sender
    total["slots"][4, 0] = torch.tensor([5.0, 6.0, 7.0, 2.0])  # two
    total["matched"][1], total["matched"][4] = 1.0, 2.0
    after = METHOD.step(shared, total, 3, 1)
    assert after["slots"][1, 0].tolist() == [5.0, 6.0, 7.0, 1.0]
    assert torch.equal(after["slots"][4], before[4])
    assert after["matched"].tolist() == [0.0, 1.0, 0.0, 0.0, 2.0, 0.0]


def test_the_vector_travels_to_the_third_party_alone() -> None:
    shared, private = received(), drawn(METHOD.private(TASK), 2)
    after, upload = METHOD.update(shared, private, client(), 1)
    assert "user" not in upload
    assert set(upload) == set(shared)
    assert torch.equal(upload["slots"][0, 0, :3], after["user"])
    assert upload["slots"][0, 0, 3] == 1.0
    assert upload["matched"].tolist() == [1.0, 1.0]
    assert upload["items"][[2, 3, 5]].abs().max() == 0


def test_neighbours_reach_the_score() -> None:
    shared, private = received(), drawn(METHOD.private(TASK), 2)
    one = METHOD.score(shared, private, client())
    shared["slots"][1, 0, :3] += 1.0
    assert not torch.allclose(METHOD.score(shared, private, client()), one)
    two = METHOD.score(shared, private, client())
    shared["slots"][2, 0, :3] += 1.0  # of an item that this client does not have
    assert torch.equal(METHOD.score(shared, private, client()), two)


def test_padding_changes_nothing() -> None:
    shared, private = received(), drawn(METHOD.private(TASK), 2)
    one = METHOD.update(shared, private, client(), 1)
    two = METHOD.update(shared, private, client(padding=3), 1)
    assert torch.allclose(one[0]["user"], two[0]["user"])
    assert torch.allclose(one[1]["items"], two[1]["items"])
    assert two[1]["slots"][2:].abs().max() == 0


def test_the_released_head_ranks_the_same_for_everybody() -> None:
    method = FedPerGNN(dim=3, neighbours=2, hidden=0)
    shared = received(method)
    one = method.score(shared, drawn(method.private(TASK), 2), client())
    two = method.score(shared, drawn(method.private(TASK), 5), client())
    assert torch.allclose(one - one[0], two - two[0])
    assert not torch.allclose(one, two)


def test_clip_and_noise() -> None:
    """A gradient of norm at most the bound; a draw of -0.5 moves an entry by -scale·ln 2."""
    shared, private = received(), drawn(METHOD.private(TASK), 2)
    plain = METHOD.update(shared, private, client(), 1)[1]
    bounded = FedPerGNN(dim=3, neighbours=2, hidden=4, clip=1e-3)
    sent = bounded.update(shared, private, client(), 1)[1]
    gradients = [value for name, value in sent.items() if name not in ("slots", "matched")]
    assert torch.sqrt(sum((g * g).sum() for g in gradients)).item() == pytest.approx(1e-3)  # type: ignore[arg-type]
    noisy = FedPerGNN(dim=3, neighbours=2, hidden=4, laplace=2.0)
    data = client()
    for name, init in noisy.noise(TASK).items():
        if name != "slot":
            data.noise[name] = torch.full(init.shape, -0.5, dtype=torch.float64)
    found = noisy.update(shared, private, data, 1)[1]["items"] - plain["items"]
    assert torch.allclose(found, 2.0 * laplace(torch.full((6, 3), -0.5, dtype=torch.float64)))
    assert found[0, 0].item() == pytest.approx(-2.0 * 0.6931, abs=1e-3)


def test_the_released_preset_stays_at_chance() -> None:
    """Positives alone and a constant target: 21 candidates remain, one of them is right."""
    method = resolve("fedpergnn", preset="released", sets=("dim=16",)).method
    assert metric(play(method, checkerboard(), rounds=40).full, "HR@1") < 0.2
