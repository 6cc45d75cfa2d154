"""The inversion attack: what the embeddings of cold items say about their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tacit import streams
from tacit.analysis.finished import finished_runs, require_alike
from tacit.attack.attackers import ATTACKERS, FLOOR
from tacit.attack.measures import Measures, differences, leakage, measure
from tacit.engines.device import one_torch_thread
from tacit.errors import TacitError
from tacit.experiment.add_items import load_cold_model

# The inversion attack: what the embeddings of cold items say about their content.
#
# An attacker receives all generated embeddings, as every client does, and knows the content of a
# few of the items. It learns content from embedding on those and reconstructs the rest. Shape
# suffixes: R draws of the generator, C cold items, D width of an embedding, F of the content, K
# items whose content leaked, N the others, V items that are shown.

FEWEST_KNOWN = 10  # of which one is held out from training
FEWEST_UNKNOWN = 2  # a pair
SHOWN = 20  # items in the matrix of differences


NOTHING, SHUFFLED, ONE = "nothing", "shuffled", "1 draw"


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attacker with one view of the embeddings.

    >>> Attempt("ridge", ONE, Measures(1.0, 0.8, 0.1, 0.1, 0.4), None, np.zeros((2, 2))).view
    '1 draw'
    """

    attacker: str
    view: str  # nothing, shuffled, 1 draw, mean of 10
    mean: Measures  # over seeds
    deviation: Measures | None  # over seeds; None where there is one
    difference_VV: np.ndarray  # S' - S of random items, first seed


@dataclass(frozen=True, eq=False)
class Inversion:
    """All attempts on the embeddings of one generator; the first one is the floor.

    >>> floor = Attempt(FLOOR, NOTHING, Measures(1.0, 0.8, 0.0, 0.0, 1.0), None, np.zeros((2, 2)))
    >>> Inversion(20, 80, 64, 64, 1, 1, (floor,)).floor.attacker
    'mean'
    """

    known: int
    unknown: int
    width: int
    content_width: int
    draws: int
    seeds: int
    attempts: tuple[Attempt, ...]

    @property
    def floor(self) -> Attempt:
        return self.attempts[0]

    @property
    def attacks(self) -> tuple[Attempt, ...]:
        """Attempts that see embeddings as they are: neither the floor nor a control."""
        return tuple(one for one in self.attempts if one.view not in (NOTHING, SHUFFLED))

    def leakage(self, attempt: Attempt) -> Measures:
        """What of the content an attack got, from 0 to 1; of the means over seeds."""
        control = next(
            one for one in self.attempts if (one.attacker, one.view) == (attempt.attacker, SHUFFLED)
        )
        return leakage(attempt.mean, self.floor.mean, control.mean)


@one_torch_thread()
def invert(
    embedding_RCD: np.ndarray, content_CF: np.ndarray, *, leaked: float = 0.2, seeds: int = 5
) -> Inversion:
    """Attack with every attacker, on one draw and, where there are more, on the mean of all; and as
    a control on one draw whose rows belong to other items.

    A seed draws the items that leak and the attacker's own randomness, and decides which draw is
    the one. Cosine, Pearson and structure are taken around the mean of the leaked items, which
    needs no embedding: for the floor nothing is left, so they are 0, 0 and that of "all alike".

    >>> generator = np.random.default_rng(0)
    >>> content_CF = generator.normal(size=(60, 3))
    >>> result = invert(content_CF[None] @ generator.normal(size=(3, 4)), content_CF, seeds=2)
    >>> for one in result.attempts[0], result.attempts[2]:
    ...     one.attacker, one.view, round(one.mean.pearson, 2)
    ('mean', 'nothing', 0.0)
    ('ridge', '1 draw', 1.0)
    """
    embedding_RCD = np.asarray(embedding_RCD, np.float64)
    content_CF = np.asarray(content_CF, np.float64)
    require_settings(leaked, seeds)
    n_known = _known(embedding_RCD, content_CF, leaked)
    draws, items, width = embedding_RCD.shape
    found: dict[tuple[str, str], list[Measures]] = {}
    shown: dict[tuple[str, str], np.ndarray] = {}
    for seed in range(seeds):
        generator = streams.numpy_generator(seed, streams.SPLIT, 0, streams.name_of("inversion"))
        order_C, mixed_C = generator.permutation(items), generator.permutation(items)
        known_K, unknown_N = np.sort(order_C[:n_known]), np.sort(order_C[n_known:])
        shown_V = generator.permutation(len(unknown_N))[:SHOWN]
        content_KF = content_CF[known_K]
        around_F = content_KF.mean(axis=0)
        truth_NF = content_CF[unknown_N] - around_F
        one_CD = embedding_RCD[seed % draws]
        views = {SHUFFLED: one_CD[mixed_C], ONE: one_CD}
        if draws > 1:
            views[f"mean of {draws}"] = embedding_RCD.mean(axis=0)
        for name, attacker in ATTACKERS.items():
            seen = {NOTHING: one_CD} if name == FLOOR else views
            for view, seen_CD in seen.items():
                guess_NF = attacker(seen_CD[known_K], content_KF, seen_CD[unknown_N], seed)
                guess_NF = guess_NF - around_F
                found.setdefault((name, view), []).append(measure(truth_NF, guess_NF))
                shown.setdefault((name, view), differences(truth_NF, guess_NF, shown_V))
    attempts = tuple(Attempt(*key, *_over_seeds(found[key]), shown[key]) for key in found)
    return Inversion(n_known, items - n_known, width, content_CF.shape[1], draws, seeds, attempts)


def require_settings(leaked: float, seeds: int) -> None:
    """Refuse what no data could make sense of.

    >>> require_settings(leaked=1.5, seeds=5)
    Traceback (most recent call last):
    tacit.errors.TacitError: leaked is 1.5; it is a share of the items, between 0 and 1.
    """
    if not 0 < leaked < 1:
        raise TacitError(f"leaked is {leaked:g}; it is a share of the items, between 0 and 1.")
    if seeds < 1:
        raise TacitError(f"seeds is {seeds}; there must be at least one.")


def _known(embedding_RCD: np.ndarray, content_CF: np.ndarray, leaked: float) -> int:
    """How many items leak, after all that can be wrong."""
    if embedding_RCD.ndim != 3 or embedding_RCD.shape[1] != len(content_CF):
        raise TacitError(
            f"Embeddings have the shape {embedding_RCD.shape} and content {content_CF.shape}; "
            "give draws x items x width, and a row of content for each item."
        )
    n_known = round(leaked * len(content_CF))
    if n_known < FEWEST_KNOWN or len(content_CF) - n_known < FEWEST_UNKNOWN:
        raise TacitError(
            f"Too few items to attack: {n_known} of {len(content_CF)} leak, and an attacker needs "
            f"at least {FEWEST_KNOWN} to learn from and {FEWEST_UNKNOWN} to reconstruct; change "
            "--leaked, or take data with more cold items."
        )
    if not (np.isfinite(embedding_RCD).all() and np.isfinite(content_CF).all()):
        raise TacitError(
            "Some embeddings are not finite numbers, so there is nothing to attack; the training "
            "diverged: train again with smaller rates."
        )
    if not np.ptp(content_CF, axis=0).any():
        raise TacitError(
            "All cold items have the same content, so there is nothing to reconstruct; give a run "
            "whose generator reads real content."
        )
    return n_known


def _over_seeds(found: list[Measures]) -> tuple[Measures, Measures | None]:
    if len(found) == 1:
        return found[0], None
    value_SM = np.array([list(asdict(one).values()) for one in found])
    mean_M, deviation_M = value_SM.mean(axis=0), value_SM.std(axis=0, ddof=1)
    return Measures(*mean_M.tolist()), Measures(*deviation_M.tolist())


# The inversion attack on the cold items of finished runs.


def invert_runs(
    folders: Sequence[str | Path], *, leaked: float = 0.2, seeds: int = 5, draws: int = 10
) -> dict[str, Inversion]:
    """What each run's generated rows say about the content that they were generated from, for the
    cold items of the test part; a generator without noise has one draw, whatever `draws` says.

    >>> invert_runs(["nowhere"])
    Traceback (most recent call last):
    tacit.errors.TacitError: No run at 'nowhere': there is no experiment.toml; give a folder that \
`tacit train` wrote.
    """
    require_settings(leaked, seeds)
    if draws < 1:
        raise TacitError(f"draws is {draws}; there must be at least one.")
    runs = finished_runs(folders)
    require_alike(runs)
    models = {run.name: load_cold_model(run.folder.path) for run in runs}
    found = {}
    for name, model in models.items():
        n = draws if model.cold.noise else 1
        embedding_RCD = np.stack([model.rows(model.cold_C, draw) for draw in range(n)])
        content_CF = model.feature_IF[model.cold_C]
        try:
            found[name] = invert(embedding_RCD, content_CF, leaked=leaked, seeds=seeds)
        except TacitError as error:
            raise TacitError(f"{name}: {error}") from error
    return found
