"""Fusion on MovieLens: FedVLR's column ML (latest-small, 5-core), and ML-100K under clean."""

from __future__ import annotations

from dataclasses import replace

from tacit.benchmarks.tables.definition import Column, Data, Table
from tacit.benchmarks.tables.fusion_print import ML, printed
from tacit.benchmarks.tables.fusion_rows import BASES, GAIN, HIT, control, fused_row, plain_row

DATA = "ml-latest-small"
SMALL_DATA = Data(
    DATA,
    clean_split="released",
    note=(
        "5-core, as the paper filters; the split is by time in both columns. Text: title, genres "
        "and tags, mean static token vectors, 256 wide. Tags were given by users, test users among "
        "them, so text may tell something of the test; id rows cannot. Image: small posters, 1280 "
        "wide, of 839 of the 3,650 films; the others get the mean of those present. "
        "The paper's features (CLIP, 512 wide, title and poster) are others."
    ),
)
ML_100K_DATA = Data(
    "ml-100k",
    clean_split="released",
    columns=("clean",),
    note=(
        "Not in the papers: nothing is printed. Text: title, genres and plot, 256 wide. Image: "
        "small posters, 1280 wide; 19 films have none and get the mean."
    ),
)
# rounds cost twenty times those of KU, so the search is shorter
LONGER = tuple(replace(BASES[name], fused_length=(100, 20)) for name in ("fcf", "pfedrec"))
WITH = {"id only": "id_only", "fedmr": "fedmr", "fedvlr": "fedvlr"}

ROWS = (
    control("popularity", "popularity"),
    *(
        row
        for base in LONGER
        for row in (plain_row(base), *(fused_row(base, n, plug) for n, plug in WITH.items()))
    ),
)

OTHERS = (
    "other features than print's, settings chosen on validation and not on test, and scorers that "
    "are restored"
)
WHY: dict[tuple[str, str, Column], str] = {
    (r.name, DATA, column): OTHERS for r in ROWS for column in ("paper", "clean")
}

FEDMR_ML = Table(
    name="fedmr-ml",
    title="FedMR and FedVLR on MovieLens",
    rows=ROWS,
    datasets=(ML_100K_DATA, SMALL_DATA),
    metrics=(HIT, GAIN),
    settings=4,
    paper="fedmr",
    printed=printed(DATA, ML),
    why=WHY,
    tolerance=2.0,
    warmth=True,
    notes=(
        "Print: FedVLR, Table 2, column ML, one seed; FedMR has no MovieLens.",
        "The four settings of a row are those of KU; none was looked for on MovieLens.",
        "Both columns choose the round by validation HR@50, looked at every fifth round, and end "
        "20 rounds after the last better one.",
    ),
)
