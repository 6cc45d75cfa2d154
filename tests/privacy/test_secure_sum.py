"""Whole rounds: sums are exact, drop-outs are survived or refused, and uploads look like noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import chdtrc

from tacit.errors import TacitError
from tacit.privacy.fixed_point import into_ring
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.secure_sum.client import SumClient, pair_label, pair_sign, self_mask_key
from tacit.privacy.secure_sum.messages import MaskedUpload
from tacit.privacy.secure_sum.plan import (
    SumPlan,
    draw_graph,
    is_connected,
    neighbourhood,
    plan_sum,
)
from tacit.privacy.secure_sum.primitives import NodeKey, add_mask
from tacit.privacy.secure_sum.server import SumServer
from tacit.privacy.secure_sum.simulation import seeded_entropy, simulate_round


def vectors(length: int) -> Callable[[int], np.ndarray]:
    """A vector of each node's own, some of them longer than the bound of 1."""
    return lambda node: np.random.default_rng(node).normal(0, 1.2 / math.sqrt(length), length)


def assert_exact(plan: SumPlan, vector: Callable[[int], np.ndarray], **leaving: object) -> None:
    """The sum in steps is the sum of the survivors' encoded vectors, to the last bit."""
    played = simulate_round(plan, vector, entropy=seeded_entropy(plan.clients), **leaving)
    gone = {
        node for name, nodes in leaving.items() if name != "leave_after_masking" for node in nodes
    }
    survivors = tuple(node for node in range(plan.clients) if node not in gone)
    assert played.result.survivors == survivors
    wanted = np.zeros(plan.code.length, dtype=np.int64)
    for node in survivors:
        wanted += plan.code.encode(vector(node))
    assert (played.result.units_N == wanted).all()
    assert (played.result.value_N == wanted * plan.code.step).all()
    assert not played.refused


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("clients", "fewest"), [(2, 2), (3, 2), (5, 3), (16, 11)])
def test_sums_are_exact_without_drop_outs(clients: int, fewest: int, bits: int) -> None:
    plan = plan_sum(
        clients=clients,
        fewest=fewest,
        colluders=0,
        bound=1.0,
        length=33,
        bits=bits,
    )
    assert plan.reach < 2.0 ** (bits - 1) <= 4 * plan.reach or plan.code.l2 > 2.0**50
    assert_exact(plan, vectors(33))


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_exact_with_drop_outs_in_every_step(seed: int) -> None:
    """Twelve of forty leave: before their keys, before shares, before and after their vectors."""
    plan = plan_sum(clients=40, fewest=28, colluders=2, bound=1.0, length=50)
    leaving = np.random.default_rng(seed).permutation(40)[:12].tolist()
    assert_exact(
        plan,
        vectors(50),
        absent=leaving[:2],
        leave_before_sharing=leaving[2:5],
        leave_before_masking=leaving[5:9],
        leave_after_masking=leaving[9:],
    )


def test_five_hundred_clients() -> None:
    """With few neighbours, since here it is about the sum; the plan's own choice is slower."""
    plan = plan_sum(clients=500, fewest=350, colluders=0, bound=1.0, length=20)
    plan = replace(plan, degree=6, needed=2)
    assert_exact(
        plan, vectors(20), leave_before_masking=range(30), leave_after_masking=range(30, 50)
    )


@pytest.mark.slow
@pytest.mark.parametrize("gone", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("clients", [100, 500])
def test_sums_are_exact_for_the_plans_own_neighbours(clients: int, gone: float) -> None:
    fewest, colluders = math.ceil(0.7 * clients), clients // 50
    plan = plan_sum(clients=clients, fewest=fewest, colluders=colluders, bound=1.0, length=20)
    leaving = np.random.default_rng(1).permutation(clients)[: int(clients * gone)].tolist()
    half = len(leaving) // 2
    assert_exact(
        plan, vectors(20), leave_before_masking=leaving[:half], leave_after_masking=leaving[half:]
    )


def test_a_million_numbers() -> None:
    plan = plan_sum(clients=4, fewest=3, colluders=1, bound=1.0, length=10**6)
    assert_exact(plan, vectors(10**6), leave_before_masking=[2])


@pytest.mark.slow
def test_a_million_numbers_of_five_hundred_clients() -> None:
    """At the plan's own number of neighbours, with 25 colluders allowed for."""
    plan = plan_sum(clients=500, fewest=350, colluders=25, bound=1.0, length=10**6)
    assert (plan.degree, plan.needed) == (46, 14)
    leaving = np.random.default_rng(0).permutation(500)[:150].tolist()
    pattern = np.random.default_rng(1).normal(0, 1e-3, 10**6)

    def vector(node: int) -> np.ndarray:
        return np.roll(pattern, node) * (node % 7)

    assert_exact(
        plan, vector, leave_before_masking=leaving[:100], leave_after_masking=leaving[100:]
    )


def test_the_last_round_of_a_crowd_at_its_limits_does_not_wrap() -> None:
    """Everybody sends the same largest number, where the ring has just room for it."""
    plan = plan_sum(clients=20, fewest=14, colluders=0, bound=3.0, length=2)
    for sign in (1.0, -1.0):
        played = simulate_round(plan, lambda node, s=sign: np.array([3.0 * s, 0.0]))
        assert played.result.value_N.tolist() == [60.0 * sign, 0.0]
    with pytest.raises(TacitError, match="does not fit a ring of 32 bits"):
        replace(plan, code=replace(plan.code, step=plan.code.step / 4))


# Too few.


@pytest.mark.parametrize(
    ("leaving", "said"),
    [
        ("absent", "Only 6 of 10 clients sent keys"),
        ("leave_before_sharing", "Only 6 of 10 clients sent shares"),
        ("leave_before_masking", "Only 6 of 10 clients sent vectors"),
    ],
)
def test_below_the_threshold_a_round_stops(leaving: str, said: str) -> None:
    plan = plan_sum(clients=10, fewest=7, colluders=1, bound=1.0, length=4)
    with pytest.raises(TacitError, match=f"{said}.*at least 7; the round stops here and nothing"):
        simulate_round(plan, vectors(4), **{leaving: [1, 3, 5, 7]})
    assert simulate_round(plan, vectors(4), **{leaving: [1, 3, 5]}).result.survivors


def test_too_few_answers_at_the_end_open_nothing() -> None:
    plan = plan_sum(clients=10, fewest=7, colluders=1, bound=1.0, length=4)
    with pytest.raises(TacitError, match=r"Only \d neighbours revealed.*nothing is opened"):
        simulate_round(plan, vectors(4), leave_after_masking=range(8))


# What an upload looks like.


def uniformity(data: bytes) -> float:
    """How likely bytes that are uniform would look less so."""
    found = np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)
    expected = len(data) / 256
    return float(chdtrc(255, ((found - expected) ** 2 / expected).sum()))


def played_upload(bits: int, noise: float) -> tuple[SumPlan, list[SumClient], MaskedUpload]:
    plan = plan_sum(
        clients=6,
        fewest=5,
        colluders=1,
        bound=1.0,
        length=40_000,
        noise=noise,
        bits=bits,
    )
    keys = [NodeKey(node, bytes([node] * 32)) for node in range(6)]
    directory = {key.node: key.public for key in keys}
    clients = [SumClient(plan, key, directory, seeded_entropy(key.node)) for key in keys]
    server = SumServer(plan, directory, seeded_entropy(9))
    for client in clients:
        assert server.receive(client.advertise()) is None
    for node, given in server.neighbourhoods().items():
        assert server.receive(clients[node].share(given)) is None
    return plan, clients, clients[2].mask(server.deliveries()[2], vectors(40_000)(2))


@pytest.mark.parametrize("noise", [0.0, 3.0])
@pytest.mark.parametrize("bits", [32, 64])
def test_a_masked_upload_is_uniform_and_an_unmasked_one_is_not(bits: int, noise: float) -> None:
    plan, _, upload = played_upload(bits, noise)
    assert 1e-4 < uniformity(upload.payload) < 1 - 1e-4
    plain = into_ring(plan.code.encode(vectors(40_000)(2)), bits)
    assert uniformity(plain.tobytes()) < 1e-12


def test_each_kind_of_mask_hides_alone() -> None:
    """Who learns the seed, or the pairwise key, still sees nothing; with both, all."""
    plan, clients, upload = played_upload(32, 0.0)
    context, client = plan.context, clients[2]
    without_seed = np.frombuffer(upload.payload, dtype="<u4").copy()
    add_mask(without_seed, self_mask_key(client._seed, context, 2), -1)
    assert 1e-4 < uniformity(without_seed.tobytes()) < 1 - 1e-4
    without_pairs = np.frombuffer(upload.payload, dtype="<u4").copy()
    for total in (without_pairs, without_seed):
        for other, given in client._neighbours.items():
            label = pair_label(b"mask", 2, other)
            key = client._mask_key.agree(given.mask_public, context, label)
            add_mask(total, key, -pair_sign(2, other))
    assert 1e-4 < uniformity(without_pairs.tobytes()) < 1 - 1e-4
    assert (without_seed == into_ring(plan.code.encode(vectors(40_000)(2)), 32)).all()


# Noise of many.


def test_noise_is_that_of_all_survivors_and_promised_for_the_fewest() -> None:
    plan = plan_sum(
        clients=12, fewest=8, colluders=2, bound=1.0, length=20_000, noise=3.0, step=2.0**-6
    )
    assert plan.promised_noise == pytest.approx(3.0)
    share = plan.noise * plan.code.step**2
    assert share == pytest.approx(9.0 / 6)
    for gone, entropy in (((), 1), ((3, 4, 9, 11), 2)):
        played = simulate_round(
            plan,
            lambda _: np.zeros(20_000),
            leave_before_masking=gone,
            entropy=seeded_entropy(entropy),
        )
        survivors = 12 - len(gone)
        assert played.result.value_N.var() == pytest.approx(survivors * share, rel=0.05)
        assert abs(played.result.value_N.mean()) < 0.15
        # without the shares that colluders know, still what was promised
        assert (survivors - 2) * share >= plan.promised_noise**2 * (1 - 1e-12)
    stated = Guarantee.skellam("secure_sum", plan.code, plan.promised_noise, 1, 1e-5)
    assert 0 < stated.epsilon < 2


# The graph.


@pytest.mark.parametrize(
    ("count", "degree"), [(2, 1), (3, 2), (6, 3), (7, 3), (7, 6), (9, 4), (30, 11), (100, 14)]
)
def test_a_graph_is_regular_symmetric_and_connected(count: int, degree: int) -> None:
    nodes = [7 * node + 3 for node in range(count)]
    for seed in range(5):
        graph = draw_graph(nodes, degree, seeded_entropy(seed))
        assert sorted(graph) == nodes
        wanted = min(degree + degree * count % 2, count - 1)
        for node, near in graph.items():
            assert len(set(near)) == len(near) == wanted
            assert list(near) == sorted(near)
            assert node not in near
            assert all(node in graph[other] for other in near)
        assert is_connected(graph, nodes)


def test_every_pair_is_equally_likely_to_meet() -> None:
    count, degree, draws = 12, 4, 300
    met = np.zeros((count, count))
    for seed in range(draws):
        for node, near in draw_graph(range(count), degree, seeded_entropy(seed)).items():
            met[node, list(near)] += 1
    found = met[np.triu_indices(count, 1)]
    expected = draws * degree / (count - 1)
    assert chdtrc(len(found) - 1, ((found - expected) ** 2 / expected).sum()) > 1e-4


def test_neighbours_grow_with_the_logarithm_of_the_crowd() -> None:
    found = {n: neighbourhood(n, math.ceil(0.9 * n), n // 100)[0] for n in (100, 1000, 10_000)}
    assert 2 * math.log2(100) <= found[100] < found[1000] < found[10_000] < 2 * found[100]
    assert neighbourhood(10_000, 10_000, 0)[0] == math.ceil(2 * math.log2(10_000))


def test_the_risks_of_a_neighbourhood_are_what_was_asked_for() -> None:
    count, fewest, colluders, risk = 40, 28, 4, 0.05
    degree, needed = neighbourhood(count, fewest, colluders, risk)
    generator = np.random.default_rng(0)
    opened = stuck = 0
    for seed in range(60):
        graph = draw_graph(range(count), degree, seeded_entropy(seed))
        order = generator.permutation(count).tolist()
        bad, alive = set(order[:colluders]), set(generator.permutation(count)[:fewest].tolist())
        opened += any(len(bad.intersection(near)) >= needed for near in graph.values())
        stuck += any(len(alive.intersection(near)) < needed for near in graph.values())
    assert opened <= 60 * risk + 6  # chances are bounded; six more is over three deviations
    assert stuck <= 60 * risk + 6
    smaller = neighbourhood(count, fewest, colluders, 1e-6)
    assert smaller[0] > degree


@pytest.mark.parametrize(
    ("count", "fewest", "colluders"), [(50, 35, 2), (100, 90, 10), (500, 350, 25), (1000, 700, 0)]
)
def test_the_chances_of_a_neighbourhood_add_up(count: int, fewest: int, colluders: int) -> None:
    """Both chances, from binomial coefficients, and that fewer neighbours would not do."""

    def chance(marked: int, degree: int, inside: range) -> float:
        ways = sum(math.comb(marked, k) * math.comb(count - 1 - marked, degree - k) for k in inside)
        return count * ways / math.comb(count - 1, degree)

    def fits(degree: int, needed: int) -> bool:
        opened = chance(colluders, degree, range(needed, degree + 1))
        stuck = chance(fewest - 1, degree, range(needed))
        return opened <= 1e-6 and stuck <= 1e-6

    degree, needed = neighbourhood(count, fewest, colluders)
    assert fits(degree, needed)
    assert not fits(degree, needed + 1)
    if degree > math.ceil(2 * math.log2(count)):
        assert not any(fits(degree - 1 - count % 2, few) for few in range(2, degree))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"fewest": 1}, "fewest survivors are 1"),
        ({"fewest": 11}, "fewest survivors are 11 of 10"),
        ({"colluders": 6}, "With 6 colluders"),
        ({"colluders": -1}, "With -1 colluders"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"noise": 1e30}, "No step below the bound"),
        ({"step": 0.3}, "power of two"),
        ({"step": 2.0**-40}, "does not fit a ring"),
        ({"step": 2.0**-30, "noise": 1.0, "bits": 64}, "at most 2\\*\\*40"),
        ({"session": b"short"}, "16 random bytes"),
        ({"round_number": -1}, "count from 0"),
    ],
)
def test_plans_that_cannot_be_kept(asked: dict[str, object], said: str) -> None:
    usual = {"clients": 10, "fewest": 7, "colluders": 1, "bound": 1.0, "length": 4}
    with pytest.raises(TacitError, match=said):
        plan_sum(**{**usual, **asked})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"needed": 8, "degree": 7}, "shares needed <= neighbours"),
        ({"degree": 10}, "neighbours < clients"),
        ({"needed": 7, "degree": 9}, "nobody holds a share of itself"),
        ({"bits": 33}, "ring of 33 bits"),
    ],
)
def test_plans_by_hand_are_checked(changed: dict[str, int], said: str) -> None:
    plan = plan_sum(clients=10, fewest=7, colluders=1, bound=1.0, length=4)
    with pytest.raises(TacitError, match=said):
        replace(plan, **changed)


def test_the_finest_step_fits_and_half_of_it_does_not() -> None:
    for noise in (0.0, 0.5, 100.0):
        plan = plan_sum(clients=30, fewest=20, colluders=2, bound=0.7, length=99, noise=noise)
        with pytest.raises(TacitError, match=r"ring of 32 bits|at most 2\*\*40"):
            plan_sum(
                clients=30,
                fewest=20,
                colluders=2,
                bound=0.7,
                length=99,
                noise=noise,
                step=plan.code.step / 2,
            )
