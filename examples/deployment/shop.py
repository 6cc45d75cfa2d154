"""A small shop: twenty products with texts and pictures, and five customers with a node each.

Everything is made here. Customers like one or two kinds of things, so that a model has something to
learn, and the product that arrives on day two is of a kind that some of them like.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from tacit.content.plain import Colours, NGrams
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.interactions import Interactions

SIDE = 48  # of a picture
COLOURS = {
    "garden": (60, 150, 60),
    "kitchen": (200, 120, 40),
    "travel": (50, 90, 190),
    "reading": (140, 60, 140),
}
PRODUCTS = {
    "garden": ("trowel", "watering can", "seed tray", "pruning shears", "rain gauge"),
    "kitchen": ("bread knife", "copper pan", "spice rack", "tea kettle", "pepper mill"),
    "travel": ("day pack", "packing cube", "neck pillow", "luggage tag", "folding cup"),
    "reading": ("book lamp", "page marker", "reading stand", "paper knife", "book box"),
}
LIKES = {  # the kinds that each customer buys, the dearest first
    "ada-the-first-canary": ("garden", "kitchen"),
    "ben-the-second-canary": ("travel", "reading"),
    "cleo-the-third-canary": ("garden", "reading"),
    "dan-the-fourth-canary": ("kitchen", "travel"),
    "eve-the-fifth-canary": ("garden", "travel"),
}
NEW = ("garden", "bulb planter")  # what arrives on day two


@dataclass(frozen=True)
class Product:
    """One product: its id, its text and the kind that its picture shows."""

    item: str
    title: str
    kind: str
    place: int


def product(kind: str, name: str, place: int) -> Product:
    return Product(f"{kind}-{name.replace(' ', '-')}", f"{name} for the {kind}", kind, place)


def products() -> list[Product]:
    return [
        product(kind, name, place)
        for kind, names in PRODUCTS.items()
        for place, name in enumerate(names)
    ]


def new_product() -> Product:
    return product(*NEW, place=5)


def picture(one: Product) -> Image.Image:
    """The colour of its kind, with a shape of its own."""
    image = Image.new("RGB", (SIDE, SIDE), COLOURS[one.kind])
    draw, inset = ImageDraw.Draw(image), 4 + 3 * one.place
    draw.ellipse((inset, inset, SIDE - inset, SIDE - 8), fill=(240, 240, 220))
    draw.line((inset, SIDE - 6, SIDE - inset, SIDE - 6), fill=(30, 30, 30), width=3)
    return image


def content(found: list[Product]) -> Modalities:
    """Texts and pictures as numbers, by the encoders that need no weights."""
    present = np.ones(len(found), dtype=bool)
    text_IF = NGrams().encode([one.title for one in found])
    image_IF = Colours().encode([picture(one) for one in found])
    return Modalities(
        {"text": FeatureTable(text_IF, present), "image": FeatureTable(image_IF, present)}
    )


def histories() -> Dataset:
    """What the customers bought so far: most of what they like, in an order of their own."""
    shelf = products()
    code = {one.item: place for place, one in enumerate(shelf)}
    rows: list[tuple[int, int, int]] = []
    for user, (name, kinds) in enumerate(LIKES.items()):
        draws = np.random.default_rng(len(name) + 31 * user)
        liked = [one.item for kind in kinds for one in shelf if one.kind == kind]
        bought = draws.permutation(liked)[:8]
        rows += [(user, code[item], 1000 + 10 * when) for when, item in enumerate(bought)]
    user_N, item_N, time_N = (
        np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)
    )
    items = tuple(one.item for one in shelf)
    bought_N = Interactions(user_N, item_N, tuple(LIKES), items, time_N)
    titles = tuple(one.title for one in shelf)
    return Dataset("shop", bought_N, content(shelf), {"title": titles})


def write(folder: Path) -> None:
    """The shop as files that a person can look at: items.csv, histories.csv and pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    shelf, data = [*products(), new_product()], histories().interactions
    (folder / "items.csv").write_text(
        "item,title\n" + "".join(f"{one.item},{one.title}\n" for one in shelf), encoding="utf-8"
    )
    lines = [
        f"{data.users[user]},{data.items[item]},{time}\n"
        for user, item, time in zip(data.user_N, data.item_N, data.time_N, strict=True)
    ]
    (folder / "histories.csv").write_text("user,item,time\n" + "".join(lines), encoding="utf-8")
    (folder / "pictures").mkdir(exist_ok=True)
    for one in shelf:
        picture(one).save(folder / "pictures" / f"{one.item}.png")


if __name__ == "__main__":
    write(Path("shop"))
    print("written to shop/")
