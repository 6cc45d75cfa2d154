"""The audit of a guarantee: it plays the code that adds noise, and finds out what is too little."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.audit.privacy import (
    Mechanism,
    Tables,
    audit_mechanism,
    audit_privacy,
    epsilon_of,
    mechanism_of,
    privacy_page,
    small_view,
)
from tacit.engines.round import add_noise
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.privacy.guarantee import Guarantee

DRAWS = 2000


def gaussian(noise: float, reach: float = 1.0, releases: int = 1) -> Mechanism:
    """Sums of one number, with noise from numpy."""

    def noisy(tables: Tables, seed: int) -> Tables:
        generator = np.random.default_rng(seed)
        return {name: v + noise * generator.normal(size=v.shape) for name, v in tables.items()}

    canary = {f"{n}:a": np.array([0.0, reach, 0.0]) for n in range(releases)}
    nothing = {name: 0.0 * value for name, value in canary.items()}
    return Mechanism(nothing, canary, noisy, two_sided=False, releases=releases)


def claim(noise: float = 2.0, releases: int = 1) -> Guarantee:
    return Guarantee.gaussian("secure_sum", 1.0, noise, releases, 1e-5)


def test_a_true_claim_stands_and_the_control_is_caught() -> None:
    found = audit_mechanism("made up", gaussian(2.0), claim(), 1.0, draws=DRAWS, seeds=2)
    assert (found.exceeded, found.caught) == ((), (0, 1))
    assert found.verdict == "not refuted"
    assert 0.2 * found.epsilon < found.seeds[0].epsilon <= found.epsilon


@pytest.mark.parametrize(
    ("mechanism", "stated"),
    [
        (gaussian(1.0), claim(2.0)),  # half the noise
        (gaussian(2.0, reach=2.0), claim(2.0)),  # an upload that no clip has bounded
        # noise for one release, stated for sixteen
        (gaussian(2.0, releases=4), replace(claim(2.0, 16), epsilon=claim(2.0, 1).epsilon)),
    ],
)
def test_wrong_claims_are_found_out(mechanism: Mechanism, stated: Guarantee) -> None:
    found = audit_mechanism("made up", mechanism, stated, mechanism.reach, draws=DRAWS)
    assert found.exceeded == (0,)
    assert found.verdict == "WRONG"
    assert "WRONG" in " ".join(privacy_page(found).notes)


def test_few_draws_are_too_weak_and_say_so() -> None:
    found = audit_mechanism("made up", gaussian(20.0), claim(20.0), 1.0, draws=100)
    assert found.verdict == "too weak to tell"
    assert "too weak" in " ".join(privacy_page(found).notes)


def test_what_a_claim_comes_to_for_some_of_its_releases() -> None:
    whole = claim(2.0, releases=50)
    assert epsilon_of(whole, 50) == pytest.approx(20.6755, abs=1e-4)
    assert epsilon_of(whole, 4) == pytest.approx(claim(2.0, releases=4).epsilon)
    laplace = Guarantee.laplace("local", 1.0, 4.0, 10)
    assert epsilon_of(laplace, 2) == pytest.approx(1.0)


# The noise of real methods, by the code that adds it in a round

PRIVATE = [
    ("pfedrec", "private:epsilon=4", 1),
    ("pfedrec", "private:epsilon=4,view=local", 1),
    ("fedncf", "private:epsilon=4", 1),  # several parameters share the bound
    ("pfedrec", "private:epsilon=4", 3),  # a bound that moves
    # one release in as many rounds as the method has
    ("fedease", "private:epsilon=4", 2),
    ("fedease", "private:epsilon=4,clip=0.5", 2),  # two of them
    ("fednext", "private:epsilon=4", 2),
    ("fedspectral", "private:epsilon=4", 3),
]


@pytest.mark.parametrize(("method", "plugin", "rounds"), PRIVATE)
def test_the_guarantees_of_methods_are_not_refuted(method: str, plugin: str, rounds: int) -> None:
    found = audit_privacy(resolve(method, plugins=[plugin], rounds=rounds), draws=DRAWS)
    assert found.claim.epsilon == pytest.approx(4.0)
    assert found.verdict == "not refuted"
    assert found.upload <= found.claim.bound * (1 + 1e-6)
    assert found.seeds[0].epsilon > 0.3 * found.epsilon  # the audit does see the noise


def test_a_channel_written_by_hand() -> None:
    by_hand = resolve("fedmf", plugins=["clip:bound=2", "gaussian:sigma=8"], rounds=1)
    found = audit_privacy(by_hand, draws=DRAWS)
    assert (found.claim.view, found.claim.sensitivity) == ("local", 4.0)
    assert found.verdict == "not refuted"
    laplace = resolve("fedmf", plugins=["clip:bound=1,order=1", "laplace:scale=1"], rounds=1)
    pure = audit_privacy(laplace, draws=1000)
    assert (pure.claim.mechanism, pure.claim.delta) == ("laplace", 0.0)
    assert len(pure.seeds[0].bounds) == 1
    assert pure.exceeded == ()


def test_half_the_noise_in_the_code_is_found_out() -> None:
    """The very channel with half its noise, under the full claim."""
    full = resolve("pfedrec", plugins=["clip:bound=1", "gaussian:sigma=8"], rounds=1)
    less = resolve("pfedrec", plugins=["clip:bound=1", "gaussian:sigma=4"], rounds=1)
    stated = audit_privacy(full, draws=100).claim
    found = audit_privacy(less, draws=DRAWS, claim=stated)
    assert found.verdict == "WRONG"


def test_an_upload_above_the_bound_is_found_out() -> None:
    """Noise for a bound that nobody keeps."""
    loose = resolve("pfedrec", plugins=["clip:bound=3", "gaussian:sigma=4"], rounds=1)
    stated = Guarantee.gaussian("local", bound=1.0, noise=4.0, releases=1, delta=1e-5)
    found = audit_privacy(loose, draws=1000, claim=stated)
    assert found.upload == pytest.approx(3.0, rel=1e-4)
    assert found.verdict == "WRONG"
    assert "above the bound 1" in " ".join(privacy_page(found).notes)


def test_the_canary_is_stretched_to_the_bound() -> None:
    by_hand = resolve("fedmf", plugins=["clip:bound=1e6", "gaussian:sigma=1e6"], rounds=1)
    trainer = Trainer(by_hand, small_view())
    stated = trainer.guarantee()
    assert stated is not None
    mechanism, upload = mechanism_of(trainer, stated)
    assert upload < 1e6
    assert mechanism.reach == pytest.approx(1e6)
    assert mechanism.two_sided
    assert not any(value.any() for value in mechanism.base.values())  # its upload alone


def mechanism_for(method: str, plugin: str, **more: Any) -> tuple[Mechanism, float, Guarantee]:
    trainer = Trainer(resolve(method, plugins=[plugin], **more), small_view())
    stated = trainer.guarantee()
    assert stated is not None
    return *mechanism_of(trainer, stated), stated


COUNTS_FIRST = {
    "fedease": ["0:counts", "1:pairs"],
    "fednext": ["0:counts", "1:pairs"],
    "fedspectral": ["0:counts", "1:basis", "2:basis"],
    "dpals": ["0:counts", "1:gram", "1:right", "2:gram", "2:right"],
}


@pytest.mark.parametrize("method", COUNTS_FIRST)
@pytest.mark.parametrize("clip", ["", ",clip=2", ",clip=0.3"])
def test_all_releases_of_a_method_that_counts_first_are_looked_at(method: str, clip: str) -> None:
    """One vector with one bound, or as many as there are rounds where a clip bounds each."""
    mechanism, upload, stated = mechanism_for(method, f"private:epsilon=4{clip}")
    assert sorted(mechanism.canary) == sorted(COUNTS_FIRST[method])
    each = clip == ",clip=0.3"
    assert (
        mechanism.releases == stated.releases == (int(max(mechanism.canary)[0]) + 1 if each else 1)
    )
    assert upload <= stated.bound * (1 + 1e-5)
    assert mechanism.reach == pytest.approx(stated.bound * stated.releases**0.5, rel=1e-5)
    nothing = {name: 0.0 * value for name, value in mechanism.canary.items()}
    draws = [mechanism.noisy(nothing, seed) for seed in range(8)]
    for name, direction in mechanism.direction.items():
        assert np.abs(direction).max() > 0.0
        noise = np.stack([draw[name] for draw in draws])
        assert noise.std() == pytest.approx(stated.noise, rel=0.2)


@pytest.mark.parametrize("silent", [1, 2])
def test_a_release_without_noise_is_found_out_whichever_it_is(
    monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    def forgetful(algorithm: Any, state: State, *more: Any) -> None:
        if state.round_number + 1 != silent:
            add_noise(algorithm, state, *more)

    stated = resolve("fedease", plugins=["private:epsilon=4,clip=0.5"], rounds=2)
    assert audit_privacy(stated, draws=DRAWS).verdict == "not refuted"
    monkeypatch.setattr("tacit.audit.privacy.add_noise", forgetful)
    assert audit_privacy(stated, draws=DRAWS).verdict == "WRONG"


def test_the_noise_of_an_estimated_bound_is_in_its_units() -> None:
    """The estimate moves from release to release, and table, bit and noise move with it."""
    mechanism, upload, stated = mechanism_for("pfedrec", "private:epsilon=4", rounds=5)
    assert mechanism.releases == 4  # of five
    assert upload == pytest.approx(stated.bound, rel=1e-5)
    assert mechanism.reach == pytest.approx(2 * stated.bound, rel=1e-5)
    noise = mechanism.noisy({name: 0.0 * value for name, value in mechanism.canary.items()}, 1)
    for place in range(4):
        unit = mechanism.unit[f"{place}:items"]
        assert (unit == 1.0) == (place == 0)
        assert noise[f"{place}:items"].std() / stated.noise == pytest.approx(unit, rel=0.1)
        assert mechanism.unit[f"{place}:privacy.bound"] == 1.0


def test_no_guarantee_no_audit() -> None:
    for method, plugins, sentence in (
        ("fedmf", (), "states no guarantee"),
        ("fedmf", ("gaussian",), "states no guarantee"),
        ("popularity", (), "has all histories"),
    ):
        with pytest.raises(TacitError, match=sentence):
            audit_privacy(resolve(method, plugins=plugins), draws=100)
    with pytest.raises(TacitError, match="draws is 10"):
        audit_privacy(resolve("fedmf"), draws=10)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["private:epsilon=2", "private:epsilon=8,view=local"])
def test_twenty_seeds_of_fifty_thousand_draws(plugin: str) -> None:
    found = audit_privacy(resolve("pfedrec", plugins=[plugin], rounds=1), draws=50_000, seeds=20)
    assert found.exceeded == ()
    assert len(found.caught) == 20
