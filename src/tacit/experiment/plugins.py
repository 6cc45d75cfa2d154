"""Plug-ins: functions from a method to a method, by name, for `--with NAME:key=value,..`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.core.method import Method
from tacit.core.remedy import CompositionError, LeaveOut
from tacit.errors import TacitError, nearest
from tacit.experiment.codec import check_leaf
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS
from tacit.parts.channel import Clip, Gaussian, Laplace
from tacit.parts.cold.diffusion import Corrected, Diffusion
from tacit.parts.cold.mapping import Mapping
from tacit.parts.cold.simple import Nearest, RandomRows, Ridge
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.mixture import Mixture
from tacit.parts.sync import Anchored, Isolated, Replace
from tacit.plugins import cold
from tacit.plugins.channel import clip, gaussian, laplace
from tacit.plugins.fedrkg import fedrkg, global_table, knowledge_guidance, personal_table
from tacit.plugins.fusion import fedmr, fedvlr, id_only_control
from tacit.plugins.personal import dual_personalised

# Habits of released code that its paper does not name, where they make a printed number.
#
# `--protocol paper` asks for a run as the printed one was made, so it takes them, and the result
# says so. A protocol by its own name is the protocol alone, under the method of the paper's text.


@dataclass(frozen=True)
class Habits:
    """The plug-ins of a printed run with the arguments that its released code gives them, what
    these do in words, and the protocol under which the paper's text alone runs."""

    plugins: tuple[str, ...]
    words: str
    protocol: str


# (method, plug-ins as they were asked for, data) of a printed number
HABITS: dict[tuple[str, tuple[str, ...], str], Habits] = {
    ("fedmf", ("fedrkg",), "amazon-video-10"): Habits(
        ("fedrkg:clip=1.0,decay=0.99,scorer=linear",),
        "gradients bounded at norm 1, rates that shrink by a hundredth each round, a linear scorer "
        "with a bias",
        "fedrkg",
    ),
}


def plugins_as_released(method: str, plugins: Sequence[str], data: str) -> tuple[str, ...]:
    """The plug-ins of a printed run; one that is given arguments is taken at its word.

    >>> plugins_as_released("fedmf", ["fedrkg"], "amazon-video-10")
    ('fedrkg:clip=1.0,decay=0.99,scorer=linear',)
    >>> plugins_as_released("fedmf", ["fedrkg:beta=0.9"], "amazon-video-10")
    ('fedrkg:beta=0.9',)
    """
    found = HABITS.get((method, tuple(plugins), data))
    return tuple(plugins) if found is None else found.plugins


def habit_notes(experiment: Experiment) -> list[str]:
    """What a result says of the habits in it."""
    return [
        f"This run has habits of the released code that the paper does not name: {habits.words}. "
        f"The paper's text is {' '.join(f'--with {name}' for name in asked)} --protocol "
        f"{habits.protocol}."
        for (method, asked, data), habits in HABITS.items()
        if (experiment.name, experiment.plugins) == (method, habits.plugins)
        and experiment.data.name == data
    ]


# Plug-ins: functions from a method to a method, by name, for `--with NAME:key=value,..`.


@dataclass(frozen=True)
class Word:
    """What a plug-in brings: in words, and how to see in a method that it is still there."""

    says: str
    holds: Callable[[Method], bool]


@dataclass(frozen=True)
class Plugin:
    """A plug-in: a function from a method and arguments to a method, what it brings, and the
    protocol of its paper if it has one, with the rounds that the paper trains."""

    apply: Callable[..., Method]
    summary: str
    protocol: str | None = None
    rounds: int | None = None
    word: Word | None = None


def _channel(kind: type) -> Word:
    return Word(
        f"{kind.__name__} on uploads", lambda m: any(type(link) is kind for link in m.channel)
    )


def _rows_by(kind: type) -> Word:
    return Word(f"rows from {kind.__name__}", lambda m: type(m.cold) in (kind, Corrected))


def _guided(method: Method) -> bool:
    return type(method.sync) is AdaptiveGuidance and not method.backbone.shared()


GUIDED = Word("a personal table under guidance", _guided)
FUSED = Word("items fused from id and content", lambda m: type(m.items) is Mixture)
DUAL_PERSONALISED = Plugin(
    dual_personalised,
    "private scorer, privately tuned item table (PFedRec's two rules)",
    "pfedrec",
    word=Word(
        "a private scorer and a privately tuned copy of the item table",
        lambda m: m.sync.scores_with == "tuned" and not m.backbone.shared(),
    ),
)

PLUGINS: dict[str, Plugin] = {
    "clip": Plugin(clip, "bound the norm of each upload", word=_channel(Clip)),
    "gaussian": Plugin(
        gaussian,
        "Gaussian noise on uploads (no guarantee yet, and none at all without clip)",
        word=_channel(Gaussian),
    ),
    "laplace": Plugin(
        laplace, "Laplace noise on uploads, as in PFedRec's variant", word=_channel(Laplace)
    ),
    "dual_personalised": DUAL_PERSONALISED,
    "dualper": DUAL_PERSONALISED,
    "fedrkg": Plugin(
        fedrkg,
        "personal table, guided by the mean of all through a learned gate",
        "fedrkg",
        1000,
        GUIDED,
    ),
    "fedrkg_without_ag": Plugin(
        knowledge_guidance, "FedRKG without the gate: fixed guidance", "fedrkg", 1000, GUIDED
    ),
    "fedmr": Plugin(
        fedmr,
        "items fused from id, text and image; a private router mixes views",
        "fedmr",
        word=FUSED,
    ),
    "fedvlr": Plugin(
        fedvlr, "the same with normalised views that the server broadcasts", "fedmr", word=FUSED
    ),
    "id_only": Plugin(
        id_only_control,
        "an id table as wide as fusion's, projected, no content",
        "fedmr",
        word=FUSED,
    ),
    "mdifffr": Plugin(
        cold.mdifffr,
        "rows for untouched items from a diffusion that content guides",
        "mdifffr",
        word=_rows_by(Diffusion),
    ),
    "light_mdifffr": Plugin(
        cold.light_mdifffr,
        "MDiffFR that learns in every second round",
        "mdifffr",
        word=_rows_by(Diffusion),
    ),
    "ifedrec": Plugin(
        cold.ifedrec,
        "rows from a map of content, to which clients are pulled",
        "mdifffr",
        word=Word(
            "rows from a map of content, to which clients are pulled",
            lambda m: type(m.sync) is Anchored and type(m.cold) is Mapping,
        ),
    ),
    "ridge": Plugin(
        cold.ridge,
        "rows for untouched items by linear regression on content",
        word=_rows_by(Ridge),
    ),
    "nearest": Plugin(
        cold.nearest,
        "rows for untouched items: the mean of their neighbours'",
        word=_rows_by(Nearest),
    ),
    "random_rows": Plugin(
        cold.random_rows, "control: rows that know nothing of the item", word=_rows_by(RandomRows)
    ),
    "gie": Plugin(
        global_table,
        "FedRKG's ablation: the global table replaces all",
        "fedrkg",
        1000,
        Word("a global table that replaces all and ranks", lambda m: m.sync == Replace()),
    ),
    "pie": Plugin(
        personal_table,
        "FedRKG's ablation: tables never meet",
        "fedrkg",
        1000,
        Word("personal tables that never meet", lambda m: type(m.sync) is Isolated),
    ),
}


def parse(spelling: str) -> tuple[str, dict[str, str]]:
    """Name and arguments of `NAME` or `NAME:key=value,key=value`.

    >>> parse("clip:bound=2")
    ('clip', {'bound': '2'})
    """
    name, _, rest = spelling.partition(":")
    arguments: dict[str, str] = {}
    for piece in filter(None, rest.split(",")):
        key, equals, value = piece.partition("=")
        if not equals:
            raise TacitError(
                f"Cannot read {piece!r} in the plug-in {spelling!r}; write "
                "NAME:key=value,key=value."
            )
        arguments[key.strip()] = value.strip()
    return name, arguments


def apply_plugin(method: Method, spelling: str) -> Method:
    """One plug-in applied as it is spelled on the command line.

    >>> from tacit.methods import fedmf
    >>> apply_plugin(fedmf(), "laplace:scale=0.2").channel[-1]
    Laplace(scale=0.2)
    """
    name, arguments = parse(spelling)
    if name not in PLUGINS:
        raise TacitError(f"Unknown plug-in {name!r}; {nearest(name, PLUGINS)}")
    plugin = PLUGINS[name]
    parameters = list(inspect.signature(plugin.apply, eval_str=True).parameters.values())[1:]
    known = {parameter.name: parameter.annotation for parameter in parameters}
    values: dict[str, Any] = {}
    for key, text in arguments.items():
        if key not in known:
            ending = nearest(key, known) if known else "it takes none."
            raise TacitError(f"Plug-in {name!r} has no {key!r}; {ending}")
        values[key] = check_leaf(_number(text), known[key], f"{name}.{key}")
    return plugin.apply(method, **values)


def with_plugins(method: Method, spellings: Sequence[str], before: Sequence[str] = ()) -> Method:
    """All plug-ins in the order given, each of which keeps its word to the end: one that another
    undoes is refused. `before` are those that the method has already.

    >>> from tacit.methods import fedmf
    >>> with_plugins(fedmf(), ["dual_personalised", "clip"]).sync
    Replace(keep=True)
    >>> with_plugins(fedmf(), ["dual_personalised", "fedmr"])
    Traceback (most recent call last):
    tacit.core.remedy.CompositionError: dual_personalised brings a private scorer and a privately \
tuned copy of the item table, which fedmr takes away; drop --with fedmr, or drop --with \
dual_personalised.
    """
    names = [name for name in (parse(spelling)[0] for spelling in before) if name in PLUGINS]
    for spelling in spellings:
        method = apply_plugin(method, spelling)
        name = parse(spelling)[0]
        for earlier in names:
            promised = PLUGINS[earlier].word
            if promised is not None and not promised.holds(method):
                raise CompositionError(
                    f"{earlier} brings {promised.says}, which {name} takes away",
                    LeaveOut((name,)),
                    LeaveOut((earlier,)),
                )
        names.append(name)
    return method


def plugin_notes(experiment: Experiment) -> list[str]:
    """What a result says of a composition: what plug-ins took away that its method has by itself,
    and noise that nothing before it makes worth something.

    >>> from tacit.experiment.resolve import resolve
    >>> plugin_notes(resolve("pfedrec", plugins=["fedmr"]))[0][:61]
    'pfedrec by itself ranks with a privately tuned copy of the it'
    >>> plugin_notes(resolve("fedmf", plugins=["gaussian"]))[0][:61]
    'Nothing bounds an upload before the noise, so the noise gives'
    >>> plugin_notes(resolve("pfedrec", plugins=["clip", "gaussian"]))
    []
    """
    method = experiment.method
    if not isinstance(method, Method):
        return []
    notes = []
    if _tuned_by_itself(experiment) and experiment.plugins and method.sync.scores_with != "tuned":
        is_global = method.sync.scores_with == "global"
        notes.append(
            f"{experiment.name} by itself ranks with a privately tuned copy of the item table; "
            f"with {' and '.join(experiment.plugins)} there is none, and clients rank with "
            f"{'the global items' if is_global else 'a personal table'}."
        )
    given = {what for link in method.channel for what in link.gives}
    if "noise" in given and "bounded_norm" not in given:
        notes.append(
            "Nothing bounds an upload before the noise, so the noise gives no guarantee, whatever "
            "its size."
        )
    return notes


def _tuned_by_itself(experiment: Experiment) -> bool:
    """Whether the named method, without any plug-in, ranks with rows that a client tuned."""
    entry = METHODS.get(experiment.name)
    if entry is None or experiment.preset not in entry.presets:
        return False
    alone = entry.method(experiment.preset)
    return isinstance(alone, Method) and alone.sync.scores_with == "tuned"


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
