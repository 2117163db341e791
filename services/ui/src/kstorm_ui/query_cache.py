"""Queries to Kafka and ZooKeeper that run only on demand, outside the event loop, and are shared by
concurrent viewers."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, Final

from kstorm.errors import AbsentError, KstormError

KEPT_SECS: Final = 5.0
ABSENT: Final = 404
AWAY: Final = 503


_ENDS: Final = "the web UI shuts down: reload the page in a moment"


class QueryProblem(str):
    """Reason why a query has no answer, or ""."""

    __slots__ = ("status",)

    def __new__(cls, said: str = "", status: int = AWAY) -> "QueryProblem":
        """`status`: the HTTP status if there is a reason."""
        problem = super().__new__(cls, said)
        problem.status = status if said else 200
        return problem

    status: int
    """HTTP status: 200 with an answer, 404 if the object does not exist, 503 if the servers do not
    respond."""


class QueryCache:
    """Answers by query name, each kept for five seconds. A running query is awaited, not rerun."""

    def __init__(self, at_once: int) -> None:
        """`at_once`: number of concurrent queries. Queries have their own threads, so that the
        polling of topologies never waits for them."""
        self._asked: dict[object, tuple[float, asyncio.Future[Any]]] = {}
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="asking")
        self._true_since = -inf
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Answer all waiting requests at once, because the web UI shuts down."""
        self._closing.set()

    def forget(self) -> None:
        """Discard earlier answers, because something was changed. Thread-safe."""
        self._true_since = time.monotonic()

    async def answer(
        self, name: object, ask: Callable[[], Any], kept: float = KEPT_SECS
    ) -> tuple[Any, QueryProblem]:
        """Return the answer, at most `kept` seconds old, and the problem."""
        now = time.monotonic()
        self._asked = {
            key: each
            for key, each in self._asked.items()
            if each[0] >= self._true_since and (now - each[0] < KEPT_SECS or not each[1].done())
        }
        before = self._asked.get(name)
        if before is None or (now - before[0] >= kept and before[1].done()):
            running = asyncio.get_running_loop().run_in_executor(self._pool, ask)
            running.add_done_callback(_retrieve)
            self._asked[name] = now, running
        asked = self._asked[name][1]
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({asked, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
        if not asked.done():
            return None, QueryProblem(_ENDS)
        try:
            return asked.result(), QueryProblem()
        except AbsentError as error:
            return None, QueryProblem(str(error), ABSENT)
        except KstormError as error:
            return None, QueryProblem(str(error))


def _retrieve(asked: "asyncio.Future[Any]") -> None:
    """Retrieve an error, because asyncio logs errors that no request has retrieved."""
    if not asked.cancelled():
        asked.exception()
