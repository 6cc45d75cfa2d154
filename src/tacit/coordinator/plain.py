"""Uploads of nodes that are added up in the open: how a server asks for them, and what it gets.

Every upload is checked before it touches the sum, and added in the order of the roster.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.coordinator.admission import Expected
from tacit.coordinator.asking import Asking
from tacit.coordinator.planned import PlannedRun
from tacit.coordinator.robust import NodeUpload
from tacit.coordinator.roster import Member
from tacit.core.algorithm import TRAIN, Algorithm, Exchange, Total
from tacit.core.types import OWN_ITEMS
from tacit.engines.layout import VectorLayout
from tacit.wire.messages import Arrays, Play, Played


@dataclass(frozen=True)
class PlainSums:
    """Sums over the transport of a server that sees single uploads."""

    planned: PlannedRun
    asking: Asking

    def reads_tables(self, exchange: Exchange) -> bool:
        return exchange.name == TRAIN and self.planned.algorithm.reads_tables is not None

    def total(
        self,
        exchange: Exchange,
        request: Play,
        asked: tuple[Member, ...],
        running: Algorithm,
        heard: list[str],
        tables: Arrays,
    ) -> Total:
        """What arrives in an exchange; `running` is what clients run. Whose answers were let in is
        put into `heard`, and single tables, where the server reads those, into `tables`."""
        planned = self.planned
        shapes = dict(VectorLayout.of(running, exchange).shapes) if exchange.sends else {}
        own = {}
        if self.reads_tables(exchange):
            own = {OWN_ITEMS: planned.algorithm.private[OWN_ITEMS].shape}
        expected = Expected(
            Played,
            request.moment,
            shapes={**shapes, **own},
            all_of_them=running.custom is None,
            number_type=planned.experiment.precision,
            bound=None if planned.noise_on_uploads else running.bound,
            largest_weight=running.largest_weight,
        )
        answers = self.asking.ask({one.name: request for one in asked}, expected)
        heard.extend(answers)
        self.asking.require_quorum(len(answers), len(asked))
        tables.update({name: one.arrays.pop(OWN_ITEMS) for name, one in answers.items() if own})
        uploads = [NodeUpload(one.arrays, one.weight, one.clients) for one in answers.values()]
        sent = {
            name: shape for name, shape in shapes.items() if any(name in u.sums for u in uploads)
        }
        total = planned.rules.over_uploads.total(uploads, {**running.summed(exchange), **sent})
        if planned.noise_on_uploads:
            total.noised = frozenset(total.sums)
        return total
