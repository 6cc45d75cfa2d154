"""Bi-level fusion (FedMR, FedVLR): operators make views of an item, a private router mixes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from tacit.core.parts import HistoryRows, Routed
from tacit.core.registry import register
from tacit.core.types import CONTENT, Initializer, Params
from tacit.data.dataset import Modalities
from tacit.errors import TacitError
from tacit.parts.items import ID, prepared, width_of
from tacit.parts.views import GateView, PerceptronView, SumView, View, xavier


@register("mixture")
@dataclass(frozen=True)
class Mixture(Routed):
    """Views of an item, mixed by a router.

    `rule`: one weight vector per user from the mean router logit over the user's train items
    (`history`), or one per item (`item`). `router`: each client's own, or one for all (`shared`).
    `added`: the mixture is added to a row of the backbone's own instead of taking its place.
    `without` drops an input after its projection, `noise` puts a fixed draw of the same norm in its
    place, `shuffled` gives every item another item's content. `softmaxes=2` is a quirk of the
    released code. A modality that an item lacks is the mean of those that have it, or zero
    (`missing`). Where views are made (`placement`) changes what travels, not the numbers.

    >>> encoder = Mixture(width=4)
    >>> encoder.row(Initializer((4,))).shape, encoder.view_width(4)
    ((512,), 12)
    """

    views_of: tuple[View, ...] = (SumView(), PerceptronView(), GateView())
    modalities: tuple[str, ...] = ("text", "image")
    width: int = 64
    id_width: int = 512
    id_scale: float = 0.05
    project_id: bool = True
    normalise: bool = False
    router: Literal["private", "shared"] = "private"
    rule: Literal["history", "item"] = "history"
    hidden: int = 64
    softmaxes: Literal[1, 2] = 1
    added: bool = False
    missing: Literal["mean", "zero"] = "mean"
    without: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    shuffled: bool = False
    placement: Literal["client", "server"] = "client"

    @property
    def inputs(self) -> tuple[str, ...]:
        return (ID, *self.modalities)

    @property
    def reads_history(self) -> bool:
        return self.rule == "history" and len(self.views_of) > 1

    @property
    def reads_rows(self) -> bool:
        """Whether anything of an item comes from its row of the table, and not from content."""
        return self.added or any(view.reads in (ID, None) for view in self.views_of)

    @property
    def view_names(self) -> tuple[str, ...]:
        return tuple(view.name for view in self.views_of)

    def filling(self, width: int) -> Mixture:
        return replace(self, added=False, width=width) if self.added else self

    def row(self, read: Initializer) -> Initializer:
        self._check(read.shape[-1])
        own = read.shape[-1] if self.added else 0
        return Initializer((self.id_width + own,), "normal", self.id_scale)

    def view_width(self, width: int) -> int:
        return len(self.views_of) * self.width + (width if self.added else 0)

    def shared(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        sizes = {ID: self.id_width}
        for name in self.modalities:
            sizes[name] = width_of(name, content)
        parameters: dict[str, Initializer] = {}
        for name, size in sizes.items():
            if name != ID or self.project_id:
                parameters[f"project.{name}.w"] = xavier(size, self.width)
                parameters[f"project.{name}.b"] = Initializer((self.width,))
        for view in self.views_of:
            made = view.shared(self.width, self.inputs)
            parameters |= {
                f"view.{view.name}.{parameter}": init for parameter, init in made.items()
            }
        return parameters | self.mixing(width)

    def private(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        return self._router() if self.router == "private" else {}

    def mixing(self, width: int) -> dict[str, Initializer]:
        return self._router() if self.router == "shared" else {}

    def _router(self) -> dict[str, Initializer]:
        count = len(self.views_of)
        if count < 2:
            return {}
        first, second = xavier(count * self.width, self.hidden), xavier(self.hidden, count)
        return {
            "router.in.w": Initializer(first.shape, first.distribution, first.scale, same=True),
            "router.in.b": Initializer((self.hidden,)),
            "router.out.w": Initializer(second.shape, second.distribution, second.scale, same=True),
            "router.out.b": Initializer((count,)),
        }

    def content(self, content: Modalities | None) -> dict[str, np.ndarray]:
        return prepared(
            content, self.modalities, self.missing, noise=self.noise, shuffled=self.shuffled
        )

    def encode(self, p: Params, id_ND: Tensor, history: HistoryRows | None = None) -> Tensor:
        return self.mix(p, self.views(p, id_ND), self.seen(history))

    def projected(self, p: Params, id_ND: Tensor) -> dict[str, Tensor]:
        """Each input of an item at the common width: what the operators read."""
        row_ND = id_ND[..., : self.id_width]
        x = {ID: self._project(p, ID, row_ND) if self.project_id else row_ND}
        for name in self.modalities:
            x[name] = self._project(p, name, p[CONTENT + name])
        for name in self.without:
            x[name] = torch.zeros_like(x[name])
        return x

    def views(self, p: Params, id_ND: Tensor) -> Tensor:
        x = self.projected(p, id_ND)
        made = []
        for view in self.views_of:
            prefix = f"view.{view.name}."
            own = {k.removeprefix(prefix): v for k, v in p.items() if k.startswith(prefix)}
            made.append(self._normal(view.view(own, x)))
        if self.added:
            made.append(id_ND[..., self.id_width :])
        return torch.cat(made, dim=-1)

    def mix(self, p: Params, view_NW: Tensor, history: HistoryRows | None) -> Tensor:
        weight_V = self.weights(p, view_NW, history) if len(self.views_of) > 1 else None
        return self.weighed(view_NW, weight_V)

    def weighed(self, view_NW: Tensor, weight_V: Tensor | None) -> Tensor:
        """The views under given weights; one view alone needs none."""
        count, total = len(self.views_of), len(self.views_of) * self.width
        view_NVD = view_NW[..., :total].unflatten(-1, (count, self.width))
        if weight_V is None:
            mixed_ND = view_NVD[..., 0, :]
        else:
            mixed_ND = (weight_V[..., None] * view_NVD).sum(-2)
        if not self.added:
            return mixed_ND
        own = view_NW[..., total:]
        return own + mixed_ND.repeat(1, own.shape[-1] // self.width)

    def weights(self, p: Params, view_NW: Tensor, history: HistoryRows | None) -> Tensor:
        """The weights of the views: (V,) for a user, or (N, V) under the rule `item`."""
        if self.rule == "item":
            logit = self._route(p, view_NW)
        else:
            assert history is not None
            logit = (history.weight_H[:, None] * self._route(p, history.id_HD)).sum(0)
        weight = torch.softmax(logit, dim=-1)
        return torch.softmax(weight, dim=-1) if self.softmaxes == 2 else weight

    def _route(self, p: Params, view_NW: Tensor) -> Tensor:
        read = view_NW[..., : len(self.views_of) * self.width]
        hidden = torch.relu(read @ p["router.in.w"] + p["router.in.b"])
        return hidden @ p["router.out.w"] + p["router.out.b"]

    def _project(self, p: Params, name: str, value_NF: Tensor) -> Tensor:
        return self._normal(value_NF @ p[f"project.{name}.w"] + p[f"project.{name}.b"])

    def _normal(self, x_ND: Tensor) -> Tensor:
        return layer_norm(x_ND, (self.width,)) if self.normalise else x_ND

    def _check(self, width: int) -> None:
        if self.added and width % self.width:
            raise TacitError(
                f"The mixture is {self.width} wide and is added to rows {width} wide; make the "
                "second a multiple of the first."
            )
        if not self.added and width != self.width:
            raise TacitError(
                f"The mixture is {self.width} wide but the backbone reads {width}; make "
                "items.width and backbone.dim equal."
            )
        if not self.project_id and self.id_width != self.width:
            raise TacitError("An id row that is not projected must be as wide as the mixture.")
        if not self.views_of:
            raise TacitError("A mixture needs at least one view.")
        for name in (*self.without, *self.noise):
            if name not in self.inputs or (name == ID and name in self.noise):
                raise TacitError(
                    f"{name!r} cannot be taken away or replaced here; the inputs are "
                    f"{', '.join(self.inputs)}, and noise is for content."
                )
