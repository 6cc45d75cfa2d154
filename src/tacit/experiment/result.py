"""From a finished training to its record: metrics, references, breakdown, cost and provenance."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tacit.data.dataset import Dataset
from tacit.data.digest import DataDigest
from tacit.data.protocol import Protocol
from tacit.data.replay import DrawnNegatives
from tacit.data.split import cautions, resolved_split
from tacit.data.views import TrainView
from tacit.errors import TacitError
from tacit.evaluation.metrics import parse_metric, summary
from tacit.evaluation.ranking import Evaluation, rank, rank_one_list
from tacit.evaluation.ranks import Ranks
from tacit.evaluation.references import (
    by_seen,
    chance,
    item_coverage,
    mean_popularity,
    mean_scores,
    ndcg_index_order,
    never_sampled,
    popularity,
    top_shares,
)
from tacit.experiment.claims import chosen_in_sight
from tacit.experiment.interpretation import sampled_notes
from tacit.experiment.plugins import plugin_notes, quirk_notes
from tacit.experiment.prepare import Prepared
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import (
    Beyond,
    Breakdown,
    BreakdownPart,
    Cold,
    Cost,
    Counts,
    DataSize,
    DataStep,
    Draws,
    MeanDeviation,
    Metrics,
    Order,
    Privacy,
    Ranking,
    Reference,
    Scorers,
    TestRelease,
    WithoutContent,
)
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.files import whole_file

# The part of a result that only runs on untouched items have.

COLD_CUTOFFS = (20, 50, 100)
NAMES = ("Recall", "Precision", "NDCG")
DRAWS = 5  # of noise, where a generator has any


def cold_part(
    experiment: Experiment, prepared: Prepared, trainer: Trainer, test: Evaluation, threads: int
) -> Cold:
    """Recall, precision and NDCG at 20, 50 and 100; the list that is the same for everybody; other
    draws of noise; items without content apart; how few items hold the interactions."""
    held_out, ties = prepared.split.test, experiment.protocol.ties
    scores = trainer.best_scores()
    everybody = rank_one_list(mean_scores(scores, held_out.user_E), held_out)
    top_EK = rank(scores, held_out, top=max(COLD_CUTOFFS), threads=threads).top_EK
    assert top_EK is not None
    seconds = trainer.generator_seconds
    return Cold(
        metrics=summary(test.full, COLD_CUTOFFS, NAMES, ties),
        same_for_all=summary(everybody.full, COLD_CUTOFFS, NAMES, ties),
        ndcg_index_order={f"NDCG@{k}": ndcg_index_order(top_EK, held_out, k) for k in COLD_CUTOFFS},
        top_shares=top_shares(held_out),
        without_content=_without_content(experiment, prepared, test),
        generator_seconds_a_round=float(np.mean(seconds)) if seconds else None,
        draws=_draws(trainer, prepared, ties, threads),
    )


def _without_content(
    experiment: Experiment, prepared: Prepared, test: Evaluation
) -> WithoutContent | None:
    """Test items that have none of the content that the generator reads; None if all have it."""
    method = experiment.method.composed
    if method is None or method.cold is None:
        return None
    content = prepared.split.train.content
    tables = [content[name] for name in method.cold.features.modalities if name in content]
    absent_I = ~np.any([table.present_I for table in tables], axis=0) if tables else np.zeros(1)
    if not absent_I.any():
        return None
    some = test.full.where(absent_I[test.full.item_H])
    ties = experiment.protocol.ties
    return WithoutContent(
        items=int(absent_I[np.unique(prepared.split.test.relevant.item_N)].sum()),
        held_out=len(some),
        metrics=summary(some, COLD_CUTOFFS, NAMES, ties) if len(some) else {},
    )


def _draws(trainer: Trainer, prepared: Prepared, ties: Any, threads: int) -> Draws | None:
    """Metrics over several draws of noise; None where nothing is drawn."""
    found = []
    for draw in range(DRAWS):
        scores = trainer.draw_scores(draw)
        if scores is None:
            return None
        ranks = rank(scores, prepared.split.test, threads=threads).full
        found.append(summary(ranks, COLD_CUTOFFS, NAMES, ties))
    spreads = {
        name: MeanDeviation(
            mean=float(np.mean([one[name] for one in found])),
            deviation=float(np.std([one[name] for one in found], ddof=1)),
        )
        for name in found[0]
    }
    return Draws(number=len(found), **spreads)


# The record of every run.

CANDIDATES = {"full": "full", "sampled": "sampled99"}  # in ranks, and in results
CUTOFFS = (5, 10, 20, 50, 100)


def write_ranks(path: Path, evaluation: Evaluation, dataset: Dataset) -> None:
    """Both rankings in one parquet file, with original ids, whole or not at all."""
    users, items = dataset.interactions.users, dataset.interactions.items
    table = pl.concat([r.frame(users, items) for r in (evaluation.full, evaluation.sampled)])
    with whole_file(path, library_errors=(pl.exceptions.PolarsError,)) as temporary:
        table.write_parquet(temporary)


def read_ranks(path: Path) -> Evaluation:
    """What `write_ranks` wrote."""
    if not path.is_file():
        raise TacitError(f"No ranks at {str(path)!r}; the run is not finished, or a file is lost.")
    parts = {}
    try:
        table = pl.read_parquet(path)
        for name in CANDIDATES:
            rows = table.filter(pl.col("candidate_set") == name)
            parts[name] = Ranks(
                rows["user"].to_numpy(),
                rows["item"].to_numpy(),
                rows["above"].to_numpy(),
                rows["tied"].to_numpy(),
                rows["candidates"].to_numpy(),
                "test",
                name,  # type: ignore[arg-type]
            )
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise TacitError(f"{str(path)!r} is damaged and cannot be read; train again.") from error
    return Evaluation(parts["full"], parts["sampled"])


def cutoffs_of(protocol: Protocol) -> list[int]:
    """The usual cut-offs, and the one at which the protocol selects.

    >>> cutoffs_of(Protocol(select_metric="HR@15"))
    [5, 10, 15, 20, 50, 100]
    """
    return sorted({*CUTOFFS, parse_metric(protocol.select_metric)[1]})


def both_rankings(evaluation: Evaluation, ties: Any, cutoffs: Sequence[int] = CUTOFFS) -> Metrics:
    """HR, Recall and NDCG of both rankings."""
    return Metrics(
        full=summary(evaluation.full, cutoffs, ties=ties),
        sampled99=summary(evaluation.sampled, cutoffs, ties=ties),
    )


def references(
    prepared: Prepared,
    drawn: DrawnNegatives,
    ties: Any,
    cutoffs: Sequence[int] = CUTOFFS,
    threads: int = 1,
) -> Reference:
    """Popularity, chance and the never-sampled oracle under the same candidates and mask."""
    train, test = prepared.split.train, prepared.split.test
    popular = both_rankings(popularity(train, test), ties, cutoffs)
    # a tie rule says nothing of chance: that is the expectation over orders, by definition
    by_chance = both_rankings(chance(test), "expected", cutoffs)
    oracle = both_rankings(never_sampled(drawn, test, threads), "expected", cutoffs)

    def in_ranking(ranking: Ranking) -> Scorers:
        return Scorers(
            popularity=popular.of(ranking),
            chance=by_chance.of(ranking),
            never_sampled=oracle.of(ranking),
        )

    return Reference(full=in_ranking("full"), sampled99=in_ranking("sampled99"))


def order_of(train: TrainView, read: bool) -> Order:
    """How the histories of a view are ordered.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 2]), np.array([5, 7]))
    >>> train = TrainView(8, lists, np.zeros(1, np.uint64), Lists.empty(1))
    >>> order_of(train, read=False).by
    'file'
    """
    order = train.histories.order
    return Order(by=order.by, tied=order.ties, latest_of_tied=train.latest_of_tied, read=read)


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """What a run runs with; the files that say so are read once. A library that lies on the path
    without being installed is refused: no record could say which one ran.

    >>> [name for name, _ in versions()]
    ['python', 'tacit', 'torch', 'numpy', 'numba', 'polars']
    """
    found = [("python", platform.python_version())]
    for name in ("tacit", "torch", "numpy", "numba", "polars"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError as error:
            raise TacitError(
                f"{name} is on the path without being installed, so no record could say which "
                "version ran; install it with pip."
            ) from error
    return tuple(found)


def make_record(
    experiment: Experiment,
    prepared: Prepared,
    trainer: Trainer,
    test: Evaluation,
    *,
    rounds_run: int,
    selected_round: int,
    selected_value: float,
    seconds: float,
    cpu_seconds: float,
    threads: int,
    folder: Path,
    data: DataDigest,
) -> RunRecord:
    """The record of a run whose selected round has the ranks `test`, with top lists of ten."""
    protocol, split = experiment.protocol, prepared.split
    assert test.top_EK is not None
    popularity_I = split.train.popularity_I()
    cutoffs, drawn = cutoffs_of(protocol), trainer.drawn(selected_round)
    shares = by_seen(test.full, popularity_I, cutoffs, ties=protocol.ties)
    parts = {
        name: BreakdownPart(
            users=share.users, held_out=share.held_out, full=share.values, adds=share.adds
        )
        for name, share in shares.items()
    }
    kind = "full-ranking" if protocol.select_on == "full" else "sampled-candidates"
    is_cold = split.train.warm_W is not None
    order = order_of(split.train, trainer.algorithm.reads_order)
    return RunRecord(
        method=experiment.name,
        plugins=experiment.plugins,
        kind=trainer.algorithm.kind,
        dataset=experiment.data.name,
        protocol=protocol.name,
        clean=protocol.is_clean,
        split=resolved_split(protocol.split, prepared.dataset).text,
        preset=experiment.preset,
        seed=experiment.seed,
        # what validation chose among: a closed form has settings where others have rounds
        unit=trainer.algorithm.unit,
        rounds=experiment.rounds,
        rounds_run=rounds_run,
        selected_round=selected_round,
        selection=(
            f"{kind} validation {protocol.select_metric}, {protocol.select_of_equals} of equals"
            if protocol.select == "best"
            else "taking the last one, whatever validation says"
        ),
        select_metric=protocol.select_metric,
        engine=trainer.describe(),
        device=experiment.device,
        run=str(folder),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        threads=threads,
        metrics=both_rankings(test, protocol.ties, cutoffs),
        reference=references(prepared, drawn, protocol.ties, cutoffs, threads),
        breakdown=Breakdown(warm=parts["warm"], unseen=parts["unseen"]),
        beyond=Beyond(
            coverage_at_10=item_coverage(test.top_EK, split.train.n_items),
            mean_popularity_at_10=mean_popularity(test.top_EK, popularity_I),
        ),
        privacy=Privacy.of(
            trainer.guarantee(),
            trainer.disclosure().sentences(),
            chosen_in_sight(experiment, trainer.algorithm),
        ),
        cost=Cost(**trainer.cost(selected_round)),
        ledger=trainer.ledger(rounds_run),
        counts=Counts(**split.counts),
        order=order,
        steps=tuple(
            DataStep(rule=s.rule, before=DataSize(**s.before), after=DataSize(**s.after))
            for s in prepared.dataset.steps
        ),
        cautions=cautions(prepared.dataset, protocol, split),
        notes=(
            *prepared.dataset.notes,
            *quirk_notes(experiment),
            *plugin_notes(experiment),
            *sampled_notes(protocol.sampled),
            *((order.text,) if order.read else ()),
        ),
        test_released=TestRelease(round=selected_round, validation_value=selected_value),
        versions=dict(versions()),
        data=data,
        cold=cold_part(experiment, prepared, trainer, test, threads) if is_cold else None,
    )
