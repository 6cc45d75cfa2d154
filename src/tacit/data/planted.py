"""The embedded default dataset: a small planted world in which everything is known.

Each item has a text genre (in its title and description) and, independently, an image style (in its
picture). Each person has a taste for genres and a taste for styles, and chooses by text, by image
or by both; popular items are chosen more often. `truth` holds all of it, so that a method can be
asked not only whether it ranks well but whether it found what is there.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tacit.content.colours import Colours
from tacit.content.ngrams import NGrams
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.modalities import FeatureTable, Modalities
from tacit.data.planted_images import STYLES, draw_images
from tacit.data.planted_words import GENRES, write_descriptions, write_titles
from tacit.errors import TacitError
from tacit.streams import WORLD, name_of, numpy_generator

SHORTEST_HISTORY = 8
_YEAR = 365 * 24 * 3600
_FIRST_DAY = 1_704_067_200  # 1 January 2024, in seconds


@lru_cache(maxsize=4)  # a pure function, and drawing and encoding pictures takes half a second
def planted_dataset(
    seed: int = 0,
    n_users: int = 300,
    n_items: int = 240,
    mean_history: float = 25.0,
    taste: float = 8.0,
    skew: float = 0.5,
) -> Dataset:
    """A planted world; `taste` is how much taste weighs in a choice, `skew` how much popularity.

    Items that nobody chose are not part of it. Codes follow first appearance in time, as in a log.

    >>> world = planted_dataset(n_users=40, n_items=60)
    >>> world.interactions.n_users, sorted(world.texts)
    (40, ['description', 'title'])
    >>> {name: table.value_IF.shape[1] for name, table in world.modalities.items()}
    {'text': 256, 'image': 256}
    >>> world.truth["image_IHWC"].shape[1:], world.truth["modality_preference_U"][:1].shape
    ((32, 32, 3), (1,))
    """
    if n_users < 1 or n_items < 3 * SHORTEST_HISTORY or mean_history <= SHORTEST_HISTORY:
        raise TacitError(
            f"A planted world of {n_users} users, {n_items} items and {mean_history:g} "
            "interactions per user cannot be made; use at least 1 user, "
            f"{3 * SHORTEST_HISTORY} items and a mean history above {SHORTEST_HISTORY}."
        )
    generator = numpy_generator(seed, WORLD, 0, name_of("choices"))
    text_IK = _item_latents(n_items, len(GENRES), generator)
    image_IK = _item_latents(n_items, len(STYLES), generator)
    text_taste_UK = generator.dirichlet(np.full(len(GENRES), 0.25), size=n_users)
    image_taste_UK = generator.dirichlet(np.full(len(STYLES), 0.25), size=n_users)
    by_text_U = generator.permutation(np.resize([1.0, 0.5, 0.0], n_users))
    popularity_I = -skew * np.log(1 + generator.permutation(n_items))
    liking_UI = by_text_U[:, None] * (text_taste_UK @ text_IK.T)
    liking_UI += (1 - by_text_U)[:, None] * (image_taste_UK @ image_IK.T)
    score_UI = taste * liking_UI + popularity_I

    user_N, item_N, time_N = _choices(score_UI, mean_history, generator)
    interactions = Interactions.from_ids(
        np.char.add("user-", user_N.astype(str)),
        np.char.add("item-", item_N.astype(str)),
        time=time_N,
    )
    users = _first_appearance(user_N)
    items = _first_appearance(item_N)
    words = numpy_generator(seed, WORLD, 0, name_of("words"))
    pictures = numpy_generator(seed, WORLD, 0, name_of("pictures"))
    titles = write_titles(text_IK[items].argmax(axis=1), words)
    descriptions = write_descriptions(text_IK[items], words)
    image_IHWC = draw_images(image_IK[items], pictures)
    return Dataset(
        name="planted",
        interactions=interactions,
        modalities=_encoded(titles, descriptions, image_IHWC),
        texts={"title": titles, "description": descriptions},
        notes=("A planted world, made by a seeded generator: no real people, no real items.",),
        truth={
            "text_taste_UK": text_taste_UK[users],
            "image_taste_UK": image_taste_UK[users],
            "modality_preference_U": by_text_U[users],  # 1 chooses by text, 0 by image
            "text_latent_IK": text_IK[items],
            "image_latent_IK": image_IK[items],
            "popularity_I": popularity_I[items],
            "true_score_UI": score_UI[np.ix_(users, items)],
            "image_IHWC": image_IHWC,
        },
    )


def _encoded(
    titles: tuple[str, ...], descriptions: tuple[str, ...], image_IHWC: np.ndarray
) -> Modalities:
    """Texts and pictures through the encoders that need no weights, as `tacit encode` would."""
    from PIL.Image import fromarray

    texts = [f"{title} {text}" for title, text in zip(titles, descriptions, strict=True)]
    everybody_I = np.ones(len(texts), dtype=bool)
    text_IF = NGrams().encode(texts).astype(np.float32)
    image_IF = Colours().encode([fromarray(image_HWC) for image_HWC in image_IHWC])
    return Modalities(
        {
            "text": FeatureTable(text_IF, everybody_I),
            "image": FeatureTable(image_IF.astype(np.float32), everybody_I),
        }
    )


def _item_latents(n_items: int, n_kinds: int, generator: np.random.Generator) -> np.ndarray:
    """Shares of kinds per item: a main kind with 0.7 to 1, one other with the rest."""
    main_I = generator.permutation(np.resize(np.arange(n_kinds), n_items))
    other_I = (main_I + generator.integers(1, n_kinds, size=n_items)) % n_kinds
    share_I = generator.uniform(0.7, 1.0, size=n_items)
    latent_IK = np.zeros((n_items, n_kinds))
    latent_IK[np.arange(n_items), main_I] = share_I
    latent_IK[np.arange(n_items), other_I] = 1 - share_I
    return latent_IK


def _choices(
    score_UI: np.ndarray, mean_history: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Who chose what and when, as a log in order of time."""
    n_users, n_items = score_UI.shape
    extra_U = generator.gamma(1.2, (mean_history - SHORTEST_HISTORY) / 1.2, size=n_users)
    size_U = SHORTEST_HISTORY + np.asarray(extra_U).astype(np.int64)
    size_U = np.minimum(size_U, n_items // 3)
    # The largest of score plus Gumbel noise are draws without replacement with weight exp(score).
    ranked_UI = np.argsort(-(score_UI + generator.gumbel(size=score_UI.shape)), axis=1)
    chosen = [generator.permutation(ranked_UI[u, : size_U[u]]) for u in range(n_users)]
    user_N, item_N = np.repeat(np.arange(n_users), size_U), np.concatenate(chosen)
    arrival_U = np.asarray(generator.uniform(0, 0.7, size=n_users))
    moment_N = arrival_U[user_N] + (1 - arrival_U[user_N]) * generator.uniform(size=len(user_N))
    order = np.argsort(moment_N, kind="stable")
    time_N = _FIRST_DAY + (moment_N[order] * _YEAR).astype(np.int64)
    return user_N[order], item_N[order], time_N


def _first_appearance(code_N: np.ndarray) -> np.ndarray:
    """The distinct codes in order of first appearance."""
    codes, first = np.unique(code_N, return_index=True)
    return codes[np.argsort(first)]
