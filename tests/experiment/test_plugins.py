"""Plug-ins by their spelling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tacit.channel.clip import Clip
from tacit.channel.dense import Dense
from tacit.channel.gaussian import Gaussian
from tacit.channel.laplace import Laplace
from tacit.errors import TacitError
from tacit.experiment.plugins import PLUGINS, apply_plugin, parse
from tacit.methods import fedmf
from tacit.plugins.channel import through


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


def test_every_plugin_is_described_and_has_defaults() -> None:
    for name, plugin in PLUGINS.items():
        assert plugin.summary
        assert apply_plugin(fedmf(), name) == plugin.apply(fedmf())
