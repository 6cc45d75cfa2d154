"""Titles and descriptions of the planted world: the words of an item tell its text genre."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
