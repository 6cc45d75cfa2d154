"""The interaction attack on hand-made uploads, on real ones, under noise and in sums."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.attack.interactions import (
    ATTACKERS,
    HISTORY,
    SHUFFLED,
    Interactions,
    Setting,
    attack_interactions,
    auc,
    own_direction,
)
from tacit.attack.uploads import watch
from tacit.core.algorithm import Exchange, Total
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.engines.round import play_round, with_noise
from tacit.errors import TacitError
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.trainer import Trainer


def value(found: Interactions, attacker: str, clients: int = 1, rounds: int = 1):
    [one] = [
        one
        for one in found.attempts
        if (one.attacker, one.clients, one.rounds) == (attacker, clients, rounds)
    ]
    return one


# Hand-made uploads


def test_auc_is_the_share_of_pairs_in_order() -> None:
    generator = np.random.default_rng(0)
    score_I = generator.integers(0, 5, size=40).astype(float)
    item_H = generator.permutation(40)[:12]
    inside, outside = score_I[item_H], np.delete(score_I, item_H)
    pairs = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    assert auc(score_I, item_H) == pytest.approx(pairs.mean())
    assert auc(score_I, np.repeat(item_H, 2)) == auc(score_I, item_H)  # an item counts once


def hand_made(noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten positives along a direction, forty negatives against it, fifty untouched rows."""
    generator = np.random.default_rng(1)
    direction_W = np.array([3.0, -4.0, 0.0]) / 5
    side_I = np.repeat([1.0, -0.8, 0.0], [10, 40, 50])
    seen_IW = side_I[:, None] * direction_W + noise * generator.normal(size=(100, 3))
    return seen_IW, direction_W, np.arange(10)


def test_what_each_attacker_finds_in_an_upload_of_known_sides() -> None:
    seen_IW, direction_W, item_H = hand_made()
    found = {
        name: auc(attacker(seen_IW, direction_W), item_H) for name, attacker in ATTACKERS.items()
    }
    # touched: 40 of 90 others tie with the history, the rest stand below it
    assert found["touched"] == pytest.approx((50 + 40 / 2) / 90)
    assert found["norm"] == 1.0
    assert found["own direction"] == found["known direction"] == 1.0


def test_the_side_with_fewer_rows_is_that_of_the_positives() -> None:
    seen_IW, direction_W, item_H = hand_made()
    for turn in (1.0, -1.0):
        assert auc(own_direction(turn * seen_IW, direction_W), item_H) == 1.0
    alone_IW = np.zeros((5, 2))
    alone_IW[:2] = [-1.0, 0.5]
    assert auc(own_direction(alone_IW, np.zeros(2)), np.arange(2)) == 1.0
    assert own_direction(np.zeros((5, 2)), np.zeros(2)).tolist() == [0.0] * 5


def test_noise_takes_the_direction_away_before_who_knows_it() -> None:
    seen_IW, direction_W, item_H = hand_made(noise=0.7)
    assert auc(ATTACKERS["touched"](seen_IW, direction_W), item_H) == 0.5
    assert auc(ATTACKERS["known direction"](seen_IW, direction_W), item_H) > 0.8


# What is watched is what a round does


def watched(method: str, *plugins: str, rounds: int = 3):
    experiment = resolve(method, plugins=plugins, rounds=rounds)
    return Trainer(experiment, prepare(experiment).split.train)


@pytest.mark.parametrize("method", ["pfedrec", "fedease", "fednext"])
def test_a_cohort_adds_up_as_in_a_round(method: str) -> None:
    trainer = watched(method, *(["clip:bound=0.5"] if method == "pfedrec" else []))
    users = [3, 7, 11]
    [first] = watch(trainer, users, first=1, most=1)
    algorithm, train = trainer.algorithm, trainer.train
    [exchange] = [one for one in algorithm.exchanges(1) if one.sends]
    who = Participants(np.array(users), np.ones(3, dtype=bool))
    total = LoopEngine().play(algorithm, train, trainer.state.copy(), exchange, who, seed=0)
    [summed] = total.sums.values()
    seen = first.table(users)
    np.testing.assert_allclose(seen[:, : summed.shape[1]], summed, atol=1e-12)
    if method != "pfedrec":  # items by items: columns, too
        np.testing.assert_allclose(seen[:, summed.shape[1] :], summed.T, atol=1e-12)
    if method == "pfedrec":
        assert np.linalg.norm(first.table([3])) <= 0.5 + 1e-6


def test_noise_is_that_of_a_round() -> None:
    trainer = watched("pfedrec", "clip:bound=1", "gaussian:sigma=0.5")
    [first] = watch(trainer, [3, 7], first=1, most=1)
    noisy = with_noise(trainer.algorithm, "items", first.table([3, 7]), 2, 5, round_number=1)
    np.testing.assert_array_equal(first.table([3, 7], noise_seed=5), noisy)
    noise = first.table([3, 7], noise_seed=5) - first.table([3, 7])
    assert noise.std() == pytest.approx(0.5 * 2**0.5, rel=0.05)


def test_noise_is_in_units_of_a_bound_that_is_estimated() -> None:
    """The bound of a claim moves from round to round, and what hides the uploads moves with it."""
    trainer = watched("pfedrec", "private:epsilon=8")
    for one in watch(trainer, [3, 7], first=1, most=2):
        noise = one.table([3, 7], noise_seed=5) - one.table([3, 7])
        protection = trainer.algorithm.protection
        assert protection is not None
        unit = protection.unit(one.server.shared)
        assert (unit == 1.0) == (one.number == 1)
        assert noise.std() == pytest.approx(protection.noise * unit, rel=0.05)
        assert np.linalg.norm(one.table([3])) == pytest.approx(unit, rel=1e-4)


@pytest.mark.parametrize(
    ("method", "plugin"),
    [
        ("pfedrec", "private:epsilon=8"),
        ("pfedrec", "private:epsilon=2,view=local,quantile=0.9"),
        ("fedncf", "private:epsilon=4"),  # several tables
        ("fcf_als", "private:epsilon=4"),  # no composition
        ("fedmf", "private:epsilon=4,clip=0.1"),  # a bound that stays
    ],
)
def test_what_is_seen_is_what_a_round_adds_up_after_a_bound_has_moved(
    method: str, plugin: str
) -> None:
    trainer, users, totals = watched(method, plugin), [3, 7, 11], list[Total]()
    [later] = watch(trainer, users, first=3, most=1)
    algorithm, train, seed = trainer.algorithm, trainer.train, trainer.experiment.seed
    state, who = trainer.state.copy(), Participants(np.array(users), np.ones(3, dtype=bool))
    assert algorithm.protection is not None
    assert (algorithm.protection.unit(state.shared) != 1.0) == algorithm.protection.estimates

    def play(exchange: Exchange, who: Participants) -> Total:
        return LoopEngine().play(algorithm, train, state, exchange, who, seed)

    play_round(algorithm, train, state, who, seed, play, lambda total, _: totals.append(total))
    [total] = totals
    expected = [value for value in total.sums.values() if train.n_items in value.shape]
    assert expected
    np.testing.assert_allclose(
        later.table(users, noise_seed=seed), np.concatenate(expected, axis=1), rtol=1e-9
    )


def test_later_rounds_are_watched_after_training() -> None:
    trainer = watched("fedmf", rounds=5)
    rounds = watch(trainer, [3], first=3, most=2)
    assert [one.number for one in rounds] == [3, 4]
    assert trainer.state.round_number == 3
    again = watched("fedmf", rounds=5)
    [third] = watch(again, [3], first=3, most=1)
    np.testing.assert_array_equal(third.table([3]), rounds[0].table([3]))


# Real uploads


@pytest.fixture(scope="module")
def unprotected() -> Interactions:
    experiment = resolve("pfedrec", rounds=2)
    return attack_interactions(experiment, Setting(targets=25, clients=(1, 2, 30)))


def test_an_unprotected_upload_gives_the_history_away(unprotected: Interactions) -> None:
    assert unprotected.rounds == (1, 2)
    assert value(unprotected, "own direction").auc.mean >= 0.95
    assert value(unprotected, "known direction").auc.mean >= 0.95
    # negatives are drawn anew in the second round, positives stay
    once, twice = (value(unprotected, "touched", rounds=n).auc.mean for n in (1, 2))
    assert 0.5 < once < twice


def test_controls(unprotected: Interactions) -> None:
    assert {one.name for one in unprotected.controls} == {HISTORY, SHUFFLED}
    for one in unprotected.controls:
        assert one.passed, one
        if one.name == HISTORY:
            assert (one.must, one.auc.mean) == ("succeed", 1.0)
        else:
            assert one.must == "fail"
            assert abs(one.auc.mean - 0.5) < 0.05


def test_a_larger_crowd_hides_more(unprotected: Interactions) -> None:
    gains = [value(unprotected, "own direction", clients=n).difference for n in (1, 2, 30)]
    assert gains[0].mean > gains[1].mean > gains[2].mean > 0
    assert gains[0].low > 0.2
    one = value(unprotected, "own direction", clients=2)
    assert one.difference.mean == pytest.approx(one.auc.mean - one.without.mean)


def test_noise_hides_what_a_clip_alone_does_not() -> None:
    setting = Setting(targets=25, watched=1)
    clipped = attack_interactions(resolve("pfedrec", plugins=["clip:bound=1"]), setting)
    assert value(clipped, "own direction").auc.mean >= 0.95
    means = []
    for sigma in (0.05, 10.0):
        noise = ["clip:bound=1", f"gaussian:sigma={sigma}"]
        found = attack_interactions(resolve("pfedrec", plugins=noise), setting)
        means.append(value(found, "known direction").auc.mean)
        assert value(found, "touched").auc.mean == 0.5
    assert means[0] > 0.6
    assert abs(means[1] - 0.5) < 0.05
    assert value(found, "known direction").difference.contains(0.0)


@pytest.mark.parametrize("method", ["fedease", "fednext", "fedspectral", "fcf_als"])
def test_custom_methods(method: str) -> None:
    """Rows of the history and no others; `fcf_als` sends all rows, and those move most."""
    found = attack_interactions(resolve(method), Setting(targets=8, watched=1))
    assert value(found, "norm").auc.mean > 0.99
    assert value(found, "touched").auc.mean > 0.99 or method == "fcf_als"
    assert all(one.passed for one in found.controls)


def test_one_seed_one_answer() -> None:
    setting = Setting(targets=5, clients=(2,), watched=1)
    first, again = (attack_interactions(resolve("fedmf"), setting) for _ in range(2))
    assert first == again
    other = attack_interactions(resolve("fedmf"), Setting(5, (2,), watched=1, seed=1))
    assert first != other


# What cannot be attacked


@pytest.mark.parametrize(
    ("method", "plugins", "sentence"),
    [
        ("popularity", (), "has all histories"),
        ("gpfedrec", (), "personal tables"),
        ("fedmf", ("pie",), "Nobody sends"),
    ],
)
def test_refused_methods(method: str, plugins: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(TacitError, match=sentence):
        attack_interactions(resolve(method, plugins=plugins, rounds=2), Setting(targets=4))


def test_refused_settings() -> None:
    experiment = resolve("fedease")
    for setting, sentence in (
        (Setting(clients=()), "at least one number"),
        (Setting(clients=(1, 0)), "clients is 0"),
        (Setting(targets=0), "targets is 0"),
        (Setting(clients=(5000,)), "users to draw from"),
        (Setting(targets=4, first=2), "Nobody sends in round 2"),
    ):
        with pytest.raises(TacitError, match=sentence):
            attack_interactions(experiment, setting)
