"""The versions of a catalogue that a server has: items, titles, and content as numbers.

Each version is one sealed JSON and, where there is content, one safetensors file beside it. A later
version begins with the items of the one before. Nodes get ids, titles and only that content which
the method reads on devices; a generator of new rows reads the rest on the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from tacit.coordinator.rounds import Offer
from tacit.data.dataset import FeatureTable, Modalities
from tacit.errors import TacitError
from tacit.experiment.sealed import DamagedError, read_sealed, write_sealed
from tacit.experiment.spec import Experiment
from tacit.files import make_folder, reading, whole_file
from tacit.node.catalogue import PRESENT, Catalogue

BRING_BACK = "bring back a copy of it"


@dataclass(frozen=True, eq=False)
class Items:
    """One version of a catalogue, as the server knows it."""

    ids: tuple[str, ...]
    titles: tuple[str, ...] = ()
    content: Modalities = field(default_factory=Modalities)
    version: int = 1

    def for_devices(self, experiment: Experiment) -> Catalogue:
        """What nodes are sent: content only where the method reads it on devices."""
        composed = experiment.method.composed
        names = tuple(self.content)
        if composed is not None:
            names = tuple(composed.items.content(self.content))
        arrays: dict[str, np.ndarray] = {}
        for name in names:
            table = self.content[name]
            arrays |= {name: table.value_IF, name + PRESENT: table.present_I}
        return Catalogue(self.ids, self.titles, arrays, self.version)

    def offer(self, experiment: Experiment, deployment: str) -> Offer:
        return Offer(self.for_devices(experiment).message(deployment), self.content)


@dataclass(frozen=True)
class Shelf:
    """The folder of all versions."""

    folder: Path

    @property
    def versions(self) -> tuple[int, ...]:
        found = (path.stem for path in self.folder.glob("*.json"))
        return tuple(sorted(int(name) for name in found if name.isdigit()))

    @property
    def latest(self) -> Items:
        if not self.versions:
            raise TacitError(f"There is no catalogue in {str(self.folder)!r}; give one.")
        return self.read(self.versions[-1])

    def write(self, items: Items) -> None:
        """One more version; what would change the meaning of an earlier one is refused."""
        if self.versions:
            before = self.latest
            if items.version != before.version + 1 or items.ids[: len(before.ids)] != before.ids:
                raise TacitError(
                    f"Version {before.version + 1} of the catalogue must begin with the "
                    f"{len(before.ids)} items of the one before, in their order."
                )
        make_folder(self.folder)
        arrays: dict[str, np.ndarray] = {}
        for name, table in items.content.items():
            arrays |= {name: table.value_IF, name + PRESENT: table.present_I}
        if arrays:
            with whole_file(self._content(items.version)) as part:
                save_file({name: np.ascontiguousarray(a) for name, a in arrays.items()}, part)
        known = {"ids": list(items.ids), "titles": list(items.titles)}
        write_sealed(self._list(items.version), {**known, "content": list(items.content)})

    def add(self, ids: Sequence[str], titles: Sequence[str], content: Modalities) -> Items:
        """A later version with these items at its end; content has a row for each of them."""
        before = self.latest
        if set(content) != set(before.content):
            raise TacitError(
                f"New items need content of the kinds {sorted(before.content)}, and these have "
                f"{sorted(content)}."
            )
        tables = {}
        for name, table in before.content.items():
            new = content[name]
            tables[name] = FeatureTable(
                np.concatenate([table.value_IF, new.value_IF]).astype(table.value_IF.dtype),
                np.concatenate([table.present_I, new.present_I]),
            )
        known = before.titles or ("",) * len(before.ids)
        items = Items(
            (*before.ids, *ids), (*known, *titles), Modalities(tables), before.version + 1
        )
        self.write(items)
        return items

    def read(self, version: int) -> Items:
        path = self._list(version)
        try:
            found = read_sealed(path)
            ids, titles = tuple(found["ids"]), tuple(found["titles"])
            names = list(found["content"])
        except (DamagedError, KeyError, TypeError) as error:
            raise TacitError(f"The catalogue {str(path)!r} is damaged; {BRING_BACK}.") from error
        arrays: dict[str, np.ndarray] = {}
        if names:
            with reading(self._content(version), BRING_BACK, library_errors=(SafetensorError,)):
                arrays = load_file(self._content(version))
        tables = {name: FeatureTable(arrays[name], arrays[name + PRESENT]) for name in names}
        return Items(ids, titles, Modalities(tables), version)

    def _list(self, version: int) -> Path:
        return self.folder / f"{version}.json"

    def _content(self, version: int) -> Path:
        return self.folder / f"{version}.safetensors"
