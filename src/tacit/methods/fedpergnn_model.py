"""FedPerGNN's network for one client: its items, their anonymous other users, and a head."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from tacit.core.algorithm import ClientData
from tacit.core.types import Initializer, Params

LEAK = 0.3  # of attention's leaky rectifier


def network(dim: int, hidden: int) -> dict[str, Initializer]:
    """Weights at He's initializer and zero biases; `hidden=0` is a head without a hidden layer.

    >>> network(4, 0)["head.w"].shape, network(4, 3)["head.w"].shape
    ((8,), (8, 3))
    """
    shapes: dict[str, tuple[int, ...]] = {
        "neighbour": (dim, dim),
        "history": (dim, dim),
        "candidate": (dim, dim),
        "own": (dim, dim),
        "look": (2 * dim,),
        "join": (2 * dim, dim),
        "pool": (2 * dim,),
        "person": (2 * dim, dim),
        "head": (2 * dim, hidden) if hidden else (2 * dim,),
    }
    if hidden:
        shapes["out"] = (hidden,)
    parameters = {}
    for name, shape in shapes.items():
        parameters[f"{name}.w"] = Initializer(shape, "uniform", (6 / shape[0]) ** 0.5)
        parameters[f"{name}.b"] = Initializer(shape[1:], "zeros")
    return parameters


def joined(p: Params, item_HD: Tensor, near_HKE: Tensor) -> Tensor:
    """Items with their neighbours' message; the last entry of a slot says whether it is taken."""
    near_HKD = near_HKE[:, :, :-1] @ p["neighbour.w"] + p["neighbour.b"]
    item_HD = torch.sigmoid(item_HD @ p["history.w"] + p["history.b"])
    dim = item_HD.shape[1]
    item_H = item_HD @ p["look.w"][dim:] + p["look.b"]
    look_HK = near_HKD @ p["look.w"][:dim] + item_H[:, None]
    message_HD = (attention(look_HK, near_HKE[:, :, -1])[:, :, None] * near_HKD).sum(1)
    return torch.cat([message_HD, item_HD], 1) @ p["join.w"] + p["join.b"]


def person(p: Params, user: Tensor, slots: Tensor, data: ClientData) -> Tensor:
    """The user as its graph shows it."""
    joined_HD = joined(p, p["items"][data.history_H], slots[data.history_H])
    user_D = torch.sigmoid(user @ p["own.w"] + p["own.b"])
    dim = len(user_D)
    mine = user_D @ p["pool.w"][:dim] + p["pool.b"]
    weight_H = attention(joined_HD @ p["pool.w"][dim:] + mine, data.real_H)
    return torch.cat([weight_H @ joined_HD, user_D]) @ p["person.w"] + p["person.b"]


def logits(p: Params, person_D: Tensor, x_ND: Tensor) -> Tensor:
    """Scores of candidates by their rows."""
    candidate_ND = torch.sigmoid(x_ND @ p["candidate.w"] + p["candidate.b"])
    head, dim = p["head.w"], len(person_D)
    value = candidate_ND @ head[dim:] + (person_D @ head[:dim] + p["head.b"])
    return torch.relu(value) @ p["out.w"] + p["out.b"] if "out.w" in p else value


def attention(value: Tensor, real: Tensor) -> Tensor:
    """Softmax of the leaky values over the last axis, where `real` is 1; zeros where none is.

    >>> attention(torch.zeros(3), torch.tensor([1.0, 1.0, 0.0])).tolist()
    [0.5, 0.5, 0.0]
    """
    masked = leaky_relu(value, LEAK).masked_fill(real < 0.5, -1e30)
    return torch.softmax(masked, -1) * real
