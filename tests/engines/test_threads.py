"""The test that threads change nothing can fail: faults of the kind it is there for are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import tacit.engines
from tacit.compiled import compiled
from tacit.core.method import Method
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines import fused, fused_guidance, fused_views
from tacit.engines.cohort import CohortEngine
from tacit.methods import fcf, fedmf, fedncf, pfedrec
from tacit.plugins import fedrkg
from tacit.plugins.fusion import fedmr
from tacit.testing.play import Trace, trace
from tacit.testing.threads import LOOPS, POOLS, assert_threads_change_nothing
from tacit.testing.worlds import ragged, with_content

CROWD = split_dataset(with_content(ragged(n_users=150, n_items=40)), CLEAN).train
FEW = split_dataset(ragged(n_users=24, n_items=40), CLEAN).train  # one chunk


def guided(method: Method) -> Method:
    return fedrkg(method, beta=0.5, every=1, gate_rate=0.5, at="same")


METHODS = {
    "linear": fedmf(dim=4, per_item=1.0),
    "perceptron": fedncf(dim=5, layers=(4, 3, 1)),
    "views": fedmr(fcf(dim=4, rate=1.0), id_width=5, encoder_rate=0.05),
    "guidance, linear": guided(pfedrec(dim=4)),
    "guidance, perceptron": guided(fedncf(dim=5, layers=(4, 3, 1))),
}


def on(method: Method, train: TrainView = CROWD) -> Callable[[CohortEngine], Trace]:
    return lambda engine: trace(method, train, engine, rounds=2)


@pytest.mark.parametrize("name", METHODS)
def test_threads_change_nothing(name: str) -> None:
    assert_threads_change_nothing(on(METHODS[name]))


@pytest.mark.parametrize("name", ["linear", "perceptron", "views"])
def test_sums_in_the_order_of_threads_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each thread added its chunks up and the sums of threads were added at last."""
    threads = 1

    def by_thread(total_C: np.ndarray) -> np.ndarray:
        found: np.ndarray = sum(total_C[first::threads].sum(axis=0) for first in range(threads))
        return found

    def play(engine: CohortEngine) -> Trace:
        nonlocal threads
        threads = engine.threads
        return on(METHODS[name])(engine)

    for module in (fused, fused_views):
        monkeypatch.setattr(module, "in_order", by_thread)
    with pytest.raises(AssertionError, match="two threads change"):
        assert_threads_change_nothing(play)


@pytest.mark.parametrize("name", ["perceptron", "views", "guidance, perceptron"])
def test_a_chunk_that_two_threads_take_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(each_chunk: Callable[..., None]) -> Callable[..., None]:
        def call(kernel: Any, chunks: int, threads: int, *arguments: Any) -> None:
            def again(chunk: int, *arguments: Any) -> None:
                for _ in range(threads if chunk == chunks - 1 else 1):
                    kernel(chunk, *arguments)

            each_chunk(again, chunks, threads, *arguments)

        return call

    for module in POOLS:
        monkeypatch.setattr(module, "each_chunk", twice(module.each_chunk))
    with pytest.raises(AssertionError, match="two threads change"):
        assert_threads_change_nothing(on(METHODS[name]))


@pytest.mark.parametrize("name", ["linear", "guidance, linear"])
def test_users_that_two_threads_take_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def overlapping(kernel: Callable[..., None]) -> Callable[..., None]:
        def call(chunk_start: np.ndarray, *arguments: Any) -> None:
            kernel(chunk_start, *arguments)
            if numba.get_num_threads() > 1:
                kernel(chunk_start[:2], *arguments)

        call.__name__ = kernel.__name__
        return call

    for module, kernel in LOOPS:
        monkeypatch.setattr(module, kernel, overlapping(getattr(module, kernel)))
    with pytest.raises(AssertionError, match="two threads change"):
        assert_threads_change_nothing(on(METHODS[name]))


@pytest.mark.parametrize("name", ["linear", "perceptron"])
def test_one_chunk_proves_nothing(name: str) -> None:
    with pytest.raises(AssertionError, match="one chunk is all that one thread can take"):
        assert_threads_change_nothing(on(METHODS[name], FEW))


@pytest.mark.parametrize("name", METHODS)
def test_an_engine_that_stays_on_one_thread_is_found(name: str) -> None:
    with pytest.raises(AssertionError, match="not 2 threads"):
        assert_threads_change_nothing(lambda engine: on(METHODS[name])(replace(engine, threads=1)))


def test_every_place_that_uses_threads_is_watched() -> None:
    folder = Path(tacit.engines.__file__).parent
    using = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        if any(word in file.read_text() for word in ("prange(", "each_chunk(", "parallel=True"))
    }
    kernels = {"kernels/linear_cpu.py", "kernels/gates_cpu.py"}  # of LOOPS
    pools = {"fused.py", "fused_guidance.py", "fused_views.py"}
    assert using == {*kernels, *pools, "device.py"}
    assert [module.__name__.rsplit(".")[-1] + ".py" for module in POOLS] == sorted(pools)
    assert [name for _, name in LOOPS] == ["linear_rounds", "guide_linear"]
    assert fused_guidance.guide_linear.targetoptions["parallel"] is True


@compiled(parallel=True)
def _who(thread_C):  # type: ignore[no-untyped-def]
    for chunk in numba.prange(len(thread_C)):
        thread_C[chunk] = numba.get_thread_id()


def test_numbas_loop_gives_each_thread_its_share() -> None:
    """What `watched` relies on: as many threads work as `get_num_threads` says."""
    if numba.config.NUMBA_NUM_THREADS < 2:  # type: ignore[attr-defined]
        pytest.skip("this machine has one core")
    before = numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            thread_C = np.full(4, -1)
            _who(thread_C)
            assert len(set(thread_C.tolist())) == threads
    finally:
        numba.set_num_threads(before)
