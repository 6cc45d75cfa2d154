"""The planted dataset: what it promises about structure, words, pictures and truth."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tacit.data.dataset import Dataset
from tacit.data.digest import digest_of
from tacit.data.planted import GENRES, SHORTEST_HISTORY, planted_dataset
from tacit.data.protocol import CLEAN, Protocol, SplitRule
from tacit.data.split import split_dataset
from tacit.data.views import HeldOut, Split
from tacit.errors import TacitError


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted_dataset()


def train_matrix(split: Split) -> np.ndarray:
    positives = split.train.positives
    train_UI = np.zeros((split.train.n_users, split.train.n_items))
    train_UI[np.repeat(np.arange(len(positives)), positives.size_U), positives.item_N] = 1
    return train_UI


def hit_rate(score_UI: np.ndarray, part: HeldOut, k: int = 10) -> np.ndarray:
    """HR@k per evaluated user over the full ranking; ties count with their expectation."""
    hits = []
    for e, user in enumerate(part.user_E):
        score_I = score_UI[user].copy()
        score_I[part.masked[e]] = -np.inf
        target = score_I[part.relevant[e][0]]
        above, tied = (score_I > target).sum(), (score_I == target).sum()
        hits.append(np.clip((k - above) / tied, 0, 1))
    return np.array(hits)


def ease(train_UI: np.ndarray, penalty: float = 30.0) -> np.ndarray:
    inverse_II = np.linalg.inv(train_UI.T @ train_UI + penalty * np.eye(train_UI.shape[1]))
    weight_II = -inverse_II / np.diag(inverse_II)
    np.fill_diagonal(weight_II, 0)
    return np.asarray(train_UI @ weight_II)


def test_content_is_encoded_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("pictures were encoded")

    monkeypatch.setattr("tacit.data.planted.picture_rows", refuse)
    data = planted_dataset(seed=77, n_users=20, n_items=30)
    digest = digest_of(data, np.zeros(len(data.interactions), np.int8))
    assert sorted(data.modalities) == sorted(digest.content) == ["image", "text"]
    assert "image" in data.modalities
    assert "image" in digest.content
    assert data.modalities["text"] is data.modalities["text"]
    assert list(digest.reading(["text"]).content) == ["text"]
    with pytest.raises(AssertionError, match="pictures"):
        digest.reading(["image"])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_structure_can_be_learnt_and_popularity_counts_for_something(seed: int) -> None:
    split = split_dataset(planted_dataset(seed), CLEAN)
    train_UI = train_matrix(split)
    n_users, n_items = train_UI.shape
    chance = np.mean([10 / (n_items - len(split.test.masked[e])) for e in range(n_users)])
    popular = hit_rate(np.tile(train_UI.sum(axis=0), (n_users, 1)), split.test).mean()
    learnt = hit_rate(ease(train_UI), split.test).mean()
    assert popular > 1.8 * chance
    assert learnt > 1.5 * popular


def test_structure_is_there_for_every_kind_of_person(dataset: Dataset) -> None:
    split = split_dataset(dataset, CLEAN)
    hits = hit_rate(ease(train_matrix(split)), split.test)
    by_text_U = dataset.truth["modality_preference_U"]
    popular = train_matrix(split).sum(axis=0)
    base = hit_rate(np.tile(popular, (len(by_text_U), 1)), split.test).mean()
    for kind in (0.0, 0.5, 1.0):
        assert (by_text_U == kind).sum() == 100
        assert hits[by_text_U == kind].mean() > 1.3 * base


def test_text_people_follow_genres_and_image_people_follow_styles(dataset: Dataset) -> None:
    rows, truth = dataset.interactions, dataset.truth
    agreement = {}
    for sense in ("text", "image"):
        match_UI = truth[f"{sense}_taste_UK"] @ truth[f"{sense}_latent_IK"].T
        lift_N = match_UI[rows.user_N, rows.item_N] - match_UI.mean(axis=1)[rows.user_N]
        kind_N = truth["modality_preference_U"][rows.user_N]
        agreement[sense] = [float(lift_N[kind_N == kind].mean()) for kind in (0.0, 0.5, 1.0)]
    assert agreement["text"][2] > agreement["text"][1] > 0.1 > abs(agreement["text"][0])
    assert agreement["image"][0] > agreement["image"][1] > 0.1 > abs(agreement["image"][2])


def test_genre_and_style_are_separate_factors(dataset: Dataset) -> None:
    genre_I = dataset.truth["text_latent_IK"].argmax(axis=1)
    style_I = dataset.truth["image_latent_IK"].argmax(axis=1)
    table = np.zeros((6, 6))
    np.add.at(table, (genre_I, style_I), 1)
    expected = table.sum(axis=1)[:, None] * table.sum(axis=0) / table.sum()
    assert ((table - expected) ** 2 / expected).sum() < 52.6  # 0.999, 25 degrees of freedom


def test_shape_of_the_data(dataset: Dataset) -> None:
    rows = dataset.interactions
    assert (rows.n_users, rows.n_items) == (300, 240)
    size_U = np.bincount(rows.user_N)
    assert size_U.min() >= SHORTEST_HISTORY
    assert 22 < size_U.mean() < 28
    assert size_U.max() > 60
    assert len(np.unique(rows.user_N * 240 + rows.item_N)) == len(rows)
    assert rows.time_N is not None
    assert (np.diff(rows.time_N) >= 0).all()  # a log, in order of time
    assert sorted(dataset.modalities) == ["image", "text"]
    by_time = split_dataset(dataset, Protocol(split=SplitRule(kind="global_time")))
    assert by_time.counts["evaluated_users"] > 150


def test_codes_follow_first_appearance_and_truth_follows_codes(dataset: Dataset) -> None:
    rows, truth = dataset.interactions, dataset.truth
    for code_N in (rows.user_N, rows.item_N):
        _, first = np.unique(code_N, return_index=True)
        assert (np.diff(first) > 0).all()
    # Histories agree with the scores only if both use the same codes.
    score_UI = truth["true_score_UI"]
    chosen = score_UI[rows.user_N, rows.item_N].mean()
    assert chosen > score_UI.mean() + 1.0
    assert chosen > score_UI[rows.user_N, np.roll(rows.item_N, 1)].mean() + 0.5
    liking_UI = truth["modality_preference_U"][:, None] * (
        truth["text_taste_UK"] @ truth["text_latent_IK"].T
    ) + (1 - truth["modality_preference_U"])[:, None] * (
        truth["image_taste_UK"] @ truth["image_latent_IK"].T
    )
    assert np.allclose(score_UI, 8.0 * liking_UI + truth["popularity_I"])


def test_words_tell_the_genre(dataset: Dataset) -> None:
    titles, descriptions = dataset.texts["title"], dataset.texts["description"]
    assert len(set(titles)) == len(titles) == len(descriptions) == 240
    vocabulary = [set(genre.things) for genre in GENRES]
    guesses = []
    for item, (title, description) in enumerate(zip(titles, descriptions, strict=True)):
        _, adjective, noun = title.split()
        genre = GENRES[dataset.truth["text_latent_IK"][item].argmax()]
        assert adjective in genre.adjectives
        assert noun in genre.nouns
        words = set(description.replace(",", " ").replace(".", " ").split())
        guesses.append(np.argmax([len(words & things) for things in vocabulary]))
    truth_I = dataset.truth["text_latent_IK"].argmax(axis=1)
    assert np.mean(np.array(guesses) == truth_I) > 0.85


def test_no_word_belongs_to_two_genres() -> None:
    for part in ("adjectives", "nouns", "things"):
        words = [word for genre in GENRES for word in getattr(genre, part)]
        assert len(words) == len(set(words))


def test_pictures_tell_the_style(dataset: Dataset) -> None:
    image_IHWC = dataset.truth["image_IHWC"]
    assert image_IHWC.shape == (240, 32, 32, 3)
    assert image_IHWC.dtype == np.uint8
    style_I = dataset.truth["image_latent_IK"].argmax(axis=1)
    flat_IP = image_IHWC.reshape(240, -1).astype(float)
    half = np.arange(240) % 2 == 0
    centre_KP = np.stack([flat_IP[half & (style_I == style)].mean(axis=0) for style in range(6)])
    distance_IK = ((flat_IP[~half, None] - centre_KP) ** 2).sum(axis=2)
    assert np.mean(distance_IK.argmin(axis=1) == style_I[~half]) > 0.9


def test_same_seed_same_dataset(dataset: Dataset) -> None:
    again, other = planted_dataset(0), planted_dataset(1)
    assert np.array_equal(again.interactions.item_N, dataset.interactions.item_N)
    assert again.texts == dataset.texts
    for name, value in dataset.truth.items():
        assert np.array_equal(again.truth[name], value), name
    assert not np.array_equal(other.interactions.item_N[:100], dataset.interactions.item_N[:100])


def test_rules_reach_the_truth(dataset: Dataset) -> None:
    rows = dataset.interactions
    kept = dataset.keep((rows.user_N >= 100) & (rows.item_N % 2 == 1), "some")
    users = [rows.users.index(name) for name in kept.interactions.users]
    items = [rows.items.index(name) for name in kept.interactions.items]
    assert (len(users), len(items)) == (200, 120)
    for name, wanted in (
        ("true_score_UI", dataset.truth["true_score_UI"][np.ix_(users, items)]),
        ("image_IHWC", dataset.truth["image_IHWC"][items]),
        ("text_taste_UK", dataset.truth["text_taste_UK"][users]),
        ("modality_preference_U", dataset.truth["modality_preference_U"][users]),
    ):
        assert np.array_equal(kept.truth[name], wanted), name
    assert kept.texts["title"] == tuple(dataset.texts["title"][item] for item in items)


def test_other_sizes_and_time() -> None:
    start = time.process_time()
    large = planted_dataset(seed=5, n_users=600, n_items=1200, mean_history=40)
    assert time.process_time() - start < 5  # of which encoding takes most
    titles = large.texts["title"]
    assert len(set(titles)) == len(titles) == large.interactions.n_items
    assert any("Volume 2" in title for title in titles)
    assert np.bincount(large.interactions.user_N).mean() > 36


@pytest.mark.parametrize(
    "sizes", [{"n_users": 0}, {"n_items": 20}, {"mean_history": 8.0}, {"n_items": -1}]
)
def test_impossible_datasets(sizes: dict[str, int]) -> None:
    with pytest.raises(TacitError, match="cannot be made; use at least 1 user, 24 items"):
        planted_dataset(**sizes)
