"""One more link in a method's channel."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tacit.core.method import Method
from tacit.core.parts import Transform
from tacit.parts.channel import Clip, Gaussian, Laplace
from tacit.parts.compression import Quantise, RandomProjection, TopK
from tacit.plugins.entry import PLUGINS, Plugin, Promise


def through(method: Method, link: Transform) -> Method:
    """The method with one more link at the end of its channel.

    >>> from tacit.methods import fedmf
    >>> through(fedmf(), Clip(bound=1.0)).channel[-1]
    Clip(bound=1.0, order=2)
    """
    return replace(method, channel=(*method.channel, link))


# Where links stand, in whatever order they are given: bounds see the change itself, rows are chosen
# of whole tables, numbers are rounded as they travel, and noise comes last.
STAGES = ("sparse", "projected", "quantised", "noise")


def in_its_place(method: Method, link: Transform) -> Method:
    """The method with one more link where it belongs: before all links of later stages.

    >>> from tacit.methods import fedmf
    >>> in_its_place(gaussian(fedmf()), Clip()).channel[-1]
    Gaussian(sigma=0.1)
    """
    before = [one for one in method.channel if _stage(one) <= _stage(link)]
    after = [one for one in method.channel if _stage(one) > _stage(link)]
    return replace(method, channel=(*before, link, *after))


def _stage(link: Transform) -> int:
    return max((place for place, what in enumerate(STAGES) if what in link.gives), default=-1)


BOUNDED = Promise("Clip on uploads", lambda m: any(link.order for link in m.channel))


def _noise(name: str) -> Promise:
    return Promise(f"{name} on uploads", lambda m: any(link.noisy for link in m.channel))


def clip(method: Method, bound: float = 1.0, order: Literal[1, 2] = 2) -> Method:
    """Bound the norm of each upload; a bound stands before noise and before links that make uploads
    smaller, in whatever order they come.

    >>> from tacit.methods import fedmf
    >>> clip(fedmf(), bound=2.0).channel[-1]
    Clip(bound=2.0, order=2)
    >>> clip(gaussian(fedmf())) == gaussian(clip(fedmf()))
    True
    """
    return in_its_place(method, Clip(bound, order))


PLUGINS["clip"] = Plugin(clip, "bound the norm of each upload", promise=BOUNDED)


def gaussian(method: Method, sigma: float = 0.1) -> Method:
    """Gaussian noise on each upload; without a bound on uploads it guarantees nothing.

    >>> from tacit.methods import fedmf
    >>> gaussian(fedmf(), sigma=1.0).channel[-1]
    Gaussian(sigma=1.0)
    """
    return through(method, Gaussian(sigma))


PLUGINS["gaussian"] = Plugin(
    gaussian,
    "Gaussian noise on uploads (accounted for after clip, in the local view)",
    promise=_noise("Gaussian"),
)


def laplace(method: Method, scale: float = 0.1) -> Method:
    """Laplace noise on each upload.

    >>> from tacit.methods import fedmf
    >>> laplace(fedmf(), scale=1.0).channel[-1]
    Laplace(scale=1.0)
    """
    return through(method, Laplace(scale))


PLUGINS["laplace"] = Plugin(
    laplace, "Laplace noise on uploads, as in PFedRec's variant", promise=_noise("Laplace")
)


# Smaller uploads.


def _sent(text: str, what: str) -> Promise:
    return Promise(text, lambda m: any(what in link.gives for link in m.channel))


def quantise(
    method: Method,
    bits: Literal[1, 2, 4, 8, 16, 32] = 8,
    scale: Literal["row", "tensor"] = "row",
) -> Method:
    """Numbers of an upload in few bits, rounded at random so that their means are true.

    >>> from tacit.methods import fedmf
    >>> quantise(fedmf(), bits=1).channel[-1]
    Quantise(bits=1, scale='row')
    """
    return in_its_place(method, Quantise(bits, scale))


PLUGINS["quantise"] = Plugin(
    quantise,
    "each number of an upload in 1 to 16 bits (bits, scale), right in the mean",
    promise=_sent("uploads in few bits", "quantised"),
)


def top_k(method: Method, share: float = 0.1) -> Method:
    """The rows that changed most are sent; the rest waits on the device.

    >>> from tacit.methods import fedmf
    >>> top_k(fedmf(), share=0.2).channel[-1]
    TopK(share=0.2)
    """
    return in_its_place(method, TopK(share))


PLUGINS["top_k"] = Plugin(
    top_k,
    "the rows that changed most (share), with error feedback on the device",
    promise=_sent("uploads of few rows", "sparse"),
)


def project(method: Method, width: int = 8) -> Method:
    """Rows of an upload in a random subspace of that width, which is another in every round.

    >>> from tacit.methods import fedmf
    >>> project(fedmf(), width=4).channel[-1]
    RandomProjection(width=4)
    """
    return in_its_place(method, RandomProjection(width))


PLUGINS["project"] = Plugin(
    project,
    "rows of an upload in a public random subspace (width), right in the mean",
    promise=_sent("uploads of short rows", "projected"),
)
