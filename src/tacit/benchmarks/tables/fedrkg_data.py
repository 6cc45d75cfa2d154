"""The datasets of FedRKG's tables as blocks, in the order of what they cost."""

from __future__ import annotations

from tacit.benchmarks.tables.definition import Data
from tacit.benchmarks.tables.fedrkg_print import FILMTRUST, LASTFM, ML_1M, VIDEO

DEDUPLICATED = "lastfm-2k-10, repeats removed"

FILMTRUST_DATA = Data(
    FILMTRUST,
    clean_split="item_appearance",
    note=(
        "FilmTrust has no times. Both columns hold out, as the released code does, the item that "
        "appears latest in the file; clean's own default for such data is a random item."
    ),
)
ML_100K_DATA = Data("ml-100k", note="Not in the paper: nothing is printed.")
VIDEO_DATA = Data(
    VIDEO,
    note=(
        "Users with at least 10 rows. The split is the same in both columns: by time, the first "
        "row of the file is the latest of equals; the paper's own order of equals is not "
        "reproducible."
    ),
)
LASTFM_DATA = Data(
    LASTFM,
    columns=("paper",),
    note=(
        "As published: tag assignments, so pairs repeat; users with at least 10 rows, repeats "
        "kept. A test artist that is also in train can never be hit: 445 of 1,269 users can, which "
        "is a ceiling of 35.07. Repeats cannot be clean; see the next block."
    ),
)
LASTFM_UNIQUE_DATA = Data(
    DEDUPLICATED,
    given_source=LASTFM,
    paper_duplicates="earliest",
    note="The same users' artists, each counted once in both columns; nothing is printed for it.",
)
ML_1M_DATA = Data(ML_1M, note="The split is the same in both columns: by time.")

ALL = (
    FILMTRUST_DATA,
    ML_100K_DATA,
    VIDEO_DATA,
    LASTFM_DATA,
    LASTFM_UNIQUE_DATA,
    ML_1M_DATA,
)
