"""FedRKG's Table 1: R@10 and N@10 of the full ranking, on its datasets and ML-100K."""

from __future__ import annotations

from tacit.benchmarks.tables.definition import Column, Row, Setting, Table
from tacit.benchmarks.tables.fedrkg_data import ALL, DEDUPLICATED
from tacit.benchmarks.tables.fedrkg_print import (
    FILMTRUST,
    GAIN,
    HIT,
    LASTFM,
    ML_1M,
    TABLE_1,
    VIDEO,
    printed,
)
from tacit.benchmarks.tables.tried import (
    BOTH_ADAMS,
    CENTRAL,
    GUIDED,
    LINEAR,
    PERCEPTRON,
    PRIVATE_PERCEPTRON,
    PRIVATE_PERCEPTRON_LASTFM,
    SCORER_AND_TABLES,
    SMALL_STEPS_LASTFM,
)

TOWER = ("backbone.layers=[32, 1]",)  # 64-32-1
HEAD = ('backbone={part="mlp_head", layers=[16, 1]}',)  # 32-16-1, FedRKG's copy of PFedRec
# on LastFM the paper keeps 0.999 of the personal table
SLOWER: tuple[tuple[str, Setting], ...] = tuple(
    (name, ("sync.beta=0.999",)) for name in (LASTFM, DEDUPLICATED)
)
# with repeats kept; without them one of the usual rates is stable
MILDER_ON_REPEATS = ((LASTFM, PRIVATE_PERCEPTRON_LASTFM),)

RELEASED = "fedrkg, released habits"
# a linear scorer with a bias, gradients bounded, rates that shrink on Amazon-Video
SHRINKING = ("local.model.decay=0.99", "local.items.decay=0.99")

ROWS = (
    Row("mf", "mf", settings=CENTRAL, rounds=50, search_rounds=25),
    Row("neumf", "neumf", settings=CENTRAL, rounds=30, search_rounds=15),
    Row("fedmf", "fedmf", settings=LINEAR),
    Row("fedncf", "fedncf", sets=TOWER, settings=PERCEPTRON),
    Row(
        "pfedrec", "pfedrec", sets=HEAD, settings=PRIVATE_PERCEPTRON, settings_on=MILDER_ON_REPEATS
    ),
    Row(
        "gpfedrec",
        "gpfedrec",
        settings=PRIVATE_PERCEPTRON,
        settings_on=((LASTFM, SMALL_STEPS_LASTFM),),
        search_rounds=20,
        evaluate_every=10,
    ),
    Row(
        "cofedrec",
        "cofedrec",
        sets=("server.sample=256",),  # a quarter of the default: 24 s a round become 5
        settings=LINEAR,
        search_rounds=20,
        evaluate_every=10,
    ),
    Row("fedrap", "fedrap", settings=SCORER_AND_TABLES, search_rounds=20, evaluate_every=10),
    Row("feddae", "feddae", settings=BOTH_ADAMS, search_rounds=20, evaluate_every=10),
    Row(
        "fedrkg",
        "fedmf",
        ("fedrkg",),
        on=SLOWER,
        settings=GUIDED,
        rounds=1000,
        search_rounds=200,
        evaluate_every=10,
    ),
    Row(
        RELEASED,
        "fedmf",
        ("fedrkg:clip=1.0",),
        sets=('backbone={part="linear_head"}',),
        on=(*SLOWER, (VIDEO, SHRINKING)),
        settings=GUIDED,
        rounds=1000,
        search_rounds=200,
        evaluate_every=10,
    ),
)

_ORACLE = (
    "personal tables of the paper's text rank like the never-sampled oracle: a held-out item that "
    "nobody ever draws stays above all that were; the row below has the released code's habits"
)
_CHANCE = (
    "tables that meet every hundredth round at β = 0.99 hardly know an item their user never "
    "touched; four rates were searched, and the same code reaches print on the published pool"
)
SHORT = "the paper trains 3,000 rounds here, this table 1,000, and the last is the best"
_UNBOUNDED = (
    "the term that drives FedRAP's two tables apart has no lower bound, and the loss sinks "
    "ever further below zero; "
    "the released code shrinks its rates within a round, which the paper does not say and we do "
    "not do"
)
_CLEAN = "held-out items may be drawn as negatives"
_UNKNOWN = "rates behind the print are unpublished; best of four on validation"
_BASELINES = [row.name for row in ROWS if row.name not in ("fedrkg", RELEASED)]
WHY: dict[tuple[str, str, Column], str] = {
    **{(row.name, data.name, "clean"): _CLEAN for row in ROWS for data in ALL},
    **{(name, data.name, "paper"): _UNKNOWN for name in _BASELINES for data in ALL},
    **{("fedrap", data.name, "paper"): _UNBOUNDED for data in ALL},
    # an autoencoder reads histories alone: it has no pool of negatives that could leak
    **{("feddae", data.name, "clean"): f"draws no negatives; {_UNKNOWN}" for data in ALL},
    ("fedrkg", VIDEO, "paper"): _ORACLE,
    ("fedrkg", FILMTRUST, "clean"): _CHANCE,
    ("fedrkg", VIDEO, "clean"): _CHANCE,
    ("fedrkg", ML_1M, "clean"): _CHANCE,
    ("fedrkg", LASTFM, "paper"): SHORT,
    (RELEASED, LASTFM, "paper"): SHORT,
    (
        "fedmf",
        FILMTRUST,
        "paper",
    ): "rates searched on validation; print 33.82 in the paper's Table 3",
}

FEDRKG_MAIN = Table(
    name="fedrkg-main",
    title="FedRKG, Table 1",
    rows=ROWS,
    datasets=ALL,
    metrics=(HIT, GAIN),
    settings=4,
    paper="fedrkg",
    printed=printed(TABLE_1),
    why=WHY,
    tolerance=1.0,
    notes=(
        "R@10 is HR@10: every user has one held-out item. As in the paper, FedNCF's tower is "
        "64-32-1 and PFedRec's head 32-16-1.",
        "FedRKG trains 1,000 rounds, and 3,000 on LastFM; here 1,000 on all, and all other methods "
        "100, as their own papers do. Under its protocol a run stops after 100 rounds without a "
        "better validation value.",
    ),
)
