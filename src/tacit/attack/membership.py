"""The membership attack: was a person's history among those that a released model was made from?

Many models are trained, each on a random half of the other users, every second one with the person
as well. The attacker sees what a model sends to everybody and makes one number of it. From half of
the models it learns how that number is distributed with the person and without (two normal
distributions); the likelihood ratio is then judged on the other half.

How many clients took part is public, and none of the numbers below looks at it. Shape suffixes: M
models, P parameters of a released model, H items of the history, I items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.stats import norm as normal

from tacit import streams
from tacit.attack.page import Control, Estimate
from tacit.attack.uploads import require_uploads
from tacit.data.views import TrainView
from tacit.engines.clients import NOBODY
from tacit.engines.device import one_torch_thread
from tacit.engines.select import newcomer_of
from tacit.errors import TacitError, argument, shown
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.recommend import NEWCOMER_ROUNDS
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.lower_bound import EpsilonBound, epsilon_bound, lower_rate, upper_rate

FEWEST_MODELS = 16
REFERENCES = 4  # pairs of models with and without the person, from which the influence is learnt
RESAMPLED = 2000  # times, for an interval
SHORTEST = 5  # items of a history that is chosen as the canary
INFLUENCE, SCORE = "influence", "score"
TOLD, SHUFFLED = "told", "shuffled"  # controls: a release that says it, and labels that say nothing


@dataclass(frozen=True)
class MembershipAttempt:
    """One attacker. Rates are counted on models that taught it nothing, at a threshold that lets
    through `allowed` of the models without the person among those that did."""

    attacker: str
    auc: Estimate
    allowed: float
    true_rate: Estimate
    false_rate: Estimate
    bound: EpsilonBound


@dataclass(frozen=True)
class Membership:
    """What released models gave away about one person."""

    name: str
    method: str
    guarantee: Guarantee | None
    person: str
    history: int  # items
    models: int
    users: int  # others in each model
    delta: float
    attempts: tuple[MembershipAttempt, ...]
    controls: tuple[Control, ...]


@one_torch_thread()
def attack_membership(
    experiment: Experiment,
    *,
    models: int = 100,
    person: str | None = None,
    delta: float = 1e-5,
    allowed: float = 0.05,
    prepared: Prepared | None = None,
    threads: int = 1,
    told: Callable[[int], None] = lambda done: None,
) -> Membership:
    """Attack models of an experiment; without a person the one with the rarest items is taken.
    `told` hears how many models are there.

    >>> from tacit.experiment.resolve import resolve
    >>> found = attack_membership(resolve("fedease", rounds=1), models=16)
    >>> found.history >= SHORTEST, found.controls[0].auc.mean
    (True, 1.0)
    """
    require_settings(models, allowed)
    prepared = prepare(experiment) if prepared is None else prepared
    train = prepared.split.train.existing()
    require_uploads(Trainer(experiment, prepared.split.train).algorithm, experiment.label)
    user = rarest(train) if person is None else _user(prepared, person)
    shadows = _Shadows(experiment, train, user, threads)
    direction_P = shadows.influence()
    statistic: dict[str, list[float]] = {INFLUENCE: [], SCORE: []}
    inside_M = np.arange(models) % 2 == 0
    for number, inside in enumerate(inside_M):
        model = shadows.train(number, bool(inside))
        statistic[INFLUENCE].append(float(released(model) @ direction_P))
        statistic[SCORE].append(shadows.own_score(model))
        told(number + 1)
    values = {name: np.array(value_M) for name, value_M in statistic.items()}
    attempts = [judged(name, value_M, inside_M, delta, allowed) for name, value_M in values.items()]
    return Membership(
        experiment.label,
        experiment.name,
        shadows.guarantee,
        str(prepared.dataset.interactions.users[user]),
        len(np.unique(train.positives[user])),
        models,
        shadows.half,
        delta,
        tuple(attempts),
        controls(values[INFLUENCE], inside_M, experiment.seed),
    )


def controls(value_M: np.ndarray, inside_M: np.ndarray, seed: int) -> tuple[Control, ...]:
    """A release that says who was there, and true numbers under labels that say nothing.

    >>> inside_M = np.arange(80) % 2 == 0
    >>> [one.passed for one in controls(1.0 * inside_M, inside_M, seed=0)]
    [True, True]
    """
    generator = streams.numpy_generator(seed, streams.SPLIT, 0, streams.name_of(TOLD))
    said_M = inside_M + 0.01 * generator.standard_normal(len(inside_M))
    told = judged(TOLD, said_M, inside_M, 0.0, 0.05).auc
    # at a level at which luck does not alarm
    mixed_M = generator.permutation(inside_M)
    shuffled = judged(SHUFFLED, value_M, mixed_M, 0.0, 0.05, level=0.999).auc
    return (
        Control(TOLD, "succeed", INFLUENCE, told, told.low > 0.999),
        Control(SHUFFLED, "fail", INFLUENCE, shuffled, shuffled.contains(0.5)),
    )


def require_settings(models: int, allowed: float) -> None:
    """Refuse what no data could make sense of.

    >>> require_settings(models=100, allowed=0.0)
    Traceback (most recent call last):
    tacit.errors.TacitError: allowed is 0; it is a rate of false alarms, above 0 and below 1.
    """
    if models < FEWEST_MODELS:
        raise TacitError(
            f"models is {models}; half of them teach the attacker and half judge it, so there must "
            f"be at least {FEWEST_MODELS}."
        )
    if not 0 < allowed < 1:
        raise TacitError(
            f"allowed is {allowed:g}; it is a rate of false alarms, above 0 and below 1."
        )


def rarest(train: TrainView) -> int:
    """The user whose items are the rarest on average, among those with at least five.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.repeat([0, 1, 2], 5), np.r_[0:5, 0:5, 5:10], n_lists=3)
    >>> rarest(TrainView(10, lists, np.arange(3, dtype=np.uint64), Lists.empty(3)))
    2
    """
    rarity_I = 1.0 / np.maximum(train.popularity_I(), 1)
    sizes = train.positives.size_U
    total_U = np.bincount(train.positives.list_N, rarity_I[train.positives.item_N], len(sizes))
    mean_U = np.where(sizes >= SHORTEST, total_U / np.maximum(sizes, 1), -1.0)
    if mean_U.max(initial=-1.0) < 0:
        raise TacitError(f"Nobody has {SHORTEST} train items, so there is nobody to look for.")
    return int(mean_U.argmax())


def _user(prepared: Prepared, person: str) -> int:
    users = [str(one) for one in prepared.dataset.interactions.users]
    if person not in users:
        raise TacitError(
            f"There is no user {shown(person)} in this data; give an id that stands in it, or "
            f"leave {argument('user')} out."
        )
    user = users.index(person)
    if not len(prepared.split.train.positives[user]):
        raise TacitError(
            f"The user {shown(person)} has no train items, so no model knows of them; give another."
        )
    return user


def released(model: Trainer) -> np.ndarray:
    """(P,) what a model sends to everybody: all that an outsider sees of it."""
    nobody = torch.tensor(NOBODY)
    received = model.algorithm.broadcast(model.state.on("cpu").shared, nobody)
    return np.concatenate([value.double().numpy().ravel() for value in received.values()])


@dataclass(frozen=True, eq=False)
class _Shadows:
    """Models of the same kind, on populations that the attacker draws."""

    experiment: Experiment
    view: TrainView
    user: int
    threads: int

    @property
    def half(self) -> int:
        return (self.view.n_users - 1) // 2

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What every one of the models promises."""
        return Trainer(self.experiment, self.view, self.threads).guarantee()

    def train(self, number: int, inside: bool) -> Trainer:
        """A model of its own population, with the person or without; the same number draws the
        same population and the same noise."""
        seed = (self.experiment.seed * 100_003 + number + REFERENCES) % 2**31
        generator = streams.numpy_generator(seed, streams.SPLIT, 0, streams.name_of("shadows"))
        others = np.delete(np.arange(self.view.n_users), self.user)
        chosen = np.sort(generator.permutation(others)[: self.half])
        users = np.append(chosen, self.user) if inside else chosen
        trainer = Trainer(replace(self.experiment, seed=seed), self.view.take(users), self.threads)
        while trainer.state.round_number < trainer.rounds:
            trainer.run_round()
        return trainer

    def influence(self) -> np.ndarray:
        """(P,) the direction in which the person moves a model: the mean over pairs of models that
        differ in nothing else."""
        total_P = 0.0
        for number in range(-REFERENCES, 0):
            pair = [released(self.train(number, inside)) for inside in (True, False)]
            total_P = total_P + (pair[0] - pair[1])
        return np.asarray(total_P / max(float(np.linalg.norm(total_P)), 1e-300))

    def own_score(self, model: Trainer) -> float:
        """How far the person's own items stand above all others when the model ranks for them, in
        standard deviations."""
        history = self.view.history(self.user)
        scored_I = newcomer_of(
            model.algorithm,
            model.train,
            model.state.on("cpu"),
            history,
            name=int(self.view.user_key_U[self.user]),
            seed=0,
            rounds=NEWCOMER_ROUNDS if model.algorithm.private else 0,
        )
        score_I = scored_I.astype(np.float64)  # the least spread is nothing in float32
        own = np.isin(np.arange(len(score_I)), history.item_H)
        spread = max(float(score_I.std()), 1e-300)
        return float((score_I[own].mean() - score_I[~own].mean()) / spread)


def judged(
    attacker: str,
    value_M: np.ndarray,
    inside_M: np.ndarray,
    delta: float,
    allowed: float,
    level: float = 0.95,
) -> MembershipAttempt:
    """The likelihood ratio of one statistic: learnt on the first half of the models with the person
    and without, judged on the second.

    >>> inside_M = np.arange(80) % 2 == 0
    >>> judged("told", inside_M + 0.0, inside_M, 1e-5, 0.05).auc.mean
    1.0
    """
    if not np.isfinite(value_M).all():
        raise TacitError("Some models are not finite numbers; the training diverged: lower rates.")
    sides = value_M[inside_M], value_M[~inside_M]
    taught = [len(one_N) // 2 for one_N in sides]
    around = [
        (float(one_N[:n].mean()), max(float(one_N[:n].std(ddof=1)), 1e-12))
        for one_N, n in zip(sides, taught, strict=True)
    ]
    ratios = [
        np.clip(normal.logpdf(one_N, *around[0]) - normal.logpdf(one_N, *around[1]), -1e6, 1e6)
        for one_N in sides
    ]
    bound = epsilon_bound(ratios[0], ratios[1], delta, level=level)
    threshold = float(np.quantile(ratios[1][: taught[1]], 1 - allowed))
    held = [ratio_N[n:] for ratio_N, n in zip(ratios, taught, strict=True)]
    return MembershipAttempt(
        attacker,
        _auc(held[0], held[1], level),
        allowed,
        _rate(held[0] > threshold, level),
        _rate(held[1] > threshold, level),
        bound,
    )


def _auc(with_N: np.ndarray, without_N: np.ndarray, level: float) -> Estimate:
    """How often a model with the person stands above one without; models are resampled. Counts are
    whole or half numbers, so that chance is 0.5 and not a rounding beside it."""
    above_NN = (with_N[:, None] > without_N) + 0.5 * (with_N[:, None] == without_N)
    generator = streams.numpy_generator(0, streams.RESAMPLE, 0, streams.name_of("membership"))
    times = [generator.multinomial(n, np.full(n, 1 / n), RESAMPLED) for n in above_NN.shape]
    draw_D = ((times[0] @ above_NN) * times[1]).sum(axis=1) / above_NN.size
    low, high = np.quantile(draw_D, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(above_NN.mean()), float(low), float(high))


def _rate(hit_N: np.ndarray, level: float) -> Estimate:
    """A rate with its exact interval."""
    hits, error = np.array(hit_N.sum()), (1 - level) / 2
    low, high = lower_rate(hits, len(hit_N), error), upper_rate(hits, len(hit_N), error)
    return Estimate(float(hit_N.mean()), float(low), float(high))
