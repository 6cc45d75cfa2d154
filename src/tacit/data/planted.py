"""The embedded default dataset: small, synthetic, and with a known truth in every respect."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacit.data.dataset import Dataset, FeatureTable, MadeWhenRead, Modalities
from tacit.data.interactions import Interactions
from tacit.data.plain_features import picture_rows, text_rows
from tacit.errors import TacitError
from tacit.streams import SYNTHETIC, name_of, numpy_generator

# Titles and descriptions of the planted dataset: the words of an item tell its text genre.


@dataclass(frozen=True)
class Genre:
    """The words of one text genre; a word belongs to one genre only.

    >>> GENRES[0].name, GENRES[0].nouns[0]
    ('sea', 'Harbour')
    """

    name: str
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    things: tuple[str, ...]


def _genre(name: str, adjectives: str, nouns: str, things: str) -> Genre:
    return Genre(name, tuple(adjectives.split()), tuple(nouns.split()), tuple(things.split()))


GENRES = (
    _genre(
        "sea",
        "Quiet Salted Drifting Tidal Windward Becalmed Seafaring Brackish",
        "Harbour Lighthouse Lagoon Schooner Estuary Jetty Reef Anchorage",
        "tides sails gulls anchors driftwood currents lanterns ropes shells fishermen storms buoys",
    ),
    _genre(
        "city",
        "Lamplit Crowded Rainlit Restless Towering Bustling Midnight Paved",
        "Boulevard Arcade Rooftop Tramline Crossing Underpass Terminus Newsstand",
        "taxis streetlamps neighbours sirens stairwells headlines elevators crowds bridges alleys "
        "billboards commuters",
    ),
    _genre(
        "forest",
        "Mossy Whispering Fernclad Dappled Rooted Evergreen Rustling Hollow",
        "Thicket Clearing Orchard Birchwood Bramble Grove Meadow Copse",
        "foxes mushrooms branches owls berries hedgehogs leaves footpaths saplings brooks badgers "
        "pinecones",
    ),
    _genre(
        "space",
        "Orbiting Weightless Lunar Distant Stellar Uncharted Magnetic Eclipsed",
        "Observatory Comet Airlock Satellite Capsule Nebula Starfield Beacon",
        "rockets telescopes planets astronauts signals asteroids gravity moons engines craters "
        "constellations probes",
    ),
    _genre(
        "kitchen",
        "Buttered Simmering Peppered Toasted Sugared Crusty Spiced Ripened",
        "Bakery Teapot Pantry Dumpling Cauldron Saucepan Marmalade Tavern",
        "recipes loaves spoons spices ovens pastries cooks onions aprons honey cinnamon broth",
    ),
    _genre(
        "winter",
        "Frosted Snowbound Glacial Northern Icebound Hushed Woollen Polar",
        "Sledge Chalet Avalanche Icicle Summit Blizzard Toboggan Fjord",
        "snowflakes skates blankets glaciers mittens wolves peaks fireplaces sleighs reindeer "
        "icebergs scarves",
    ),
)

_FIRST = (
    "A tale of {} and {}, told with patience.",
    "Where {} meet {}, an old promise comes due.",
    "Two strangers follow {} and {} to the end of the season.",
    "Everything changes on the day of the {} and the {}.",
)
_SECOND = (
    "Full of {}, {} and second chances.",
    "A small wonder, made of {} and {}.",
    "Come for the {}, stay for the {}.",
    "It lingers like {} among {}.",
)


def write_titles(genre_I: np.ndarray, generator: np.random.Generator) -> tuple[str, ...]:
    """A distinct title per item, from the words of its genre; long series get volume numbers.

    >>> title, again = write_titles(np.array([0, 0]), np.random.default_rng(0))
    >>> title != again, title.split()[-1] in GENRES[0].nouns
    (True, True)
    """
    titles = [""] * len(genre_I)
    for number, genre in enumerate(GENRES):
        pairs = [
            f"The {adjective} {noun}" for adjective in genre.adjectives for noun in genre.nouns
        ]
        order = generator.permutation(len(pairs))
        for k, item in enumerate(np.flatnonzero(genre_I == number)):
            volume, pair = divmod(k, len(pairs))
            titles[item] = pairs[order[pair]] + (f", Volume {volume + 1}" if volume else "")
    return tuple(titles)


def write_descriptions(text_IK: np.ndarray, generator: np.random.Generator) -> tuple[str, ...]:
    """Two sentences per item; each of the four words comes from a genre with its share in the item.

    >>> words = write_descriptions(np.eye(6)[:1], np.random.default_rng(0))[0].replace(",", " ")
    >>> sum(thing in words.replace(".", " ").split() for thing in GENRES[0].things)
    4
    """
    descriptions = []
    for text_K in text_IK:
        decks = [list(generator.permutation(genre.things)) for genre in GENRES]
        genres = generator.choice(len(GENRES), size=4, p=text_K)
        words = [str(decks[genre].pop()) for genre in genres]
        first, second = generator.choice(_FIRST), generator.choice(_SECOND)
        descriptions.append(f"{first.format(*words[:2])} {second.format(*words[2:])}")
    return tuple(descriptions)


# Pictures of the planted dataset: the shape and colour of an item tell its image style.

SIDE = 32  # pixels
STYLES = (
    "red disc",
    "blue square",
    "green triangle",
    "yellow ring",
    "violet stripes",
    "teal cross",
)
_COLOURS = np.array(
    [[205, 60, 55], [50, 90, 200], [60, 150, 70], [225, 180, 40], [130, 70, 170], [40, 165, 165]]
)
_PAPER = 232  # the background, a light grey


def draw_images(image_IK: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One picture per item, uint8 (I, 32, 32, 3): a large figure of its main style, a small second.

    >>> draw_images(np.eye(6), np.random.default_rng(0)).shape
    (6, 32, 32, 3)
    """
    canvas_IHWC = np.full((len(image_IK), SIDE, SIDE, 3), float(_PAPER))
    for item, image_K in enumerate(image_IK):
        main, second = np.argsort(-image_K, kind="stable")[:2]
        centre = generator.uniform(11, 17, size=2)
        _paint(canvas_IHWC[item], main, centre, 7 + 4 * image_K[main], generator)
        if image_K[second] > 0:
            _paint(canvas_IHWC[item], second, np.array([26.0, 26.0]), 5.0, generator)
    canvas_IHWC += generator.normal(0, 6, size=canvas_IHWC.shape)
    return np.clip(canvas_IHWC, 0, 255).astype(np.uint8)


def _paint(
    canvas_HWC: np.ndarray,
    style: int,
    centre: np.ndarray,
    radius: float,
    generator: np.random.Generator,
) -> None:
    colour = _COLOURS[style] + generator.normal(0, 12, size=3)
    canvas_HWC[_figure(style, centre, radius)] = colour


def _figure(style: int, centre: np.ndarray, radius: float) -> np.ndarray:
    """The pixels of one figure, as a mask."""
    down, right = np.mgrid[0:SIDE, 0:SIDE] - centre[:, None, None]
    distance = np.hypot(down, right)
    square = np.maximum(np.abs(down), np.abs(right)) <= 0.85 * radius
    figures = (
        distance <= radius,
        square,
        (np.abs(down) <= radius) & (np.abs(right) <= (down + radius) / 2),
        (distance <= radius) & (distance >= 0.55 * radius),
        square & (np.floor(down) % 4 < 2),
        square & (np.minimum(np.abs(down), np.abs(right)) <= 0.3 * radius),
    )
    return np.asarray(figures[style])


# The embedded default dataset: a small planted dataset in which everything is known.
#
# Each item has a text genre (in its title and description) and, independently, an image style (in
# its picture). Each person has a taste for genres and a taste for styles, and chooses by text, by
# image or by both; popular items are chosen more often. `truth` holds all of it, so that a method
# can be asked not only whether it ranks well but whether it found what is there.

SHORTEST_HISTORY = 8
_YEAR = 365 * 24 * 3600
_FIRST_DAY = 1_704_067_200  # 1 January 2024, in seconds


@lru_cache(maxsize=4)  # a pure function, and drawing and encoding pictures takes a while
def planted_dataset(
    seed: int = 0,
    n_users: int = 300,
    n_items: int = 240,
    mean_history: float = 25.0,
    taste: float = 8.0,
    skew: float = 0.5,
) -> Dataset:
    """A planted dataset; `taste` is how much taste weighs in a choice, `skew` how much popularity.

    Items that nobody chose are not part of it. Codes follow first appearance in time, as in a log.

    >>> dataset = planted_dataset(n_users=40, n_items=60)
    >>> dataset.interactions.n_users, sorted(dataset.texts)
    (40, ['description', 'title'])
    >>> {name: table.value_IF.shape[1] for name, table in dataset.modalities.items()}
    {'text': 256, 'image': 256}
    >>> dataset.truth["image_IHWC"].shape[1:], dataset.truth["modality_preference_U"][:1].shape
    ((32, 32, 3), (1,))
    """
    if n_users < 1 or n_items < 3 * SHORTEST_HISTORY or mean_history <= SHORTEST_HISTORY:
        raise TacitError(
            f"A planted dataset of {n_users} users, {n_items} items and {mean_history:g} "
            "interactions per user cannot be made; use at least 1 user, "
            f"{3 * SHORTEST_HISTORY} items and a mean history above {SHORTEST_HISTORY}."
        )
    generator = numpy_generator(seed, SYNTHETIC, 0, name_of("choices"))
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
    words = numpy_generator(seed, SYNTHETIC, 0, name_of("words"))
    pictures = numpy_generator(seed, SYNTHETIC, 0, name_of("pictures"))
    titles = write_titles(text_IK[items].argmax(axis=1), words)
    descriptions = write_descriptions(text_IK[items], words)
    image_IHWC = draw_images(image_IK[items], pictures)
    return Dataset(
        name="planted",
        interactions=interactions,
        modalities=_encoded(titles, descriptions, image_IHWC),
        texts={"title": titles, "description": descriptions},
        notes=("A planted dataset, made by a seeded generator: no real people, no real items.",),
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
    """Texts and pictures through the encoders that need no weights, as `tacit encode` would.

    Methods without content never read them, so each is encoded when it is first read.
    """

    def text() -> FeatureTable:
        texts = [f"{title} {text}" for title, text in zip(titles, descriptions, strict=True)]
        return FeatureTable(text_rows(texts).astype(np.float32), everybody_I)

    def image() -> FeatureTable:
        from PIL.Image import fromarray

        image_IF = picture_rows([fromarray(image_HWC) for image_HWC in image_IHWC])
        return FeatureTable(image_IF.astype(np.float32), everybody_I)

    everybody_I = np.ones(len(titles), dtype=bool)
    return Modalities(MadeWhenRead({"text": text, "image": image}))


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
