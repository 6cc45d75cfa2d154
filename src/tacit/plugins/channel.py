"""One more link at the end of a method's channel."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tacit.core.method import Method
from tacit.core.parts import Transform
from tacit.parts.channel import Clip, Gaussian, Laplace
from tacit.plugins.entry import PLUGINS, Plugin, Promise


def through(method: Method, link: Transform) -> Method:
    """The method with one more link at the end of its channel.

    >>> from tacit.methods import fedmf
    >>> through(fedmf(), Clip(bound=1.0)).channel[-1]
    Clip(bound=1.0, order=2)
    """
    return replace(method, channel=(*method.channel, link))


BOUNDED = Promise("Clip on uploads", lambda m: any(link.order for link in m.channel))


def _noise(name: str) -> Promise:
    return Promise(f"{name} on uploads", lambda m: any(link.noisy for link in m.channel))


def clip(method: Method, bound: float = 1.0, order: Literal[1, 2] = 2) -> Method:
    """Bound the norm of each upload; a bound stands before noise, in whatever order they come.

    >>> from tacit.methods import fedmf
    >>> clip(fedmf(), bound=2.0).channel[-1]
    Clip(bound=2.0, order=2)
    >>> clip(gaussian(fedmf())) == gaussian(clip(fedmf()))
    True
    """
    before = [link for link in method.channel if "noise" not in link.gives]
    noise = [link for link in method.channel if "noise" in link.gives]
    return replace(method, channel=(*before, Clip(bound, order), *noise))


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
