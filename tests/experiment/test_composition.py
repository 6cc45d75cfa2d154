"""Composition keeps its word: whatever is put together plays, or is refused with a remedy that
works when it is followed.

The walk: every method with every plug-in, channel and generator; every two of those, in both
orders, on one method; and 300 triples. `make test-slow` prints what it found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from tacit.core.fit import CompositionError, LeaveOut, Remedy, settings_of
from tacit.core.method import Method
from tacit.data.protocol import Protocol
from tacit.data.split import Split, split_dataset
from tacit.errors import TacitError
from tacit.evaluation.ranking import rank
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import require_writable
from tacit.experiment.trainer import Trainer
from tacit.methods import METHODS
from tacit.parts.mixture import Mixture
from tacit.parts.sync import Anchored
from tacit.plugins.entry import PLUGINS, parse
from tacit.testing.synthetic import ragged, with_content

SYNTHETIC = with_content(ragged(n_users=10, n_items=16))
# with the arguments under which two rounds show something, and with some that change the parts
SPELLED = {"fedrkg": "fedrkg:every=1", "fedrkg_without_ag": "fedrkg_without_ag:every=1"}
EXTRAS = (
    *(SPELLED.get(name, name) for name in PLUGINS),
    "clip:order=1",
    "project:width=2",
    "fedrkg:every=1,clip=1.0,decay=0.99,scorer=linear",
    "fedrkg:every=1,at=next",
    "fedmr:sends=change",
    "fedmr:sends=last_gradient,router=shared,rule=item,restores=false",
    "mdifffr:preset=tuned",
)
MADE = {name: resolve("fedmf", plugins=[name]).method for name in EXTRAS}
CHANNELS = tuple(name for name, made in MADE.items() if len(made.channel) > 1)  # type: ignore
GENERATORS = tuple(name for name, made in MADE.items() if made.cold is not None)  # type: ignore
OTHERS = tuple(name for name in EXTRAS if name not in (*CHANNELS, *GENERATORS))
KINDS = (CHANNELS, GENERATORS, OTHERS)
Combination = tuple[str, tuple[str, ...]]  # a method and plug-ins as they are spelled
TRIPLES = 300
KNOWN_FAULTS: list[Combination] = [  # each of them crashed, or dropped a half without a word
    ("fedrecon", ("fedmr",)),
    ("fedneumf", ("dual_personalised",)),
    ("fedneumf", ("fedrkg:every=1",)),
    ("fedmf", ("dual_personalised", "fedmr")),
    ("fedmf", ("fedmr", "dual_personalised")),
    ("fedmf", ("fedmr", "fedrkg:every=1,clip=1.0,decay=0.99,scorer=linear")),
    ("cs_fcf", ("fedrkg:every=1",)),
    ("gpfedrec", ("fedmr",)),
    ("cofedrec", ("fedvlr",)),
    ("fedavg", ("gaussian",)),
    ("fedvbpr", ("laplace",)),
    ("feddae", ("clip", "fedmr")),
]
PACKED: list[Combination] = [  # packed uploads where they go well, and where they do not
    ("fedmf", ("top_k", "project:width=2")),
    ("pfedrec", ("quantise", "clip")),
    ("fedmf", ("fedmr", "top_k")),
    ("fedrap", ("top_k",)),
    ("fedmf", ("quantise", "private")),
    ("fedmf", ("gaussian", "top_k")),
    ("pfedrec", ("fedrkg:every=1", "quantise")),
    ("gpfedrec", ("project:width=2",)),
]


@cache
def split_of(protocol: Protocol) -> Split:
    return split_dataset(SYNTHETIC, protocol)


def small(method: object) -> list[str]:
    """Settings that make a method small; a pull that is stable for narrow tables."""
    if not isinstance(method, Method):
        return []
    sets = ["backbone.dim=8"]
    if isinstance(method.items, Mixture):
        sets += [f"items.width={4 if method.items.added else 8}", "items.hidden=4"]
        sets += ["items.id_width=8"] if method.items.id_width > 1 else []
    if isinstance(method.sync, Anchored):
        sets.append("sync.strength=0.1")
    return sets


@cache
def built(method: str, plugins: tuple[str, ...], sets: tuple[str, ...] = ()) -> Experiment:
    first = resolve(method, plugins=plugins, rounds=2, sets=sets)
    return resolve(method, plugins=plugins, rounds=2, sets=[*small(first.method), *sets])


@cache
def play(method: str, plugins: tuple[str, ...], sets: tuple[str, ...] = ()) -> None:
    """Two rounds and two rankings; what was played can be written down, and is made of numbers."""
    experiment = built(method, plugins, sets)
    require_writable(experiment)
    split = split_of(experiment.protocol)
    trainer = Trainer(experiment, split.train, threads=1)
    for _ in range(min(2, trainer.rounds)):
        trainer.run_round()
    for part in (split.valid, split.test):
        rank(trainer.scores(), part)  # it refuses scores that are no numbers
    assert min(trainer.cost(2).values(), default=0) >= 0
    assert trainer.disclosure().sentences()
    if isinstance(trainer, Trainer):
        state = trainer.state
        for name, parameter in (state.shared | state.private | state.server).items():
            assert torch.isfinite(parameter).all(), f"{method} {plugins}: {name} is no number"


def follow(remedy: Remedy, method: str, plugins: tuple[str, ...]) -> None:
    """Do what a refusal says."""
    if isinstance(remedy, LeaveOut):
        play(method, remedy.plugins_after(plugins))
    else:
        settings = settings_of(remedy)
        assert None not in settings, f"nobody can type {remedy}"
        play(method, plugins, tuple(filter(None, settings)))


@dataclass
class Walk:
    """What became of the combinations."""

    ran: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    followed: int = 0

    def go(self, combinations: Iterable[Combination]) -> Walk:
        for method, plugins in combinations:
            try:
                play(method, plugins)
                self.ran += 1
            except CompositionError as error:
                self._refused(error, method, plugins)
            except TacitError as error:
                raise AssertionError(f"{method} {plugins}: no remedy in {error}") from error
        return self

    def _refused(self, error: CompositionError, method: str, plugins: tuple[str, ...]) -> None:
        sentence = str(error)
        assert sentence.endswith(".")
        assert ". " not in sentence, f"more than one sentence: {sentence}"
        assert error.remedies
        for remedy in error.remedies:
            assert remedy.words in sentence
            follow(remedy, method, plugins)
            self.followed += 1
        names = sorted({*METHODS, *PLUGINS}, key=len, reverse=True)
        general = re.sub(rf"\b({'|'.join(names)})\b", "X", error.problem)
        self.refused[re.sub(r"'[^']*'", "a parameter", general)] += 1

    def report(self, title: str) -> str:
        lines = [f"\n{title}: {self.ran} ran, {self.refused.total()} were refused, none crashed"]
        lines += [f"  {count:4d}  {why}" for why, count in self.refused.most_common()]
        return "\n".join(
            [*lines, f"  {self.followed} remedies were followed, and all of them work"]
        )


def _name(spelling: str) -> str:
    return parse(spelling)[0]


def singles() -> list[Combination]:
    return [(method, plugins) for method in METHODS for plugins in ((), *((e,) for e in EXTRAS))]


def pairs(method: str) -> list[Combination]:
    return [(method, two) for two in permutations(EXTRAS, 2)]


def triples(count: int = TRIPLES) -> list[Combination]:
    """A method and two of the others, of two kinds mostly, at random; a tenth of the methods is
    drawn from all of them, the others from those that have parts."""
    generator = np.random.default_rng(17)
    composed = [name for name, entry in METHODS.items() if isinstance(entry.method(), Method)]
    found = []
    for number in range(count):
        kinds = [KINDS[index] for index in generator.choice(len(KINDS), 2, replace=False)]
        if number % 4 == 0:
            kinds = [EXTRAS, EXTRAS]
        one, two = (str(generator.choice(kind)) for kind in kinds)
        method = str(generator.choice(sorted(METHODS) if number % 10 == 0 else composed))
        found.append((method, (one, two) if one != two else (one,)))
    return found


@pytest.mark.slow
def test_every_method_with_every_other_part(capsys: pytest.CaptureFixture[str]) -> None:
    walk = Walk().go(singles())
    with capsys.disabled():
        print(walk.report("Methods with one plug-in, channel or generator"))
    assert walk.ran > 300


@pytest.mark.slow
def test_every_two_in_both_orders(capsys: pytest.CaptureFixture[str]) -> None:
    walk = Walk().go(pairs("fedmf"))
    with capsys.disabled():
        print(walk.report("Two plug-ins, channels or generators on fedmf"))
    assert walk.ran > 200


@pytest.mark.slow
def test_triples(capsys: pytest.CaptureFixture[str]) -> None:
    walk = Walk().go(triples())
    with capsys.disabled():
        print(walk.report(f"{TRIPLES} triples of a method and two others"))
    assert walk.ran > 30


def test_a_sample_of_the_walk() -> None:
    everything = [*singles(), *pairs("fedmf"), *triples()]
    generator = np.random.default_rng(3)
    sample = [everything[index] for index in generator.choice(len(everything), 30, replace=False)]
    sample += [*KNOWN_FAULTS, *PACKED]
    walk = Walk().go(sample)
    assert walk.ran > 10
    assert walk.refused.total() > 10
    assert walk.followed >= walk.refused.total()


@pytest.mark.parametrize("method", ["fedmf", "fedncf", "fedneumf", "pfedrec", "fedavg", "gpfedrec"])
def test_the_order_of_plugins_makes_no_difference(method: str) -> None:
    """Both orders are one method, or both are refused; noise is drawn in the order given."""

    def value(plugins: tuple[str, ...]) -> object:
        try:
            made = resolve(method, plugins=plugins).method
        except CompositionError:
            return None
        assert isinstance(made, Method)
        return replace(made, channel=tuple(sorted(made.channel, key=repr)))

    for one, two in combinations(EXTRAS, 2):
        if _name(one) != _name(two):
            assert value((one, two)) == value((two, one)), f"{one} and {two} on {method}"
