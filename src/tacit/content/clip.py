"""`clip:NAME_OR_PATH`: one space for texts and pictures, from a folder or a named CLIP model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError

from tacit.content.encoders import About, Modality, need, sha256_of
from tacit.data.plain_features import unit_rows
from tacit.errors import TacitError

if TYPE_CHECKING:
    from PIL.Image import Image

SAFE, OLDER = "model*.safetensors", "pytorch_model*.bin"
SMALL_FILES = ("*.json", "merges.txt")


@dataclass(frozen=True, eq=False)
class ClipText:
    """The projected vector of a text, of length 1."""

    about: About
    width: int
    tokenizer: Any
    model: Any

    def encode(self, content: Sequence[str]) -> np.ndarray:
        import torch

        longest = self.model.config.max_position_embeddings
        tokens = self.tokenizer(
            list(content), padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        with torch.inference_mode():
            return unit_rows(self.model(**tokens).text_embeds.numpy())


@dataclass(frozen=True, eq=False)
class ClipImage:
    """The projected vector of a picture, of length 1."""

    about: About
    width: int
    processor: Any
    model: Any

    def encode(self, content: Sequence[Image]) -> np.ndarray:
        import torch

        pixels = self.processor(images=list(content), return_tensors="pt")
        with torch.inference_mode():
            return unit_rows(self.model(pixel_values=pixels["pixel_values"]).image_embeds.numpy())


def load_clip(name: str, modality: Modality, *, download: bool = False) -> ClipText | ClipImage:
    """The text or the picture side of a CLIP model; only `download` lets it use the network.

    >>> SMALL_FILES
    ('*.json', 'merges.txt')
    """
    # Read when huggingface_hub is imported: counting users is nobody's business here.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    transformers = need("transformers", "clip")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = _folder(name, download)
    weights = sorted(folder.glob(SAFE)) or sorted(folder.glob(OLDER))
    if not weights or not (folder / "config.json").is_file():
        raise TacitError(
            f"The folder {str(folder)!r} holds no CLIP model; it needs config.json and "
            "model.safetensors, as save_pretrained writes them."
        )
    try:
        return _build(transformers, folder, weights, _label(name), modality)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().split("\n")[0]
        raise TacitError(f"The CLIP model in {str(folder)!r} cannot be used: {reason}") from None


def _build(
    transformers: Any, folder: Path, weights: list[Path], label: str, modality: Modality
) -> ClipText | ClipImage:
    hashes = {path.name: sha256_of(path) for path in weights}
    packages = {name: version(name) for name in ("torch", "transformers")}
    if modality == "text":
        text = _whole(transformers.CLIPTextModelWithProjection, folder)
        tokenizer = transformers.CLIPTokenizerFast.from_pretrained(folder, local_files_only=True)
        about = About(
            label,
            hashes,
            {
                "tokens": f"at most {text.config.max_position_embeddings}, the rest is cut off",
                "rows": "projected, of length 1",
            },
            packages,
        )
        return ClipText(about, int(text.config.projection_dim), tokenizer, text)
    # From version 5 on the plain name wants torchvision; the one for Pillow is named so.
    pillow = getattr(transformers, "CLIPImageProcessorPil", None)
    processor_class = pillow or transformers.CLIPImageProcessor
    image = _whole(transformers.CLIPVisionModelWithProjection, folder)
    processor = processor_class.from_pretrained(folder, local_files_only=True)
    about = About(
        label,
        hashes,
        {"picture": _recipe(processor), "rows": "projected, of length 1"},
        packages | {"pillow": version("pillow")},
    )
    return ClipImage(about, int(image.config.projection_dim), processor, image)


def _whole(model_class: Any, folder: Path) -> Any:
    """The model with all of its weights: transformers itself would draw the missing ones."""
    model, report = model_class.from_pretrained(
        folder, local_files_only=True, output_loading_info=True
    )
    lost = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if lost:
        raise ValueError(f"{len(lost)} of its weights are missing, such as {lost[0]}.")
    return model.eval()


def _recipe(processor: Any) -> dict[str, Any]:
    keys = ("size", "crop_size", "resample", "rescale_factor", "image_mean", "image_std")
    recipe = {key: value for key, value in processor.to_dict().items() if key in keys}
    return {key: dict(value) if hasattr(value, "keys") else value for key, value in recipe.items()}


def _label(name: str) -> str:
    """The name in the manifest: a folder by its last part, because where it lies says nothing."""
    place = Path(name).expanduser()
    return f"clip:{place.resolve().name if place.is_dir() else name}"


def _folder(name: str, download: bool) -> Path:
    place = Path(name).expanduser()
    if place.is_dir():
        return place
    if not name or place.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise TacitError(
            f"There is no folder {name!r} with a CLIP model; write clip:FOLDER or clip:OWNER/NAME."
        )
    hub = need("huggingface_hub", "clip")
    try:
        folder = Path(
            hub.snapshot_download(
                name, local_files_only=not download, allow_patterns=[*SMALL_FILES, SAFE]
            )
        )
        if download and not any(folder.glob(SAFE)):
            hub.snapshot_download(name, allow_patterns=[OLDER])
    # Being offline, a wrong name, a gated model: each is an exception of another library.
    except Exception as error:
        if download:
            reason = str(error).strip().split("\n")[0]
            raise TacitError(f"The model {name!r} could not be fetched: {reason}") from None
        raise TacitError(
            f"The model {name!r} is neither a folder nor on this machine; give the folder of a "
            "CLIP model, or add --download to fetch it."
        ) from None
    return folder
