"""Features are fitted on the items that were looked at; others go through the very same map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.data.dataset import FeatureTable, Modalities
from tacit.parts.cold.features import Features


def content(seed: int, count: int) -> Modalities:
    """Two modalities; every fourth item has no image."""
    generator = np.random.default_rng(seed)
    present_I = np.arange(count) % 4 > 0
    image_IF = generator.normal(2.0, 3.0, size=(count, 5)).astype(np.float32)
    image_IF[~present_I] = 0
    text_IF = generator.normal(-1.0, 0.5, size=(count, 4)).astype(np.float32)
    tables = {
        "text": FeatureTable(text_IF, np.ones(count, bool)),
        "image": FeatureTable(image_IF, present_I),
    }
    return Modalities(tables)


def joined(one: Modalities, two: Modalities) -> Modalities:
    return Modalities(
        {
            name: FeatureTable(
                np.concatenate([one[name].value_IF, two[name].value_IF]),
                np.concatenate([one[name].present_I, two[name].present_I]),
            )
            for name in one
        }
    )


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("width", [3, 20])
def test_new_items_get_the_rows_of_untouched_ones(reduce: bool, width: int) -> None:
    """An item that stood in the catalogue untouched has the row that it gets if it joins later."""
    old, new = content(1, 30), content(2, 8)
    features = Features(("text", "image"), reduce=reduce)
    warm_I = np.arange(38) < 30
    together_IF = features.rows(joined(old, new), warm_I, width)
    fitted = features.fitted(old, np.ones(30, bool), width)
    np.testing.assert_allclose(fitted.rows(new, 8), together_IF[30:], rtol=1e-5, atol=1e-6)
    assert fitted.rows(new, 8).shape == (8, width if reduce else 9)


def test_a_row_does_not_depend_on_its_company() -> None:
    fitted = Features(("text", "image")).fitted(content(1, 30), np.ones(30, bool), 6)
    new = content(2, 8)
    alone_1F = fitted.rows(new.take(np.array([5])), 1)
    np.testing.assert_allclose(alone_1F[0], fitted.rows(new, 8)[5], rtol=1e-6, atol=1e-7)


def test_no_content_is_the_mean_of_those_that_have_it() -> None:
    nothing = FeatureTable(np.zeros((1, 4), np.float32), np.zeros(1, bool))
    for reduce in (True, False):
        features = Features(("text",), reduce=reduce)
        fitted = features.fitted(content(1, 30), np.ones(30, bool), 3)
        assert (fitted.rows(Modalities({"text": nothing}), 1) == 0).all()
        assert np.abs(features.rows(content(1, 30), np.ones(30, bool), 3).mean(0)).max() < 1e-6


def test_controls() -> None:
    zero = Features(("text",), kind="zero").fitted(content(1, 30), np.ones(30, bool), 3)
    assert zero.rows(content(2, 8), 8).tolist() == np.zeros((8, 3)).tolist()
    one = Features(("text",), kind="random")
    drawn_IF = one.rows(content(1, 30), np.ones(30, bool), 3)
    again_IF = replace(one).fitted(content(1, 30), np.ones(30, bool), 3).rows(content(1, 30), 30)
    assert (drawn_IF == again_IF).all()
    assert drawn_IF.std() > 0.5
