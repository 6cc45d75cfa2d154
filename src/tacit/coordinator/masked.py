"""Vectors of nodes that are added up under masks: how a server asks for them, and what it gets.

The four steps of one sum and its log are in `secure.py`. Here they go over the server's transport,
for uploads and for hits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.coordinator.admission import Admission, Expected
from tacit.coordinator.asking import Asking, GivenUpError, arrays_of
from tacit.coordinator.planned import PlannedRun
from tacit.coordinator.roster import Member
from tacit.coordinator.secure import AskStep, OpenedSum, SecureSums, sum_plan
from tacit.core.algorithm import Algorithm, Exchange, Total
from tacit.core.types import Params
from tacit.engines.layout import VectorLayout
from tacit.privacy.secure_sum.messages import to_bytes
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.wire.messages import Moment, SumAnswer, Summed, SumRequest, SumStep


@dataclass(frozen=True)
class MaskedSums:
    """Secure sums over the transport of a server."""

    planned: PlannedRun
    asking: Asking
    admission: Admission
    sums: SecureSums

    def total(
        self,
        exchange: Exchange,
        moment: Moment,
        asked: tuple[Member, ...],
        running: Algorithm,
        shared: Params,
    ) -> tuple[Total, tuple[str, ...]]:
        """The sum of the uploads of an exchange, and whose are in it."""
        layout = VectorLayout.of(running, exchange)
        claim = self.planned.algorithm.protection
        unit = 1.0 if claim is None else claim.unit(shared)
        opened = self.opened(moment, "update", layout.length, asked, shared)
        sums, weight = layout.apart(opened.value_N, unit)
        clients = sum(self.planned.roster[name].people for name in opened.survivors)
        total = Total(sums, float(clients) if weight is None else weight, clients)
        if claim is not None:  # the devices' shares of noise are in the sum
            total.noised = frozenset(sums)
        return total, opened.survivors

    def opened(
        self,
        moment: Moment,
        summed: Summed,
        length: int,
        asked: tuple[Member, ...],
        shared: Params,
        bound: float | None = None,
    ) -> OpenedSum:
        """One secure sum over these nodes."""
        settings, plan = self.planned.rules.secure, self.planned.plan
        arrays = arrays_of(self.planned.for_clients(shared))
        assert settings is not None
        if len(asked) < settings.fewest:
            raise GivenUpError(
                f"Only {len(asked)} nodes are left to ask, and a sum of fewer than "
                f"{settings.fewest} is never opened."
            )

        def made(session: bytes) -> SumPlan:
            return sum_plan(
                self.planned.algorithm,
                settings,
                length=length,
                nodes=len(asked),
                people=max(one.people for one in asked),
                round_number=moment.round_number,
                session=session,
                bound=bound,
            )

        def asking(sums: SumPlan) -> AskStep:
            def ask(step: SumStep, bodies: Mapping[str, bytes]) -> Mapping[str, bytes]:
                sent = arrays if step == "mask" else {}
                requests = {
                    name: SumRequest(moment, plan, step, summed, to_bytes(sums), body, sent)
                    for name, body in bodies.items()
                }
                expected = Expected(SumAnswer, moment, step=step)
                answers = self.asking.ask(requests, expected, all_of_them=True)
                return {name: one.body for name, one in answers.items()}

            return ask

        return self.sums.opened(
            f"{moment}:{summed}",
            asked,
            made,
            asking,
            lambda name: self.admission.refuse(name, "wrong sum message"),
            counts=None if self.planned.algorithm.protection is None else summed,
        )
