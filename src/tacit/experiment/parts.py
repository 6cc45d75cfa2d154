"""The visible names of all parts: what TOML calls them, and which class that is."""

from __future__ import annotations

import re
from dataclasses import is_dataclass

from tacit.core.method import Method
from tacit.core.optim import OPTIMISERS
from tacit.errors import TacitError
from tacit.methods.central_trained import Mf, Ncf, NeuMf
from tacit.methods.closed_forms import Ease, FedEase, FedSpectral, PureSvd
from tacit.methods.controls import MeanProfile, Popularity, RandomOrder, UnseenFirst
from tacit.methods.fcf_als import FcfAls
from tacit.methods.feddae import FedDAE
from tacit.methods.fedpergnn import FedPerGNN
from tacit.methods.metamf import MetaMF
from tacit.parts.backbones import DotProduct, LinearHead, MlpHead, NeuralMf, SharedMlp
from tacit.parts.channel import Clip, Dense, Gaussian, Laplace
from tacit.parts.clusters import ClusterMean
from tacit.parts.cold.diffusion import Corrected, Diffusion
from tacit.parts.cold.mapping import Mapping
from tacit.parts.cold.simple import Nearest, NoRow, RandomRows, Ridge
from tacit.parts.contrast import GroupKept
from tacit.parts.graph import GraphMean
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.items import Appended, IdOnly
from tacit.parts.local import Alternate, Held, Joint, Reconstruct
from tacit.parts.mixture import Mixture
from tacit.parts.objectives import BinaryCrossEntropy, PairwiseRanking
from tacit.parts.server import Mean, ServerSteps, TablesBeside
from tacit.parts.sync import Additive, Anchored, Isolated, Proximal, Replace
from tacit.parts.views import (
    AttentionView,
    GateView,
    PerceptronView,
    SingleView,
    SumView,
    TrueGateView,
)

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
    >>> from tacit.parts.objectives import BinaryCrossEntropy
    >>> @dataclass(frozen=True)
    ... class DocumentedLoss(BinaryCrossEntropy):
    ...     focus: float = 2.0
    >>> register("documented_loss", DocumentedLoss)
    >>> PARTS["documented_loss"].__name__, PART_NAMES[DocumentedLoss]
    ('DocumentedLoss', 'documented_loss')
    >>> register("bce", DocumentedLoss)
    Traceback (most recent call last):
    tacit.errors.TacitError: A part named 'bce' is there already: BinaryCrossEntropy of \
tacit.parts.objectives; choose another name.
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
