"""Titles and pictures of a planted synthetic, drawn here, encoded, and read back as a synthetic.

    python examples/encode_items.py [ITEMS [TEXT_ENCODER IMAGE_ENCODER]]

Nothing is fetched. Every twentieth item has no picture, one picture is damaged.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

from tacit.content.encode import encode_table
from tacit.content.encoders import load_encoder
from tacit.content.sources import Images, Texts, read_items
from tacit.data.load import load
from tacit.data.planted import planted_dataset

n_items = int(sys.argv[1]) if len(sys.argv) > 1 else 500
text_encoder, image_encoder = sys.argv[2:4] if len(sys.argv) > 3 else ("ngrams", "colours")
synthetic = planted_dataset(n_users=n_items, n_items=n_items, mean_history=12.0)


def agreement(value_IF: np.ndarray, present_I: np.ndarray, kind_I: np.ndarray) -> float:
    """How often the item nearest to another one is of its kind."""
    row_ND, kind_N = value_IF[present_I], kind_I[present_I]
    near_NN = row_ND @ row_ND.T
    np.fill_diagonal(near_NN, -2.0)
    return float((kind_N[near_NN.argmax(axis=1)] == kind_N).mean())


with tempfile.TemporaryDirectory() as place:
    folder, pictures = Path(place), Path(place, "pictures")
    pictures.mkdir()
    log = synthetic.interactions
    pl.DataFrame(
        {
            "user_id": [log.users[user] for user in log.user_N],
            "item_id": [log.items[item] for item in log.item_N],
        }
    ).write_csv(folder / "interactions.csv")
    pl.DataFrame({"item_id": log.items, **synthetic.texts}).write_csv(folder / "items.csv")
    for number, item in enumerate(log.items):
        if number % 20:
            Image.fromarray(synthetic.truth["image_IHWC"][number]).save(pictures / f"{item}.png")
    (pictures / f"{log.items[1]}.png").write_bytes(b"not a picture any more")

    items = read_items(folder / "items.csv", ["title", "description"])
    for source, name in (
        (Texts.of(items), text_encoder),
        (Images.of(items, pictures), image_encoder),
    ):
        done = encode_table(source, load_encoder(name, source.modality), folder).manifest
        print(
            f"{done.table:6} {done.encoder}: {done.rows} of {done.items} items, {done.missing} "
            f"without, {len(done.corrupt)} damaged"
        )

    dataset = load(folder)
    for name in ("text", "image"):
        # Interactions list the items in the dataset's own order, so its truth fits row by row.
        table, kinds = dataset.modalities[name], synthetic.truth[f"{name}_latent_IK"].argmax(axis=1)
        share = agreement(table.value_IF, table.present_I, kinds)
        print(f"{name:6} nearest item is of the same kind: {share:.0%}, by chance 17%")
