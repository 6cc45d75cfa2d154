"""`audit privacy`: is the noise that a method adds as much as its guarantee says?

A mechanism is played as it is implemented, on a catalogue of a few items: clients train, uploads
pass the channel's bounds, and the code that adds noise in a round adds it. One client is a canary:
what it adds is stretched to the bound that the guarantee names, the worst that one person can be.
Many draws of the noisy sum are projected on the canary's direction, with the canary and without,
and a test between the two bounds epsilon from below (`privacy/lower_bound.py`). A guarantee below
that bound is wrong.

An audit looks along one direction, so it can find a guarantee wrong and never prove it right. Shape
suffixes: N draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from tacit.analysis.finding import Column, Table, word
from tacit.attack.page import Page
from tacit.attack.uploads import play_one, require_uploads
from tacit.core.algorithm import Algorithm, Exchange, Total
from tacit.core.types import BOUND
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.device import one_torch_thread
from tacit.engines.participation import Participants, everybody
from tacit.engines.round import add_noise, play_round
from tacit.engines.state import State
from tacit.errors import TacitError, argument
from tacit.experiment.amounts import whole_text
from tacit.experiment.charts import GREY, caption, colour, legend_outside, marker, new_figure
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.privacy.accounting import gaussian_epsilon, gaussian_mu
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.lower_bound import EpsilonBound, Reads, epsilon_bound

USERS, ITEMS, HISTORY = 8, 24, 9.0  # of the small catalogue
PLAYED = 4  # releases in one draw at most, of a method that may have any number of them
FEWEST_DRAWS = 100
LOUD = 1000.0  # times the sums of parts of a release, before the server reads them
HALF = 0.5  # the noise of the control, on which an audit must find the guarantee wrong

Tables = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Mechanism:
    """What is released of a few clients, as it is implemented: some releases of a run, as one
    vector.

    `noisy` adds noise to its sums, given the seed of a draw. `base` are sums without the canary,
    `canary` is what the canary adds, at the bound. Norms are in units of the bound, which `unit`
    gives for each table where the bound is an estimate.
    """

    base: Tables
    canary: Tables
    noisy: Callable[[Tables, int], Tables]
    two_sided: bool  # whether neighbours are any two uploads (+canary, -canary), or one and none
    releases: int = 1  # how many of those that a guarantee counts are in it
    unit: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def direction(self) -> Tables:
        """The canary's upload in units of the bound, of length 1."""
        return {name: v / self.reach for name, v in in_units(self.canary, self.unit).items()}

    @cached_property
    def reach(self) -> float:
        """The Euclidean norm of the canary's upload in units of the bound."""
        return norm_of(in_units(self.canary, self.unit), 2)

    def draw(self, sign: float, draws: int, seed: int) -> np.ndarray:
        """(N,) noise along the canary's direction, in sums that hold the canary `sign` times."""
        held = {name: self.base[name] + sign * self.canary[name] for name in self.base}
        aims = in_units(self.direction, self.unit)
        noise_N = np.empty(draws)
        for n in range(draws):
            seen = self.noisy(held, seed + n)
            noise_N[n] = sum(float(((seen[k] - held[k]) * aim).sum()) for k, aim in aims.items())
        return noise_N


def in_units(tables: Tables, unit: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Tables over the unit of each; one that is not named has the unit 1."""
    return {name: value / unit.get(name, 1.0) for name, value in tables.items()}


def norm_of(tables: Tables, order: int) -> float:
    """The norm of several tables together.

    >>> norm_of({"a": np.array([3.0]), "b": np.array([[4.0]])}, 2)
    5.0
    """
    parts = np.concatenate([np.abs(value).ravel() for value in tables.values()])
    return float(np.linalg.norm(parts, ord=order))


@dataclass(frozen=True)
class AuditOfSeed:
    """What the draws of one seed proved, and what they prove with half of their noise."""

    seed: int
    bounds: tuple[EpsilonBound, ...]
    control: tuple[EpsilonBound, ...]

    @property
    def epsilon(self) -> float:
        """The largest lower bound."""
        return max(one.epsilon for one in self.bounds)

    @property
    def control_epsilon(self) -> float:
        return max(one.epsilon for one in self.control)


@dataclass(frozen=True)
class PrivacyAudit:
    """What is claimed, and what was proved from below."""

    name: str
    claim: Guarantee
    played: int  # releases in one draw
    epsilon: float  # what the claim comes to for as many releases
    upload: float  # the norm of the canary's upload as it arrives, before it is stretched
    draws: int
    seeds: tuple[AuditOfSeed, ...]

    @property
    def exceeded(self) -> tuple[int, ...]:
        """The seeds whose bound lies above the claim."""
        return tuple(one.seed for one in self.seeds if one.epsilon > self.epsilon)

    @property
    def caught(self) -> tuple[int, ...]:
        """The seeds with which half the noise is found out."""
        return tuple(one.seed for one in self.seeds if one.control_epsilon > self.epsilon)

    @property
    def verdict(self) -> str:
        if self.exceeded:
            return "WRONG"
        return "not refuted" if len(self.caught) == len(self.seeds) else "too weak to tell"


@one_torch_thread()
def audit_privacy(
    experiment: Experiment,
    *,
    draws: int = 50_000,
    seeds: int = 1,
    claim: Guarantee | None = None,
    told: Callable[[int], None] = lambda done: None,
) -> PrivacyAudit:
    """Audit the guarantee of an experiment, or another `claim` about its mechanism. `told` hears
    how many seeds are done."""
    require_settings(draws, seeds)
    trainer = Trainer(experiment, small_view())
    require_uploads(trainer.algorithm, experiment.label)
    stated = trainer.guarantee() if claim is None else claim
    if stated is None:
        raise TacitError(
            f"{experiment.label} states no guarantee, so there is none to audit; ask for one with "
            f"{argument('plugins', 'private:epsilon=8')}."
        )
    mechanism, upload = mechanism_of(trainer, stated)
    return audit_mechanism(
        experiment.label, mechanism, stated, upload, draws=draws, seeds=seeds, told=told
    )


def require_settings(draws: int, seeds: int) -> None:
    """Refuse what proves nothing.

    >>> require_settings(draws=10, seeds=1)
    Traceback (most recent call last):
    tacit.errors.TacitError: draws is 10; an audit needs at least 100.
    """
    if draws < FEWEST_DRAWS:
        raise TacitError(f"draws is {draws}; an audit needs at least {FEWEST_DRAWS}.")
    if seeds < 1:
        raise TacitError(f"seeds is {seeds}; there must be at least one.")


def small_view() -> TrainView:
    """A few clients and items, with content: noise on small tables is drawn quickly.

    >>> small_view().n_users
    8
    """
    few = planted_dataset(n_users=USERS, n_items=ITEMS, mean_history=HISTORY)
    return split_dataset(few, CLEAN).train


class Release(NamedTuple):
    """One exchange that sends: what the server holds before it, and what each client adds."""

    server: State
    exchange: Exchange
    added: list[dict[str, np.ndarray]]

    def noisy(self, algorithm: Algorithm, sums: Tables, clients: int, seed: int) -> Tables:
        """Sums over so many clients after the noise of this exchange."""
        total = Total(dict(sums), clients=clients)
        add_noise(algorithm, self.server, total, seed, self.exchange)
        return total.sums

    def unit(self, algorithm: Algorithm, name: str) -> float:
        """The bound that is estimated now, in whose units a parameter is bounded; the bit for it is
        in those units already."""
        if algorithm.protection is None or name == BOUND:
            return 1.0
        return algorithm.protection.unit(self.server.shared)


def mechanism_of(trainer: Trainer, claim: Guarantee) -> tuple[Mechanism, float]:
    """Releases of a federation as one vector, and the norm of its canary's largest upload.

    The canary is the first client of those that add most. An upload below the bound is stretched to
    it; one above it, which no bound should let pass, stays as it is. Where one bound holds for all
    uploads of a client together, they are one upload. Else each has its own, with the bound that is
    estimated by then.
    """
    algorithm = trainer.algorithm
    whole, most = _counted(trainer, claim)
    played = played_releases(trainer, most)
    clients, local = range(len(played[0].added)), claim.view == "local"
    tables = [
        {
            f"{place}:{name}": value
            for place, release in enumerate(played)
            for name, value in release.added[client].items()
        }
        for client in clients
    ]
    unit = {name: played[_place(name)].unit(algorithm, _parameter(name)) for name in tables[0]}
    # which tables are bounded together
    groups = [list(unit)] if whole else [_named(unit, place) for place in range(len(played))]
    norm_CG = np.array(
        [
            [norm_of(in_units({k: sums[k] for k in names}, unit), claim.norm) for names in groups]
            for sums in tables
        ]
    )
    if not np.isfinite(norm_CG).all():
        raise TacitError(
            f"A client of {trainer.experiment.label} sends numbers that are not finite, so "
            "training diverged; lower the learning rate."
        )
    canary = first_of_the_longest(np.linalg.norm(norm_CG, axis=1))
    if not norm_CG[canary].any():
        raise TacitError(
            f"No client of {trainer.experiment.label} sends anything but zeros, so there is no "
            "direction to look along."
        )
    stretch = {
        name: max(1.0, claim.bound / norm) if norm else 1.0
        for names, norm in zip(groups, norm_CG[canary].tolist(), strict=True)
        for name in names
    }
    others = [] if local else [tables[client] for client in clients if client != canary]

    def noisy(sums: Tables, seed: int) -> Tables:
        seen: dict[str, np.ndarray] = {}
        for place, release in enumerate(played):
            mine = {_parameter(name): sums[name] for name in _named(sums, place)}
            after = release.noisy(algorithm, mine, 1 + len(others), seed)
            seen |= {f"{place}:{name}": value for name, value in after.items()}
        return seen

    mechanism = Mechanism(
        base={
            name: sum((sums[name] for sums in others), 0.0 * value)
            for name, value in tables[canary].items()
        },
        canary={name: stretch[name] * value for name, value in tables[canary].items()},
        noisy=noisy,
        two_sided=local,
        releases=len(groups),
        unit=unit,
    )
    return mechanism, float(norm_CG[canary].max())


def first_of_the_longest(norm_C: np.ndarray) -> int:
    """The first client of those whose uploads are longest. Bounded uploads are equally long but for
    rounding, which differs between processors.

    >>> first_of_the_longest(np.array([0.5, 2.0, 2.0000000001]))
    1
    """
    return int(np.argmax(norm_C >= (1 - 1e-6) * norm_C.max()))


def _named(names: Iterable[str], place: int) -> list[str]:
    """The tables of one release among names like "release:parameter"."""
    return [name for name in names if _place(name) == place]


def _place(name: str) -> int:
    return int(name.partition(":")[0])


def _parameter(name: str) -> str:
    return name.partition(":")[2]


def _counted(trainer: Trainer, claim: Guarantee) -> tuple[bool, int | None]:
    """Whether one bound holds for all uploads together, and how many releases are played; None: all
    of them. A method with a certain number of rounds may release another thing in each."""
    algorithm = trainer.algorithm
    clips = algorithm.protection is not None and algorithm.protection.clips
    whole = algorithm.bound is not None and algorithm.bound.together and not clips
    if whole or algorithm.max_rounds is not None:
        return whole, None
    return whole, min(claim.releases, PLAYED)


def played_releases(trainer: Trainer, most: int | None) -> list[Release]:
    """The first releases of a federation in which everybody takes part.

    Where uploads share a bound, what the server makes of one is loud, as if many more had sent it:
    a guarantee holds whatever is broadcast, and clients who hear nothing may have nothing to say in
    the next one.
    """
    algorithm, train, seed = trainer.algorithm, trainer.train, trainer.experiment.seed
    state, found = trainer.state.on("cpu").copy(), list[Release]()
    loud = LOUD if algorithm.bound is not None and algorithm.bound.together else 1.0

    def play(exchange: Exchange, who: Participants) -> Total:
        held = {name: value.clone() for name, value in state.shared.items()}
        release = Release(State(held, {}, round_number=state.round_number), exchange, [])
        total = Total()
        for user in who.user_P.tolist():
            one = play_one(algorithm, train, state, exchange, user, seed)
            release.added.append(one.sums)
            total.weight, total.clients = total.weight + one.weight, total.clients + one.clients
            for name, value in one.sums.items():
                total.add(name, loud * value)
        if exchange.sends:
            found.append(release)
        return total

    while state.round_number < trainer.rounds and (most is None or len(found) < most):
        play_round(algorithm, train, state, everybody(train), seed, play)
    if not found:
        raise TacitError("Nobody sends anything in this experiment, so there is no noise to audit.")
    return found[:most]


def audit_mechanism(
    name: str,
    mechanism: Mechanism,
    claim: Guarantee,
    upload: float,
    *,
    draws: int,
    seeds: int = 1,
    told: Callable[[int], None] = lambda done: None,
) -> PrivacyAudit:
    """Audit a claim about a mechanism; the control is the same mechanism with half its noise."""
    played = mechanism.releases
    found = []
    for seed in range(seeds):
        # every draw has a seed of its own, over all seeds and both sides
        first = 2 * seed * draws + 1
        sides = (1.0, -1.0) if mechanism.two_sided else (1.0, 0.0)
        noises = [
            mechanism.draw(sign, draws, first + place * draws) for place, sign in enumerate(sides)
        ]
        signals = [sign * mechanism.reach for sign in sides]
        full, half = (
            tuple(
                epsilon_bound(
                    signals[0] + share * noises[0],
                    signals[1] + share * noises[1],
                    claim.delta,
                    reads=reads,
                )
                for reads in _readings(claim)
            )
            for share in (1.0, HALF)
        )
        found.append(AuditOfSeed(seed, full, half))
        told(seed + 1)
    epsilon = epsilon_of(claim, played)
    return PrivacyAudit(name, claim, played, epsilon, upload, draws, tuple(found))


def _readings(claim: Guarantee) -> tuple[Reads, ...]:
    return ("counts", "gaussian") if claim.mechanism == "gaussian" else ("counts",)


def epsilon_of(claim: Guarantee, releases: int) -> float:
    """What a claim comes to for some of its releases: from its epsilon alone, not from its noise,
    so that noise which was calibrated to too few of them is found out.

    >>> claim = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=50, delta=1e-5)
    >>> round(epsilon_of(claim, 1), 4) == round(claim.epsilon_per_release, 4)
    True
    """
    if claim.mechanism == "gaussian":
        mu = gaussian_mu(claim.epsilon, claim.delta) * math.sqrt(releases / claim.releases)
        return gaussian_epsilon(mu, claim.delta)
    return claim.epsilon * releases / claim.releases


# The audit as people and programs read it; the frame is that of the attacks.

READING = (
    "A draw is the noisy sum along the direction of one client, whose upload is at the bound. From "
    "draws with that client and without, a test bounds ε from below: by its counts alone, and, for "
    "Gaussian noise, by the trade-off that such noise allows. The threshold was chosen on other "
    "draws; each bound holds with 99.9 % confidence. An audit can find a guarantee wrong. It "
    "cannot prove one right: it looks along one direction."
)
AS_IT_IS, HALVED = "as implemented", "half (control)"
WRONG = "The guarantee is WRONG: at least ε = {:.4g} was proved, and {:.4g} is stated."
WEAK = (
    "Half the noise was found out with {} of {} seeds only, so this audit is too weak to tell; use "
    "more draws."
)


def privacy_page(found: PrivacyAudit) -> Page:
    """A row for each seed and bound, the JSON object, and a figure."""
    said = [f"claim: {found.claim.text}.", READING]
    if found.played < found.claim.releases:
        said.append(
            f"A draw has {found.played} of {found.claim.releases} releases, for which the claim "
            f"comes to ε = {found.epsilon:.4g}."
        )
    if found.upload > found.claim.bound * (1 + 1e-6):
        said.append(
            f"The canary's upload has norm {found.upload:.4g}, above the bound "
            f"{found.claim.bound:.4g} that is claimed."
        )
    if found.exceeded:
        proved = max(one.epsilon for one in found.seeds)
        said.append(WRONG.format(proved, found.epsilon))
    elif len(found.caught) < len(found.seeds):
        said.append(WEAK.format(len(found.caught), len(found.seeds)))
    value = {**asdict(found), "verdict": found.verdict}
    value |= {"exceeded": list(found.exceeded), "caught": list(found.caught)}
    numbers = number_table(found)
    tables = (text_table(found),)
    figures = {"bounds": bounds_figure(found)}
    return Page("privacy", tables, numbers, value, figures, tuple(said), kind="audit")


def bounds_by_kind(found: PrivacyAudit) -> list[tuple[str, Reads, list[float]]]:
    """Which noise, what a bound reads, and the bounds of all seeds."""
    kinds = list(enumerate(_readings(found.claim)))
    full = [(AS_IT_IS, reads, [s.bounds[at].epsilon for s in found.seeds]) for at, reads in kinds]
    half = [(HALVED, reads, [s.control[at].epsilon for s in found.seeds]) for at, reads in kinds]
    return [*full, *half]


def text_table(found: PrivacyAudit) -> Table:
    """For each kind of bound what was proved over all seeds, with all the noise and with half."""
    stated = f"ε = {found.claim.epsilon:.4g} is stated"
    if found.played < found.claim.releases:
        stated += f", {found.epsilon:.4g} for the releases of a draw"
    title = (
        f"{found.name}: {stated}; {found.draws:,} draws with and without the canary, "
        f"{len(found.seeds)} seeds: {found.verdict}"
    )
    columns = (
        *(Column(name, word) for name in ("noise", "bound by")),
        *(Column(name) for name in ("ε at least, lowest", "highest")),
        *(Column(name, word) for name in ("above the claim", "must be")),
    )
    rows = []
    for noise, reads, bounds in bounds_by_kind(found):
        expected = "none" if noise == AS_IT_IS else "in either row"
        above = f"{sum(value > found.epsilon for value in bounds)} of {len(bounds)}"
        rows.append((noise, reads, min(bounds), max(bounds), above, expected))
    return Table("privacy", title, columns, tuple(rows))


def number_table(found: PrivacyAudit) -> Table:
    """One row for each seed, noise and kind of bound, for the CSV file."""
    columns = [Column("run", word), Column("stated"), Column("seed", whole_text)]
    columns += [Column("noise"), Column("bound by", word), Column("says", word)]
    names = ("threshold", "true rate", "false rate", "true rate low", "false rate high", "epsilon")
    columns += [Column(name) for name in names]
    rows = tuple(
        (
            *(found.name, found.epsilon, one.seed, share, bound.reads, bound.says),
            *(bound.threshold, bound.true_rate, bound.false_rate),
            *(bound.true_rate_low, bound.false_rate_high, bound.epsilon),
        )
        for one in found.seeds
        for share, bounds in ((1.0, one.bounds), (HALF, one.control))
        for bound in bounds
    )
    return Table("privacy", "Audit of a guarantee", tuple(columns), rows)


def bounds_figure(found: PrivacyAudit) -> Figure:
    """Lower bounds on epsilon by seed, around the line of what is stated."""
    figure, (panel,) = new_figure(width=6.0, height=4.0)
    panel.axhline(found.epsilon, color=GREY, linewidth=1.4, label="stated")
    seeds = [one.seed for one in found.seeds]
    for place, (noise, reads, bounds) in enumerate(bounds_by_kind(found)):
        panel.plot(
            *(seeds, bounds),
            color=colour(place),
            marker=marker(place),
            linestyle="",
            label=f"{noise}, by {reads}",
        )
    panel.set_xticks(seeds if len(seeds) <= 20 else seeds[:: len(seeds) // 10])
    panel.set_xlabel("seed")
    panel.set_ylabel("ε at least")
    panel.set_ylim(bottom=0)
    legend_outside(figure, panel)
    caption(
        figure,
        "Bounds from below, 99.9 % each. With the noise as implemented none may lie above the "
        "line; with half of it, the control, one of them must.",
    )
    return figure
