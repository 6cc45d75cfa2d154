"""Flags on top of a saved experiment: what was given changes, everything else stays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tacit.core.method import Method
from tacit.core.remedy import CompositionError, LeaveOut
from tacit.errors import TacitError
from tacit.experiment.plugins import with_plugins
from tacit.experiment.resolve import (
    apply_set,
    named_truly,
    protocol_named,
    with_split,
    with_tried_remedies,
)
from tacit.experiment.spec import Experiment

# Flags that are a single field of the experiment, and its path.
FIELDS = {
    "data": "data.name",
    "min_user": "data.min_user",
    "min_rating": "data.min_rating",
    "core": "data.core",
    "duplicates": "protocol.duplicates",
    "rounds": "rounds",
    "seed": "seed",
    "participation": "participation.ratio",
    "engine": "engine",
    "device": "device",
}


@with_tried_remedies
def override(
    experiment: Experiment,
    *,
    method: str | None = None,
    preset: str | None = None,
    protocol: str | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    plugins: Sequence[str] = (),
    sets: Sequence[str] = (),
    **given: Any,
) -> Experiment:
    """The experiment with the given arguments of `resolve` in place of its own; plug-ins add up.

    >>> from tacit.experiment.resolve import resolve
    >>> override(resolve("fedmf", seed=3), rounds=5).rounds
    5
    """
    for what, wanted, found in (
        ("the method", method, experiment.name),
        ("the preset", preset, experiment.preset),
    ):
        if wanted is not None and wanted != found:
            raise TacitError(
                f"The saved configuration spells {what} {found!r} out in full, so it cannot become "
                f"{wanted!r}; use --set for single fields, or leave out --config."
            )
    if plugins and not isinstance(experiment.method, Method):
        raise CompositionError(
            f"{experiment.name} has no parts to plug into", LeaveOut(tuple(plugins))
        )
    if plugins and isinstance(experiment.method, Method):
        built = with_plugins(experiment.method, plugins, before=experiment.plugins)
        experiment = replace(experiment, method=built, plugins=(*experiment.plugins, *plugins))
    if protocol is not None:
        chosen = protocol_named(protocol, experiment.name, experiment.plugins)
        experiment = replace(experiment, protocol=chosen)
    if split is not None:
        name = given.get("data") or experiment.data.name
        changed = with_split(experiment.protocol, split, name)
        experiment = replace(experiment, protocol=changed)
    if columns is not None:
        spec = replace(experiment.data, columns=tuple(sorted(columns.items())))
        experiment = replace(experiment, data=spec)
    for name, value in given.items():
        if value is not None:
            # a JSON scalar is a TOML one, so names stay names whatever they look like
            text = json.dumps(value, ensure_ascii=False)
            experiment = apply_set(experiment, f"{FIELDS[name]}={text}")
    for setting in sets:
        experiment = apply_set(experiment, setting)
    experiment = named_truly(experiment)
    experiment.check()
    return experiment
