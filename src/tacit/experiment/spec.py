"""A run is one typed value. Spelled in Python, in TOML or by flags, it is the same value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from tacit.core.algorithm import Algorithm
from tacit.core.method import AnyMethod, Method
from tacit.core.types import Task
from tacit.data.protocol import CLEAN, Protocol
from tacit.engines.participation import Participation
from tacit.errors import TacitError, shown, whole
from tacit.evaluation.metrics import parse_metric
from tacit.experiment.claims import check_claim
from tacit.experiment.data_spec import DataSpec


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a run's numbers. Threads and folders do not, so they are not here.

    >>> from tacit.methods import fedmf
    >>> Experiment("fedmf", fedmf(), rounds=5).protocol.name
    'clean'
    """

    name: str  # the method's name in the list, for people
    method: AnyMethod
    rounds: int
    preset: str = "paper"
    plugins: tuple[str, ...] = ()
    data: DataSpec = DataSpec()
    protocol: Protocol = CLEAN
    participation: Participation = Participation()
    seed: int = 0
    engine: Literal["auto", "loop", "cohort", "fused"] = "auto"
    device: str = "cpu"
    precision: Literal["float32", "float64"] = "float32"
    evaluate_every: int = 1

    def __repr__(self) -> str:
        return (
            f"Experiment({self.label} on {self.data.name}, protocol {self.protocol.name}, "
            f"{self.rounds} rounds, seed {self.seed})"
        )

    def check(self) -> None:
        """Refuse numbers that make no sense, before anything is read or written."""
        for name, value in (("rounds", self.rounds), ("evaluate_every", self.evaluate_every)):
            whole(name, value)
            if value < 1:
                raise TacitError(f"{name} is {shown(value)}; it must be at least 1.")
            if value >= 2**31:
                raise TacitError(f"{name} is {shown(value)}; it must be below 2147483648.")
        for name, value in (
            ("seed", self.seed),
            ("protocol.split.seed", self.protocol.split.seed),
            ("protocol.candidate_seed", self.protocol.candidate_seed),
        ):
            whole(name, value)
            if not 0 <= value < 2**31:
                raise TacitError(f"{name} is {shown(value)}; it must lie between 0 and 2147483647.")
        self.data.check()
        self.participation.check()
        parse_metric(self.protocol.select_metric)
        if self.protocol.patience is not None and self.protocol.patience < 1:
            raise TacitError(
                f"protocol.patience is {self.protocol.patience}; it must be at least 1, or left "
                "out."
            )
        if self.protocol.is_clean and not self.protocol.keeps_clean:
            raise TacitError(
                "This protocol is named 'clean' but hides held-out items, keeps duplicates, "
                "shuffles histories or masks less; give it another name."
            )
        algorithm = self.method.algorithm(Task(n_users=1, n_items=1))
        _check_parameters(self.name, algorithm)
        check_claim(self, algorithm)
        if self.protocol.select == "last" and self.protocol.patience is not None:
            raise TacitError(
                "protocol.select is 'last', but protocol.patience stops where validation says; "
                "leave one of them out."
            )
        if algorithm.max_rounds is not None and algorithm.max_rounds < 1:
            raise TacitError(f"{self.name} has no setting to try; give it at least one.")
        if self.method.composed is not None:
            _check_channel_numbers(self.method.composed)

    @property
    def label(self) -> str:
        """Method and plug-ins as a person would write them.

        >>> from tacit.methods import fedmf
        >>> Experiment("fedmf", fedmf(), rounds=5, plugins=("clip:bound=1",)).label
        'fedmf + clip:bound=1'
        """
        return " + ".join((self.name, *self.plugins))


def _check_parameters(name: str, algorithm: Algorithm) -> None:
    """A parameter that is shared and private at once would leave the device by another name."""
    both = set(algorithm.shared) & set(algorithm.private)
    if both:
        raise TacitError(f"{name} declares {sorted(both)} as shared and as private; rename one.")


def _check_channel_numbers(method: Method) -> None:
    """A bound or a noise that is no number would make the privacy line of a report untrue."""
    for link in method.channel:
        for field in fields(link):  # type: ignore[arg-type]
            value = getattr(link, field.name)
            if isinstance(value, int | float) and not 0 <= value < float("inf"):
                raise TacitError(
                    f"{field.name} of {type(link).__name__} in the channel is {value}; it must be "
                    "finite and not negative."
                )
