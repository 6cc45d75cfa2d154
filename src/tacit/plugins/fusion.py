"""FedMR and FedVLR: two named settings of the bi-level fusion, on any backbone.

Both papers: operators sum, perceptron and gate, id rows 512 wide, a private router; clients hold
the item side still and send accumulated gradients (FedMR's algorithm 1); the server steps the table
like the base does. FedVLR broadcasts views instead of what makes them.

Not in their texts: algorithm 1 steps operators by plain descent (`encoder="sgd"`), Adam is what the
released code does, at a rate that is ours here. FedVLR's text has no layer norm; its code has one
whose gains begin near 0, and ours begin at 1 (`normalise=False` leaves it out). The dropout of the
code is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tacit.core.capabilities import is_ground
from tacit.core.fit import CompositionError, LeaveOut, Use
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.errors import TacitError, nearest
from tacit.parts.local import GradientsOnly
from tacit.parts.mixture import Mixture
from tacit.parts.server import Mean, ServerSteps, TablesBeside
from tacit.parts.sync import Replace
from tacit.parts.views import (
    AttentionView,
    GateView,
    PerceptronView,
    SingleView,
    SumView,
    TrueGateView,
    View,
)
from tacit.plugins.entry import PLUGINS, Plugin, Promise

OPERATORS: dict[str, View] = {
    "sum": SumView(),
    "mlp": PerceptronView(),
    "gate": GateView(),
    "true_gate": TrueGateView(),
    "attention": AttentionView(),
}
# The papers give the server's Adam the clients' rate; at 0.1 operators run away within ten rounds.
ENCODER_RATE = 0.01
Sends = Literal["change", "gradients", "last_gradient"]
Encoder = Literal["adam", "sgd"]
FUSED = Promise("items fused from id and content", lambda m: m.items.routed is not None)


def fedmr(
    method: Method,
    views: str = "sum+mlp+gate",
    modalities: str = "text+image",
    encoder_rate: float = ENCODER_RATE,
    router: Literal["private", "shared"] = "private",
    rule: Literal["history", "item"] = "history",
    sends: Sends = "gradients",
    id_width: int = 512,
    without: str = "",
    noise: str = "",
    shuffled: bool = False,
    normalise: bool = False,
    placement: Literal["client", "server"] = "client",
    softmaxes: Literal[1, 2] = 1,
    restores: bool = True,
    encoder: Encoder = "adam",
) -> Method:
    """The method with fused items; names are joined by "+". `single` is one view per input,
    `single_text` that of the text alone. `encoder` is how the server steps the operators.

    >>> from tacit.methods import fcf
    >>> [view.name for view in fedmr(fcf()).items.views_of]
    ['sum', 'perceptron', 'gate']
    """
    if not is_ground(method.items):
        raise CompositionError(
            f"fedmr makes items from ids and content, but {type(method.items).__name__} does so "
            "already",
            LeaveOut(("fedmr",)),
        )
    names = _names(modalities)
    added = method.backbone.branches > 1  # a row of the backbone's own stands beside the mixture
    width = method.backbone.dim // method.backbone.branches
    items = Mixture(
        views_of=_views(views, names),
        modalities=names,
        width=width,
        id_width=id_width,
        normalise=normalise,
        router=router,
        rule=rule,
        softmaxes=softmaxes,
        added=added,
        without=_names(without),
        noise=_names(noise),
        shuffled=shuffled,
        placement=placement,
    )
    return with_encoder(replace(method, items=items), sends, encoder_rate, restores, encoder)


PLUGINS["fedmr"] = Plugin(
    fedmr,
    "items fused from id, text and image; a private router mixes views",
    "fedmr",
    promise=FUSED,
)


def fedvlr(
    method: Method,
    views: str = "sum+mlp+gate",
    modalities: str = "text+image",
    encoder_rate: float = ENCODER_RATE,
    sends: Sends = "gradients",
    id_width: int = 512,
    without: str = "",
    noise: str = "",
    shuffled: bool = False,
    normalise: bool = True,
    encoder: Encoder = "adam",
) -> Method:
    """The method with views that the server makes and broadcasts, normalised unless it is told not
    to: the paper's text has no layer norm.

    >>> from tacit.methods import fcf
    >>> fedvlr(fcf()).items.placement
    'server'
    """
    return fedmr(
        method,
        views,
        modalities,
        encoder_rate,
        sends=sends,
        id_width=id_width,
        without=without,
        noise=noise,
        shuffled=shuffled,
        normalise=normalise,
        placement="server",
        encoder=encoder,
    )


PLUGINS["fedvlr"] = Plugin(
    fedvlr, "the same with layer-normed views that the server broadcasts", "fedmr", promise=FUSED
)


def id_only_control(
    method: Method, id_width: int = 512, encoder_rate: float = ENCODER_RATE
) -> Method:
    """As wide an id table and projection as fusion has, and no content: what width alone brings.

    >>> from tacit.methods import fcf
    >>> id_only_control(fcf()).items.modalities
    ()
    """
    return fedmr(method, "single", "", encoder_rate, id_width=id_width)


PLUGINS["id_only"] = Plugin(
    id_only_control,
    "an id table as wide as fusion's, projected, no content",
    "fedmr",
    promise=FUSED,
)


def with_encoder(
    method: Method,
    sends: Sends,
    rate: float,
    restores: bool = True,
    encoder: Encoder = "adam",
) -> Method:
    """A method with a shared item encoder, held still on devices as FedMR's algorithm 1 says, and
    stepped by the server with plain descent, as it says too, or with Adam, as released code does.

    An item is more than its row then, so that clients have no tuned copy of rows to rank with:
    they rank with the global items, and a run of a method that has such a copy by itself says so.
    Where the server reads personal tables it goes on doing so, and steps the encoder beside it.
    """
    sync, server, local = method.sync, method.server, method.local
    steps = Adam(rate) if encoder == "adam" else Sgd(rate)
    if is_ground(sync):
        sync = Replace()
    if server.tables is not None:
        server = TablesBeside(server.tables, ServerSteps(local.items, steps))
    elif not is_ground(server):  # a subclass may weigh in a way of its own
        raise CompositionError(
            f"A shared item encoder needs a server that adds up, and {type(server).__name__} is "
            "none that is known",
            Use("use Mean()", "server", Mean()),
        )
    elif sends != "change":
        server = server.with_steps(local.items, steps)
    method = replace(method, server=server)
    if sends != "change":
        return replace(method, sync=sync, local=GradientsOnly(local, sends, restores))
    if not restores:
        return replace(method, sync=sync, local=GradientsOnly(local, sends, restores))
    return replace(method, sync=sync)


def _names(joined: str) -> tuple[str, ...]:
    return tuple(filter(None, joined.split("+")))


def _views(joined: str, modalities: tuple[str, ...]) -> tuple[View, ...]:
    views: list[View] = []
    for name in _names(joined):
        if name == "single":
            views += [SingleView(modality) for modality in ("id", *modalities)]
        elif name.removeprefix("single_") in ("id", *modalities) and name.startswith("single_"):
            views.append(SingleView(name.removeprefix("single_")))
        elif name in OPERATORS:
            views.append(OPERATORS[name])
        else:
            raise TacitError(f"Unknown view {name!r}; {nearest(name, [*OPERATORS, 'single'])}")
    return tuple(views)
