"""An experiment under audit: its data, its draws, all that is trained of it, each thing once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tacit import streams
from tacit.core.algorithm import Algorithm, Exchange
from tacit.core.capabilities import is_ground
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.data.replay import DrawnNegatives
from tacit.data.sampling import Sampling
from tacit.data.split import distinct
from tacit.data.views import HeldOut, Lists, Split, TrainView
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import Evaluation, ScoreBlock, rank, users_at_once
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.references import chance, chance_bound, popularity
from tacit.experiment.callbacks import Callback
from tacit.experiment.prepare import Prepared
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer

# What one check found: numbers, what they would be if nothing leaked, and a verdict.

Verdict = Literal["pass", "FLAG", "note"]


@dataclass(frozen=True)
class AuditFinding:
    """One check of an audit.

    `FLAG` says that a score under this protocol is not what it seems, `note` that a reader must
    know something, or that the check does not apply. `measured` and `honest` are the deciding
    number and its bound as they stand in the table; `numbers` holds everything, for a program.

    >>> AuditFinding("tied times", "note", "Nobody's.", {"share": 0.0}).verdict
    'note'
    """

    name: str
    verdict: Verdict
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    measured: str = ""
    honest: str = ""


def does_not_apply(name: str, why: str) -> AuditFinding:
    """The finding of a check that has nothing to look at.

    >>> does_not_apply("draws", "it draws no negatives").text
    'Does not apply: it draws no negatives.'
    """
    return AuditFinding(name, "note", f"Does not apply: {why}.")


# The same split, but everybody's test items are items that they have nothing to do with.


def swap_test(split: Split, seed: int, *, into_pool: bool = True) -> Split:
    """Put a uniformly drawn, never touched item in the place of each test item.

    The swapped item stands where the held-out one stood: in the test, and in what a leaky pool
    hides from the negatives. What was held out becomes an ordinary unseen item to training. In the
    full ranking all items the person ever touched are masked, so that candidates are exactly the
    items that the draw could have given: whoever does not know the draw is at chance, whatever else
    is known. Persons with too few untouched items are left out. A pool that hides the same items
    from everybody does not follow anybody's held-out ones: `into_pool=False` leaves it as it is.

    >>> from tacit.data.dataset import Dataset
    >>> from tacit.data.interactions import Interactions
    >>> from tacit.data.protocol import PFEDREC
    >>> from tacit.data.split import split_dataset
    >>> rows = Interactions.from_ids(["u"] * 3 + ["v"], ["a", "b", "c", "d"], time=[1, 2, 3, 4])
    >>> swapped = swap_test(split_dataset(Dataset("few", rows), PFEDREC), seed=0)
    >>> swapped.test.relevant[0].tolist(), swapped.train.hidden_from_negatives[0].tolist()
    ([3], [1, 3])
    """
    train, n_items, n_users = split.train, split.train.n_items, split.train.n_users
    valid, test = of_all_users(split.valid, n_users), of_all_users(split.test, n_users)
    left_out = Lists.empty(n_users) if split.left_out is None else split.left_out
    touched = distinct(n_items, train.positives, valid, test, left_out)
    most = int(test.size_U.max(initial=0))
    draw_UW = streams.uniforms(seed, streams.SWAP, 0, train.user_key_U, most)
    kept: list[int] = []
    drawn: list[np.ndarray] = []
    for place, user in enumerate(split.test.user_E):
        free = np.delete(np.arange(n_items), touched[user])
        wanted = len(split.test.relevant[place])
        if len(free) < wanted:
            continue
        chosen = np.empty(wanted, np.int64)
        for number in range(wanted):
            at = int(draw_UW[user, number] * len(free))
            chosen[number] = free[at]
            free = np.delete(free, at)
        kept.append(place)
        drawn.append(chosen)
    place_S = np.array(kept, np.int64)
    size_S = np.array([len(items) for items in drawn], np.int64)
    item_N = np.concatenate([np.zeros(0, np.int64), *drawn])
    user_S = split.test.user_E[place_S]
    relevant = Lists(np.concatenate([[0], np.cumsum(size_S)]), item_N)
    held_out = HeldOut(
        "test",
        n_items,
        user_S,
        relevant,
        touched.take(user_S),
        split.test.sampled.take(place_S),
    )
    hidden = train.hidden_from_negatives
    if train.leaks and into_pool:
        hidden = distinct(n_items, valid, of_all_users(held_out, n_users), left_out)
    return replace(split, train=replace(train, hidden_from_negatives=hidden), test=held_out)


def of_all_users(held_out: HeldOut, n_users: int) -> Lists:
    """The held-out items with one list per user of the train view, evaluated or not.

    >>> one, none = Lists(np.array([0, 1]), np.array([7])), Lists.empty(1)
    >>> of_all_users(HeldOut("test", 9, np.array([2]), one, none, none), 4).size_U.tolist()
    [0, 0, 1, 0]
    """
    user_N = np.repeat(held_out.user_E, held_out.relevant.size_U)
    return Lists.from_pairs(user_N, held_out.relevant.item_N, n_users)


# An experiment under audit: its data, its draws, and everything trained of it, each thing once.

# Which items training may draw as negatives: as the protocol says; all but the train items; or as
# the protocol says, with the swapped items in the place of the held-out ones.
Pool = Literal["audited", "honest", "swapped"]


@dataclass(frozen=True, eq=False)
class AuditOutcome:
    """What was trained ranks the test items, and the items that were swapped in for them."""

    test: Evaluation
    swapped: Evaluation


@dataclass(eq=False)
class Subject:
    """What the checks look at. Numbers are those of the last round: nothing is selected.

    >>> from tacit.experiment.prepare import prepare
    >>> from tacit.experiment.resolve import resolve
    >>> experiment = resolve("random")
    >>> subject = Subject(experiment, prepare(experiment))
    >>> subject.hits(subject.outcome("audited").test.full) < subject.bound(subject.chance)
    True
    """

    experiment: Experiment
    prepared: Prepared
    threads: int = 1
    callback: Callback = field(default_factory=Callback)
    _known: list[tuple[Any, Pool, AuditOutcome]] = field(default_factory=list)

    @property
    def split(self) -> Split:
        return self.prepared.split

    @cached_property
    def swapped(self) -> Split:
        return swap_test(self.split, self.experiment.seed, into_pool=self._hides_held_out)

    @property
    def _hides_held_out(self) -> bool:
        return self.experiment.protocol.negatives_exclude == "all"

    @property
    def users(self) -> int:
        return len(self.split.test.user_E)

    @cached_property
    def chance(self) -> float:
        """HR@10 of a random order, full ranking."""
        return metric(chance(self.split.test).full, "HR@10")

    @cached_property
    def popularity(self) -> Evaluation:
        """Everybody gets the items with most train interactions."""
        return popularity(self.split.train, self.split.test)

    def hits(self, ranks: Ranks) -> float:
        """HR@10 under the protocol's own tie rule."""
        return metric(ranks, "HR@10", ties=self.experiment.protocol.ties)

    def bound(self, probability: float) -> float:
        """The share of hits that so many users with this probability do not exceed by luck."""
        return chance_bound(self.users, min(probability, 1.0))[1]

    @property
    def ids_only(self) -> bool:
        """Whether the method knows items by their numbers alone, and nothing of their content."""
        method = self.experiment.method.composed
        return method is None or is_ground(method.items)

    @property
    def sampling(self) -> tuple[Sampling, int] | None:
        """How the method draws negatives, and its local epochs; None where it draws none."""
        draws = self.algorithm.draws(Exchange())
        return None if draws.sampling is None else (draws.sampling, draws.epochs)

    @cached_property
    def algorithm(self) -> Algorithm:
        return self.experiment.method.algorithm(Task.of(self.split.train))

    @cached_property
    def drawn(self) -> DrawnNegatives:
        """What users drew as negatives in all rounds; drawn again, not trained."""
        assert self.sampling is not None
        sampling, epochs = self.sampling
        return DrawnNegatives.of(
            self.split.train,
            sampling,
            seed=self.experiment.seed,
            rounds=((n, self._present(n)) for n in range(1, self.experiment.rounds + 1)),
            epochs=epochs,
        )

    def _present(self, round_number: int) -> np.ndarray:
        """Who draws negatives in a round: whoever takes part in it, at a central server all."""
        experiment, train = self.experiment, self.split.train
        if self.algorithm.central is not None:
            return np.arange(train.n_users)
        return experiment.participation.draw(train, experiment.seed, round_number).user_P

    def rounds_drawn(self, user_N: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Each of these users with the number of rounds that drew each item, some at a time."""
        rows = users_at_once(self.split.train.n_items)
        blocks = range(0, len(user_N), rows)
        self._begin("draws", f"as in {self.experiment.rounds} rounds", len(blocks))
        try:
            for number, first in enumerate(blocks, 1):
                user_B = user_N[first : first + rows]
                yield from zip(user_B.tolist(), self.drawn.rounds_BI(user_B), strict=True)
                self.callback.round(number, None)
        finally:
            self.callback.end(None)

    def outcome(self, pool: Pool, method: Method | None = None, text: str = "") -> AuditOutcome:
        """Train under a pool, unless that was done: the audited method, or another in its place."""
        if not self.split.train.leaks:
            pool = "audited"  # no pool differs from another: nothing is hidden from anybody
        elif pool == "swapped" and not self._hides_held_out:
            pool = "audited"  # it hides the same items whatever is held out
        chosen = self.experiment.method if method is None else method
        for known_method, known_pool, outcome in self._known:
            if known_pool == pool and known_method == chosen:
                return outcome
        what = f"{pool} pool{text}"
        outcome = self._train(replace(self.experiment, method=chosen), self._view(pool), what)
        self._known.append((chosen, pool, outcome))
        return outcome

    def without_order(self, *, ties_only: bool = False) -> AuditOutcome:
        """Train once more, with the order inside each train history shuffled, or of ties alone."""
        train, seed = self.split.train, self.experiment.seed
        view = train.ties_shuffled(seed) if ties_only else train.shuffled(seed)
        return self._train(self.experiment, view, f"{'ties' if ties_only else 'order'} shuffled")

    def _view(self, pool: Pool) -> TrainView:
        if pool == "honest":
            nothing = Lists.empty(self.split.train.n_users)
            return replace(self.split.train, hidden_from_negatives=nothing)
        return self.swapped.train if pool == "swapped" else self.split.train

    def _train(self, experiment: Experiment, train: TrainView, what: str) -> AuditOutcome:
        trainer = Trainer(experiment, train, self.threads)
        self._begin(what, trainer.describe().text, trainer.rounds)
        best, tries = float("-inf"), trainer.algorithm.unit == "setting"
        try:
            for number in range(1, trainer.rounds + 1):
                trainer.run_round()
                if tries:
                    best = self._keep_better(trainer, best)
                self.callback.round(number, trainer.loss)
        finally:
            self.callback.end(None)
        scores = trainer.best_scores() if tries else trainer.scores()
        return AuditOutcome(
            self._rank(scores, self.split.test), self._rank(scores, self.swapped.test)
        )

    def _rank(self, scores: ScoreBlock, held_out: HeldOut) -> Evaluation:
        return rank(scores, held_out, threads=self.threads)

    def _begin(self, what: str, engine: str, rounds: int) -> None:
        """Tell the callback what is going on now, in the place where a run has its name."""
        name = f"{self.experiment.label}, {self.experiment.protocol.name}, {what}"
        named = replace(self.experiment, name=name, plugins=())
        self.callback.begin(named, rounds, engine)

    def _keep_better(self, trainer: Trainer, best: float) -> float:
        """A closed form has settings for rounds; the last one is no better than the first."""
        protocol = self.experiment.protocol
        valid = self._rank(trainer.scores(), self.split.valid)
        chosen = valid.full if protocol.select_on == "full" else valid.sampled
        value = metric(chosen, protocol.select_metric, ties=protocol.ties)
        if value >= best:
            trainer.keep_best()
        return max(value, best)
