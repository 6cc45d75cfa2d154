"""Item encoders over one row: the id alone, or with content appended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.core.parts import HistoryRows, ItemEncoder, Viewed
from tacit.core.registry import register
from tacit.core.types import CONTENT, Initializer, Params
from tacit.data.dataset import FeatureTable, Modalities
from tacit.errors import TacitError
from tacit.parts.views import xavier

# Content tables as an item encoder wants them: gaps filled only in the way it asks for.

ID = "id"  # the input of an item that is no content: its row of the table


def prepared(
    content: Modalities | None,
    names: tuple[str, ...],
    missing: Literal["mean", "zero"],
    *,
    noise: tuple[str, ...] = (),
    shuffled: bool = False,
) -> dict[str, np.ndarray]:
    """One table (I, F) per name; rows that are not there become the mean of those that are, or 0.

    >>> value = np.array([[1.0], [3.0], [0.0]], np.float32)
    >>> table = FeatureTable(value, np.array([True, True, False]))
    >>> prepared(Modalities({"text": table}), ("text",), "mean")["text"].tolist()
    [[1.0], [3.0], [2.0]]
    """
    tables: dict[str, np.ndarray] = {}
    if content is None:
        return tables
    for name in names:
        value_IF = _filled(content[name], missing)
        if name in noise:
            value_IF = _noise_like(value_IF, name)
        if shuffled:
            generator = streams.numpy_generator(
                0, streams.SYNTHETIC, 0, streams.name_of("shuffled")
            )
            value_IF = value_IF[generator.permutation(len(value_IF))]  # all modalities alike
        tables[name] = np.ascontiguousarray(value_IF, dtype=np.float32)
    return tables


def width_of(name: str, content: Modalities | None) -> int:
    """How wide a modality is; 1 where no data has been looked at yet.

    >>> width_of("text", None)
    1
    """
    if content is None:  # no data was looked at yet
        return 1
    if name not in content:
        has = ", ".join(content) or "none"
        raise TacitError(
            f"The data has no content called {name!r} (it has: {has}); name others with "
            "items.modalities or cold.features.modalities, or make it with `tacit encode`."
        )
    return int(content[name].value_IF.shape[1])


def _filled(table: FeatureTable, missing: Literal["mean", "zero"]) -> np.ndarray:
    if missing == "zero" or table.present_I.all() or not table.present_I.any():
        return table.value_IF
    mean_F = table.value_IF[table.present_I].mean(axis=0)
    return np.where(table.present_I[:, None], table.value_IF, mean_F)


def _noise_like(value_IF: np.ndarray, name: str) -> np.ndarray:
    """One fixed draw per item, each of the norm of the row whose place it takes."""
    generator = streams.numpy_generator(0, streams.NOISE, 0, streams.name_of(f"content {name}"))
    drawn_IF = generator.normal(size=value_IF.shape)
    norm_I1 = np.linalg.norm(value_IF, axis=1, keepdims=True)
    return drawn_IF / np.linalg.norm(drawn_IF, axis=1, keepdims=True) * norm_I1


# An item is its row of the table, and nothing more.


@register("id_only")
@dataclass(frozen=True)
class IdOnly(ItemEncoder):
    """The neutral encoder: what the table holds is what the scorer sees.

    >>> import torch
    >>> IdOnly().encode({}, torch.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """

    ground = True


# VBPR's item: the id row with projected content beside it.


@register("appended")
@dataclass(frozen=True)
class Appended(Viewed):
    """x_i = [E_i ; W [text_i ; image_i]], each half of what the backbone reads (He and McAuley).

    `without` drops an input: zeros take its place.

    >>> Appended().row(Initializer((8,), "normal", 0.1)).shape
    (4,)
    """

    modalities: tuple[str, ...] = ("text", "image")
    missing: Literal["mean", "zero"] = "mean"
    placement: Literal["client", "server"] = "client"
    without: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (ID, *self.modalities)

    def row(self, read: Initializer) -> Initializer:
        for name in self.without:
            if name not in self.inputs:
                raise TacitError(
                    f"{name!r} cannot be taken away here; the inputs are {', '.join(self.inputs)}."
                )
        if read.shape[-1] % 2:
            raise TacitError(f"VBPR's items have two halves; backbone.dim is {read.shape[-1]}.")
        return Initializer((read.shape[-1] // 2,), read.distribution, read.scale)

    def view_width(self, width: int) -> int:
        return width

    def shared(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        size = sum(width_of(name, content) for name in self.modalities)
        return {"project.w": xavier(size, width // 2)}

    def content(self, content: Modalities | None) -> dict[str, np.ndarray]:
        return prepared(content, self.modalities, self.missing)

    def projected(self, p: Params, id_ND: Tensor) -> dict[str, Tensor]:
        """Each input of an item as it enters; the content half is the sum of its modalities."""
        x, first = {ID: self._kept(ID, id_ND)}, 0
        for name in self.modalities:
            value_NF = self._kept(name, p[CONTENT + name])
            last = first + value_NF.shape[-1]
            x[name] = value_NF @ p["project.w"][first:last]
            first = last
        return x

    def views(self, p: Params, id_ND: Tensor) -> Tensor:
        parts = [self._kept(name, p[CONTENT + name]) for name in self.modalities]
        content = torch.cat(parts, dim=-1)
        return torch.cat([self._kept(ID, id_ND), content @ p["project.w"]], dim=-1)

    def _kept(self, name: str, value: Tensor) -> Tensor:
        return torch.zeros_like(value) if name in self.without else value

    def mix(self, p: Params, view_NW: Tensor, history: HistoryRows | None) -> Tensor:
        return view_NW

    def encode(self, p: Params, id_ND: Tensor, history: HistoryRows | None = None) -> Tensor:
        return self.mix(p, self.views(p, id_ND), history)
