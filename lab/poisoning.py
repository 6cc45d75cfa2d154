"""What bad uploads do to a federation, and what rules over uploads save: the table of poisoning.

`make poisoning` runs it (about half an hour on one core) and writes `docs/results/poisoning.md` and
`.json`; the runs are those of `lab.poisoned`, and lie in `runs/poisoning.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.poisoned import (
    ATTACKS,
    CANDIDATE_ATTACKS,
    CANDIDATES,
    CLEAN,
    CLEAN_ONLY,
    RULES,
    Poisoning,
    Run,
    collect,
)
from tacit.cli.output import say
from tacit.cli.settings import ready_to_compute
from tacit.evaluation.significance import Spread
from tacit.files import write_text
from tacit.study.writer import as_markdown as table_in_markdown

WITHIN = 0.1  # of the clean run with the plain mean
HOLD = ("norm bound", "trimmed mean")  # the rules that are asked to stay within that,
ASKED = ("scaled", "flipped", "random")  # under these attacks
FIELDS = {"hits": "full", "sampled": "sampled"}


@dataclass(frozen=True)
class Runs:
    """Runs of one part, by rule and attack."""

    all: tuple[Run, ...]

    def by_seed(self, rule: str, attack: str, field: str) -> dict[int, float]:
        found = [one for one in self.all if (one.rule, one.attack) == (rule, attack)]
        return {one.seed: getattr(one, field) for one in sorted(found, key=lambda one: one.seed)}

    def values(self, rule: str, attack: str, field: str) -> list[float]:
        """One for each seed, in the order of seeds."""
        return list(self.by_seed(rule, attack, field).values())

    def diverged(self, rule: str, attack: str) -> bool:
        return any(one.diverged for one in self.all if (one.rule, one.attack) == (rule, attack))

    def shares(self, rule: str, attack: str, field: str, against: str) -> list[float]:
        """What is left of another rule's hits without an attack, seed by seed."""
        clean = self.by_seed(against, CLEAN, field)
        left = self.by_seed(rule, attack, field)
        return [value / clean[seed] for seed, value in left.items()]

    def share(self, rule: str, attack: str, field: str, against: str) -> float:
        """The same for means over the seeds that both have."""
        left, clean = self.by_seed(rule, attack, field), self.by_seed(against, CLEAN, field)
        return sum(left.values()) / sum(clean[seed] for seed in left)

    def holds(self, rule: str, attack: str, field: str) -> bool:
        """Whether a rule stays within a tenth of the clean run with the plain mean."""
        return self.share(rule, attack, field, "mean") >= 1.0 - WITHIN

    @property
    def seeds(self) -> str:
        return _and(str(seed) for seed in sorted({one.seed for one in self.all}))


def as_markdown(found: Poisoning) -> str:
    """The page from its numbers alone."""
    runs = Runs(found.runs)
    heading = ["rule", "no attack", *ATTACKS]
    kept = [
        _kept(runs, rule, attack)
        for rule in RULES
        if rule not in CLEAN_ONLY
        for attack in (CLEAN, *ATTACKS)
        if (rule, attack) != ("mean", CLEAN)
    ]
    shares = ["rule", "attack", "full", "sampled", "within a tenth"]
    shares += ["full, of its own", "sampled, of its own"]
    return "\n".join(
        [
            "# Poisoned uploads, and rules over uploads",
            "",
            f"Written by `make poisoning`: `{found.method}` on {found.data}, "
            f"{found.rounds} rounds, everybody takes part, HR@10 of the test part after the last "
            f"round, in percent: the mean over seeds {runs.seeds}, ± half of its 95 % interval "
            f"(Student's t). Popularity has {100 * found.popularity:.2f} in the full ranking.",
            "",
            f"{100 * found.share:.0f} % of the clients send something else in every round: their "
            "upload times 100 (scaled), times -10 (flipped), noise on every number of the table "
            "that is a hundred times as long as the upload (random), or times -1 (turned). The "
            "last is as long as an honest upload, so that no rule about lengths can see it: it "
            "stands here as the limit of these rules. One seed and 943 people have a standard "
            "error of about 1 point in the full ranking and 1.6 in the sampled one.",
            "",
            "## Full ranking",
            "",
            table_in_markdown(heading, [_row(runs, rule, "hits") for rule in RULES]),
            "",
            "## Among 99 sampled items",
            "",
            table_in_markdown(heading, [_row(runs, rule, "sampled") for rule in RULES]),
            "",
            "## Within a tenth of the clean mean",
            "",
            "What is left of the hits of the mean without an attack, and of the same rule without "
            "an attack, by means over seeds; in brackets the lowest and the highest seed.",
            "",
            table_in_markdown(shares, kept),
            "",
            *_verdicts(runs),
            "",
            "`norm bound` shortens every upload to the median norm of its round, leaves out those "
            "longer than four medians, and lengthens the rest by one factor, so that their mean "
            "norm is what it was. `trimmed mean` (a tenth at each end) and `median` do that first, "
            "and then look in each row at those who sent something there. `trimmed mean of "
            "everybody` counts those who sent nothing, as the rule is usually written; it is run "
            "without an attack. The last two stand for comparison, with the first seed alone.",
            "",
            "## How the settings were chosen",
            "",
            *_choice(Runs(found.candidates)),
            "",
        ]
    )


def _choice(tried: Runs) -> list[str]:
    heading = ["candidate", "no attack", "flipped", "no attack, sampled", "flipped, sampled"]
    rows = []
    for rule in CANDIDATES:
        cells = [rule]
        for field in FIELDS:
            for attack in CANDIDATE_ATTACKS:
                values = tried.values(rule, attack, field)
                cells.append(f"{100 * Spread.of(values).mean:.2f}" if values else "")
        rows.append(cells)
    return [
        f"On the validation part, with seed {tried.seeds}, before the test part was ranked. "
        "*Shorten* alone is the median norm as a bound, and *0.2* the share at each end, as they "
        "were before; *leave out* is of uploads longer than four medians.",
        "",
        table_in_markdown(heading, rows),
    ]


def _kept(runs: Runs, rule: str, attack: str) -> list[str]:
    """What is left under an attack: of the clean mean, and of the same rule without an attack."""
    held = [runs.holds(rule, attack, field) for field in FIELDS]
    words = {(True, True): "yes", (True, False): "full only", (False, True): "sampled only"}
    parts = [_share(runs, rule, attack, field, who) for who in ("mean", rule) for field in FIELDS]
    return [rule, attack, *parts[:2], words.get((held[0], held[1]), "no"), *parts[2:]]


def _share(runs: Runs, rule: str, attack: str, field: str, against: str) -> str:
    each = runs.shares(rule, attack, field, against)
    around = f" ({min(each):.2f} to {max(each):.2f})" if len(each) > 1 else ""
    return f"{runs.share(rule, attack, field, against):.2f}{around}"


def _verdicts(runs: Runs) -> list[str]:
    """In words, which cells of the two rules that are asked to hold do not."""
    cells = [(rule, attack, field) for rule in HOLD for attack in ASKED for field in FIELDS]
    lines = []
    for whose, against in (("the clean mean", "mean"), ("the same rule without an attack", "")):
        left = {one: runs.share(*one, against or one[0]) for one in cells}
        missed = [
            f"{rule} under {attack} uploads in the {FIELDS[field]} ranking ({share:.3f})"
            for (rule, attack, field), share in left.items()
            if share < 1.0 - WITHIN
        ]
        said = "; ".join(missed) or "none"
        lines.append(
            f"- Of {len(cells)} cells of {_and(HOLD)} under {_and(ASKED)} uploads, those more "
            f"than a tenth below {whose}: {said}."
        )
    return lines


def _row(runs: Runs, rule: str, field: str) -> list[str]:
    cells = [rule]
    for attack in (CLEAN, *ATTACKS):
        values = runs.values(rule, attack, field)
        if not values:
            cells.append("")
            continue
        spread = Spread.of(values)
        half = spread.half_width()
        text = f"{100 * spread.mean:.2f}" + ("" if half is None else f" ± {100 * half:.2f}")
        cells.append(f"{text} (diverged)" if runs.diverged(rule, attack) else text)
    return cells


def _and(words: Iterable[str]) -> str:
    """Words in a sentence.

    >>> _and(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


if __name__ == "__main__":
    ready_to_compute()
    poisoning = collect(Path("runs", "poisoning.jsonl"), say)
    folder = Path("docs/results")
    write_text(folder / "poisoning.json", poisoning.model_dump_json(indent=1) + "\n")
    write_text(folder / "poisoning.md", as_markdown(poisoning))
