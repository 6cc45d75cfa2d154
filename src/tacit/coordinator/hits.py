"""Evaluation without leaking: nodes rank their own held-out items, and sums of metrics come back.

Under secure sums the server sees the sum over all nodes alone, with noise where a claim stands.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

from tacit.coordinator.admission import Expected
from tacit.coordinator.asking import Asking, GivenUpError, arrays_of
from tacit.coordinator.masked import MaskedSums
from tacit.coordinator.planned import PlannedRun
from tacit.coordinator.roster import Member
from tacit.coordinator.rules import hit_names
from tacit.coordinator.secure import GivenUpSumError, hits_bound
from tacit.core.types import Params
from tacit.wire.messages import Moment, Rank, Ranked

Part = Literal["valid", "test"]
PARTS: tuple[Part, ...] = (
    "valid",
    "test",
)  # their moments follow a round's exchanges in this order


class Hits(NamedTuple):
    """Sums of metrics over people; `people` is how many, with noise where the sums have some."""

    sums: dict[str, float]
    people: float
    heard: tuple[str, ...]
    given_up: str = ""

    @property
    def means(self) -> dict[str, float]:
        """Means over people; empty where nobody answered.

        >>> Hits({"full:HR@10": 3.0}, 4.0, ("a", "b")).means
        {'full:HR@10': 0.75}
        """
        if self.people <= 0:
            return {}
        return {name: value / self.people for name, value in sorted(self.sums.items())}


def gathered_hits(
    planned: PlannedRun,
    asking: Asking,
    masked: MaskedSums,
    shared: Params,
    part: Part,
    moment: Moment,
    everyone: tuple[Member, ...],
) -> Hits:
    """What these nodes tell of one part, ranked with these parameters."""
    ranking, names = planned.for_ranking(shared), hit_names(planned.experiment)
    if planned.rules.masks:
        bound = hits_bound(len(names), 1)
        try:
            opened = masked.opened(moment, "hits", len(names) + 1, everyone, ranking, bound)
        except (GivenUpError, GivenUpSumError) as error:
            return Hits({}, 0.0, (), str(error))
        *values, people = opened.value_N.tolist()
        return Hits(dict(zip(names, values, strict=True)), people, opened.survivors)
    request = Rank(moment, planned.plan, part, arrays_of(ranking))
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(names, ())
    expected = Expected(Ranked, moment, shapes=shapes, part=part)
    answers = asking.ask({one.name: request for one in everyone}, expected)
    sums: Counter[str] = Counter()
    for one in answers.values():
        sums.update({name: float(value) for name, value in one.arrays.items()})
    return Hits(dict(sums), float(sum(one.people for one in answers.values())), tuple(answers))
