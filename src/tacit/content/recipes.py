"""How the tables of a dataset were made, and the same made again for items that join later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit.content.encode import BATCH, Source, about_of, batches_of, encode_batch
from tacit.content.encoders import About, Encoder, Modality, entry_of, load_encoder
from tacit.content.sources import Images, Items, Texts
from tacit.content.tables import TableFiles
from tacit.data.dataset import FeatureTable
from tacit.data.load import PLANTED, find_source
from tacit.data.readers.features import read_array
from tacit.data.readers.manifest import FeatureManifest, read_manifest
from tacit.data.sources import SOURCES
from tacit.errors import TacitError, nearest, shown

# How the feature tables of a dataset were made, for items that join later.

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
    if source is not None and source.load is not None:
        return {}
    place = Path(data) if source is None else find_source(source)
    folder = place if place.is_dir() else place.parent
    files = {name: TableFiles(folder, name).manifest for name in tables}
    return {n: _from(read_manifest(path)) for n, path in files.items() if path.is_file()}


def _planted() -> dict[str, Recipe]:
    """As tacit.data.planted encodes its own titles, descriptions and pictures."""
    from tacit.content.plain import Colours, NGrams

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


# The content of items that join later, encoded as that of the training data was.

TITLE = "title"
READY_MADE = "ready-made"
NOTHING = "nothing"  # of that kind was given


@dataclass(frozen=True)
class Given:
    """What a person gives of new items: columns of text, a folder of pictures, encoders by name,
    and feature tables that are ready.

    >>> Given(text=("title",)).images is None
    True
    """

    text: tuple[str, ...] = ()
    images: Path | None = None
    encoders: tuple[str, ...] = ()
    features: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NewTable:
    """One feature table of the new items, and who made it from what.

    >>> nothing = FeatureTable(np.zeros((1, 4), np.float32), np.zeros(1, bool))
    >>> NewTable(nothing, NOTHING).columns
    ()
    """

    table: FeatureTable
    encoder: str
    columns: tuple[str, ...] = ()


def optional_columns(recipes: Mapping[str, Recipe], given: Given) -> tuple[str, ...]:
    """Columns that are read where the file has them: titles, and those of the training data.

    >>> optional_columns({}, Given())
    ('title',)
    """
    if given.text:
        return (TITLE,)
    columns = (column for recipe in recipes.values() for column in recipe.columns)
    return tuple(dict.fromkeys((TITLE, *columns)))


def new_tables(
    items: Items, widths: Mapping[str, int], recipes: Mapping[str, Recipe], given: Given
) -> dict[str, NewTable]:
    """A table for every name in `widths`, which says how wide those of the training data are.

    >>> from tacit.content.recipes import recipes_of
    >>> items = Items(("a", "b"), {"title": ("Quiet Harbour", "")})
    >>> made = new_tables(items, {"text": 256}, recipes_of("planted", ["text"]), Given())
    >>> made["text"].encoder, made["text"].columns, made["text"].table.present_I.tolist()
    ('ngrams', ('title',), [True, False])
    """
    _refuse_unfit(widths, recipes, given)
    made: dict[str, NewTable] = {}
    for name, width in widths.items():
        if name in given.features:
            made[name] = NewTable(_ready_made(given.features[name], width, items.ids), READY_MADE)
        else:
            made[name] = _made(items, recipes[name], width, given)
    if widths and all(one.encoder == NOTHING for one in made.values()):
        raise TacitError(
            f"There is nothing to read of the new items (the run reads {', '.join(widths)}); add "
            "--text COLUMNS, --images FOLDER or --features NAME=FILE.npy."
        )
    return made


def _refuse_unfit(widths: Mapping[str, int], recipes: Mapping[str, Recipe], given: Given) -> None:
    """Tables that the run does not read, or whose making nobody knows; encoders for nothing."""
    for name in given.features:
        if name not in widths:
            raise TacitError(f"The run reads no table called {name!r}; {nearest(name, widths)}")
    asked = [name for name in widths if name not in given.features]
    for name in asked:
        if name not in recipes:
            raise TacitError(
                f"It is not known which encoder made the table {name!r} of the training data "
                f"(there is no {name}_feat.json beside it); give ready-made features with "
                f"--features {name}=FILE.npy."
            )
    texts = [name for name in asked if recipes[name].modality == "text"]
    if given.text and len(texts) > 1:
        raise TacitError(
            f"The run reads several tables of text ({', '.join(texts)}); leave out --text, and "
            "the columns are those of the training data."
        )
    for encoder in given.encoders:
        reads = entry_of(encoder).reads
        if not any(recipes[name].modality in reads for name in asked):
            raise TacitError(
                f"Encoder {encoder!r} reads {' and '.join(f'{one}s' for one in reads)}, and the "
                "run has no such table to encode; leave it out."
            )


def _made(items: Items, recipe: Recipe, width: int, given: Given) -> NewTable:
    columns = given.text or tuple(c for c in recipe.columns if c in items.texts)
    source = _source(items, recipe, columns, given.images)
    if source is not None and source.ids:
        encoder = recipe.encoder(given.encoders)
        table = _encoded(source, encoder, items.ids, width)
    else:
        nothing_NF = np.zeros((len(items.ids), width), np.float32)
        table = FeatureTable(nothing_NF, np.zeros(len(items.ids), bool))
    made_by = NOTHING if source is None else recipe.about.encoder
    return NewTable(table, made_by, columns if recipe.modality == "text" else ())


def _source(
    items: Items, recipe: Recipe, columns: tuple[str, ...], images: Path | None
) -> Source | None:
    """What the encoder will read; None where nothing of that kind was given."""
    if recipe.modality == "image":
        return None if images is None else Images.found(items, images)
    if not columns:
        return None
    some = Items(items.ids, {column: items.texts[column] for column in columns})
    if recipe.placeholder is None and not any(any(texts) for texts in some.texts.values()):
        return Texts((), (), len(items.ids), len(items.ids), 0, {})
    return Texts.of(some, prompt=recipe.prompt, placeholder=recipe.placeholder)


def _encoded(source: Source, encoder: Encoder, ids: tuple[str, ...], width: int) -> FeatureTable:
    blocks = []
    for batch in batches_of(source, about_of(source, encoder, BATCH), BATCH):
        value_BF, kept_B = encode_batch(source, encoder, batch)
        if not kept_B.all():
            bad = source.said(batch.rows[int(np.flatnonzero(~kept_B)[0])])
            raise TacitError(
                f"The picture of {bad} cannot be read; mend it, or take it away to add the item "
                "without one."
            )
        blocks.append(value_BF)
    return _checked(np.concatenate(blocks), list(source.ids), ids, width, encoder.about.encoder)


def _ready_made(path: Path, width: int, ids: tuple[str, ...]) -> FeatureTable:
    if not path.is_file():
        raise TacitError(f"There is no file at {str(path)!r}; --features takes NAME=FILE.npy.")
    value_NF = read_array(path)
    if len(value_NF) != len(ids):
        raise TacitError(
            f"{str(path)!r} has {len(value_NF)} rows but there are {len(ids)} items; it must have "
            "one row per item, in the order of the file."
        )
    return _checked(value_NF, list(ids), ids, width, repr(str(path)))


def _checked(
    value_NF: np.ndarray, named: list[str], ids: tuple[str, ...], width: int, who: str
) -> FeatureTable:
    if value_NF.shape[1] != width:
        raise TacitError(
            f"{who} gives features {value_NF.shape[1]} wide, but those of the training data are "
            f"{width} wide; make them in the same way."
        )
    return FeatureTable.align(value_NF, named, items=ids)
