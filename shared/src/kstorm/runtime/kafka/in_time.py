"""Calls that may never return, whatever time they are given: librdkafka has such ones."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

_Calls = SimpleQueue[tuple[Callable[[], Any], "Future[Any]"] | None]


class NotInTimeError(Exception):
    """A call has not returned. It may still do so, and nobody hears of it."""


class Caller:
    """Makes calls on a thread of its own, one at a time. A call that does not return in time is left alone with its thread, which
    does not keep the process from ending; the next call gets another thread."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._calls: _Calls | None = None

    def call(self, call: Callable[[], T], seconds: float) -> T:
        """What it returns or raises; `NotInTimeError` if it does neither within `seconds`."""
        future = self.begin(call)
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():
                raise
            self.close()
            raise NotInTimeError from None

    def begin(self, call: Callable[[], T]) -> "Future[T]":
        """Makes a call, for whoever waits for it in a way of his own."""
        if self._calls is None:
            self._calls = SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._calls,), name=self._name, daemon=True
            ).start()
        future: Future[T] = Future()
        self._calls.put((call, future))
        return future

    def close(self) -> None:
        """The thread ends when its call has returned."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


def _serve(calls: _Calls) -> None:
    while (order := calls.get()) is not None:
        call, future = order
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - the caller's
            future.set_exception(error)
        else:
            future.set_result(result)
        del (
            order,
            call,
            future,
        )  # else a producer that was replaced would live on until the next call
