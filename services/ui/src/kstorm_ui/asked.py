"""What is asked only when somebody looks: of Kafka and ZooKeeper, beside the page's loop, once for all who look at that time."""

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


class Problem(str):
    """Why there is no answer, in words; empty if there is one."""

    __slots__ = ("status",)

    def __new__(cls, said: str = "", status: int = AWAY) -> "Problem":
        """`status`: of HTTP, if there are words."""
        problem = super().__new__(cls, said)
        problem.status = status if said else 200
        return problem

    status: int
    """Of HTTP: 200 with an answer, 404 if what was asked for is not there, 503 if nobody can say."""


class Asked:
    """Answers by their names, each kept for five seconds; a question that is under way is waited for, not asked again."""

    def __init__(self, at_once: int) -> None:
        """`at_once`: how many questions are asked at a time, in threads of their own: no look at what runs waits for them."""
        self._asked: dict[object, tuple[float, asyncio.Future[Any]]] = {}
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="asking")
        self._true_since = -inf

    def forget(self) -> None:
        """Something was changed: what was asked before may not be so any more. From any thread."""
        self._true_since = time.monotonic()

    async def answer(
        self, name: object, ask: Callable[[], Any], kept: float = KEPT_SECS
    ) -> tuple[Any, Problem]:
        """The answer, not older than `kept` seconds, and why there is none."""
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
            return await asyncio.shield(self._asked[name][1]), Problem()
        except AbsentError as error:
            return None, Problem(str(error), ABSENT)
        except KstormError as error:
            return None, Problem(str(error))
