"""What a block of clients looks at, padded and stacked, for methods that speak for themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.core.direct import ClientData, DirectMethod
from tacit.core.types import Params, Task
from tacit.data.sampling import samples_per_user
from tacit.data.views import TrainView
from tacit.engines.draws import draw_block
from tacit.engines.leaves import draw_leaf

# The fields of `ClientData` in their order, each with a leading axis of clients.
Columns = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Params]

WIDEST_BLOCK = 64  # clients; wider blocks pad more and fall out of cache


def histories(
    train: TrainView, user_B: np.ndarray, dtype: torch.dtype, *, place: int | None = None
) -> Columns:
    """Histories without samples, as `score` wants them; `place` is said instead of the users' own.

    >>> from tacit.data.views import Lists
    >>> lists = Lists.from_pairs(np.array([0, 1, 1]), np.array([2, 0, 1]), n_lists=2)
    >>> train = TrainView(3, lists, np.array([5, 6], np.uint64), Lists.empty(2))
    >>> columns = histories(train, np.array([0, 1]), torch.float32)
    >>> columns[1].tolist(), columns[2].tolist()
    ([[2, 0], [0, 1]], [[1.0, 0.0], [1.0, 1.0]])
    """
    size_B = train.positives.size_U[user_B]
    shape = (len(user_B), max(1, int(size_B.max(initial=0))))
    history_BH = np.zeros(shape, dtype=np.int64)
    for b, user in enumerate(user_B):
        history_BH[b, : size_B[b]] = train.positives[int(user)]
    real_BH = torch.from_numpy(np.arange(shape[1]) < size_B[:, None]).to(dtype)
    nothing = torch.zeros((len(user_B), 0), dtype=dtype)
    said_B = torch.from_numpy(np.array(user_B, dtype=np.int64))
    if place is not None:
        said_B = torch.full_like(said_B, place)
    return said_B, torch.from_numpy(history_BH), real_BH, nothing.long(), nothing, nothing, {}


@dataclass(frozen=True, eq=False)
class RoundData:
    """The data of one round, block by block."""

    method: DirectMethod
    train: TrainView
    seed: int
    round_number: int
    dtype: torch.dtype
    samples_U: np.ndarray | None
    place: int | None = None  # what a client is told of its place, if not the truth

    @classmethod
    def begin(
        cls,
        method: DirectMethod,
        train: TrainView,
        seed: int,
        round_number: int,
        dtype: torch.dtype,
        place: int | None = None,
    ) -> RoundData:
        sampling = method.sampling
        samples_U = None if sampling is None else samples_per_user(train, sampling)
        return cls(method, train, seed, round_number, dtype, samples_U, place)

    def block(self, user_B: np.ndarray) -> Columns:
        """Histories, samples and noise of these clients."""
        user, history, real, item, label, weight, _ = histories(
            self.train, user_B, self.dtype, place=self.place
        )
        if self.method.sampling is not None and self.samples_U is not None:
            draws = draw_block(
                self.train,
                user_B,
                self.samples_U,
                self.method.sampling,
                batch=int(self.samples_U[user_B].max()),  # the whole round is one batch
                epochs=1,
                seed=self.seed,
                round_number=self.round_number,
                dtype=np.float64 if self.dtype == torch.float64 else np.float32,
            )
            item_BN = np.take_along_axis(draws.item_BR, draws.row_TSBW[0, 0], axis=1)
            item = torch.from_numpy(item_BN)
            label = torch.from_numpy(draws.label_TSBW[0, 0])
            weight = torch.from_numpy(draws.weight_SBW[0])
        return user, history, real, item, label, weight, self._noise(user_B)

    def noise_stream(self, leaf: str) -> int:
        """The stream of one leaf of this round's noise."""
        return streams.name_of(f"{self.round_number}:{leaf}")

    def _noise(self, user_B: np.ndarray) -> Params:
        declared = self.method.noise(Task(self.train.n_users, self.train.n_items))
        return {
            leaf: draw_leaf(
                init,
                self.seed,
                streams.CLIENT_NOISE,
                self.noise_stream(leaf),
                self.train.user_key_U[user_B],
                self.dtype,
            )
            for leaf, init in declared.items()
        }


def one_client(columns: Columns) -> ClientData:
    """The data of a block that is a single client, without the axis of clients."""
    user, history, real, item, label, weight, noise = columns
    own = {leaf: value[0] for leaf, value in noise.items()}
    return ClientData(user[0], history[0], real[0], item[0], label[0], weight[0], own)
