"""FedSpectral against the bars: central closed forms, popularity and every federated method."""

from __future__ import annotations

from tacit.benchmarks.tables.definition import Data, Row, Setting, Table, apart, each, rates

# Six settings for everybody. Closed forms: one point of their grid each, one round.
RIDGES = tuple((f"ridges=[{value}]",) for value in (20.0, 50.0, 100.0, 200.0, 500.0, 1000.0))
WIDTHS = (4, 8, 16, 32, 64, 128)
LINEAR = rates((0.1, 20.0), (0.1, 80.0), (0.1, 320.0), (0.3, 20.0), (0.3, 80.0), (0.3, 320.0))
PERCEPTRON = rates((0.5, 1.0), (0.5, 4.0), (0.5, 16.0), (1.0, 1.0), (1.0, 4.0), (1.0, 16.0))
GUIDED = rates((0.0001, 80.0), (0.001, 80.0), (0.01, 80.0), (0.1, 20.0), (0.1, 80.0), (0.3, 80.0))
PRIVATE_PERCEPTRON = rates(
    (0.1, 20.0), (0.1, 80.0), (0.1, 320.0), (0.5, 4.0), (0.5, 20.0), (0.5, 80.0)
)
# 5 epochs over large batches: smaller η than the one-epoch methods
FIVE_EPOCHS = rates((0.1, 1.0), (0.1, 4.0), (0.1, 16.0), (0.3, 1.0), (0.3, 4.0), (0.3, 16.0))
PLAIN_ITEMS = each("local.items.rate", 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
RECONSTRUCTED = tuple(
    (
        f"local.model.rate={rate}",
        f"local.items.per_item={per_item}",
        f"local.reconstruct_epochs={epochs}",
    )
    for rate, per_item in ((1.0, 20.0), (3.0, 5.0))
    for epochs in (1, 3, 5)
)
ADAM = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
BOTH_ADAMS = apart("local.rate", "server.rate", *((rate, rate) for rate in ADAM))
SCORER_AND_TABLES = apart(
    "local.model.rate",
    "local.items.rate",
    *((network, tables) for network in (0.0001, 0.01, 0.5) for tables in (200.0, 1000.0)),
)
DUAL = ("dual_personalised",)


def _closed(name: str, settings: tuple[Setting, ...]) -> Row:
    return Row(
        name, name, settings=settings, rounds=1, search_rounds=1, evaluate_every=1, seeded=False
    )


ROWS = (
    Row(
        "fedspectral",
        "fedspectral",
        settings=each("width", *WIDTHS),
        rounds=10,
        search_rounds=5,
        evaluate_every=1,
    ),
    _closed("pure_svd", tuple((f"widths=[{width}]",) for width in WIDTHS)),
    _closed("ease", RIDGES),
    _closed("fedease", RIDGES),
    Row(
        "popularity",
        "popularity",
        rounds=1,
        search_rounds=1,
        evaluate_every=1,
        seeded=False,
        free=True,
    ),
    Row("fedmf", "fedmf", settings=LINEAR),
    Row("fedncf", "fedncf", settings=PERCEPTRON),
    Row("pfedrec", "pfedrec", settings=LINEAR),
    Row("fedncf + dual", "fedncf", DUAL, settings=PERCEPTRON),
    Row("fedrecon", "fedrecon", settings=RECONSTRUCTED),
    Row("fedrecon + dual", "fedrecon", DUAL, settings=RECONSTRUCTED),
    Row("fcf", "fcf", settings=FIVE_EPOCHS),
    Row("fcf_als", "fcf_als", settings=each("server.rate", *ADAM), evaluate_every=10),
    Row("fedavg", "fedavg", settings=PLAIN_ITEMS),
    Row(
        "metamf", "metamf", settings=each("server.rate", *ADAM), search_rounds=20, evaluate_every=10
    ),
    Row("fedpergnn", "fedpergnn", settings=BOTH_ADAMS, search_rounds=20, evaluate_every=10),
    Row("feddae", "feddae", settings=BOTH_ADAMS, search_rounds=20, evaluate_every=10),
    Row("fedrap", "fedrap", settings=SCORER_AND_TABLES),
    Row("gpfedrec", "gpfedrec", settings=PRIVATE_PERCEPTRON, search_rounds=20, evaluate_every=10),
    Row(
        "cofedrec",
        "cofedrec",
        sets=("server.sample=256",),  # a quarter of the default: 24 s a round become 5
        settings=LINEAR,
        search_rounds=20,
        evaluate_every=10,
    ),
    Row(
        "fedrkg",
        "fedmf",
        ("fedrkg",),
        settings=GUIDED,
        rounds=1000,
        search_rounds=200,
        evaluate_every=10,
    ),
    Row("local_only (control)", "local_only", settings=LINEAR),
)

BARS = Table(
    name="bars",
    title="FedSpectral against the bars, clean protocol",
    rows=ROWS,
    datasets=(Data("ml-100k"), Data("amazon-video-10"), Data("amazon-video"), Data("ml-1m")),
    metrics=(("full", "HR@10"), ("full", "NDCG@10")),
    settings=6,
    against="fedspectral",
    notes=(
        "ease and pure_svd see all histories in one place; all other methods but popularity, whose "
        "counts are a sum, are federated.",
        "A closed form in which nothing is drawn is run once.",
    ),
)
