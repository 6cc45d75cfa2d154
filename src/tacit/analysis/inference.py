"""What an own item table brings: the same scorer with its own, the global and another's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from tacit import streams
from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun, require_alike
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.views import History
from tacit.engines.scoring import client_parameters
from tacit.engines.state import State
from tacit.evaluation.metrics import metric, per_user
from tacit.evaluation.ranking import ScoreBlock, rank
from tacit.evaluation.significance import paired_bootstrap
from tacit.experiment.charts import GREY, PALETTE, caption, legend_outside, new_figure
from tacit.study.compare import difference_text

# Which item table a client ranks with, and states in which it ranks with another one.
#
# A table is exchanged by exchanging parameters of the state and asking the scorer as always, so
# nothing here knows how a method reads its tables.


@torch.no_grad()
def item_vectors(
    algorithm: ComposedAlgorithm, state: State, user: int, history: History | None = None
) -> np.ndarray:
    """The (I, D) vectors that one user's scorer sees; `history` is the user's own, for items that
    look different to everybody.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> state = State({"items": torch.ones(3, 2)}, {"user": torch.ones(1, 2)})
    >>> item_vectors(compose(fedmf(dim=2), Task(1, 3)), state, 0).shape
    (3, 2)
    """
    p = client_parameters(algorithm, state, user, history)
    return algorithm.encoded(p, algorithm.method.sync.read).numpy()


@torch.no_grad()
def adds_global(algorithm: ComposedAlgorithm) -> bool:
    """Whether a client with a personal table reads the global one beside it when it ranks.

    Asked of the method itself, with parameters of ones: does what it reads change without the
    global table?

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> adds_global(compose(fedmf(), Task(1, 3)))  # it has no personal table
    False
    """
    if OWN_ITEMS not in algorithm.private or ITEMS not in algorithm.shared:
        return False
    parameters = {**algorithm.shared, **algorithm.private}
    p = {name: torch.ones(init.shape) for name, init in parameters.items()}
    empty = {**p, ITEMS: torch.zeros_like(p[ITEMS])}
    read = algorithm.method.sync.read
    return not torch.equal(read(p), read(empty))


@dataclass(frozen=True, eq=False)
class ReadTables:
    """Ways to rank with one's own scorer, by the table's name; sentences say what is absent."""

    scores: dict[str, ScoreBlock]
    sentences: tuple[str, ...]


def exchanged(
    name: str,
    algorithm: ComposedAlgorithm,
    state: State,
    scorer: Callable[[State], ScoreBlock],
    seed: int,
) -> ReadTables:
    """The client's own table, the global one, and another user's, as far as they exist."""
    if state.tuned is None and OWN_ITEMS not in state.private:
        return ReadTables(
            {"global": scorer(state)},
            (f"{name} ranks with the global table, so there is no own one to exchange.",),
        )
    scores = {"own": scorer(state)}
    said = []
    if state.tuned is not None:
        scores["global"] = scorer(replace(state, tuned=None, broadcast=None))
    elif ITEMS not in state.shared:
        said.append(f"{name} has no global table: nothing is ever sent.")
    elif adds_global(algorithm):
        own = state.private[OWN_ITEMS]
        nothing = torch.zeros(1, dtype=own.dtype).expand(own.shape)
        scores["global"] = scorer(_with_own(state, nothing))
        scores["personal part"] = scorer(_without_global(state))
        said.append(
            f"{name} adds its personal table to the global one: 'own' is the sum, and each of the "
            "two stands alone beside it."
        )
    else:
        everybody = state.shared[ITEMS].expand(state.private[OWN_ITEMS].shape)
        scores["global"] = scorer(_with_own(state, everybody))
    scores["another's"] = _anothers(state, scorer, seed)
    return ReadTables(scores, tuple(said))


def _without_global(state: State) -> State:
    nothing = torch.zeros_like(state.shared[ITEMS])
    return replace(state, shared={**state.shared, ITEMS: nothing})


def _with_own(state: State, table: torch.Tensor) -> State:
    return replace(state, private={**state.private, OWN_ITEMS: table})


def someone_else(n_users: int, seed: int) -> np.ndarray:
    """Another user for every user, each taken once: a random order, everybody has the next one's.

    >>> other_U = someone_else(5, seed=0)
    >>> sorted(other_U.tolist()), bool((other_U != np.arange(5)).all())
    ([0, 1, 2, 3, 4], True)
    """
    name = streams.name_of("another user's table")
    order = streams.numpy_generator(seed, streams.RESAMPLE, 0, name).permutation(n_users)
    other_U = np.empty(n_users, dtype=np.int64)
    other_U[order] = np.roll(order, -1)
    return other_U


def _anothers(state: State, scorer: Callable[[State], ScoreBlock], seed: int) -> ScoreBlock:
    """Every scorer moves to the device of somebody else, and ranks with what it finds there."""
    n_users = len(next(iter(state.private.values())))
    other_U = someone_else(n_users, seed)
    guest_U = torch.from_numpy(np.argsort(other_U))  # whose scorer comes to each device
    moved = {
        name: parameter if name == OWN_ITEMS else parameter[guest_U]
        for name, parameter in state.private.items()
    }
    block = scorer(replace(state, private=moved))
    return lambda user_B: block(other_U[user_B])


# What an own item table brings: the same scorer with its own, the global and another's table.

SHOWN = ("HR@10", "NDCG@10")
TABLES = ("own", "global", "another's", "personal part")  # in this order, each with its colour


def inference(runs: Sequence[FinishedRun]) -> Finding:
    """Test metrics of the kept model with exchanged item tables; scorers stay whose they are."""
    require_alike(runs)
    rows: list[tuple[Any, ...]] = []
    sentences: list[str] = []
    for run in runs:
        added, said = _rows(run)
        rows += added
        sentences += said
    columns = (
        Column("run", word),
        Column("table", word),
        *(Column(name) for name in SHOWN),
        *(Column(f"{name} vs 99") for name in SHOWN),
        Column("NDCG@10 against own (95 %)", word),
    )
    table = Table("inference", f"Test, {runs[0].place}", columns, tuple(rows))
    return Finding("inference", (table,), _figure(runs, table), tuple(sentences))


def _rows(run: FinishedRun) -> tuple[list[tuple[Any, ...]], tuple[str, ...]]:
    ties, test = run.experiment.protocol.ties, run.prepared.split.test
    tables = exchanged(run.name, run.algorithm, run.state, run.scores, run.experiment.seed)
    own_E: np.ndarray | None = None
    rows = []
    for name, scores in tables.scores.items():
        evaluation = rank(scores, test)
        value_E = per_user(evaluation.full, "NDCG@10", ties)[1]
        own_E = value_E if name == "own" else own_E
        against = None
        if own_E is not None and name != "own":
            against = difference_text(paired_bootstrap(value_E, own_E))
        rows.append(
            (
                run.name,
                name,
                *(metric(evaluation.full, shown, ties) for shown in SHOWN),
                *(metric(evaluation.sampled, shown, ties) for shown in SHOWN),
                against,
            )
        )
    return rows, tables.sentences


def _figure(runs: Sequence[FinishedRun], table: Table) -> Figure:
    records = table.records()
    place_of: dict[str, list[float]] = {run.name: [] for run in runs}
    names = [run.name for run in runs]
    for number, record in enumerate(records):  # one under another, runs a little apart
        place_of[record["run"]].append(number + 0.6 * names.index(record["run"]))
    places = [at for several in place_of.values() for at in several]
    figure, panels = new_figure(len(SHOWN), width=4.6, height=1.6 + 0.36 * (places[-1] + 1))
    popularity = runs[0].record.reference.full.popularity
    for panel, metric_name in zip(panels, SHOWN, strict=True):
        for name, shade in zip(TABLES, PALETTE, strict=False):
            own = [
                (y, r[metric_name])
                for y, r in zip(places, records, strict=True)
                if r["table"] == name
            ]
            if own:
                label = name if name == "personal part" else f"{name} table"
                panel.barh([y for y, _ in own], [x for _, x in own], 0.9, color=shade, label=label)
            for y, x in own:
                panel.text(x, y, f" {x:.4f}", va="center", fontsize=9)
        panel.axvline(popularity[metric_name], color=GREY, linestyle="--", label="popularity")
        panel.set_xlabel(f"test {metric_name}, full ranking")
        middles = [float(np.mean(at)) for at in place_of.values()]
        panel.set_yticks(middles, list(place_of) if panel is panels[0] else [])
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        panel.margins(x=0.18)
    legend_outside(figure, panels[0])
    figure.suptitle(runs[0].place, fontsize=11)
    caption(figure, "Each user's own scorer throughout; only the item table is exchanged.")
    return figure
