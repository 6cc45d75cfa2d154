"""A cold split parts the items: whoever is held out has been touched by nobody in training."""

from __future__ import annotations

import numpy as np

from tacit import streams
from tacit.data.dataset import Dataset
from tacit.data.protocol import SplitRule
from tacit.errors import TacitError


def part_of_items(dataset: Dataset, rule: SplitRule) -> np.ndarray:
    """One part per item: 0 train (warm), 1 validation, 2 test (cold); every interaction follows.

    An item's place depends on its id and the seed alone, not on the order of the file.

    >>> from tacit.data.interactions import Interactions
    >>> rows = Interactions.from_ids(["u"] * 10, list("abcdefghij"))
    >>> rule = SplitRule("cold", valid_share=0.1, test_share=0.3)
    >>> np.bincount(part_of_items(Dataset("few", rows), rule)).tolist()
    [6, 1, 3]
    """
    if rule.kind == "cold_published":
        if dataset.cold_part_I is None:
            raise TacitError(
                f"Dataset {dataset.name!r} has no published split of its items; use --split cold."
            )
        return dataset.cold_part_I
    valid, test = rule.valid_share, rule.test_share
    if not (valid > 0 and test > 0 and valid + test < 1):
        raise TacitError(
            f"The shares of validation ({valid}) and test ({test}) items make no sense; both must "
            "be above 0 and together below 1, so that some items stay warm."
        )
    items = dataset.interactions.items
    name_I = np.array([streams.name_of(item) for item in items], dtype=np.uint64)
    draw_I = streams.uniforms(rule.seed, streams.SPLIT, 1, name_I, 1)[:, 0]
    order = np.argsort(draw_I, kind="stable")
    n_test, n_valid = round(len(items) * test), round(len(items) * valid)
    part_I = np.zeros(len(items), np.int8)
    part_I[order[:n_test]] = 2
    part_I[order[n_test : n_test + n_valid]] = 1
    return part_I
