"""Sums that a few bad uploads cannot move far: for servers that see every upload.

Each rule looks at what one person of each node sends on average, and gives the weighted sum that a
server would have got from so many people who all send what the rule found. So every server step
works as before, whatever the rule.

- `mean` is the plain weighted sum. One node can move it anywhere.
- `norm_bound` looks at the norm of every upload, all its parameters together. The bound is a given
  one, or the median norm of the uploads of this exchange, which is at most that of an honest upload
  while fewer than half of the nodes are bad. An upload that is longer than the bound is shortened
  to it; one that is longer than `outlier` bounds is left out, if its sum is also long for the root
  of the number of its people. With a given bound none is left out unless `outlier` is given as
  well: a bound below every honest upload would stop all learning.
- `median` takes the median over nodes in every coordinate (Yin et al., 2018).
- `trimmed_mean` leaves the largest and the smallest share out in every coordinate (the same).

Shortened uploads make short steps: a model learns more slowly, and looks worse wherever training
ends early. So with the median as a bound all uploads that are left are lengthened by one factor,
which gives their norms the mean that they had (`lengthen`). None of them was longer than `outlier`
bounds, so the factor is at most `outlier`. With a given bound nothing is lengthened: nobody sends
more than it says.

What the bound cannot do: a bad upload as long as honest ones stays in the sum. Directions do not
find it out either, where clients have histories of their own and honest uploads are nearly at right
angles to their sum.

With `touched` the last two look, in each row of a table, only at the nodes that sent something
other than zeros there. A table of items needs this: where most people have not touched an item, the
median of all is zero, and nothing would be learnt. The price is that whoever sends noise on rows
that few have touched is in the majority there; a bound on norms helps with that, and `norm_first`
puts it before the rule. Among those who touched a row, the few who have the item pull one way, and
the many who drew it as a negative pull the other way. What is left out at the ends is mostly the
few, so a large `trim` unlearns items that few people have. Alone the rule needs a `trim` as large
as the share of bad nodes; after `norm_first`, where what stays in is bounded, 0.1 was the better.

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


_ROWS = 64  # of a table, that are looked at together


class NodeUpload(NamedTuple):
    """The weighted sum of the uploads of one node's people."""

    sums: Mapping[str, np.ndarray]
    weight: float
    clients: int


class Bounded(NamedTuple):
    """An upload that is let into a rule, and the factor that its numbers are taken times."""

    upload: NodeUpload
    factor: float = 1.0

    @property
    def of_one(self) -> float:
        """The factor that gives what one of the node's people sends on average."""
        return self.factor / self.upload.weight


@dataclass(frozen=True)
class RobustRule:
    """How uploads of nodes become one sum.

    `bound` is the largest norm of what one person sends; without it the median of the exchange is
    taken. Uploads longer than `outlier` bounds are left out; inf leaves none out. Where it is not
    given it is 4 with a median, and inf with a given bound. `lengthen` gives the others back the
    length that a median took. `trim` is the share left out at each end.

    >>> uploads = [NodeUpload({"a": np.array([v])}, 1.0, 1) for v in (1.0, 2.0, 90.0)]
    >>> rules = [RobustRule("mean"), RobustRule("norm_bound"), RobustRule("median")]
    >>> [rule.total(uploads, {"a": (1,)}).sums["a"].tolist() for rule in rules]
    [[93.0], [4.5], [6.0]]
    >>> RobustRule("trimmed_mean", trim=0.34).total(uploads, {"a": (1,)}).sums["a"].tolist()
    [6.0]
    """

    name: RuleName = "mean"
    bound: float | None = None
    outlier: float | None = None
    lengthen: bool = True
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
        if not self.longest >= 1.0:
            raise TacitError(
                f"outlier is {shown(self.outlier)}; it counts bounds and must be at least 1."
            )
        if self.lengthen and self.bound is None and np.isinf(self.longest):
            raise TacitError(
                "outlier is inf and lengthen is true, so one long upload would lengthen all "
                "others; give an outlier, or set lengthen to false."
            )
        if secure and self.name != "mean":
            raise TacitError(
                f"The rule {self.name} looks at single uploads, which nobody sees under secure "
                "sums; take the mean there, or do without secure sums."
            )

    @property
    def longest(self) -> float:
        """How many bounds an upload may have before it is left out."""
        if self.outlier is not None:
            return self.outlier
        return 4.0 if self.bound is None else float(np.inf)

    def total(self, uploads: Sequence[NodeUpload], shapes: Mapping[str, tuple[int, ...]]) -> Total:
        """The sum of an exchange; uploads are in the order of the roster."""
        total = Total.zeros(shapes)
        total.weight = sum(one.weight for one in uploads)
        total.clients = sum(one.clients for one in uploads)
        there = [Bounded(one) for one in uploads if one.weight > 0.0]
        if self.name == "norm_bound" or self.norm_first:
            there = self._bounded([one.upload for one in there])
        if self.name in ("mean", "norm_bound"):
            self._add(total, there)
            return total
        for name, shape in shapes.items():
            sent = [one for one in there if name in one.upload.sums]
            if sent:
                total.sums[name] = total.weight * self._middle(sent, name, shape)
        return total

    def _bounded(self, uploads: Sequence[NodeUpload]) -> list[Bounded]:
        """Those that are not too long, with the factors that shorten and lengthen them."""
        if not uploads:
            return []
        clients_N = np.array([one.clients for one in uploads], float)
        norm_N = np.array([norm_of(dict(one.sums)) for one in uploads]) / clients_N
        bound = float(np.median(norm_N)) if self.bound is None else self.bound
        stays_N = norm_N / self.longest <= bound
        if self.bound is None:
            # Uploads of honest people are nearly at right angles, so the norm of a mean falls with
            # the root of their number: beside large nodes a small one looks long by that measure.
            root_N = norm_N * np.sqrt(clients_N)
            stays_N |= root_N / self.longest <= np.median(root_N)
        short_N = np.minimum(norm_N, bound)
        factor_N = np.divide(short_N, norm_N, out=np.ones_like(norm_N), where=norm_N > 0.0)
        shortened = float((clients_N * short_N)[stays_N].sum())
        if self.lengthen and self.bound is None and shortened > 0.0:
            factor_N *= float((clients_N * norm_N)[stays_N].sum()) / shortened
        return [
            Bounded(one, factor)
            for one, factor, stays in zip(uploads, factor_N.tolist(), stays_N, strict=True)
            if stays
        ]

    def _add(self, total: Total, there: Sequence[Bounded]) -> None:
        """The sum of those who are there, times the weight of all over theirs."""
        weight = sum(one.upload.weight for one in there)
        for one in there:
            for name, value in one.upload.sums.items():
                total.add(name, value.astype(np.float64) * (one.factor * total.weight / weight))

    def _middle(self, sent: Sequence[Bounded], name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The rule over nodes in every coordinate: of all nodes, or of those that touched a row,
        times the share of these. Tables are gone through in blocks of rows."""
        if len(shape) < 2:
            return self._of_all(
                np.stack([one.of_one * one.upload.sums[name].astype(np.float64) for one in sent])
            )
        found = np.zeros(shape)
        for start in range(0, shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            value_NR = np.empty((len(sent), *found[rows].shape))
            for one, value_R in zip(sent, value_NR, strict=True):
                np.multiply(one.upload.sums[name][rows], one.of_one, out=value_R)
            if not self.touched:
                found[rows] = self._of_all(value_NR)
                continue
            touched_NR = (value_NR != 0.0).any(axis=tuple(range(2, value_NR.ndim)))
            for row in np.flatnonzero(touched_NR.any(axis=0)):
                value_M = value_NR[touched_NR[:, row], row]
                found[start + row] = self._of_all(value_M) * (len(value_M) / len(sent))
        return found

    def _of_all(self, value_N: np.ndarray) -> np.ndarray:
        """Over the first axis."""
        count = len(value_N)
        left_out = (count - 1) // 2 if self.name == "median" else int(self.trim * count + 1e-9)
        if not left_out:
            return np.asarray(value_N.mean(axis=0))
        last_N = np.ascontiguousarray(np.moveaxis(value_N, 0, -1))
        last_N.partition((left_out, count - left_out - 1))
        return np.asarray(last_N[..., left_out : count - left_out].mean(axis=-1))
