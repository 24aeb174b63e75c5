"""Signals end a measurement, and do not keep it from cleaning up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from rowbus.bench.place import terminated_like_interrupted, undisturbed

Handling = Callable[[signal.Handlers], object]


@pytest.fixture
def interrupts() -> Iterator[Handling]:
    """Give what changes how this process handles Ctrl-C, for one test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


def test_a_termination_does_what_ctrl_c_does_now() -> None:
    with terminated_like_interrupted(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_termination_ends_it_also_where_ctrl_c_is_ignored(interrupts: Handling) -> None:
    """As it is for what a script starts in the background."""
    interrupts(signal.SIG_IGN)

    with terminated_like_interrupted(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_the_process_has_its_own_handling_again() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with terminated_like_interrupted():
        assert signal.getsignal(signal.SIGTERM) != before

    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_waits_until_cleaning_up_is_done() -> None:
    done = False

    def clean_up() -> None:
        nonlocal done
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            done = True

    with pytest.raises(KeyboardInterrupt):
        clean_up()
    assert done
