"""Rows of the cold-start tables: generators on the same clients, four settings each."""

from __future__ import annotations

from tacit.benchmarks.tables.definition import Metric, Row, Setting

METRICS: tuple[Metric, ...] = (
    ("full", "Recall@20"),
    ("full", "Recall@50"),
    ("full", "Recall@100"),
    ("full", "NDCG@20"),
)

POSTERS = ("ml-100k, text and posters", "ml-1m, text and posters")
SEEN = '["text", "image"]'
# MDiffFR's clients: PFedRec 64 wide without tuned copies, five negatives
CLIENTS = ("backbone.dim=64", "sampling.negatives=5")
PLAIN = "sync.keep=false"
RATE = "local.items.per_item"


def tried(path: str, *pairs: tuple[float, float]) -> tuple[Setting, ...]:
    """Settings of the clients' item rate and one knob of the generator.

    >>> tried("cold.strength", (80, 1))
    (('local.items.per_item=80', 'cold.strength=1'),)
    """
    return tuple((f"{RATE}={rate:g}", f"{path}={value:g}") for rate, value in pairs)


def row(
    name: str,
    plugin: str,
    settings: tuple[Setting, ...],
    sets: Setting = (PLAIN,),
    reads: str | None = "cold.features",
) -> Row:
    """A generator beside those clients; `reads` is where it says which content it reads.

    >>> row("random", "random_rows", tried("x", (80, 1))).plugins
    ('random_rows',)
    """
    return Row(
        name,
        "pfedrec",
        (plugin,),
        sets=(*CLIENTS, *sets),
        on=seen(reads) if reads else (),
        settings=settings,
        rounds=100,
        search_rounds=50,
        evaluate_every=10,
    )


def seen(reads: str) -> tuple[tuple[str, Setting], ...]:
    """In the blocks with posters both are read.

    >>> seen("cold.features")[0][1]
    ('cold.features.modalities=["text", "image"]',)
    """
    return tuple((name, (f"{reads}.modalities={SEEN}",)) for name in POSTERS)


LEARNS = "cold.optimiser.rate"
MDIFFFR = row("mdifffr", "mdifffr", tried(LEARNS, (80, 1e-3), (80, 3e-3), (20, 1e-3), (20, 3e-3)))
RELEASED = row(
    "mdifffr, released",
    "mdifffr:preset=released",
    tried(LEARNS, (80, 1e-4), (80, 1e-3), (20, 1e-4), (20, 1e-3)),
)
LIGHT = row(
    "light mdifffr",
    "light_mdifffr",
    tried(LEARNS, (80, 1e-3), (80, 3e-3), (20, 1e-3), (20, 3e-3)),
)
TUNED = row(
    "mdifffr, ours",
    "mdifffr:preset=tuned",
    tuple(
        (f"{RATE}=80", f"cold.first={first}", f"cold.share={share}")
        for first, share in (
            ('{part="ridge", strength=0.03}', 0.25),
            ('{part="ridge", strength=3.0}', 0.05),
            ('{part="nearest", neighbours=10}', 0.1),
            ('{part="nearest", neighbours=30}', 0.05),
        )
    ),
    reads="cold.first.features",
)
RIDGE = row("ridge", "ridge", tried("cold.strength", (80, 0.03), (80, 0.3), (80, 3), (20, 3)))
NEAREST = row("nearest", "nearest", tried("cold.neighbours", (80, 5), (80, 10), (80, 30), (20, 30)))
RANDOM = row(
    "random rows",
    "random_rows",
    tuple((f"{RATE}={rate:g}",) for rate in (80, 20, 5, 1)),
    reads=None,
)
IPFEDREC = row(
    "ipfedrec",
    "ifedrec",
    tried("sync.strength", (80, 0.1), (80, 1), (10, 3), (10, 7)),
    sets=(),
)
IFEDNCF = Row(
    "ifedncf",
    "ifedncf",
    sets=("backbone.dim=64", "backbone.layers=[64, 1]", "local.model.rate=0.1"),
    on=seen("cold.features"),
    settings=tuple(
        ("local.items.rate=0.1", *setting)
        for setting in tried("sync.strength", (80, 0.1), (80, 1), (10, 1), (10, 7))
    ),
    search_rounds=50,
    evaluate_every=10,
)
CONTENT_RATES: tuple[Setting, ...] = tuple(
    (f"local.model.rate={rate:g}",) for rate in (0.03, 0.1, 0.3, 1)
)
CS_FCF = Row(
    "cs_fcf", "cs_fcf", settings=CONTENT_RATES, rounds=50, search_rounds=25, evaluate_every=5
)
CS_FEDNCF = Row(
    "cs_fedncf", "cs_fedncf", settings=CONTENT_RATES, rounds=50, search_rounds=25, evaluate_every=5
)
PROFILE = Row(
    "mean profile",
    "mean_profile",
    on=seen("features"),
    rounds=1,
    search_rounds=1,
    seeded=True,
    free=True,
)

ALL = (
    PROFILE,
    RANDOM,
    NEAREST,
    RIDGE,
    IPFEDREC,
    IFEDNCF,
    CS_FCF,
    CS_FEDNCF,
    RELEASED,
    MDIFFFR,
    LIGHT,
    TUNED,
)
