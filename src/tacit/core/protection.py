"""How a claim of privacy is kept, and what may be promised of a channel as it runs.

A method asks for a guarantee with a `PrivacyRequest`. On a task whose releases are planned this
becomes a `Protection`: the bound on one upload and the noise that goes with it, as links at the end
of the channel. What is promised is then read off the channel again, whoever put its links there, so
that a guarantee speaks of what runs and not of what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tacit.core.algorithm import Bound
from tacit.core.capabilities import defines
from tacit.core.parts import Transform
from tacit.core.registry import part
from tacit.core.types import BOUND, Initializer, Params
from tacit.privacy.accounting import LARGEST, gaussian_epsilon, laplace_epsilon
from tacit.privacy.guarantee import Guarantee, PrivacyRequest, View, sensitivity
from tacit.privacy.skellam import SkellamReleases, composed_epsilon

DELTA = 1e-5  # at which Gaussian noise is told where nobody asked for another
# Where uploads have no bound and nobody asks for one, it follows this quantile of their norms, and
# begins at FIRST. After t estimates its logarithm moves by STEP / sqrt(t) times how far the share
# of uploads within it is from the quantile: it finds norms of another size within a few rounds, and
# settles as rounds go on. All three are ours, set by hand.
QUANTILE, FIRST, STEP = 0.5, 1.0, 2.0


@dataclass(frozen=True)
class Protection:
    """What keeps a claim: each upload is bounded, and noise lies on what the adversary sees.

    `clip` is the link that bounds the Euclidean norm of an upload, all its parameters together;
    None where uploads are bounded before, by `own`. `releases` are the most in which one user takes
    part; None as long as they are not planned.

    >>> found = Protection.of(PrivacyRequest(epsilon=8.0, clip=1.0), own=None, releases=100)
    >>> found.clip, round(found.noise, 4)
    (Clip(bound=1.0, order=2), 6.0023)
    >>> Protection.of(PrivacyRequest(clip=2.0), own=1.0, releases=1).bound
    1.0
    >>> Protection.of(PrivacyRequest(), own=None, releases=1).clip
    QuantileClip(quantile=0.5, share=0.05)
    """

    request: PrivacyRequest
    own: float | None
    clip: Transform | None
    releases: int | None

    @classmethod
    def of(cls, request: PrivacyRequest, own: float | None, releases: int | None) -> Protection:
        """The protection that a request means; `own` is the bound that uploads have already."""
        if request.quantile is not None or (own is None and request.clip is None):
            link = part("quantile_clip")(request.quantile or QUANTILE)
            return cls(request, own, link, releases)
        if own is not None and (request.clip is None or request.clip >= own):
            return cls(request, own, None, releases)
        return cls(request, own, part("clip")(request.clip), releases)

    @property
    def clips(self) -> bool:
        """Whether single uploads are clipped."""
        return self.clip is not None

    @property
    def bound(self) -> float:
        """The largest norm of what one client adds to a sum, in units of an estimated bound."""
        found = self.own if self.clip is None else self.clip.bound
        assert found is not None
        return found

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on every entry of the sum of an exchange, or of each
        upload in the local view; infinite as long as releases are not planned."""
        if self.releases is None:
            return math.inf
        return self.request.noise(self.bound, self.releases)

    @property
    def links(self) -> tuple[Transform, ...]:
        """What it adds to the end of a channel."""
        noise = "gaussian" if self.request.view == "local" else "gaussian_sum"
        clip = () if self.clip is None else (self.clip,)
        return (*clip, part(noise)(self.noise))

    # A bound that is estimated on the way

    @property
    def estimates(self) -> bool:
        """Whether the bound follows a quantile of the norms."""
        return self.clip is not None and self.clip.in_units

    @cached_property
    def shared(self) -> dict[str, Initializer]:
        """What the server holds for it."""
        return {BOUND: Initializer((2,))} if self.estimates else {}

    def unit(self, shared: Mapping[str, Tensor]) -> float:
        """The bound that is estimated now, in whose units norms and noise are; 1 where none is."""
        if not self.estimates:
            return 1.0
        return (self.request.clip or FIRST) * math.exp(float(shared[BOUND][0]))

    def bit(self, factor: Tensor) -> Tensor:
        """What clients send beside their uploads, of which so much passed the clip."""
        assert self.clip is not None
        return self.clip.bit_weight * ((factor >= 1).to(factor) - 0.5)

    def next_bound(self, value: Tensor, total: float, clients: int) -> Tensor:
        """The estimate after one more exchange, from the noisy sum of the bits.

        >>> found = Protection.of(PrivacyRequest(), own=None, releases=1)
        >>> nobody_within = -0.5 * found.clip.bit_weight * 10
        >>> found.next_bound(torch.zeros(2), nobody_within, clients=10).tolist()
        [1.0, 1.0]
        """
        assert self.clip is not None
        within = min(max(total / (self.clip.bit_weight * clients) + 0.5, 0.0), 1.0)
        wanted, count = self.request.quantile or QUANTILE, float(value[1]) + 1.0
        moved = float(value[0]) - STEP / math.sqrt(count) * (within - wanted)
        return torch.tensor([moved, count]).to(value)


def spent_epsilon(
    claim: Protection, noise: Mapping[str, tuple[float, float, float]], uploads: int, hits: int
) -> float:
    """The epsilon of so many masked uploads and sums of hits together, under Skellam noise.

    `noise` has variance and norms (in steps) of one upload ("update") and of one sum of hits
    ("hits"). Server and device both tell what this gives.
    """
    assert claim.releases is not None
    counts = {"update": min(uploads, claim.releases), "hits": hits}
    parts = [SkellamReleases(*known, counts[name]) for name, known in sorted(noise.items())]
    return composed_epsilon(parts, claim.request.delta)


def vouched_bound(link: Transform) -> Bound | None:
    """The bound of a link whose own class wrote the bound and what keeps it; None for all others.

    >>> from tacit.parts.channel import Clip
    >>> class Careless(Clip):
    ...     def factor(self, norm):
    ...         return norm.new_ones(norm.shape)
    >>> vouched_bound(Clip(2.0)), vouched_bound(Careless(2.0)) is None
    (Bound(norm=2, value=2.0, together=False), True)
    """
    if link.order is None or link.bound is None or not defines(link, "factor", "bound", "order"):
        return None
    return Bound(link.order, link.bound)


def promised(
    channel: Sequence[Transform], own: Bound | None, releases: int, delta: float = DELTA
) -> Guarantee | None:
    """What a channel promises to a user who takes part in so many releases; `own` is the bound that
    uploads have before they enter it. None where there is no finite epsilon.

    Gaussian noise needs a bound on the Euclidean norm, which one on the sum of absolute values is,
    too; Laplace noise needs the latter. A link that nobody vouches for undoes the bounds before it,
    and what comes after noise cannot undo the noise.

    >>> from tacit.parts.channel import Clip, Dense, Gaussian, Laplace
    >>> found = promised((Dense(), Clip(1.0), Gaussian(4.0)), None, releases=50)
    >>> found.view, round(found.epsilon, 4)
    ('local', 20.6755)
    >>> promised((Dense(), Clip(1.0), Laplace(4.0)), None, releases=50) is None
    True
    >>> promised((Dense(), Clip(1.0, order=1), Laplace(4.0)), None, releases=10).epsilon
    5.0
    """
    bounds = {} if own is None else {own.norm: own.value}
    found: list[Guarantee | None] = []
    for link in channel:
        bound = vouched_bound(link)
        noise = link.noise if defines(link, "add_noise", "noise") else None
        if bound is not None and link.in_units:  # what was bounded before is in other units
            bounds = {bound.norm: bound.value}
        elif bound is not None:
            bounds[bound.norm] = min(bound.value, bounds.get(bound.norm, math.inf))
        elif noise is not None:
            view: View = "local" if noise.on == "upload" else "secure_sum"
            if noise.mechanism == "laplace":
                found.append(_laplace(view, bounds.get(1), noise.scale, releases))
            else:
                least = min(bounds.values(), default=None)
                found.append(_gaussian(view, least, noise.scale, releases, delta))
        elif not (defines(link, "keeps_bounds") and link.keeps_bounds):
            bounds = {}
    finite = [one for one in found if one is not None]
    return min(finite, key=lambda one: one.epsilon, default=None)


def _gaussian(
    view: View, bound: float | None, noise: float, releases: int, delta: float
) -> Guarantee | None:
    if bound is None or not 0 < noise < math.inf:
        return None
    mu = math.sqrt(releases) * sensitivity(view, bound) / noise
    if gaussian_epsilon(mu, delta) == math.inf:
        return None
    return Guarantee.gaussian(view, bound, noise, releases, delta)


def _laplace(view: View, bound: float | None, noise: float, releases: int) -> Guarantee | None:
    if bound is None or not 0 < noise < math.inf:
        return None
    if laplace_epsilon(sensitivity(view, bound), noise, releases) > LARGEST:
        return None
    return Guarantee.laplace(view, bound, noise, releases)


def row_factor(
    channel: Sequence[Transform],
    change: Params,
    by_row: Set[str],
    history_H: Tensor,
    real_H: Tensor,
    n_items: int,
    unit: float = 1.0,
) -> Tensor:
    """How much of one client's upload passes the clips of a channel, over all its parameters
    together.

    Those in `by_row` hold one row for each entry of the history. Entries that only fill it up count
    for nothing, and rows of an item that stands there twice fall together, as they do in a sum.

    >>> from tacit.parts.channel import Clip
    >>> rows, twice = {"items": torch.tensor([[3.0], [1.0], [9.0]])}, torch.tensor([5, 5, 0])
    >>> real_H = torch.tensor([1.0, 1.0, 0.0])
    >>> row_factor((Clip(2.0),), rows, {"items"}, twice, real_H, 6).item()
    0.5
    """
    whole = {name: value.double() for name, value in change.items()}
    for name in by_row & change.keys():
        row_HE = whole[name].reshape(len(history_H), -1) * real_H[:, None].double()
        table_IE = row_HE.new_zeros(n_items, row_HE.shape[1])
        whole[name] = table_IE.index_add(0, history_H, row_HE)
    factor = real_H.new_ones(()).double()
    for link in channel:
        if link.order is None:
            continue
        sizes = [value.abs() if link.order == 1 else value.square() for value in whole.values()]
        length = torch.stack([size.sum() for size in sizes]).sum()
        norm = factor * (length if link.order == 1 else length.sqrt())
        factor = factor * finite_factor(link, norm / unit if link.in_units else norm)
    return factor


def finite_factor(link: Transform, norm: Tensor) -> Tensor:
    """A link's factor, and 0 where a norm is no finite number.

    >>> from tacit.parts.channel import Clip
    >>> finite_factor(Clip(1.0), torch.tensor([4.0, float("nan"), float("inf")])).tolist()
    [0.25, 0.0, 0.0]
    """
    factor = link.factor(norm)
    return torch.where(torch.isfinite(norm), factor, torch.zeros_like(factor))
