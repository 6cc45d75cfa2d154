"""Methods that read content on the client: CS_FCF, CS_FedNCF and FedVBPR."""

from __future__ import annotations

from dataclasses import replace

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.data.sampling import Sampling
from tacit.methods.entry import METHODS, Entry
from tacit.parts.backbones import DotProduct, LinearHead, SharedMlp
from tacit.parts.cold.simple import NoRow
from tacit.parts.items import Appended
from tacit.parts.local import Joint
from tacit.parts.objectives import PairwiseRanking
from tacit.parts.server import Mean
from tacit.plugins.fusion import fedmr, with_encoder

# CS_FCF and CS_FedNCF: no item table at all; clients train a linear map from content to rows.
#
# No paper defines them. This is the reading of IFedRec's overview: item attributes go to the
# clients, A in e_i = A f_i is trained there and averaged, and a cold item is simply A f_c. The
# printed rows of MDiffFR cannot be replicated exactly.


def cs_fcf(dim: int = 64, rate: float = 0.1, modality: str = "text") -> Method:
    """A private linear scorer over a shared map of content.

    >>> cs_fcf().items.modalities, cs_fcf().cold
    (('text',), NoRow())
    """
    return _content_alone(Method(LinearHead(dim), local=Joint(Sgd(rate))), modality)


def cs_fedncf(dim: int = 64, rate: float = 0.1, modality: str = "text") -> Method:
    """A private user vector, and a shared perceptron over a shared map of content.

    >>> cs_fedncf().backbone.layers
    (64, 1)
    """
    return _content_alone(Method(SharedMlp(dim, (dim, 1)), local=Joint(Sgd(rate))), modality)


def _content_alone(method: Method, modality: str) -> Method:
    """Items are what a map makes of their content; the row of the table is one number, unread."""
    encoded = fedmr(method, f"single_{modality}", modality, sends="change", id_width=1)
    return replace(encoded, sampling=Sampling(negatives=5), cold=NoRow())


METHODS["cs_fcf"] = Entry(
    build=cs_fcf,
    summary="private linear scorer over a shared map of content, no item table",
    rounds=100,
    protocol="mdifffr",
)

METHODS["cs_fedncf"] = Entry(
    build=cs_fedncf,
    summary="private user vector, shared perceptron over a shared map of content",
    rounds=100,
    protocol="mdifffr",
)


# FedAvg + VBPR: the id row with projected content beside it, and a pairwise loss.
#
# u · [E_i ; W [text_i ; image_i]]. User vectors are trained and stay on the device (in released
# code no optimiser owns them, so they stay at their first values); E and W are shared.
#
# It is not the papers' row to the letter. Their loss has an L2 term on the rows of a batch, ours
# has none; their id rows and projections are 512 wide each (`dim=1024`), ours 64 each; and Adam on
# W has a rate of its own here.


def fedvbpr(
    dim: int = 128,
    rate: float = 1.0,
    item_rate: float = 10.0,
    encoder_rate: float = 0.01,
    epochs: int = 5,
) -> Method:
    """FedVBPR as parts, without the papers' L2 term; `dim` is the width of both halves together,
    1024 in the papers.

    >>> fedvbpr().items
    Appended(modalities=('text', 'image'), missing='mean', placement='client', without=())
    """
    base = Method(
        DotProduct(dim),
        items=Appended(),
        local=Joint(Sgd(rate), items=Sgd(item_rate), epochs=epochs, batch=2048),
        objective=PairwiseRanking(),
        server=Mean("examples"),
    )
    return with_encoder(base, "gradients", encoder_rate)


METHODS["fedvbpr"] = Entry(
    build=fedvbpr,
    summary="id row beside projected content, pairwise loss; narrower than published, no L2 term",
    rounds=100,
    protocol="fedmr",
)
