"""From unit costs to any size: the tables of `docs/scale.md`, which are multiplication alone.

`python -m lab.scale` measures what stands in `Simulated` and `UnitCosts`; everything here follows
from these numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.privacy.secure_sum.plan import SumPlan, plan_sum

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- scale -->\n", "<!-- /scale -->\n"

# What is measured.


@dataclass(frozen=True)
class Population:
    """Synthetic people with `history` different items each; the number of items is prime."""

    users: int = 1_000_000
    items: int = 100_003
    history: int = 50
    participation: float = 0.01
    rounds: int = 10


@dataclass(frozen=True)
class Simulated:
    """What one process measured of itself. `peak` is the most memory that it ever had, pages of
    files included; `own` is the memory of its own, without files, after the last round."""

    method: str
    on_disk: bool
    population: Population
    engine: str
    participants: int  # of one round
    took_part: int  # in any round
    rows: int  # that they keep
    row_bytes: int
    start_seconds: float  # CPU, of making the people and their first state
    round_seconds: list[float]  # CPU, all threads together
    score_seconds: float  # CPU, for one user over all items
    peak: int
    own: int

    @property
    def later(self) -> float:
        """CPU seconds of a round, the median without the first, which also loads kernels."""
        return float(np.median(self.round_seconds[1:] or self.round_seconds))


@dataclass(frozen=True)
class UnitCosts:
    """CPU seconds: `message` for each upload whatever its length, the others for each number of it.

    `sum_message` is what the four steps of a secure sum cost a server for each client, with
    `sum_degree` neighbours; `mask` is one number of one mask.
    """

    message: float
    check: float
    add: float
    sum_message: float
    sum_degree: int
    sum_receive: float
    mask: float

    def plain(self, uploads: float, length: int) -> float:
        """CPU seconds of a server that decodes, checks and adds."""
        return uploads * (self.message + length * (self.check + self.add))

    def secure(self, plan: SumPlan, length: int) -> float:
        """The same under a secure sum, whose four steps all come through the door."""
        return 4 * plan.clients * self.message + self.summing(plan, length)

    def summing(self, plan: SumPlan, length: int, dropped: float = 0.1) -> float:
        """Of these the sum itself: one mask of each survivor, and all masks of each drop-out."""
        uploads = plan.clients
        masks = (1 - dropped) * uploads + dropped * uploads * plan.degree
        steps = uploads * self.sum_message * plan.degree / self.sum_degree
        return steps + length * ((1 - dropped) * uploads * self.sum_receive + masks * self.mask)


def crowd_plan(clients: int, length: int, *, staying: float = 0.8, noise: float = 0.0) -> SumPlan:
    """A secure sum in which a fifth may drop out, unless another share stays, and a twentieth
    collude."""
    return plan_sum(
        clients=clients,
        fewest=math.ceil(staying * clients),
        colluders=clients // 20,
        bound=1.0,
        length=length,
        noise=noise,
    )


# What follows for one server, silos and trees: multiplication, nothing else.

CLIENTS = tuple(10**power for power in range(3, 9))
TAKING_PART, WIDTH, NUMBER = 0.01, 32, 4  # share in a round, row width, bytes of a number
SILO, FAN_IN = 1_000, 100  # people on one node; children of one aggregator
FLOWER = (0.011, 0.016)  # CPU seconds of one client-round in its simulation, measured elsewhere


@dataclass(frozen=True)
class Row:
    """One round with `uploads` of a population; seconds are CPU seconds of servers."""

    clients: int
    uploads: int
    bytes: float  # both directions
    held: float  # bytes of answers that one server has at once
    seconds: float
    secure_seconds: float | None  # None: too few for a secure sum
    flower_seconds: tuple[float, float]
    levels: int  # of a tree with FAN_IN children
    aggregators: int
    busiest_seconds: float  # of one aggregator
    path_seconds: float  # of all levels, one after another


def row(costs: UnitCosts, clients: int, uploads: int, length: int) -> Row:
    """The arithmetic for one number of uploads.

    >>> costs = UnitCosts(1e-4, 1e-9, 1e-9, 1e-3, 10, 1e-9, 1e-9)
    >>> found = row(costs, 10**6, 10**4, 10**5)
    >>> found.bytes, found.levels, found.aggregators, round(found.seconds, 6)
    (8000000000, 2, 101, 3.0)
    """
    size = length * NUMBER
    below, aggregators, levels = uploads, 0, 0
    while below > 1 or not levels:
        below = math.ceil(below / FAN_IN)
        aggregators, levels = aggregators + below, levels + 1
    children = min(FAN_IN, uploads)
    busiest = costs.plain(children, length)
    return Row(
        clients,
        uploads,
        2 * uploads * size,
        uploads * size,
        costs.plain(uploads, length),
        costs.secure(crowd_plan(uploads, length), length) if uploads >= 3 else None,
        (uploads * FLOWER[0], uploads * FLOWER[1]),
        levels,
        aggregators,
        busiest,
        levels * busiest,
    )


def arithmetic(costs: UnitCosts) -> dict[str, list[Row]]:
    """Two catalogues, each with one person on a node and with silos."""
    found = {}
    for items in (10_000, 100_000):
        for people in (1, SILO):
            found[f"{items:,d} items, {people:,d} on a node"] = [
                row(costs, clients, math.ceil(clients * TAKING_PART / people), items * WIDTH)
                for clients in CLIENTS
            ]
    return found


# The page.


def counted_bytes(value: float) -> str:
    """
    >>> counted_bytes(12_800_000), counted_bytes(2.56e15)
    ('12.8 MB', '2.56 PB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000 or unit == "PB":
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
        value /= 1000
    raise AssertionError


def counted_seconds(value: float) -> str:
    """
    >>> counted_seconds(0.0312), counted_seconds(7300)
    ('31.2 ms', '2.03 h')
    """
    if value < 0.9995:
        return f"{1000 * value:.3g} ms"
    for unit, size in (("s", 1), ("min", 60), ("h", 3600), ("days", 86400)):
        if value < {"s": 120, "min": 7200, "h": 172800}.get(unit, math.inf):
            return f"{value / size:.3g} {unit}"
    raise AssertionError


def page(results: dict[str, Any]) -> str:
    """The tables of `docs/scale.md` from what `scale.json` holds."""
    lines = [
        "| simulated | people | clients in a round | CPU s a round | start, CPU s | rows kept |"
        " peak memory | own memory at the end |",
        "|---|---|---|---|---|---|---|---|",
    ]
    simulated = [
        Simulated(**{**one, "population": Population(**one["population"])})
        for one in results["simulated"]
    ]
    for one in simulated:
        kept = "none" if not one.rows else f"{one.row_bytes / 1e9:.2f} GB of {one.took_part:,d}"
        place = ", rows on disk" if one.on_disk else ""
        lines.append(
            f"| `{one.method}`{place} | {one.population.users:,d} | {one.participants:,d} | "
            f"{one.later:.2f} | {one.start_seconds:.0f} | {kept} | {one.peak / 1e9:.2f} GB | "
            f"{one.own / 1e9:.2f} GB |"
        )
    costs = UnitCosts(**results["costs"])
    lines += [
        "",
        growth(simulated),
        "",
        "| unit cost of a server | CPU |",
        "|---|---|",
        f"| an upload, whatever its length | {1e6 * costs.message:.0f} µs |",
        f"| decode and check a million numbers | {1e9 * costs.check:.2f} ms |",
        f"| add a million numbers | {1e9 * costs.add:.2f} ms |",
        f"| steps of a secure sum with {costs.sum_degree} neighbours, one client | "
        f"{1e6 * costs.sum_message:.0f} µs |",
        f"| receive a masked million | {1e9 * costs.sum_receive:.2f} ms |",
        f"| one mask of a million numbers | {1e9 * costs.mask:.2f} ms |",
    ]
    for name, rows in arithmetic(costs).items():
        lines += [
            "",
            f"**{name}**",
            "",
            "| clients | uploads | bytes both ways | held by one server | server CPU | under a "
            f"secure sum | Flower's simulation | levels of {FAN_IN} | aggregators | CPU of one | "
            "all levels |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for found in rows:
            low, high = (counted_seconds(value) for value in found.flower_seconds)
            masked = found.secure_seconds
            lines.append(
                f"| {found.clients:,d} | {found.uploads:,d} | {counted_bytes(found.bytes)} | "
                f"{counted_bytes(found.held)} | {counted_seconds(found.seconds)} | "
                f"{'too few' if masked is None else counted_seconds(masked)} | {low} to {high} | "
                f"{found.levels} | {found.aggregators:,d} | "
                f"{counted_seconds(found.busiest_seconds)} | "
                f"{counted_seconds(found.path_seconds)} |"
            )
    return "\n".join([*lines, ""])


def growth(simulated: list[Simulated]) -> str:
    """What one more person takes, from two populations, and where 16 GB end."""
    tenth, whole, *tuned = simulated
    more = (whole.peak - tenth.peak) / (whole.population.users - tenth.population.users)
    rows = tuned[0].row_bytes / tuned[0].took_part
    return (
        f"One more person took {more:,.0f} bytes at the peak of `{whole.method}`, so that 16 GB "
        f"would end at {16e9 / more / 1e6:.1f} million people with these histories. One more who "
        f"takes part in `{tuned[0].method}` keeps {rows:,.0f} bytes of rows, and as many in the "
        "copy of the selected round."
    )


def with_tables(text: str, results: dict[str, Any]) -> str:
    """A page with new tables between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{page(results)}\n{END}{rest.split(END)[1]}"
