"""The clients' half of a run, for a node's own people: what they learn, send and rank.

Nothing of a method is written here. A plan becomes the experiment's algorithm on the node's own
histories, and engines play its exchanges: the readable reference for one person, a fast engine for
many. Random streams are those of a simulation with the same seed and the same people, so that
numbers are equal. Noise that hides somebody is drawn from the operating system instead.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from tacit.core.algorithm import TRAIN, Algorithm, Exchange, Total
from tacit.core.protection import spent_epsilon
from tacit.core.types import BOUND, ITEMS, OWN_ITEMS, Initializer, Params, Task
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.interactions import Interactions
from tacit.data.rules import first_of_pair
from tacit.data.split import split_dataset
from tacit.data.views import Split, TrainView
from tacit.engines.layout import VectorLayout, bounded_length
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.engines.round import begin, forget
from tacit.engines.select import engine_for, scorer_of
from tacit.engines.state import State
from tacit.errors import TacitError, shown
from tacit.evaluation.metrics import per_user
from tacit.evaluation.ranking import rank
from tacit.experiment.claims import guarantee_of
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import loads
from tacit.memory import available_bytes
from tacit.node.agreement import Agreement, NotAnsweredError
from tacit.node.catalogue import PRESENT, Catalogue
from tacit.node.history import Histories
from tacit.node.kept import PRIVATE, state_of
from tacit.node.runs import Delivered
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.secure_sum.plan import SumPlan, neighbourhood
from tacit.privacy.secure_sum.primitives import generator_from
from tacit.privacy.skellam import SkellamReleases, composed_epsilon
from tacit.wire.messages import Arrays, RunPlan

LOCAL_SPLITS = ("leave_one_out", "ratio", "released")  # what one person can do alone
TOLD = ("HR@10", "NDCG@10")  # of the full and of the sampled ranking, beside the selected metric


@dataclass(frozen=True, eq=False)
class OwnRun:
    """A run as this node's people play it: the experiment, the algorithm and their own views."""

    plan: RunPlan
    experiment: Experiment
    algorithm: Algorithm
    split: Split

    @classmethod
    def of(
        cls,
        plan: RunPlan,
        catalogue: Catalogue,
        people: tuple[str, ...],
        histories: Histories,
        agreement: Agreement,
    ) -> OwnRun:
        """Refuses, with a reason, a plan that this node cannot play or its owner did not agree
        to."""
        if plan.catalogue != catalogue.digest:
            raise NotAnsweredError(
                "unknown run", "The run is about another catalogue than this node has."
            )
        experiment = planned_experiment(plan.experiment, agreement)
        dataset = own_dataset(catalogue, people, histories, experiment)
        split = split_dataset(dataset, experiment.protocol, nobody_evaluated="accept")
        train = split.train
        # a device that gets no content leaves it to the server
        content = train.content or None
        task = Task(plan.users, train.n_items, content, plan.releases)
        algorithm = experiment.method.algorithm(task)
        _require_memory(algorithm, train.n_users, np.dtype(experiment.precision).itemsize)
        if algorithm.central is not None:
            raise NotAnsweredError(
                "unknown run", f"{experiment.name} wants whole histories, which stay here."
            )
        if algorithm.reads_tables is not None:
            agreement.require_tables(plan, len(people), experiment.name)
        run = cls(plan, experiment, algorithm, split)
        run.require_agreed(agreement)
        return run

    @property
    def train(self) -> TrainView:
        return self.split.train

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.experiment.precision == "float64" else torch.float32

    @cached_property
    def engine(self) -> Any:
        """The reference for one person; for many, what the experiment asks for."""
        if self.train.n_users == 1:
            return LoopEngine(self.dtype)
        known = (self.algorithm, self.experiment.name, self.experiment.engine)
        return engine_for(*known, dtype=self.dtype)

    # What the owner has agreed to

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What the whole run promises to one person here, computed anew."""
        if not self.plan.releases or not any(link.noisy for link in self.algorithm.channel):
            return None
        return guarantee_of(self.experiment, self.algorithm, self.plan.releases)

    def require_agreed(self, agreement: Agreement) -> None:
        agreement.require_masks(self.plan)
        found = self.guarantee
        claims = self.algorithm.protection is not None
        if (claims or self.plan.promise) and found is None:
            raise NotAnsweredError("not agreed", "The run promises what its plan does not keep.")
        if claims and found is not None and found.view != "local" and not self.plan.secure:
            raise NotAnsweredError(
                "not agreed",
                "The run promises that only sums are seen, and its plan has no secure sums.",
            )
        if found is not None:
            agreement.require_small_delta(found.delta)
        if agreement.most_epsilon is not None:
            holds = found is not None and (found.view == "local" or self.plan.secure)
            agreement.require_epsilon(found.epsilon if holds and found is not None else None)

    def spent(
        self,
        releases: int,
        hits: int = 0,
        noise: Mapping[str, tuple[float, float, float]] | None = None,
    ) -> float | None:
        """The epsilon of so many uploads; with the `noise` of secure sums by that, together with so
        many sums of hits."""
        claim = self.algorithm.protection
        if self.guarantee is None:
            return None
        if noise and claim is not None:
            return spent_epsilon(claim, noise, releases, hits)
        found = self.algorithm.guarantee(releases) if releases else None
        return None if found is None else found.epsilon

    def require_hits(
        self, agreement: Agreement, sums: SumPlan, hits: int, noise: Mapping[str, Any]
    ) -> None:
        """Refuse to tell hits once more where all planned uploads and these hits together would
        spend more than the owner agreed to."""
        if agreement.most_epsilon is None or self.algorithm.protection is None:
            return
        once = SkellamReleases.of(sums.code, sums.promised_noise)[:3]
        planned = self.spent(self.plan.releases or 0, hits + 1, {**noise, "hits": once})
        agreement.require_epsilon(planned)

    def require_sum(self, sums: SumPlan, length: int, *, uploads: bool) -> None:
        """Refuse a secure sum that is another than the plan of the run says; of `uploads`, or of
        something else."""
        plan, protection = self.plan, self.algorithm.protection
        if sums.fewest < plan.fewest or sums.colluders < plan.colluders:
            raise NotAnsweredError(
                "not agreed", "A secure sum protects less than the plan of the run says."
            )
        wanted = neighbourhood(sums.clients, sums.fewest, sums.colluders)
        if (sums.degree, sums.needed) != wanted:
            raise NotAnsweredError(
                "not agreed",
                f"In a secure sum {sums.needed} of {sums.degree} neighbours open a secret; for "
                f"this crowd and its colluders it should be {wanted[1]} of {wanted[0]}.",
            )
        if any(_on_uploads(link) for link in self.algorithm.channel):
            raise NotAnsweredError(
                "not agreed", "Devices add noise of their own, which a secure sum has no room for."
            )
        if sums.code.length != length:
            raise NotAnsweredError(
                "unreadable",
                f"A secure sum is of {sums.code.length} numbers, and this upload has {length}.",
            )
        if protection is None:
            return
        request, counted = protection.request, min(plan.releases or 1, protection.releases or 1)
        code = sums.code
        if uploads:
            code = replace(code, length=bounded_length(self.algorithm, length))
            if code.bound < protection.bound * self.train.n_users * (1 - 1e-9):
                # cut one by one, parts that had one bound together have it each
                counted = plan.releases or 1
        once = SkellamReleases.of(code, sums.promised_noise, counted)
        if composed_epsilon([once], request.delta) > request.epsilon * (1 + 1e-6):
            raise NotAnsweredError(
                "not agreed", "The noise of a secure sum is less than the run promises."
            )

    def require_planned(self, round_number: int) -> None:
        """Refuse a round after the last that was planned: no promise counts it."""
        most = self.plan.rounds
        if self.algorithm.max_rounds is not None:
            most = min(most, self.algorithm.max_rounds)
        if round_number > most:
            raise NotAnsweredError(
                "not agreed", f"Round {round_number} was asked for, and {most} were planned."
            )

    def require_release(self, releases: int) -> None:
        """Refuse an upload after the last that noise was made for. `releases` counts this one."""
        most = self.plan.releases
        if self.algorithm.protection is not None and most is not None and releases > most:
            raise NotAnsweredError(
                "not agreed", f"The run promises what {most} uploads tell, and this is one more."
            )

    # One exchange

    def exchange(self, round_number: int, place: int) -> Exchange:
        self.require_planned(round_number)
        exchanges = self.algorithm.exchanges(round_number) if round_number >= 1 else ()
        if not 0 <= place < len(exchanges):
            raise NotAnsweredError(
                "wrong step", f"Round {round_number} has no exchange {place} in this method."
            )
        return exchanges[place]

    def is_last(self, round_number: int, place: int) -> bool:
        return place == len(self.algorithm.exchanges(round_number)) - 1

    def running(self, exchange: Exchange | None) -> Algorithm:
        """The clients' half of an exchange, or of ranking: on views, where the server makes those
        of all items."""
        views = self.algorithm.views_sent
        if views is not None and (exchange is None or exchange.name == TRAIN):
            assert views.with_server_views is not None
            return views.with_server_views
        return self.algorithm

    def sends_table(self, exchange: Exchange) -> bool:
        """Whether the server reads the table of a person here in an exchange."""
        return exchange.name == TRAIN and self.algorithm.reads_tables is not None

    def layout(self, exchange: Exchange) -> VectorLayout:
        return VectorLayout.of(self.running(exchange), exchange)

    def received(self, arrays: Arrays, running: Algorithm) -> Params:
        """The shared parameters of a request, once they are what the algorithm declares."""
        self._require_declared(arrays, running.shared)
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def given(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """What a server made of tables for the person here, once it is what the method declares."""
        names = (OWN_ITEMS, *self.algorithm.made_by_server)
        self._require_declared(arrays, {name: self.algorithm.private[name] for name in names})
        return {PRIVATE + name: array[None].copy() for name, array in arrays.items()}

    def _require_declared(self, arrays: Arrays, declared: Mapping[str, Initializer]) -> None:
        wanted = np.dtype(self.experiment.precision)
        for name, array in arrays.items():
            if name not in declared or tuple(array.shape) != tuple(declared[name].shape):
                raise NotAnsweredError(
                    "unreadable", f"A request has the parameter {shown(name)} in a strange shape."
                )
            if array.dtype != wanted:
                raise NotAnsweredError(
                    "unreadable", f"A request has numbers of type {array.dtype}, not {wanted}."
                )
            if not np.isfinite(array).all():
                raise NotAnsweredError("unreadable", "A request has numbers that are not finite.")

    def state(
        self, kept: Mapping[str, np.ndarray], shared: Params, round_number: int, *, fresh: bool
    ) -> State:
        """What the node's people kept, before a round is played or after it was ranked with."""
        known = (shared, self.experiment.seed, self.dtype)
        state = state_of(kept, self.algorithm, self.train, *known)
        state.round_number = round_number
        state.fresh_U = np.full(self.train.n_users, fresh) & (self.train.positives.size_U > 0)
        return state

    def after(self, model: Delivered, shared: Params) -> State:
        """People as they are after a round, to rank with these shared parameters."""
        fresh = model.trained == model.round_number and model.trained > 0
        state = self.state(model.state, shared, model.round_number, fresh=fresh)
        if model.trained > model.closed:
            self.close(state)
        return state

    def play(self, state: State, exchange: Exchange) -> Total:
        """One exchange of the round after `state.round_number`, written in place."""
        who, seed, running = everybody(self.train), self.experiment.seed, self.running(exchange)
        if not len(who.user_P):
            raise NotAnsweredError("no data", "Nobody here has a history to train on yet.")
        self._require_same_for_all(running, state.shared)
        begin(self.algorithm, self.train, state, who, exchange, seed)
        try:
            if isinstance(self.engine, LoopEngine):
                total: Total = self.engine.play(running, self.train, state, exchange, who, seed)
            else:
                total = self.engine.play(running, self.train, state, seed, exchange, who)
        except KeyError as error:
            # the key of any other error could be an item or a person
            if not error.args or error.args[0] not in running.shared:
                raise
            raise NotAnsweredError(
                "unreadable", f"A request lacks the parameter {shown(error.args[0])}."
            ) from error
        if exchange.name == TRAIN and state.broadcast is not None:
            state.broadcast = state.shared[ITEMS].clone()
        if running.custom is not None and exchange.sends:
            total.weight = float(total.clients)
        return total

    def close(self, state: State) -> None:
        """The end of a round: what people do not find again after it."""
        if not self.algorithm.restores:
            forget(self.algorithm, self.train, state, everybody(self.train), self.experiment.seed)

    def _require_same_for_all(self, running: Algorithm, shared: Params) -> None:
        """Refuse a method whose server has something of its own for each person: a node does not
        know the numbers of its people there."""
        if running.custom is None or self.plan.users < 2:
            return
        one, two = (running.broadcast(shared, torch.tensor(user)) for user in (0, 1))
        if any(not torch.equal(one[name], two[name]) for name in one):
            raise NotAnsweredError(
                "unknown run",
                f"{self.experiment.name} sends each person something else, which nodes cannot "
                "play yet.",
            )

    def with_own_noise(self, total: Total, shared: Params) -> dict[str, np.ndarray]:
        """Sums with the noise that every device adds to its own upload: never from the seed, which
        everybody knows.

        The generator has a fresh key of the operating system for each upload. It is Philox, and
        not numpy's default: where a person touched nothing an upload is noise alone, and from such
        numbers the state of the default one can be found, and the rest of the noise with it.
        """
        generator = generator_from(secrets.token_bytes)
        protection = self.algorithm.protection
        unit = 1.0 if protection is None else protection.unit(shared)
        links = [link for link in self.algorithm.channel if _on_uploads(link)]
        found = dict(total.sums)
        for name, value in found.items() if links else ():
            units = 1.0 if name == BOUND else unit
            for link in links:
                value = link.add_noise(value / units, total.clients, generator) * units
            found[name] = value
        return found

    def unit(self, shared: Params) -> float:
        """In what units a vector for a secure sum is."""
        protection = self.algorithm.protection
        return 1.0 if protection is None else protection.unit(shared)

    # Ranking

    def scores(self, state: State) -> np.ndarray:
        """(U, I) logits of all people here."""
        running = self.running(None)
        scorer = scorer_of(running, self.train, state, self.experiment.seed)
        return scorer(np.arange(self.train.n_users))

    @property
    def hit_names(self) -> tuple[str, ...]:
        """The metrics whose sums a node tells, in their order."""
        protocol = self.experiment.protocol
        told = {f"{which}:{name}" for which in ("full", "sampled") for name in TOLD}
        return tuple(sorted(told | {f"{protocol.select_on}:{protocol.select_metric}"}))

    def hits(self, state: State, part: Literal["valid", "test"]) -> tuple[dict[str, float], int]:
        """Sums of metrics over the people who have something held out, and how many these are."""
        held_out = self.split.valid if part == "valid" else self.split.test
        if not len(held_out.user_E):
            return dict.fromkeys(self.hit_names, 0.0), 0
        scorer = scorer_of(self.running(None), self.train, state, self.experiment.seed)
        evaluation, found = rank(scorer, held_out), {}
        for name in self.hit_names:
            which, metric = name.split(":")
            ranks = evaluation.full if which == "full" else evaluation.sampled
            value_E = per_user(ranks, metric, self.experiment.protocol.ties)[1]
            found[name] = float(value_E.sum())
        return found, len(held_out.user_E)


def _on_uploads(link: Any) -> bool:
    return link.noise is not None and link.noise.on == "upload"


def _require_memory(algorithm: Algorithm, people: int, size: int) -> None:
    """Refuse a plan whose parameters this machine has no room for; nothing is made of it yet."""
    shared = sum(one.count for one in algorithm.shared.values())
    private = sum(one.count for one in algorithm.private.values())
    free = available_bytes()
    if free is not None and (shared + people * private) * size > free:
        raise NotAnsweredError(
            "unknown run", "The parameters of this run are more than the memory of this node."
        )


def planned_experiment(text: str, agreement: Agreement) -> Experiment:
    """The experiment of a plan. Modules that it names are imported only where the owner agreed to
    that: a server could choose what is run by them."""
    try:
        named = tomllib.loads(text).get("imports")
        if named and not agreement.imports:
            raise NotAnsweredError(
                "not agreed", "The plan names modules of its own, and the owner allows none."
            )
        experiment = loads(text)
        experiment.check()
    except NotAnsweredError:
        raise
    except (TacitError, ValueError, TypeError) as error:
        raise NotAnsweredError("unknown run", "The plan's experiment cannot be read.") from error
    protocol = experiment.protocol
    if protocol.split.kind not in LOCAL_SPLITS:
        raise NotAnsweredError(
            "unknown run",
            f"The split {protocol.split.kind} looks at all people together, which no node can.",
        )
    if protocol.negatives_exclude == "unseen":
        raise NotAnsweredError(
            "unknown run", "Negatives are drawn by what others touched, which no node knows."
        )
    return experiment


def own_dataset(
    catalogue: Catalogue, people: tuple[str, ...], histories: Histories, experiment: Experiment
) -> Dataset:
    """The node's own interactions over the whole catalogue."""
    rows = Interactions(
        histories.person_N.copy(),
        histories.item_N.copy(),
        people,
        catalogue.ids,
        histories.time_N.copy(),
    )
    if experiment.protocol.duplicates == "earliest" and len(rows):
        kept = first_of_pair(rows)
        rows = Interactions(
            rows.user_N[kept], rows.item_N[kept], people, catalogue.ids, histories.time_N[kept]
        )
    return Dataset("node", rows, content_of(catalogue))


def content_of(catalogue: Catalogue) -> Modalities:
    """What devices know of items: a table for each kind of content."""
    tables = {}
    for name, value_IF in catalogue.arrays.items():
        if name.endswith(PRESENT):
            continue
        present_I = catalogue.arrays.get(name + PRESENT)
        everywhere = np.ones(len(value_IF), dtype=bool)
        tables[name] = FeatureTable(value_IF, everywhere if present_I is None else present_I)
    return Modalities(tables)
