"""Models that read the content of items, and those that read the graph of users and items too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from tacit.central.embeddings import EmbeddingModel, Known
from tacit.central.graph import BothWays, SparseMatrix
from tacit.core.registry import part_name
from tacit.core.types import CONTENT, Params
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.parts.items import prepared


@dataclass(frozen=True)
class ContentModel(EmbeddingModel[Known]):
    """A model that reads content of items: `modalities` by name. Rows that are missing get the mean
    of those that are there, as the papers do it, or zeros."""

    modalities: tuple[str, ...] = ("text", "image")
    missing: Literal["mean", "zero"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.modalities or len(set(self.modalities)) < len(self.modalities):
            raise TacitError(
                f"modalities are {list(self.modalities)}; name at least one, and each once."
            )
        if self.missing not in ("mean", "zero"):
            raise TacitError(f"missing is {self.missing!r}; use mean or zero.")

    def content(self, train: TrainView) -> dict[str, np.ndarray]:
        """(I, F) for each modality, by the name of its parameter."""
        for name in self.modalities:
            if name not in train.content:
                has = ", ".join(train.content) or "none"
                called = part_name(type(self)) or type(self).__name__
                raise TacitError(
                    f"{called} reads content, and this data has none called {name!r} (it has: "
                    f"{has}); make it with `tacit encode`, or name others with modalities."
                )
        tables = prepared(train.content, self.modalities, self.missing)
        return {CONTENT + name: value_IF for name, value_IF in tables.items()}


# Content beside a graph.


def require_layers(layers: int) -> None:
    """Refuse a graph that nothing goes through.

    >>> require_layers(1)
    """
    if layers < 1:
        raise TacitError(f"layers is {layers}; it must be at least 1.")


@dataclass(frozen=True, eq=False)
class GraphAndContent:
    """The graph of users beside items, and content by the names of its parameters."""

    graph: BothWays | SparseMatrix
    content: Params


KnownGraph = TypeVar("KnownGraph", bound=GraphAndContent)


@dataclass(frozen=True)
class GraphContentModel(ContentModel[KnownGraph]):
    """What such models share. With `train_content` the tables of content are parameters, which
    begin with the content; else they stay what they are."""

    train_content: bool = True

    def given(self, train: TrainView) -> dict[str, np.ndarray]:
        return self.content(train) if self.train_content else {}

    def content_there(self, train: TrainView, dtype: torch.dtype, device: torch.device) -> Params:
        """The content as it came."""
        return {
            name: torch.from_numpy(value_IF).to(device, dtype)
            for name, value_IF in self.content(train).items()
        }

    def content_rows(self, p: Params, known: GraphAndContent, modality: str) -> Tensor:
        """(I, F) the content of all items: what it is by now, where it is trained."""
        name = CONTENT + modality
        return p[name] if self.train_content else known.content[name]
