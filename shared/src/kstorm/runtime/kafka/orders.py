"""Calls that other threads want made on a consumer, made by the one thread that owns it.

librdkafka's Python consumer holds its lock while it polls, so a call from another thread can wait for as long as polls
follow each other; here it waits for one at most.
"""

import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Orders:
    """A queue of calls. `give` from any thread, `serve` from the owner's."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()

    def give(self, call: Callable[[], T]) -> "Future[T]":
        """Asks for a call; the future has its result or its exception."""
        future: Future[T] = Future()
        self._queue.put((call, future))
        return future

    def serve(self) -> None:
        """Makes the calls that wait."""
        while True:
            try:
                call, future = self._queue.get_nowait()
            except queue.Empty:
                return
            if (
                not future.set_running_or_notify_cancel()
            ):  # whoever gave the order no longer waits for it
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever gave the order
                future.set_exception(error)
