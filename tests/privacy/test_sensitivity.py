"""A claim of privacy, asked of every method that takes one: one person's history moves a released
sum by no more than the claim says, every sum has its noise once, and nothing else of a history
reaches the server or another person.

A run is played twice: with the histories as they are, and with one person's history taken out or
exchanged for another. In the second run the server steps with the noisy sums of the first. So all
that others hold must be the same, number for number: a difference has come another way than through
the noise. The sums of the two runs are compared before their noise.

Methods, presets and plug-ins are taken from the list, so that a new one is asked without a line
here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pytest
import torch

import tacit.engines.round
from tacit.core.algorithm import TABLES, TRAIN, Algorithm, Bound, ClientData, ServerState, Total
from tacit.core.fit import CompositionError
from tacit.core.types import Params, Task
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods import METHODS, FedEase
from tacit.plugins.entry import PLUGINS
from tacit.privacy.guarantee import PrivacyRequest, sensitivity
from tacit.testing.synthetic import ragged, with_content

ROUNDS = 2
MORE_ROUNDS = {"fedspectral": 3, "dpals": 3}  # for all parts of a release
TARGET = 4  # the person whose history is exchanged
ALL_ALIKE = 1e-9  # blocks of other lengths round otherwise
HOSTS = ("fedmf", "fcf", "fedncf")  # what plug-ins are tried on
# in so few rounds, with so few people
SPELLED = {
    "fedrkg": "fedrkg:every=1",
    "fedrkg_without_ag": "fedrkg_without_ag:every=2,at=next",
    "ifedrec": "ifedrec:strength=0.1",
}
TOGETHER = (("fedmr", "fedrkg:every=1"), ("recency", "dual_personalised"), ("fedvlr", "ridge"))
SIZES = (
    *("backbone.dim=8", "dim=5", "hidden=6", "latent=3", "gate=2", "epochs=2", "memory=6"),
    *("user_width=4", "left=3", "items.width=8", "items.id_width=8", "items.hidden=4"),
)
BY_ITSELF = "private:epsilon=8"  # a method's own bound, or that of a claim where it has none
BOUNDED = "private:epsilon=8,clip=0.02"  # so small that it cuts
FOLLOWED = "private:epsilon=8,clip=0.02,quantile=0.5"  # a bound that is estimated on the way


@dataclass(frozen=True)
class Case:
    """A method of the list under a preset and plug-ins."""

    method: str
    preset: str = "paper"
    plugins: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()

    def __str__(self) -> str:
        preset = () if self.preset == "paper" else (self.preset,)
        return " ".join((self.method, *preset, *self.plugins, *self.sets))

    def experiment(self, asked: str, engine: str = "auto", **more: Any) -> Experiment:
        """With a claim, spelled as told, in double precision."""
        return resolve(
            self.method,
            preset=self.preset,
            plugins=(*self.plugins, asked),
            rounds=MORE_ROUNDS.get(self.method, ROUNDS),
            engine=engine,
            sets=("precision=float64", *self.sets, *small(self)),
            **more,
        )


@cache
def small(case: Case) -> tuple[str, ...]:
    """The sizes among ours that a method has."""
    found: tuple[str, ...] = ()
    for size in SIZES:
        try:
            resolve(
                case.method,
                preset=case.preset,
                plugins=case.plugins,
                sets=(*case.sets, *found, size),
            )
        except TacitError:
            continue
        found = (*found, size)
    return found


def takes(case: Case, asked: str) -> bool:
    try:
        case.experiment(asked)
    except CompositionError:
        return False
    except TacitError as error:
        if case.preset == "paper" or "has no meaning under private" not in str(error):
            raise
        return False  # a preset with a setting that a claim would have to drop
    return True


@cache
def cases() -> tuple[Case, ...]:
    """Every method and preset of the list, and every plug-in on the first host that takes it; of
    those that differ in numbers alone the first."""
    found = [Case(name, preset) for name in METHODS for preset in METHODS[name].presets]
    found = [case for case in found if takes(case, BY_ITSELF)]
    brought = [(SPELLED.get(name, name),) for name in PLUGINS if name != "private"]
    for plugins in (*brought, *TOGETHER):
        hosted = (Case(host, plugins=plugins) for host in HOSTS)
        found += [case for case in hosted if takes(case, BY_ITSELF)][:1]
    found.append(Case("fedmf", plugins=("fedmr",), sets=("items.placement=server",)))
    kinds = {_kind(case): case for case in found[::-1]}
    return tuple(case for case in found if case in kinds.values())


def _kind(case: Case) -> tuple[str, ...]:
    """What a case is made of, without its numbers, and what it shares."""
    method = case.experiment(BY_ITSELF).method
    return re.sub(r"[-\d.e]+", "0", repr(method)), *method.algorithm(Task(1, 1)).shared


def asked_and_played() -> list[Any]:
    """Each case with bounds of each kind; methods alone on all paths: that which is taken by
    itself, blocks of clients, and the loop."""
    found = []
    for case in cases():
        own = FOLLOWED if takes(case, FOLLOWED) else BY_ITSELF
        composed = case.experiment(BY_ITSELF).method.composed is not None
        slow: tuple[tuple[str, str], ...] = ()
        if not case.plugins:
            slow = ((BOUNDED, "loop"), (own, "cohort" if composed else "loop"))
        for asked, engine in ((BOUNDED, "auto"), (own, "auto"), *slow):
            kind = {BOUNDED: "bounded", FOLLOWED: "followed"}.get(asked, "by itself")
            found.append(pytest.param(case, asked, engine, id=f"{case}, {kind}, {engine}"))
    return found


# Two datasets that differ in one person.

Neighbour = Literal["nothing", "long"]


@cache
def histories(is_cold: bool) -> TrainView:
    """A few people with histories of very different lengths. The last item is the target's alone,
    so that it is nobody's where the target's history is another."""
    protocol = resolve("fedmf", plugins=["ridge"] if is_cold else []).protocol
    train = split_dataset(with_content(ragged(n_users=9, n_items=20)), protocol).train
    rare = train.n_items - 1 if train.warm_W is None else train.warm_W[-1]
    first = 0 if train.warm_W is None else train.warm_W[0]
    item_N = np.where(train.positives.item_N == rare, first, train.positives.item_N)
    item_N[train.positives.start_U1[TARGET]] = rare
    return replace(train, positives=Lists(train.positives.start_U1, item_N))


def exchanged(train: TrainView, kind: Neighbour) -> TrainView:
    """The same people, and in one's place one without a history, or with nearly all items but the
    rare one, some of them twice."""
    lists = train.positives
    room = np.arange(train.n_items) if train.warm_W is None else train.warm_W
    most = np.concatenate([room[:-4], room[1:4]])
    other = most if kind == "long" else most[:0]
    items = [other if user == TARGET else lists[user] for user in range(train.n_users)]
    start = np.concatenate([[0], np.cumsum([len(one) for one in items])])
    time_N = np.concatenate([np.arange(len(one)) for one in items])
    return replace(train, positives=Lists(start, np.concatenate(items)), time_N=time_N)


# One run, and the same sums again for a server that must not tell the difference.

Key = tuple[int, str, str]  # round, exchange and parameter of a sum


@dataclass(eq=False)
class Seen:
    """What passed between devices and server in one run."""

    trainer: Trainer
    clean: dict[Key, np.ndarray] = field(default_factory=dict)
    noise: dict[Key, np.ndarray] = field(default_factory=dict)
    clients: dict[Key, int] = field(default_factory=dict)
    totals: list[Total] = field(default_factory=list)
    held: list[Params] = field(default_factory=list)  # by all but the target, after each round

    @property
    def exchanges(self) -> list[tuple[int, str]]:
        return list(dict.fromkeys((number, exchange) for number, exchange, _ in self.clean))

    def distance(self, other: Seen, exchange: tuple[int, str]) -> float:
        """How far apart the sums of an exchange are, all parameters together."""
        keys = [key for key in self.clean if key[:2] == exchange]
        assert keys == [key for key in other.clean if key[:2] == exchange]
        apart = [self.clean[key] - other.clean[key] for key in keys]
        return float(np.sqrt(sum((one**2).sum() for one in apart)))


def play(experiment: Experiment, train: TrainView, script: Seen | None = None) -> Seen:
    """A run in which every sum is written down before and after its noise; with a script the server
    steps with the noisy sums of that run."""
    trainer = Trainer(experiment, train)
    seen, draw, kind = Seen(trainer), tacit.engines.round.with_noise, type(trainer.algorithm)
    passed: list[np.ndarray] = []

    def with_noise(
        algorithm: Algorithm,
        name: str,
        total: np.ndarray,
        clients: int,
        seed: int,
        number: int,
        exchange: str = TRAIN,
        **more: Any,
    ) -> np.ndarray:
        key, unit = (number, exchange, name), more.get("unit", 1.0)
        assert key not in seen.clean, f"{key} is released twice"
        noisy = draw(algorithm, name, total, clients, seed, number, exchange, **more)
        seen.clean[key], seen.clients[key] = np.array(total) / unit, clients
        seen.noise[key] = (noisy - total) / unit
        passed.append(noisy)
        return noisy

    def step(self: Any, server: ServerState, total: Total, round_number: int) -> ServerState:
        for name, value in total.sums.items():
            noised = name in total.noised or any(value is one for one in passed)
            assert noised, f"the server steps with {name}, which has passed no noise"
        if script is not None:  # how many took part is public, and stays
            total = replace(script.totals[len(seen.totals)])
        seen.totals.append(replace(total, sums=dict(total.sums)))
        return kind.step(self, server, total, round_number)

    watched = type("Watched", (kind,), {"step": step})
    known = {one.name: getattr(trainer.algorithm, one.name) for one in fields(trainer.algorithm)}  # type: ignore[arg-type]
    trainer.algorithm = watched(**known)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tacit.engines.round, "with_noise", with_noise)
        for _ in range(trainer.rounds):
            trainer.run_round()
            seen.held.append(held_by_others(trainer))
    return seen


def held_by_others(trainer: Trainer) -> Params:
    """All that the server holds, and all that everybody but the target holds and is recommended."""
    state, train = trainer.state, trainer.train
    found = {f"shared {name}": value.clone() for name, value in state.shared.items()}
    found |= {f"server {name}": value.clone() for name, value in state.server.items()}
    rest_U = torch.arange(train.n_users) != TARGET
    rest_N = torch.from_numpy(train.positives.list_N != TARGET)
    by_history = trainer.algorithm.history_parameters
    for name, value in (*state.private.items(), *state.optimizer.items()):
        found[f"private {name}"] = value[rest_N if name in by_history else rest_U].clone()
    score_UI = trainer.scores()(np.flatnonzero(rest_U.numpy()))
    return {**found, "scores": torch.from_numpy(np.nan_to_num(score_UI, neginf=0.0))}


def assert_held_alike(one: Seen, two: Seen) -> None:
    """Fail where somebody knows more of the target than the noisy sums tell."""
    for number, (ours, theirs) in enumerate(zip(one.held, two.held, strict=True), 1):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            assert torch.isfinite(value).all(), name
            alike = torch.allclose(value, theirs[name], rtol=ALL_ALIKE, atol=ALL_ALIKE)
            assert alike, f"after round {number} {name} depends on the target past the noise"


def assert_within(one: Seen, two: Seen, most: float) -> list[float]:
    """Fail where a sum moved by more; how much of that it moved by, exchange by exchange."""
    assert one.exchanges == two.exchanges
    apart = [one.distance(two, exchange) for exchange in one.exchanges]
    assert max(apart) <= most * (1 + 1e-9), dict(zip(one.exchanges, apart, strict=True))
    return [each / most for each in apart]


@cache
def first_run(case: Case, engine: str, asked: str) -> Seen:
    experiment = case.experiment(asked, engine)
    return play(experiment, histories(experiment.protocol.split.is_cold))


# The property.


def moved(experiment: Experiment, first: Seen) -> list[float]:
    """How much of what is claimed one person moves the sums by, at most 1."""
    protection, train = first.trainer.algorithm.protection, first.trainer.catalogue
    assert protection is not None
    found: list[float] = []
    kinds: dict[Neighbour, float] = {
        "nothing": sensitivity("secure_sum", protection.bound),
        "long": sensitivity("local", protection.bound),
    }
    for kind, most in kinds.items():
        second = play(experiment, exchanged(train, kind), first)
        assert_held_alike(first, second)
        reached = assert_within(first, second, most)
        if as_one(first):
            assert sum(share**2 for share in reached) <= 1 + 1e-6, "the uploads together: too far"
        found += reached
    return found


def as_one(seen: Seen) -> bool:
    """Whether one bound holds for all uploads of a client over the run."""
    algorithm = seen.trainer.algorithm
    assert algorithm.protection is not None
    whole = algorithm.bound is not None and algorithm.bound.together
    return whole and not algorithm.protection.clips


@pytest.mark.parametrize(("case", "asked", "engine"), asked_and_played())
def test_one_person_moves_sums_by_what_is_claimed_and_nothing_else(
    case: Case, asked: str, engine: str
) -> None:
    found = moved(case.experiment(asked, engine), first_run(case, engine, asked))
    # a narrow basis holds a part of a history, and FedAvg's steps are small on so little data
    free = case.method == "fedavg" or asked == BY_ITSELF
    assert max(found) > (0.05 if free else 0.9)


def test_the_list_is_long_enough() -> None:
    """What the property was written for; methods and plug-ins that come later are asked too."""
    asked = {case.method for case in cases()}
    assert asked >= {
        *("fedmf", "fedncf", "pfedrec", "fedrecon", "fedneumf", "fedvbpr", "fcf", "fedavg"),
        *("fcf_als", "fedrap", "feddae", "metamf", "fedspectral", "fedease", "fednext", "dpals"),
        *("mdifffr", "ipfedrec"),
    }
    plugins = {plugin.split(":")[0] for case in cases() for plugin in case.plugins}
    assert plugins >= {
        *("fedrkg", "fedmr", "fedvlr", "dual_personalised", "recency", "mdifffr", "ifedrec"),
        *("ridge", "nearest", "random_rows"),
    }


# Noise.


def assert_noise(scale: float, is_local: bool, *runs: Seen) -> None:
    """Fail where sums have other noise than claimed, or share it."""
    drawn = {
        (run, *key): noise.ravel() / (scale * (seen.clients[key] ** 0.5 if is_local else 1.0))
        for run, seen in enumerate(runs)
        for key, noise in seen.noise.items()
    }
    all_N = np.concatenate(list(drawn.values()))
    assert len(all_N) > 100
    off = abs(np.mean(all_N**2) - 1) / np.sqrt(2 / len(all_N))
    assert off < 5, f"the noise has {np.std(all_N):.3f} times the claimed standard deviation"
    for one, two in combinations(drawn, 2):
        count = min(len(drawn[one]), len(drawn[two]))
        alike = abs((drawn[one][:count] * drawn[two][:count]).sum()) / np.sqrt(count)
        assert count < 20 or alike < 6, f"{one} and {two} share their noise"


@pytest.mark.parametrize("case", cases(), ids=str)
@pytest.mark.parametrize("more", ["", ",view=local", ",quantile=0.5"])
def test_every_sum_has_its_noise_once(case: Case, more: str) -> None:
    asked = f"{BOUNDED}{more}"
    if not takes(case, asked):  # it bounds uploads by itself
        asked = BY_ITSELF
    seen = first_run(case, "auto", asked)
    guarantee, protection = seen.trainer.guarantee(), seen.trainer.algorithm.protection
    assert guarantee is not None
    assert protection is not None
    assert guarantee.view == protection.request.view
    assert guarantee.epsilon == pytest.approx(8.0)
    # everybody takes part in all of them; uploads that are bounded together count as one
    assert guarantee.releases == (1 if as_one(seen) else len(seen.exchanges))
    assert guarantee.noise == protection.noise
    runs, experiment = [seen], case.experiment(asked, "auto")
    while sum(noise.size for run in runs for noise in run.noise.values()) <= 100:
        another = replace(experiment, seed=len(runs))  # one sum of a few numbers says too little
        runs.append(play(another, histories(experiment.protocol.split.is_cold)))
    assert_noise(guarantee.noise, guarantee.view == "local", *runs)


# Who takes part.


@pytest.mark.parametrize(
    "case",
    [
        Case("fedmf"),
        Case("fedncf"),
        Case("fcf_als"),
        Case("fednext", "narrow"),
        Case("fedmf", plugins=("fedrkg:every=1",)),
    ],
    ids=str,
)
@pytest.mark.parametrize("engine", ["auto", "cohort", "loop"])
def test_who_does_not_report_moves_nothing(case: Case, engine: str) -> None:
    """Of six rounds the target misses some, and in some its upload is lost. Tables are sent by
    everybody."""
    who = Participation(ratio=0.7, availability=0.9, dropout=0.3)
    experiment = replace(case.experiment(BOUNDED, engine), rounds=6, participation=who, seed=1)
    first = play(experiment, histories(False))
    second = play(experiment, exchanged(histories(False), "long"), first)
    assert_held_alike(first, second)
    assert_within(first, second, sensitivity("local", 0.02))
    sent_U = np.zeros(first.trainer.train.n_users, dtype=int)
    for exchange in first.exchanges:
        number, name = exchange
        drawn = first.trainer.participants(number)
        reports = TARGET in drawn.user_P[drawn.reports_P]
        told = first.distance(second, exchange) > 1e-12
        assert told == (reports or name == TABLES), exchange
        # one whose upload is lost has sent it
        sent_U[slice(None) if name == TABLES else drawn.user_P] += 1
    assert 0 < sent_U.max() == first.trainer.releases


# Controls: what is not kept is caught.


class Boastful(FedEase):
    """Says that its uploads have norm 1, and sends three times as much."""

    @property
    def bound(self) -> Bound:
        return Bound(2, 1.0)

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        kept, sent = super().update(received, private, data, round_number)
        return kept, {name: 3 * value for name, value in sent.items()}

    def absorb(self, shared: Params, user: torch.Tensor, upload: Params) -> Params:
        return upload


def test_a_bound_that_is_none_is_caught() -> None:
    method = replace(Boastful(scale="norm"), privacy=PrivacyRequest(), ridges=(20.0,))
    experiment = replace(Case("fedease").experiment(BY_ITSELF), method=method)
    first = play(experiment, histories(False))
    assert first.trainer.guarantee() is not None  # nobody but this test would know
    with pytest.raises(AssertionError, match=r"\(1, 'train'\): 3\.0"):
        moved(experiment, first)


def test_a_way_around_the_noise_is_caught() -> None:
    """Without a claim a generator learns from items that somebody has touched."""
    case = Case("fedmf", plugins=("ridge", "clip:bound=0.02"))
    experiment = case.experiment("gaussian:sigma=0.02")
    first = play(experiment, histories(True))
    second = play(experiment, exchanged(histories(True), "long"), first)
    assert_within(first, second, sensitivity("local", 0.02))
    with pytest.raises(AssertionError, match="after round 1 scores depends on the target"):
        assert_held_alike(first, second)


def test_noise_that_is_too_small_or_shared_is_caught() -> None:
    seen = first_run(Case("fedmf"), "auto", BOUNDED)
    scale = seen.trainer.algorithm.protection.noise  # type: ignore[union-attr]
    assert_noise(scale, False, seen)
    with pytest.raises(AssertionError, match="times the claimed standard deviation"):
        assert_noise(1.5 * scale, False, seen)
    same = next(iter(seen.noise.values()))
    shared = replace(seen, noise=dict.fromkeys(seen.noise, same))
    with pytest.raises(AssertionError, match="share their noise"):
        assert_noise(scale, False, shared)
