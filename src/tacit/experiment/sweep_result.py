"""A sweep as data: one row per setting, and the one that validation prefers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.experiment.grid import Axis, point_text

RANKING_WORDS = {"full": "full ranking", "sampled99": "99 sampled"}


def shown_metrics(selected_by: str) -> tuple[str, str]:
    """What a sweep shows of the test part, at the (first) cut-off of the metric that selects.

    >>> shown_metrics("NDCG@10"), shown_metrics("Recall@20+50+100")
    (('HR@10', 'NDCG@10'), ('Recall@20', 'NDCG@20'))
    """
    name, _, cutoffs = selected_by.partition("@")
    k = cutoffs.partition("+")[0]
    return f"{'Recall' if name == 'Recall' else 'HR'}@{k}", f"NDCG@{k}"


@dataclass(frozen=True, eq=False)
class Setting:
    """One point of the grid, seeds averaged; without values where training diverged.

    >>> test = {"full": {"HR@10": 0.3}}
    >>> Setting(("0.1",), 0.2, None, test, (7,), ("runs/one",), "no guarantee").validation
    0.2
    """

    values: tuple[str, ...]
    validation: float | None
    deviation: float | None  # over seeds
    test: Mapping[str, Mapping[str, float]] | None  # by ranking, then by metric
    selected_rounds: tuple[int, ...]
    runs: tuple[str, ...]
    privacy: str | None  # the guarantee that goes with the values, in words


@dataclass(frozen=True, eq=False)
class Sweep:
    """All settings in the order of the grid; `chosen` is the place of validation's choice.

    >>> axis, row = Axis("local.epochs", ("1",)), Setting(("1",), 0.2, None, None, (), (), None)
    >>> one = Sweep("m", "few", "clean", True, "", "HR@10", "full", (axis,), 1, (row,), 0, ())
    >>> one.choice
    'local.epochs=1: the setting that validation prefers (HR@10, full ranking)'
    """

    method: str
    dataset: str
    protocol: str
    clean: bool
    split: str
    metric: str  # of selection
    ranking: str
    axes: tuple[Axis, ...]
    seeds: int
    rows: tuple[Setting, ...]
    chosen: int
    notes: tuple[str, ...]

    @property
    def privacy(self) -> str:
        """The guarantees of all settings, in words; figures say it too."""
        return "; ".join(dict.fromkeys(row.privacy for row in self.rows if row.privacy))

    @property
    def choice(self) -> str:
        """Which setting, chosen by what."""
        seeds = f", mean of {self.seeds} seeds" if self.seeds > 1 else ""
        return (
            f"{point_text(self.axes, self.rows[self.chosen].values)}: the setting that validation "
            f"prefers ({self.metric}, {RANKING_WORDS[self.ranking]}{seeds})"
        )
