"""What can be done about parts that do not fit: a remedy is a value, so that a test can follow it.

A refusal says what is wrong and what to do. Both come from here: `CompositionError` makes its
sentence from the problem and from its remedies, and nothing advises what no remedy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import TacitError


@dataclass(frozen=True)
class LeaveOut:
    """Drop these plug-ins, all of them.

    >>> LeaveOut(("clip",)).words
    'drop --with clip'
    >>> LeaveOut(("clip",)).plugins_after(["fedmr", "clip:bound=2"])
    ('fedmr',)
    """

    plugins: tuple[str, ...]

    @property
    def words(self) -> str:
        return "drop " + " ".join(f"--with {name}" for name in self.plugins)

    def plugins_after(self, spellings: Sequence[str]) -> tuple[str, ...]:
        """The plug-ins of a command line that are left."""
        gone = {name.partition(":")[0] for name in self.plugins}
        return tuple(s for s in spellings if s.partition(":")[0] not in gone)


@dataclass(frozen=True)
class Use:
    """Another value at a dotted path of the method.

    >>> Use("bound them", "server.cap", 100).setting
    'server.cap=100'
    """

    what: str
    path: str
    value: Any

    @property
    def setting(self) -> str | None:
        """How `--set` spells it; None where the value is a part, or several."""
        if self.value is None:
            return f"{self.path}=none"
        return f"{self.path}={self.value}" if isinstance(self.value, int | float | str) else None

    @property
    def words(self) -> str:
        return self.what if self.setting is None else f"{self.what} (--set {self.setting})"

    def applied(self, method: Any) -> Any:
        """The method with that value.

        >>> from tacit.methods import fedavg
        >>> Use("bound them", "server.cap", 100).applied(fedavg()).server.cap
        100
        """
        return _with(method, self.path.split("."), self.value)


Remedy = LeaveOut | Use


class CompositionError(TacitError):
    """Parts or plug-ins that do not go together; each of its remedies is enough by itself.

    >>> str(CompositionError("fedrkg and pie both decide", LeaveOut(("pie",))))
    'fedrkg and pie both decide; drop --with pie.'
    >>> str(CompositionError("pie and pie both decide", LeaveOut(("pie",)), LeaveOut(("pie",))))
    'pie and pie both decide; drop --with pie.'
    """

    def __init__(self, problem: str, *remedies: Remedy) -> None:
        self.problem, self.remedies = problem, remedies
        words = dict.fromkeys(remedy.words for remedy in remedies)  # a plug-in may stand twice
        super().__init__(f"{problem}; {', or '.join(words)}.")


def _with(value: Any, steps: list[str], new: Any) -> Any:
    step, rest = steps[0], steps[1:]
    return replace(value, **{step: _with(getattr(value, step), rest, new) if rest else new})
