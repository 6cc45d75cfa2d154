"""How tables were made is read from manifests, and an encoder that is another one is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.content.encode import encode_table
from tacit.content.plain import NGrams
from tacit.content.recipes import Recipe, recipes_of
from tacit.content.sources import Items, Texts
from tacit.data.planted import planted_dataset
from tacit.errors import TacitError

ITEMS = Items(("a", "b"), {"title": ("Reef", "Comet"), "plot": ("Salt.", "")})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset whose table `words` has a manifest, and `plain` has none."""
    texts = Texts.of(ITEMS, prompt="a film called {}", placeholder="no title")
    encode_table(texts, NGrams(), tmp_path, name="words")
    return tmp_path


def test_a_manifest_tells_everything(folder: Path) -> None:
    (recipe,) = recipes_of(str(folder), ["words", "plain"]).values()
    assert (recipe.table, recipe.modality, recipe.about.encoder) == ("words", "text", "ngrams")
    assert recipe.columns == ("title", "plot")
    assert (recipe.prompt, recipe.placeholder) == ("a film called {}", "no title")
    assert recipe.encoder() == recipe.encoder(["ngrams"]) == NGrams()
    (folder / "interactions.csv").write_text("")
    assert recipes_of(str(folder / "interactions.csv"), ["words"]) == {"words": recipe}


def test_the_planted_dataset_is_made_by_its_recipes() -> None:
    dataset, recipes = planted_dataset(), recipes_of("planted", ["text", "image", "sound"])
    assert list(recipes) == ["text", "image"]
    first = [" ".join(dataset.texts[column][0] for column in recipes["text"].columns)]
    row_1F = recipes["text"].encoder().encode(first)
    assert (row_1F[0] == dataset.modalities["text"].value_IF[0]).all()
    from PIL import Image

    picture = Image.fromarray(dataset.truth["image_IHWC"][0])
    row_1F = recipes["image"].encoder().encode([picture])
    np.testing.assert_array_equal(row_1F[0], dataset.modalities["image"].value_IF[0])


def altered(folder: Path, **fields: object) -> Recipe:
    path = folder / "words_feat.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return recipes_of(str(folder), ["words"])["words"]


def refusal(recipe: Recipe, *given: str) -> str:
    with pytest.raises(TacitError) as caught:
        recipe.encoder(given)
    return str(caught.value)


def test_another_encoder_is_refused(folder: Path) -> None:
    recipe = recipes_of(str(folder), ["words"])["words"]
    assert "made by ngrams, and minilm would give other numbers" in refusal(recipe, "minilm")
    assert recipe.encoder(["colours"]) == NGrams()  # it is for the pictures
    assert "other weights" in refusal(altered(folder, weights={"model.bin": "0" * 64}))
    changed = {"source": {}, "text": "as it is", "batch": 32}
    assert "another way" in refusal(altered(folder, weights={}, preprocessing=changed))
    lost = altered(folder, encoder="clip:vit-b-32")
    assert "say where it is with --encoder clip:FOLDER" in refusal(lost)
