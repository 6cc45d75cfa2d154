"""MetaMF for all clients at once.

Of the generated tables only the sampled rows are made. A row goes through the right factor and the
predictor's first layer, both the client's own and linear: their product, 8 x 8, is made once for a
client, and the table of width 32 never.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import vjp

from tacit.core.crowd import Crowd
from tacit.core.moments import SLOTS
from tacit.core.optim import Adam
from tacit.core.types import Params
from tacit.methods.metamf_kernels import adam_flat, by_item, left_back, left_rows, predict_back

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # of heads: the network, and the generated shape
PIECE = 512  # clients: their hidden vectors stay near while items pass


def generated(p: Params, user_B: Tensor, shapes: Shapes) -> tuple[Tensor, ...]:
    """The hidden vectors behind the item tables; then of each client's model all but the left
    factor: right factor times first layer, its bias, second layer, its bias."""
    vector = p["users"][user_B] @ p["memory"]
    hidden = {
        network: torch.relu(vector @ p[f"{network}.w"] + p[f"{network}.b"])
        for network in ("first", "second", "items")
    }
    made = {
        head: (hidden[network] @ p[f"{head}.w"] + p[f"{head}.b"]).reshape(-1, *shape)
        for head, (network, shape) in shapes.items()
        if head != "left"
    }
    mix_BJK = torch.bmm(made["right"], made["w0"])
    return hidden["items"], mix_BJK, made["b0"], made["w1"], made["b1"][:, 0]


def crowd_slopes(p: Params, crowd: Crowd, shapes: Shapes) -> Params:
    """The sum over all clients of the gradient of the server's leaves."""
    total = {leaf: torch.zeros_like(value) for leaf, value in p.items()}
    small = {leaf: value for leaf, value in p.items() if not leaf.startswith("left.")}
    n_items, inner = shapes["left"][1]
    # items side by side: kernels read and write the columns of one item after another
    weight, bias = p["left.w"].T.contiguous().numpy(), p["left.b"].numpy()
    weight_slope = np.zeros_like(weight)
    for part in crowd.pieces(PIECE):
        user_B = torch.from_numpy(part.user_P)
        made, back = vjp(partial(generated, user_B=user_B, shapes=shapes), small)[:2]
        hidden, mix_BJK, b0_BK, w1_BK, b1_B = made
        begin, order, client = by_item(part.samples.start_U1, part.samples.item_N, n_items)
        left_NJ = np.empty((len(part.label_N), inner), dtype=weight.dtype)
        left_rows(begin, order, client, weight, bias, hidden.numpy(), left_NJ)
        slopes = [torch.zeros_like(value, memory_format=torch.contiguous_format) for value in made]
        predict_back(
            part.samples.start_U1,
            part.label_N,
            left_NJ,
            mix_BJK.numpy(),
            b0_BK.numpy(),
            w1_BK.numpy(),
            b1_B.contiguous().numpy(),
            slopes[1].numpy(),
            slopes[2].numpy(),
            slopes[3].numpy(),
            slopes[4].numpy(),
        )
        left_back(
            begin,
            order,
            client,
            weight,
            hidden.numpy(),
            left_NJ,
            weight_slope,
            total["left.b"].numpy(),
            slopes[0].numpy(),
        )
        for leaf, value in back(tuple(slopes))[0].items():
            total[leaf] += value
    total["left.w"].copy_(torch.from_numpy(weight_slope).T)
    return total


def crowd_logits(p: Params, user_B: Tensor, shapes: Shapes) -> Tensor:
    """Logits of all items for some users."""
    hidden, mix_BJK, b0_BK, w1_BK, b1_B = generated(p, user_B, shapes)
    left_BIJ = torch.addmm(p["left.b"], hidden, p["left.w"]).reshape(-1, *shapes["left"][1])
    value_BIK = torch.baddbmm(b0_BK[:, None], left_BIJ, mix_BJK).relu_()
    return torch.baddbmm(b1_B[:, None, None], value_BIK, w1_BK[:, :, None])[:, :, 0]


def adam_in_place(adam: Adam, shared: Params, gradient: Params, scale: float, rate: float) -> None:
    """`adam_step` along scale * gradient, written into `shared`."""
    for leaf, slope in gradient.items():
        first, second, steps = (shared[f"{leaf}/{slot}"] for slot in SLOTS)
        steps += 1
        count = float(steps)
        adam_flat(
            shared[leaf].view(-1).numpy(),
            first.view(-1).numpy(),
            second.view(-1).numpy(),
            slope.view(-1).numpy(),
            scale,
            (
                adam.beta1,
                adam.beta2,
                1 - adam.beta1**count,
                1 - adam.beta2**count,
                rate,
                adam.epsilon,
                adam.weight_decay,
            ),
        )
