"""Methods with a personal item table: FedRAP, GPFedRec and CoFedRec."""

from __future__ import annotations

from typing import Literal

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.methods.entry import METHODS, Entry
from tacit.parts.backbones import LinearHead, SharedMlp
from tacit.parts.clusters import ClusterMean
from tacit.parts.contrast import GroupKept
from tacit.parts.graph import GraphMean
from tacit.parts.local import Alternate, Joint
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Additive, Proximal

# FedRAP: an item is the sum of a personal and a common row (Li, Long and Zhou, ICLR 2024).
#
# A private linear scorer reads D_u[i] + C[i]; scorer and both tables take one step together, and
# the server averages C. The loss keeps D_u and C apart and C sparse, with weights that grow with
# the rounds. Rates, batch and decay are those of the released command for MovieLens-100K; its
# authors warn that results hang on them. Not taken over from the code: a decay of .95 per batch
# within a client's round, and stopping a client's epochs at a small change of its loss. Its weight
# decay here acts on the rows that a client touches.
#
# Under the clean pool these rates stay near chance on MovieLens-100K (one seed, 21 rounds): the
# term −λ·(D − C)² has no lower bound, and rows grow to 1e4; without it (λ = 0) they stay bounded,
# and the ranking is above chance but below popularity. At 1e-4 the scorers hardly move. The
# checkerboard is learnt with a scorer rate of 1, an item rate of 20 without decay, 2 epochs and λ
# = .01.


def fedrap(
    dim: int = 32,
    rate: float = 1e-4,
    item_rate: float = 1e3,
    apart: float = 0.1,
    sparse: float = 1e-3,
    schedule: Literal["tanh", "fixed", "cumulative", "none"] = "tanh",
    weight_decay: float = 0.0,
    loss_on: Literal["logits", "probabilities"] = "logits",
) -> Method:
    """FedRAP as parts.

    >>> fedrap().sync
    Additive(apart=0.1, sparse=0.001, schedule='tanh', norm='l1')
    """
    return Method(
        LinearHead(dim),
        sync=Additive(apart, sparse, schedule),
        local=Joint(
            Sgd(rate, decay=0.97, weight_decay=weight_decay),
            items=Sgd(item_rate, decay=0.97, weight_decay=weight_decay),
            epochs=10,
            batch=2048,
        ),
        objective=BinaryCrossEntropy(loss_on),
    )


METHODS["fedrap"] = Entry(
    build=fedrap,
    summary="personal plus common item table, private linear scorer",
    rounds=100,
    protocol="pfedrec",
    presets={
        "paper": {},
        "released": {"schedule": "fixed", "weight_decay": 1e-6, "loss_on": "probabilities"},
    },
)


# GPFedRec: a graph of users guides each personal table (Zhang et al., WWW 2024).
#
# User vector and perceptron are private. A round begins with the mean table; while a client
# trains, its table is pulled to the mean of its neighbours' tables of the round before. It ranks
# with its own table. The released code calls 1 − cosine a similarity, so that it links the users
# who are least alike; `released` is that by name. There the user vector has a rate of its own (7.9
# beside .1); here it moves at the perceptron's.
#
# Item rate: the paper's η is 80. With the exact loss that diverges on MovieLens-100K within twenty
# rounds (a loss on probabilities, whose slope dies where it saturates, hides it), so that η is 8
# here and 80 in `released`. The pull must not overshoot either: 2 · strength · rate · η / D below
# 2.


def gpfedrec(
    dim: int = 32,
    rate: float = 0.1,
    per_item: float = 8.0,
    strength: float = 1.0,
    threshold: float = 1.0,
    similarity: Literal["cosine", "distance"] = "cosine",
    loss_on: Literal["logits", "probabilities"] = "logits",
) -> Method:
    """GPFedRec as parts.

    >>> gpfedrec().server
    GraphMean(threshold=1.0, similarity='cosine', neighbours=None, layers=1)
    """
    return Method(
        SharedMlp(dim, scorer="private"),
        sync=Proximal(strength),
        local=Joint(Sgd(rate), items=Sgd(rate, per_item=per_item)),
        objective=BinaryCrossEntropy(loss_on),
        server=GraphMean(threshold, similarity),
    )


METHODS["gpfedrec"] = Entry(
    build=gpfedrec,
    summary="personal item tables, guided by a graph of users",
    rounds=100,
    protocol="pfedrec",
    presets={
        "paper": {},
        "released": {"per_item": 80.0, "similarity": "distance", "loss_on": "probabilities"},
    },
)


# CoFedRec: co-clustering of items and users (He et al., 2024).
#
# PFedRec's client with a table that stays, whose loss draws items of one cluster together. Each
# round the server clusters the items of the mean table, and gives one group of alike users their
# mean table in place of their own; everybody else keeps theirs. The contrast is quadratic in its
# items, so here it runs over a sample of them, drawn anew each round, where the paper takes the
# whole catalogue (`sample=None`, as `released` does). The published tables take still fewer: 256.
# The released code used 60 item clusters for MovieLens-100K.


def cofedrec(
    dim: int = 32,
    rate: float = 0.1,
    per_item: float = 80.0,
    strength: float = 0.005,
    clusters: int = 30,
    sample: int | None = 1024,
    loss_on: Literal["logits", "probabilities"] = "logits",
) -> Method:
    """CoFedRec as parts.

    >>> cofedrec().server
    ClusterMean(clusters=30, sample=1024, iterations=20)
    """
    return Method(
        LinearHead(dim),
        sync=GroupKept(strength),
        local=Alternate(Sgd(rate), items=Sgd(rate, per_item=per_item), epochs=2),
        objective=BinaryCrossEntropy(loss_on),
        server=ClusterMean(clusters, sample),
    )


METHODS["cofedrec"] = Entry(
    build=cofedrec,
    summary="personal item tables, clusters of items (contrast over a sample of them), user groups",
    rounds=100,
    protocol="pfedrec",
    presets={
        "paper": {},
        "released": {"sample": None, "loss_on": "probabilities"},
    },
)
