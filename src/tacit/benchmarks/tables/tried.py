"""What each kind of method tries on validation, four settings each, in the papers' tables.

Rates are around those of the released code where there is one, and around the presets elsewhere.
"""

from __future__ import annotations

from tacit.benchmarks.tables.definition import apart, each, rates

LINEAR = rates((0.1, 20.0), (0.1, 80.0), (0.3, 20.0), (0.3, 80.0))
PERCEPTRON = rates((0.5, 1.0), (0.5, 4.0), (1.0, 1.0), (1.0, 4.0))
PRIVATE_PERCEPTRON = rates((0.1, 20.0), (0.1, 80.0), (0.5, 4.0), (0.5, 20.0))
# a vector fitted from scratch in every round needs larger steps, or more of them, than one that is
# kept; the points are those that did best of a dozen on ML-100K's validation part
RECONSTRUCTED = tuple(
    (
        f"local.model.rate={rate}",
        f"local.items.per_item={per_item}",
        f"local.reconstruct_epochs={epochs}",
    )
    for rate, per_item, epochs in ((3.0, 5.0, 1), (3.0, 5.0, 3), (1.0, 20.0, 1), (1.0, 20.0, 5))
)
CENTRAL = each("optimiser.rate", 0.0003, 0.001, 0.003, 0.01)
SERVER_ADAM = each("server.rate", 0.0003, 0.001, 0.003, 0.01)
BOTH_ADAMS = apart("local.rate", "server.rate", *((r, r) for r in (0.001, 0.003, 0.01, 0.03)))
# FedRAP steps its scorer and its tables at rates of their own; the first is its released command.
# Its term that drives the two tables apart is unbounded below, so weaker ones are tried as well.
SCORER_AND_TABLES = tuple(
    (f"local.model.rate={scorer}", f"local.items.rate={tables}", f"sync.apart={term}")
    for scorer, tables, term in (
        (0.0001, 1000.0, 0.1),
        (0.1, 1000.0, 0.01),
        (0.5, 200.0, 0.01),
        (0.5, 200.0, 0.0),
    )
)
# FedRKG searches 1e-4 to 1e-1 in steps of ten, at η = 80
GUIDED = rates((0.0001, 80.0), (0.001, 80.0), (0.01, 80.0), (0.1, 80.0))
GUIDED_PERCEPTRON = rates((0.1, 20.0), (0.1, 80.0), (0.5, 4.0), (1.0, 4.0))
# Items step at rate·η·I, and LastFM has twelve thousand of them, some many times in one history: at
# the η above every setting of these rows diverged there on some seed. A fifth of each; rows that
# diverged at a fifth, too, take the last.
PRIVATE_PERCEPTRON_LASTFM = rates((0.1, 4.0), (0.1, 16.0), (0.5, 0.8), (0.5, 4.0))
SMALL_STEPS_LASTFM = rates((0.01, 4.0), (0.01, 40.0), (0.1, 0.4), (0.1, 1.0))
