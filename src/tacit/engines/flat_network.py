"""Perceptrons and routers as kernels want them: every client's layers in one flat row, and back.

Only the very classes that kernels were written for have such a form; a subclass has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tacit.core.parts import Backbone
from tacit.core.types import ITEMS, Params
from tacit.engines.state import State
from tacit.parts.backbones import MlpHead, SharedMlp
from tacit.parts.items import Received
from tacit.parts.mixture import Mixture

Layers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # weights and biases, in and out


@dataclass(frozen=True)
class FlatNetwork:
    """Layer by layer weights (in, out) and biases, over the item row; where the scorer has a user
    vector, the half of the first layer that multiplies it stands at the end.

    >>> FlatNetwork.of(MlpHead(dim=3, layers=(2, 1))).widths.tolist()
    [3, 2, 1]
    """

    dim: int
    layers: tuple[int, ...]
    has_user: bool
    is_shared: bool

    @classmethod
    def of(cls, backbone: Backbone) -> FlatNetwork | None:
        """None where the scorer is no perceptron that kernels know."""
        if type(backbone) is SharedMlp:
            return cls(backbone.dim, backbone.layers, True, backbone.scorer == "shared")
        if type(backbone) is MlpHead:
            return cls(backbone.dim, backbone.layers, False, False)
        return None

    @property
    def widths(self) -> np.ndarray:
        return np.array([self.dim, *self.layers], dtype=np.int64)

    def read(self, state: State, user_P: np.ndarray) -> np.ndarray:
        """The networks of some users, one row each; one single row where all share one."""
        leaves = state.shared if self.is_shared else state.private
        names = [f"mlp.{kind}{layer}" for layer in range(len(self.layers)) for kind in "wb"]
        if self.is_shared:
            stacked = {name: leaves[name].numpy()[None] for name in names}
        else:
            users = torch.from_numpy(user_P)
            stacked = {name: leaves[name].index_select(0, users).numpy() for name in names}
        parts = [stacked[name] for name in names]
        if self.has_user:
            parts[0], user_half = parts[0][:, self.dim :], parts[0][:, : self.dim]
            parts.append(user_half)
        rows = len(parts[0])
        return np.concatenate([part.reshape(rows, -1) for part in parts], axis=1)

    def leaves(self, net_PN: np.ndarray) -> dict[str, np.ndarray]:
        """Flat rows as named leaves, stacked.

        >>> flat = FlatNetwork(dim=1, layers=(1,), has_user=True, is_shared=True)
        >>> flat.leaves(np.array([[2.0, 3.0, 4.0]]))["mlp.w0"].tolist()  # the user's half is 4
        [[[4.0], [2.0]]]
        """
        found: dict[str, np.ndarray] = {}
        rows, ins, at = len(net_PN), self.dim, 0
        for layer, outs in enumerate(self.layers):
            found[f"mlp.w{layer}"] = net_PN[:, at : at + ins * outs].reshape(rows, ins, outs)
            at += ins * outs
            found[f"mlp.b{layer}"] = net_PN[:, at : at + outs]
            ins, at = outs, at + outs
        if self.has_user:
            user_half = net_PN[:, at:].reshape(rows, self.dim, -1)
            found["mlp.w0"] = np.concatenate([user_half, found["mlp.w0"]], axis=1)
        return found

    def vectors(self, private: Params, like: np.ndarray) -> np.ndarray:
        """The users' vectors, or an empty row where the scorer has none."""
        return private["user"].numpy() if self.has_user else np.zeros((1, 1), like.dtype)


@dataclass(frozen=True)
class Router:
    """The router of a mixture as kernels want it: one weight per view and reader, from the
    reader's history. A single view has none.

    >>> from tacit.parts.views import SumView
    >>> Router.of(Received(Mixture(views_of=(SumView(),)))).exists
    False
    >>> Router.of(Received(Mixture(rule="item"))) is None
    True
    """

    count: int
    softmaxes: int
    is_private: bool

    @classmethod
    def of(cls, items: object) -> Router | None:
        """None where views are mixed in another way."""
        if type(items) is not Received or type(items.encoder) is not Mixture:
            return None
        mixture = items.encoder
        if mixture.added or (len(mixture.views_of) > 1 and mixture.rule != "history"):
            return None
        return cls(len(mixture.views_of), mixture.softmaxes, mixture.router == "private")

    @property
    def exists(self) -> bool:
        return self.count > 1

    def leaves(self, p: Params, width: int) -> Layers:
        """Both layers where they lie, with an axis of clients: of length 1 where all share one."""
        if not self.exists:
            shapes = ((1, width, 1), (1, 1), (1, 1, 1), (1, 1))
            leaves = [np.zeros(shape, p[ITEMS].numpy().dtype) for shape in shapes]
        else:
            names = ("router.in.w", "router.in.b", "router.out.w", "router.out.b")
            leaves = [
                p[name].numpy() if self.is_private else p[name].numpy()[None] for name in names
            ]
        first, shift, second, offset = leaves
        return first, shift, second, offset
