"""Each user's weights: of views, as the router gives them, and of inputs, as scores tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit import streams
from tacit.analysis.finished import FinishedRun
from tacit.engines.client import client_leaves
from tacit.engines.explain import explain, fused, views_of
from tacit.errors import TacitError

MEAN_ITEM = 100  # items that stand for the catalogue


@dataclass(frozen=True, eq=False)
class UserWeights:
    """One row per user; NaN for users without train items.

    `weight_UV` are the router's weights. `change_UM` is the mean absolute change of the scores of
    the user's own train items when an input is dropped. What an input adds to all items alike
    changes scores but no ranking, and it may lower own items as well as raise them: `lift_UM` is
    by how much more the input raises own train items than the mean item.
    """

    views: tuple[str, ...]
    inputs: tuple[str, ...]
    weight_UV: np.ndarray
    change_UM: np.ndarray
    lift_UM: np.ndarray

    @property
    def deviation_UV(self) -> np.ndarray:
        """From the mean user."""
        return self.weight_UV - np.nanmean(self.weight_UV, axis=0)

    @property
    def deviation_U(self) -> np.ndarray:
        """Half the sum of the absolute differences: 0 is the mean user, 1 is all weight elsewhere.

        >>> weight_UV = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
        >>> nothing = np.zeros((3, 0))
        >>> UserWeights(("a", "b"), (), weight_UV, nothing, nothing).deviation_U.tolist()
        [0.5, 0.0, 0.5]
        """
        return np.abs(self.deviation_UV).sum(axis=1) / 2

    @property
    def is_routed(self) -> bool:
        return len(self.views) > 1


def user_weights(run: FinishedRun) -> UserWeights:
    """The weights of all users of a run, one user at a time."""
    encoder = fused(run.experiment.method)
    if encoder is None:
        raise TacitError(
            f"{run.name} reads nothing of an item but its id, so it has neither router nor "
            "modalities; give a run with content, as --with fedmr or --with fedvlr makes it."
        )
    algorithm, train = run.algorithm, run.prepared.split.train
    views, inputs = views_of(algorithm.method), encoder.inputs
    generator = streams.numpy_generator(0, streams.RESAMPLE, 0, streams.name_of("mean item"))
    some = generator.permutation(train.n_items)[:MEAN_ITEM]
    weight_UV = np.full((train.n_users, len(views)), np.nan)
    change_UM, lift_UM = (np.full((train.n_users, len(inputs)), np.nan) for _ in range(2))
    for user in range(train.n_users):
        own_H = np.unique(train.positives[user])
        if not len(own_H):
            continue
        p = client_leaves(algorithm, run.state, user, own_H)
        found = explain(algorithm, p, np.concatenate([own_H, some]))
        here = found.input_NM[: len(own_H)]
        weight_UV[user] = found.weight_NV[: len(own_H)].mean(axis=0)
        change_UM[user] = np.abs(here).mean(axis=0)
        lift_UM[user] = here.mean(axis=0) - found.input_NM[len(own_H) :].mean(axis=0)
    return UserWeights(views, inputs, weight_UV, change_UM, lift_UM)
