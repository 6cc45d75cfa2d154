"""Generators as plug-ins: any method with a global item table gets rows for untouched items."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tacit.core.fit import CompositionError, LeaveOut
from tacit.core.method import Method
from tacit.core.optim import Adam
from tacit.core.parts import ColdStart
from tacit.parts.cold.diffusion import Corrected, Diffusion
from tacit.parts.cold.features import Features
from tacit.parts.cold.mapping import Mapping
from tacit.parts.cold.simple import Nearest, RandomRows, Ridge
from tacit.parts.diffusion.process import Schedule
from tacit.parts.sync import GUIDE, Anchored, require_ground
from tacit.plugins.entry import PLUGINS, Plugin, Promise

RowKind = Literal["content", "zero", "random"]

# On their validation parts the preset `tuned` of generators was chosen (docs/coldstart.md).
TUNED_ON = ("ml-100k", "ml-1m", "lastfm-2k", "citeulike-a")


def _rows_by(generator: type) -> Promise:
    return Promise(f"rows from {generator.__name__}", lambda m: m.cold is not None)


def mdifffr(
    method: Method,
    modalities: str = "text",
    preset: Literal["paper", "released", "tuned"] = "paper",
    every: int = 1,
    guidance: Literal["content", "zero", "random", "none"] = "content",
    fusion: Literal["attention", "concatenated"] | None = None,
    draws: int | None = None,
) -> Method:
    """Rows from a diffusion that content guides (MDiffFR); names are joined by "+".

    `paper` has the printed, unweighted loss, with Adam (the paper names no optimiser); `released`
    the code's weights and plain descent; `tuned` is ours: a simple map speaks first, and a
    diffusion on a schedule that ends in noise learns what is left. `fusion` and `draws` are those
    of the preset unless told otherwise.

    >>> from tacit.methods import pfedrec
    >>> mdifffr(pfedrec(), every=2).cold.every
    2
    """
    kind: RowKind = "content" if guidance == "none" else guidance
    names = _names(modalities)
    named = diffusion_named(preset)
    generator = replace(
        named,
        features=Features(names, reduce=preset != "tuned", kind=kind),
        guidance=guidance != "none",
        fusion=fusion or named.fusion,
        every=every,
        draws=named.draws if draws is None else draws,
    )
    if preset != "tuned":
        return _with(method, generator, "mdifffr")
    blind = replace(generator.features, kind="zero") if guidance == "none" else generator.features
    made = Corrected(Ridge(blind), replace(generator, features=blind))
    return _with(method, made, "mdifffr")


PLUGINS["mdifffr"] = Plugin(
    mdifffr,
    "rows for untouched items from a diffusion that content guides",
    "mdifffr",
    promise=_rows_by(Diffusion),
)


def diffusion_named(preset: str) -> Diffusion:
    """The diffusion of a preset.

    >>> diffusion_named("released").loss
    'weighted'
    """
    if preset == "released":
        return Diffusion()
    if preset == "paper":
        return Diffusion(loss="unweighted", optimiser=Adam(1e-3))
    return Diffusion(
        schedule=Schedule(kind="cosine"),
        fusion="concatenated",
        loss="unweighted",
        optimiser=Adam(1e-3),
        draws=4,
        standardise=True,
    )


def light_mdifffr(
    method: Method,
    modalities: str = "text",
    preset: Literal["paper", "released", "tuned"] = "paper",
) -> Method:
    """MDiffFR that trains its diffusion in every second round.

    >>> from tacit.methods import pfedrec
    >>> light_mdifffr(pfedrec()).cold.every
    2
    """
    return mdifffr(method, modalities, preset, every=2)


PLUGINS["light_mdifffr"] = Plugin(
    light_mdifffr,
    "MDiffFR that learns in every second round",
    "mdifffr",
    promise=_rows_by(Diffusion),
)


def ifedrec(
    method: Method,
    modalities: str = "text",
    strength: float = 10.0,
    rate: float = 5e-3,
    steps: int = 1,
    kind: RowKind = "content",
) -> Method:
    """Rows from IFedRec's attribute network, to which clients are pulled while they train.

    Clients are stable while strength · rate · η is below the table's width.

    >>> from tacit.methods import pfedrec
    >>> ifedrec(pfedrec(), strength=1.0).sync
    Anchored(strength=1.0)
    """
    require_ground(method.sync, "ifedrec")
    generator = Mapping(Features(_names(modalities), reduce=False, kind=kind), Adam(rate), steps)
    return _with(replace(method, sync=Anchored(strength)), generator, "ifedrec")


PLUGINS["ifedrec"] = Plugin(
    ifedrec,
    "rows from a map of content, to which clients are pulled",
    "mdifffr",
    promise=Promise(
        "rows from a map of content, to which clients are pulled",
        lambda m: GUIDE in m.sync.needs and m.cold is not None,
    ),
)


def ridge(
    method: Method, modalities: str = "text", strength: float = 1.0, kind: RowKind = "content"
) -> Method:
    """Rows by linear regression on content.

    >>> from tacit.methods import pfedrec
    >>> ridge(pfedrec()).cold.strength
    1.0
    """
    features = Features(_names(modalities), reduce=False, kind=kind)
    return _with(method, Ridge(features, strength), "ridge")


PLUGINS["ridge"] = Plugin(
    ridge,
    "rows for untouched items by linear regression on content",
    promise=_rows_by(Ridge),
)


def nearest(
    method: Method, modalities: str = "text", neighbours: int = 10, kind: RowKind = "content"
) -> Method:
    """The mean row of the items whose content is nearest.

    >>> from tacit.methods import pfedrec
    >>> nearest(pfedrec(), neighbours=3).cold.neighbours
    3
    """
    features = Features(_names(modalities), reduce=False, kind=kind)
    return _with(method, Nearest(features, neighbours), "nearest")


PLUGINS["nearest"] = Plugin(
    nearest,
    "rows for untouched items: the mean of their neighbours'",
    promise=_rows_by(Nearest),
)


def random_rows(method: Method) -> Method:
    """The control: rows that know nothing of the item.

    >>> from tacit.methods import pfedrec
    >>> random_rows(pfedrec()).cold
    RandomRows()
    """
    return _with(method, RandomRows(), "random_rows")


PLUGINS["random_rows"] = Plugin(
    random_rows, "control: rows that know nothing of the item", promise=_rows_by(RandomRows)
)


def _with(method: Method, generator: ColdStart, name: str) -> Method:
    if method.cold is not None:
        raise CompositionError(
            f"{name} and {type(method.cold).__name__} both make rows for untouched items",
            LeaveOut((name,)),
        )
    return replace(method, cold=generator)


def _names(joined: str) -> tuple[str, ...]:
    return tuple(filter(None, joined.split("+")))
