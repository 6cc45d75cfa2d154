"""What plug-ins mean for a run: quirks of released code, and notes for its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.core.method import Method
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS

# ReleasedQuirks of released code that its paper does not name, where they make a printed number.
#
# `--protocol paper` asks for a run as the printed one was made, so it takes them, and the result
# says so. A protocol by its own name is the protocol alone, under the method of the paper's text.


@dataclass(frozen=True)
class ReleasedQuirks:
    """The plug-ins of a printed run with the arguments that its released code gives them, what
    these do in words, and the protocol under which the paper's text alone runs."""

    plugins: tuple[str, ...]
    words: str
    protocol: str


# (method, plug-ins as they were asked for, data) of a printed number
RELEASED_QUIRKS: dict[tuple[str, tuple[str, ...], str], ReleasedQuirks] = {
    ("fedmf", ("fedrkg",), "amazon-video-10"): ReleasedQuirks(
        ("fedrkg:clip=1.0,decay=0.99,scorer=linear",),
        "gradients bounded at norm 1, rates that shrink by a hundredth each round, a linear scorer "
        "with a bias",
        "fedrkg",
    ),
}


def plugins_as_released(method: str, plugins: Sequence[str], data: str) -> tuple[str, ...]:
    """The plug-ins of a printed run; one that is given arguments is taken at its word.

    >>> plugins_as_released("fedmf", ["fedrkg"], "amazon-video-10")
    ('fedrkg:clip=1.0,decay=0.99,scorer=linear',)
    >>> plugins_as_released("fedmf", ["fedrkg:beta=0.9"], "amazon-video-10")
    ('fedrkg:beta=0.9',)
    """
    found = RELEASED_QUIRKS.get((method, tuple(plugins), data))
    return tuple(plugins) if found is None else found.plugins


def quirk_notes(experiment: Experiment) -> list[str]:
    """What a result says of the quirks in it."""
    return [
        f"This run has quirks of the released code that the paper does not name: {quirks.words}. "
        f"The paper's text is {' '.join(f'--with {name}' for name in asked)} --protocol "
        f"{quirks.protocol}."
        for (method, asked, data), quirks in RELEASED_QUIRKS.items()
        if (experiment.name, experiment.plugins) == (method, quirks.plugins)
        and experiment.data.name == data
    ]


# Notes on a composition.


def plugin_notes(experiment: Experiment) -> list[str]:
    """What a result says of a composition: what plug-ins took away or changed that its method has
    by itself, and noise that nothing before it makes worth something.

    >>> from tacit.experiment.resolve import resolve
    >>> plugin_notes(resolve("pfedrec", plugins=["fedmr"]))[0][:61]
    'pfedrec by itself ranks with a privately tuned copy of the it'
    >>> plugin_notes(resolve("fedmf", plugins=["gaussian"]))[0][:61]
    'Nothing bounds an upload before the noise, so the noise gives'
    >>> plugin_notes(resolve("pfedrec", plugins=["clip", "gaussian"]))
    []
    """
    method = experiment.method.composed
    if method is None:
        return []
    notes = []
    if _tuned_by_itself(experiment) and experiment.plugins and method.sync.scores_with != "tuned":
        is_global = method.sync.scores_with == "global"
        notes.append(
            f"{experiment.name} by itself ranks with a privately tuned copy of the item table; "
            f"with {' and '.join(experiment.plugins)} there is none, and clients rank with "
            f"{'the global items' if is_global else 'a personal table'}."
        )
    alone = _alone(experiment)
    if method.privacy is not None and alone is not None and alone.server.tells_examples:
        notes.append(
            f"{experiment.name} by itself weighs clients by how many interactions they have; under "
            "a claim of privacy that number stays on the device, and clients count alike."
        )
    given = {what for link in method.channel for what in link.gives}
    if "noise" in given and "bounded_norm" not in given:
        notes.append(
            "Nothing bounds an upload before the noise, so the noise gives no guarantee, whatever "
            "its size."
        )
    return notes


def _tuned_by_itself(experiment: Experiment) -> bool:
    """Whether the named method, without any plug-in, ranks with rows that a client tuned."""
    alone = _alone(experiment)
    return alone is not None and alone.sync.scores_with == "tuned"


def _alone(experiment: Experiment) -> Method | None:
    """The named method without any plug-in, where it is made of parts."""
    entry = METHODS.get(experiment.name)
    if entry is None or experiment.preset not in entry.presets:
        return None
    return entry.method(experiment.preset).composed
