"""What a run will be, decided before anything is sent: its algorithm, its plan and its promise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rules import Offer, Rules, hit_names, require_deployable
from tacit.coordinator.secure import hits_bound, person_bound, skellam_guarantee, sum_plan
from tacit.coordinator.tables import require_one_each
from tacit.core.algorithm import TRAIN, Algorithm, Exchange
from tacit.core.types import Params, Task
from tacit.engines.layout import VectorLayout
from tacit.engines.participation import Participation, most_releases
from tacit.engines.round import shared_with_views
from tacit.errors import TacitError
from tacit.experiment.claims import guarantee_of
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import document
from tacit.privacy.accounting import require_delta
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.skellam import SkellamReleases
from tacit.wire.messages import RunPlan


@dataclass(frozen=True)
class PlannedRun:
    """An experiment on a roster and a catalogue, under the rules of a server."""

    experiment: Experiment
    roster: Roster
    offer: Offer
    rules: Rules

    def check(self) -> None:
        """Refuse, in a sentence, what cannot be played or promised here."""
        self.experiment.check()
        self.rules.check()
        require_deployable(self.experiment, self.algorithm, self.rules)
        if self.algorithm.reads_tables is not None:
            require_one_each(self.experiment.label, self.roster)
        self._require_crowd()
        if self.rules.secure is not None and self._sent_lengths:
            person_bound(self.algorithm, self.rules.secure)

    # What is played

    @cached_property
    def algorithm(self) -> Algorithm:
        """The method on this catalogue; noise of a claim is made for the releases that any node can
        be asked for."""
        experiment, offer = self.experiment, self.offer
        task = Task(self.roster.people, offer.n_items, offer.content)
        algorithm = experiment.method.algorithm(task)
        if algorithm.protection is None:
            return algorithm
        require_delta(algorithm.protection.request.delta, self.roster.people)
        releases = most_releases(
            algorithm,
            Participation(experiment.participation.ratio),
            self.roster.view,
            experiment.seed,
            self._rounds(algorithm),
        )
        task = Task(self.roster.people, offer.n_items, offer.content, releases)
        return experiment.method.algorithm(task)

    def _rounds(self, algorithm: Algorithm) -> int:
        asked, known = self.experiment.rounds, algorithm.max_rounds
        return asked if known is None else min(asked, known)

    @property
    def rounds(self) -> int:
        return self._rounds(self.algorithm)

    def _require_crowd(self) -> None:
        """Secure sums need enough nodes in every round; aggregators see to their own."""
        if self.rules.secure is not None and self.rules.masks:
            fewest, invited = self.rules.secure.fewest, self.least_invited()
            if not 2 <= fewest <= invited:
                raise TacitError(
                    f"secure.fewest is {fewest}, and {invited} nodes are invited to a round; it "
                    "must lie between 2 and that."
                )

    def least_invited(self) -> int:
        return len(self.invited(1))

    def invited(self, number: int) -> tuple[Member, ...]:
        experiment = self.experiment
        return self.roster.invited(experiment.participation.ratio, experiment.seed, number)

    @property
    def noise_on_uploads(self) -> bool:
        """Whether devices add noise by themselves, so that the server adds none."""
        return any(
            link.noise is not None and link.noise.on == "upload" for link in self.algorithm.channel
        )

    def running(self, exchange: Exchange) -> Algorithm:
        """What clients run in an exchange: on views, where the server makes those of all items."""
        views = self.algorithm.views_sent
        if exchange.name != TRAIN or views is None:
            return self.algorithm
        assert views.with_server_views is not None
        return views.with_server_views

    @property
    def validates(self) -> bool:
        """Whether nodes are asked for sums of hits, by which a round is selected."""
        claim = self.algorithm.protection
        if claim is not None and claim.request.selection == "last":
            return False
        return self.rules.validates and self.experiment.protocol.select != "last"

    def for_clients(self, shared: Params) -> Params:
        """What goes to nodes: of a custom method what it hands to clients and nothing else. Where
        that is made from more than it hands on, nodes make it, and need all."""
        if self.algorithm.custom is None:
            return shared
        sent = self.algorithm.broadcast(shared, torch.tensor(0))
        if any(value is not shared.get(name) for name, value in sent.items()):
            return shared
        return sent

    def for_ranking(self, shared: Params) -> Params:
        """What nodes rank with."""
        views = self.algorithm.views_sent
        return self.for_clients(shared) if views is None else shared_with_views(views, shared)

    # What is promised

    @cached_property
    def plan(self) -> RunPlan:
        """What nodes are told of the run, and agree to."""
        claim, secure = self.algorithm.protection, self.rules.secure
        promised = self.guarantee
        return RunPlan(
            document(self.experiment),
            self.offer.catalogue.digest,
            self.roster.people,
            self.rounds,
            secure is not None,
            0 if secure is None else secure.fewest,
            0 if secure is None else secure.colluders,
            None if claim is None else self.algorithm.task.releases,
            "" if promised is None else promised.text,
        )

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What is promised to everybody once all rounds are played; None where nothing is."""
        releases = self.algorithm.task.releases
        if self.algorithm.protection is None or releases is None:
            return None
        if self.rules.secure is None or self.noise_on_uploads:
            return guarantee_of(self.experiment, self.algorithm, releases)
        return self.skellam(releases)

    def skellam(self, releases: int) -> Guarantee | None:
        """By the noise of secure sums, of the longest vector that is ever sent."""
        assert self.rules.secure is not None
        sent = self._sent_lengths
        if not sent:
            return None
        nodes, people = self.least_invited(), max(one.people for one in self.roster.members)
        sums = sum_plan(
            self.algorithm,
            self.rules.secure,
            length=max(sent),
            nodes=nodes,
            people=people,
            round_number=1,
        )
        return skellam_guarantee(self.algorithm, sums, releases, self._planned_hits())

    @cached_property
    def _sent_lengths(self) -> list[int]:
        """How many numbers one upload has, for each exchange in which devices send."""
        return [
            VectorLayout.of(self.running(exchange), exchange).length
            for number in range(1, self.rounds + 1)
            for exchange in self.algorithm.exchanges(number)
            if exchange.sends
        ]

    def _planned_hits(self) -> SkellamReleases | None:
        """Sums of hits, if all rounds are played and the test part is ranked at the end; None where
        nobody may look at hits."""
        claim = self.algorithm.protection
        if claim is not None and claim.request.selection == "last":
            return None
        assert self.rules.secure is not None
        every, names = self.experiment.evaluate_every, len(hit_names(self.experiment))
        validated = {*range(every, self.rounds + 1, every), self.rounds} if self.validates else ()
        count = len(validated) + 1
        sums = sum_plan(
            self.algorithm,
            self.rules.secure,
            length=names + 1,
            nodes=len(self.roster),
            people=max(one.people for one in self.roster.members),
            round_number=1,
            bound=hits_bound(names, 1),
        )
        return SkellamReleases.of(sums.code, sums.promised_noise, count)
