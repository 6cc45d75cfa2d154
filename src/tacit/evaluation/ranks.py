"""Where the held-out items stand: the one thing an evaluation stores, and every metric reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tacit.errors import TacitError
from tacit.files import whole_file

CandidateSet = Literal["full", "sampled"]
COLUMNS = ("user", "item", "above", "tied", "candidates", "part", "candidate_set")


@dataclass(frozen=True, eq=False)
class Ranks:
    """One row per held-out (user, item): how many candidates beat it, and how many equal it.

    `above_H` counts the candidates with a strictly higher score, `tied_H` the other candidates with
    the same score, and `candidates_H` all candidates, the item itself and the user's other held-out
    items among them. So the item stands at one of the ranks above + 1 ... above + 1 + tied.

    A held-out item that is taken out of the ranking (it also stands in the user's train items, when
    a protocol keeps duplicates) is a miss: above = candidates and tied = 0, a place that no
    candidate can have. Every metric counts it as relevant and never as found, whatever the cut-off.

    >>> ranks = Ranks(*np.array([[0, 1], [7, 3], [2, 0], [0, 1], [10, 10]]), "test", "full")
    >>> len(ranks), ranks.where(ranks.above_H == 0).item_H.tolist()
    (2, [3])
    """

    user_H: np.ndarray  # int64 codes
    item_H: np.ndarray  # int64 codes
    above_H: np.ndarray
    tied_H: np.ndarray
    candidates_H: np.ndarray
    part: Literal["valid", "test"]
    candidate_set: CandidateSet

    def __post_init__(self) -> None:
        for name in ("item_H", "above_H", "tied_H", "candidates_H"):
            if len(getattr(self, name)) != len(self.user_H):
                raise TacitError(
                    f"Ranks column {name} has {len(getattr(self, name))} rows but user_H has "
                    f"{len(self.user_H)}; every column needs one entry per held-out item."
                )

    def __len__(self) -> int:
        return len(self.user_H)

    @property
    def missed_H(self) -> np.ndarray:
        """Held-out items that are not among the candidates."""
        return self.above_H >= self.candidates_H

    def where(self, rows: np.ndarray) -> Ranks:
        """Some rows (mask or positions); a user's other held-out items stay plain candidates."""
        return Ranks(
            self.user_H[rows],
            self.item_H[rows],
            self.above_H[rows],
            self.tied_H[rows],
            self.candidates_H[rows],
            self.part,
            self.candidate_set,
        )

    def frame(
        self, users: Sequence[str] | None = None, items: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """As a table; vocabularies add the original ids as columns `user_id` and `item_id`.

        >>> ranks = Ranks(*np.array([[0], [1], [2], [0], [10]]), "test", "full")
        >>> ranks.frame(users=["ann"], items=["x", "y"]).row(0)
        (0, 1, 2, 0, 10, 'test', 'full', 'ann', 'y')
        """
        columns = (self.user_H, self.item_H, self.above_H, self.tied_H, self.candidates_H)
        table = pl.DataFrame(
            {name: values.astype(np.int64) for name, values in zip(COLUMNS, columns, strict=False)}
        ).with_columns(
            pl.lit(self.part).alias("part"), pl.lit(self.candidate_set).alias("candidate_set")
        )
        for name, code_H, vocabulary in (
            ("user_id", self.user_H, users),
            ("item_id", self.item_H, items),
        ):
            if vocabulary is not None:
                names = pl.Series(name, vocabulary, dtype=pl.String)
                table = table.with_columns(names.gather(code_H))
        return table

    def save(
        self,
        path: str | Path,
        *,
        users: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> None:
        """Write a parquet file, whole or not at all.

        >>> import tempfile
        >>> ranks = Ranks(*np.array([[0], [1], [2], [0], [10]]), "test", "full")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ranks.save(Path(folder) / "ranks.parquet", users=["ann"])
        ...     Ranks.load(Path(folder) / "ranks.parquet").above_H.tolist()
        [2]
        """
        refusals = (pl.exceptions.PolarsError,)
        with whole_file(Path(path), library_errors=refusals) as temporary:
            self.frame(users, items).write_parquet(temporary)

    @classmethod
    def load(cls, path: str | Path) -> Ranks:
        """Read what `save` wrote."""
        try:
            table = pl.read_parquet(path)
        except FileNotFoundError as error:
            raise TacitError(f"No ranks file at '{path}'; check the path.") from error
        except (OSError, pl.exceptions.PolarsError) as error:
            raise TacitError(
                f"'{path}' cannot be read as parquet; give a file that Ranks.save wrote."
            ) from error
        absent = [name for name in COLUMNS if name not in table.columns]
        if absent:
            raise TacitError(
                f"'{path}' has no column {absent[0]!r}; give a file that Ranks.save wrote."
            )
        labels = table.select("part", "candidate_set").unique().rows()
        if len(labels) != 1:
            raise TacitError(
                f"'{path}' holds {len(labels)} kinds of ranks (part, candidate_set) where one is "
                "needed; filter the table before you load it, or evaluate again."
            )
        part, candidate_set = labels[0]
        user_H, item_H, above_H, tied_H, candidates_H = (
            table[name].to_numpy().astype(np.int64) for name in COLUMNS[:5]
        )
        return cls(user_H, item_H, above_H, tied_H, candidates_H, part, candidate_set)
