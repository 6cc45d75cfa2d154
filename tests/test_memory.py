"""Memory is asked for before it is taken."""

from __future__ import annotations

import pytest

from tacit.errors import TacitError
from tacit.memory import available_bytes, require_memory


def test_what_fits_passes_and_what_does_not_is_refused_in_a_sentence() -> None:
    require_memory(100, what="Tables", hint="use less", free=100)
    with pytest.raises(TacitError) as caught:
        require_memory(5_000_000_000, what="Tables", hint="lower dim", free=2_500_000_000)
    assert str(caught.value) == (
        "Tables need 5.0 GB of memory but only 2.5 GB are free; lower dim."
    )


def test_nothing_free_is_not_the_same_as_nothing_known() -> None:
    with pytest.raises(TacitError):
        require_memory(1, what="Tables", hint="use less", free=0)


def test_where_the_system_does_not_say_nothing_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("tacit.memory.available_bytes", lambda: None)
    require_memory(10**18, what="Tables", hint="use less")


def test_the_system_is_asked_when_nothing_is_given(monkeypatch) -> None:
    monkeypatch.setattr("tacit.memory.available_bytes", lambda: 10)
    with pytest.raises(TacitError):
        require_memory(11, what="Tables", hint="use less")


def test_this_machine_has_some() -> None:
    free = available_bytes()
    assert free is None or 2**20 < free < 2**60
