"""The visible names of all parts: what TOML calls them, and which class that is.

A part of your own gets its name by `register`; without one a run with it could be trained, and
never be opened again.
"""

from __future__ import annotations

import re
from dataclasses import is_dataclass

from tacit.backbones.dot import DotProduct
from tacit.backbones.head import LinearHead
from tacit.backbones.mlp import SharedMlp
from tacit.backbones.mlp_head import MlpHead
from tacit.backbones.neural_mf import NeuralMf
from tacit.channel.clip import Clip
from tacit.channel.dense import Dense
from tacit.channel.gaussian import Gaussian
from tacit.channel.laplace import Laplace
from tacit.cold.corrected import Corrected
from tacit.cold.diffusion import Diffusion
from tacit.cold.mapping import Mapping
from tacit.cold.nearest import Nearest
from tacit.cold.no_row import NoRow
from tacit.cold.random_rows import RandomRows
from tacit.cold.ridge import Ridge
from tacit.core.method import Method
from tacit.core.optim import OPTIMISERS
from tacit.errors import TacitError
from tacit.items.appended import Appended
from tacit.items.id_only import IdOnly
from tacit.items.mixture import Mixture
from tacit.items.views.attention import AttentionView
from tacit.items.views.gate import GateView
from tacit.items.views.perceptron import PerceptronView
from tacit.items.views.single import SingleView
from tacit.items.views.sum import SumView
from tacit.items.views.true_gate import TrueGateView
from tacit.local.alternate import Alternate
from tacit.local.held import Held
from tacit.local.joint import Joint
from tacit.local.reconstruct import Reconstruct
from tacit.methods.ease import Ease
from tacit.methods.fcf_als import FcfAls
from tacit.methods.feddae import FedDAE
from tacit.methods.fedease import FedEase
from tacit.methods.fedpergnn import FedPerGNN
from tacit.methods.fedspectral import FedSpectral
from tacit.methods.mean_profile import MeanProfile
from tacit.methods.metamf import MetaMF
from tacit.methods.mf import Mf
from tacit.methods.ncf import Ncf
from tacit.methods.neumf import NeuMf
from tacit.methods.popularity import Popularity
from tacit.methods.pure_svd import PureSvd
from tacit.methods.random_order import RandomOrder
from tacit.methods.unseen_first import UnseenFirst
from tacit.objectives.bce import BinaryCrossEntropy
from tacit.objectives.bpr import PairwiseRanking
from tacit.server.beside import TablesBeside
from tacit.server.clusters import ClusterMean
from tacit.server.graph import GraphMean
from tacit.server.mean import Mean
from tacit.server.steps import ServerSteps
from tacit.sync.additive import Additive
from tacit.sync.anchored import Anchored
from tacit.sync.contrast import GroupKept
from tacit.sync.guidance import AdaptiveGuidance
from tacit.sync.isolated import Isolated
from tacit.sync.proximal import Proximal
from tacit.sync.replace import Replace

PARTS: dict[str, type] = {
    "federated": Method,
    "popularity": Popularity,
    "random": RandomOrder,
    "unseen_first": UnseenFirst,
    "ease": Ease,
    "pure_svd": PureSvd,
    "fedspectral": FedSpectral,
    "fedease": FedEase,
    "fcf_als": FcfAls,
    "mf": Mf,
    "ncf": Ncf,
    "neumf": NeuMf,
    "feddae": FedDAE,
    "metamf": MetaMF,
    "mean_profile": MeanProfile,
    "fedpergnn": FedPerGNN,
    "dot": DotProduct,
    "linear_head": LinearHead,
    "shared_mlp": SharedMlp,
    "mlp_head": MlpHead,
    "neural_mf": NeuralMf,
    "id_only": IdOnly,
    "mixture": Mixture,
    "appended": Appended,
    "sum_view": SumView,
    "perceptron_view": PerceptronView,
    "gate_view": GateView,
    "true_gate_view": TrueGateView,
    "attention_view": AttentionView,
    "single_view": SingleView,
    "replace": Replace,
    "isolated": Isolated,
    "guidance": AdaptiveGuidance,
    "additive": Additive,
    "proximal": Proximal,
    "anchored": Anchored,
    "group_kept": GroupKept,
    "joint": Joint,
    "alternate": Alternate,
    "reconstruct": Reconstruct,
    "held": Held,
    **OPTIMISERS,
    "bce": BinaryCrossEntropy,
    "pairwise": PairwiseRanking,
    "dense": Dense,
    "clip": Clip,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "mean": Mean,
    "server_steps": ServerSteps,
    "graph_mean": GraphMean,
    "cluster_mean": ClusterMean,
    "tables_beside": TablesBeside,
    "diffusion": Diffusion,
    "corrected": Corrected,
    "mapping": Mapping,
    "ridge": Ridge,
    "nearest": Nearest,
    "random_rows": RandomRows,
    "no_row": NoRow,
}

PART_NAMES: dict[type, str] = {part: name for name, part in PARTS.items()}


def register(name: str, part: type) -> None:
    """Give a part of your own a name, so that a run with it can be written down and opened again.

    Call it where the class is defined, in every program that trains or opens such runs. A name or
    a class that is taken is refused; the same definition may be registered again, as a notebook
    does when a cell is run twice.

    >>> from dataclasses import dataclass
    >>> from tacit.objectives.bce import BinaryCrossEntropy
    >>> @dataclass(frozen=True)
    ... class DocumentedLoss(BinaryCrossEntropy):
    ...     focus: float = 2.0
    >>> register("documented_loss", DocumentedLoss)
    >>> PARTS["documented_loss"].__name__, PART_NAMES[DocumentedLoss]
    ('DocumentedLoss', 'documented_loss')
    >>> register("bce", DocumentedLoss)
    Traceback (most recent call last):
    tacit.errors.TacitError: A part named 'bce' is there already: BinaryCrossEntropy of \
tacit.objectives.bce; choose another name.
    """
    if not isinstance(part, type) or not is_dataclass(part):
        raise TacitError(
            f"{getattr(part, '__name__', part)!r} is no dataclass, so its settings cannot be "
            "written down; register a class with @dataclass(frozen=True)."
        )
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise TacitError(f"{name!r} is no name for a part; use letters, digits and underscores.")
    before = PARTS.get(name)
    if before is not None and _origin(before) != _origin(part):
        raise TacitError(
            f"A part named {name!r} is there already: {before.__qualname__} of "
            f"{before.__module__}; choose another name."
        )
    taken = PART_NAMES.get(part, name)
    if taken != name:
        raise TacitError(
            f"{part.__qualname__} has the name {taken!r} already; use that one, or register a "
            "class of its own."
        )
    if before is not None:
        del PART_NAMES[before]
    PARTS[name], PART_NAMES[part] = part, name


def _origin(part: type) -> tuple[str, str]:
    return part.__module__, part.__qualname__


def registration(part: type) -> str:
    """The line that registers a class.

    >>> registration(Mean)
    'from tacit.experiment.parts import register; register("mean", Mean)'
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part.__name__).lower()
    return f'from tacit.experiment.parts import register; register("{words}", {part.__name__})'
