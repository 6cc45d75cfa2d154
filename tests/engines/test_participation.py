"""Who takes part: shares, keys and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.data.views import Lists, TrainView
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.streams import name_of


def people(n_users: int, without_train: tuple[int, ...] = ()) -> TrainView:
    users = np.array([u for u in range(n_users) if u not in without_train])
    lists = Lists.from_pairs(users, np.zeros(len(users), dtype=np.int64), n_users)
    keys = np.array([name_of(f"person {u}") for u in range(n_users)], dtype=np.uint64)
    return TrainView(3, lists, keys, Lists.empty(n_users))


def test_everybody_by_default() -> None:
    drawn = Participation().draw(people(5), seed=0, round_number=1)
    assert drawn.user_P.tolist() == [0, 1, 2, 3, 4]
    assert drawn.reports_P.all()


def test_who_has_no_train_items_never_takes_part() -> None:
    train = people(6, without_train=(0, 4))
    assert Participation().draw(train, 0, 1).user_P.tolist() == [1, 2, 3, 5]
    for number in range(1, 30):
        drawn = Participation(ratio=0.5).draw(train, 0, number).user_P
        assert len(drawn) == 2  # half of the four who can
        assert not set(drawn.tolist()) & {0, 4}


@pytest.mark.parametrize(
    ("ratio", "n_users", "invited"),
    [
        (0.5, 5, 2),  # rounded down
        (0.01, 5, 1),  # at least one
        (0.29, 100, 29),  # 0.29 * 100 is 28.999999999999996 in floating point
        (0.57, 100, 57),
        (0.999, 10, 9),
    ],
)
def test_how_many_are_invited(ratio: float, n_users: int, invited: int) -> None:
    drawn = Participation(ratio=ratio).draw(people(n_users), 0, 1).user_P
    assert len(drawn) == invited
    assert len(set(drawn.tolist())) == invited
    assert drawn.tolist() == sorted(drawn.tolist())


def test_invitations_are_even_over_rounds() -> None:
    train, who = people(20), Participation(ratio=0.25)
    times_U = np.zeros(20)
    for number in range(1, 401):
        times_U[who.draw(train, 7, number).user_P] += 1
    # each is invited 100 times of 400, with a standard deviation of 8.7
    assert times_U.sum() == 2000
    assert np.abs(times_U - 100).max() < 4 * 8.7


def test_the_same_key_draws_the_same_people_and_others_do_not() -> None:
    train, who = people(40), Participation(0.5, 0.8, 0.3)
    one, two = who.draw(train, 1, 3), who.draw(train, 1, 3)
    assert np.array_equal(one.user_P, two.user_P)
    assert np.array_equal(one.reports_P, two.reports_P)
    assert not np.array_equal(one.user_P, who.draw(train, 1, 4).user_P)
    assert not np.array_equal(one.user_P, who.draw(train, 2, 3).user_P)


def test_order_of_users_changes_nothing() -> None:
    train, who = people(30), Participation(0.5, 0.8, 0.3)
    order_U = np.random.default_rng(0).permutation(30)
    moved = train.take(order_U)
    for number in range(1, 6):
        here, there = who.draw(train, 0, number), who.draw(moved, 0, number)
        reports = dict(zip(here.user_P.tolist(), here.reports_P.tolist(), strict=True))
        moved_reports = dict(
            zip(order_U[there.user_P].tolist(), there.reports_P.tolist(), strict=True)
        )
        assert reports == moved_reports


def test_availability_and_dropout_are_shares_drawn_apart() -> None:
    train = people(1000)
    reached = Participation(availability=0.3).draw(train, 0, 1)
    assert len(reached.user_P) == pytest.approx(300, abs=4 * math.sqrt(1000 * 0.21))
    assert reached.reports_P.all()
    dropped = Participation(dropout=0.3).draw(train, 0, 1)
    assert len(dropped.user_P) == 1000
    assert (~dropped.reports_P).sum() == pytest.approx(300, abs=4 * math.sqrt(1000 * 0.21))
    both = Participation(availability=0.3, dropout=0.3).draw(train, 0, 1)
    assert np.array_equal(both.user_P, reached.user_P)
    # were both drawn from one stream, everybody reached (lot below 0.3) would drop out
    assert both.reports_P.mean() == pytest.approx(0.7, abs=0.12)


def test_it_can_happen_that_nobody_is_reachable() -> None:
    drawn = Participation(availability=1e-9).draw(people(4), 0, 1)
    assert len(drawn.user_P) == len(drawn.reports_P) == 0


@pytest.mark.parametrize(
    ("who", "sentence"),
    [
        (Participation(ratio=0.0), "participation.ratio is 0.0; it must be above 0 and at most 1."),
        (Participation(ratio=math.nan), "participation.ratio is nan"),
        (Participation(availability=1.5), "participation.availability is 1.5"),
        (Participation(availability=-1.0), "participation.availability is -1.0"),
        (
            Participation(dropout=1.0),
            "participation.dropout is 1.0; it must be at least 0 and below 1.",
        ),
        (Participation(dropout=math.nan), "participation.dropout is nan"),
    ],
)
def test_shares_that_are_no_shares(who: Participation, sentence: str) -> None:
    with pytest.raises(TacitError) as caught:
        who.check()
    assert str(caught.value).startswith(sentence)
