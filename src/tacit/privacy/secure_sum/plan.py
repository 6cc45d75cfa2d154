"""The plan of a secure sum: public numbers on which all nodes of a round agree beforehand.

`plan_sum` fills in what follows from what was asked: the step, the ring, each device's share of the
noise, the number of neighbours and the number of shares that open a secret.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from tacit.errors import TacitError, shown
from tacit.privacy.fixed_point import Bits, FixedPoint, ring_bits
from tacit.privacy.secure_sum.primitives import generator_from
from tacit.privacy.secure_sum.shamir import Entropy
from tacit.privacy.secure_sum.wire import pack
from tacit.privacy.skellam import MOST_VARIANCE, share_variance, skellam_reach

SESSION_BYTES = 16
WRAPS = 2.0**-40  # the chance that noise makes any number of a sum wrap around
RISK = 1e-6
SWAPS = 10  # per edge, with which a regular graph is shuffled

Graph = Mapping[int, tuple[int, ...]]  # the neighbours of each node, in order


@dataclass(frozen=True)
class SumPlan:
    """One round: who may take part, what is summed, what protects it.

    `clients` may take part, and a sum of fewer than `fewest` is never opened. Up to `colluders` of
    them tell the server all they know. Each has `degree` neighbours, of which `needed` together can
    open a secret. `noise` is the variance of one device's share, in squared steps.
    """

    session: bytes
    round_number: int
    clients: int
    fewest: int
    colluders: int
    degree: int
    needed: int
    bits: int
    noise: float
    code: FixedPoint

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise TacitError(f"A session is named by {SESSION_BYTES} random bytes.")
        if not 0 <= self.round_number < 2**64:
            raise TacitError(f"The round number is {shown(self.round_number)}; count from 0.")
        _require_crowd(self.clients, self.fewest, self.colluders)
        if not 1 <= self.needed <= self.degree < self.clients:
            raise TacitError(
                f"{self.needed} shares of {self.degree} neighbours among {self.clients} clients "
                "is no plan; shares needed <= neighbours < clients must hold."
            )
        if self.needed > self.fewest - 1:
            raise TacitError(
                f"{self.needed} shares are needed, but a round may be left with {self.fewest} "
                "clients, and nobody holds a share of itself; ask for more survivors."
            )
        if not 0 <= self.noise <= MOST_VARIANCE:
            raise TacitError(
                f"A device's share of noise has variance {shown(self.noise)} in steps; take a "
                "larger step, so that it is at most 2**40."
            )
        if self.bits not in (32, 64) or self.bits < ring_bits(self.reach):
            raise TacitError(
                f"A sum of up to {self.reach:.4g} steps does not fit a ring of "
                f"{shown(self.bits)} bits; take 64 bits or a larger step."
            )

    @property
    def reach(self) -> float:
        """The largest absolute value of a number of the sum, in steps. Contributions cannot exceed
        it; noise does, anywhere in the sum, with a chance of less than 2^-40."""
        return _reach(self.code, self.clients, self.noise)

    @property
    def context(self) -> bytes:
        """A hash of the whole plan. It stands in every message, key, box and signature."""
        return hashlib.sha256(b"tacit secure sum, version 1" + pack(self)).digest()

    @property
    def promised_noise(self) -> float:
        """The standard deviation of the noise that honest devices add to the sum at the least, as a
        value: what a guarantee counts on."""
        return self.code.step * math.sqrt(self.noise * (self.fewest - self.colluders))


def plan_sum(
    *,
    clients: int,
    fewest: int,
    colluders: int,
    bound: float,
    length: int,
    noise: float = 0.0,
    step: float | None = None,
    bits: Bits = 32,
    round_number: int = 0,
    session: bytes | None = None,
    risk: float = RISK,
) -> SumPlan:
    """A plan for sums of `length` numbers, each contribution of Euclidean norm at most `bound`.

    `noise` is the wanted standard deviation of the sum, as a value: what remains with the fewest
    survivors, without the colluders' shares. Without `step`, the finest power of two is taken with
    which the sum fits `bits`. Chances of `risk` are accepted that some client's secrets could be
    opened by colluding neighbours, and that a round with `fewest` survivors cannot be opened.

    >>> plan = plan_sum(clients=50, fewest=35, colluders=2, bound=1.0, length=1000, noise=4.0)
    >>> plan.bits, plan.code.step == 2**-20, plan.degree, plan.needed, plan.promised_noise
    (32, True, 16, 3, 4.0)
    """
    _require_crowd(clients, fewest, colluders)
    if not 0 <= noise < math.inf:
        raise TacitError(f"The noise is {shown(noise)}; it must be finite and not below 0.")
    share = share_variance(noise**2, fewest, colluders)
    if step is None:
        step = _finest_step(bound, length, clients, share, bits)
    degree, needed = neighbourhood(clients, fewest, colluders, risk)
    return SumPlan(
        session=secrets.token_bytes(SESSION_BYTES) if session is None else session,
        round_number=round_number,
        clients=clients,
        fewest=fewest,
        colluders=colluders,
        degree=degree,
        needed=needed,
        bits=bits,
        noise=share / step**2,
        code=FixedPoint(bound, step, length),
    )


def _require_crowd(clients: int, fewest: int, colluders: int) -> None:
    if not 2 <= fewest <= clients:
        raise TacitError(
            f"The fewest survivors are {shown(fewest)} of {shown(clients)} clients; a sum hides "
            "somebody among others from 2 on, and not more can survive than take part."
        )
    if not 0 <= colluders <= fewest - 2:
        raise TacitError(
            f"With {shown(colluders)} colluders and as few as {fewest} survivors, no two honest "
            "clients need be left, and the sum hides nobody; ask for more survivors."
        )


def _reach(code: FixedPoint, clients: int, share: float) -> float:
    return clients * code.largest + skellam_reach(clients * share, WRAPS / code.length)


def _finest_step(bound: float, length: int, clients: int, share: float, bits: Bits) -> float:
    """The smallest power of two with which the sum fits the ring, and noise can be drawn."""
    step = 2.0 ** math.ceil(math.log2(bound) - 51)
    while step <= bound:
        variance = share / step**2
        if variance <= MOST_VARIANCE:
            reach = _reach(FixedPoint(bound, step, length), clients, variance)
            if reach < 2.0 ** (bits - 1):
                return step
        step *= 2
    raise TacitError(
        f"No step below the bound {shown(bound)} fits the sum into {bits} bits; noise or crowd "
        "are too large. Take 64 bits, less noise or fewer clients."
    )


# Who is whose neighbour.


def neighbourhood(clients: int, fewest: int, colluders: int, risk: float = RISK) -> tuple[int, int]:
    """How many neighbours each client has, and how many of them open a secret together.

    There are at least 2 log2(clients) neighbours, and so many more that both chances are at most
    `risk`: that any client has `needed` colluders among its neighbours, and that any client has
    fewer than `needed` neighbours left when all but `fewest` drop out, before or after they sent
    their vector. Then every client also has an honest neighbour left, so that nobody's vector is
    without a mask. Drop-outs and colluders are taken to be independent of the graph. One neighbour
    alone opens a secret only where just one other need be left.

    >>> neighbourhood(500, fewest=500, colluders=0)
    (18, 18)
    >>> neighbourhood(500, fewest=350, colluders=25)
    (46, 14)
    """
    others, least = clients - 1, min(2, fewest - 1)
    for degree in range(min(others, math.ceil(2 * math.log2(clients))), clients):
        if degree * clients % 2:
            continue
        count = np.arange(degree + 1)
        corrupt = _chances(others, colluders, degree)
        alive = _chances(others, fewest - 1, degree)
        opened = clients * np.array([corrupt[count >= k].sum() for k in count])
        stuck = clients * np.array([alive[count < k].sum() for k in count])
        fits = count[(count >= least) & (opened <= risk) & (stuck <= risk)]
        if len(fits):
            return degree, int(fits[-1])
    raise TacitError(
        f"No graph over {clients} clients withstands {colluders} colluders when only {fewest} "
        "survive; ask for more survivors, or for fewer colluders."
    )


def _chances(others: int, marked: int, drawn: int) -> np.ndarray:
    """The hypergeometric chances of 0, 1, ... marked ones among those drawn."""
    count = np.arange(drawn + 1)

    def log_choose(total: int, some: np.ndarray) -> np.ndarray:
        inside = (some >= 0) & (some <= total)
        some = np.where(inside, some, 0)
        value = gammaln(total + 1) - gammaln(some + 1) - gammaln(total - some + 1)
        return np.where(inside, value, -np.inf)

    whole = log_choose(others, np.array(drawn))
    return np.exp(log_choose(marked, count) + log_choose(others - marked, drawn - count) - whole)


def draw_graph(nodes: Sequence[int], degree: int, entropy: Entropy) -> dict[int, tuple[int, ...]]:
    """A random connected graph in which every node has `degree` neighbours.

    It begins as a circle in which each node knows the nearest ones, and random pairs of edges swap
    ends. With so few nodes that there is no such graph, each has one neighbour more, or all others.

    >>> graph = draw_graph(range(10), 4, secrets.token_bytes)
    >>> {len(neighbours) for neighbours in graph.values()}, 3 in graph[graph[3][0]]
    ({4}, True)
    """
    count = len(nodes)
    degree += degree * count % 2
    if degree >= count - 1:
        return {node: tuple(sorted(set(nodes) - {node})) for node in nodes}
    generator = generator_from(entropy)
    order = [nodes[place] for place in generator.permutation(count)]
    steps = [*range(1, degree // 2 + 1), *([count // 2] if degree % 2 else [])]
    pairs = {
        frozenset((order[place], order[(place + step) % count]))
        for step in steps
        for place in range(count)
    }
    edges = [tuple(pair) for pair in pairs]
    while True:
        _swap_ends(edges, pairs, generator)
        found: dict[int, set[int]] = {node: set() for node in nodes}
        for one, two in edges:
            found[one].add(two)
            found[two].add(one)
        graph = {node: tuple(sorted(found[node])) for node in nodes}
        if is_connected(graph, nodes):
            return graph


def _swap_ends(
    edges: list[tuple[int, ...]], pairs: set[frozenset[int]], generator: np.random.Generator
) -> None:
    """Random swaps of two edges' ends, which leave the number of neighbours as it is."""
    shape = (SWAPS * len(edges), 2)
    chosen = generator.integers(len(edges), size=shape).tolist()
    turned = generator.integers(2, size=len(chosen)).tolist()
    for (first, second), turn in zip(chosen, turned, strict=True):
        (a, b), (c, d) = edges[first], edges[second]
        if turn:
            c, d = d, c
        new = frozenset((a, d)), frozenset((c, b))
        if len({a, b, c, d}) == 4 and new[0] not in pairs and new[1] not in pairs:
            pairs -= {frozenset((a, b)), frozenset((c, d))}
            pairs |= {*new}
            edges[first], edges[second] = (a, d), (c, b)


def is_connected(graph: Graph, nodes: Iterable[int]) -> bool:
    """Whether those nodes reach each other without the others."""
    left = set(nodes)
    reached = [left.pop()] if left else []
    while reached:
        near = left.intersection(graph[reached.pop()])
        left -= near
        reached.extend(near)
    return not left
