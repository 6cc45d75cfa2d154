"""The visible names of all parts: what TOML calls them, and which class that is."""

from __future__ import annotations

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
    "diffusion": Diffusion,
    "corrected": Corrected,
    "mapping": Mapping,
    "ridge": Ridge,
    "nearest": Nearest,
    "random_rows": RandomRows,
    "no_row": NoRow,
}

PART_NAMES: dict[type, str] = {part: name for name, part in PARTS.items()}
