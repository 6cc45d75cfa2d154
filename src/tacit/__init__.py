"""Federated recommendation: private histories, honest numbers, fast engines.

The public names live here and are imported when first used, so that `import tacit` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.errors import TacitError

__version__: str  # of the installed package, looked up when first asked for

if TYPE_CHECKING:
    from tacit.analysis.analyses import analyse
    from tacit.core.compose import compose
    from tacit.core.method import Method
    from tacit.data.dataset import Dataset, Modalities
    from tacit.data.interactions import Interactions
    from tacit.data.load import load
    from tacit.data.protocol import CLEAN, Protocol
    from tacit.data.readers.table import from_frame
    from tacit.data.split import split_dataset
    from tacit.engines.cohort import CohortEngine
    from tacit.engines.loop import LoopEngine
    from tacit.engines.participation import Participation
    from tacit.evaluation.metrics import metric
    from tacit.evaluation.ranking import rank
    from tacit.experiment.evaluate import evaluate
    from tacit.experiment.recommend import recommend
    from tacit.experiment.resolve import resolve
    from tacit.experiment.run import run
    from tacit.experiment.spec import Experiment
    from tacit.methods import METHODS
    from tacit.methods.factorisation import fedmf, fedncf
    from tacit.methods.pfedrec import pfedrec
    from tacit.study.compare import compare
    from tacit.study.sweep import sweep

WHERE = {
    "CLEAN": "tacit.data.protocol",
    "METHODS": "tacit.methods",
    "CohortEngine": "tacit.engines.cohort",
    "Dataset": "tacit.data.dataset",
    "Experiment": "tacit.experiment.spec",
    "Interactions": "tacit.data.interactions",
    "LoopEngine": "tacit.engines.loop",
    "Method": "tacit.core.method",
    "Modalities": "tacit.data.dataset",
    "Participation": "tacit.engines.participation",
    "Protocol": "tacit.data.protocol",
    "analyse": "tacit.analysis.analyses",
    "compare": "tacit.study.compare",
    "compose": "tacit.core.compose",
    "evaluate": "tacit.experiment.evaluate",
    "fedmf": "tacit.methods.factorisation",
    "fedncf": "tacit.methods.factorisation",
    "from_frame": "tacit.data.readers.table",
    "load": "tacit.data.load",
    "metric": "tacit.evaluation.metrics",
    "pfedrec": "tacit.methods.pfedrec",
    "rank": "tacit.evaluation.ranking",
    "recommend": "tacit.experiment.recommend",
    "resolve": "tacit.experiment.resolve",
    "run": "tacit.experiment.run",
    "split_dataset": "tacit.data.split",
    "sweep": "tacit.study.sweep",
}

__all__ = [
    "CLEAN",
    "METHODS",
    "CohortEngine",
    "Dataset",
    "Experiment",
    "Interactions",
    "LoopEngine",
    "Method",
    "Modalities",
    "Participation",
    "Protocol",
    "TacitError",
    "analyse",
    "compare",
    "compose",
    "evaluate",
    "fedmf",
    "fedncf",
    "from_frame",
    "load",
    "metric",
    "pfedrec",
    "rank",
    "recommend",
    "resolve",
    "run",
    "split_dataset",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("tacit")
    elif name in WHERE:
        value = getattr(import_module(WHERE[name]), name)
    else:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    globals()[name] = value  # found once; the next look does not come here
    return value


def __dir__() -> list[str]:
    return __all__
