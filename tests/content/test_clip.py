"""CLIP through a tiny model with random weights: both sides, offline, and clear mistakes."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tacit.content.clip import load_clip
from tacit.content.encode import encode_table
from tacit.content.sources import Images, Items, Texts
from tacit.errors import TacitError

transformers = pytest.importorskip(
    "transformers", reason='needs pip install "tacit[encoders]"', exc_type=ImportError
)


@pytest.mark.usefixtures("offline")
def test_text_is_what_the_whole_model_says(tiny_clip: Path) -> None:
    import torch

    encoder = load_clip(str(tiny_clip), "text")
    texts = ["the title of this item is Reef", "x", "a title far longer than the model can read"]
    value_ND = encoder.encode(texts)
    assert encoder.width == 12
    assert value_ND.dtype == np.float32
    model = transformers.CLIPModel.from_pretrained(tiny_clip).eval()
    tokenizer = transformers.CLIPTokenizerFast.from_pretrained(tiny_clip)
    for text, value_D in zip(texts, value_ND, strict=True):
        tokens = tokenizer([text], truncation=True, max_length=24, return_tensors="pt")
        pooled = model.text_model(**tokens).pooler_output
        expected_D = model.text_projection(pooled)[0].detach()
        expected_D = torch.nn.functional.normalize(expected_D, dim=0).numpy()
        np.testing.assert_allclose(value_D, expected_D, atol=1e-5)


@pytest.mark.usefixtures("offline")
def test_picture_is_what_the_whole_model_says(tiny_clip: Path) -> None:
    import torch

    encoder = load_clip(str(tiny_clip), "image")
    value_ND = encoder.encode([Image.new("RGB", (16, 16), "#ff8000"), Image.new("RGB", (30, 20))])
    assert value_ND.shape == (2, 12)
    model = transformers.CLIPModel.from_pretrained(tiny_clip).eval()
    # A picture of one colour needs no resizing: (x / 255 - mean) / deviation.
    pixels = (torch.tensor([255.0, 128.0, 0.0]) / 255 - 0.5) / 0.25
    pixel_NCHW = pixels[None, :, None, None].expand(1, 3, 16, 16)
    pooled = model.vision_model(pixel_values=pixel_NCHW).pooler_output
    expected_D = torch.nn.functional.normalize(model.visual_projection(pooled)[0].detach(), dim=0)
    np.testing.assert_allclose(value_ND[0], expected_D.numpy(), atol=1e-5)


def test_about_names_weights_and_preprocessing_but_no_place(tiny_clip: Path) -> None:
    about = load_clip(str(tiny_clip), "image").about
    assert about.encoder == "clip:tiny-clip"
    weights = (tiny_clip / "model.safetensors").read_bytes()
    assert about.weights == {"model.safetensors": hashlib.sha256(weights).hexdigest()}
    assert about.preprocessing["picture"]["crop_size"] == {"height": 16, "width": 16}
    assert str(tiny_clip.parent) not in repr(about)


@pytest.mark.usefixtures("offline")
def test_a_name_is_not_fetched_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(TacitError, match=r"'owner/model' is neither .* add --download to fetch it"):
        load_clip("owner/model", "text")
    with pytest.raises(TacitError, match=r"'owner/model' could not be fetched: "):
        load_clip("owner/model", "text", download=True)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="There is no folder"):
        load_clip(str(tmp_path / "nowhere"), "text")


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="holds no CLIP model"):
        load_clip(str(tmp_path), "text")


@pytest.mark.parametrize("modality", ["text", "image"])
def test_missing_weights_are_never_drawn(tiny_clip: Path, tmp_path: Path, modality: str) -> None:
    from safetensors.torch import save_file

    folder = tmp_path / "empty"
    shutil.copytree(tiny_clip, folder)
    save_file({}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TacitError, match=r"cannot be used: \d+ of its weights are missing"):
        load_clip(str(folder), modality)


def test_damaged_weights(tiny_clip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_clip, folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TacitError, match=r"damaged' cannot be used: "):
        load_clip(str(folder), "text")


@pytest.mark.usefixtures("offline")
def test_both_tables_and_the_same_bytes_after_a_stop(
    tiny_clip: Path, texts: Texts, pictures: Path, tmp_path: Path
) -> None:
    for source in (texts, Images.of(Items(("1", "2", "3", "5"), {}), pictures)):
        encoder = load_clip(str(tiny_clip), source.modality)
        encode_table(source, encoder, tmp_path / "whole", batch=2)
        calls = []

        def stop(content: list, encoder=encoder, calls=calls) -> np.ndarray:
            calls.append(content)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return type(encoder).encode(encoder, content)

        stopping = load_clip(str(tiny_clip), source.modality)
        object.__setattr__(stopping, "encode", stop)
        with pytest.raises(KeyboardInterrupt):
            encode_table(source, stopping, tmp_path / "again", batch=2)
        encode_table(source, encoder, tmp_path / "again", batch=2)
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert len(names) == 6
    for name in names:
        whole, again = (tmp_path / place / name for place in ("whole", "again"))
        assert whole.read_bytes() == again.read_bytes()
