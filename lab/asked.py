"""What a run of a table is asked for, by names: the experiment, and the command that runs it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment


@dataclass(frozen=True)
class Asked:
    """The arguments of `tacit train`, as one value.

    >>> Asked("fedmf", plugins=("fedrkg",), rounds=3, seed=1).command
    'tacit train fedmf --data planted --protocol clean --with fedrkg --rounds 3 --seed 1'
    """

    method: str
    data: str = "planted"
    protocol: str = "clean"
    preset: str = "paper"
    plugins: tuple[str, ...] = ()
    rounds: int = 100
    seed: int = 0
    split: str | None = None
    duplicates: str | None = None
    sets: tuple[str, ...] = ()

    def experiment(self) -> Experiment:
        """What these names mean."""
        return resolve(
            self.method,
            data=self.data,
            protocol=self.protocol,
            preset=self.preset,
            plugins=self.plugins,
            rounds=self.rounds,
            seed=self.seed,
            split=self.split,
            duplicates=self.duplicates,
            sets=self.sets,
        )

    @property
    def command(self) -> str:
        """The command line that runs it."""
        words = ["tacit", "train", self.method, "--data", self.data, "--protocol", self.protocol]
        words += ["--preset", self.preset] if self.preset != "paper" else []
        words += [word for plugin in self.plugins for word in ("--with", plugin)]
        words += ["--rounds", str(self.rounds), "--seed", str(self.seed)]
        words += ["--split", self.split] if self.split is not None else []
        words += ["--duplicates", self.duplicates] if self.duplicates is not None else []
        words += [word for one in self.sets for word in ("--set", one)]
        return shlex.join(words)
