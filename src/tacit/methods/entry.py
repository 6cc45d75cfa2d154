"""What the list of methods says of each: how to build it, its presets, its paper's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.core.central import CentralMethod, TrainedCentralMethod
from tacit.core.custom import DirectMethod
from tacit.core.method import Method
from tacit.errors import TacitError, nearest

# All methods by name. Each method's file puts itself here; the list of files is in __init__.py.
METHODS: dict[str, Entry] = {}


@dataclass(frozen=True)
class Entry:
    """One row of the dictionary of methods.

    `presets` hold hyper-parameters by name ("paper", "released", "tuned"), as arguments of `build`;
    `rounds` is how long the paper trains. `protocol` names the protocol of the method's paper, or
    "clean" where there is none.
    """

    build: Callable[..., Method | CentralMethod | DirectMethod | TrainedCentralMethod]
    summary: str
    rounds: int
    protocol: str = "clean"
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"paper": {}})

    def method(
        self, preset: str = "paper"
    ) -> Method | CentralMethod | DirectMethod | TrainedCentralMethod:
        """The method under one of its presets.

        >>> from tacit.methods import METHODS
        >>> METHODS["fedmf"].method("paper").backbone.dim
        32
        """
        if preset not in self.presets:
            raise TacitError(f"No preset {preset!r} here; {nearest(preset, self.presets)}")
        return self.build(**self.presets[preset])
