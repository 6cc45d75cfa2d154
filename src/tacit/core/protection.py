"""How a claim of privacy is kept, and what may be promised of a channel as it runs.

A method asks for a guarantee with a `PrivacyRequest`. On a task whose releases are planned this
becomes a `Protection`: the bound on one upload and the noise that goes with it, as links at the end
of the channel. What is promised is then read off the channel again, whoever put its links there, so
that a guarantee speaks of what runs and not of what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from torch import Tensor

from tacit.core.algorithm import Bound
from tacit.core.capabilities import defines
from tacit.core.parts import Transform
from tacit.core.registry import part
from tacit.core.types import Params
from tacit.privacy.accounting import LARGEST, gaussian_epsilon, laplace_epsilon
from tacit.privacy.guarantee import Guarantee, PrivacyRequest, View, sensitivity

CLIP = 1.0  # the bound on uploads where neither the request nor the method names one
DELTA = 1e-5  # at which Gaussian noise is told where nobody asked for another


@dataclass(frozen=True)
class Protection:
    """What keeps a claim: each upload is bounded, and noise lies on what the adversary sees.

    `bound` is the largest Euclidean norm of one upload, all its parameters together; with `clips`
    uploads are clipped to it, else the method bounds them by itself. `releases` are the most in
    which one user takes part; None as long as they are not planned.

    >>> found = Protection.of(PrivacyRequest(epsilon=8.0), own=None, releases=100)
    >>> found.bound, found.clips, round(found.noise, 4)
    (1.0, True, 6.0023)
    >>> Protection.of(PrivacyRequest(clip=2.0), own=1.0, releases=1).bound
    1.0
    """

    request: PrivacyRequest
    bound: float
    clips: bool
    releases: int | None

    @classmethod
    def of(cls, request: PrivacyRequest, own: float | None, releases: int | None) -> Protection:
        """The protection that a request means; `own` is the bound that uploads have already."""
        if own is not None and (request.clip is None or request.clip >= own):
            return cls(request, own, False, releases)
        return cls(request, CLIP if request.clip is None else request.clip, True, releases)

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
        clip = (part("clip")(self.bound),) if self.clips else ()
        return (*clip, part(noise)(self.noise))


def vouched_bound(link: Transform) -> Bound | None:
    """The bound of a link whose own class wrote the bound and what keeps it; None for all others.

    >>> from tacit.parts.channel import Clip
    >>> class Careless(Clip):
    ...     def factor(self, norm):
    ...         return norm.new_ones(norm.shape)
    >>> vouched_bound(Clip(2.0)), vouched_bound(Careless(2.0)) is None
    (Bound(norm=2, value=2.0), True)
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
        if bound is not None:
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


def clipped_rows(
    channel: Sequence[Transform],
    change: Params,
    by_row: Set[str],
    history_H: Tensor,
    real_H: Tensor,
    n_items: int,
) -> Params:
    """One client's upload after the clips of a channel, over all its parameters together.

    Those in `by_row` hold one row for each entry of the history. Entries that only fill it up count
    for nothing, and rows of an item that stands there twice fall together, as they do in a sum.

    >>> import torch
    >>> from tacit.parts.channel import Clip
    >>> rows, twice = {"items": torch.tensor([[3.0], [1.0], [9.0]])}, torch.tensor([5, 5, 0])
    >>> real_H = torch.tensor([1.0, 1.0, 0.0])
    >>> clipped_rows((Clip(2.0),), rows, {"items"}, twice, real_H, 6)["items"].flatten().tolist()
    [1.5, 0.5, 4.5]
    """
    clips = [link for link in channel if link.order is not None]
    if not clips or not change:
        return change
    whole = {name: value.double() for name, value in change.items()}
    for name in by_row & change.keys():
        row_HE = whole[name].reshape(len(history_H), -1) * real_H[:, None].double()
        table_IE = row_HE.new_zeros(n_items, row_HE.shape[1])
        whole[name] = table_IE.index_add(0, history_H, row_HE)
    factor = real_H.new_ones(()).double()
    for link in clips:
        parts = [(factor * value).abs() for value in whole.values()]
        if link.order == 1:
            norm = sum((value.sum() for value in parts[1:]), parts[0].sum())
        else:
            squares = [value.square().sum() for value in parts]
            norm = sum(squares[1:], squares[0]).sqrt()
        factor = factor * link.factor(norm)
    return {name: (factor * value.double()).to(value) for name, value in change.items()}
