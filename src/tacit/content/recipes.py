"""How the feature tables of a dataset were made, for items that join later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.content.encoder import About, Encoder, Modality
from tacit.content.encoders import entry_of, load_encoder
from tacit.content.manifest import FeatureManifest, read_manifest
from tacit.content.table_files import TableFiles
from tacit.data.load import PLANTED, find_source
from tacit.data.sources import SOURCES
from tacit.errors import TacitError, shown

OUTSIDE = ("source", "batch")  # what a manifest's preprocessing says besides the encoder's own


@dataclass(frozen=True)
class Recipe:
    """The encoder of one table, with everything that decides its numbers, and what it was given.

    >>> Recipe("text", "text", About("ngrams")).about.encoder
    'ngrams'
    """

    table: str
    modality: Modality
    about: About
    columns: tuple[str, ...] = ()
    prompt: str | None = None
    placeholder: str | None = None

    def encoder(self, given: Sequence[str] = ()) -> Encoder:
        """The encoder that made the table: its own, or the one of those given that reads the same,
        which must be the same."""
        fits = [name for name in given if self.modality in entry_of(name).reads]
        made_by = self.about.encoder
        if fits and _stem(fits[0]) != _stem(made_by):
            raise TacitError(
                f"The table {self.table!r} of the training data was made by {made_by}, and "
                f"{fits[0]} would give other numbers; leave out --encoder {fits[0]}."
            )
        try:
            loaded = load_encoder(fits[0] if fits else made_by, self.modality)
        except TacitError:
            if fits or _stem(made_by) != "clip":
                raise
            raise TacitError(
                f"The table {self.table!r} of the training data was made by {made_by}, which is "
                "not here; say where it is with --encoder clip:FOLDER."
            ) from None
        if dict(loaded.about.weights) != dict(self.about.weights):
            raise TacitError(
                f"The table {self.table!r} of the training data was made by {made_by} with other "
                "weights than those here; use the same ones, or give ready-made features with "
                f"--features {self.table}=FILE.npy."
            )
        if _plain(loaded.about.preprocessing) != _plain(self.about.preprocessing):
            raise TacitError(
                f"Encoder {made_by} now prepares its input in another way than when the table "
                f"{self.table!r} of the training data was made; encode that anew and train again, "
                f"or give ready-made features with --features {self.table}=FILE.npy."
            )
        return loaded


def recipes_of(data: str, tables: Sequence[str]) -> dict[str, Recipe]:
    """The recipes of those tables of a dataset, by its name or path, whose making is known.

    >>> recipes_of("planted", ["text"])["text"].columns
    ('title', 'description')
    """
    if data == PLANTED:
        return {name: recipe for name, recipe in _planted().items() if name in tables}
    source = SOURCES.get(data)
    place = Path(data) if source is None else find_source(source)
    folder = place if place.is_dir() else place.parent
    files = {name: TableFiles(folder, name).manifest for name in tables}
    return {n: _from(read_manifest(path)) for n, path in files.items() if path.is_file()}


def _planted() -> dict[str, Recipe]:
    """As tacit.data.planted encodes its own titles, descriptions and pictures."""
    from tacit.content.colours import Colours
    from tacit.content.ngrams import NGrams

    words = Recipe("text", "text", NGrams().about, ("title", "description"))
    return {"text": words, "image": Recipe("image", "image", Colours().about)}


def _from(manifest: FeatureManifest) -> Recipe:
    own = {key: said for key, said in manifest.preprocessing.items() if key not in OUTSIDE}
    source = manifest.preprocessing.get("source", {})
    if not isinstance(source, dict) or not _is_source(source):
        raise TacitError(
            f"The manifest of the table {shown(manifest.table)} does not say what it was made of; "
            "encode again, or remove it."
        )
    return Recipe(
        manifest.table,
        "image" if manifest.modality == "image" else "text",
        About(manifest.encoder, manifest.weights, own, manifest.packages),
        tuple(source.get("columns", ())),
        source.get("prompt"),
        source.get("placeholder"),
    )


def _is_source(source: Mapping[str, Any]) -> bool:
    columns = source.get("columns", ())
    words = (source.get("prompt"), source.get("placeholder"))
    return (
        isinstance(columns, list | tuple)
        and all(isinstance(column, str) for column in columns)
        and all(word is None or isinstance(word, str) for word in words)
    )


def _stem(name: str) -> str:
    return name.partition(":")[0]


def _plain(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True)
