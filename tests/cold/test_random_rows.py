"""Random rows have the warm table's distribution, and rank at chance."""

from __future__ import annotations

import numpy as np
import torch

from tacit.parts.cold.simple import RandomRows


def test_rows_have_the_distribution_of_the_table() -> None:
    generator = np.random.default_rng(0)
    drawn = generator.normal(size=(300, 3)) * [1.0, 5.0, 0.0] + [0.0, 2.0, -1.0]
    table = torch.from_numpy(drawn.astype(np.float32))
    p = RandomRows().fit({}, table, torch.zeros(300, 0), 1, generator)
    noise = torch.from_numpy(generator.normal(size=(20000, 1, 3)).astype(np.float32))
    rows = RandomRows().generate(p, torch.zeros(20000, 0), noise)
    torch.testing.assert_close(rows.mean(0), table.mean(0), atol=0.1, rtol=0.0)
    torch.testing.assert_close(rows.std(0), table.std(0), atol=0.1, rtol=0.0)


def test_recall_is_at_chance() -> None:
    """Fifty draws, fixed users: recall@20 of 200 cold items within 3 standard errors of 0.1."""
    generator = np.random.default_rng(1)
    table = torch.from_numpy(generator.normal(1.0, 2.0, size=(400, 16)).astype(np.float32))
    user_UD = torch.from_numpy(generator.normal(size=(60, 16)).astype(np.float32))
    wanted_UC = torch.from_numpy(generator.random((60, 200)) < 0.03)
    wanted_UC[:, 0] = True  # one item that everybody wants, as real cold items have
    p = RandomRows().fit({}, table, torch.zeros(400, 0), 1, generator)
    recall = []
    for _ in range(50):
        noise = torch.from_numpy(generator.normal(size=(200, 1, 16)).astype(np.float32))
        rows = RandomRows().generate(p, torch.zeros(200, 0), noise)
        top_UK = (user_UD @ rows.T).topk(20, dim=1).indices
        hits_U = wanted_UC.gather(1, top_UK).sum(1)
        recall.append((hits_U / wanted_UC.sum(1)).mean().item())
    error = np.std(recall, ddof=1) / 50**0.5
    assert abs(np.mean(recall) - 0.1) < 3 * error
    assert error < 0.01
