"""The interaction attack: which items a person has interacted with, from what their device sends.

Clients train on their own items and on drawn ones. The server sees their uploads, or only the sum
over a cohort. An attacker gives every item of the catalogue a score, and the measure is the
probability that an item of the person's history stands above another one (AUC): 0.5 is chance, 1
is the whole history.

Shape suffixes: T targets, I items, W numbers that an upload has for one item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

import numpy as np
from scipy.stats import rankdata

from tacit import streams
from tacit.attack.page import Control, Estimate
from tacit.attack.uploads import WatchedRound, watch
from tacit.engines.device import one_torch_thread
from tacit.errors import TacitError, argument
from tacit.evaluation.significance import paired_bootstrap
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.privacy.guarantee import Guarantee

ACCOUNTS = 20  # clients that belong to the attacker, who knows what they have and what they sent
POWER_STEPS = 30

# What an attacker does with a table: (what it sees, the direction that it knows) -> scores (I,).
Attacker = Callable[[np.ndarray, np.ndarray], np.ndarray]


def touched(seen_IW: np.ndarray, known_W: np.ndarray) -> np.ndarray:
    """Which rows are not zero: the history, and negatives that were drawn beside it."""
    return np.asarray((seen_IW != 0).any(axis=1), float)


def norm(seen_IW: np.ndarray, known_W: np.ndarray) -> np.ndarray:
    """How far each row was moved."""
    return np.linalg.norm(seen_IW, axis=1)


def own_direction(seen_IW: np.ndarray, known_W: np.ndarray) -> np.ndarray:
    """How far along the direction in which most of this upload goes. Positives and negatives are
    moved to opposite sides, and the side with fewer rows is that of the positives.

    >>> seen_IW = np.array([[2.0, 0], [-1, 0], [-1, 0], [0, 0]])
    >>> own_direction(seen_IW, np.zeros(2)).tolist()
    [2.0, -1.0, -1.0, 0.0]
    """
    along_I = seen_IW @ _leading(seen_IW)
    above, below = int((along_I > 0).sum()), int((along_I < 0).sum())
    turned = below < above if below else False
    return -along_I if turned or not above else along_I


def _leading(seen_IW: np.ndarray) -> np.ndarray:
    """The right singular vector of the largest singular value, by the power method."""
    start_W = np.asarray(np.abs(seen_IW).sum(axis=0))
    direction_W = start_W / max(float(np.linalg.norm(start_W)), 1e-300)
    for _ in range(POWER_STEPS):
        next_W = seen_IW.T @ (seen_IW @ direction_W)
        direction_W = next_W / max(float(np.linalg.norm(next_W)), 1e-300)
    return np.asarray(direction_W)


def known_direction(seen_IW: np.ndarray, known_W: np.ndarray) -> np.ndarray:
    """How far along the direction in which the attacker's own clients move their positives."""
    return np.asarray(seen_IW @ known_W)


ATTACKERS: dict[str, Attacker] = {
    "touched": touched,
    "norm": norm,
    "own direction": own_direction,
    "known direction": known_direction,
}


def auc(score_I: np.ndarray, item_H: np.ndarray) -> float:
    """The probability that an item of a history has a higher score than another item; ties count
    half.

    >>> auc(np.array([3.0, 1.0, 2.0, 0.0]), np.array([0, 1]))
    0.75
    >>> auc(np.zeros(4), np.array([0]))
    0.5
    """
    inside = np.unique(item_H)
    above = rankdata(score_I)[inside].sum() - len(inside) * (len(inside) + 1) / 2
    return float(above / (len(inside) * (len(score_I) - len(inside))))


@dataclass(frozen=True)
class InteractionAttempt:
    """One attacker who sees sums over so many clients, in so many rounds.

    `without` is the same attack on an equal cohort without the target: what is known of everybody.
    """

    attacker: str
    clients: int
    rounds: int
    auc: Estimate
    without: Estimate
    difference: Estimate


HISTORY, SHUFFLED = "history itself", "shuffled"


@dataclass(frozen=True)
class Interactions:
    """What the uploads of one experiment gave away."""

    name: str
    method: str
    guarantee: Guarantee | None  # for all rounds of the experiment, whoever attacks
    targets: int
    items: int
    rounds: tuple[int, ...]  # the rounds that were watched
    planned: int  # rounds of the experiment
    attempts: tuple[InteractionAttempt, ...]
    controls: tuple[Control, ...]


@dataclass(frozen=True)
class Setting:
    """What an attacker looks at: whom, in sums over how many clients, from which round on.

    >>> Setting(clients=(0,)).check()
    Traceback (most recent call last):
    tacit.errors.TacitError: clients is 0; a sum is over at least one.
    """

    targets: int = 100
    clients: tuple[int, ...] = (1,)
    first: int = 1
    watched: int = 2
    seed: int = 0

    def check(self) -> None:
        if not self.clients:
            raise TacitError(f"Give at least one number of {argument('clients')}.")
        if min(self.clients) < 1:
            raise TacitError(f"clients is {min(self.clients)}; a sum is over at least one.")
        for name in ("targets", "first", "watched"):
            if getattr(self, name) < 1:
                raise TacitError(f"{name} is {getattr(self, name)}; it must be at least 1.")


@one_torch_thread()
def attack_interactions(
    experiment: Experiment,
    setting: Setting | None = None,
    *,
    prepared: Prepared | None = None,
    threads: int = 1,
) -> Interactions:
    """Attack the uploads of some users of an experiment, with the default setting unless told.

    >>> from tacit.experiment.resolve import resolve
    >>> found = attack_interactions(resolve("fedease"), Setting(targets=5))
    >>> [(one.attacker, one.auc.mean) for one in found.attempts][:2]
    [('touched', 1.0), ('norm', 1.0)]
    """
    setting = Setting() if setting is None else setting
    setting.check()
    prepared = prepare(experiment) if prepared is None else prepared
    trainer = Trainer(experiment, prepared.split.train, threads)
    crowd = _Crowd.of(trainer, setting)
    rounds = watch(trainer, crowd.everybody, setting.first, setting.watched)
    known = [_known(one, trainer, crowd.accounts) for one in rounds]
    attack = _Attack(trainer, rounds, known, setting.seed)
    attempts = [attempt for clients in setting.clients for attempt in attack.sums(crowd, clients)]
    numbers = tuple(one.number for one in rounds)
    return Interactions(
        experiment.label,
        experiment.name,
        trainer.guarantee(),
        len(crowd.targets),
        trainer.train.n_items,
        numbers,
        trainer.rounds,
        tuple(attempts),
        tuple(attack.controls(crowd)),
    )


@dataclass(frozen=True)
class _Crowd:
    """Who is attacked, who belongs to the attacker, and who is in sums beside a target."""

    targets: tuple[int, ...]
    accounts: tuple[int, ...]
    others: tuple[int, ...]

    @property
    def everybody(self) -> tuple[int, ...]:
        return (*self.targets, *self.others, *self.accounts)

    @classmethod
    def of(cls, trainer: Trainer, setting: Setting) -> _Crowd:
        size_U, n_items = trainer.train.positives.size_U, trainer.train.n_items
        able_U = np.flatnonzero((size_U > 0) & (size_U < n_items))
        generator = _generator(setting.seed, "crowd")
        drawn = generator.permutation(able_U).tolist()
        accounts = min(ACCOUNTS, len(drawn) // 4)
        needed = accounts + max(setting.clients) + 1
        if len(drawn) < needed or not accounts:
            raise TacitError(
                f"There are {len(drawn)} users to draw from, and sums over {max(setting.clients)} "
                f"clients, with one more and {max(accounts, 1)} accounts of the attacker's own, "
                f"need {max(needed, 4)}; ask for smaller sums ({argument('clients')}) or give "
                "more data."
            )
        own, rest = drawn[:accounts], drawn[accounts:]
        targets = rest[: setting.targets]
        size = max(len(targets), max(setting.clients) + 1)
        return cls(tuple(targets), tuple(own), tuple(rest[len(targets) : size]))

    def companions(self, target: int, clients: int, seed: int) -> tuple[list[int], int]:
        """Who else is in a sum with a target, and who takes the target's place in another one."""
        pool = [user for user in (*self.targets, *self.others) if user != target]
        drawn = _generator(seed, f"companions {target} {clients}").permutation(pool)[:clients]
        return drawn[:-1].tolist(), int(drawn[-1])


def _generator(seed: int, what: str) -> np.random.Generator:
    return streams.numpy_generator(seed, streams.SPLIT, 0, streams.name_of(f"interactions {what}"))


def _known(watched: WatchedRound, trainer: Trainer, accounts: Sequence[int]) -> np.ndarray:
    """The direction (W,) in which the attacker's own clients move the rows of their histories."""
    total_W = 0.0
    for user in accounts:
        mean_W = watched.table([user])[np.unique(trainer.train.positives[user])].mean(axis=0)
        total_W = total_W + mean_W / max(float(np.linalg.norm(mean_W)), 1e-300)
    return np.asarray(total_W / max(float(np.linalg.norm(total_W)), 1e-300))


@dataclass(frozen=True, eq=False)
class _Attack:
    trainer: Trainer
    rounds: list[WatchedRound]
    known: list[np.ndarray]  # (W,) for each round
    seed: int

    def sums(self, crowd: _Crowd, clients: int) -> list[InteractionAttempt]:
        """All attackers on sums over so many clients, with each target and without it."""
        found: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for target in crowd.targets:
            beside, instead = crowd.companions(target, clients, self.seed)
            inside = self._scores([target, *beside], target, "with")
            outside = self._scores([instead, *beside], target, "without")
            item_H = self.trainer.train.positives[target]
            for key in inside:
                pair = auc(inside[key], item_H), auc(outside[key], item_H)
                found.setdefault(key, []).append(pair)
        return [
            _attempt(attacker, clients, rounds, np.array(pairs))
            for (attacker, rounds), pairs in found.items()
        ]

    def _scores(
        self, users: list[int], target: int, which: str
    ) -> dict[tuple[str, int], np.ndarray]:
        """Scores by attacker and number of rounds seen; those of several rounds are added up, so
        that an item counts that was touched in both."""
        # a draw of noise of its own for whatever is seen
        noise_seed = streams.name_of(f"{self.seed} {target} {len(users)} {which}") >> 33
        tables = [one.table(users, noise_seed) for one in self.rounds]
        seen = list(zip(tables, self.known, strict=True))
        return {
            (name, place + 1): score_I
            for name, attacker in ATTACKERS.items()
            for place, score_I in enumerate(accumulate((attacker(*one) for one in seen), add))
        }

    def controls(self, crowd: _Crowd) -> list[Control]:
        """Uploads whose answer is known: rows of the history alone, and rows of other items."""
        first, known_W = self.rounds[0], self.known[0]
        found: dict[tuple[str, str], list[float]] = {}
        variance = 0.0
        for target in crowd.targets:
            item_H = self.trainer.train.positives[target]
            inside = len(np.unique(item_H))
            variance += (first.n_items + 1) / (12 * inside * (first.n_items - inside))
            history_IW = np.zeros((first.n_items, len(known_W)))
            history_IW[item_H] = known_W
            noise_seed = streams.name_of(f"{self.seed} {target} control") >> 33
            order_I = _generator(self.seed, f"shuffled {target}").permutation(first.n_items)
            shuffled_IW = first.table([target], noise_seed)[order_I]
            for what, seen_IW in ((HISTORY, history_IW), (SHUFFLED, shuffled_IW)):
                for name, attacker in ATTACKERS.items():
                    value = auc(attacker(seen_IW, known_W), item_H)
                    found.setdefault((what, name), []).append(value)
        error = variance**0.5 / len(crowd.targets)  # of a mean over targets, by chance alone
        return [
            _control(what, name, np.array(values), error) for (what, name), values in found.items()
        ]


def _attempt(attacker: str, clients: int, rounds: int, pair_T2: np.ndarray) -> InteractionAttempt:
    inside_T, outside_T = pair_T2.T
    between = paired_bootstrap(inside_T, outside_T)
    difference = Estimate(between.difference, between.low, between.high)
    return InteractionAttempt(
        attacker,
        clients,
        rounds,
        mean_over_targets(inside_T),
        mean_over_targets(outside_T),
        difference,
    )


def mean_over_targets(value_T: np.ndarray) -> Estimate:
    """The mean over targets, who are resampled for its interval."""
    one = paired_bootstrap(value_T, np.zeros(len(value_T)))
    return Estimate(one.difference, one.low, one.high)


def _control(what: str, attacker: str, value_T: np.ndarray, error: float) -> Control:
    estimate = mean_over_targets(value_T)
    if what == HISTORY:
        return Control(what, "succeed", attacker, estimate, estimate.mean > 0.999)
    # several controls are looked at, and luck must not alarm
    return Control(what, "fail", attacker, estimate, abs(estimate.mean - 0.5) <= 4 * error)
