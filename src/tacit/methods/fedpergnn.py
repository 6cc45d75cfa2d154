"""FedPerGNN: each client's graph of its items and their other users (Wu et al., 2022).

A client looks at its history items and, for each, at a few vectors of anonymous others who have the
same item. Attention pools the neighbours of an item, a dense layer joins them to the item,
attention pools the items for the user, and a perceptron scores a candidate. The user's vector is
private; weights and item table are trained from averaged gradients.

The third party of the paper, which matches encrypted item ids, is a table here: `slots` holds for
each item up to `neighbours` vectors, and `matched` how many clients reported the item. Each round a
client draws, for each item of its history, one of max(matched, neighbours) numbers: below
`neighbours` it is the slot to which it sends its new vector. A slot with exactly one sender takes
the vector, any other stays, so sums are all that the third party reads. A client may meet an
earlier vector of its own.

Clean reading: cross-entropy with drawn negatives, softmax over neighbours (the released code has
none), pooled items that carry their neighbours' message, and a hidden layer in the head: the
released head adds a user's term and an item's term, which ranks the same for everybody. The preset
`released` keeps that head, positives alone and squared error to a constant, and stays at chance.
Left out: the cap of 100 history items, dropout, pseudo-interacted items.

No federated rate is printed. Of 0.003, 0.01 and 0.03 for both optimisers (the first with 0.01 on
the client), with one seed on ML-100K, the first had not begun to learn after 15 rounds; the others
were level on validation after 25 (NDCG@10 0.017), and after 40 the last was ahead (0.029 against
0.024). The default is 0.01 all the same: at 0.03 this width does not learn the checkerboard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import grad

from tacit.core.algorithm import ClientData
from tacit.core.capabilities import steps_entrywise
from tacit.core.custom import CustomMethod
from tacit.core.optim import Adam, adam_step, clipped, with_adam_state, without_optimizer_state
from tacit.core.ragged import RaggedBatch
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.data.sampling import Sampling
from tacit.data.views import Lists
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.methods.fedpergnn_model import logits, network, person
from tacit.methods.fedpergnn_ragged import claimed_slots, matches, ragged_scores, slopes
from tacit.parts.objectives import BinaryCrossEntropy

THIRD_PARTY = ("slots", "matched")


@register("fedpergnn")
@dataclass(frozen=True)
class FedPerGNN(CustomMethod):
    """FedPerGNN; `hidden=0` is the released head, `clip` bounds the gradient that a client sends.

    `laplace` is the scale of the noise that a client adds to each entry of it.

    >>> FedPerGNN().sampling, FedPerGNN(negatives=False).sampling.negatives
    (Sampling(negatives=4, redraw='round'), 0)
    """

    dim: int = 64
    neighbours: int = 8
    hidden: int = 64
    negatives: bool = True
    scale: float = 1.0
    clip: float | None = None
    laplace: float = 0.0
    local: Adam = Adam(rate=0.01)
    server: Adam = Adam(rate=0.01)

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "sum"

    @property
    def sampling(self) -> Sampling:
        return Sampling(negatives=4 if self.negatives else 0)

    @property
    def sends_private(self) -> frozenset[str]:
        return frozenset({"slots"})  # a user's vector, for some items of the history

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset(THIRD_PARTY)

    @property
    def third_party(self) -> frozenset[str]:
        return frozenset(THIRD_PARTY)

    def _model(self, task: Task) -> dict[str, Initializer]:
        return {
            "items": Initializer((task.n_items, self.dim), "normal", self.scale),
            **network(self.dim, self.hidden),
        }

    def shared(self, task: Task) -> dict[str, Initializer]:
        return {
            **with_adam_state(self._model(task)),
            "slots": Initializer(
                (task.n_items, self.neighbours, self.dim + 1)
            ),  # vector, and 1 if taken
            "matched": Initializer((task.n_items,)),
        }

    def uploads(self, task: Task) -> frozenset[str]:
        return frozenset(name for name in self.shared(task) if "/" not in name)

    def private(self, task: Task) -> dict[str, Initializer]:
        return with_adam_state({"user": Initializer((self.dim,), "normal", self.scale)})

    def noise(self, task: Task) -> dict[str, Initializer]:
        drawn = {"slot": Initializer((task.n_items,), "uniform")}
        if self.laplace:
            for name, init in self._model(task).items():
                drawn[f"laplace.{name}"] = Initializer(init.shape, "uniform")
        return drawn

    def sends(self, round_number: int) -> bool:
        return True

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return without_optimizer_state(shared)

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        p = {name: value for name, value in received.items() if name not in THIRD_PARTY}
        own = {"user": private["user"]}
        own_slope, slope = grad(self._loss, argnums=(0, 1))(own, p, received["slots"], data)
        rate = self.local.rate_at(round_number, len(p["items"]))
        after = adam_step(self.local, private, own_slope, rate)
        upload = clipped(slope, self.clip)
        if self.laplace:
            upload = {
                name: value + self.laplace * laplace(data.noise[f"laplace.{name}"])
                for name, value in upload.items()
            }
        vector_D1 = torch.cat([after["user"], torch.ones_like(after["user"][:1])])
        claim_HK = self.claims(received["matched"], data)
        return after, {
            **upload,
            "slots": claim_HK[:, :, None] * vector_D1,
            "matched": data.real_H,
        }

    def claims(self, matched_I: Tensor, data: ClientData) -> Tensor:
        """Which slot of each history item this client sends its vector to, if any: 0 or 1.

        About one client draws each slot of an item, however many have it.
        """
        number_H = self.numbers(data.noise["slot"][data.history_H], matched_I[data.history_H])
        slot_K = torch.arange(self.neighbours, device=matched_I.device)
        return (number_H[:, None] == slot_K).to(data.real_H) * data.real_H[:, None]

    def numbers(self, drawn_H: Tensor, matched_H: Tensor) -> Tensor:
        """One of max(matched, neighbours) numbers for each draw in ±1.

        >>> FedPerGNN().numbers(torch.tensor([0.5]), torch.tensor([3.0])).tolist()
        [6.0]
        """
        return ((drawn_H + 1) / 2 * matched_H.clamp(min=self.neighbours)).floor()

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        mean = {k: value / n_clients for k, value in total.items() if k not in THIRD_PARTY}
        rate = self.server.rate_at(round_number, len(shared["items"]))
        after = adam_step(self.server, shared, mean, rate)
        sole = (total["slots"][:, :, -1:] - 1).abs() < 0.5
        after["slots"] = torch.where(sole, total["slots"], shared["slots"])
        reported = total["matched"] > 0
        after["matched"] = torch.where(reported, total["matched"], shared["matched"])
        return after

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        person_D = person(received, private["user"], received["slots"], data)
        return logits(received, person_D, received["items"])

    @property
    def runs_ragged(self) -> bool:
        """A bound or noise is for each client's gradient, which a ragged batch never has; and all
        clients step at once, entry by entry."""
        return self.clip is None and not self.laplace and steps_entrywise(self.local)

    def update_ragged(
        self, shared: Params, private: Params, batch: RaggedBatch, round_number: int
    ) -> Params:
        p = {k: v for k, v in without_optimizer_state(shared).items() if k not in THIRD_PARTY}
        user = torch.from_numpy(batch.user_P)
        own = {name: value[user] for name, value in private.items()}
        own_slope, total = slopes(p, shared["slots"], own["user"], batch, not self.negatives)
        rate = self.local.rate_at(round_number, len(p["items"]))
        after = adam_step(self.local, own, {"user": own_slope}, rate)
        for name, value in after.items():
            private[name][user] = value
        vector_P1 = torch.cat([after["user"], torch.ones_like(after["user"][:, :1])], 1)
        item_N = batch.history.item_N
        drawn_N = batch.noise_at("slot", np.repeat(batch.user_P, batch.history.size_U), item_N)
        number_N = self.numbers(drawn_N, shared["matched"][torch.from_numpy(item_N)])
        return {
            **{name: value.double() for name, value in total.items()},
            "slots": claimed_slots(number_N, vector_P1, batch, shared["slots"].shape),
            "matched": matches(batch, len(shared["matched"])),
        }

    def score_ragged(
        self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
    ) -> Tensor:
        return ragged_scores(shared, shared["slots"], private["user"][user_B], history)

    def interpretation(self) -> list[str]:
        return [
            "the third party reads which items a client matches, and for some of them its vector",
            "the server uses only the sum of the gradients; without secure aggregation it reads "
            "which items a client trained on: the rows that are not zero"
            + (", up to Laplace noise" if self.laplace else ""),
        ]

    def _loss(self, own: Params, p: Params, slots: Tensor, data: ClientData) -> Tensor:
        person_D = person(p, own["user"], slots, data)
        logit_N = logits(p, person_D, p["items"][data.item_N])
        if self.negatives:
            return BinaryCrossEntropy().loss(logit_N, data.label_N, data.weight_N)
        return (data.weight_N * (torch.sigmoid(logit_N) - data.label_N) ** 2).sum()


def laplace(drawn: Tensor) -> Tensor:
    """Standard Laplace numbers from uniform ones in ±1.

    >>> round(laplace(torch.tensor([-0.5])).item(), 4)
    -0.6931
    """
    return -drawn.sign() * torch.log1p(-drawn.abs())


METHODS["fedpergnn"] = Entry(
    build=FedPerGNN,
    summary="graph of a client's items and their anonymous other users",
    rounds=100,
    protocol="pfedrec",
    presets={"paper": {}, "released": {"negatives": False, "hidden": 0}},
    chosen={"paper": Chosen(("ml-100k",), tried=3)},
)
