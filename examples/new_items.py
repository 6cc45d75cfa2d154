"""A life for new items: titles and pictures drawn here join a finished run and are recommended.

    python examples/new_items.py [ITEMS [ROUNDS]]

Nothing is fetched. The dataset is planted, so it is known who should like which of the new items.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

import tacit
from tacit.content.recipes import Given
from tacit.data.planted import (
    GENRES,
    STYLES,
    draw_images,
    planted_dataset,
    write_descriptions,
    write_titles,
)
from tacit.experiment.add_items import add_items
from tacit.experiment.recommend import OpenRun, known_scores

n_items = int(sys.argv[1]) if len(sys.argv) > 1 else 100
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
generator = np.random.default_rng(7)
genres = np.resize(np.arange(len(GENRES)), n_items)
styles = generator.integers(len(STYLES), size=n_items)
truth = planted_dataset().truth

with tempfile.TemporaryDirectory() as place:
    folder, pictures = Path(place, "run"), Path(place, "pictures")
    pictures.mkdir()
    plugin = "ridge:modalities=text+image"
    tacit.run(tacit.resolve("pfedrec", plugins=[plugin], split="time", rounds=rounds), folder)

    ids = [f"new-{number}" for number in range(n_items)]
    titles = write_titles(genres, generator)
    descriptions = write_descriptions(np.eye(len(GENRES))[genres], generator)
    table = pl.DataFrame({"item_id": ids, "title": titles, "description": descriptions})
    table.write_csv(Path(place, "new.csv"))
    for name, picture in zip(ids, draw_images(np.eye(len(STYLES))[styles], generator), strict=True):
        Image.fromarray(picture).save(pictures / f"{name}.png")

    began = time.process_time()
    added = add_items(folder, Path(place, "new.csv"), Given(("title", "description"), pictures))
    best = tacit.recommend(folder, user="user-0", k=10)
    seconds = time.process_time() - began
    print(
        f"version {added.version}: {len(added.ids)} new items, {len(added.without)} without content"
    )
    for line in best:
        print(f"{line.rank:3} {'new' if line.new else '   '} {line.item:9} {line.title}")
    print(f"{seconds:.1f} CPU seconds from titles and pictures to the list")

    run = OpenRun.of(folder)
    people = np.flatnonzero(truth["modality_preference_U"] == 1.0)[:60]  # they choose by text
    first = [int(known_scores(run, int(user))[-n_items:].argmax()) for user in people]
    liked = truth["text_taste_UK"][people].argmax(axis=1)
    share = float((genres[first] == liked).mean())
    print(f"first new item is of the genre that a person likes most: {share:.0%}, by chance 17%")
