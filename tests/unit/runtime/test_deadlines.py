"""Calls that end in time, and calls that exceed their deadline."""

import threading

import pytest

from kstorm.runtime.kafka.deadlines import DeadlineError, DeadlineExecutor


def test_a_call_returns_or_raises_what_it_did() -> None:
    """All calls run on one thread, which is not the caller's."""
    caller = DeadlineExecutor("calls")
    threads = {caller.call(threading.get_ident, 30) for _ in range(3)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    with pytest.raises(ZeroDivisionError):
        caller.call(lambda: 1 // 0, 30)
    with pytest.raises(TimeoutError):
        caller.call(lambda: (_ for _ in ()).throw(TimeoutError), 30)
    assert {caller.call(threading.get_ident, 30)} == threads
    caller.close()


def test_a_call_that_does_not_return_is_left_alone() -> None:
    """The next call gets another thread. The first thread ends when its call returns."""
    caller, released, stuck = DeadlineExecutor("calls"), threading.Event(), []

    def wait() -> None:
        stuck.append(threading.current_thread())
        released.wait(60)

    with pytest.raises(DeadlineError):
        caller.call(wait, 0.1)
    assert stuck[0].daemon
    assert caller.call(threading.get_ident, 30) != stuck[0].ident
    released.set()
    stuck[0].join(30)
    assert not stuck[0].is_alive()
    caller.close()
