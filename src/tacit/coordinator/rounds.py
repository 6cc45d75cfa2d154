"""`Coordinator`: the server's half of a run, over any transport.

A round is the exchanges of the algorithm, as in a simulation. In each, nodes are sent the shared
parameters, what they answer is checked (`admission.py`) and added up in the order of the roster,
and the server steps with the same functions as the engines. A checkpoint is written after every
step and before the next request. A server that is killed goes on from there; nodes answer a
repeated request with what they have kept, so nothing is played twice.

An exchange closes when all have answered, when enough have (`Rules.enough`), or at its deadline.
With fewer answers than the quorum it is given up and counted: the server takes no step, as in a
simulation in which no upload arrives.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tacit.coordinator.admission import Admission, Expected
from tacit.coordinator.asking import Asking, GivenUpError, arrays_of
from tacit.coordinator.checkpoint import Checkpoint, Progress, Stage
from tacit.coordinator.hits import PARTS, Part, gathered_hits
from tacit.coordinator.masked import MaskedSums
from tacit.coordinator.memory import Transport
from tacit.coordinator.new_items import with_new_items
from tacit.coordinator.plain import PlainSums
from tacit.coordinator.planned import PlannedRun
from tacit.coordinator.records import Kind, RecordFile, RoundRecord
from tacit.coordinator.roster import Member, Roster
from tacit.coordinator.rules import Offer, Outcome, Rules
from tacit.coordinator.secure import GivenUpSumError, SecureSums
from tacit.coordinator.tables import made_from_tables
from tacit.core.algorithm import TRAIN, Algorithm, Exchange, Total
from tacit.engines.cold import ColdServer
from tacit.engines.round import server_step, train_on_views
from tacit.engines.state import State, initial_state
from tacit.errors import TacitError
from tacit.experiment.sealed import checksum
from tacit.experiment.spec import Experiment
from tacit.files import make_folder
from tacit.privacy.guarantee import Guarantee
from tacit.wire.messages import (
    Arrays,
    CatalogueUpdate,
    Deliver,
    Give,
    Moment,
    Play,
    Received,
    RunPlan,
    Summed,
)

LOG = logging.getLogger("tacit.coordinator")


class Coordinator:
    """One run of one experiment. `run` plays it to its end, or on from its checkpoint."""

    def __init__(
        self,
        experiment: Experiment,
        roster: Roster,
        offer: Offer,
        transport: Transport,
        folder: str | Path,
        rules: Rules,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.planned = PlannedRun(experiment, roster, offer, rules)
        self.planned.check()
        self.experiment, self.roster, self.offer, self.rules = experiment, roster, offer, rules
        self.algorithm, self.plan = self.planned.algorithm, self.planned.plan
        self.folder = Path(folder)
        self.dtype = torch.float64 if experiment.precision == "float64" else torch.float32
        first = initial_state(self.algorithm, offer.view(), experiment.seed, self.dtype)
        self.server = State(first.shared, {}, server=first.server)
        self.best: State | None = None
        self.cold = self._generator()
        self.admission = Admission(roster, rules.limits, clock, rules.through_aggregators)
        self.asking = Asking(transport, self.admission, rules, clock)
        origin = checksum(f"{self.plan}\n{roster.digest}".encode())
        self.progress = Progress(rules.deployment, rules.run, origin)
        self.checkpoint = Checkpoint(self.folder / "checkpoint")
        self.records = RecordFile(self.folder / "rounds.jsonl")
        self._steps = 0
        self._silent: set[str] = set()  # who was sent the catalogue and has not confirmed it
        make_folder(self.folder)
        self._restore()
        progress = self.progress
        counts: dict[Summed, dict[str, int]] = {"update": progress.releases, "hits": progress.hits}
        self.sums = SecureSums(self.folder / "sum", roster, counts, progress.noise)
        self.masked = MaskedSums(self.planned, self.asking, self.admission, self.sums)
        self.plain = PlainSums(self.planned, self.asking)

    def _generator(self) -> ColdServer | None:
        composed = self.algorithm.composition
        if composed is None or composed.cold is None:
            return None
        view, seed = self.offer.view(), self.experiment.seed
        cold = ColdServer.of(composed, view, seed, knows_histories=False)
        cold.begin(self.server)
        return cold

    @property
    def rounds(self) -> int:
        return self.planned.rounds

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised to everybody once all rounds are played."""
        return self.planned.guarantee

    # The run

    def run(self) -> Outcome:
        """Play to the end."""
        while self.advance():
            pass
        progress = self.progress
        return Outcome(
            progress.rounds_done,
            progress.selected_round,
            dict(progress.metrics),
            progress.given_up,
            self.planned.guarantee,
            self.spent,
        )

    def advance(self) -> bool:
        """One step, which ends with a checkpoint; False when nothing is left to do."""
        stage = self.progress.stage
        if stage == "done":
            return False
        if stage == "exchange" and self._is_over():
            self.progress.stage = stage = "finish"
        steps: dict[Stage, Callable[[], None]] = {
            "exchange": self._exchange,
            "validate": self._validate,
            "deliver": self._deliver_selected,
            "finish": self._finish,
        }
        steps[stage]()
        self._save()
        self.sums.log.end()
        return self.progress.stage != "done"

    def _is_over(self) -> bool:
        progress, patience = self.progress, self.experiment.protocol.patience
        if progress.exchange:
            return False
        waited = progress.rounds_done - progress.better_round
        tired = patience is not None and progress.better_round and waited >= patience
        return progress.rounds_done >= self.planned.rounds or bool(tired)

    # One exchange

    def _exchange(self) -> None:
        progress = self.progress
        number, place = progress.rounds_done + 1, progress.exchange
        exchanges = self.algorithm.exchanges(number)
        exchange = exchanges[place]
        if exchange.sends or self._clients_keep:
            self._ask_exchange(number, place, exchange)
        else:  # devices have nothing to do; a server that steps alone does so
            self._step(Total(), exchange)
        progress.exchange += 1
        if progress.exchange == len(exchanges):
            self._close(number)

    @property
    def _clients_keep(self) -> bool:
        composed = self.algorithm.composition
        return bool(self.algorithm.private) or composed is not None

    def _ask_exchange(self, number: int, place: int, exchange: Exchange) -> None:
        invited = self.roster.members if exchange.everybody else self.planned.invited(number)
        moment = Moment(self.rules.deployment, self.rules.run, number, place)
        self._inform(self._of_these(invited))
        asked = self._of_these(invited)  # an owner may have left when the catalogue came
        self.asking.begin()
        heard: list[str] = []
        tables: Arrays = {}
        given: dict[str, Arrays] = {}
        given_up, clients = "", 0
        try:
            go = partial(self._sum, exchange, moment, asked, heard, tables)
            views = self.algorithm.views_sent
            if exchange.name == TRAIN and views is not None:
                seed = self.progress.noise_seed
                total = train_on_views(views, self.server, seed, go)
            else:
                total = go(self.algorithm)
            clients = total.clients
            if self.plain.reads_tables(exchange):
                known = (tables, self.experiment.seed, number)
                self.server.shared, given = made_from_tables(
                    self.algorithm, self.server.shared, *known
                )
            self._step(total, exchange)
        except (GivenUpError, GivenUpSumError) as error:
            given_up = str(error)
            self.progress.given_up += 1
        self._note_informed(heard)
        self._record(
            "exchange",
            number,
            place,
            exchange.name,
            invited,
            heard,
            given_up=given_up,
            clients=clients,
        )
        if given:
            self._give(moment, given)

    def _give(self, moment: Moment, given: Mapping[str, Arrays]) -> None:
        """Send each node what was made for its person."""
        self.asking.begin()
        requests = {name: Give(moment, self.plan, arrays) for name, arrays in given.items()}
        expected = Expected(Received, deployment=self.rules.deployment)
        answers = self.asking.ask(requests, expected, all_of_them=True)
        members = tuple(one for one in self.roster.members if one.name in given)
        known = (moment.round_number, moment.exchange, "made from tables")
        self._record("delivery", *known, members, list(answers))

    def _step(self, total: Total, exchange: Exchange) -> None:
        server_step(self.algorithm, self.server, total, self.progress.noise_seed, exchange)
        for name, value in self.server.shared.items():
            if not torch.isfinite(value).all():
                raise TacitError(
                    f"Training diverged in round {self.server.round_number + 1}: {name!r} holds "
                    "something else than finite numbers; begin another run with a smaller rate."
                )

    def _sum(
        self,
        exchange: Exchange,
        moment: Moment,
        asked: tuple[Member, ...],
        heard: list[str],
        tables: Arrays,
        running: Algorithm,
    ) -> Total:
        """What arrives in an exchange; `running` is what clients run. Single tables, where the
        server reads those, are put into `tables` by node."""
        if self.rules.masks and exchange.sends:
            total, survivors = self.masked.total(
                exchange, moment, asked, running, self.server.shared
            )
            heard.extend(survivors)
            return total
        if exchange.sends and self.planned.noise_on_uploads:
            for one in asked:  # whether or not its answer arrives
                releases = self.progress.releases
                releases[one.name] = releases.get(one.name, 0) + 1
        request = Play(moment, self.plan, arrays_of(self.planned.for_clients(self.server.shared)))
        return self.plain.total(exchange, request, asked, running, heard, tables)

    def _close(self, number: int) -> None:
        """The end of a round: the generator learns, and what comes next is decided."""
        progress = self.progress
        self.server.round_number = number
        if self.cold is not None:
            self.cold.after_round(self.server)
        progress.rounds_done, progress.exchange = number, 0
        due = number % self.experiment.evaluate_every == 0 or number == self.planned.rounds
        progress.stage = "validate" if due and self.planned.validates else "exchange"
        if not self.planned.validates and number == self.planned.rounds:
            self._select(number, float("nan"))

    @property
    def spent(self) -> float | None:
        """The epsilon that is spent so far by those who were asked most; None without a claim."""
        claim = self.algorithm.protection
        if claim is None or not self.planned.noise_on_uploads:
            return None if claim is None else self.sums.spent(claim)
        most = max(self.progress.releases.values(), default=0)
        found = self.algorithm.guarantee(most) if most else None
        return None if found is None else found.epsilon

    # Validation, selection and delivery

    def _validate(self) -> None:
        number = self.progress.rounds_done
        protocol = self.experiment.protocol
        metrics = self._ranked("valid", number)
        name = f"{protocol.select_on}:{protocol.select_metric}"
        value = metrics.get(name, float("nan"))
        chosen = self.progress.selected_round
        if not math.isnan(value):
            better = value > self.progress.selected_value
            if better:
                self.progress.better_round = number
            equal = value == self.progress.selected_value
            if better or (equal and protocol.select_of_equals == "last"):
                self._select(number, value)
                self.progress.metrics = dict(metrics)
        fresh = self.progress.selected_round != chosen
        self.progress.stage = "deliver" if fresh else "exchange"

    def _of_these(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """Those who are still asked."""
        away = self.admission.away
        return tuple(one for one in members if one.name not in away)

    def _everyone(self) -> tuple[Member, ...]:
        return self._of_these(self.roster.members)

    def _select(self, number: int, value: float) -> None:
        self.progress.selected_round, self.progress.selected_value = number, value
        self.best = self.server.copy()

    def _ranked(self, part: Part, number: int) -> dict[str, float]:
        """Means of metrics over all people who answer; empty where nobody does."""
        everyone = self._everyone()
        place = len(self.algorithm.exchanges(number)) + PARTS.index(part)
        moment = Moment(self.rules.deployment, self.rules.run, number, place)
        self.asking.begin()
        found = gathered_hits(
            self.planned, self.asking, self.masked, self.server.shared, part, moment, everyone
        )
        self._record(
            "validation" if part == "valid" else "test",
            number,
            place,
            part,
            everyone,
            list(found.heard),
            given_up=found.given_up,
            metrics=found.means,
            people=round(found.people),
        )
        return found.means

    def _deliver_selected(self) -> None:
        """Tell nodes that a round is the best so far: they keep what they rank with now."""
        assert self.best is not None
        everyone = self._everyone()
        self._deliver(everyone, self.best, final=False)
        self.progress.stage = "exchange"

    def _finish(self) -> None:
        if self.best is None:  # nobody told any hits
            self._select(self.progress.rounds_done, float("nan"))
        assert self.best is not None
        known = self.admission.away | set(self.progress.delivered)
        missing = tuple(one for one in self.roster.members if one.name not in known)
        self.progress.delivered += self._deliver(missing, self.best, final=True)
        self.progress.stage = "done"

    def _deliver(
        self, members: tuple[Member, ...], state: State, *, final: bool, plan: RunPlan | None = None
    ) -> list[str]:
        moment = Moment(self.rules.deployment, self.rules.run, state.round_number)
        arrays = arrays_of(self.planned.for_ranking(state.shared))
        request = Deliver(moment, plan or self.plan, final, arrays)
        self.asking.begin()
        expected = Expected(Received, deployment=self.rules.deployment)
        requests = {one.name: request for one in members}
        answers = self.asking.ask(requests, expected, all_of_them=final)
        said = "final" if final else "best so far"
        self._record("delivery", state.round_number, 0, said, members, list(answers))
        return list(answers)

    def deliver_again(self) -> list[str]:
        """Send the final model to nodes that did not confirm it; who has it then."""
        if self.progress.stage != "done" or self.best is None:
            raise TacitError("The run is not over; there is no final model yet.")
        self._finish()
        self._save()
        return list(self.progress.delivered)

    def test_metrics(self) -> dict[str, float]:
        """Rank the test part once with the parameters of the last round, by sums of hits."""
        if self.progress.stage != "done":
            raise TacitError("The run is not over; the test part is ranked once, at its end.")
        claim = self.algorithm.protection
        if claim is not None and claim.request.selection == "last":
            raise TacitError("This run promises that nobody looks at hits, so none are told.")
        found = self._ranked("test", self.progress.rounds_done)
        self._save()
        self.sums.log.end()
        return found

    # New items

    def add_items(self, offer: Offer) -> list[str]:
        """A later catalogue with rows for its new items, made from their content by the generator
        of the selected round. Nodes get the catalogue, then the model; who has both is returned."""
        if self.cold is None or self.best is None or self.progress.stage != "done":
            raise TacitError(
                "New items get rows from a generator, when a run is over; train with one, for "
                "example the plug-in ridge."
            )
        state = with_new_items(self.planned, self.cold, self.best, offer)
        informed = self._send_catalogue(self._everyone(), offer.catalogue)
        have_it = tuple(self.roster[name] for name in informed)
        plan = replace(self.plan, catalogue=offer.catalogue.digest)
        found = self._deliver(have_it, state, final=True, plan=plan)
        self._save()
        return found

    def _inform(self, members: tuple[Member, ...]) -> None:
        """Send the catalogue to those who have not confirmed it. Who says nothing is sent it again
        when it says that it lacks it: a node that is away must not hold every round up."""
        known = self._silent | set(self.progress.informed)
        missing = tuple(one for one in members if one.name not in known)
        if missing:
            have_it = self._send_catalogue(missing, self.offer.catalogue)
            self.progress.informed += have_it
            self._silent |= {one.name for one in missing} - set(have_it)
            self._save()

    def _note_informed(self, heard: list[str]) -> None:
        """Who has played an exchange has the catalogue; who does not know the run lacks it."""
        strangers = {name for name, said in self.asking.said_no if said == "unknown run"}
        informed = dict.fromkeys((*self.progress.informed, *heard))
        self.progress.informed = [name for name in informed if name not in strangers]
        self._silent -= strangers | set(heard)

    def _send_catalogue(self, members: tuple[Member, ...], catalogue: CatalogueUpdate) -> list[str]:
        self.asking.begin()
        expected = Expected(Received, deployment=self.rules.deployment)
        answers = self.asking.ask({one.name: catalogue for one in members}, expected)
        have_it = [
            name
            for name, one in answers.items()
            if isinstance(one, Received) and one.version == catalogue.version
        ]
        number = self.progress.rounds_done
        self._record("catalogue", number, 0, f"version {catalogue.version}", members, have_it)
        return have_it

    # What is written down

    def _record(
        self,
        kind: Kind,
        number: int,
        place: int,
        name: str,
        invited: tuple[Member, ...],
        answered: list[str],
        **others: Any,
    ) -> None:
        tally, claim = self.asking.tally(), self.algorithm.protection
        record = RoundRecord(
            self.rules.deployment,
            self.rules.run,
            kind,
            number,
            place,
            name,
            tuple(one.name for one in invited),
            tuple(answered),
            tally.refused,
            tally.declined,
            tuple(sorted(self.admission.away)),
            bytes_down=tally.bytes_down,
            bytes_up=tally.bytes_up,
            seconds=tally.seconds,
            epsilon=self.spent,
            delta=None if claim is None else claim.request.delta,
            selected_round=self.progress.selected_round,
            finished_at=time.time(),
            **others,
        )
        self.records.append(record)
        self.progress.lines += 1
        if record.given_up:
            LOG.warning("round %d, %s: %s", number, name, record.given_up)

    def _save(self) -> None:
        self._steps += 1
        self.progress.left = sorted(self.admission.left)
        self.progress.refused = [
            (name, reason, count) for (name, reason), count in self.admission.refused.items()
        ]
        self.checkpoint.write(self._steps, self.server, self.best, self.progress)

    def _restore(self) -> None:
        found = self.checkpoint.read()
        if found is None:
            self.records.keep(0)
            return
        step, last, best, progress = found
        ours = self.progress
        if (progress.deployment, progress.run, progress.origin) != (
            ours.deployment,
            ours.run,
            ours.origin,
        ):
            raise TacitError(
                f"The folder {str(self.folder)!r} holds another run, or this one with another "
                "experiment, roster, catalogue or promise (another version of tacit may count that "
                "otherwise); choose another folder."
            )
        self._steps, self.server, self.best, self.progress = step, last, best, progress
        self.records.keep(progress.lines)
        refused: Any = {(name, reason): count for name, reason, count in progress.refused}
        self.admission.remember(refused, progress.left)
