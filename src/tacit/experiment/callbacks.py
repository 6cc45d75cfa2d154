"""Who wants to see a run while it goes on: a progress bar, a logger, a search that stops early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tacit.errors import TacitError, shown
from tacit.experiment.record import RunRecord
from tacit.experiment.spec import Experiment


@dataclass(frozen=True)
class Validation:
    """What validation found after a round.

    `value` is that of the protocol's `metric`, by which a round is selected; `best` is the highest
    so far, this round included. `metrics` has all that was measured, by ranking and name.

    >>> found = Validation(3, "NDCG@10", 0.25, 0.3, 2, {"full": {"NDCG@10": 0.25}})
    >>> found.improved, found.metrics["full"]["NDCG@10"]
    (False, 0.25)
    """

    round: int
    metric: str
    value: float
    best: float
    best_round: int
    metrics: Mapping[str, Mapping[str, float]]

    @property
    def improved(self) -> bool:
        """Whether this round is the selected one now."""
        return self.best_round == self.round


class Callback:
    """A base class with empty methods; override what you want to hear of.

    What a callback raises ends the run: its folder keeps the last checkpoint, so it can go on.

    >>> class Curve(Callback):
    ...     def __init__(self):
    ...         self.values = []
    ...     def validation(self, found):
    ...         self.values.append(found.value)
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.experiment.resolve import resolve
    >>> from tacit.experiment.run import run
    >>> curve = Curve()
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run(resolve("popularity"), Path(place) / "one", callbacks=[curve])
    >>> len(curve.values)
    1
    """

    def begin(self, experiment: Experiment, rounds: int, engine: str) -> None:
        """Before the first round; `engine` says in words what plays the rounds."""

    def validation(self, found: Validation) -> None:
        """After a round that was validated, before the round is over."""

    def round(self, number: int, loss: float | None) -> None:
        """After every round; a method without a training loss has none."""

    def end(self, record: RunRecord | None) -> None:
        """At the end, with what `run` returns; None where the run was stopped or failed."""


Callbacks = Callback | Sequence[Callback]  # one, several or none


def together(callbacks: Callbacks) -> Callback:
    """Several callbacks as one, which calls them in their order.

    >>> together([Callback(), Callback()]).round(1, 0.5)
    """
    if isinstance(callbacks, Callback):
        return callbacks
    for one in callbacks if isinstance(callbacks, Iterable) else [callbacks]:
        if not isinstance(one, Callback):
            raise TacitError(f"A callback is {shown(one)}; give values of tacit.Callback.")
    return _Together(callbacks)


class _Together(Callback):
    def __init__(self, several: Sequence[Callback]) -> None:
        self.several = tuple(several)

    def begin(self, experiment: Experiment, rounds: int, engine: str) -> None:
        for one in self.several:
            one.begin(experiment, rounds, engine)

    def validation(self, found: Validation) -> None:
        for one in self.several:
            one.validation(found)

    def round(self, number: int, loss: float | None) -> None:
        for one in self.several:
            one.round(number, loss)

    def end(self, record: RunRecord | None) -> None:
        for one in self.several:
            one.end(record)
