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
    from tacit.core.registry import register
    from tacit.data.dataset import Dataset, Modalities
    from tacit.data.interactions import Interactions
    from tacit.data.load import load as load_data
    from tacit.data.protocol import CLEAN, Protocol
    from tacit.data.readers.table import from_frame
    from tacit.data.sources import SOURCES, Source
    from tacit.data.split import split_dataset
    from tacit.engines.cohort import CohortEngine
    from tacit.engines.loop import LoopEngine
    from tacit.engines.participation import Participation
    from tacit.evaluation.metrics import metric
    from tacit.evaluation.ranking import rank
    from tacit.experiment.callbacks import Callback, Validation
    from tacit.experiment.evaluate import evaluate
    from tacit.experiment.model import Model, fit, load
    from tacit.experiment.recommend import recommend
    from tacit.experiment.resolve import resolve
    from tacit.experiment.run import run
    from tacit.experiment.spec import Experiment
    from tacit.methods.entry import METHODS, Entry
    from tacit.methods.factorisation import fedmf, fedncf
    from tacit.methods.pfedrec import pfedrec
    from tacit.names import extend
    from tacit.plugins.entry import PLUGINS, Plugin
    from tacit.study.compare import compare
    from tacit.study.sweep import sweep

# Where each name is: a module, or a module and the name that it has there.
WHERE = {
    "CLEAN": "tacit.data.protocol",
    "METHODS": "tacit.methods.entry",
    "PLUGINS": "tacit.plugins.entry",
    "SOURCES": "tacit.data.sources",
    "Callback": "tacit.experiment.callbacks",
    "CohortEngine": "tacit.engines.cohort",
    "Dataset": "tacit.data.dataset",
    "Entry": "tacit.methods.entry",
    "Experiment": "tacit.experiment.spec",
    "Interactions": "tacit.data.interactions",
    "LoopEngine": "tacit.engines.loop",
    "Method": "tacit.core.method",
    "Modalities": "tacit.data.dataset",
    "Model": "tacit.experiment.model",
    "Participation": "tacit.engines.participation",
    "Plugin": "tacit.plugins.entry",
    "Protocol": "tacit.data.protocol",
    "Source": "tacit.data.sources",
    "Validation": "tacit.experiment.callbacks",
    "analyse": "tacit.analysis.analyses",
    "compare": "tacit.study.compare",
    "compose": "tacit.core.compose",
    "evaluate": "tacit.experiment.evaluate",
    "extend": "tacit.names",
    "fedmf": "tacit.methods.factorisation",
    "fedncf": "tacit.methods.factorisation",
    "fit": "tacit.experiment.model",
    "from_frame": "tacit.data.readers.table",
    "load": "tacit.experiment.model",
    "load_data": "tacit.data.load:load",
    "metric": "tacit.evaluation.metrics",
    "pfedrec": "tacit.methods.pfedrec",
    "rank": "tacit.evaluation.ranking",
    "recommend": "tacit.experiment.recommend",
    "register": "tacit.core.registry",
    "resolve": "tacit.experiment.resolve",
    "run": "tacit.experiment.run",
    "split_dataset": "tacit.data.split",
    "sweep": "tacit.study.sweep",
}

__all__ = [
    "CLEAN",
    "METHODS",
    "PLUGINS",
    "SOURCES",
    "Callback",
    "CohortEngine",
    "Dataset",
    "Entry",
    "Experiment",
    "Interactions",
    "LoopEngine",
    "Method",
    "Modalities",
    "Model",
    "Participation",
    "Plugin",
    "Protocol",
    "Source",
    "TacitError",
    "Validation",
    "analyse",
    "compare",
    "compose",
    "evaluate",
    "extend",
    "fedmf",
    "fedncf",
    "fit",
    "from_frame",
    "load",
    "load_data",
    "metric",
    "pfedrec",
    "rank",
    "recommend",
    "register",
    "resolve",
    "run",
    "split_dataset",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("tacit")
    elif name in WHERE:
        module, _, inner = WHERE[name].partition(":")
        value = getattr(import_module(module), inner or name)
    else:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    globals()[name] = value  # found once; the next look does not come here
    return value


def __dir__() -> list[str]:
    return __all__
