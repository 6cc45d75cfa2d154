"""Sources small enough to read, and a CLIP model small enough to make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tacit.content.sources import Items, Texts

TITLES = (
    "Quiet Harbour",
    "",
    "Lunar Comet",
    "Spiced Teapot",
    "Glacial Fjord",
    "Mossy Grove",
    "Reef",
)


@pytest.fixture
def texts() -> Texts:
    """Seven items, the second without a title."""
    return Texts.of(Items(tuple("abcdefg"), {"title": TITLES}))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Pictures of items 1, 2, 3 and 5, of which 2 is damaged, and one of nobody."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.new("RGB", (20, 30), "red").save(folder / "1.jpg")
    (folder / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    Image.new("L", (8, 8), 40).save(folder / "3.PNG")
    Image.new("RGBA", (40, 9), (0, 0, 255, 128)).save(folder / "5.webp")
    Image.new("RGB", (4, 4)).save(folder / "stranger.gif")
    (folder / "notes.txt").write_text("not a picture")
    return folder


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP model with random weights, saved as real ones are."""
    transformers = pytest.importorskip(
        "transformers", reason='needs pip install "tacit[encoders]"', exc_type=ImportError
    )
    import torch

    folder = tmp_path_factory.mktemp("models") / "tiny-clip"
    folder.mkdir()
    # The tokeniser of CLIP without any merge: every byte is a token, at a word's end another one.
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in shown] + [chr(256 + k) for k in range(256 - len(shown))]
    words = [*letters, *(f"{letter}</w>" for letter in letters)]
    words += ["<|startoftext|>", "<|endoftext|>"]
    numbers = {word: number for number, word in enumerate(words)}
    (folder / "vocab.json").write_text(json.dumps(numbers), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", "utf-8")
    tokenizer_config = {
        "tokenizer_class": "CLIPTokenizer",
        "bos_token": words[-2],
        "eos_token": words[-1],
        "unk_token": words[-1],
        "pad_token": words[-1],
        "model_max_length": 24,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "CLIPImageProcessor",
                "size": {"shortest_edge": 16},
                "crop_size": {"height": 16, "width": 16},
                "resample": 3,
                "rescale_factor": 1 / 255,
                "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.25, 0.25, 0.25],
            }
        )
    )
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    ends = {"bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1}
    ends["pad_token_id"] = len(words) - 1
    config = transformers.CLIPConfig(
        text_config={
            **sizes,
            **ends,
            "vocab_size": len(words),
            "max_position_embeddings": 24,
            "projection_dim": 12,
        },
        vision_config={**sizes, "image_size": 16, "patch_size": 8, "projection_dim": 12},
        projection_dim=12,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.CLIPModel(config)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to use the network fails loudly."""
    import socket

    def refuse(*arguments: object, **more: object) -> None:
        raise AssertionError(f"the network was used: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
