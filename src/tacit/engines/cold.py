"""The server's generator beside a federation: it learns after each round, and makes rows.

Its parameters are kept with the server's own state under "cold."; no client ever sees them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tacit import streams
from tacit.core.compose import ComposedAlgorithm
from tacit.core.parts import ColdStart, FittedRows
from tacit.core.types import ITEMS, Params
from tacit.data.views import TrainView
from tacit.engines.scoring import RowScorer, Scorer
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.parts.sync import GUIDE

PREFIX = "cold."
DRAWS = 1024  # of noise per round: a stream's number is round * DRAWS + draw


@dataclass(frozen=True, eq=False)
class ColdServer:
    """A generator on one catalogue. `feature_IF` has a row for every item, `warm_W` the items that
    exist in training and `learnt_L` those of them that somebody has touched: it learns from these.
    Which items nobody has touched is a fact about histories that no noise covers, so that under a
    claim of privacy it learns from all that exist, and so does a server that has no histories.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.data.planted import planted_dataset
    >>> from tacit.data.protocol import CLEAN, among_cold_items
    >>> from tacit.data.split import split_dataset
    >>> from tacit.engines.state import initial_state
    >>> from tacit.methods import pfedrec
    >>> from tacit.plugins.cold import ridge
    >>> train = split_dataset(planted_dataset(), among_cold_items(CLEAN)).train
    >>> algorithm = compose(ridge(pfedrec(dim=8)), Task.of(train.existing()))
    >>> state = initial_state(algorithm, train.existing(), seed=0)
    >>> server = ColdServer.of(algorithm, train, seed=0)
    >>> server.begin(state)
    >>> server.rows(state, np.array([3, 5])).shape
    torch.Size([2, 8])
    """

    cold: ColdStart
    algorithm: ComposedAlgorithm  # on the items that exist in training
    train: TrainView  # of the whole catalogue
    feature_IF: torch.Tensor
    warm_W: np.ndarray
    learnt_L: np.ndarray  # places among `warm_W`
    seed: int
    fitted: FittedRows  # makes feature rows of items from anywhere

    @classmethod
    def of(
        cls,
        algorithm: ComposedAlgorithm,
        train: TrainView,
        seed: int,
        *,
        knows_histories: bool = True,
    ) -> ColdServer:
        cold = algorithm.method.cold
        assert cold is not None
        if ITEMS not in algorithm.shared:
            raise TacitError(
                f"{type(algorithm.method.sync).__name__} has no global item table, so a server "
                "has nothing to learn new rows from; leave the cold-start part out."
            )
        warm_W = np.arange(train.n_items) if train.warm_W is None else train.warm_W
        touched_I = train.popularity_I() > 0
        if algorithm.protection is not None or not knows_histories:
            touched_I = np.isin(np.arange(train.n_items), warm_W)
        fitted = cold.features.fitted(train.content, touched_I, algorithm.table_width)
        feature_IF = torch.from_numpy(fitted.rows(train.content, train.n_items))
        learnt_L = np.flatnonzero(touched_I[warm_W])
        return cls(cold, algorithm, train, feature_IF, warm_W, learnt_L, seed, fitted)

    @property
    def cold_C(self) -> np.ndarray:
        """The items that did not exist in training."""
        return np.setdiff1d(np.arange(self.train.n_items), self.warm_W)

    def begin(self, state: State) -> None:
        """First parameters, before the first round."""
        self._keep(state, self._first() if self.cold.lasts else {})

    def _first(self) -> Params:
        generator = streams.numpy_generator(self.seed, streams.COLD, 0, streams.name_of("begin"))
        return self.cold.begin(self.algorithm.table_width, self.feature_IF.shape[1], generator)

    def after_round(self, state: State) -> None:
        """Learn from the table that the round left."""
        self._keep(state, self._fitted(state, self.parameters(state)) if self.cold.lasts else {})

    def _fitted(self, state: State, p: Params) -> Params:
        number = state.round_number
        generator = streams.numpy_generator(self.seed, streams.COLD, number, streams.name_of("fit"))
        table_LD = state.shared[ITEMS][torch.from_numpy(self.learnt_L)].cpu()
        feature_LF = self.feature_IF[self.warm_W[self.learnt_L]].to(table_LD)
        return self.cold.fit(p, table_LD, feature_LF, number, generator)

    def parameters(self, state: State) -> Params:
        """The generator's own parameters in a state, or made from its table."""
        if not self.cold.lasts:
            return self._fitted(state, self._first())
        return {
            name.removeprefix(PREFIX): parameter
            for name, parameter in state.server.items()
            if name.startswith(PREFIX)
        }

    def _keep(self, state: State, p: Params) -> None:
        others = {n: parameter for n, parameter in state.server.items() if not n.startswith(PREFIX)}
        state.server = others | {f"{PREFIX}{name}": parameter for name, parameter in p.items()}
        if GUIDE in self.algorithm.shared:  # clients are pulled to these
            state.shared[GUIDE] = self.rows(state, self.warm_W)

    def rows(self, state: State, item_C: np.ndarray, draw: int = 0) -> torch.Tensor:
        """Generated rows of some items of the catalogue; another draw has other noise."""
        assert self.train.item_key_I is not None
        feature_CF = self.feature_IF[torch.from_numpy(item_C)]
        return self.made(state, feature_CF, self.train.item_key_I[item_C], draw)

    def made(
        self, state: State, feature_CF: torch.Tensor, key_C: np.ndarray, draw: int = 0
    ) -> torch.Tensor:
        """Rows from features, for items of any origin; noise comes from each item's own stream."""
        table, width = state.shared[ITEMS], self.algorithm.table_width
        noise = self.cold.noise
        noise_CND = torch.zeros(len(key_C), 0, width)
        if noise:
            stream = state.round_number * DRAWS + draw
            drawn = streams.normals(self.seed, streams.COLD, stream, key_C, noise * width)
            noise_CND = torch.from_numpy(drawn).view(len(key_C), noise, width)
        return self.cold.generate(
            self.parameters(state), feature_CF.to(table), noise_CND.to(table)
        ).to(table)

    def scorer(self, state: State, draw: int = 0, together: bool = False) -> ColdScorer:
        """Scores of the cold items with generated rows; of warm ones too where asked for."""
        item_C = self.cold_C
        existing = None
        if together or self.algorithm.method.items.reads_history:
            existing = self.train.existing()
        content = self.train.content.take(item_C)
        row_CD = self.rows(state, item_C, draw)
        cold = RowScorer.of(self.algorithm, state, existing, row_CD, content)
        warm = Scorer(self.algorithm, state, train=existing) if together else None
        return ColdScorer(self.train.n_items, cold, item_C, warm, self.warm_W)


@dataclass(frozen=True, eq=False)
class ColdScorer:
    """users (B,) -> logits (B, I); -inf for warm items, unless they are ranked too."""

    n_items: int
    cold: RowScorer
    item_C: np.ndarray
    warm: Scorer | None
    warm_W: np.ndarray

    def __call__(self, user_B: np.ndarray) -> np.ndarray:
        score_BC = self.cold(user_B)
        score_BI = np.full((len(user_B), self.n_items), -np.inf, score_BC.dtype)
        score_BI[:, self.item_C] = score_BC
        if self.warm is not None:
            score_BI[:, self.warm_W] = self.warm(user_B)
        return score_BI
