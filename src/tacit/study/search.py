"""One search on validation: settings are tried there alone, before any test value exists.

The loop here is not the one of `tacit.experiment.run`: it never ranks the test part, so there is
nothing that a choice could look at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter

from pydantic import BaseModel, ConfigDict, Field

from tacit.data.views import HeldOut
from tacit.errors import NoRoomError, TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.callbacks import Callbacks, Validation, together
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.run import RunInterruptedError
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.study.study import digest

Overrides = Sequence[str]  # `--set` strings that belong together


def _is_none(value: object) -> bool:
    return value is None


class Tried(BaseModel):
    """A setting that was tried: its best validation value, None where it diverged at once.

    `before_it_diverged` is the value of a setting whose longer run diverged after the search.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sets: tuple[str, ...]
    validation: float | None
    round: int
    stopped: str | None
    seconds: float
    before_it_diverged: float | None = Field(default=None, exclude_if=_is_none)


class Choice(BaseModel):
    """What was tried for one method on one dataset, by which measure, and what was chosen.

    >>> tried = [Tried(sets=("rate=1",), validation=v, round=1, stopped=None, seconds=0)
    ...          for v in (0.3, 0.1)]
    >>> choice = Choice(digest="d", by="validation NDCG@10", tried=tried).made()
    >>> choice.chosen, choice.withdrawn().made().chosen
    (0, 1)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    digest: str  # of all experiments that are tried
    by: str
    tried: tuple[Tried, ...] = ()
    chosen: int | None = Field(default=None, exclude_if=_is_none)

    def made(self) -> Choice:
        """With the best on validation chosen; refused where every setting diverged."""
        best = best_of([one.validation for one in self.tried])
        if best is None:
            raise TacitError("Every setting diverged, in the search or in the run after it.")
        return self.model_copy(update={"chosen": best})

    def withdrawn(self) -> Choice:
        """With the chosen setting taken back, because its run diverged, which is longer than the
        search. What was tried stays written down."""
        assert self.chosen is not None
        tried = list(self.tried)
        one = tried[self.chosen]
        tried[self.chosen] = one.model_copy(
            update={"before_it_diverged": one.validation, "validation": None}
        )
        return Choice(digest=self.digest, by=self.by, tried=tuple(tried))

    def later(self, other: Choice) -> Choice:
        """Of two notes on the same experiments, the one that knows more: a choice that was taken
        back anywhere stays so."""
        if self.digest != other.digest:
            return other
        return self if self._known > other._known else other

    @property
    def _known(self) -> tuple[int, int]:
        taken_back = [one for one in self.tried if one.before_it_diverged is not None]
        return len(self.tried), len(taken_back)


def best_of(values: Sequence[float | None]) -> int | None:
    """Which validation value is the best, the first of equals; None where there is no value.

    >>> best_of([0.1, None, 0.3, 0.3]), best_of([None])
    (2, None)
    """
    known = [-math.inf if value is None else value for value in values]
    return known.index(max(known)) if max(known) > -math.inf else None


def search(
    settings: Mapping[tuple[str, ...], Experiment],
    *,
    threads: int = 1,
    callbacks: Callbacks = (),
) -> Choice:
    """Try every setting on validation and choose the best.

    >>> from tacit.experiment.resolve import resolve
    >>> sets = [(f"local.epochs={n}",) for n in (1, 2)]
    >>> choice = search({one: resolve("fedmf", rounds=2, sets=one) for one in sets})
    >>> len(choice.tried), choice.chosen in (0, 1)
    (2, True)
    """
    experiments = list(settings.values())
    prepared = prepare(experiments[0])
    tried = tuple(
        try_setting(sets, experiment, prepared, threads, callbacks)
        for sets, experiment in settings.items()
    )
    by = measured_by(experiments[0])
    return Choice(digest=digest(*experiments), by=by, tried=tried).made()


def measured_by(experiment: Experiment, length: str | None = None) -> str:
    """By what a search chooses, in words; `length` is how long it is, where it is shorter than
    what it is for.

    >>> from tacit.experiment.resolve import resolve
    >>> measured_by(resolve("fedmf", rounds=5))
    'full-ranking validation NDCG@10, seed 0, 5 rounds'
    """
    protocol = experiment.protocol
    by = f"{protocol.select_on}-ranking validation {protocol.select_metric}"
    return f"{by}, seed {experiment.seed}, {length or f'{experiment.rounds} rounds'}"


def try_setting(
    sets: Overrides,
    experiment: Experiment,
    prepared: Prepared,
    threads: int = 1,
    callbacks: Callbacks = (),
) -> Tried:
    """One setting on validation; one that diverges keeps what it reached before.

    >>> from tacit.experiment.resolve import resolve
    >>> one = resolve("popularity")
    >>> try_setting((), one, prepare(one)).round
    1
    """
    callback, started = together(callbacks), perf_counter()
    trainer = Trainer(experiment, prepared.split.train, threads)
    looks = Looks(experiment, prepared.split.valid)
    stopped = None
    callback.begin(experiment, trainer.rounds, trainer.describe().text)
    try:
        looks.train(trainer, callback)
    except (RunInterruptedError, NoRoomError):
        raise
    except TacitError as error:
        stopped = str(error)
    finally:
        callback.end(None)
    return Tried(
        sets=tuple(sets),
        validation=looks.best if looks.best_round else None,
        round=looks.best_round,
        stopped=stopped,
        seconds=perf_counter() - started,
    )


class Looks:
    """Trains while looking at validation, as the protocol says, and knows the best round so far.

    With `keep` the trainer keeps the state of that round, for whoever ranks with it later.
    """

    def __init__(self, experiment: Experiment, valid: HeldOut, *, keep: bool = False) -> None:
        self.experiment, self.valid, self.keep = experiment, valid, keep
        self.best, self.best_round = -math.inf, 0

    def train(self, trainer: Trainer, callbacks: Callbacks = ()) -> None:
        """All rounds; the first of equal rounds counts."""
        callback, every = together(callbacks), self.experiment.evaluate_every
        for number in range(1, trainer.rounds + 1):
            trainer.run_round()
            if number % every == 0 or number == trainer.rounds:
                callback.validation(self._look(trainer, number))
            callback.round(number, trainer.loss)

    def _look(self, trainer: Trainer, number: int) -> Validation:
        protocol = self.experiment.protocol
        ranking = "full" if protocol.select_on == "full" else "sampled99"
        ranks = rank(trainer.scores(), self.valid)
        chosen = ranks.full if ranking == "full" else ranks.sampled
        name = protocol.select_metric
        value = metric(chosen, name, ties=protocol.ties)
        if value > self.best:
            self.best, self.best_round = value, number
            if self.keep:
                trainer.keep_best()
        found = {ranking: {name: value}}
        return Validation(number, name, value, self.best, self.best_round, found)
