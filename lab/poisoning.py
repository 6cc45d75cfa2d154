"""What bad uploads do to a federation, and what rules over uploads save: the table of poisoning.

`make poisoning` runs it (some minutes on one core) and writes
`docs/results/poisoning.md` and `.json`. Every client is a node of its own: a fast engine
plays it alone, a fifth of the clients spoil what they send, a rule of `tacit.coordinator.robust`
makes the sum, and the server steps as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from tacit import streams
from tacit.cli.output import say
from tacit.cli.settings import ready_to_compute
from tacit.coordinator.robust import NodeUpload, RobustRule
from tacit.engines.participation import Participants
from tacit.engines.round import server_step
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import DivergedError, rank
from tacit.experiment.prepare import Prepared, prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.files import write_text
from tacit.study.writer import as_markdown as table_in_markdown

METHOD, DATA, ROUNDS, SEEDS = "fedmf", "ml-100k", 40, (0,)
SHARE = 0.2  # of clients that send something bad
WITHIN = 0.1  # of the clean run with the plain mean
CLEAN = "none"
HOLD = ("norm bound", "trimmed mean")  # the rules that are asked to stay within that

Attack = Callable[[np.ndarray, np.random.Generator], np.ndarray]
ATTACKS: dict[str, Attack] = {
    "scaled": lambda value, _: 100.0 * value,
    "flipped": lambda value, _: -10.0 * value,
    "random": lambda value, generator: _noise_like(value, 100.0, generator),
}
RULES: dict[str, RobustRule] = {
    "mean": RobustRule("mean"),
    "norm bound": RobustRule("norm_bound"),
    "trimmed mean": RobustRule("trimmed_mean", touched=True, norm_first=True),
    "median": RobustRule("median", touched=True, norm_first=True),
    "trimmed mean of everybody": RobustRule("trimmed_mean"),
}
# Rules of which the issue of a spoilt table is known before any attack are run without one.
CLEAN_ONLY = ("trimmed mean of everybody",)


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
    runs: tuple[Run, ...]

    def mean(self, rule: str, attack: str, field: str) -> float:
        found = [getattr(one, field) for one in self._of(rule, attack)]
        return float(np.mean(found))

    def diverged(self, rule: str, attack: str) -> bool:
        return any(one.diverged for one in self._of(rule, attack))

    def _of(self, rule: str, attack: str) -> list[Run]:
        return [one for one in self.runs if (one.rule, one.attack) == (rule, attack)]

    def holds(self, rule: str, attack: str, field: str) -> bool:
        """Whether a rule stays within a tenth of the clean run with the plain mean."""
        clean = self.mean("mean", CLEAN, field)
        return self.mean(rule, attack, field) >= (1.0 - WITHIN) * clean


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
    [exchange] = trainer.algorithm.exchanges(number)
    seed, engine = trainer.experiment.seed, trainer.engine
    for user in trainer.participants(number).user_P.tolist():
        alone = Participants(np.array([user]), np.ones(1, dtype=bool))
        known: Any = (trainer.algorithm, trainer.train, trainer.state, seed)
        total = engine.play(*known, exchange, alone)  # type: ignore[attr-defined]
        sums = {name: value.astype(np.float32) for name, value in total.sums.items()}
        if attack != CLEAN and user in bad:
            generator = streams.numpy_generator(
                seed, streams.RESAMPLE, number, streams.name_of(f"attack:{user}")
            )
            sums = {name: ATTACKS[attack](value, generator) for name, value in sums.items()}
        yield NodeUpload(sums, total.weight, total.clients)


def play(rule: str, attack: str, prepared: Prepared, seed: int) -> Run:
    """One federation from its first round to its last."""
    trainer = Trainer(experiment(seed), prepared.split.train)
    bad = attackers(trainer, seed)
    shapes = trainer.algorithm.summed(trainer.algorithm.exchanges(1)[0])
    for number in range(1, ROUNDS + 1):
        [exchange] = trainer.algorithm.exchanges(number)
        with np.errstate(over="ignore", invalid="ignore"):
            total = RULES[rule].total(list(uploads_of(trainer, number, attack, bad)), shapes)
            server_step(trainer.algorithm, trainer.state, total, seed, exchange)
        trainer.state.round_number = number
    try:
        found = rank(trainer.scores(), prepared.split.test)
    except DivergedError:
        return Run(rule=rule, attack=attack, seed=seed, hits=0.0, sampled=0.0, diverged=True)
    full, sampled = metric(found.full, "HR@10"), metric(found.sampled, "HR@10")
    return Run(rule=rule, attack=attack, seed=seed, hits=full, sampled=sampled)


def collect(report: Callable[[str], None]) -> Poisoning:
    prepared = prepare(experiment(0))
    runs = []
    for seed in SEEDS:
        for rule in RULES:
            for attack in (CLEAN, *(() if rule in CLEAN_ONLY else ATTACKS)):
                one = play(rule, attack, prepared, seed)
                runs.append(one)
                report(f"seed {seed}, {rule}, {attack}: {one.hits:.4f}, {one.sampled:.4f}")
    popular = resolve("popularity", data=DATA)
    trainer = Trainer(popular, prepared.split.train)
    trainer.run_round()
    popularity = metric(rank(trainer.scores(), prepared.split.test).full, "HR@10")
    return Poisoning(
        method=METHOD,
        data=DATA,
        rounds=ROUNDS,
        share=SHARE,
        popularity=popularity,
        runs=tuple(runs),
    )


def as_markdown(found: Poisoning) -> str:
    """The page from its numbers alone."""
    rows = {field: [_row(found, rule, field) for rule in RULES] for field in ("hits", "sampled")}
    heading = ["rule", "no attack", *ATTACKS]
    kept = [
        _kept(found, rule, attack)
        for rule in RULES
        if rule not in CLEAN_ONLY
        for attack in (CLEAN, *ATTACKS)
        if (rule, attack) != ("mean", CLEAN)
    ]
    shares = ["rule", "attack", "full", "sampled", "within a tenth"]
    shares += ["full, of its own", "sampled, of its own"]
    seeds = ", ".join(map(str, sorted({one.seed for one in found.runs})))
    return "\n".join(
        [
            "# Poisoned uploads, and rules over uploads",
            "",
            f"Written by `make poisoning`: `{found.method}` on {found.data}, "
            f"{found.rounds} rounds, everybody takes part, mean over seeds {seeds}, HR@10 of the "
            f"test part after the last round, in percent. Popularity has "
            f"{100 * found.popularity:.2f} in the full ranking.",
            "",
            f"{100 * found.share:.0f} % of the clients send something else in every round: their "
            "upload times 100 (scaled), times -10 (flipped), or noise on every number of the table "
            "that is a hundred times as long as the upload (random). One seed and 943 people: a "
            "standard error of about 1 point in the full ranking and 1.6 in the sampled one.",
            "",
            "## Full ranking",
            "",
            table_in_markdown(heading, rows["hits"]),
            "",
            "## Among 99 sampled items",
            "",
            table_in_markdown(heading, rows["sampled"]),
            "",
            "## Within a tenth of the clean mean",
            "",
            "What is left of the hits of the mean without an attack, and of the same rule without "
            "an attack.",
            "",
            table_in_markdown(shares, kept),
            "",
            *_verdicts(found),
            "",
            "`norm bound` shortens every upload to the median norm of its round. `trimmed mean` "
            "(a fifth at each end) and `median` do that first, and then look in each row at those "
            "who sent something there. `trimmed mean of everybody` counts those who sent nothing, "
            "as the rule is usually written; it is run without an attack.",
            "",
        ]
    )


def _kept(found: Poisoning, rule: str, attack: str) -> list[str]:
    """What is left under an attack: of the clean mean, and of the same rule without an attack."""
    fields = ("hits", "sampled")
    held = [found.holds(rule, attack, field) for field in fields]
    words = {(True, True): "yes", (True, False): "full only", (False, True): "sampled only"}
    parts = [
        f"{found.mean(rule, attack, field) / found.mean(against, CLEAN, field):.2f}"
        for against in ("mean", rule)
        for field in fields
    ]
    return [rule, attack, *parts[:2], words.get((held[0], held[1]), "no"), *parts[2:]]


def _verdicts(found: Poisoning) -> list[str]:
    """In words, which cells of the two rules that are asked to hold do not."""
    names = {"hits": "full", "sampled": "sampled"}
    cells = [(r, a, f) for r in HOLD for a in ATTACKS for f in names]
    lines = []
    for whose, against in (("the clean mean", "mean"), ("the same rule without an attack", "")):
        left = {
            one: found.mean(*one) / found.mean(against or one[0], CLEAN, one[2]) for one in cells
        }
        missed = [
            f"{rule} under {attack} uploads in the {names[field]} ranking ({share:.2f})"
            for (rule, attack, field), share in left.items()
            if share < 1.0 - WITHIN
        ]
        said = "; ".join(missed) or "none"
        lines.append(
            f"- Of {len(cells)} cells of {' and '.join(HOLD)}, those more than a tenth below "
            f"{whose}: {said}."
        )
    return lines


def _row(found: Poisoning, rule: str, field: str) -> list[str]:
    cells = [rule]
    for attack in (CLEAN, *ATTACKS):
        if attack != CLEAN and rule in CLEAN_ONLY:
            cells.append("")
            continue
        text = f"{100 * found.mean(rule, attack, field):.2f}"
        cells.append(f"{text} (diverged)" if found.diverged(rule, attack) else text)
    return cells


if __name__ == "__main__":
    ready_to_compute()
    poisoning = collect(say)
    folder = Path("docs/results")
    write_text(folder / "poisoning.json", poisoning.model_dump_json(indent=1) + "\n")
    write_text(folder / "poisoning.md", as_markdown(poisoning))
