"""CoFedRec: a personal table that stays; items of one cluster are drawn together in it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.core.registry import register
from tacit.core.types import OWN_ITEMS, Params
from tacit.errors import TacitError
from tacit.parts.sync import PersonalTable

LABEL = "cluster.label"  # one number per item: its cluster from 1, and 0 while there is none
SAMPLE = "cluster.sample"  # the items over which this round's contrast runs; missing: all of them

NORM_FLOOR = 1e-12  # a shorter row is divided by this: the floor of torch's own normalize
_ANCHORS = 64  # at a time: the matrix of all pairs of a sample is never whole


@register("group_kept")
@dataclass(frozen=True)
class GroupKept(PersonalTable):
    """P_u stays, unless the server puts a group's mean in its place; the loss has a contrast term.

    strength · supervised contrast of the sampled items: rows on the unit sphere, the positives of
    an item are the others of its cluster, its negatives all others of the sample. It is 0 while the
    server has sent no labels. `temperature` and `base` are the two temperatures of that loss; their
    ratio multiplies it.

    >>> tables = {"items.own": torch.eye(2), "cluster.label": torch.ones(2)}
    >>> round(GroupKept(strength=1.0).table_penalty(tables).item(), 6)  # one positive, nothing else
    0.0
    """

    strength: float = 0.005
    temperature: float = 0.1
    base: float = 0.5

    rows = "all"
    penalises_tables = True
    needs = (LABEL,)
    made_by = "cluster_mean"

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise TacitError(f"sync.strength is {self.strength}; it must not be negative.")
        for name, value in (("temperature", self.temperature), ("base", self.base)):
            if not value > 0:
                raise TacitError(f"sync.{name} is {value}; it must be positive.")

    @property
    def factor(self) -> float:
        """What the contrast is multiplied by in the loss."""
        return self.strength * self.temperature / self.base

    def table_penalty(self, p: Params) -> Tensor:
        row_SD, label_S = p[OWN_ITEMS], p[LABEL]
        if SAMPLE in p:
            item_S = p[SAMPLE].long()
            row_SD, label_S = row_SD[item_S], label_S[item_S]
        return self.factor * supervised_contrast(row_SD, label_S, self.temperature)


def supervised_contrast(row_SD: Tensor, label_S: Tensor, temperature: float) -> Tensor:
    """Mean over items of −mean over its positives of log softmax(z·z' / τ), itself left out.

    An item without a positive adds 0. The pairs are quadratic in the sample, so their slope is
    written down with their value, some anchors at a time, and no matrix of all pairs is kept.

    >>> rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> value = supervised_contrast(rows, torch.tensor([1.0, 1.0, 2.0]), 1.0)
    >>> round(value.item(), 4)  # two of three items have a positive, each at log(1 + 1 / e)
    0.2088
    """
    unit_SD = torch.nn.functional.normalize(row_SD, dim=-1, eps=NORM_FLOOR)
    z_SD = unit_SD.detach()
    kind_K = torch.arange(1, int(label_S.max()) + 1, device=label_S.device)
    member_SK = (label_S[:, None] == kind_K).to(z_SD)
    others_S = (member_SK @ member_SK.sum(0) - 1).clamp(min=0)
    anchor_S = others_S.clamp(max=1)
    toward_SD = member_SK @ (member_SK.T @ z_SD) - z_SD  # the sum of an item's positives
    toward_SD = toward_SD * (anchor_S / others_S.clamp(min=1))[:, None]
    value = -(z_SD * toward_SD).sum() / temperature
    slope_SD = -2 / temperature * toward_SD
    for begin in range(0, len(label_S), _ANCHORS):
        here = slice(begin, begin + _ANCHORS)
        # cosines are at most 1, so that shift is enough
        share_AS = ((z_SD[here] @ z_SD.T - 1) / temperature).exp()
        share_AS.diagonal(begin).zero_()  # an anchor is not contrasted with itself
        total_A = share_AS.sum(-1).clamp(min=torch.finfo(z_SD.dtype).tiny)
        value = value + (anchor_S[here] * (total_A.log() + 1 / temperature)).sum()
        share_AS = share_AS * (anchor_S[here] / (total_A * temperature))[:, None]
        slope_SD = slope_SD + share_AS.T @ z_SD[here]
        slope_SD[here] += share_AS @ z_SD
    # the value of the term, with its slope
    return (value + ((unit_SD - z_SD) * slope_SD).sum()) / len(label_S)
