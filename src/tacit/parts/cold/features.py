"""What a generator reads of the content: one feature row per item, made without any interaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from torch import Tensor

from tacit import streams
from tacit.core.parts import ContentRows, FittedRows
from tacit.core.types import Params
from tacit.data.dataset import Modalities
from tacit.parts.items import prepared, width_of

# A generator's parameters, brought to where its numbers are.


def like(p: Params, value: Tensor) -> Params:
    """The parameters in the precision and on the device of a table or of features.

    >>> import torch
    >>> like({"w": torch.zeros(2)}, torch.zeros(1, dtype=torch.float64))["w"].dtype
    torch.float64
    """
    return {name: parameter.to(value) for name, parameter in p.items()}


# What a generator reads of the content: one feature row per item, made without any interaction.


@dataclass(frozen=True)
class Features(ContentRows):
    """Named modalities side by side; each is centred and scaled as a whole, so that its mean entry
    has variance one and its geometry stays.

    With `reduce`, principal components take them to the width of the item table (as MDiffFR does);
    `fit_on` says from which items mean, scale and components come: `all` looks at the content of
    cold items too, as released code does. An item without a modality gets the mean of those that
    have it. `zero` and `random` (one fixed row per item) carry no content: they are controls.

    >>> Features(("text",)).reduce
    True
    """

    modalities: tuple[str, ...] = ("text",)
    reduce: bool = True
    fit_on: Literal["warm", "all"] = "warm"
    kind: Literal["content", "zero", "random"] = "content"

    def width(self, content: Modalities | None, table_width: int) -> int:
        """How wide a feature row is.

        >>> Features().width(None, table_width=64)
        64
        """
        if self.reduce:
            return table_width
        return sum(width_of(name, content) for name in self.modalities)

    def rows(self, content: Modalities, warm_I: np.ndarray, table_width: int) -> np.ndarray:
        """The feature rows (I, F) of all items; `warm_I` is true where an item has been touched.

        >>> from tacit.data.dataset import FeatureTable
        >>> value = np.array([[0.0, 2.0], [2.0, 0.0], [4.0, -2.0]], np.float32)
        >>> text = FeatureTable(value, np.ones(3, bool))
        >>> warm_I = np.array([True, True, False])
        >>> Features(reduce=False).rows(Modalities({"text": text}), warm_I, 2).tolist()
        [[-1.0, 1.0], [1.0, -1.0], [3.0, -3.0]]
        """
        return self.fitted(content, warm_I, table_width).rows(content, len(warm_I))

    def fitted(self, content: Modalities, warm_I: np.ndarray, table_width: int) -> FittedFeatures:
        """The map from content to feature rows as these items give it, for items of any origin.

        >>> from tacit.data.dataset import FeatureTable
        >>> old, new = (Modalities({"text": FeatureTable(np.array(value), np.ones(2, bool))})
        ...     for value in ([[0.0], [2.0]], [[1.0], [4.0]]))
        >>> Features(reduce=False).fitted(old, np.ones(2, bool), 1).rows(new, 2).tolist()
        [[0.0], [3.0]]
        """
        for name in self.modalities:
            width_of(name, content)  # refuses a modality that the data does not have
        width = self.width(content, table_width)
        if self.kind != "content":
            return FittedFeatures(self.kind, width)
        seen_I = warm_I if self.fit_on == "warm" else np.ones(len(warm_I), bool)
        middles, sizes, tables = {}, {}, []
        for name in self.modalities:
            present_I = content[name].present_I
            used_I = seen_I & present_I if (seen_I & present_I).any() else present_I
            middles[name] = _values(content, name)[used_I].mean(axis=0)
            centred_IF = _centred(content, name, middles[name])
            sizes[name] = _size(centred_IF[used_I])
            tables.append(centred_IF / sizes[name])
        if not self.reduce:
            return FittedFeatures(self.kind, width, middles, sizes)
        whole_IF = np.concatenate(tables, axis=1)
        direction_KF = _directions(whole_IF[seen_I])[:width]
        size = _size(_along(whole_IF, direction_KF, width)[seen_I])
        return FittedFeatures(self.kind, width, middles, sizes, direction_KF, size)


@dataclass(frozen=True, eq=False)
class FittedFeatures(FittedRows):
    """Means, scales and directions of the items that were looked at.

    >>> FittedFeatures("zero", 2).rows(Modalities(), 1).tolist()
    [[0.0, 0.0]]
    """

    kind: Literal["content", "zero", "random"]
    width: int
    middles: Mapping[str, np.ndarray] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    direction_KF: np.ndarray | None = None
    size: float = 1.0

    def rows(self, content: Modalities, count: int) -> np.ndarray:
        """The feature rows (I, F) of the `count` items that `content` describes. A row depends on
        its own item alone, but for `random`, which has a row for each place in the list."""
        if self.kind == "zero":
            return np.zeros((count, self.width), np.float32)
        if self.kind == "random":
            generator = streams.numpy_generator(0, streams.NOISE, 0, streams.name_of("guidance"))
            return generator.normal(size=(count, self.width)).astype(np.float32)
        tables = [
            _centred(content, name, middle_F) / self.sizes[name]
            for name, middle_F in self.middles.items()
        ]
        rows_IF = np.concatenate(tables, axis=1)
        if self.direction_KF is not None:
            rows_IF = _along(rows_IF, self.direction_KF, self.width) / self.size
        return np.ascontiguousarray(rows_IF, dtype=np.float32)


def _values(content: Modalities, name: str) -> np.ndarray:
    known = Modalities({name: content[name]})
    return prepared(known, (name,), "zero")[name].astype(np.float64)


def _centred(content: Modalities, name: str, middle_F: np.ndarray) -> np.ndarray:
    centred_IF = _values(content, name) - middle_F
    centred_IF[~content[name].present_I] = 0.0  # the mean of those that have it
    return centred_IF


def _size(value_NF: np.ndarray) -> float:
    """The number to divide by, so that the mean square of an entry is one."""
    size = float(np.sqrt(np.mean(value_NF**2)))
    return size if size > 0 else 1.0


def _directions(value_NF: np.ndarray) -> np.ndarray:
    """The directions of largest variance."""
    _, _, direction_KF = np.linalg.svd(value_NF, full_matrices=False)
    # a direction has no sign of its own: its largest entry is made positive, on every machine
    largest_K = np.abs(direction_KF).argmax(axis=1)
    direction_KF *= np.sign(direction_KF[np.arange(len(direction_KF)), largest_K])[:, None]
    return np.asarray(direction_KF)


def _along(value_IF: np.ndarray, direction_KF: np.ndarray, width: int) -> np.ndarray:
    """Along some directions; zeros where there are fewer than `width`."""
    rows_IK = value_IF @ direction_KF.T
    return np.pad(rows_IK, ((0, 0), (0, width - rows_IK.shape[1])))
