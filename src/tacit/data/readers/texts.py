"""What is written about items (titles, descriptions), lined up with the catalogue."""

from __future__ import annotations

import polars as pl


def texts_from(
    frame: pl.DataFrame, item: str, items: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Every column but `item`, one text per catalogue item; what is not there is the empty text.

    >>> frame = pl.DataFrame({"item_id": ["b", "a"], "title": ["Brazil", None]})
    >>> texts_from(frame, "item_id", ("a", "b", "c"))
    {'title': ('', 'Brazil', '')}
    """
    known = frame.with_columns(pl.all().cast(pl.String).str.strip_chars())
    known = known.unique(subset=item, keep="first", maintain_order=True)
    joined = pl.DataFrame({item: list(items)}, schema={item: pl.String}).join(
        known, on=item, how="left", maintain_order="left"
    )
    names = [name for name in frame.columns if name != item]
    return {name: tuple(joined[name].fill_null("").to_list()) for name in names}
