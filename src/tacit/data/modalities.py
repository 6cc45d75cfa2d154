"""What the server knows of an item besides who touched it: feature tables with presence masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tacit.errors import TacitError, shown


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """One modality: a row per item of the catalogue, and which rows are really there.

    Rows of items without the modality are zero and marked absent; nothing imputes them silently.

    >>> table = FeatureTable.align(np.ones((1, 2), np.float32), ["b"], items=("a", "b"))
    >>> table.present_I.tolist(), table.value_IF.tolist()
    ([False, True], [[0.0, 0.0], [1.0, 1.0]])
    """

    value_IF: np.ndarray
    present_I: np.ndarray

    @classmethod
    def align(cls, value_KF: np.ndarray, ids: list[str], items: tuple[str, ...]) -> FeatureTable:
        """Place row k (of item `ids[k]`) at that item's code; refuse rows that do not match ids."""
        if value_KF.ndim != 2 or len(value_KF) != len(ids):
            raise TacitError(
                f"The feature table has shape {value_KF.shape} but {len(ids)} item ids; it must be "
                "two-dimensional with one row per listed item."
            )
        if not np.isfinite(value_KF).all():
            bad = ids[int(np.flatnonzero(~np.isfinite(value_KF).all(axis=1))[0])]
            raise TacitError(
                f"The features of item {shown(bad)} hold NaN or infinite numbers; fix or drop "
                "that row."
            )
        code_of = {name: code for code, name in enumerate(items)}
        value_IF = np.zeros((len(items), value_KF.shape[1]), dtype=np.float32)
        present_I = np.zeros(len(items), dtype=bool)
        for row, name in enumerate(ids):
            code = code_of.get(name)
            if code is not None:
                value_IF[code] = value_KF[row]
                present_I[code] = True
        if len(ids) and not present_I.any():
            raise TacitError(
                f"None of the {len(ids)} feature rows belongs to an item of the interactions "
                f"(first feature id {shown(ids[0])}, first item {shown(items[0])}); check that "
                "both use the same ids."
            )
        return cls(value_IF, present_I)

    def take(self, item_codes: np.ndarray) -> FeatureTable:
        return FeatureTable(self.value_IF[item_codes], self.present_I[item_codes])


@dataclass(frozen=True, eq=False)
class Modalities(Mapping[str, FeatureTable]):
    """Named feature tables over one item vocabulary: `{"text": …, "image": …}`, any names.

    >>> list(Modalities()), len(Modalities())
    ([], 0)
    """

    tables: Mapping[str, FeatureTable] = field(default_factory=dict)

    def __getitem__(self, name: str) -> FeatureTable:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def take(self, item_codes: np.ndarray) -> Modalities:
        return Modalities({name: table.take(item_codes) for name, table in self.tables.items()})
