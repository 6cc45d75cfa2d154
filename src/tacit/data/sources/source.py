"""What is known of a published dataset: whose it is, what file to get, and the papers' rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tacit.data.readers.quirks import NO_QUIRKS, Quirks
from tacit.data.rules import Rule


@dataclass(frozen=True)
class Source:
    """A named dataset. Nothing of it is shipped; its files are looked for under `folder`.

    `statistics` are the counts after `rules`, with repeated pairs kept, as the papers count.

    >>> few = Source("few", "Few", "few", (), "free", "its page", "a.csv", statistics={"users": 3})
    >>> few.has_time, few.statistics["users"]
    (True, 3)
    """

    name: str
    title: str
    folder: str
    rules: tuple[Rule, ...]
    licence: str
    owner_page: str  # where its owner publishes it, in words
    files_expected: str  # what to put into the folder
    statistics: Mapping[str, int]
    notes: tuple[str, ...] = ()
    has_time: bool = True  # False: a time column, if there is one, is not a time and is dropped
    quirks: Quirks = NO_QUIRKS  # what is odd in its file and accepted there
    raw_file: str | None = None  # the owner's file, where no reader knows it by its name
    raw_columns: Mapping[str, str] = field(default_factory=dict)  # its columns
    cold_split: str | None = None  # a published split of its items, beside the interactions
