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
    data = dataset_name(experiment.data.name)
    return f"{_parts(experiment)}-{data}-{slug(experiment.protocol.name)}-seed{experiment.seed}"


def audit_name(experiment: Experiment, *, named: bool) -> str:
    """The default folder of an audit; its protocol is `named` where only one is audited.

    >>> from tacit.experiment.resolve import resolve
    >>> audit_name(resolve("fedmf"), named=False), audit_name(resolve("fedmf"), named=True)
    ('audit-fedmf-planted-seed0', 'audit-fedmf-planted-clean-seed0')
    """
    data = dataset_name(experiment.data.name)
    protocol = f"-{slug(experiment.protocol.name)}" if named else ""
    return f"audit-{_parts(experiment)}-{data}{protocol}-seed{experiment.seed}"


def _parts(experiment: Experiment) -> str:
    """Method and plug-ins, the latter without their arguments."""
    plugins = (parse(spelling)[0] for spelling in experiment.plugins)
    return slug("+".join([experiment.name, *plugins]))
