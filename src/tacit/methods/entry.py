"""What the list of methods says of each: how to build it, its presets, its paper's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.core.central import CentralMethod, TrainedCentralMethod
from tacit.core.custom import CustomMethod
from tacit.core.method import Method, require_method
from tacit.core.registry import METHOD_MODULES
from tacit.errors import TacitError, nearest, outcome_of, shown
from tacit.names import Names


@dataclass(frozen=True)
class Chosen:
    """On which data we chose settings that no paper prints; how many were tried there, where that
    was counted; and whether somebody looked at test values meanwhile.

    >>> Chosen(("ml-100k",), tried=9, test_seen=True).text
    'about 9 tried before on ml-100k, with test values in sight'
    >>> Chosen(("ml-100k", "ml-1m")).text
    'some tried before on ml-100k, ml-1m'
    """

    datasets: tuple[str, ...]
    tried: int | None = None
    test_seen: bool = False

    @property
    def text(self) -> str:
        many = "some" if self.tried is None else f"about {self.tried}"
        seen = ", with test values in sight" if self.test_seen else ""
        return f"{many} tried before on {', '.join(self.datasets)}{seen}"


@dataclass(frozen=True)
class Entry:
    """One row of the dictionary of methods.

    `presets` hold hyper-parameters by name ("paper", "released", "tuned"), as arguments of `build`;
    `rounds` is how long the paper trains. `protocol` names the protocol of the method's paper, or
    "clean" where there is none. `split` is how data is split for it unless somebody says; None: as
    the protocol says, or by items where the method has a generator of rows. `chosen` says of a
    preset on which data its settings were chosen, where that was ours and not a paper's.
    """

    build: Callable[..., Method | CentralMethod | CustomMethod | TrainedCentralMethod]
    summary: str
    rounds: int
    protocol: str = "clean"
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"paper": {}})
    split: str | None = None
    chosen: Mapping[str, Chosen] = field(default_factory=dict)  # by preset

    def method(
        self, preset: str = "paper"
    ) -> Method | CentralMethod | CustomMethod | TrainedCentralMethod:
        """The method under one of its presets.

        >>> from tacit.methods import METHODS
        >>> METHODS["fedmf"].method("paper").backbone.dim
        32
        """
        if preset not in self.presets:
            raise TacitError(f"No preset {preset!r} here; {nearest(preset, self.presets)}")
        what = f"The function {getattr(self.build, '__qualname__', self.build)!r} of a method"
        return require_method(what, outcome_of(what, self.build, **self.presets[preset]))


def _accept(name: str, entry: Any) -> Entry:
    if not isinstance(entry, Entry):
        raise TacitError(
            f"The method {name!r} is {shown(entry)}; give an Entry: tacit.Entry(build=.., "
            "summary=.., rounds=..)."
        )
    return entry


def _origin(entry: Entry) -> tuple[str, str] | None:
    build = entry.build
    module, name = getattr(build, "__module__", None), getattr(build, "__qualname__", None)
    return None if module is None or name is None else (module, name)


# All methods by name; each file puts its own here, and so does a user's module.
METHODS: Names[Entry] = Names(
    "method",
    "tacit.methods",
    {module: (*names.classes, *names.expressions) for module, names in METHOD_MODULES.items()},
    _accept,
    _origin,
)
