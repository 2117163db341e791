"""Queues calls from other threads on a consumer for the thread that owns it.

librdkafka's Python consumer holds its lock while it polls. So a direct call from another thread
might have to wait for many polls. A queued call waits for at most one poll.
"""

import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class ConsumerCallQueue:
    """A queue of calls. Call `give` from any thread and `serve` from the owner's thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()

    def give(self, call: Callable[[], T]) -> "Future[T]":
        """Queue a call. The future gets its result or exception."""
        future: Future[T] = Future()
        self._queue.put((call, future))
        return future

    def serve(self) -> None:
        """Make all queued calls."""
        while True:
            try:
                call, future = self._queue.get_nowait()
            except queue.Empty:
                return
            # The caller has cancelled the call.
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - passed to the caller
                future.set_exception(error)
