"""The loops that one would write first: modules, autograd, numpy sampling, torch optimisers.

They are fair to what the field does: no deep copies, no data loader; with fused items one module
for all clients. Benchmarks compare with them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tacit.data.views import TrainView


class Client(nn.Module):
    """PFedRec's client: an item table and a linear scorer."""

    def __init__(self, n_items: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(n_items, dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.table(items)).squeeze(-1)
        return logits


def sample(
    positives: np.ndarray, n_items: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positives and four negatives each, by rejection, shuffled."""
    negatives = generator.integers(n_items, size=4 * len(positives))
    while (again := np.isin(negatives, positives)).any():
        negatives[again] = generator.integers(n_items, size=int(again.sum()))
    items = np.concatenate([positives, negatives])
    labels = np.concatenate([np.ones(len(positives)), np.zeros(len(negatives))])
    order = generator.permutation(len(items))
    return items[order], labels[order].astype(np.float32)


class NaiveFederation:
    """One round after another: each client takes the global table, trains, and gives it back."""

    def __init__(self, train: TrainView, dim: int = 32, rate: float = 0.1) -> None:
        self.train, self.rate = train, rate
        self.client = Client(train.n_items, dim)
        self.table = self.client.table.weight.detach().clone()
        head = (self.client.head.weight.detach().clone(), self.client.head.bias.detach().clone())
        self.heads = [(head[0].clone(), head[1].clone()) for _ in range(train.n_users)]
        self.generator = np.random.default_rng(0)

    def round(self) -> None:
        total = torch.zeros_like(self.table, dtype=torch.float64)
        loss_function = nn.BCEWithLogitsLoss()
        for user in range(self.train.n_users):
            with torch.no_grad():
                self.client.table.weight.copy_(self.table)
                self.client.head.weight.copy_(self.heads[user][0])
                self.client.head.bias.copy_(self.heads[user][1])
            n_items = self.train.n_items
            scorer = torch.optim.SGD(self.client.head.parameters(), lr=self.rate)
            items = torch.optim.SGD(self.client.table.parameters(), lr=self.rate * 80 * n_items)
            item_N, label_N = sample(self.train.positives[user], n_items, self.generator)
            for begin in range(0, len(item_N), 256):
                batch = torch.from_numpy(item_N[begin : begin + 256])
                label = torch.from_numpy(label_N[begin : begin + 256])
                for optimiser in (scorer, items):
                    self.client.zero_grad()
                    loss_function(self.client(batch), label).backward()
                    optimiser.step()
            with torch.no_grad():
                total += self.client.table.weight
                self.heads[user][0].copy_(self.client.head.weight)
                self.heads[user][1].copy_(self.client.head.bias)
        self.table = (total / self.train.n_users).float()


# Fused items: gradients of the item side simply add up in one module for all clients, and only
# what is private is stepped and put back.


class FusedItems(nn.Module):
    """Id, text and image, projected and fused by a sum, a perceptron and gates."""

    def __init__(self, n_items: int, content: dict[str, torch.Tensor], dim: int) -> None:
        super().__init__()
        self.content = content
        self.table = nn.Embedding(n_items, 512)
        sizes = {"id": 512} | {name: table.shape[1] for name, table in content.items()}
        self.project = nn.ModuleDict({name: nn.Linear(size, dim) for name, size in sizes.items()})
        self.gates = nn.ModuleDict({name: nn.Linear(dim, dim) for name in sizes})
        wide = dim * len(sizes)
        self.perceptron = nn.Sequential(nn.Linear(wide, 128), nn.ReLU(), nn.Linear(128, dim))
        self.gate = nn.Linear(wide, dim)

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        inputs = {"id": self.table(items)}
        inputs |= {name: table[items] for name, table in self.content.items()}
        x = {name: self.project[name](value) for name, value in inputs.items()}
        gates = [torch.sigmoid(self.gates[name](value)) for name, value in x.items()]
        views = (
            torch.stack(list(x.values())).sum(0),
            self.perceptron(torch.cat(list(x.values()), -1)),
            self.gate(torch.cat(gates, -1)),
        )
        return torch.stack(views, dim=1)


class Reader(nn.Module):
    """What is private: a router over the views of the own history, and a linear predictor."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.router = nn.Sequential(nn.Linear(3 * dim, 64), nn.ReLU(), nn.Linear(64, 3))
        self.predictor = nn.Linear(dim, 1)

    def forward(self, views: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.router(history.flatten(1)).mean(0), dim=-1)
        logits: torch.Tensor = self.predictor((weights[:, None] * views).sum(1)).squeeze(-1)
        return logits


class NaiveFusion:
    """Rounds of some clients; the server's step at the end of a round is left out."""

    def __init__(self, train: TrainView, dim: int = 64, rate: float = 0.1, epochs: int = 5) -> None:
        self.train, self.rate, self.epochs = train, rate, epochs
        content = {
            name: torch.from_numpy(table.value_IF) for name, table in train.content.tables.items()
        }
        self.items, self.reader = FusedItems(train.n_items, content, dim), Reader(dim)
        self.first = {name: value.clone() for name, value in self.reader.state_dict().items()}
        self.kept: dict[int, dict[str, torch.Tensor]] = {}
        self.generator = np.random.default_rng(0)

    def round(self, users: np.ndarray) -> None:
        loss_function = nn.BCEWithLogitsLoss()
        for user in users.tolist():
            self.reader.load_state_dict(self.kept.get(user, self.first))
            optimiser = torch.optim.SGD(self.reader.parameters(), lr=self.rate)
            positives = self.train.positives[user]
            history = torch.from_numpy(positives)
            for _ in range(self.epochs):
                item_N, label_N = sample(positives, self.train.n_items, self.generator)
                optimiser.zero_grad()
                views = self.items(torch.from_numpy(item_N))
                logits = self.reader(views, self.items(history))
                loss_function(logits, torch.from_numpy(label_N)).backward()
                optimiser.step()
            self.kept[user] = {k: v.clone() for k, v in self.reader.state_dict().items()}
