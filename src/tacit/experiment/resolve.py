"""From names to an experiment: methods, presets, plug-ins, protocols, settings, flags."""

from __future__ import annotations

import functools
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations
from typing import Any, TypeVar, cast

from tacit.core.codec import assign, check_value
from tacit.core.fit import CompositionError, LeaveOut, Remedy, Use, UseAll
from tacit.data.load import Data
from tacit.data.protocol import PROTOCOLS, Protocol, SplitRule, among_cold_items
from tacit.data.sources import SOURCES
from tacit.engines.participation import Participation
from tacit.errors import TacitError, argument, nearest, several, shown, whole
from tacit.experiment.data_spec import DataSpec
from tacit.experiment.plugins import plugins_as_released
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS
from tacit.plugins.entry import PLUGINS, parse, with_plugins

# From names to the value of a run: methods, presets, plug-ins, protocols, and single settings.

SPLITS: dict[str, dict[str, str]] = {
    "time": {"kind": "leave_one_out", "order": "time"},
    "random": {"kind": "leave_one_out", "order": "random"},
    "row": {"kind": "leave_one_out", "order": "row"},
    "item_appearance": {"kind": "leave_one_out", "order": "item_appearance"},
    "global_time": {"kind": "global_time", "order": "time", "held_out": "first"},
    "global_time_all": {"kind": "global_time", "order": "time", "held_out": "all"},
    "ratio": {"kind": "ratio", "order": "random"},
    "labels": {"kind": "labels"},
    "released": {"kind": "released", "order": "time"},
}
SHUFFLED_ORDER = "shuffled_order"  # what a protocol without order is called
COLD_SPLITS = ("cold", "cold_together")  # items are held out, not interactions
MOST_TOGETHER = 4  # settings that a refusal advises together at most


Resolving = TypeVar("Resolving", bound=Callable[..., Experiment])


def with_tried_remedies(resolving: Resolving) -> Resolving:
    """Refusals in the words of a caller: which settings help, which plug-ins are too many.

    Each of them was tried. What resolves takes `plugins` and `sets` by name.

    >>> resolve("gpfedrec", plugins=["clip", "fedmr"])
    Traceback (most recent call last):
    tacit.core.fit.CompositionError: TablesBeside reads single tables, for which the channel \
has neither bound nor noise yet; drop plugins=['clip'].
    """

    @functools.wraps(resolving)
    def resolved(*first: Any, **given: Any) -> Experiment:
        try:
            return resolving(*first, **given)
        except CompositionError as error:
            plugins, sets = tuple(given.get("plugins", ())), tuple(given.get("sets", ()))

            def refusal(spellings: tuple[str, ...], uses: tuple[Use, ...]) -> TacitError | None:
                more = tuple(use.setting for use in uses)
                try:
                    resolving(*first, **{**given, "plugins": spellings, "sets": (*sets, *more)})
                except TacitError as refused:
                    return refused
                return None

            tried: list[Remedy] = [
                UseAll(uses) if len(uses) > 1 else uses[0]
                for uses in _fewest_uses(error, lambda uses: refusal(plugins, uses))
            ]
            for size in range(1, len(plugins) + 1):
                gone = [LeaveOut(names) for names in combinations(plugins, size)]
                fewest = [one for one in gone if not refusal(one.plugins_after(plugins), ())]
                if fewest:
                    raise CompositionError(error.problem, *tried, *fewest) from error
            raise CompositionError(error.problem, *(tried or error.remedies)) from error

    return cast(Resolving, resolved)


def _fewest_uses(
    error: CompositionError, refusal: Callable[[tuple[Use, ...]], TacitError | None]
) -> list[tuple[Use, ...]]:
    """The settings that a refusal advises, where they help. Where none of them does by itself, each
    goes with one that the next refusal advises, and so on."""
    met: list[tuple[tuple[Use, ...], TacitError | None]] = [((), error)]
    for _ in range(MOST_TOGETHER):
        met = [
            (together, refusal(together))
            for uses, refused in met
            if isinstance(refused, CompositionError)
            for use in refused.remedies
            if isinstance(use, Use) and use.setting is not None and use not in uses
            for together in ((*uses, use),)
        ]
        helpful = [uses for uses, refused in met if refused is None]
        if helpful:
            return helpful
    return []


@with_tried_remedies
def resolve(
    method: str,
    *,
    data: Data | DataSpec = "planted",
    protocol: str = "clean",
    preset: str = "paper",
    plugins: Sequence[str] = (),
    rounds: int | None = None,
    seed: int = 0,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    min_user: int | None = None,
    min_rating: float | None = None,
    core: int | None = None,
    duplicates: str | None = None,
    participation: float | None = None,
    engine: str = "auto",
    device: str = "cpu",
    sets: Sequence[str] = (),
) -> Experiment:
    """The experiment that these names mean; what cannot be is refused with a sentence.

    >>> resolve("pfedrec", data="ml-100k", protocol="paper").protocol.name
    'pfedrec'
    >>> resolve("fedmf", sets=["local.items.rate=0.05"]).method.local.items.rate
    0.05
    """
    if not isinstance(method, str):
        raise TacitError(f"The method is {shown(method)}; give its name, such as 'pfedrec'.")
    if method not in METHODS:
        raise METHODS.unknown(method)
    plugins, sets = several("plugins", plugins), several("sets", sets)
    rounds = None if rounds is None else whole("rounds", rounds)
    seed = whole("seed", seed)
    spec = DataSpec.of(data, columns, min_user, min_rating, core)
    if protocol == "paper":
        plugins = plugins_as_released(method, plugins, spec.name)
    entry = METHODS[method]
    built = with_plugins(entry.method(preset), plugins)
    parts = built.composed
    chosen = protocol_named(protocol, method, plugins)
    if split is None:
        has_generator = parts is not None and parts.cold is not None
        split = "cold" if has_generator else entry.split
    if (
        split is None
        and not chosen.split.is_cold
        and spec.name in SOURCES
        and not SOURCES[spec.name].has_time
    ):
        # what a source without times is split by, unless somebody says: the papers' pseudo-time
        # under their protocols, chance under ours
        split = "random" if chosen.is_clean else "item_appearance"
    if split is not None:
        chosen = with_split(chosen, split, spec.name)
    if duplicates is not None:
        kind = _hint(Protocol, "duplicates")
        chosen = replace(chosen, duplicates=check_value(duplicates, kind, "duplicates"))
    experiment = Experiment(
        name=method,
        method=built,
        rounds=paper_rounds(method, plugins) if rounds is None else rounds,
        preset=preset,
        plugins=tuple(plugins),
        data=spec,
        protocol=chosen,
        participation=Participation(1.0 if participation is None else participation),
        seed=seed,
        engine=check_value(engine, _hint(Experiment, "engine"), "engine"),
        device=device,
    )
    experiment = taking_the_last(experiment)
    for setting in sets:
        experiment = apply_set(experiment, setting)
    experiment = named_truly(experiment)
    experiment.check()
    return experiment


def taking_the_last(experiment: Experiment) -> Experiment:
    """Under a claim that covers the choice of a round, the last one is taken.

    >>> resolve("fedmf", plugins=["private"]).protocol.select
    'last'
    """
    request = experiment.method.privacy
    if request is None or request.selection != "last":
        return experiment
    return replace(experiment, protocol=replace(experiment.protocol, select="last"))


def paper_rounds(method: str, plugins: Sequence[str]) -> int:
    """How long the paper trains: that of the outermost plug-in which says, or of the method.

    >>> paper_rounds("fedmf", ["fedrkg", "clip"])
    1000
    """
    said = [PLUGINS[parse(spelling)[0]].rounds for spelling in plugins]
    return next((n for n in reversed(said) if n is not None), METHODS[method].rounds)


def apply_set(experiment: Experiment, setting: str) -> Experiment:
    """One `path=value`; a path may begin at the experiment or at the method's parts."""
    path, equals, text = setting.partition("=")
    if not equals:
        raise TacitError(
            f"Cannot read {argument('sets', setting)}; write "
            f"{argument('sets', 'part.field=value')}."
        )
    path, text = path.strip(), text.strip()
    first = path.split(".")[0]
    outer = {field.name for field in fields(Experiment)}
    if first in outer and first not in ("name", "plugins", "preset"):
        return _assigned(experiment, path, text)
    inner = {field.name for field in fields(experiment.method)}  # type: ignore[arg-type]
    if first in inner:
        return replace(experiment, method=assign(experiment.method, path, text))
    raise TacitError(f"Cannot set {path!r}; {nearest(first, inner | outer)}")


def named_truly(experiment: Experiment) -> Experiment:
    """A clean protocol that was changed where it matters is not clean any more, and says so.

    >>> leaky = apply_set(resolve("fedmf"), "protocol.negatives_exclude=all")
    >>> named_truly(leaky).protocol.name
    'custom'
    >>> resolve("fedmf", sets=["protocol.history=shuffled"]).protocol.name
    'shuffled_order'
    """
    protocol = experiment.protocol
    name = protocol.name
    if protocol.is_clean and not replace(protocol, history="in_order").keeps_clean:
        name = "custom"
    if protocol.history == "shuffled" and not name.endswith(SHUFFLED_ORDER):
        name = SHUFFLED_ORDER if name == "clean" else f"{name}_{SHUFFLED_ORDER}"
    return replace(experiment, protocol=replace(protocol, name=name))


def _assigned(experiment: Experiment, path: str, text: str) -> Experiment:
    changed: Experiment = assign(experiment, path, text)
    return changed


def protocol_named(name: str, method: str, plugins: Sequence[str]) -> Protocol:
    """A protocol by name; `paper` is that of the outermost plug-in's paper, or of the method's.

    >>> protocol_named("paper", "fedmf", []).name
    'pfedrec'
    """
    if name == "paper":
        if method not in METHODS:
            raise TacitError(f"Method {method!r} has no paper here; {nearest(method, METHODS)}")
        papers = [METHODS[method].protocol]
        papers += [p for s in plugins if (p := PLUGINS[parse(s)[0]].protocol) is not None]
        name = papers[-1]
    if name not in PROTOCOLS:
        raise TacitError(f"Unknown protocol {name!r}; {nearest(name, [*PROTOCOLS, 'paper'])}")
    return PROTOCOLS[name]


def with_split(protocol: Protocol, split: str, data: str) -> Protocol:
    """A protocol with the split of that short name, for the data of that name or path. Fields of
    the split may follow the name.

    >>> with_split(PROTOCOLS["clean"], "cold", "planted").split.kind
    'cold'
    >>> with_split(PROTOCOLS["clean"], "global_time:test_share=0.2", "planted").split.test_share
    0.2
    """
    name, _, rest = split.partition(":")
    chosen = _cold(protocol, name, data) if name in COLD_SPLITS else None
    if chosen is None:
        chosen = replace(protocol, split=split_named(name, protocol.split))
    for piece in filter(None, rest.split(",")):
        key, equals, text = (word.strip() for word in piece.partition("="))
        if not equals or key in ("kind", "order"):
            raise TacitError(
                f"Cannot read {shown(piece)} in the split {shown(split)}; write "
                f"{argument('split', f'{name}:test_share=0.2')}, or another field of it."
            )
        chosen = replace(chosen, split=assign(chosen.split, key, text))
    return chosen


def _cold(protocol: Protocol, split: str, data: str) -> Protocol:
    """A protocol for items that nobody has touched, by the published split where there is one;
    `cold_together` ranks them among all items."""
    chosen = protocol if protocol.split.is_cold else among_cold_items(protocol)
    if data in SOURCES and SOURCES[data].cold_split is not None:
        chosen = replace(chosen, split=replace(chosen.split, kind="cold_published"))
    if split == "cold_together":
        chosen = replace(chosen, valid_mask="train", test_mask="train+valid")
    return chosen


def split_named(name: str, base: SplitRule) -> SplitRule:
    """A split by its short name, with the other fields of `base`.

    >>> split_named("random", SplitRule()).order
    'random'
    """
    if name not in SPLITS:
        raise TacitError(f"Unknown split {name!r}; {nearest(name, [*SPLITS, *COLD_SPLITS])}")
    return replace(base, **SPLITS[name])  # type: ignore[arg-type]


@functools.cache
def _hint(kind: type, name: str) -> Any:
    return typing.get_type_hints(kind)[name]


# Flags on top of a saved experiment: what was given changes, everything else stays.

# Flags that are a single field of the experiment, and its path.
FIELDS = {
    "min_user": "data.min_user",
    "min_rating": "data.min_rating",
    "core": "data.core",
    "duplicates": "protocol.duplicates",
    "rounds": "rounds",
    "seed": "seed",
    "participation": "participation.ratio",
    "engine": "engine",
    "device": "device",
}


@with_tried_remedies
def override(
    experiment: Experiment,
    *,
    method: str | None = None,
    data: Data | None = None,
    preset: str | None = None,
    protocol: str | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    plugins: Sequence[str] = (),
    sets: Sequence[str] = (),
    **given: Any,
) -> Experiment:
    """The experiment with the given arguments of `resolve` in place of its own; plug-ins add up.

    >>> from tacit.experiment.resolve import resolve
    >>> override(resolve("fedmf", seed=3), rounds=5).rounds
    5
    """
    for what, wanted, found in (
        ("the method", method, experiment.name),
        ("the preset", preset, experiment.preset),
    ):
        if wanted is not None and wanted != found:
            raise TacitError(
                f"The saved configuration spells {what} {found!r} out in full, so it cannot become "
                f"{wanted!r}; use {argument('sets')} for single fields, or leave out --config."
            )
    if plugins:
        built = with_plugins(experiment.method, plugins, before=experiment.plugins)
        experiment = replace(experiment, method=built, plugins=(*experiment.plugins, *plugins))
    if protocol is not None:
        chosen = protocol_named(protocol, experiment.name, experiment.plugins)
        experiment = replace(experiment, protocol=chosen)
    if plugins or protocol is not None:
        experiment = taking_the_last(experiment)
    if data is not None or columns is not None:
        old = experiment.data
        spec = DataSpec.of(old if data is None else data, columns or dict(old.columns))
        filters = {name: getattr(old, name) for name in ("min_user", "min_rating", "core")}
        experiment = replace(experiment, data=replace(spec, **filters))
    if split is not None:
        changed = with_split(experiment.protocol, split, experiment.data.name)
        experiment = replace(experiment, protocol=changed)
    for name, value in given.items():
        if value is not None:
            # a JSON scalar is a TOML one, so names stay names whatever they look like
            text = json.dumps(value, ensure_ascii=False)
            experiment = apply_set(experiment, f"{FIELDS[name]}={text}")
    for setting in sets:
        experiment = apply_set(experiment, setting)
    experiment = named_truly(experiment)
    experiment.check()
    return experiment
