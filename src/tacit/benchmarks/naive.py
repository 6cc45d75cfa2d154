"""The loop that one would write first: a module per client, numpy sampling, torch optimisers.

It is fair to what the field does: no deep copies, no data loader. Benchmarks compare with it.
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
