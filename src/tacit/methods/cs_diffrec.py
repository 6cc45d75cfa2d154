"""CS_DiffRec: who will touch an item, by a diffusion over its row of the interactions.

Wang et al., "Diffusion Recommender Model", SIGIR 2023, has the diffusion: a network reads a row of
interactions with a little noise in it and says what the row was. There a row is a person. MDiffFR
compares with "CS_DiffRec" on items that nobody has touched, and says no more of it than that their
interactions are what is generated. So the construction here is ours:

- A row is an item that exists in training, with a 1 for everybody who has it.
- The network reads the item's content beside the noisy row and the step: noisy row, step and
  content stand side by side, a hidden layer with tanh and a linear one make the guess.
- An item that nobody has touched begins at noise from its own stream, a touched one at its own
  row, as in DiffRec; both walk back all steps without further noise. Scores stand at the end.

`start="gaussian"` begins at standard noise, which training never saw: the schedule of DiffRec ends
at noise of deviation 0.01. `matched` begins at noise of that size. `features.kind=zero` is the
other reading, without content: every untouched item is then ranked by its noise.

Kept from DiffRec: the schedule, hidden layer and dropout of its Yelp setting, steps as sines and
cosines 10 wide, losses weighed by the signal that a step costs, Adam at 5e-5, batches of 400. Ours
besides: steps are drawn uniformly, where its code draws them by how large their losses were; Xavier
weights without bias noise; content 64 wide, as MDiffFR has it. `tuned` has a rate of 1e-3: rows are
few here, and so are the steps of an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.central.networks import Losses, linear, through
from tacit.central.training import drawn, require_at_least_one
from tacit.core.optim import Adam, Optimiser
from tacit.core.registry import register
from tacit.core.types import Params
from tacit.data.sampling import Sampling
from tacit.data.views import History, TrainView
from tacit.errors import TacitError
from tacit.memory import require_memory
from tacit.methods.content_references import (
    NETWORK,
    RANKED_ITEMS,
    RANKED_USER,
    WARM,
    RanksByVectors,
    network_of,
    warm_codes,
)
from tacit.methods.entry import METHODS, Entry
from tacit.parts.cold.features import Features
from tacit.parts.diffusion.denoiser import Descent, waves, with_memory
from tacit.parts.diffusion.process import Noised, Schedule, loss_of, noised

_TIME_WIDTH = 10


@dataclass(frozen=True)
class RowDenoiser:
    """Guesses a clean row of U interactions from a noisy one, the step and the item's content.

    >>> p = RowDenoiser(users=3, features=2, hidden=4).begin(0, torch.float32)
    >>> sum(value.numel() for value in p.values())  # 110 + 6, 16 · 4 and 5 · 3
    195
    """

    users: int
    features: int
    hidden: int
    content_width: int = 2
    dropout: float = 0.5

    def begin(self, seed: int, dtype: torch.dtype) -> Params:
        joined = self.users + _TIME_WIDTH + self.content_width
        layers = linear("time", _TIME_WIDTH, _TIME_WIDTH, None)
        layers |= linear("content", self.features, self.content_width, None)
        layers |= linear("hidden", joined, self.hidden, None)
        layers |= linear("out", self.hidden, self.users, None)
        return drawn(layers, seed, dtype)

    def states(
        self,
        p: Params,
        noisy_NU: Tensor,
        step_N: Tensor,
        feature_NF: Tensor,
        keep_NU: Tensor | None = None,
    ) -> Tensor:
        """The hidden layer (N, H); `keep_NU` is training's dropout mask."""
        noisy_NU = noisy_NU if keep_NU is None else noisy_NU * keep_NU
        time_NT = through(p, "time", waves(step_N, noisy_NU.dtype, _TIME_WIDTH))
        content_NC = through(p, "content", feature_NF)
        return torch.tanh(through(p, "hidden", torch.cat([noisy_NU, time_NT, content_NC], dim=1)))

    def guess(
        self,
        p: Params,
        noisy_ND: Tensor,
        step_N: Tensor,
        feature_NF: Tensor,
        keep_ND: Tensor | None = None,
    ) -> Tensor:
        """The clean rows (N, U)."""
        return through(p, "out", self.states(p, noisy_ND, step_N, feature_NF, keep_ND))

    def last_states(
        self, p: Params, schedule: Schedule, row_NU: Tensor, feature_NF: Tensor
    ) -> Tensor:
        """The hidden layer at the end of the way back from these rows: of it the last guess is a
        linear function, and the row at the end is that guess."""
        clean_T, noisy_T = schedule.posterior_clean_T, schedule.posterior_noisy_T
        for step in range(schedule.steps - 1, 0, -1):
            step_N = torch.full((len(row_NU),), step, device=row_NU.device)
            guess_NU = self.guess(p, row_NU, step_N, feature_NF)
            row_NU = float(clean_T[step]) * guess_NU + float(noisy_T[step]) * row_NU
        return self.states(p, row_NU, row_NU.new_zeros(len(row_NU)), feature_NF)


@register("cs_diffrec")
@dataclass(frozen=True)
class CsDiffRec(RanksByVectors):
    """A diffusion over items' rows of interactions, beside their content.

    >>> CsDiffRec().schedule.snr_T[[0, 4]].round().tolist()
    [99999.0, 9999.0]
    """

    features: Features = Features()
    schedule: Schedule = Schedule(steps=5, scale=0.01, low=0.001, high=0.01)
    hidden: int = 1000
    content_width: int = 64
    dropout: float = 0.5
    loss: Literal["weighted", "unweighted"] = "weighted"
    start_from: Literal["gaussian", "matched"] = "gaussian"
    draws: int = 1
    batch: int = 400
    optimiser: Optimiser = Adam(5e-5)

    def __post_init__(self) -> None:
        require_at_least_one(self, "hidden", "content_width", "draws", "batch")
        if not 0 <= self.dropout < 1:
            raise TacitError(f"dropout is {self.dropout}; it must be at least 0 and below 1.")

    @property
    def sampling(self) -> Sampling | None:
        return None  # a row is read whole

    @property
    def feature_width(self) -> int:
        return self.content_width

    def _denoiser(self, users: int, features: int) -> RowDenoiser:
        return RowDenoiser(users, features, self.hidden, self.content_width, self.dropout)

    def start(self, train: TrainView, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        warm_W = warm_codes(train)
        require_memory(
            2 * train.n_users * len(warm_W) * 8,
            what=f"rows of {len(warm_W)} items over {train.n_users} people",
            hint="use heater or gar, whose tables are thin",
        )
        features = self.feature_rows(train).shape[1]
        network = self._denoiser(train.n_users, features).begin(seed, dtype)
        network = with_memory(self.optimiser, network)
        return (
            {WARM: torch.from_numpy(warm_W)}
            | {f"{NETWORK}{name}": value for name, value in network.items()}
            | {
                RANKED_USER: torch.zeros(train.n_users, self.hidden + 1, dtype=dtype),
                RANKED_ITEMS: torch.zeros(train.n_items, self.hidden + 1, dtype=dtype),
            }
        )

    def epoch(
        self, parameters: Params, train: TrainView, seed: int, number: int
    ) -> tuple[Params, float]:
        generator = streams.numpy_generator(seed, streams.NETWORK_DROPOUT, number)
        like = parameters[RANKED_ITEMS]
        feature_IF = torch.from_numpy(self.feature_rows(train)).to(like)
        row_WU = interaction_rows(train.existing()).to(like)
        denoiser = self._denoiser(train.n_users, feature_IF.shape[1])
        descent, losses = Descent(self.optimiser, network_of(parameters)), Losses()
        rate = self.optimiser.rate_at(number, train.n_items)
        feature_WF = feature_IF[parameters[WARM]]
        for piece in torch.from_numpy(generator.permutation(len(row_WU))).split(self.batch):
            batch = noised(self.schedule, row_WU[piece], feature_WF[piece], self.dropout, generator)
            loss = partial(_loss, denoiser, self.schedule, batch, self.loss == "weighted")
            descent.step(losses.told(loss, len(piece)), rate)
        learnt = descent.whole
        with torch.no_grad():
            ranked = {
                RANKED_USER: torch.cat([learnt["out.w"].T, learnt["out.b"][:, None]], dim=1),
                RANKED_ITEMS: self.item_vectors(learnt, train, row_WU, feature_IF, seed),
            }
        named = {f"{NETWORK}{name}": value for name, value in learnt.items()}
        return parameters | named | ranked, losses.mean

    def item_vectors(
        self, p: Params, train: TrainView, row_WU: Tensor, feature_IF: Tensor, seed: int
    ) -> Tensor:
        """(I, H + 1): the mean over draws of the last hidden layer, and a one for the bias."""
        denoiser = self._denoiser(train.n_users, feature_IF.shape[1])
        state_IH = feature_IF.new_zeros(train.n_items, self.hidden)
        touched_I = train.popularity_I() > 0
        warm_W = warm_codes(train)
        place_T = np.flatnonzero(touched_I[warm_W])  # of those that somebody has
        item_T = torch.from_numpy(warm_W[place_T])
        row_TU = row_WU[torch.from_numpy(place_T)]
        state_IH[item_T] = denoiser.last_states(p, self.schedule, row_TU, feature_IF[item_T])
        item_C = np.flatnonzero(~touched_I)
        unseen_C = torch.from_numpy(item_C)
        for draw in range(self.draws):
            row_CU = self.noise(train, item_C, seed, draw).to(feature_IF)
            found_CH = denoiser.last_states(p, self.schedule, row_CU, feature_IF[unseen_C])
            state_IH[unseen_C] += found_CH / self.draws
        return torch.cat([state_IH, torch.ones_like(state_IH[:, :1])], dim=1)

    def noise(self, train: TrainView, item_C: np.ndarray, seed: int, draw: int) -> Tensor:
        """(C, U) where items begin that nobody has touched; an item's noise is its own."""
        assert train.item_key_I is not None
        key_C = train.item_key_I[item_C]
        drawn_CU = streams.normals(seed, streams.COLD, draw, key_C, train.n_users)
        size = 1.0 if self.start_from == "gaussian" else float(1 - self.schedule.abar_T[-1]) ** 0.5
        return torch.from_numpy(size * drawn_CU)

    def score_newcomer(
        self, parameters: Params, history: History, *, name: int, seed: int, epochs: int
    ) -> np.ndarray:
        """(I,) scores for somebody new: the person's own row of the last layer, by least squares
        with a ridge on the items that existed; nothing else is fitted."""
        vector_IK, warm_W = parameters[RANKED_ITEMS].double().cpu(), parameters[WARM].cpu()
        known_WK = vector_IK[warm_W]
        has_W = torch.isin(warm_W, torch.from_numpy(np.asarray(history.item_H)))
        square_KK = known_WK.T @ known_WK
        square_KK.diagonal().add_(square_KK.diagonal().mean() + 1e-12)
        row_K = torch.linalg.solve(square_KK, known_WK.T @ has_W.double())
        return np.asarray((vector_IK @ row_K).to(parameters[RANKED_ITEMS].dtype).numpy())


def _loss(
    denoiser: RowDenoiser, schedule: Schedule, batch: Noised, weighted: bool, p: Params
) -> Tensor:
    return loss_of(denoiser, schedule, p, batch, weighted)


def interaction_rows(train: TrainView) -> Tensor:
    """(I, U) a 1 for everybody who has the item.

    >>> from tacit.data.views import Lists
    >>> lists = Lists(np.array([0, 2, 3]), np.array([0, 2, 2]))
    >>> train = TrainView(3, lists, np.zeros(2, np.uint64), Lists.empty(2))
    >>> interaction_rows(train).tolist()
    [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    """
    row_IU = torch.zeros(train.n_items, train.n_users)
    lists = train.positives
    row_IU[torch.from_numpy(lists.item_N), torch.from_numpy(lists.list_N)] = 1.0
    return row_IU


METHODS["cs_diffrec"] = Entry(
    build=CsDiffRec,
    summary="central, for cold items: a diffusion over who has an item, beside its content",
    rounds=200,
    protocol="mdifffr",
    presets={"paper": {}, "tuned": {"optimiser": Adam(1e-3), "start_from": "matched"}},
    split="cold",
)
