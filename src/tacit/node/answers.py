"""How a node answers each kind of request. This is the part of it that loads torch."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacit.core.algorithm import TRAIN, Exchange, Total
from tacit.core.types import OWN_ITEMS
from tacit.engines.state import State
from tacit.errors import loggable
from tacit.node.agreement import NotAnsweredError
from tacit.node.kept import arrays_of, keeps_something
from tacit.node.ledger import MASKED_HITS, PLAIN_HITS, Entry, SentParameter, spent_by_all
from tacit.node.linear import linear_scores
from tacit.node.play import OwnRun
from tacit.node.ranking import Ranking
from tacit.node.runs import Delivered, PendingSum, RunBox, SharedModel, When
from tacit.privacy.secure_sum.client import SumClient
from tacit.privacy.secure_sum.messages import (
    Neighbourhood,
    RefusedMessageError,
    ShareDelivery,
    UnmaskRequest,
    from_bytes,
    to_bytes,
)
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.secure_sum.primitives import NodeKey
from tacit.privacy.skellam import SkellamReleases
from tacit.wire.messages import (
    Answer,
    Arrays,
    Deliver,
    Give,
    Moment,
    Play,
    Played,
    Rank,
    Ranked,
    Received,
    RunPlan,
    SumAnswer,
    SumRequest,
    from_letter,
    to_letter,
)

if TYPE_CHECKING:
    from tacit.node.device import Node

LOG = logging.getLogger("tacit.node")
HITS = "hits"


class Answers:
    """Answers to requests of a run, one after another; whoever calls holds the node's lock."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._run: tuple[Any, OwnRun] | None = None  # the last one, and what it was made from

    def answer(self, request: Play | SumRequest | Rank | Deliver | Give) -> Answer:
        if isinstance(request, Play):
            return self._play(request)
        if isinstance(request, Rank):
            return self._rank(request)
        if isinstance(request, Deliver):
            return self._deliver(request)
        if isinstance(request, Give):
            return self._give(request)
        return self._sum(request)

    # A run

    def _own(self, plan: RunPlan) -> tuple[OwnRun, int]:
        """The run on the histories of now, and the last row of these."""
        node = self._node
        histories = node.histories()
        made_from = (plan, node.catalogue.digest, histories.mark, node.settings)
        if self._run is None or self._run[0] != made_from:
            known = (plan, node.catalogue, node.people, histories, node.settings.agreement)
            self._run = made_from, OwnRun.of(*known)
        return self._run[1], histories.mark

    def _box(self, moment: Moment, plan: RunPlan) -> RunBox:
        """What was kept of the run; a run that changes its plan is another run."""
        box = RunBox.read(self._node.store, moment)
        if box is None:
            if self._node.ledger.counted(moment.deployment, moment.run)[0]:
                raise NotAnsweredError("stale", "What was kept of this run is gone.")
            return RunBox(moment.deployment, moment.run, plan)
        if replace(plan, catalogue="") != replace(box.plan, catalogue=""):
            raise NotAnsweredError(
                "unknown run",
                "The plan or the promise of this run is another than the one it began with.",
            )
        return box

    def _begin(self, moment: Moment, plan: RunPlan) -> None:
        """A box for a run that has none yet. It comes before the run's first line in the ledger: a
        line without a box says that the box was lost."""
        store = self._node.store
        if RunBox.read(store, moment) is None:
            RunBox(moment.deployment, moment.run, plan).write(store)

    # Training

    def _play(self, request: Play) -> Answer:
        moment = request.moment
        when = (moment.round_number, moment.exchange)
        box = self._box(moment, request.plan)
        if when == box.played and box.answer is not None:
            return self._kept(box)
        self._require_later(when, box.played)
        run, mark = self._own(request.plan)
        exchange = run.exchange(*when)
        if request.plan.secure and exchange.sends:
            raise NotAnsweredError(
                "wrong step", "Uploads of this run are added up under masks, and go no other way."
            )
        state, total = self._played(run, box, when, exchange, request.arrays)
        arrays: Arrays = {}
        if exchange.sends:
            sums = run.with_own_noise(total, state.shared)
            wanted = np.dtype(run.experiment.precision)
            arrays = {name: np.asarray(value, dtype=wanted) for name, value in sums.items()}
        clients, weight = (total.clients, float(total.weight)) if exchange.sends else (0, 0.0)
        if run.sends_table(exchange):
            arrays[OWN_ITEMS] = state.private[OWN_ITEMS][0].numpy().copy()
            clients, weight = (clients, weight) if exchange.sends else (1, 1.0)
        answer = Played(moment, clients, weight, arrays)
        box.keep(answer)
        if arrays:
            self._begin(moment, request.plan)
            self._write_down(run, box, moment, "upload", arrays, clients)
        box.write(self._node.store)
        self._keep_ranking(run, box, state, mark, exchange, when)
        return answer

    def _give(self, request: Give) -> Answer:
        """What the server made of the table that was sent takes the place of what was kept; the
        same again changes nothing."""
        moment, box = request.moment, self._box(request.moment, request.plan)
        when = (moment.round_number, moment.exchange)
        run, _ = self._own(request.plan)
        if not run.sends_table(run.exchange(*when)):
            raise NotAnsweredError("wrong step", "No table was sent in this exchange.")
        if when != box.played:
            raise NotAnsweredError("stale", f"Round {when[0]} is over, or was not played.")
        box.state = {**box.state, **run.given(request.arrays)}
        box.write(self._node.store)
        return Received(moment.deployment, self._node.catalogue.version)

    def _played(
        self, run: OwnRun, box: RunBox, when: When, exchange: Exchange, arrays: Arrays
    ) -> tuple[State, Total]:
        """One exchange, with what is kept of it put into the box, which is not written yet."""
        number = when[0]
        shared = run.received(arrays, run.running(exchange))
        state = run.state(box.state, shared, number - 1, fresh=False)
        if box.closed < box.trained < number:
            run.close(state)
            box.closed = box.trained
        total = run.play(state, exchange)
        if exchange.name == TRAIN:
            box.trained = number
        if run.is_last(*when) and box.trained == number:
            run.close(state)
            box.closed = number
        box.played, box.plan = when, run.plan
        box.state = arrays_of(state, run.train)
        return state, total

    def _kept(self, box: RunBox) -> Answer:
        kept: Answer = box.kept()
        return kept

    @staticmethod
    def _require_later(when: When, played: When) -> None:
        if when <= played:
            raise NotAnsweredError(
                "stale", f"Round {played[0]}, exchange {played[1]} was played already."
            )

    def _write_down(
        self, run: OwnRun, box: RunBox, moment: Moment, kind: str, arrays: Arrays, clients: int
    ) -> None:
        """What is about to leave, in the ledger, with what it and all before it spend together;
        refused where the plan has no room for it."""
        ledger, releases, epsilon = self._node.ledger, 0, None
        if kind not in PLAIN_HITS:
            uploads, hits = ledger.counted(moment.deployment, moment.run)
            (hits if kind == MASKED_HITS else uploads).add((moment.round_number, moment.exchange))
            releases = len(uploads)
            run.require_release(releases)
            epsilon = run.spent(releases, len(hits), box.noise)
        known = (moment.deployment, moment.run, moment.round_number, moment.exchange)
        sent = tuple(SentParameter(k, tuple(a.shape), a.nbytes) for k, a in arrays.items())
        entry = Entry(*known, kind, sent, releases, epsilon, clients)
        if kind not in PLAIN_HITS:
            together = spent_by_all([*ledger.read(), entry])
            self._node.settings.agreement.require_total(together)
        ledger.write(entry)

    # Ranking

    def _rank(self, request: Rank) -> Answer:
        moment, box = request.moment, self._box(request.moment, request.plan)
        asked = (moment.round_number, request.part)
        if asked == box.ranked and box.hits is not None:
            return from_letter(box.hits)  # type: ignore[return-value]
        run, _ = self._own(request.plan)
        self._require_hits(run, secure=False)
        self._node.settings.agreement.require_open_hits()
        self._require_later_ranking(box, asked)
        found, people = self._hits(run, box, request.arrays, *asked)
        arrays = {name: np.array(value) for name, value in found.items()}
        answer = Ranked(moment, request.part, people, arrays)
        box.ranked, box.hits = asked, to_letter(answer)
        self._write_down(run, box, moment, f"hits of {request.part}", arrays, people)
        box.write(self._node.store)
        return answer

    def _hits(
        self,
        run: OwnRun,
        box: RunBox,
        arrays: Arrays,
        round_number: int,
        part: Literal["valid", "test"],
    ) -> tuple[dict[str, float], int]:
        run.require_planned(round_number)
        shared = run.received(arrays, run.running(None))
        now = Delivered.of(Moment(box.deployment, box.run, round_number), run.plan, box)
        return run.hits(run.after(now, shared), part)

    @staticmethod
    def _require_later_ranking(box: RunBox, asked: tuple[int, str]) -> None:
        """Each round is ranked once, and the test part ends that: more answers would tell what is
        held out."""
        if box.ranked[1] == "test":
            raise NotAnsweredError("stale", "The test part was ranked, after which nothing is.")
        if asked[0] < max(box.played[0], box.ranked[0]):
            raise NotAnsweredError("stale", f"Round {asked[0]} was ranked or is over.")

    @staticmethod
    def _require_hits(run: OwnRun, *, secure: bool) -> None:
        protection = run.algorithm.protection
        if protection is not None and protection.request.selection == "last":
            raise NotAnsweredError(
                "not agreed", "The run promises that nobody looks at hits, so none are told."
            )
        if protection is not None and not secure:
            raise NotAnsweredError(
                "not agreed", "The run promises an epsilon, and hits in the open have none."
            )
        if run.plan.secure and not secure:
            raise NotAnsweredError(
                "wrong step", "Hits of this run are added up under masks, and go no other way."
            )

    def _deliver(self, request: Deliver) -> Answer:
        moment, node = request.moment, self._node
        box = self._box(moment, request.plan)
        run, mark = self._own(request.plan)
        shared = run.received(request.arrays, run.running(None))
        number, model = moment.round_number, self._in_round(run, box, request)
        state = run.after(model, shared)
        ranked = Ranking.read(node.store)
        final = request.final or (
            ranked is not None
            and (ranked.run, ranked.round_number) == (moment.run, number)
            and ranked.final
        )
        model.write(node.store)
        SharedModel(moment.deployment, moment.run, number, request.arrays).write(node.store)
        self._write_ranking(run, moment.run, number, final, state, mark, model.state_round)
        return Received(moment.deployment, node.catalogue.version)

    def _in_round(self, run: OwnRun, box: RunBox, request: Deliver) -> Delivered:
        """What people here had in the round of a model. A round that is over is found again where
        it was delivered before; else, at the end, people rank with what they have now."""
        moment, number = request.moment, request.moment.round_number
        if number >= box.played[0]:
            return Delivered.of(moment, run.plan, box)
        before = Delivered.read(self._node.store, moment.deployment, moment.run)
        if before is not None and before.round_number == number:
            return replace(before, plan=request.plan)
        if not request.final:
            raise NotAnsweredError("stale", f"Round {number} is over.")
        if not keeps_something(box.state):
            return Delivered.of(moment, run.plan, box)
        LOG.warning("round %d was selected unheard; people rank with what they have", number)
        return Delivered.of(moment, run.plan, box, max(box.trained, box.closed))

    def _keep_ranking(
        self, run: OwnRun, box: RunBox, state: State, mark: int, exchange: Exchange, when: When
    ) -> None:
        """After a round, lists from what a person has now, until a model is delivered."""
        before = Ranking.read(self._node.store)
        delivered = before is not None and (before.run == box.run or before.final)
        if delivered or not run.is_last(*when) or run.running(exchange) is not run.running(None):
            return
        if run.algorithm.reads_tables is not None:  # what the server makes of them is still to come
            return
        state.round_number = when[0]
        state.fresh_U = np.full(run.train.n_users, box.trained == when[0])
        try:
            self._write_ranking(run, box.run, when[0], False, state, mark, when[0])
        except Exception as error:  # the round is played and kept; a list is not worth its answer
            LOG.warning("no list was kept: %s", loggable(error))

    def _write_ranking(
        self,
        run: OwnRun,
        name: str,
        number: int,
        final: bool,
        state: State,
        mark: int,
        state_round: int,
    ) -> None:
        score_UI = run.scores(state)
        linear = linear_scores(run, state, score_UI)
        Ranking(name, number, final, mark, state_round, score_UI, linear).write(self._node.store)

    # Secure sums

    def _sum(self, request: SumRequest) -> Answer:
        moment, step = request.moment, request.step
        when = (moment.round_number, moment.exchange)
        box = self._box(moment, request.plan)
        digest = hashlib.sha256(request.sum_plan + b"\n" + request.body).hexdigest()
        pending = box.sums.get(request.summed)
        sums = from_bytes(request.sum_plan)
        if not isinstance(sums, SumPlan):
            raise NotAnsweredError("unreadable", "A request of a secure sum has no plan of it.")
        same = pending is not None and (pending.when, pending.context) == (when, sums.context.hex())
        if same and pending is not None and pending.requests.get(step) == digest:
            return SumAnswer(moment, step, bytes.fromhex(pending.answers[step]))
        run, mark = self._own(request.plan)
        if not request.plan.secure:
            raise NotAnsweredError("wrong step", "The plan of this run has no secure sums.")
        if request.summed == HITS:
            self._require_hits(run, secure=True)
            self._is_valid(run, when)
            length = len(run.hit_names) + 1
            told = self._node.ledger.counted(moment.deployment, moment.run)[1] - {when}
            run.require_hits(self._node.settings.agreement, sums, len(told), box.noise)
        else:
            length = run.layout(run.exchange(*when)).length
        run.require_sum(sums, length, uploads=request.summed != HITS)
        if step == "keys":
            self._require_new_sum(box, request.summed, when)
            client = SumClient(sums, self._key(), self._node.settings.directory)
            pending = PendingSum(when, sums.context.hex(), "")
        elif not same or pending is None or not pending.saved:
            raise NotAnsweredError("wrong step", "This node is in no such secure sum.")
        else:
            client = SumClient.resumed(
                bytes.fromhex(pending.saved), self._key(), self._node.settings.directory
            )
        try:
            body, state = self._step(client, run, box, request, sums, when)
        except RefusedMessageError as error:
            reason = "unreadable" if error.reason == "unreadable" else "wrong step"
            raise NotAnsweredError(reason, str(error)) from error  # type: ignore[arg-type]
        box.sums[request.summed] = PendingSum(
            pending.when,
            pending.context,
            "" if step == "unmask" else client.saved().hex(),  # secrets go with the sum
            {**pending.requests, step: digest},
            {**pending.answers, step: body.hex()},
        )
        box.write(self._node.store)
        if state is not None:
            self._keep_ranking(run, box, state, mark, run.exchange(*when), when)
        return SumAnswer(moment, step, body)

    @staticmethod
    def _keep_noise(box: RunBox, summed: str, sums: SumPlan) -> None:
        if sums.promised_noise > 0.0:
            box.noise[summed] = SkellamReleases.of(sums.code, sums.promised_noise)[:3]

    @staticmethod
    def _is_valid(run: OwnRun, when: When) -> bool:
        """Hits come after the exchanges of a round: of validation first, then of the test."""
        place = when[1] - len(run.algorithm.exchanges(when[0]))
        if place not in (0, 1):
            raise NotAnsweredError("wrong step", "Hits are added up after the round is played.")
        return place == 0

    def _key(self) -> NodeKey:
        settings = self._node.settings
        if not settings.directory:
            raise NotAnsweredError(
                "not agreed", "This node knows no keys of others, which a secure sum needs."
            )
        return NodeKey(settings.number, settings.secret)

    def _require_new_sum(self, box: RunBox, summed: str, when: When) -> None:
        """A moment is masked once; a sum that did not come so far may begin anew. For hits the
        ledger says it: other sums may have begun since."""
        if summed != HITS:
            self._require_later(when, box.played)
            return
        told = self._node.ledger.counted(box.deployment, box.run)[1]
        if when[0] < box.played[0] or when <= max(told, default=(0, 0)):
            raise NotAnsweredError("stale", f"Hits of round {when[0]} were told already.")

    def _step(
        self,
        client: SumClient,
        run: OwnRun,
        box: RunBox,
        request: SumRequest,
        sums: SumPlan,
        when: When,
    ) -> tuple[bytes, State | None]:
        """The client's answer to one step; with `mask` people play, and the box has their state."""
        step = request.step
        if step == "keys":
            return to_bytes(client.advertise()), None
        message = from_bytes(request.body)
        if step == "shares" and isinstance(message, Neighbourhood):
            return to_bytes(client.share(message)), None
        if step == "unmask" and isinstance(message, UnmaskRequest):
            return to_bytes(client.unmask(message)), None
        if step != "mask" or not isinstance(message, ShareDelivery):
            raise NotAnsweredError("unreadable", "A step of a secure sum has another's message.")
        if request.summed == HITS:
            part: Literal["valid", "test"] = "valid" if self._is_valid(run, when) else "test"
            found, people = self._hits(run, box, request.arrays, when[0], part)
            vector_N = np.array([*(found[name] for name in run.hit_names), float(people)])
            shapes = {name: np.zeros(()) for name in run.hit_names}
            answer = to_bytes(client.mask(message, vector_N))
            self._keep_noise(box, HITS, sums)
            self._write_down(run, box, request.moment, MASKED_HITS, shapes, people)
            return answer, None
        self._require_later(when, box.played)
        exchange = run.exchange(*when)
        state, total = self._played(run, box, when, exchange, request.arrays)
        layout = run.layout(exchange)
        vector_N = layout.flat(total.sums, total.weight, run.unit(state.shared))
        answer = to_bytes(client.mask(message, vector_N))
        names = {name: np.zeros(shape, np.uint32) for name, shape in layout.shapes}
        self._keep_noise(box, request.summed, sums)
        self._write_down(run, box, request.moment, "masked upload", names, total.clients)
        box.answer = None
        return answer, state
