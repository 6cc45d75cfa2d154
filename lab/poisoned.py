"""Federations with bad uploads, under rules over uploads: the runs of the table of poisoning.

Every client is a node of its own: a fifth of the clients spoil what they send, a rule of
`tacit.coordinator.robust` makes the sum, and the server steps as always. First come the candidates
for the defaults of the rules, on the validation part and with a seed of their own; then the cells
of the table, on the test part. Finished runs are kept, and a stopped command goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np
from pydantic import BaseModel, ConfigDict

from tacit import streams
from tacit.coordinator.robust import NodeUpload, RobustRule
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import ITEMS
from tacit.data.sampling import samples_per_user
from tacit.engines.accelerators.linear import claims, train_linear
from tacit.engines.accelerators.one_pass import Round, Sums
from tacit.engines.participation import Participants
from tacit.engines.round import server_step
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import DivergedError, rank
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.files import write_text

METHOD, DATA, ROUNDS = "fedmf", "ml-100k", 50
SEEDS, CHOICE_SEEDS = (0, 1, 2), (10,)
SHARE = 0.2  # of clients that send something bad
CLEAN = "none"
BLOCK = 64  # clients whose uploads are made at once

Part = Literal["valid", "test"]
Attack = Callable[[np.ndarray, np.random.Generator], np.ndarray]
ATTACKS: dict[str, Attack] = {
    "scaled": lambda value, _: 100.0 * value,
    "flipped": lambda value, _: -10.0 * value,
    "random": lambda value, generator: _noise_like(value, 100.0, generator),
    "turned": lambda value, _: -value,
}
_OF_ROWS = RobustRule("trimmed_mean", trim=0.1, touched=True, norm_first=True)
RULES: dict[str, RobustRule] = {
    "mean": RobustRule("mean"),
    "norm bound": RobustRule("norm_bound"),
    "trimmed mean": _OF_ROWS,
    "median": replace(_OF_ROWS, name="median"),
    "trimmed mean of everybody": RobustRule("trimmed_mean"),
}
# A rule of which a spoilt table is known before any attack is run without one.
CLEAN_ONLY = ("trimmed mean of everybody",)
COMPARED = ("median", *CLEAN_ONLY)  # run with the first seed alone

# What was tried on validation before the defaults were fixed.
_PLAIN = RobustRule("norm_bound", outlier=math.inf, lengthen=False)
_TRIMMED = replace(_OF_ROWS, outlier=math.inf, lengthen=False)
CANDIDATES: dict[str, RobustRule] = {
    "mean": RULES["mean"],
    "norm bound: shorten": _PLAIN,
    "norm bound: shorten, lengthen": replace(_PLAIN, lengthen=True),
    "norm bound: shorten, lengthen, leave out": replace(_PLAIN, lengthen=True, outlier=4.0),
    "trimmed mean: 0.2": replace(_TRIMMED, trim=0.2),
    "trimmed mean: 0.2, lengthen, leave out": replace(
        _TRIMMED, trim=0.2, lengthen=True, outlier=4.0
    ),
    "trimmed mean: 0.1, lengthen, leave out": replace(
        _TRIMMED, trim=0.1, lengthen=True, outlier=4.0
    ),
}
CANDIDATE_ATTACKS = (CLEAN, "flipped")


def _noise_like(value: np.ndarray, times: float, generator: np.random.Generator) -> np.ndarray:
    """Noise on every number, so many times as long as what it takes the place of."""
    noise = generator.normal(size=value.shape)
    return noise * (times * np.linalg.norm(value) / np.linalg.norm(noise))


class Run(BaseModel):
    """One federation: its rule, its attack, and how well people are served at the end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: str
    attack: str
    seed: int
    part: Part
    made_with: str  # method, data, rounds and the rule's settings
    hits: float  # HR@10, full ranking
    sampled: float  # HR@10 among 99 sampled items
    diverged: bool = False


class Poisoning(BaseModel):
    """All runs, and what they were made with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    data: str
    rounds: int
    share: float
    popularity: float
    candidates: tuple[Run, ...]
    runs: tuple[Run, ...]


class Cell(NamedTuple):
    """What one federation is to be."""

    name: str
    rule: RobustRule
    attack: str
    seed: int
    part: Part

    @property
    def made_with(self) -> str:
        return f"{METHOD} on {DATA}, {ROUNDS} rounds, {self.rule}"

    def is_of(self, run: Run) -> bool:
        """Whether a run is the one that is asked for."""
        asked = (self.name, self.attack, self.seed, self.part, self.made_with)
        return asked == (run.rule, run.attack, run.seed, run.part, run.made_with)


def candidate_cells() -> list[Cell]:
    """The mean without an attack, and every candidate with and without one."""
    return [
        Cell(name, rule, attack, seed, "valid")
        for seed in CHOICE_SEEDS
        for name, rule in CANDIDATES.items()
        for attack in ((CLEAN,) if name == "mean" else CANDIDATE_ATTACKS)
    ]


def table_cells() -> list[Cell]:
    """Every rule and attack, seed after seed; those that stand for comparison with one seed."""
    return [
        Cell(name, rule, attack, seed, "test")
        for seed in SEEDS
        for name, rule in RULES.items()
        if name not in COMPARED or seed == SEEDS[0]
        for attack in (CLEAN, *(() if name in CLEAN_ONLY else ATTACKS))
    ]


def experiment(seed: int) -> Experiment:
    return resolve(METHOD, data=DATA, rounds=ROUNDS, seed=seed)


def attackers(trainer: Trainer, seed: int) -> frozenset[int]:
    """A fifth of all clients, the same ones for every rule and attack of a seed."""
    generator = streams.numpy_generator(seed, streams.RESAMPLE, 0, streams.name_of("attackers"))
    count = round(SHARE * trainer.train.n_users)
    chosen = generator.choice(trainer.train.n_users, size=count, replace=False)
    return frozenset(chosen.tolist())


def uploads_of(
    trainer: Trainer, number: int, attack: str, bad: frozenset[int]
) -> Iterator[NodeUpload]:
    """What each participant of a round sends, one after another."""
    for user, weight, change_ID in changes_of(trainer, number):
        if attack != CLEAN and user in bad:
            name = streams.name_of(f"attack:{user}")
            seed = trainer.experiment.seed
            generator = streams.numpy_generator(seed, streams.RESAMPLE, number, name)
            change_ID = ATTACKS[attack](change_ID, generator)
        yield NodeUpload({ITEMS: change_ID}, weight, 1)


def changes_of(trainer: Trainer, number: int) -> Iterator[tuple[int, float, np.ndarray]]:
    """(user, weight, upload) of each participant. The kernel keeps one sum for each chunk of
    clients, so chunks of one client have every upload; blocks of clients bound the memory."""
    algorithm, train = cast(ComposedAlgorithm, trainer.algorithm), trainer.train
    state = trainer.state
    kernel = claims(algorithm).kernel
    assert kernel is not None, "the linear kernel plays this method"
    samples_U = samples_per_user(train, algorithm.method.sampling)
    user_P = trainer.participants(number).user_P
    for start in range(0, len(user_P), BLOCK):
        block_B = user_P[start : start + BLOCK]
        count, who = len(block_B), Participants(block_B, np.ones(len(block_B), dtype=bool))
        known = (algorithm, kernel.claimed, train, state, who, samples_U)
        one = Round.of(*known, seed=trainer.experiment.seed)
        queue, shape = replace(one.queue, chunks=count), one.sums.change_CID.shape[1:]
        change_CID = np.zeros((count, *shape))
        sums = Sums(change_CID, np.zeros((count, 0)), np.zeros(count), np.zeros(count))
        turns = queue.turns(one.tables.table_ID.dtype, trainer.experiment.seed, number)
        queue.play(
            *(train_linear, 1, turns, one.steps, one.tables, one.pull, one.count_N),
            *(kernel.parameters.scorer(state.private), one.bound, one.tuned, sums),
        )
        for place, user in enumerate(queue.user_P.tolist()):
            yield user, float(queue.weight_P[place]), change_CID[place].astype(np.float32)


def play(cell: Cell, prepared: Prepared) -> Run:
    """One federation from its first round to its last."""
    trainer = Trainer(experiment(cell.seed), prepared.split.train)
    bad = attackers(trainer, cell.seed)
    shapes = trainer.algorithm.summed(trainer.algorithm.exchanges(1)[0])
    for number in range(1, ROUNDS + 1):
        [exchange] = trainer.algorithm.exchanges(number)
        with np.errstate(over="ignore", invalid="ignore"):
            uploads = list(uploads_of(trainer, number, cell.attack, bad))
            total = cell.rule.total(uploads, shapes)
            server_step(trainer.algorithm, trainer.state, total, cell.seed, exchange)
        trainer.state.round_number = number
    held_out = prepared.split.valid if cell.part == "valid" else prepared.split.test
    full = sampled = 0.0
    diverged = False
    try:
        found = rank(trainer.scores(), held_out)
        full, sampled = metric(found.full, "HR@10"), metric(found.sampled, "HR@10")
    except DivergedError:
        diverged = True
    return Run(
        rule=cell.name,
        attack=cell.attack,
        seed=cell.seed,
        part=cell.part,
        made_with=cell.made_with,
        hits=full,
        sampled=sampled,
        diverged=diverged,
    )


def played(
    cells: Iterable[Cell], prepared: Prepared, kept: Path, report: Callable[[str], None]
) -> tuple[Run, ...]:
    """The runs of cells, each from the file of finished ones or made now and kept there."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    finished = [Run.model_validate_json(line) for line in lines]
    found = []
    for cell in cells:
        run = next(filter(cell.is_of, finished), None)
        if run is None:
            run = play(cell, prepared)
            finished.append(run)
            write_text(kept, "".join(f"{one.model_dump_json()}\n" for one in finished))
            hits = f"{run.hits:.4f}, {run.sampled:.4f}"
            report(f"{run.part}, seed {run.seed}, {run.rule}, {run.attack}: {hits}")
        found.append(run)
    return tuple(found)


def collect(kept: Path, report: Callable[[str], None]) -> Poisoning:
    """All runs, those on validation first."""
    prepared = prepare(experiment(0))
    candidates = played(candidate_cells(), prepared, kept, report)
    runs = played(table_cells(), prepared, kept, report)
    trainer = Trainer(resolve("popularity", data=DATA), prepared.split.train)
    trainer.run_round()
    popularity = metric(rank(trainer.scores(), prepared.split.test).full, "HR@10")
    return Poisoning(
        method=METHOD,
        data=DATA,
        rounds=ROUNDS,
        share=SHARE,
        popularity=popularity,
        candidates=candidates,
        runs=runs,
    )
