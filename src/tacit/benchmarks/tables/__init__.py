"""Printed tables re-made: one file each, and one visible dictionary."""

from __future__ import annotations

from tacit.benchmarks.tables.bars import BARS
from tacit.benchmarks.tables.coldstart import COLDSTART
from tacit.benchmarks.tables.coldstart_ablations import COLDSTART_ABLATIONS
from tacit.benchmarks.tables.definition import Table
from tacit.benchmarks.tables.fedmr_ablations import FEDMR_ABLATIONS
from tacit.benchmarks.tables.fedmr_ku import FEDMR_KU
from tacit.benchmarks.tables.fedmr_ml import FEDMR_ML
from tacit.benchmarks.tables.fedrkg_backbones import FEDRKG_BACKBONES
from tacit.benchmarks.tables.fedrkg_main import FEDRKG_MAIN
from tacit.benchmarks.tables.pfedrec_main import PFEDREC_MAIN

__all__ = ["TABLES", "Table"]

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        PFEDREC_MAIN,
        FEDRKG_MAIN,
        FEDRKG_BACKBONES,
        BARS,
        FEDMR_KU,
        FEDMR_ML,
        FEDMR_ABLATIONS,
        COLDSTART,
        COLDSTART_ABLATIONS,
    )
}
