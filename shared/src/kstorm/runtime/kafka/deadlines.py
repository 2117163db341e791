"""Runs librdkafka calls that may block forever, with a hard deadline."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

_Calls = SimpleQueue[tuple[Callable[[], Any], "Future[Any]"] | None]


class DeadlineError(Exception):
    """A call did not return in time. It may still return, but its result is discarded."""


class DeadlineExecutor:
    """Makes calls one at a time on its own thread.

    A call that does not return in time is abandoned together with its thread, which does not
    prevent the process from exiting. The next call gets a new thread.
    """

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._calls: _Calls | None = None

    def call(self, call: Callable[[], T], seconds: float) -> T:
        """Return the call's result or raise its exception, or `DeadlineError` after `seconds`."""
        future = self.begin(call)
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():
                raise
            self.close()
            raise DeadlineError from None

    def begin(self, call: Callable[[], T]) -> "Future[T]":
        """Start a call without waiting."""
        if self._calls is None:
            self._calls = SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._calls,), name=self._name, daemon=True
            ).start()
        future: Future[T] = Future()
        self._calls.put((call, future))
        return future

    def close(self) -> None:
        """End the thread after its current call."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


def _serve(calls: _Calls) -> None:
    while (order := calls.get()) is not None:
        call, future = order
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - passed to the caller
            future.set_exception(error)
        else:
            future.set_result(result)
        # Without this, a replaced producer would stay alive until the next call.
        del (order, call, future)
