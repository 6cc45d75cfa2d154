"""Each attacker learns what it can, and nothing it is not given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.attack.attackers import ATTACKERS, PENALTIES, Standard, ridge


def dataset(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and content of 120 items; content is a function of the embedding."""
    generator = np.random.default_rng(1)
    embedding_CD = generator.normal(size=(120, 4)) * [1, 10, 100, 1] + [5, 0, 0, 0]
    centred_CD = (embedding_CD - embedding_CD.mean(axis=0)) / embedding_CD.std(axis=0)
    if kind == "linear":
        return embedding_CD, centred_CD @ generator.normal(size=(4, 3)) + 7
    return embedding_CD, np.abs(centred_CD) * [1, 20, 3, 1]


def error(name: str, kind: str) -> float:
    """The squared error on the last 40 items, as a share of that of the mean."""
    embedding_CD, content_CF = dataset(kind)
    known, unknown = slice(0, 80), slice(80, 120)
    guess_NF, mean_NF = (
        ATTACKERS[one](embedding_CD[known], content_CF[known], embedding_CD[unknown], 0)
        for one in (name, "mean")
    )
    truth_NF = content_CF[unknown]
    return float(((guess_NF - truth_NF) ** 2).sum() / ((mean_NF - truth_NF) ** 2).sum())


def test_a_linear_map_is_inverted_by_both() -> None:
    assert error("ridge", "linear") < 1e-4
    assert error("perceptron", "linear") < 0.1


def test_only_the_network_sees_a_fold() -> None:
    assert error("ridge", "fold") > 0.9
    assert error("perceptron", "fold") < 0.4


@pytest.mark.parametrize("name", ATTACKERS)
def test_same_seed_same_guess_and_no_global_randomness(name: str) -> None:
    embedding_CD, content_CF = dataset("fold")
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    one, same, other = (
        ATTACKERS[name](embedding_CD[:40], content_CF[:40], embedding_CD[40:50], seed)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (name == "perceptron") == bool((one != other).any())
    assert torch.equal(before[0], torch.random.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])


def test_ridge_leaves_out_each_item_in_turn() -> None:
    """The penalty is the one that a plain loop over left-out items would choose."""
    generator = np.random.default_rng(2)
    x_KD = generator.normal(size=(15, 6))
    y_KF = x_KD[:, :2] + generator.normal(size=(15, 2))
    scaled_KD = Standard.of(x_KD).apply(x_KD)

    def fit(rows: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mean_D, mean_F = scaled_KD[rows].mean(axis=0), y_KF[rows].mean(axis=0)
        x, y = scaled_KD[rows] - mean_D, y_KF[rows] - mean_F
        return np.linalg.solve(x.T @ x + penalty * np.eye(6), x.T @ y), mean_D, mean_F

    errors = []
    for penalty in PENALTIES:
        total = 0.0
        for left_out in range(15):
            weight_DF, mean_D, mean_F = fit(np.delete(np.arange(15), left_out), penalty)
            guess_F = (scaled_KD[left_out] - mean_D) @ weight_DF + mean_F
            total += float(((guess_F - y_KF[left_out]) ** 2).sum())
        errors.append(total)
    kept = PENALTIES[int(np.argmin(errors))]
    assert 0 < int(np.argmin(errors)) < len(PENALTIES) - 1
    weight_DF, _, mean_F = fit(np.arange(15), kept)
    new_ND = generator.normal(size=(3, 6))
    wanted_NF = Standard.of(x_KD).apply(new_ND) @ weight_DF + mean_F
    np.testing.assert_allclose(ridge(x_KD, y_KF, new_ND, 0), wanted_NF, atol=1e-10)


def test_constant_columns_do_no_harm() -> None:
    embedding_CD = np.full((30, 2), 0.1)
    embedding_CD[:, 0] = np.linspace(-1, 1, 30)
    content_CF = np.full((30, 2), 0.3)
    content_CF[:, 0] = embedding_CD[:, 0]
    for attack in ATTACKERS.values():
        guess_NF = attack(embedding_CD, content_CF, embedding_CD, 0)
        assert np.isfinite(guess_NF).all()
        np.testing.assert_allclose(guess_NF[:, 1], 0.3, atol=0.05)
