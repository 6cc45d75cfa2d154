"""Links of the channel: the battery, hand-computed bounds, and noise with the right spread."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.types import Task
from tacit.errors import TacitError
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer
from tacit.parts.channel import Clip, Dense, Gaussian, GaussianSum, Laplace, QuantileClip
from tacit.testing import ChannelTests


class TestClip(ChannelTests):
    link = Clip(bound=0.5)
    neutral = Clip(bound=1e12)
    before = (Dense(),)


class TestClipL1(ChannelTests):
    link = Clip(bound=0.5, order=1)
    neutral = Clip(bound=1e12, order=1)
    before = (Dense(),)


class TestGaussian(ChannelTests):
    link = Gaussian(sigma=0.3)
    neutral = Gaussian(sigma=0.0)
    before = (Dense(), Clip(bound=1.0))


class TestGaussianSum(ChannelTests):
    link = GaussianSum(sigma=0.3)
    neutral = GaussianSum(sigma=0.0)
    before = (Dense(), Clip(bound=1.0))


class TestLaplace(ChannelTests):
    link = Laplace(scale=0.3)
    neutral = Laplace(scale=0.0)
    before = (Dense(),)


def test_a_bound_that_nobody_estimates_is_refused() -> None:
    method = replace(resolve("fedmf").method, channel=(Dense(), QuantileClip()))  # type: ignore
    with pytest.raises(TacitError, match="a claim of privacy brings"):
        method.algorithm(Task(2, 3))


def test_clip_scales_to_the_bound() -> None:
    norm = torch.tensor([1.0, 2.0, 8.0])
    assert (Clip(bound=2.0).factor(norm) * norm).tolist() == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("link", "variance"), [(Gaussian(sigma=0.5), 0.25), (Laplace(scale=0.5), 2 * 0.25)]
)
def test_noise_of_a_sum_has_the_variance_of_n_clients(link, variance) -> None:
    total = link.add_noise(np.zeros(40_000), 9, np.random.default_rng(0))
    assert np.var(total) == pytest.approx(9 * variance, rel=0.05)
    assert abs(total.mean()) < 0.05


def test_noise_of_a_sum_does_not_grow_with_the_clients() -> None:
    one, nine = (
        GaussianSum(sigma=0.5).add_noise(np.zeros(40_000), n, np.random.default_rng(0))
        for n in (1, 9)
    )
    assert np.array_equal(one, nine)
    assert np.std(one) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    "battery", [TestClip, TestClipL1, TestGaussian, TestGaussianSum, TestLaplace]
)
def test_a_neutral_link_takes_no_sentence_away(battery) -> None:
    """What the server can read stands as long as nothing hides it, whatever a link is called."""
    experiment = resolve("fedmf", rounds=1)
    train = prepare(experiment).split.train

    def reads(*channel: object) -> list[str]:
        method = replace(experiment.method, channel=channel)
        return Trainer(replace(experiment, method=method), train, 1).disclosure().sentences()

    plain = reads(*battery.before)
    assert Dense().interpretation() in plain
    with_it = reads(*battery.before, battery.neutral)
    assert set(plain) <= set(with_it)
    assert len(set(with_it) - set(plain)) == bool(battery.neutral.interpretation())
    if "noise" in battery.link.gives:
        assert with_it == plain
        noisy = reads(*battery.before, battery.link)
        assert Dense().interpretation() not in noisy
        assert battery.link.interpretation() in noisy
