"""Plug-ins by their spelling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tacit.core.fit import CompositionError
from tacit.core.method import Method
from tacit.errors import TacitError
from tacit.experiment.plugins import plugin_notes
from tacit.experiment.resolve import override, resolve
from tacit.experiment.run import run
from tacit.methods import fedmf, fedncf
from tacit.parts.channel import Clip, Dense, Gaussian, Laplace
from tacit.parts.items import IdOnly
from tacit.parts.server import Mean
from tacit.parts.sync import Replace
from tacit.plugins.channel import through
from tacit.plugins.entry import PLUGINS, apply_plugin, parse, with_plugins


def refusal(spelling: str) -> str:
    with pytest.raises(TacitError) as caught:
        apply_plugin(fedmf(), spelling)
    return str(caught.value)


def test_spellings() -> None:
    assert parse("clip") == ("clip", {})
    assert parse("clip:") == ("clip", {})
    assert parse("clip:bound=2,order=1") == ("clip", {"bound": "2", "order": "1"})
    assert parse("clip: bound = 2 , order=1,") == ("clip", {"bound": "2", "order": "1"})


def test_each_plugin_appends_its_link_and_changes_nothing_else() -> None:
    method = fedmf()
    for spelling, link in (
        ("clip", Clip()),
        ("clip:bound=0.5,order=1", Clip(0.5, 1)),
        ("gaussian:sigma=1e-3", Gaussian(0.001)),
        ("laplace:scale=2", Laplace(2.0)),
    ):
        found = apply_plugin(method, spelling)
        assert found == replace(method, channel=(Dense(), link))
        assert found == through(method, link)


def test_plugins_stand_in_the_order_given() -> None:
    found = apply_plugin(apply_plugin(fedmf(), "clip:bound=1"), "gaussian:sigma=2")
    assert found.channel == (Dense(), Clip(1.0), Gaussian(2.0))


@pytest.mark.parametrize(
    ("spelling", "sentence"),
    [
        ("clpi", "Unknown plug-in 'clpi'; did you mean 'clip'? Known: clip, dual_personalised, "),
        ("clip:bond=1", "Plug-in 'clip' has no 'bond'; did you mean 'bound'? Known: bound, order."),
        ("clip:1", "Cannot read '1' in the plug-in 'clip:1'; write NAME:key=value,key=value."),
        ("clip:bound=big", "clip.bound is 'big': input should be a valid number"),
        ("clip:order=3", "clip.order is 3: input should be 1 or 2."),
        ("clip:bound=", "clip.bound is '': input should be a valid number"),
    ],
)
def test_mistakes(spelling: str, sentence: str) -> None:
    assert refusal(spelling).startswith(sentence)


def test_every_plugin_says_what_it_brings_and_brings_it() -> None:
    for name, plugin in PLUGINS.items():
        assert plugin.promise is not None
        assert plugin.promise.holds(with_plugins(fedncf(), [name])), name
        if name != "gie":  # FedNCF's global table replaces all by itself
            assert not plugin.promise.holds(fedncf()), name


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("dual_personalised", "fedmr"),
        ("dualper", "fedrkg"),
        ("dual_personalised", "ifedrec"),
        ("gie", "pie"),
        ("gie", "dual_personalised"),
    ],
)
def test_no_plugin_undoes_another_without_a_word(one: str, two: str) -> None:
    for order in ([one, two], [two, one]):
        with pytest.raises(CompositionError) as caught:
            resolve("fedmf", plugins=order)
        assert {remedy.plugins for remedy in caught.value.remedies} == {(one,), (two,)}


def test_what_plugins_take_from_a_method_of_its_own_is_noted() -> None:
    for plugin, instead in (("fedmr", "the global items"), ("fedrkg", "a personal table")):
        (note,) = plugin_notes(resolve("pfedrec", plugins=[plugin]))
        assert note == (
            "pfedrec by itself ranks with a privately tuned copy of the item table; with "
            f"{plugin} there is none, and clients rank with {instead}."
        )
        assert plugin_notes(resolve("fedmf", plugins=[plugin])) == []
    assert plugin_notes(resolve("pfedrec", plugins=["clip", "ridge"])) == []
    assert plugin_notes(resolve("popularity")) == []


def test_noise_without_a_bound_runs_and_says_that_it_guarantees_nothing(tmp_path: Path) -> None:
    result = run(resolve("fedmf", rounds=1, plugins=["gaussian:sigma=0.1"]), tmp_path / "one")
    assert result.privacy.guarantee == "none"
    assert any("no guarantee" in note for note in result.notes)
    bounded = run(resolve("fedmf", rounds=1, plugins=["clip", "gaussian"]), tmp_path / "two")
    assert not any("no guarantee" in note for note in bounded.notes)


def test_noise_with_weights_by_examples_runs_under_the_cap_that_is_advised(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match=r"bound the weights \(sets=\['server.cap=100'\]\)"):
        resolve("fedavg", plugins=["clip", "gaussian"])
    sets = ["server.cap=100", "backbone.dim=4"]
    found = resolve("fedavg", rounds=1, plugins=["clip", "gaussian"], sets=sets)
    assert run(found, tmp_path / "one").rounds_run == 1


def test_flags_on_top_of_a_saved_experiment_keep_the_word_too() -> None:
    saved = resolve("fedmf", plugins=["dual_personalised"])
    with pytest.raises(
        CompositionError, match=r"which fedmr takes away; drop plugins=\['fedmr'\]\."
    ):
        override(saved, plugins=["fedmr"])
    with pytest.raises(CompositionError, match=r"no parts to plug into; drop plugins=\['clip'\]\."):
        override(resolve("ease"), plugins=["clip"])


def test_a_clip_stands_before_noise_whatever_comes_first() -> None:
    assert with_plugins(fedmf(), ["laplace", "clip"]) == with_plugins(fedmf(), ["clip", "laplace"])
    noisy = with_plugins(fedmf(), ["gaussian", "clip:bound=2", "laplace", "clip:order=1"])
    kinds = [type(link) for link in noisy.channel]
    assert kinds == [Dense, Clip, Clip, Gaussian, Laplace]


@dataclass(frozen=True)
class Later(Replace):
    """A rule of somebody's own."""


@dataclass(frozen=True)
class Heavier(Mean):
    def weight(self, n_positives: int) -> float:
        return 2.0


@dataclass(frozen=True)
class Hashed(IdOnly):
    pass


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        (replace(fedmf(), sync=Later()), ("dual_personalised", "fedrkg", "gie", "pie", "ifedrec")),
        (replace(fedmf(), server=Heavier()), ("fedmr", "fedvlr", "id_only")),
        (replace(fedmf(), items=Hashed()), ("fedmr", "fedvlr", "id_only", "dual_personalised")),
    ],
)
def test_a_subclass_of_a_builtin_part_is_not_displaced(
    changed: Method, names: tuple[str, ...]
) -> None:
    for name in names:
        with pytest.raises(CompositionError):
            with_plugins(changed, [name])


def test_every_plugin_is_described_and_has_defaults() -> None:
    for name, plugin in PLUGINS.items():
        assert plugin.summary
        assert apply_plugin(fedmf(), name) == plugin.apply(fedmf())
