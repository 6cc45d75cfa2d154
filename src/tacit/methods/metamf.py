"""MetaMF: a server that generates each user's model (Lin et al., SIGIR 2020), read as a federation.

The server holds a vector per user, a memory and three hyper-networks. For user u it generates an
item table, as a product (I, 8)·(8, 32), and a predictor 32-8-1. The client receives these, and
returns the gradient of its loss with respect to them; nothing private is kept on the device. The
server takes each gradient back through the hyper-networks (a vector-Jacobian product), averages,
clips the norm at 5 and steps with Adam.

The released code is central, on ratings; here: cross-entropy with drawn negatives, one gradient per
client and round over all its samples. Weights begin at Xavier's normal initializer, biases at
torch's. A newcomer, who has no vector, gets the model of the mean vector.

Under a claim of privacy the server must need nothing but a sum. A device then receives the whole
server without Adam's moments, generates its own model, and sends the gradient of the server's own
parameters, clipped.

The paper's rate of 0.0001 is for many small batches; a round here is one step. Of 0.001, 0.003 and
0.01, with one seed and 20 rounds on ML-100K, 0.01 was best on validation (NDCG@10 0.034, 0.037,
0.040). The released weight decay of 0.001 is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vjp, vmap

from tacit.core.algorithm import ClientData
from tacit.core.capabilities import written_step
from tacit.core.custom import CustomMethod
from tacit.core.optim import Adam, adam_step, clipped, with_adam_state, without_optimizer_state
from tacit.core.ragged import RaggedBatch
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.data.sampling import Sampling
from tacit.data.views import Lists
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.methods.metamf_ragged import adam_in_place, ragged_logits, ragged_slopes
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.privacy.guarantee import PrivacyRequest


def _xavier(n_in: int, n_out: int) -> Initializer:
    return Initializer((n_in, n_out), "normal", (2 / (n_in + n_out)) ** 0.5)


@register("metamf")
@dataclass(frozen=True)
class MetaMF(CustomMethod):
    """MetaMF; `left` is the inner width of the generated item table, `predictor` its MLP's.

    >>> from tacit.core.types import Task
    >>> MetaMF().shared(Task(n_users=3, n_items=10))["left.w"].shape
    (512, 80)
    """

    dim: int = 32
    left: int = 8
    predictor: int = 8
    user_width: int = 32
    memory: int = 128
    hidden: int = 512
    clip: float = 5.0
    server: Adam = Adam(rate=0.01)
    sampling: Sampling = Sampling(negatives=4)
    privacy: PrivacyRequest | None = None

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "each" if self.privacy is None else "sum"

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset()

    def heads(self, n_items: int) -> dict[str, tuple[str, tuple[int, ...]]]:
        """What is generated: its name, the hyper-network that it comes from, and its shape.

        >>> MetaMF().heads(10)["w0"]
        ('first', (32, 8))
        """
        return {
            "w0": ("first", (self.dim, self.predictor)),
            "b0": ("first", (self.predictor,)),
            "w1": ("second", (self.predictor,)),
            "b1": ("second", (1,)),
            "left": ("items", (n_items, self.left)),
            "right": ("items", (self.left, self.dim)),
        }

    def shared(self, task: Task) -> dict[str, Initializer]:
        parameters = {
            "users": _xavier(task.n_users, self.user_width),
            "memory": _xavier(self.user_width, self.memory),
        }
        for network in ("first", "second", "items"):
            parameters[f"{network}.w"] = _xavier(self.memory, self.hidden)
            parameters[f"{network}.b"] = Initializer((self.hidden,), "uniform", self.memory**-0.5)
        for head, (_, shape) in self.heads(task.n_items).items():
            count = Initializer(shape).count
            parameters[f"{head}.w"] = _xavier(self.hidden, count)
            parameters[f"{head}.b"] = Initializer((count,), "uniform", self.hidden**-0.5)
        return with_adam_state(parameters)

    def uploads(self, task: Task) -> frozenset[str]:
        if self.privacy is not None:
            return frozenset(name for name in self.shared(task) if "/" not in name)
        return frozenset({"items", *self.heads(task.n_items)} - {"left", "right"})

    def private(self, task: Task) -> dict[str, Initializer]:
        return {}

    def noise(self, task: Task) -> dict[str, Initializer]:
        return {}

    def sends(self, round_number: int) -> bool:
        return True

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        if self.privacy is not None:
            return without_optimizer_state(shared)
        return self.generated(shared, user)

    def generated(self, shared: Params, user: Tensor) -> Params:
        """User u's own model."""
        known = shared["users"].index_select(0, user.clamp(min=0).reshape(1))[0]
        vector = torch.where(user < 0, shared["users"].mean(0), known) @ shared["memory"]
        hidden = {
            network: torch.relu(vector @ shared[f"{network}.w"] + shared[f"{network}.b"])
            for network in ("first", "second", "items")
        }
        n_items = len(shared["left.b"]) // self.left
        made = {
            head: (hidden[network] @ shared[f"{head}.w"] + shared[f"{head}.b"]).reshape(shape)
            for head, (network, shape) in self.heads(n_items).items()
        }
        items_ID = made.pop("left") @ made.pop("right")
        return {"items": items_ID, **made}

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        if self.privacy is not None:
            return {}, grad(lambda shared: _loss(self.generated(shared, data.user), data))(received)
        return {}, grad(_loss)(received, data)

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        """The gradient of the server's own parameters."""
        if self.privacy is not None:
            return upload
        pull = vjp(
            lambda parameters: self.broadcast(parameters, user), without_optimizer_state(shared)
        )[1]
        slope: Params = pull(upload)[0]
        return slope

    def absorb_block(self, shared: Params, user_B: Tensor, upload: Params) -> Params:
        """The sum of `absorb` over a block; a head of 512 x 8I never exists once per client."""
        generate = vmap(self.broadcast, in_dims=(None, 0))
        pull = vjp(
            lambda parameters: generate(parameters, user_B), without_optimizer_state(shared)
        )[1]
        slope: Params = pull(upload)[0]
        return slope

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        mean = {name: value / n_clients for name, value in total.items()}
        rate = self.server.rate_at(round_number, len(shared["left.b"]) // self.left)
        return adam_step(self.server, shared, clipped(mean, self.clip), rate)

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        if self.privacy is not None:
            received = self.generated(received, data.user)
        return _logits(received, received["items"])

    @property
    def runs_ragged(self) -> bool:
        """Its step is written down in place; a device that generates its model plays alone."""
        return written_step(self.server) is not None and self.privacy is None

    def update_ragged(
        self, shared: Params, private: Params, batch: RaggedBatch, round_number: int
    ) -> Params:
        n_items = len(shared["left.b"]) // self.left
        arrived = batch.take(np.flatnonzero(batch.reports_P))  # no client keeps anything
        return ragged_slopes(without_optimizer_state(shared), arrived, self.heads(n_items))

    def step_in_place(
        self, shared: Params, total: Params, n_clients: int, round_number: int
    ) -> None:
        n_items = len(shared["left.b"]) // self.left
        square = sum(float(torch.linalg.vector_norm(v)) ** 2 for v in total.values())
        bounded = min(1.0, self.clip * n_clients / max(square**0.5, 1e-30))
        rate = self.server.rate_at(round_number, n_items)
        adam_in_place(self.server, shared, total, bounded / n_clients, rate)

    def score_ragged(
        self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
    ) -> Tensor:
        n_items = len(shared["left.b"]) // self.left
        return ragged_logits(shared, torch.from_numpy(user_B), self.heads(n_items))

    def interpretation(self) -> list[str]:
        if self.privacy is not None:
            return [
                "only the sum of the uploads is used; everybody receives every user's vector, as "
                "noisy sums have made it, and can generate everybody's model"
            ]
        return [
            "the server holds every user's vector and generates every user's whole model: it can "
            "rank for each of them",
            "it reads which items a client's samples held, since the gradient is zero in all other "
            "rows; positives stand out by their sign",
        ]


def _logits(p: Params, x_ND: Tensor) -> Tensor:
    return torch.relu(x_ND @ p["w0"] + p["b0"]) @ p["w1"] + p["b1"]


def _loss(p: Params, data: ClientData) -> Tensor:
    logit_N = _logits(p, p["items"][data.item_N])
    return BinaryCrossEntropy().loss(logit_N, data.label_N, data.weight_N)


METHODS["metamf"] = Entry(
    build=MetaMF,
    summary="the server generates each user's item table and predictor",
    rounds=100,
    protocol="pfedrec",
    chosen={"paper": Chosen(("ml-100k",), tried=3)},
)
