"""A small dataset on disk, so that whole runs take a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.testing.synthetic import ragged


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    """`ragged()` as a table: 24 users, 50 items, histories of 3 to 46."""
    rows = ragged().interactions
    assert rows.time_N is not None
    lines = ["user,item,time"]
    lines += [
        f"person {rows.users[user]},film {rows.items[item]},{time}"
        for user, item, time in zip(rows.user_N, rows.item_N, rows.time_N, strict=True)
    ]
    path = tmp_path / "plays.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
