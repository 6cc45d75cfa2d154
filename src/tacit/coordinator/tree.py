"""`Aggregator`: a node to whoever is above it, a server to its own nodes. Sums go up in a tree.

It passes requests on to its nodes, checks what they answer as a server does, adds it up in float64
and sends one sum with the number of people in it. Whoever is above sees that sum alone, and bounds
it by so many people. Aggregators may stand below aggregators.

What an aggregator sees: without secure sums every single upload of its own nodes, as a server does.
Under secure sums it opens the sum of its crowd, which has at least `fewest` nodes, and sees nothing
else; whoever is above sees one such sum for each crowd. It holds no histories, no private state and
no keys of nodes.

A moment of a run is answered once. The answer is on the disk before it leaves, and a repeated
request gets that answer, also after other runs: two sums of almost the same people would tell of
those who are in one of them alone. A new run asks everybody anew, as it does without aggregators.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from tacit.coordinator.admission import Admission, Expected
from tacit.coordinator.asking import Asking, GivenUpError
from tacit.coordinator.hits import gathered_hits
from tacit.coordinator.masked import MaskedSums
from tacit.coordinator.memory import Transport
from tacit.coordinator.plain import PlainSums
from tacit.coordinator.planned import PlannedRun
from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rules import Offer, Rules, require_deployable
from tacit.coordinator.secure import GivenUpSumError, SecureSums
from tacit.core.algorithm import Algorithm, Exchange, Total
from tacit.core.types import Params, Task
from tacit.errors import loggable
from tacit.files import make_folder, whole_file
from tacit.node.agreement import Agreement, NotAnsweredError
from tacit.node.catalogue import Catalogue
from tacit.node.play import content_of, planned_experiment
from tacit.node.runs import box_name
from tacit.node.store import Content
from tacit.wire.messages import (
    Answer,
    Arrays,
    CatalogueUpdate,
    Deliver,
    Letter,
    Message,
    Moment,
    Play,
    Played,
    Rank,
    Ranked,
    Received,
    Refused,
    Request,
    RunPlan,
    from_letter,
    to_letter,
)

LOG = logging.getLogger("tacit.coordinator")
FAILED = "The aggregator could not do what was asked; its own log says why."


@dataclass(frozen=True)
class Branch(PlannedRun):
    """A run as one aggregator plays it: its own nodes, under the plan that came from above."""

    told: RunPlan

    @cached_property
    def plan(self) -> RunPlan:
        return self.told

    @cached_property
    def algorithm(self) -> Algorithm:
        """As devices make it: of everybody in the run, and with the content that devices get."""
        content = self.offer.content or None
        task = Task(self.told.users, self.offer.n_items, content, self.told.releases)
        return self.experiment.method.algorithm(task)

    def for_ranking(self, shared: Params) -> Params:
        """What came from above is what nodes rank with."""
        return shared

    def exchange(self, moment: Moment) -> Exchange:
        number, place = moment.round_number, moment.exchange
        exchanges = self.algorithm.exchanges(number) if 1 <= number <= self.told.rounds else ()
        if not 0 <= place < len(exchanges):
            raise NotAnsweredError("wrong step", f"Round {number} has no exchange {place}.")
        return exchanges[place]


class Aggregator:
    """Nodes that answer as one. Rules are those of the server above, with a shorter deadline."""

    def __init__(
        self,
        roster: Roster,
        transport: Transport,
        folder: str | Path,
        rules: Rules,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        rules.check()
        self.roster, self.rules, self.folder = roster, rules, Path(folder)
        self.admission = Admission(roster, rules.limits, clock, rules.through_aggregators)
        self.asking = Asking(transport, self.admission, rules, clock)
        self.sums = SecureSums(self.folder / "sum", roster, {"update": {}, "hits": {}}, {})
        self._branch: Branch | None = None
        make_folder(self.folder)

    @property
    def people(self) -> int:
        """How many people are below: what the roster of the server above has to say of it."""
        return self.roster.people

    def answer(self, request: Request) -> Answer:
        """The answer to any request; it never raises."""
        try:
            return self._answer(request)
        except NotAnsweredError as error:
            return Refused(error.reason, str(error))
        except (GivenUpError, GivenUpSumError) as error:
            return Refused("failed", str(error))
        except Exception as error:
            LOG.warning("a request failed: %s", loggable(error))
            return Refused("failed", FAILED)

    def _answer(self, request: Request) -> Answer:
        if isinstance(request, CatalogueUpdate):
            self._require_ours(request.deployment)
            return self._pass_on_catalogue(request)
        if not isinstance(request, Play | Rank | Deliver):
            raise NotAnsweredError("wrong step", "An aggregator sends sums of its nodes alone.")
        self._require_ours(request.moment.deployment)
        if isinstance(request, Deliver):
            return self._pass_on_model(request)
        kind = Played if isinstance(request, Play) else Ranked
        kept = self._kept(kind, request.moment)
        if kept is not None:
            return kept
        branch = self._branch_of(request.plan, request.moment.run)
        self.asking.begin()
        answer: Played | Ranked
        if isinstance(request, Play):
            answer = self._played(branch, request)
        else:
            answer = self._ranked(branch, request)
        self._keep(answer)
        self.sums.log.end()
        return answer

    # Sums

    def _played(self, branch: Branch, request: Play) -> Played:
        """One exchange with all nodes below, and the sum of what they send."""
        moment = request.moment
        exchange = branch.exchange(moment)
        running = branch.running(exchange)
        try:
            total = self._total(branch, request, exchange, running)
        finally:
            self._teach_strangers()
        if not exchange.sends or not total.clients:
            return Played(moment, 0, 0.0)
        return Played(moment, total.clients, float(total.weight), dict(total.sums))

    def _total(
        self, branch: Branch, request: Play, exchange: Exchange, running: Algorithm
    ) -> Total:
        if branch.rules.masks and exchange.sends:
            shared, asked = _parameters(request.arrays), self._members
            known = (exchange, request.moment, asked, running, shared)
            return self._masked(branch).total(*known)[0]
        return PlainSums(branch, self.asking).total(
            exchange, request, self._members, running, heard=[], tables={}
        )

    def _ranked(self, branch: Branch, request: Rank) -> Ranked:
        """Sums of metrics over the people of all nodes below."""
        shared, masked = _parameters(request.arrays), self._masked(branch)
        known = (request.part, request.moment, self._members)
        found = gathered_hits(branch, self.asking, masked, shared, *known)
        if found.given_up:
            raise GivenUpError(found.given_up)
        people = min(max(0, round(found.people)), self.people)
        sums = {name: np.array(np.clip(v, 0.0, people)) for name, v in found.sums.items()}
        return Ranked(request.moment, request.part, people, sums)

    @property
    def _members(self) -> tuple[Member, ...]:
        away = self.admission.away
        return tuple(one for one in self.roster.members if one.name not in away)

    def _masked(self, branch: Branch) -> MaskedSums:
        return MaskedSums(branch, self.asking, self.admission, self.sums)

    def _branch_of(self, plan: RunPlan, run: str) -> Branch:
        """The run of a plan; one that this aggregator cannot keep to is refused."""
        catalogue = self._catalogue()
        if catalogue is None or catalogue.digest != plan.catalogue:
            raise NotAnsweredError("unknown run", "The run is about another catalogue.")
        if self._branch is None or (self._branch.told, self._branch.rules.run) != (plan, run):
            secure = self.rules.secure
            ours = (False, 0, 0) if secure is None else (True, secure.fewest, secure.colluders)
            if ours != (plan.secure, plan.fewest, plan.colluders):
                raise NotAnsweredError("not agreed", "The plan has other secure sums than ours.")
            experiment = planned_experiment(plan.experiment, Agreement())
            rules = replace(self.rules, run=run)
            offer = Offer(catalogue, content_of(Catalogue.of_message(catalogue)))
            branch = Branch(experiment, self.roster, offer, rules, plan)
            above = replace(rules, through_aggregators=True)  # what no tree can play is refused
            require_deployable(experiment, branch.algorithm, above)
            self._branch = branch
        return self._branch

    # What goes down

    def _pass_on_catalogue(self, request: CatalogueUpdate) -> Received:
        Catalogue.of_message(request)  # one that was changed on the way is refused
        held = self._catalogue()
        if held is not None and held.version > request.version:
            raise NotAnsweredError("stale", "This aggregator has a later catalogue already.")
        self._write("catalogue", request)
        self._tell(request, self._members)
        return Received(request.deployment, request.version)

    def _pass_on_model(self, request: Deliver) -> Received:
        members = self._members
        confirmed = self._tell(request, members)
        if len(confirmed) < len(members):  # who is above asks again, and nodes take it twice
            raise GivenUpError(
                f"{len(confirmed)} of {len(members)} nodes below have confirmed the model."
            )
        catalogue = self._catalogue()
        version = 0 if catalogue is None else catalogue.version
        return Received(request.moment.deployment, version)

    def _teach_strangers(self) -> None:
        """Nodes that did not know the run are sent the catalogue, for the next exchange."""
        names = {name for name, said in self.asking.said_no if said == "unknown run"}
        catalogue = self._catalogue()
        if names and catalogue is not None:
            self._tell(catalogue, tuple(one for one in self._members if one.name in names))

    def _tell(
        self, request: CatalogueUpdate | Deliver, members: tuple[Member, ...]
    ) -> tuple[str, ...]:
        """Who has confirmed it."""
        expected = Expected(Received, deployment=self.rules.deployment)
        requests = {one.name: request for one in members}
        return tuple(self.asking.ask(requests, expected, all_of_them=True))

    def _require_ours(self, deployment: str) -> None:
        if deployment != self.rules.deployment:
            raise NotAnsweredError("another deployment", "This aggregator belongs to another one.")

    # What is kept

    def _kept(self, kind: type[Played | Ranked], moment: Moment) -> Played | Ranked | None:
        """The answer to this moment, where it was given before; what is older is refused."""
        found = self._read(self._name(kind, moment))
        if not isinstance(found, Played | Ranked):
            return None
        if found.moment > moment:
            raise NotAnsweredError("stale", f"Round {moment.round_number} is over.")
        return found if found.moment == moment else None

    def _keep(self, answer: Played | Ranked) -> None:
        self._write(self._name(type(answer), answer.moment), answer)

    @staticmethod
    def _name(kind: type[Played | Ranked], moment: Moment) -> str:
        """One file for each run."""
        return box_name(moment.deployment, moment.run, f"{kind.__name__}-")

    def _catalogue(self) -> CatalogueUpdate | None:
        found = self._read("catalogue")
        return found if isinstance(found, CatalogueUpdate) else None

    def _write(self, name: str, message: Message) -> None:
        letter = to_letter(message)
        content = Content({"kind": letter.kind, "values": letter.values}, letter.arrays)
        with whole_file(self.folder / f"{name}.message") as part:
            part.write_bytes(content.to_bytes())

    def _read(self, name: str) -> Message | None:
        path = self.folder / f"{name}.message"
        if not path.is_file():
            return None
        found = Content.from_bytes(path.read_bytes())
        return from_letter(Letter(found.values["kind"], found.values["values"], found.arrays))


def _parameters(arrays: Arrays) -> Params:
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
