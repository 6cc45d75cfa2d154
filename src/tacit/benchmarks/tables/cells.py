"""Cells of a table: which experiment each one is, and in which folder it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from tacit.benchmarks.tables.definition import Column, Data, Row, Setting, Table
from tacit.experiment.folder import RunFolder
from tacit.experiment.names import slug
from tacit.experiment.plugins import PLUGINS, parse
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps
from tacit.methods import METHODS


@dataclass(frozen=True)
class Place:
    """A cell without its seed: what one choice of settings is made for.

    >>> Place(Row("fedmf", "fedmf"), Data("planted"), "clean").key
    'fedmf | planted | clean'
    """

    row: Row
    data: Data
    column: Column

    @property
    def key(self) -> str:
        return f"{self.row.name} | {self.data.name} | {self.column}"

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What is tried here."""
        return dict(self.row.settings_on).get(self.data.name, self.row.settings)


@dataclass(frozen=True)
class Cell:
    """One run of a table.

    >>> Cell(Place(Row("fedmf", "fedmf"), Data("planted"), "clean"), 2).key
    'fedmf | planted | clean | seed 2'
    """

    place: Place
    seed: int

    @property
    def key(self) -> str:
        return f"{self.place.key} | seed {self.seed}"


def places_of(table: Table) -> list[Place]:
    """All places, datasets first."""
    return [
        Place(row, data, column)
        for data in table.datasets
        for row in table.rows_of(data)
        for column in table.columns_of(data)
    ]


def cells_of(table: Table, seeds: int) -> list[Cell]:
    """All cells of the first seeds; a row in which nothing is drawn has one."""
    return [
        Cell(place, seed)
        for place in places_of(table)
        for seed in range(seeds if place.row.seeded else 1)
    ]


def absent(row: Row) -> str | None:
    """Which name of a row nobody has registered; None where all are there.

    >>> absent(Row("x", "no_such")), absent(Row("fedmf", "fedmf"))
    ('no_such', None)
    """
    if row.method not in METHODS:
        return row.method
    return next((s for s in row.plugins if parse(s)[0] not in PLUGINS), None)


def experiment_of(
    table: Table, place: Place, setting: Setting, seed: int, *, search: bool = False
) -> Experiment:
    """The experiment of a cell under one setting; a search is shorter and otherwise the same.

    >>> row, data = Row("fedmf", "fedmf"), Data("planted")
    >>> table = Table("few", "Few", (row,), (data,), (("full", "HR@10"),), 1)
    >>> experiment_of(table, Place(row, data, "clean"), (), 0, search=True).rounds
    50
    """
    row, data, paper = place.row, place.data, place.column == "paper"
    here = [setting for name, setting in row.on if name == data.name]
    if table.split_seeds:
        here.append((f"protocol.split.seed={seed}",))
    return resolve(
        row.method,
        data=data.source,
        protocol=(table.paper or "clean") if paper else "clean",
        plugins=row.plugins,
        rounds=row.search_rounds if search else row.rounds,
        seed=seed,
        split=None if paper else data.clean_split,
        duplicates=data.paper_duplicates if paper else None,
        device=table.device,
        sets=(f"evaluate_every={row.evaluate_every}", *row.sets, *setting, *chain(*here)),
    )


def digest(experiments: Sequence[Experiment]) -> str:
    """A short name of experiments that changes whenever one of them does; where they run is no
    part of what they are.

    >>> one = resolve("fedmf")
    >>> digest([one]) == digest([resolve("fedmf", device="cuda")])
    True
    >>> digest([one]) == digest([resolve("fedmf", seed=1)])
    False
    """
    text = "\n".join(dumps(replace(experiment, device="cpu")) for experiment in experiments)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]


def folder_of(out: Path, place: Place, experiment: Experiment) -> RunFolder:
    """Where a cell runs: a definition that changes gets another folder, never another's numbers."""
    name = f"{place.column}-seed{experiment.seed}-{digest([experiment])}"
    return RunFolder(out / "runs" / slug(place.data.name) / slug(place.row.name) / name)
