"""Habits of released code that its paper does not name, where they make a printed number.

`--protocol paper` asks for a run as the printed one was made, so it takes them, and the result says
so. A protocol by its own name is the protocol alone, under the method of the paper's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.experiment.spec import Experiment


@dataclass(frozen=True)
class Habits:
    """The plug-ins of a printed run with the arguments that its released code gives them, what
    these do in words, and the protocol under which the paper's text alone runs."""

    plugins: tuple[str, ...]
    words: str
    protocol: str


# (method, plug-ins as they were asked for, data) of a printed number
HABITS: dict[tuple[str, tuple[str, ...], str], Habits] = {
    ("fedmf", ("fedrkg",), "amazon-video-10"): Habits(
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
    found = HABITS.get((method, tuple(plugins), data))
    return tuple(plugins) if found is None else found.plugins


def habit_notes(experiment: Experiment) -> list[str]:
    """What a result says of the habits in it."""
    return [
        f"This run has habits of the released code that the paper does not name: {habits.words}. "
        f"The paper's text is {' '.join(f'--with {name}' for name in asked)} --protocol "
        f"{habits.protocol}."
        for (method, asked, data), habits in HABITS.items()
        if (experiment.name, experiment.plugins) == (method, habits.plugins)
        and experiment.data.name == data
    ]
