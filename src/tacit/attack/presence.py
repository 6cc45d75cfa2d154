"""The presence attack: was one person's upload among those that a server saw the sums of?

This is the strongest server that a secure sum allows. It knows what everybody else sent, what the
person would send in each round, and how much noise there is. It takes off what it knows; what is
left is noise, with the person's upload in it or without. Along that upload the likelihood ratio
grows, so the attacker adds up, over all releases, what is left times the upload, each release in
units of its noise.

The measure is the probability that a run with the person stands above one without (AUC): 0.5 is
chance, 1 is certainty. People are real users of the data, and their uploads come from the method's
own functions on the state of a real federation. Noise is drawn by the code that adds it in a round,
on the entries that are not zero in the upload: elsewhere it says nothing about the person.

Shape suffixes: T targets, N draws with and as many without the person, E entries of an upload.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit import streams
from tacit.attack.interactions import mean_over_targets
from tacit.attack.page import Control, Estimate
from tacit.attack.uploads import play_one, require_uploads
from tacit.core.algorithm import Exchange
from tacit.core.types import BOUND
from tacit.engines.device import one_torch_thread
from tacit.engines.round import unit_of, with_noise
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.privacy.guarantee import Guarantee

NUMBERS_AT_ONCE = 10_000_000  # of noise, which is drawn for every entry of an upload
ATTACKER = "likelihood ratio"
OPEN, ABSENT = "without noise", "absent"  # controls: nothing is hidden, and nobody is there


@dataclass(frozen=True)
class Presence:
    """What the sums of one experiment gave away about who was in them."""

    name: str
    method: str
    guarantee: Guarantee | None
    targets: int
    draws: int  # with each target, and as many without
    releases: int  # that were seen
    auc: Estimate
    controls: tuple[Control, ...]


@one_torch_thread()
def attack_presence(
    experiment: Experiment,
    *,
    targets: int = 50,
    draws: int = 20,
    prepared: Prepared | None = None,
    threads: int = 1,
) -> Presence:
    """Attack the sums of all rounds of an experiment. Without noise the first one says everything,
    and the others are not played.

    >>> from tacit.experiment.resolve import resolve
    >>> attack_presence(resolve("fedpop"), targets=5).auc.mean
    1.0
    """
    if min(targets, draws) < 2:
        raise TacitError(f"targets is {targets} and draws {draws}; both must be at least 2.")
    prepared = prepare(experiment) if prepared is None else prepared
    trainer = Trainer(experiment, prepared.split.train, threads)
    algorithm = trainer.algorithm
    require_uploads(algorithm, experiment.label)
    sending = [
        (number, exchange)
        for number in range(1, trainer.rounds + 1)
        for exchange in algorithm.exchanges(number)
        if exchange.sends
    ]
    if len({number for number, _ in sending}) < len(sending):
        raise TacitError(
            f"Clients of {experiment.label} send twice in a round, which this attack does not "
            "look at; give a method whose clients send once."
        )
    if algorithm.protection is None:
        sending = sending[:1]
    if not sending:
        raise TacitError(f"Nobody sends anything in {experiment.label}.")
    seen = _Seen.of(trainer, targets, draws)
    for number, exchange in sending:
        while trainer.state.round_number < number - 1:
            trainer.run_round()
        seen.watch(trainer, exchange)
    return Presence(
        experiment.label,
        experiment.name,
        trainer.guarantee(),
        len(seen.users),
        draws,
        len(sending),
        seen.auc(),
        seen.controls(),
    )


@dataclass(frozen=True, eq=False)
class _Seen:
    """What has been seen of some people so far, along their uploads."""

    users: tuple[int, ...]
    signal_T: np.ndarray  # the squared length of the uploads, in units of the noise
    noise_T2N: np.ndarray  # noise along them: in sums with the person, and in sums without

    @classmethod
    def of(cls, trainer: Trainer, targets: int, draws: int) -> _Seen:
        able_U = np.flatnonzero(trainer.train.positives.size_U > 0)
        generator = streams.numpy_generator(0, streams.SPLIT, 0, streams.name_of("presence"))
        users = tuple(generator.permutation(able_U)[:targets].tolist())
        return cls(users, np.zeros(len(users)), np.zeros((len(users), 2, draws)))

    def watch(self, trainer: Trainer, exchange: Exchange) -> None:
        """One more release: what each person adds to it, if they take part in it."""
        state = trainer.state.on("cpu").copy()  # each client writes what is its own
        drawn = trainer.participants(state.round_number + 1)
        here = set(drawn.user_P[drawn.reports_P].tolist())
        for target, user in enumerate(self.users):
            if user in here:
                self._add(trainer, state, exchange, target)

    def _add(self, trainer: Trainer, state: State, exchange: Exchange, target: int) -> None:
        algorithm, number, user = trainer.algorithm, state.round_number + 1, self.users[target]
        unit_now, seed = unit_of(algorithm, state), trainer.experiment.seed
        played = play_one(algorithm, trainer.train, state, exchange, user, seed)
        for name, value in played.sums.items():
            upload_E = value.ravel()[np.flatnonzero(value)].astype(np.float64)
            unit = 1.0 if name == BOUND else unit_now
            self.signal_T[target] += float(upload_E @ upload_E) / unit**2
            noise_2N = self.noise_T2N[target]
            step = max(1, NUMBERS_AT_ONCE // max(1, 2 * len(upload_E)))
            for first in range(0, noise_2N.shape[1], step):
                part_2N = noise_2N[:, first : first + step]
                nothing_2NE = np.zeros((*part_2N.shape, len(upload_E)))
                drawn = streams.name_of(f"presence {seed} {user} {first}") >> 33
                known = (algorithm, name, nothing_2NE, 1, drawn, number, exchange.name)
                part_2N += with_noise(*known, unit=unit) @ upload_E / unit**2

    def auc(self) -> Estimate:
        with_TN = self.signal_T[:, None] + self.noise_T2N[:, 0]
        return mean_over_targets(_above(with_TN, self.noise_T2N[:, 1]))

    def controls(self) -> tuple[Control, ...]:
        """The same uploads without noise, and runs without the person on both sides."""
        nothing_TN = np.zeros_like(self.noise_T2N[:, 0])
        plain = mean_over_targets(_above(self.signal_T[:, None] + nothing_TN, nothing_TN))
        absent_T = _above(self.noise_T2N[:, 0], self.noise_T2N[:, 1])
        absent, draws = mean_over_targets(absent_T), nothing_TN.shape[1]
        # of a mean over targets, by chance alone; at a level at which luck does not alarm
        error = ((2 * draws + 1) / (12 * draws**2 * len(absent_T))) ** 0.5
        return (
            Control(OPEN, "succeed", ATTACKER, plain, plain.mean > 0.999),
            Control(ABSENT, "fail", ATTACKER, absent, abs(absent.mean - 0.5) <= 4 * error),
        )


def _above(with_TN: np.ndarray, without_TN: np.ndarray) -> np.ndarray:
    """(T,) how often a value with the person is above one without; ties count half.

    >>> _above(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]])).tolist()
    [0.75]
    """
    first_TNN, second_TNN = with_TN[:, :, None], without_TN[:, None]
    above_TNN = (first_TNN > second_TNN) + 0.5 * (first_TNN == second_TNN)
    return np.asarray(above_TNN.mean(axis=(1, 2)))
