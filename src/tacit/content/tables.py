"""The files of one feature table: `X_feat.npy` and what lies beside it, written whole or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.data.readers.manifest import NUMBERS, FeatureManifest
from tacit.errors import TacitError
from tacit.files import whole_file

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class TableFiles:
    """Where the table called `name` lies in a folder.

    >>> TableFiles(Path("data"), "text").features.name
    'text_feat.npy'
    """

    folder: Path
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise TacitError(
                f"The table name {self.name!r} must be letters, digits, '_', '-' and '.', and "
                "begin with a letter or digit."
            )
        if self.folder.exists() and not self.folder.is_dir():
            raise TacitError(f"{str(self.folder)!r} is a file; give a folder with --out.")

    @property
    def features(self) -> Path:
        return self.folder / f"{self.name}_feat.npy"

    @property
    def item_ids(self) -> Path:
        return self.folder / f"{self.name}_item_ids.txt"

    @property
    def manifest(self) -> Path:
        return FeatureManifest.file_of(self.features)

    @property
    def batches(self) -> Path:
        """Finished batches; the folder goes when the table is there."""
        return self.folder / f".{self.name}_batches"

    def write(
        self, blocks: Iterable[np.ndarray], manifest: FeatureManifest, ids: Sequence[str]
    ) -> None:
        """Write ids and manifest, then the table: only with its last file does it exist."""
        for path, text in (
            (self.item_ids, "".join(f"{name}\n" for name in ids)),
            (self.manifest, manifest.dumps()),
        ):
            with whole_file(path, shared=self.batches) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="\n")
        shape = (manifest.rows, manifest.width)
        header = {"descr": NUMBERS.str, "fortran_order": False, "shape": shape}
        with (
            whole_file(self.features, shared=self.batches) as temporary,
            temporary.open("wb") as file,
        ):
            np.lib.format.write_array_header_1_0(file, header)
            for block_ND in blocks:
                file.write(np.ascontiguousarray(block_ND, dtype=NUMBERS).tobytes())
