"""CoFedRec's server: clusters of items for everybody, and one group of alike users per round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tacit.compiled import compiled
from tacit.core.parts import Aggregated, TableRule
from tacit.core.registry import register
from tacit.core.types import ITEMS, OWN_ITEMS, Initializer, Params
from tacit.errors import TacitError
from tacit.parts.contrast import LABEL, SAMPLE

# The mean of some users' tables, read where they lie, compiled.


def mean_table(table_UID: np.ndarray, user_P: np.ndarray) -> np.ndarray:
    """In float64, in the order of the users.

    >>> mean_table(np.array([[[1.0]], [[5.0]], [[2.0]]], dtype=np.float32), np.array([0, 2]))
    array([[1.5]])
    """
    total_F = np.zeros(table_UID.shape[1] * table_UID.shape[2])
    _add(table_UID.reshape(len(table_UID), -1), user_P, total_F)
    return (total_F / len(user_P)).reshape(table_UID.shape[1:])


@compiled(error_model="numpy")
def _add(table_UF, user_P, total_F):  # type: ignore[no-untyped-def]
    for user in user_P:
        table_F = table_UF[user]
        for f in range(len(total_F)):
            total_F[f] += table_F[f]


# CoFedRec's server: clusters of items for everybody, and one group of alike users per round.

SOME_USERS = 256  # whose rows are copied at a time


@register("cluster_mean")
@dataclass(frozen=True)
class ClusterMean(TableRule):
    """k-means over the mean table labels the items; a group of users gets the group's mean table.

    The group: one user and one item cluster are drawn; all users who reported are sorted by how
    alike their rows of that cluster are to the drawn user's (sum of cosines), and cut at the elbow
    of that curve, the point farthest from the line between its ends. `sample` is how many items the
    clients' contrast runs over, drawn anew each round (None: all of them).

    >>> [init.count for init in ClusterMean(sample=4).downloads(Initializer((10, 2))).values()]
    [10, 4, 20]
    """

    clusters: int = 30
    sample: int | None = None
    iterations: int = 20

    in_place = True

    def __post_init__(self) -> None:
        for name, value in (("clusters", self.clusters), ("iterations", self.iterations)):
            if value < 1:
                raise TacitError(f"server.{name} is {value}; it must be at least 1.")
        if self.sample is not None and self.sample < 2:
            raise TacitError(f"server.sample is {self.sample}; a contrast needs at least 2 items.")

    def shared(self, table: Initializer) -> dict[str, Initializer]:
        n_items = table.shape[0]
        parameters = {LABEL: Initializer((n_items,))}
        if self.sample is not None and self.sample < n_items:
            parameters[SAMPLE] = Initializer((self.sample,))
        return parameters

    def downloads(self, table: Initializer) -> dict[str, Initializer]:
        """Labels, the sample, and a table: the last goes to the group's members alone, so that this
        is the most that a client receives."""
        return {**self.shared(table), OWN_ITEMS: table}

    def aggregate_tables(
        self, table_PID: Tensor, shared: Params, generator: np.random.Generator
    ) -> Aggregated:
        user_P = torch.arange(len(table_PID))
        parameters, group_Q, group_ID = self._group(table_PID, user_P, shared, generator)
        return Aggregated(parameters, {}, group_Q, group_ID.expand(len(group_Q), -1, -1))

    def aggregate_in_place(
        self, private: Params, user_P: Tensor, shared: Params, generator: np.random.Generator
    ) -> Params:
        own_UID = private[OWN_ITEMS]
        parameters, group_Q, group_ID = self._group(own_UID, user_P, shared, generator)
        own_UID[user_P[group_Q]] = group_ID
        return parameters

    def _group(
        self, own_UID: Tensor, user_P: Tensor, shared: Params, generator: np.random.Generator
    ) -> tuple[Params, Tensor, Tensor]:
        """The server's next parameters, and the places and the mean table of the round's group."""
        # in float64: where nobody moved, a mean is the table itself, to the last bit
        mean_ID = _mean(own_UID, user_P)
        label_I = cluster_items(mean_ID, self.clusters, self.iterations, generator)
        parameters = {ITEMS: mean_ID.to(own_UID), LABEL: label_I.to(own_UID)}
        if SAMPLE in shared:
            chosen_S = generator.choice(len(label_I), len(shared[SAMPLE]), replace=False)
            parameters[SAMPLE] = torch.from_numpy(np.sort(chosen_S)).to(own_UID)
        someone = int(generator.integers(len(user_P)))
        kinds = label_I.unique()  # a cluster may have lost all its items
        cluster = kinds[int(generator.integers(len(kinds)))]
        item_J = (label_I == cluster).nonzero().squeeze(1)
        one_JD = own_UID[user_P[someone], item_J]
        alike_P = torch.cat(
            [
                likeness(own_UID[some_B[:, None], item_J], one_JD)
                for some_B in user_P.split(SOME_USERS)
            ]
        ).cpu()
        order_P = alike_P.argsort(descending=True, stable=True)
        group_Q = order_P[: elbow(alike_P[order_P]) + 1]
        return parameters, group_Q, _mean(own_UID, user_P[group_Q]).to(own_UID)


def _mean(table_UID: Tensor, user_P: Tensor) -> Tensor:
    """In float64 and in main memory, wherever the tables lie."""
    if table_UID.device.type == "cpu":
        return torch.from_numpy(mean_table(table_UID.numpy(), user_P.numpy()))
    total_ID = table_UID.new_zeros(table_UID.shape[1:], dtype=torch.float64)
    for some_B in user_P.split(SOME_USERS):
        total_ID += table_UID[some_B].sum(0, dtype=torch.float64)
    return (total_ID / len(user_P)).cpu()


def likeness(row_PJD: Tensor, one_JD: Tensor) -> Tensor:
    """For each user, the sum over items of the cosine between its rows and one user's.

    >>> rows = torch.tensor([[[1.0, 0.0]], [[0.0, 2.0]], [[-3.0, 0.0]]])
    >>> likeness(rows, rows[0]).tolist()
    [1.0, 0.0, -1.0]
    """
    return cosine_similarity(row_PJD.double(), one_JD.double(), dim=-1).sum(1)


def elbow(value_P: Tensor) -> int:
    """The place of the point farthest from the line between the first and the last.

    >>> elbow(torch.tensor([10.0, 9.0, 2.0, 1.0, 0.0]))
    2
    """
    last = len(value_P) - 1
    line_P = value_P[0] + (value_P[-1] - value_P[0]) * torch.arange(last + 1) / max(last, 1)
    return int((value_P - line_P).abs().argmax())  # vertical distance: the same order as upright


def cluster_items(
    point_ID: Tensor, clusters: int, iterations: int, generator: np.random.Generator
) -> Tensor:
    """Lloyd's algorithm from distinct points; labels count from 1.

    >>> points = torch.tensor([[0.0], [0.1], [9.0], [9.1]])
    >>> label = cluster_items(points, 2, 5, np.random.default_rng(0))
    >>> [bool(label[0] == label[1]), bool(label[2] == label[3]), bool(label[0] == label[2])]
    [True, True, False]
    """
    count = min(clusters, len(point_ID))
    first = torch.from_numpy(generator.choice(len(point_ID), count, replace=False))
    centre_KD = point_ID[first]
    label_I = torch.zeros(len(point_ID), dtype=torch.long)
    for _ in range(iterations):
        # the square of the point itself does not tell centres apart
        distance_IK = centre_KD.square().sum(1) - 2 * point_ID @ centre_KD.T
        nearest_I = distance_IK.argmin(1)
        if torch.equal(nearest_I, label_I):
            break
        label_I = nearest_I
        member_KI = torch.nn.functional.one_hot(label_I, count).T.to(point_ID)
        size_K1 = member_KI.sum(1, keepdim=True)
        mean_KD = member_KI @ point_ID / size_K1.clamp(min=1)
        centre_KD = torch.where(size_K1 > 0, mean_KD, centre_KD)  # an empty one stays where it was
    return label_I + 1
