"""A claim of privacy is kept by what runs: bounds on every upload, noise of the right size on sums,
and the same numbers on every path."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm as normal

from tacit import streams
from tacit.core.algorithm import TABLES, TRAIN, Algorithm, Bound, ClientData
from tacit.core.custom import CustomMethod
from tacit.core.fit import CompositionError
from tacit.core.method import Method
from tacit.core.optim import Adam
from tacit.core.parts import Transform
from tacit.core.protection import Protection, promised
from tacit.core.types import BOUND, Params, Task, Upload
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import Lists, TrainView
from tacit.engines import round as round_module
from tacit.engines.cohort import CohortEngine
from tacit.engines.cold import ColdServer
from tacit.engines.custom import CustomEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation, everybody, most_releases
from tacit.engines.round import with_noise
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.methods import METHODS, DpAls, FcfAls, FedEase, FedPop, FedSpectral, fedmf
from tacit.parts.channel import Clip, Dense, Gaussian, GaussianSum, Laplace, QuantileClip
from tacit.plugins.private import can_claim, private
from tacit.privacy.guarantee import PrivacyRequest
from tacit.testing.custom_tests import custom_trace
from tacit.testing.paths import assert_paths_agree, small_train
from tacit.testing.play import PLANNED, same_to
from tacit.testing.synthetic import ragged, with_content

WIDE = torch.float64
EPSILON, DELTA = 8.0, 1e-5
SMALL = ("local.batch=16", "local.epochs=2", "backbone.dim=6")
MIXED = ("backbone.dim=8", "items.width=8", "items.id_width=8", "items.hidden=4")
# methods made of parts, with plug-ins that change what is sent, how, and to whom
COMPOSED = {
    "fedmf": ("fedmf", (), SMALL),
    "fedncf": ("fedncf", (), SMALL),
    "pfedrec": ("pfedrec", (), SMALL),
    "fedrap": ("fedrap", (), SMALL),
    "fcf": ("fcf", (), SMALL),
    "fedavg": ("fedavg", (), SMALL),
    "fedrecon": ("fedrecon", (), ("backbone.dim=6",)),
    "fedneumf": ("fedneumf", (), SMALL),
    "fedrkg": ("fedmf", ("fedrkg:every=1",), SMALL),
    "fedrkg late": ("fedncf", ("fedrkg:every=2,at=next",), SMALL),
    "fedmr": ("fcf", ("fedmr",), MIXED),
    "fedvlr": ("fcf", ("fedvlr",), MIXED),
    "fedmr and fedrkg": ("fcf", ("fedmr", "fedrkg:every=1"), MIXED),
    "fedvbpr": ("fedvbpr", (), ("backbone.dim=8",)),
    "ifedrec": ("fedmf", ("ifedrec",), ("backbone.dim=6", "sync.strength=0.1")),
    "recency": ("fedmf", ("recency",), SMALL),
}
CUSTOM: dict[str, CustomMethod] = {
    "fedease": FedEase(),
    "fedspectral": FedSpectral(width=3),
    "fednext": METHODS["fednext"].method(),
    "fednext ridge": METHODS["fednext"].method("mixed"),
    "fednext narrow": replace(METHODS["fednext"].method(), width=5),  # type: ignore[type-var]
    "fcf_als": FcfAls(dim=3),
    "dpals": DpAls(dim=3),
    "dpals, own matrices": DpAls(dim=3, own_share=0.4),
    "fedpop": FedPop(),
    "feddae": resolve("feddae", sets=["hidden=5", "latent=3", "gate=2", "epochs=2"]).method,
    "metamf": resolve(
        "metamf", sets=["dim=5", "user_width=4", "memory=6", "hidden=7", "left=3"]
    ).method,
}  # type: ignore[dict-item]


@cache
def composed(name: str, spelled: str = "private:epsilon=8") -> Method:
    method, plugins, sets = COMPOSED[name]
    found = resolve(method, plugins=(*plugins, spelled), sets=sets).method
    assert isinstance(found, Method)
    return found


def custom(name: str, **asked: Any) -> CustomMethod:
    found: CustomMethod = private(CUSTOM[name], **asked)
    return found


@cache
def train() -> TrainView:
    return small_train(content=True)


def norm_of(algorithm: Algorithm, upload: Upload, unit: float) -> float:
    """The Euclidean norm of what an upload adds to a sum, all its tables together, and the bit for
    an estimated bound, in units of it."""
    square = 0.0
    for name, change in upload.change.items():
        value = change.double().numpy()
        if name in algorithm.sent_by_row:
            table = np.zeros((algorithm.task.n_items, *value.shape[1:]))
            np.add.at(table, upload.item_R.numpy(), value)
            value = table
        square += float((value**2).sum()) / (1.0 if name == BOUND else unit**2)
    return float(square**0.5)


def norms(algorithm: Algorithm, view: TrainView, rounds: int = 2) -> np.ndarray:
    """The norms of all uploads of some rounds; after the first an estimated bound has moved."""
    uploads: list[tuple[int, Upload]] = []
    engine = LoopEngine(WIDE, uploads)
    state = engine.start(algorithm, view, seed=0)
    found: list[float] = []
    for _ in range(rounds):
        uploads.clear()
        unit = 1.0 if algorithm.protection is None else algorithm.protection.unit(state.shared)
        engine.round(algorithm, view, state, everybody(view), seed=0)
        found += [norm_of(algorithm, upload, unit) for _, upload in uploads]
    return np.array(found)


def repeated() -> TrainView:
    """Histories in which items stand several times, and are long and short."""
    generator = np.random.default_rng(5)
    lists = [generator.integers(0, 24, size) for size in (1, 2, 3, 9, 17, 30, 30, 4)]
    start = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    keys = np.arange(1, 9, dtype=np.uint64)
    return TrainView(24, Lists(start, np.concatenate(lists)), keys, Lists.empty(8))


# Bounds.


@cache
def largest_free(name: str) -> float:
    """The largest norm of an upload that nothing bounds."""
    free = replace(composed(name), privacy=None).algorithm(Task.of(train()))
    return float(norms(free, train()).max())


@pytest.mark.parametrize("name", sorted(COMPOSED))
@pytest.mark.parametrize("clip", [1e-3, 0.5])
def test_no_upload_of_parts_is_above_its_bound(name: str, clip: float) -> None:
    """Of gradients of views, of tables, of perceptrons: all parameters of an upload together."""
    method = composed(name, f"private:epsilon=8,clip={clip}")
    algorithm = method.algorithm(Task.of(train(), PLANNED))
    found = norms(algorithm, train())
    assert found.max() <= clip * (1 + 1e-9)
    assert clip > 1e-3 or found.max() == pytest.approx(clip)  # some are cut
    assert largest_free(name) > 2e-3


@pytest.mark.parametrize("name", [one for one in sorted(COMPOSED) if one != "fedmr and fedrkg"])
def test_no_upload_is_above_an_estimated_bound(name: str) -> None:
    """Upload and bit together, in units of the bound of their round. (The one that is left out
    sends twice in a round, and has two bounds there.)"""
    algorithm = composed(name, "private:epsilon=8,clip=1e-3,quantile=0.5").algorithm(
        Task.of(train(), PLANNED)
    )
    assert algorithm.protection is not None
    found = norms(algorithm, train())
    assert found.max() == pytest.approx(algorithm.protection.bound)
    assert algorithm.protection.bound == pytest.approx((1 / 0.95) ** 0.5)


@pytest.mark.parametrize("name", sorted(CUSTOM))
@pytest.mark.parametrize("view", ["ragged", "repeated"])
def test_no_upload_of_a_custom_method_is_above_its_bound(name: str, view: str) -> None:
    data = train() if view == "ragged" else repeated()
    algorithm = custom(name).algorithm(Task.of(data, PLANNED))
    assert algorithm.protection is not None
    found = norms(algorithm, data)
    assert found.max() <= algorithm.protection.bound * (1 + 1e-9)
    small = custom(name, clip=1e-3).algorithm(Task.of(data, PLANNED))
    assert norms(small, data).max() == pytest.approx(1e-3)


@pytest.mark.parametrize("name", ["fednext ridge", "fednext narrow"])
def test_contributions_are_scaled_to_the_bound_and_not_below(name: str) -> None:
    """A history of one item has no transition; all others bring as much as they may."""
    algorithm = custom(name).algorithm(Task.of(repeated(), PLANNED))
    found = norms(algorithm, repeated(), rounds=1)
    assert found[found > 0] == pytest.approx(1.0)
    assert (found > 0).sum() >= 7


def test_the_first_basis_of_fedspectral_is_orthonormal_under_a_claim() -> None:
    algorithm = custom("fedspectral").algorithm(Task.of(train(), PLANNED))
    basis_ID = LoopEngine(WIDE).start(algorithm, train(), seed=0).shared["basis"]
    assert torch.allclose(basis_ID.T @ basis_ID, torch.eye(6, dtype=WIDE), atol=1e-12)


def test_a_history_by_hand() -> None:
    """Items 1, 1 and 2: x = (0, 2, 1), so x xᵀ / 5 is what a client adds."""
    nothing = torch.zeros(0)
    history = torch.tensor([1, 1, 2])
    known = (torch.tensor(0), history, torch.ones(3), nothing.long(), nothing, nothing)
    received = {"weight": torch.zeros(3, 3)}
    _, upload = FedEase(scale="norm").update(received, {}, ClientData(*known), 1)
    total = torch.zeros(3, 3).index_add(0, history, upload["gram"])
    assert torch.allclose(total * 5, torch.tensor([[0.0, 0, 0], [0, 4, 2], [0, 2, 1]]))
    assert total.norm().item() == pytest.approx(1.0)


# Noise.


def mu_by_hand() -> float:
    """The root of the Gaussian curve by halving, with other functions than the library's."""
    low, high = 1e-3, 100.0
    for _ in range(200):
        mu = (low + high) / 2
        first = normal.cdf(mu / 2 - EPSILON / mu)
        delta = first - np.exp(EPSILON) * normal.cdf(-mu / 2 - EPSILON / mu)
        low, high = (mu, high) if delta < DELTA else (low, mu)
    return low


@pytest.mark.parametrize(
    ("asked", "releases", "times"),
    [
        ({"clip": 1.0}, 1, 1.0),
        ({"clip": 1.0}, 100, 10.0),
        ({"clip": 3.0}, 4, 6.0),
        ({"clip": 1.0, "view": "local"}, 9, 6.0),  # two histories are two bounds apart
        ({"clip": 0.5, "view": "local"}, 1, 1.0),
        ({}, 9, 3 * 0.95**-0.5),  # in units of the bound; a twentieth of the square is the bit's
        ({"clip": 7.0, "quantile": 0.9}, 9, 3 * 0.95**-0.5),
    ],
)
def test_noise_by_hand(asked: dict[str, Any], releases: int, times: float) -> None:
    found = Protection.of(PrivacyRequest(EPSILON, DELTA, **asked), None, releases)
    assert found.noise == pytest.approx(times / mu_by_hand(), rel=1e-9)
    promise = promised(found.links, None, releases, DELTA)
    assert promise is not None
    assert promise.view == asked.get("view", "secure_sum")
    assert promise.epsilon == pytest.approx(EPSILON, rel=1e-9)
    assert promise.delta == DELTA


def totals_of(algorithm: Algorithm, view: TrainView, engine: Any, rounds: int = 2) -> list[Params]:
    """The sums that the server's step sees, round after round."""
    seen: list[Params] = []
    real = type(algorithm).step

    def step(self: Any, server: Any, total: Any, round_number: int) -> Any:
        seen.append({name: np.array(value) for name, value in total.sums.items()})
        return real(self, server, total, round_number)

    watched = type("Watched", (type(algorithm),), {"step": step})
    other = watched(**{one.name: getattr(algorithm, one.name) for one in fields(algorithm)})  # type: ignore[arg-type]
    state = engine.start(other, view, seed=3)
    for _ in range(rounds):
        engine.round(other, view, state, everybody(view), seed=3)
    return seen


@pytest.mark.parametrize("view", ["secure_sum", "local"])
@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("fedmf", CohortEngine(WIDE)),
        ("fedmf", CohortEngine(WIDE, fused="never")),
        ("fedncf", LoopEngine(WIDE)),
        ("fcf_als", CustomEngine(WIDE)),
        ("fednext ridge", CustomEngine(WIDE)),
    ],
)
def test_noise_on_sums_has_the_standard_deviation_that_is_claimed(
    name: str, engine: Any, view: Any
) -> None:
    """The first round's sum, less the same sum without noise."""
    data = split_dataset(ragged(n_users=20, n_items=60), CLEAN).train
    method: Any = METHODS[name].method() if name in METHODS else CUSTOM[name]
    asked = private(method, epsilon=EPSILON, view=view, clip=1.0)
    algorithm = asked.algorithm(Task.of(data, PLANNED))
    assert algorithm.protection is not None
    [noisy] = totals_of(algorithm, data, engine, rounds=1)
    almost = private(method, epsilon=1e8, delta=0.999, view=view, clip=1.0)  # noise of nearly 0
    quiet_algorithm = almost.algorithm(Task.of(data, 1))
    [quiet] = totals_of(quiet_algorithm, data, engine, rounds=1)
    clients = len(everybody(data).user_P) if view == "local" else 1
    claimed = algorithm.protection.noise * clients**0.5
    rest = quiet_algorithm.protection.noise * clients**0.5 / claimed
    assert rest < 0.01
    found = np.concatenate([(noisy[one] - quiet[one]).ravel() for one in noisy])
    assert len(found) > 1900
    assert np.std(found) == pytest.approx(claimed, rel=4 / np.sqrt(len(found)) + rest)
    assert abs(np.mean(found)) < 4 * claimed / np.sqrt(len(found))


def test_every_sum_of_a_run_has_noise_of_its_own() -> None:
    """Of other rounds, parameters, exchanges and seeds."""
    algorithm = composed("fedncf", "private:clip=1").algorithm(Task.of(train(), PLANNED))
    zeros = np.zeros(500)
    drawn = [
        with_noise(algorithm, name, zeros, 5, seed, number, exchange)
        for name in ("items", "mlp.w0")
        for seed in (0, 1)
        for number in (1, 2)
        for exchange in (TRAIN, TABLES)
    ]
    correlated = np.abs(np.corrcoef(drawn) - np.eye(len(drawn)))
    assert correlated.max() < 0.25
    again = with_noise(algorithm, "items", zeros, 5, 0, 1, TRAIN)
    assert np.array_equal(drawn[0], again)


def test_without_planned_releases_nothing_is_trained() -> None:
    algorithm = fedmf(dim=4)
    unplanned = private(algorithm).algorithm(Task.of(train()))
    engine = LoopEngine()
    state = engine.start(unplanned, train(), seed=0)
    with pytest.raises(TacitError, match="nobody has planned how often a user sends"):
        engine.round(unplanned, train(), state, everybody(train()), seed=0)
    assert unplanned.guarantee(1) is None


# All paths.


@pytest.mark.parametrize("name", sorted(COMPOSED))
@pytest.mark.parametrize("view", ["secure_sum", pytest.param("local", marks=pytest.mark.slow)])
def test_loop_blocks_and_kernels_give_the_same_numbers(name: str, view: str) -> None:
    if name == "ifedrec":  # its guide is made between rounds, by no engine
        pytest.skip("a generator learns between rounds")
    for bound in ("clip=0.2", "clip=0.2,quantile=0.7"):
        assert_paths_agree(composed(name, f"private:epsilon=8,view={view},{bound}"), train())


@pytest.mark.parametrize("name", sorted(CUSTOM))
@pytest.mark.parametrize("clip", [None, 0.05])  # its own bound or a quantile; a number
def test_custom_blocks_and_kernels_give_the_same_numbers(name: str, clip: float | None) -> None:
    method = custom(name, clip=clip)
    alone, *others = (
        custom_trace(method, train(), engine)  # type: ignore[arg-type]
        for engine in (
            LoopEngine(WIDE),
            CustomEngine(WIDE, block=1),
            CustomEngine(WIDE, block=5),
            CustomEngine(WIDE),
        )
    )
    for other in others:
        for parameter, value in alone.end.items():
            allowed = 1e-9 * max(1.0, alone.change(parameter))
            assert same_to(value, other.end[parameter], allowed), parameter


def test_ragged_kernels_run_only_where_nothing_is_clipped() -> None:
    task = Task.of(train(), PLANNED)
    paths = {
        (name, clip): CustomEngine().describe(custom(name, clip=clip).algorithm(task))
        for name in CUSTOM
        for clip in (None, 0.5)
    }
    ragged_kernels = {one for one, path in paths.items() if path.kernel == "ragged"}
    written = {name for name in CUSTOM if name.startswith("fednext")} | {"fedease"}
    assert ragged_kernels == {(name, None) for name in written}
    assert paths["fcf_als", None].reason == "each upload is clipped, which ragged kernels cannot do"


# One person, all sums.


def another(view: TrainView, user: int) -> TrainView:
    """The same people, but for one, whose history has other items."""
    item_N = view.positives.item_N.copy()
    own = slice(*view.positives.start_U1[user : user + 2])
    item_N[own] = (item_N[own] + 7) % view.n_items
    return replace(view, positives=Lists(view.positives.start_U1, item_N))


def released(
    algorithm: Algorithm, view: TrainView, engine: Any, patch: pytest.MonkeyPatch
) -> dict[str, dict[str, np.ndarray]]:
    """The sums of one round that get noise, before they get it, by exchange and parameter; in units
    of the bound."""
    seen: dict[str, dict[str, np.ndarray]] = {}

    def watch(
        algorithm: Algorithm,
        name: str,
        total: np.ndarray,
        clients: int,
        seed: int,
        round_number: int,
        exchange: str = TRAIN,
        unit: float = 1.0,
    ) -> np.ndarray:
        seen.setdefault(exchange, {})[name] = np.array(total) / unit
        return with_noise(algorithm, name, total, clients, seed, round_number, exchange, unit)

    patch.setattr(round_module, "with_noise", watch)
    state = engine.start(algorithm, view, seed=3)
    engine.round(algorithm, view, state, everybody(view), seed=3)
    return seen


@pytest.mark.parametrize("name", [*sorted(COMPOSED), *sorted(CUSTOM)])
@pytest.mark.parametrize("bound", ["clip", "quantile"])
def test_one_person_moves_all_sums_together_by_two_bounds_at_most(
    name: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever depends on a history beside its own upload would show here: pools of negatives,
    counts, weights, statistics."""
    if name in COMPOSED:
        asked = "clip=0.01" if bound == "clip" else "clip=0.01,quantile=0.5"
        method: Any = composed(name, f"private:epsilon=8,{asked}")
        engine: Any = CohortEngine(WIDE)
    else:
        method, engine = custom(name, clip=0.01 if bound == "clip" else None), CustomEngine(WIDE)
    algorithm = method.algorithm(Task.of(train(), PLANNED))
    assert algorithm.protection is not None
    ours, theirs = (
        released(algorithm, view, engine, monkeypatch) for view in (train(), another(train(), 4))
    )
    assert ours.keys() == theirs.keys()
    assert bool(ours) == (name != "fedrkg late")  # which sends nothing in its first round
    for exchange, sums in ours.items():
        assert sums.keys() == theirs[exchange].keys()
        square = sum(float(((one - theirs[exchange][key]) ** 2).sum()) for key, one in sums.items())
        assert 0 < square**0.5 <= 2 * algorithm.protection.bound * (1 + 1e-9)
        if bound == "quantile" and len(ours) > 1:
            break  # the second release has the bound that the first one gave


# A bound that is estimated on the way.


def test_the_estimate_finds_the_quantile() -> None:
    """Of norms that stay where they are: uploads of fixed gradients, nearly without noise."""
    data = split_dataset(ragged(n_users=60, n_items=40), CLEAN).train
    still = FcfAls(dim=3, server=Adam(rate=0.0))
    free = norms(still.algorithm(Task.of(data)), data, rounds=1)
    for wanted in (0.2, 0.5, 0.8):
        method = private(still, epsilon=1e8, delta=0.999, quantile=wanted, clip=1e-2)
        algorithm = method.algorithm(Task.of(data, 1))
        assert algorithm.protection is not None
        assert algorithm.protection.noise < 1e-3
        engine = CustomEngine(WIDE)
        state = engine.start(algorithm, data, seed=0)
        for _ in range(80):
            engine.round(algorithm, data, state, everybody(data), seed=0)
        found = algorithm.protection.unit(state.shared)
        assert np.quantile(free, wanted - 0.1) <= found <= np.quantile(free, wanted + 0.1)


def test_upload_and_bit_share_the_budget_that_was_asked_for() -> None:
    """mu² of the upload and mu² of the bit add up to that of a release; T of them to the whole."""
    found = Protection.of(PrivacyRequest(EPSILON, DELTA), None, releases=25)
    assert found.clip is not None
    upload, bit = 1 / found.noise, found.clip.bit_weight / 2 / found.noise
    assert bit**2 / (upload**2 + bit**2) == pytest.approx(0.05)
    assert 25 * (upload**2 + bit**2) == pytest.approx(mu_by_hand() ** 2)


@pytest.mark.parametrize("engine", [LoopEngine(WIDE), CohortEngine(WIDE, fused="never"), None])
def test_the_bits_are_counted_and_noised(engine: Any) -> None:
    """Nine clients that are all beyond the bound; noise as on every other entry."""
    method = composed("fedmf", "private:epsilon=8,clip=1e-6,quantile=0.5")
    algorithm = method.algorithm(Task.of(train(), PLANNED))
    protection = algorithm.protection
    assert protection is not None
    assert protection.clip is not None
    [found] = totals_of(algorithm, train(), engine or CohortEngine(WIDE), rounds=1)
    clients = len(everybody(train()).user_P)
    stream = streams.name_of(f"{TRAIN}:{BOUND}")
    generator = streams.numpy_generator(3, streams.PRIVATE_NOISE, 1, stream)
    noise = protection.noise * generator.standard_normal(())
    assert found[BOUND] == pytest.approx(-clients * protection.clip.bit_weight / 2 + noise)


def test_an_estimated_bound_is_told() -> None:
    """What crosses for it, and its share of the budget, stand where all else does."""
    method = composed("fedmf", "private:epsilon=8")
    algorithm = method.algorithm(Task.of(train(), PLANNED))
    free = replace(method, privacy=None).algorithm(Task.of(train()))
    assert algorithm.floats_up - free.floats_up == 1
    assert algorithm.floats_down - free.floats_down == 2
    told = algorithm.disclosure(lambda: None).sentences()  # type: ignore[arg-type, return-value]
    assert "privacy.bound (1 numbers)" in told[0]
    assert any("one bit; 5 % of the squared budget" in sentence for sentence in told)


def test_a_quantile_where_something_else_bounds_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"no quantile to follow.*privacy\.quantile=none"):
        resolve("fedmf", plugins=["clip", "private:quantile=0.5"])
    with pytest.raises(CompositionError, match=r"bounds uploads by itself.*quantile=none"):
        resolve("fedease", plugins=["private:quantile=0.5"])
    for wrong in ("0", "1", "-0.5"):
        with pytest.raises(TacitError, match=r"quantile is .*between 0 and 1"):
            resolve("fedmf", plugins=[f"private:quantile={wrong}"])


# What is promised of a channel.


class Careless(Clip):
    """A bound that is none, inherited."""

    def factor(self, norm: torch.Tensor) -> torch.Tensor:
        return norm.new_ones(norm.shape)


class Quiet(Gaussian):
    """Noise that is none, inherited."""

    def add_noise(self, total: Any, n_clients: int, generator: Any) -> Any:
        return total


class Stretch(Transform):
    """A link of which nobody says what it does to a bound."""


@pytest.mark.parametrize(
    ("links", "own"),
    [
        ((Gaussian(1.0),), None),
        ((Laplace(1.0),), None),
        ((Clip(1.0), Laplace(1.0)), None),
        ((Clip(1.0), Gaussian(0.0)), None),
        ((Clip(1.0), Gaussian(1e-9)), None),  # an epsilon beyond all bounds
        ((Careless(1.0), Gaussian(1.0)), None),
        ((Clip(1.0), Quiet(1.0)), None),
        ((Clip(1.0), Stretch(), Gaussian(1.0)), None),
        ((Gaussian(1.0), Clip(1.0)), None),
        ((Clip(1.0),), None),
        ((), Bound(2, 1.0)),
    ],
)
def test_nothing_is_promised(links: tuple[Transform, ...], own: Bound | None) -> None:
    assert promised((Dense(), *links), own, releases=1) is None


def test_what_is_promised_is_the_best_that_holds() -> None:
    channel = (Dense(), Clip(3.0), Clip(2.0, order=1), Gaussian(4.0), Laplace(4.0))
    found = promised(channel, None, releases=2)
    assert found is not None
    assert (found.mechanism, found.epsilon) == ("laplace", 2 * 4.0 / 4.0)
    units = promised((Clip(0.1), QuantileClip(0.5, 0.36), GaussianSum(1.0)), None, releases=1)
    assert units is not None
    assert units.bound == pytest.approx(1.25)  # a bound in other units is none here
    found = promised(channel[:-1], None, releases=2)
    assert found is not None
    assert (found.bound, found.sensitivity, found.view) == (2.0, 4.0, "local")
    after = promised((Clip(1.0), GaussianSum(1.0), Stretch()), None, releases=1)
    assert after is not None
    assert (after.view, after.sensitivity) == ("secure_sum", 1.0)
    own = promised((GaussianSum(2.0),), Bound(2, 1.0), releases=50)
    assert own is not None
    assert own.epsilon == pytest.approx(20.6755, abs=5e-5)


def test_a_bound_of_the_channel_is_that_of_the_claim() -> None:
    method = resolve("fedmf", plugins=["clip:bound=0.25", "private"]).method
    algorithm = method.algorithm(Task.of(train(), PLANNED))
    assert algorithm.protection is not None
    assert (algorithm.protection.bound, algorithm.protection.clips) == (0.25, False)
    assert [type(link) for link in algorithm.channel] == [Dense, Clip, GaussianSum]
    careless = replace(private(fedmf()), channel=(Dense(), Careless(0.25)))
    again = careless.algorithm(Task.of(train(), PLANNED))
    assert [type(link) for link in again.channel] == [Dense, Careless, QuantileClip, GaussianSum]
    assert again.guarantee(PLANNED) is not None


# What cannot be claimed.


def test_first_values_cannot_depend_on_data() -> None:
    """What parts see before training: sizes, content, and how often one user sends."""
    assert [field.name for field in fields(Task)] == ["n_users", "n_items", "content", "releases"]


def test_a_generator_does_not_ask_who_touched_an_item() -> None:
    """Its rows depend on the noisy table and on content alone, whatever the histories are."""
    few = np.minimum(train().positives.item_N, 11)  # the last four items are nobody's
    views = [train(), replace(train(), positives=Lists(train().positives.start_U1, few))]
    free = resolve("fedmf", plugins=["ridge"], sets=["backbone.dim=4"]).method

    def made(method: Any, view: TrainView) -> torch.Tensor:
        algorithm = method.algorithm(Task.of(view, PLANNED))
        state = LoopEngine(WIDE).start(algorithm, view, seed=0)
        return ColdServer.of(algorithm, view, seed=0).rows(state, np.arange(5))

    assert not torch.equal(*(made(free, view) for view in views))
    assert torch.equal(*(made(private(free), view) for view in views))


class ReadsEach(FcfAls):
    @property
    def reads(self) -> Any:
        return "each"


class Absorbs(FcfAls):
    def absorb(self, shared: Params, user: torch.Tensor, upload: Params) -> Params:
        return {name: 1000 * value for name, value in upload.items()}


def test_a_server_that_looks_at_single_uploads_is_refused() -> None:
    with pytest.raises(CompositionError, match="reads every single upload"):
        private(ReadsEach()).algorithm(Task(1, 1))
    algorithm = private(Absorbs(dim=3)).algorithm(Task.of(train(), PLANNED))
    for engine in (LoopEngine(), CustomEngine()):
        state = engine.start(algorithm, train(), seed=0)
        with pytest.raises(TacitError, match="`absorb` changes single uploads"):
            engine.round(algorithm, train(), state, everybody(train()), seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_takes_a_claim_or_says_why_not(name: str) -> None:
    taken = {
        *("fedmf", "fcf", "fedavg", "fedncf", "fedneumf", "fedrecon", "pfedrec", "fedrap"),
        *("fcf_als", "feddae", "metamf", "cs_fcf", "cs_fedncf", "fedvbpr", "ipfedrec"),
        *("ifedncf", "mdifffr", "light_mdifffr", "fedease", "fedspectral", "fednext"),
        *("dpals", "fedpop", "fedslim", "fedmix"),
    }
    if name in taken:
        method = resolve(name, plugins=["private"]).method
        assert can_claim(method)
        view = split_dataset(with_content(ragged(n_users=9, n_items=24)), CLEAN).train
        algorithm = method.algorithm(Task.of(view, 3))
        found = algorithm.guarantee(3)
        assert found is not None
        assert found.epsilon == pytest.approx(8.0)
        return
    with pytest.raises(CompositionError, match=r"no field `privacy`|single personal|sends nothing"):
        resolve(name, plugins=["private"])


def test_participation_counts_the_user_who_sends_most() -> None:
    who = Participation(ratio=0.5, dropout=0.3)
    count_U = np.zeros(train().n_users)
    for number in range(1, 8):
        count_U[who.draw(train(), 0, number).user_P] += 1
    plain = composed("fedmf").algorithm(Task.of(train()))
    assert most_releases(plain, who, train(), 0, 7) == count_U.max()
    assert count_U.max() < 7
    both = composed("fedmr and fedrkg").algorithm(Task.of(train()))  # tables are everybody's
    assert most_releases(both, who, train(), 0, 7) == count_U.max() + 7
