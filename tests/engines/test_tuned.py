"""Tuned rows: room for those who took part and nobody else, and the same on a disk as in memory."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines import tuned as module
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.engines.round import Engine
from tacit.engines.scoring import Scorer
from tacit.engines.state import State
from tacit.engines.tuned import TunedRows
from tacit.errors import TacitError
from tacit.files import NotWrittenError
from tacit.methods import pfedrec
from tacit.testing.play import algorithm_for
from tacit.testing.synthetic import ragged

TRAIN = split_dataset(ragged(), CLEAN).train
ALGORITHM = algorithm_for(pfedrec(dim=4), TRAIN)
SOME = Participation(ratio=0.3)
ENGINES = {
    "loop": LoopEngine(),
    "blocks": CohortEngine(fused="never"),
    "fused": CohortEngine(fused="always"),
    "two threads": CohortEngine(fused="always", threads=2),
}


def rows_of(state: State) -> TunedRows:
    assert state.tuned is not None
    return state.tuned


def play(engine: Engine, rounds: int, folder: Path | None = None) -> State:
    state = engine.start(ALGORITHM, TRAIN, 0)
    if folder is not None:
        rows_of(state).keep_on_disk(folder)
    for number in range(1, rounds + 1):
        engine.round(ALGORITHM, TRAIN, state, SOME.draw(TRAIN, 0, number), 0)
    return state


def assert_same(one: State, two: State) -> None:
    here, there = rows_of(one), rows_of(two)
    for name in ("room_U", "start_U", "count_U", "item_C"):
        assert np.array_equal(getattr(here, name), getattr(there, name)), name
    assert torch.equal(here.value_CD, there.value_CD)
    for group in ("shared", "private"):
        for name, value in getattr(one, group).items():
            assert torch.equal(value, getattr(two, group)[name]), name


@pytest.mark.parametrize("name", ENGINES)
def test_rows_are_there_for_those_who_took_part_and_for_nobody_else(name: str) -> None:
    state = ENGINES[name].start(ALGORITHM, TRAIN, 0)
    came = np.zeros(TRAIN.n_users, bool)
    for number in range(1, 5):
        participants = SOME.draw(TRAIN, 0, number)
        came[participants.user_P] = True
        ENGINES[name].round(ALGORITHM, TRAIN, state, participants, 0)
        tuned = rows_of(state)
        assert np.array_equal(tuned.start_U >= 0, came)
        assert np.array_equal(tuned.count_U > 0, came)
        assert len(tuned.value_CD) == len(tuned.item_C) == tuned.room_U[came].sum()
    assert 0 < came.sum() < TRAIN.n_users
    # rooms touch, and none runs into another
    order = np.argsort(tuned.start_U[came])
    start_K, room_K = tuned.start_U[came][order], tuned.room_U[came][order]
    assert np.array_equal(start_K, np.cumsum(room_K) - room_K)
    assert (tuned.count_U <= tuned.room_U).all()


@pytest.mark.parametrize("name", ENGINES)
def test_on_a_disk_are_the_same_numbers_bit_for_bit(name: str, tmp_path: Path) -> None:
    there, here = play(ENGINES[name], 5, tmp_path), play(ENGINES[name], 5)
    assert_same(there, here)
    everybody = np.arange(TRAIN.n_users)
    one, two = (Scorer(ALGORITHM, state)(everybody) for state in (there, here))
    assert np.array_equal(one, two)
    assert list(tmp_path.iterdir()) == []  # the files have no names


def test_rows_that_were_in_memory_move_to_a_disk_and_play_on(tmp_path: Path) -> None:
    state, alone = play(LoopEngine(), 2), play(LoopEngine(), 4)
    rows_of(state).keep_on_disk(tmp_path)
    assert_same(state, play(LoopEngine(), 2))
    for number in (3, 4):
        LoopEngine().round(ALGORITHM, TRAIN, state, SOME.draw(TRAIN, 0, number), 0)
    assert_same(state, alone)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_copy_is_of_the_same_kind_and_shares_nothing(on_disk: bool, tmp_path: Path) -> None:
    state = play(LoopEngine(), 2, tmp_path if on_disk else None)
    copy = state.copy()
    assert isinstance(rows_of(copy)._values, module.OnDisk if on_disk else module.InMemory)
    for number in (3, 4):
        LoopEngine().round(ALGORITHM, TRAIN, state, SOME.draw(TRAIN, 0, number), 0)
    assert_same(copy, play(LoopEngine(), 2))
    for number in (3, 4):
        LoopEngine().round(ALGORITHM, TRAIN, copy, SOME.draw(TRAIN, 0, number), 0)
    assert_same(copy, state)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not told here")
def test_files_are_closed_when_the_rows_are_gone(tmp_path: Path) -> None:
    def opened() -> int:
        gc.collect()
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return sum(str(tmp_path) in os.readlink(link) for link in links if os.path.islink(link))

    state = play(LoopEngine(), 2, tmp_path)
    assert opened() >= 2
    del state
    assert opened() == 0


def test_a_full_disk_is_told_before_the_round_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = play(LoopEngine(), 1, tmp_path)
    before = state.copy()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_extend", full)
    with pytest.raises(NotWrittenError, match=r"No space left on device.*make room on that disk"):
        LoopEngine().round(ALGORITHM, TRAIN, state, SOME.draw(TRAIN, 0, 2), 0)
    assert state.round_number == 1
    assert_same(state, before)


def test_too_little_memory_for_the_next_rows_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = play(LoopEngine(), 1)
    monkeypatch.setattr("tacit.memory.available_bytes", lambda: 10)
    with pytest.raises(TacitError, match=r"took part so far need .*private_on_disk=True"):
        LoopEngine().round(ALGORITHM, TRAIN, state, Participation().draw(TRAIN, 0, 2), 0)


def test_more_rows_than_a_user_has_room_for_are_refused() -> None:
    tuned = TunedRows.of_nobody(np.array([1, 1]), dim=2, dtype=torch.float32)
    tuned.write(0, np.array([3]), torch.ones(1, 2))
    with pytest.raises(ValueError, match="user 0 has room for 1 rows"):
        tuned.write(0, np.array([3, 4]), torch.ones(2, 2))
