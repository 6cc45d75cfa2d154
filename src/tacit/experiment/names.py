"""Folder names that say what lies in them."""

from __future__ import annotations

import re
from pathlib import Path

from tacit.experiment.plugins import parse
from tacit.experiment.spec import Experiment


def slug(text: str) -> str:
    """A text as a folder name: letters, digits and a few signs.

    >>> slug("fedmf + clip:bound=1")
    'fedmf+clip_bound=1'
    """
    kept = re.sub(r"[^A-Za-z0-9._+=-]+", "_", text.replace(" + ", "+"))
    return kept.strip("._") or "run"


def dataset_name(name: str) -> str:
    """A source's name, or the last part of a path without its endings.

    >>> dataset_name("ml-100k"), dataset_name("data/plays.csv.gz")
    ('ml-100k', 'plays')
    """
    return slug(Path(name).name.split(".")[0] or Path(name).resolve().name)


def run_name(experiment: Experiment) -> str:
    """Method, plug-ins, dataset, protocol and seed, as the default folder of a run is called.

    >>> from tacit.experiment.resolve import resolve
    >>> run_name(resolve("fedmf", plugins=["clip:bound=1"]))
    'fedmf+clip-planted-clean-seed0'
    """
    parts = "+".join([experiment.name, *(parse(spelling)[0] for spelling in experiment.plugins)])
    data = dataset_name(experiment.data.name)
    return f"{slug(parts)}-{data}-{slug(experiment.protocol.name)}-seed{experiment.seed}"
