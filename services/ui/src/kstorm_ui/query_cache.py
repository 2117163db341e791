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
        polling of topologies never waits for them.
        """
        self._asked: dict[object, tuple[float, asyncio.Future[Any]]] = {}
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="asking")
        self._true_since = -inf

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
            self._asked[name] = now, asyncio.get_running_loop().run_in_executor(self._pool, ask)
        try:
            return await asyncio.shield(self._asked[name][1]), QueryProblem()
        except AbsentError as error:
            return None, QueryProblem(str(error), ABSENT)
        except KstormError as error:
            return None, QueryProblem(str(error))
