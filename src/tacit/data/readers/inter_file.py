"""Finding the `.inter` file that RecBole and MMRec folders share a name for."""

from __future__ import annotations

from pathlib import Path


def inter_file(path: Path) -> Path | None:
    """The file itself, the folder's `.inter` of the same name, or its only one; else nothing."""
    if path.is_file():
        return path if path.suffix == ".inter" else None
    files = sorted(path.glob("*.inter"))
    named = path / f"{path.resolve().name}.inter"
    return named if named in files else (files[0] if len(files) == 1 else None)
