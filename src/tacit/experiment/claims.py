"""What an experiment may claim of privacy, and what a claim takes for granted.

An algorithm knows its channel. Whether validation chooses a round or a setting, and from which
items negatives are drawn, is said by the protocol; both are looked at here, before anything is
read or trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.core.algorithm import Algorithm, Exchange
from tacit.core.fit import CompositionError, LeaveOut, Use
from tacit.methods import METHODS
from tacit.plugins.cold import TUNED_ON as COLD_TUNED_ON
from tacit.plugins.entry import parse
from tacit.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from tacit.experiment.spec import Experiment

LONGEST_WAIT = 100_000  # rounds in which a first release is looked for

UNCOVERED = Use("leave the choice uncovered", "privacy.selection", "uncovered")
DROP = LeaveOut(("private",))

# Where settings come from. No program can see who looked at what, but this much is known of ours.
OUT_OF_SIGHT = (
    "settings were chosen without a look at this data, which whoever reads this has to check; "
    "docs/privacy.md says where recipes and presets come from"
)
IN_SIGHT = (
    "the settings that this method takes under a claim were chosen with this data in sight, and "
    "this choice is not covered; docs/privacy.md says how"
)


def check_claim(experiment: Experiment, algorithm: Algorithm) -> None:
    """Refuse a claim that the protocol of an experiment does not keep."""
    if algorithm.protection is None:
        return
    if pool_of_others(experiment, algorithm):
        raise CompositionError(
            "protocol.negatives_exclude is 'unseen', so what a client draws depends on the "
            "histories of others, which no bound on its upload covers",
            Use("draw from all other items", "protocol.negatives_exclude", "train"),
            DROP,
        )
    if algorithm.protection.request.selection == "last":
        _check_selection(experiment, algorithm)
    played = experiment.rounds
    if algorithm.max_rounds is not None:
        played = min(played, algorithm.max_rounds)
    sending = (number for number in range(1, LONGEST_WAIT) if algorithm.sends(number))
    first = next(sending, None)
    if first is None or first > played:
        longer = () if first is None else (Use("train for longer", "rounds", first),)
        raise CompositionError(
            f"No client sends anything in {played} rounds, so there is nothing to guarantee",
            *longer,
            DROP,
        )
    _check_parts(experiment, algorithm)


def _check_parts(experiment: Experiment, algorithm: Algorithm) -> None:
    """A release that comes in parts has its noise for all of them, however many are played."""
    if algorithm.bound is None or not algorithm.bound.together or algorithm.max_rounds is None:
        return
    needed = max(n for n in range(1, algorithm.max_rounds + 1) if algorithm.sends(n))
    if experiment.rounds < needed:
        raise CompositionError(
            f"{experiment.name} releases noisy counts first and what it ranks with after them, "
            f"which takes {needed} rounds, and rounds is {experiment.rounds}: the whole budget "
            "would be spent on a part of that",
            Use("play all of them", "rounds", needed),
            DROP,
        )


def _check_selection(experiment: Experiment, algorithm: Algorithm) -> None:
    protocol = experiment.protocol
    if protocol.select != "last":
        raise CompositionError(
            "Validation chooses the round, and nobody accounts for what its hits tell",
            Use("take the last round", "protocol.select", "last"),
            UNCOVERED,
        )
    if protocol.patience is not None:
        raise CompositionError(
            f"protocol.patience is {protocol.patience}: validation says when to stop, and nobody "
            "accounts for what its hits tell",
            Use("play all rounds", "protocol.patience", None),
            UNCOVERED,
        )
    tried = 1 if algorithm.custom is None else algorithm.custom.method.settings_tried
    if tried > 1:
        raise CompositionError(
            f"{experiment.name} tries {tried} settings, of which validation would pick one, so "
            "give each of its grids one value",
            UNCOVERED,
            DROP,
        )


def pool_of_others(experiment: Experiment, algorithm: Algorithm) -> bool:
    """Whether clients draw negatives from a pool that depends on other users' histories."""
    drawn = algorithm.draws(Exchange()).sampling is not None
    return drawn and experiment.protocol.negatives_exclude == "unseen"


def covers_selection(experiment: Experiment, algorithm: Algorithm) -> bool:
    """Whether no round and no setting is chosen by looking at validation.

    >>> from tacit.core.types import Task
    >>> from tacit.experiment.resolve import resolve
    >>> spelled = ("private", "private:selection=uncovered")
    >>> found = [resolve("fedmf", plugins=[one]) for one in spelled]
    >>> [covers_selection(one, one.method.algorithm(Task(1, 1))) for one in found]
    [True, False]
    """
    tried = 1 if algorithm.custom is None else algorithm.custom.method.settings_tried
    protocol = experiment.protocol
    return protocol.select == "last" and protocol.patience is None and tried == 1


def several_releases(names: Sequence[str]) -> str:
    """What seeds of runs with a guarantee spend together: each run is a release of its own.

    >>> several_releases(["a", "b"]).split(".")[0]
    'The epsilon of a, b is that of one run'
    """
    return (
        f"The epsilon of {', '.join(names)} is that of one run. Every seed looked at the same "
        "people, so who sees the results of all seeds learns more than that."
    )


def guarantee_of(experiment: Experiment, algorithm: Algorithm, releases: int) -> Guarantee | None:
    """What an experiment promises to a user who takes part in so many releases."""
    found = algorithm.guarantee(releases)
    if found is None or pool_of_others(experiment, algorithm):
        return None
    return replace(found, selection_covered=covers_selection(experiment, algorithm))


def chosen_in_sight(experiment: Experiment, algorithm: Algorithm) -> bool:
    """Whether settings that a claim takes by itself were chosen with this very data in sight.

    >>> from tacit.core.types import Task
    >>> from tacit.experiment.resolve import resolve
    >>> asked = [("fedease", "ml-1m"), ("fedease", "planted"), ("fedmf", "ml-1m"),
    ...          ("fedncf", "ml-100k"), ("fedncf", "ml-1m")]
    >>> found = [resolve(name, data=data, plugins=["private"]) for name, data in asked]
    >>> [chosen_in_sight(one, one.method.algorithm(Task(1, 1))) for one in found]
    [True, False, False, True, False]
    """
    path = Path(experiment.data.name)  # a name, or a file or folder somewhere below one
    path = path.resolve() if path.exists() else path
    here = {name.lower() for name in (*path.parts, path.stem)}
    seen = set() if algorithm.custom is None else set(algorithm.custom.method.chosen_on)
    ours = METHODS[experiment.name].chosen if experiment.name in METHODS else {}
    if experiment.preset in ours:
        seen.update(ours[experiment.preset].datasets)
    if "tuned" in [parse(one)[1].get("preset") for one in experiment.plugins]:
        seen.update(COLD_TUNED_ON)
    return not here.isdisjoint(seen)


def assumptions(guarantee: Guarantee | None, in_sight: bool = False) -> tuple[str, ...]:
    """What a guarantee takes for granted, and what it does not speak of. With `in_sight` the data
    played a part when the method's own settings were chosen."""
    if guarantee is None:
        return ()
    sums = (
        "uploads are added up under secure aggregation, with the noise in the sum before anybody "
        "sees it; a simulation takes both for granted"
    )
    return (
        *((sums,) if guarantee.view != "local" else ()),
        "the catalogue and its content, who takes part and when, and the filters of the data are "
        "public",
        IN_SIGHT if in_sight else OUT_OF_SIGHT,
        "nobody can draw the noise again: that of a simulation comes from its seed, so whoever has "
        "the seed or guesses it (it is 0 where none was given), or has a second run with it, can "
        "take the noise off",
        "the folder of this run stays with the experimenter: it holds the seed, and what devices "
        "keep for themselves",
        "what rounding in floating point may tell is not covered",
        "metrics, losses and curves of this run are the experimenter's, and are not covered; nor "
        "are further runs on the same people",
    )
