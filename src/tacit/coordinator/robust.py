"""Sums that a few bad uploads cannot move far: for servers that see every upload.

Each rule looks at what one person of each node sends on average, and gives the weighted sum that a
server would have got from so many people who all send what the rule found. So every server step
works as before, whatever the rule.

- `mean` is the plain weighted sum. One node can move it anywhere.
- `norm_bound` shortens every upload, all its parameters together, to a bound: a given one, or the
  median norm of the uploads of this exchange. What a node can do is bounded; it is not found out.
- `median` takes the median over nodes in every coordinate (Yin et al., 2018).
- `trimmed_mean` leaves the largest and the smallest share out in every coordinate (the same).

With `touched` the last two look, in each row of a table, only at the nodes that sent something
other than zeros there. A table of items needs this: where most people have not touched an item, the
median of all is zero, and nothing would be learnt. The price is that whoever sends noise on rows
that few have touched is in the majority there; a bound on norms helps with that, and `norm_first`
puts one before the rule.

Rules need to see single uploads, so they cannot run under secure sums: there, bounds by the code
and the ring are all there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from tacit.coordinator.admission import norm_of
from tacit.core.algorithm import Total
from tacit.errors import TacitError, nearest, shown

RuleName = Literal["mean", "norm_bound", "median", "trimmed_mean"]
RULES: tuple[RuleName, ...] = ("mean", "norm_bound", "median", "trimmed_mean")


class NodeUpload(NamedTuple):
    """The weighted sum of the uploads of one node's people."""

    sums: Mapping[str, np.ndarray]
    weight: float
    clients: int


@dataclass(frozen=True)
class RobustRule:
    """How uploads of nodes become one sum.

    `bound` is the largest norm of what one person sends; without it the median of the exchange is
    taken. `trim` is the share that is left out at each end.

    >>> uploads = [NodeUpload({"a": np.array([v])}, 1.0, 1) for v in (1.0, 2.0, 90.0)]
    >>> rules = [RobustRule("mean"), RobustRule("norm_bound"), RobustRule("median")]
    >>> [rule.total(uploads, {"a": (1,)}).sums["a"].tolist() for rule in rules]
    [[93.0], [5.0], [6.0]]
    >>> RobustRule("trimmed_mean", trim=0.34).total(uploads, {"a": (1,)}).sums["a"].tolist()
    [6.0]
    """

    name: RuleName = "mean"
    bound: float | None = None
    trim: float = 0.2
    touched: bool = False
    norm_first: bool = False

    def check(self, secure: bool) -> None:
        if self.name not in RULES:
            raise TacitError(f"There is no rule {shown(self.name)}; {nearest(self.name, RULES)}")
        if not 0.0 <= self.trim < 0.5:
            raise TacitError(f"trim is {shown(self.trim)}; it must be at least 0 and below 0.5.")
        if self.bound is not None and not 0.0 < self.bound < np.inf:
            raise TacitError(f"bound is {shown(self.bound)}; it must be above 0 and finite.")
        if secure and self.name != "mean":
            raise TacitError(
                f"The rule {self.name} looks at single uploads, which nobody sees under secure "
                "sums; take the mean there, or do without secure sums."
            )

    def total(self, uploads: Sequence[NodeUpload], shapes: Mapping[str, tuple[int, ...]]) -> Total:
        """The sum of an exchange; uploads are in the order of the roster."""
        total = Total.zeros(shapes)
        total.weight = sum(one.weight for one in uploads)
        total.clients = sum(one.clients for one in uploads)
        there = [one for one in uploads if one.weight > 0.0]
        if self.name == "norm_bound" or self.norm_first:
            there = self._shortened(there)
        if self.name in ("mean", "norm_bound"):
            for one in there:
                for name, value in one.sums.items():
                    total.add(name, value.astype(np.float64))
            return total
        for name, shape in shapes.items():
            sent = [one.sums[name] / one.weight for one in there if name in one.sums]
            if sent:
                value_NK = np.stack(sent).astype(np.float64).reshape(len(sent), -1)
                total.sums[name] = total.weight * self._middle(value_NK, shape).reshape(shape)
        return total

    def _shortened(self, uploads: Sequence[NodeUpload]) -> list[NodeUpload]:
        norms = [norm_of(dict(one.sums)) / one.clients for one in uploads]
        bound = self.bound if self.bound is not None else float(np.median(norms)) if norms else 0.0
        return [
            NodeUpload({name: v * factor for name, v in one.sums.items()}, one.weight, one.clients)
            for one, norm in zip(uploads, norms, strict=True)
            for factor in [1.0 if norm <= bound else bound / norm]
        ]

    def _middle(self, value_NK: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The rule over nodes in every coordinate: of all nodes, or of those that touched a row,
        times the share of these."""
        if not self.touched or len(shape) < 2:
            return self._of_all(value_NK)
        count, rows = len(value_NK), shape[0]
        table_NRE = value_NK.reshape(count, rows, -1)
        touched_NR = (table_NRE != 0.0).any(axis=2)
        found_RE = np.zeros(table_NRE.shape[1:])
        for row in np.flatnonzero(touched_NR.any(axis=0)):
            value_ME = table_NRE[touched_NR[:, row], row]
            found_RE[row] = self._of_all(value_ME) * (len(value_ME) / count)
        return found_RE.ravel()

    def _of_all(self, value_NK: np.ndarray) -> np.ndarray:
        if self.name == "median":
            found: np.ndarray = np.median(value_NK, axis=0)
            return found
        left_out = int(self.trim * len(value_NK) + 1e-9)
        kept_MK = np.sort(value_NK, axis=0)[left_out : len(value_NK) - left_out]
        kept: np.ndarray = kept_MK.mean(axis=0)
        return kept
