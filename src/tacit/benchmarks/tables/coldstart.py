"""Generators for items that nobody has touched, on four datasets."""

from __future__ import annotations

from tacit.benchmarks.tables.coldstart_rows import ALL, METRICS, POSTERS
from tacit.benchmarks.tables.definition import Data, Table

# rows that would be those of the block with text alone
CONTENT_FREE = ("random rows", "cs_fcf", "cs_fedncf")

CITEULIKE = Data(
    "citeulike-a",
    clean_split="cold",
    note=(
        "The published split: 13,584 warm, 1,018 validation and 2,378 test articles. Text: tags "
        "alone, mean static token vectors, 256 wide. Tags were given by CiteULike's users, some of "
        "whom are test users, so they may tell something of the test. 3,461 articles have none and "
        "get the mean, 504 of them in the test part."
    ),
)
ML_100K = Data(
    "ml-100k",
    clean_split="cold",
    note="Text: title, genres and plot, 256 wide. One split of items per seed, 6:1:3.",
)
ML_100K_POSTERS = Data(
    POSTERS[0],
    given_source="ml-100k",
    clean_split="cold",
    without=CONTENT_FREE,
    note=(
        "The same splits, with posters (1280 wide) beside the text: each modality is centred and "
        "scaled as a whole. 19 films have no poster and get the mean. Rows without content are "
        "those above, and the CS rows read one modality."
    ),
)
LASTFM = Data(
    "lastfm-2k",
    clean_split="cold",
    note=(
        "Warning: the text is an artist's name and its most used tags, and tags were given in the "
        "very interactions that are ranked, held-out ones included: numbers here are flattered. "
        "One split of items per seed, 6:1:3."
    ),
)
ML_1M = Data(
    "ml-1m",
    clean_split="cold",
    note="Text: title, genres and plot, 256 wide. One split of items per seed, 6:1:3.",
)

ML_1M_POSTERS = Data(
    POSTERS[1],
    given_source="ml-1m",
    clean_split="cold",
    without=CONTENT_FREE,
    note=(
        "The same splits, with posters (1280 wide) beside the text, as for ML-100K. Only 1,527 of "
        "the 3,706 films have a poster; the others get the mean."
    ),
)

COLDSTART = Table(
    name="coldstart",
    title="Items that nobody has touched",
    rows=ALL,
    datasets=(ML_100K, ML_100K_POSTERS, LASTFM, CITEULIKE, ML_1M, ML_1M_POSTERS),
    metrics=METRICS,
    settings=4,
    split_seeds=True,
    cold=True,
    notes=(
        "Candidates are the cold items of the test part alone. All rows but CS_FCF, CS_FedNCF, "
        "IFedNCF and the profile have the clients of MDiffFR (PFedRec, 64 wide, five negatives). "
        "The four settings are two rates of the clients' items times two values of the "
        "generator's own knob, written down before any test part was ranked.",
        "MDiffFR as the paper prints its loss, with Adam; *released* has the code's weights and "
        "plain descent; *ours* lets a simple map speak first (two ridges and two numbers of "
        "nearest items are tried) and a diffusion on a schedule that ends in noise learn what is "
        "left.",
    ),
)
