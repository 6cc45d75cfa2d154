"""The scorer of each person as an ONNX file, for applications that run no Python.

A method made of parts gives a function of items: codes (N,) in, logits (N,) out, with the person's
own parameters inside. A method whose logits are sums over a history gives one of the history: codes
(H,) from the earliest to the latest in, logits of all items (I,) out. All others give the logits
that were kept, by item.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import Params
from tacit.engines.scoring import client_parameters
from tacit.errors import TacitError
from tacit.files import said, whole_file
from tacit.node.play import OwnRun
from tacit.node.ranking import LinearScores, Ranking
from tacit.node.runs import SharedModel

if TYPE_CHECKING:
    from tacit.node.device import Node

ITEMS_IN, HISTORY_IN, LOGITS = "item", "history", "logits"
OPSET = 18


class ItemScorer(torch.nn.Module):
    """Logits of some items for one person, by the parts of the method."""

    def __init__(self, algorithm: ComposedAlgorithm, parameters: Params) -> None:
        super().__init__()
        self._algorithm = algorithm
        self._rows = {*algorithm.row_parameters, *algorithm.content}
        self._names = sorted(parameters)
        for place, name in enumerate(self._names):  # names of parameters have dots in them
            self.register_buffer(f"parameter_{place}", parameters[name].clone())

    def forward(self, item_N: Tensor) -> Tensor:
        whole = {
            name: getattr(self, f"parameter_{place}") for place, name in enumerate(self._names)
        }
        asked = {name: v[item_N] if name in self._rows else v for name, v in whole.items()}
        return self._algorithm.logits(asked)


class HistoryScorer(torch.nn.Module):
    """Logits of all items for a history, by the matrix and the weights of ages."""

    def __init__(self, linear: LinearScores) -> None:
        super().__init__()
        self.register_buffer("matrix_II", torch.from_numpy(linear.matrix_II.copy()))
        self.register_buffer("weight_A", torch.from_numpy(linear.weight_A.copy()))

    def forward(self, history_H: Tensor) -> Tensor:
        matrix_II, weight_A = self.get_buffer("matrix_II"), self.get_buffer("weight_A")
        after_H = torch.ones_like(history_H).flip(0).cumsum(0).flip(0) - 1
        age_H = after_H.clamp(max=len(weight_A) - 1)
        return weight_A[age_H] @ matrix_II[history_H]


class KeptScorer(torch.nn.Module):
    """The logits that were kept, by item."""

    def __init__(self, score_I: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("score_I", torch.from_numpy(score_I.copy()))

    def forward(self, item_N: Tensor) -> Tensor:
        return self.get_buffer("score_I")[item_N]


def scorers(node: Node) -> list[tuple[str, torch.nn.Module]]:
    """The name of its input and the scorer, for each person of a node with a delivered model."""
    shared, ranking = SharedModel.read(node.store), Ranking.read(node.store)
    model = None if shared is None else shared.delivered(node.store)
    if shared is None or model is None or ranking is None:
        raise TacitError("This node has no delivered model, so there is no scorer to export.")
    known = (node.catalogue, node.people, node.histories(), node.settings.agreement)
    run = OwnRun.of(model.plan, *known)
    running = run.running(None)
    if ranking.linear is not None:
        return [(HISTORY_IN, HistoryScorer(ranking.linear)) for _ in node.people]
    if running.composition is None:
        return [(ITEMS_IN, KeptScorer(ranking.score_UI[u])) for u in range(len(node.people))]
    state = run.after(model, run.received(shared.shared, running))
    found: list[tuple[str, torch.nn.Module]] = []
    for user in range(len(node.people)):
        own = client_parameters(running.composition, state, user, run.train.history(user))
        found.append((ITEMS_IN, ItemScorer(running.composition, own)))
    return found


def write_scorers(node: Node, folder: Path) -> list[Path]:
    """One ONNX file for each person, by number: names of people may be no names of files."""
    files = []
    for user, (name, scorer) in enumerate(scorers(node)):
        file = folder / f"scorer-{user}.onnx"
        example = torch.arange(min(3, len(node.catalogue)))
        with whole_file(file) as part:
            _write(scorer.eval(), name, example, part)
        files.append(file)
    return files


def _write(scorer: torch.nn.Module, name: str, example: Tensor, file: Path) -> None:
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of the exporter, about itself
            program = torch.onnx.export(
                scorer,
                (example,),
                input_names=[name],
                output_names=[LOGITS],
                dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            program.save(file)
    except ImportError as error:
        raise TacitError(
            f"The scorer needs packages that are not installed ({said(error)}); get them with "
            'pip install "tacit[export]"'
        ) from error
