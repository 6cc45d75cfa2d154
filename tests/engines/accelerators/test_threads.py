"""The test that threads change nothing can fail: faults of the kind it is there for are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit.engines
from tacit.core.method import Method
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.accelerators import one_pass, perceptron, views
from tacit.engines.cohort import CohortEngine
from tacit.methods import fcf, fedmf, fedncf, pfedrec
from tacit.plugins import fedrkg
from tacit.plugins.fusion import fedmr
from tacit.testing.play import Trace, trace
from tacit.testing.synthetic import ragged, with_content
from tacit.testing.threads import POOL, assert_threads_change_nothing

MANY_USERS = split_dataset(with_content(ragged(n_users=150, n_items=40)), CLEAN).train
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


def on(method: Method, train: TrainView = MANY_USERS) -> Callable[[CohortEngine], Trace]:
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

    for module in (one_pass, perceptron, views):
        monkeypatch.setattr(module, "in_order", by_thread)
    with pytest.raises(AssertionError, match="two threads change"):
        assert_threads_change_nothing(play)


@pytest.mark.parametrize("name", METHODS)
def test_a_chunk_that_two_threads_take_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(each_chunk: Callable[..., None]) -> Callable[..., None]:
        def call(kernel: Any, chunks: int, threads: int, *arguments: Any) -> None:
            def again(chunk: int, *arguments: Any) -> None:
                for _ in range(threads if chunk == chunks - 1 else 1):
                    kernel(chunk, *arguments)

            each_chunk(again, chunks, threads, *arguments)

        return call

    monkeypatch.setattr(POOL, "each_chunk", twice(POOL.each_chunk))
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


def test_the_one_place_that_uses_threads_is_watched() -> None:
    folder = Path(tacit.engines.__file__).parent
    using = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        if any(word in file.read_text() for word in ("prange(", "each_chunk(", "parallel=True"))
    }
    assert using == {"device.py", "accelerators/queue.py"}
    assert POOL.__name__.endswith("accelerators.queue")
