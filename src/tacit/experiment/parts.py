"""The visible names of all parts: what TOML calls them, and which class that is."""

from __future__ import annotations

from tacit.backbones.dot import DotProduct
from tacit.backbones.head import LinearHead
from tacit.backbones.mlp import SharedMlp
from tacit.channel.clip import Clip
from tacit.channel.dense import Dense
from tacit.channel.gaussian import Gaussian
from tacit.channel.laplace import Laplace
from tacit.core.method import Method
from tacit.core.optim import OPTIMISERS
from tacit.items.id_only import IdOnly
from tacit.local.alternate import Alternate
from tacit.local.joint import Joint
from tacit.methods.ease import Ease
from tacit.methods.popularity import Popularity
from tacit.methods.pure_svd import PureSvd
from tacit.methods.random_order import RandomOrder
from tacit.objectives.bce import BinaryCrossEntropy
from tacit.server.mean import Mean
from tacit.sync.isolated import Isolated
from tacit.sync.replace import Replace

PARTS: dict[str, type] = {
    "federated": Method,
    "popularity": Popularity,
    "random": RandomOrder,
    "ease": Ease,
    "pure_svd": PureSvd,
    "dot": DotProduct,
    "linear_head": LinearHead,
    "shared_mlp": SharedMlp,
    "id_only": IdOnly,
    "replace": Replace,
    "isolated": Isolated,
    "joint": Joint,
    "alternate": Alternate,
    **OPTIMISERS,
    "bce": BinaryCrossEntropy,
    "dense": Dense,
    "clip": Clip,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "mean": Mean,
}

PART_NAMES: dict[type, str] = {part: name for name, part in PARTS.items()}
