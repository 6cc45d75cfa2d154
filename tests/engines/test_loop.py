"""`local_update`, the definition of right, held to plain numpy arithmetic on one small client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.algorithm import ClientData, ClientState, Update
from tacit.core.client import local_update
from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.core.types import Task
from tacit.data.batches import BlockDraws
from tacit.methods import fedmf, local_only, pfedrec
from tacit.parts.channel import Clip, Dense

TABLE = np.array([[0.5, -1.0], [0.25, 0.75], [-0.5, 1.5], [2.0, 0.0]])
ITEMS = np.array([2, 0])  # in the order of first touch
ROWS, LABELS = np.array([0, 1, 0]), np.array([1.0, 0.0, 1.0])  # item 2 stands twice in the batch
VECTOR, BIAS = np.array([0.3, -0.2]), 0.1
RATE, ITEM_RATE = 0.5, 0.25 * 3.0 * 4  # per_item = 3 on a catalogue of 4


def one_batch(row_N: np.ndarray = ROWS, label_N: np.ndarray = LABELS) -> BlockDraws:
    size = len(row_N)
    return BlockDraws(
        item_BR=ITEMS[None],
        rows_B=np.array([2]),
        row_TSBW=row_N.reshape(1, 1, 1, size),
        label_TSBW=label_N.reshape(1, 1, 1, size),
        weight_SBW=np.full((1, 1, size), 1.0 / size),
        steps_B=np.array([1]),
        samples_B=np.array([size]),
    )


def update(
    method: Method, private: dict[str, np.ndarray], draws: BlockDraws | None = None
) -> Update:
    algorithm = compose(method, Task(1, 4))
    return local_update(
        algorithm,
        {"items": torch.from_numpy(TABLE.copy())},
        ClientState(
            {name: torch.tensor(value, dtype=torch.float64) for name, value in private.items()}
        ),
        ClientData.of_draws(one_batch() if draws is None else draws),
        round_number=1,
    )


def rates(method: Method) -> Method:
    local = replace(method.local, model=Sgd(RATE), items=Sgd(0.25, per_item=3.0))
    return replace(method, local=local)


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def row_gradient(slope_N: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Samples 0 and 2 read the first row, sample 1 the second: duplicates add up."""
    return np.stack([(slope_N[0] + slope_N[2]) * vector, slope_N[1] * vector])


def close(found: torch.Tensor, expected: object) -> bool:
    return np.allclose(found.numpy(), expected, rtol=0, atol=1e-15)


def test_joint_batch_by_hand() -> None:
    result = update(rates(fedmf(dim=2)), {"user": VECTOR})
    x_ND = TABLE[ITEMS][ROWS]
    logit_N = x_ND @ VECTOR
    slope_N = (sigmoid(logit_N) - LABELS) / 3
    change = -ITEM_RATE * row_gradient(slope_N, VECTOR)  # under the old user vector
    assert close(result.private["user"], VECTOR - RATE * slope_N @ x_ND)
    assert result.upload.item_R.tolist() == [2, 0]
    assert close(result.upload.change["items"], change)
    assert close(result.rows["items"], TABLE[ITEMS] + change)
    losses = np.log1p(np.exp(logit_N)) - LABELS * logit_N
    assert result.loss_sum == pytest.approx(losses.sum(), rel=1e-14)


def test_alternate_batch_by_hand_uses_the_new_head_for_the_rows() -> None:
    result = update(rates(pfedrec(dim=2)), {"head.w": VECTOR, "head.b": np.array(BIAS)})
    x_ND = TABLE[ITEMS][ROWS]
    first_N = (sigmoid(x_ND @ VECTOR + BIAS) - LABELS) / 3
    vector, bias = VECTOR - RATE * first_N @ x_ND, BIAS - RATE * first_N.sum()
    second_N = (sigmoid(x_ND @ vector + bias) - LABELS) / 3
    assert close(result.private["head.w"], vector)
    assert close(result.private["head.b"], bias)
    assert close(result.upload.change["items"], -ITEM_RATE * row_gradient(second_N, vector))
    stale = -ITEM_RATE * row_gradient(first_N, VECTOR)
    assert np.abs(result.upload.change["items"].numpy() - stale).max() > 1e-3
    logit_N = x_ND @ VECTOR + BIAS  # the loss is that of the first look at the batch
    losses = np.log1p(np.exp(logit_N)) - LABELS * logit_N
    assert result.loss_sum == pytest.approx(losses.sum(), rel=1e-14)


def test_second_batch_starts_where_the_first_ended() -> None:
    method = rates(fedmf(dim=2))
    first = update(method, {"user": VECTOR}, one_batch(np.array([0]), np.array([1.0])))
    draws = BlockDraws(
        item_BR=ITEMS[None],
        rows_B=np.array([2]),
        row_TSBW=np.array([0, 0]).reshape(2, 1, 1, 1),  # two epochs of one sample
        label_TSBW=np.array([1.0, 1.0]).reshape(2, 1, 1, 1),
        weight_SBW=np.ones((1, 1, 1)),
        steps_B=np.array([1]),
        samples_B=np.array([1]),
    )
    both = update(method, {"user": VECTOR}, draws)
    user, row = first.private["user"].numpy(), first.rows["items"][0].numpy()
    slope = sigmoid(row @ user) - 1.0
    assert close(both.private["user"], user - RATE * slope * row)
    assert close(both.rows["items"][0], row - ITEM_RATE * slope * user)
    assert close(both.rows["items"][1], TABLE[0])  # drawn later or not at all: as it was


def test_gradient_clip_by_hand() -> None:
    x_ND = TABLE[ITEMS][ROWS]
    slope_N = (sigmoid(x_ND @ VECTOR) - LABELS) / 3
    user, rows = slope_N @ x_ND, row_gradient(slope_N, VECTOR)
    norm = np.sqrt((user**2).sum() + (rows**2).sum())  # of the summed duplicates
    plain = rates(fedmf(dim=2))
    for bound, scale in ((norm / 4, 0.25), (norm * 4, 1.0)):
        method = replace(plain, local=replace(plain.local, gradient_clip=float(bound)))
        result = update(method, {"user": VECTOR})
        assert close(result.private["user"], VECTOR - RATE * scale * user)
        assert close(result.upload.change["items"], -ITEM_RATE * scale * rows)


def test_gradient_clip_bounds_each_phase_by_itself() -> None:
    bound = 0.05
    plain = rates(pfedrec(dim=2))
    method = replace(plain, local=replace(plain.local, gradient_clip=bound))
    result = update(method, {"head.w": VECTOR, "head.b": np.array(BIAS)})
    head = np.append(result.private["head.w"].numpy() - VECTOR, result.private["head.b"] - BIAS)
    assert np.linalg.norm(head) == pytest.approx(RATE * bound, rel=1e-12)
    rows = result.upload.change["items"].numpy()
    assert np.linalg.norm(rows) == pytest.approx(ITEM_RATE * bound, rel=1e-12)


def test_weight_decay_by_hand_acts_on_every_touched_row() -> None:
    method = rates(fedmf(dim=2))
    local = replace(method.local, items=Sgd(0.25, weight_decay=0.1))
    draws = one_batch(np.array([0]), np.array([1.0]))  # the second row is touched by no sample
    result = update(replace(method, local=local), {"user": VECTOR}, draws)
    slope = sigmoid(TABLE[2] @ VECTOR) - 1.0
    expected = np.stack([-0.25 * (slope * VECTOR + 0.1 * TABLE[2]), -0.25 * 0.1 * TABLE[0]])
    assert close(result.upload.change["items"], expected)


@pytest.mark.parametrize("order", [1, 2])
def test_an_upload_is_clipped_and_what_stays_is_not(order) -> None:
    plain = update(rates(fedmf(dim=2)), {"user": VECTOR})
    change = plain.upload.change["items"].numpy()
    norm = np.abs(change).sum() if order == 1 else np.linalg.norm(change)
    method = replace(rates(fedmf(dim=2)), channel=(Dense(), Clip(float(norm / 8), order)))
    result = update(method, {"user": VECTOR})
    assert close(result.upload.change["items"], change / 8)
    assert torch.equal(result.rows["items"], plain.rows["items"])
    assert torch.equal(result.private["user"], plain.private["user"])


def test_two_clips_pass_through_one_after_the_other() -> None:
    plain = update(rates(fedmf(dim=2)), {"user": VECTOR}).upload.change["items"].numpy()
    norm, total = np.linalg.norm(plain), np.abs(plain).sum()
    # the L2 clip halves the upload, so its L1 norm is total / 2 when the second clip sees it
    channel = (Clip(float(norm / 2), 2), Clip(float(total / 10), 1))
    result = update(replace(rates(fedmf(dim=2)), channel=channel), {"user": VECTOR})
    assert np.allclose(result.upload.change["items"].numpy(), plain / 10, rtol=1e-12, atol=0)


def test_frozen_parameters_stand_still() -> None:
    algorithm = compose(rates(fedmf(dim=2)), Task(1, 4))
    result = local_update(
        algorithm,
        {"items": torch.from_numpy(TABLE.copy())},
        ClientState({"user": torch.from_numpy(VECTOR)}),
        ClientData.of_draws(one_batch()),
        1,
        frozenset({"items"}),
    )
    assert not result.upload.change["items"].any()
    x_ND = TABLE[ITEMS][ROWS]
    slope_N = (sigmoid(x_ND @ VECTOR) - LABELS) / 3
    assert close(result.private["user"], VECTOR - RATE * slope_N @ x_ND)


def test_an_isolated_client_uploads_nothing_and_returns_its_rows() -> None:
    algorithm = compose(rates(local_only(dim=2)), Task(1, 4))
    private = {
        "items.own": torch.from_numpy(TABLE.copy()),
        "head.w": torch.from_numpy(VECTOR),
        "head.b": torch.tensor(BIAS, dtype=torch.float64),
    }
    result = local_update(algorithm, {}, ClientState(private), ClientData.of_draws(one_batch()), 1)
    assert result.upload.change == {}
    assert set(result.private) == {"head.w", "head.b"}
    federated = update(rates(pfedrec(dim=2)), {"head.w": VECTOR, "head.b": np.array(BIAS)})
    assert torch.equal(result.rows["items.own"], federated.rows["items"])
